/* main_params - the exact values of parameters, and how the model's parameters are made of them.
 *
 * An optimizer updates main parameters, and files hold main parameters.  A float32 parameter is
 * its own main parameter.  If the model's parameters are of a 16-bit type or float8, main
 * parameters are float32, or stored in fewer bytes (struct kern_state), and the model's
 * parameters are made of them by rounding (Micikevicius et al. 2018).  A float8 parameter also
 * has a scale, on which all ranks agree: main_params_float8.c.
 *
 * Each rank has the main parameters of the elements that it owns (buffers.h).  A run without
 * updates does not keep main parameters: they exist from main_params_write() to
 * main_params_to_model(), while parameters are loaded, and the memory plan leaves them out.  Ranges
 * are those of the buffers.
 */
#ifndef LIBCORE_OPTIM_MAIN_PARAMS_H
#define LIBCORE_OPTIM_MAIN_PARAMS_H

#include "libcore/optim/buffers.h"

struct main_params_config {
    enum mg_dtype dtype; /* type of the main parameters, if the parameters are not float32 */
    bool remainders;     /* if main parameters are float32 and parameters are bfloat16:
                            store only the lower halves of main parameters, since the
                            parameters are the upper halves */
    bool float8;         /* some parameters of the model are in float8, on this rank or another */
    bool keep;           /* keep main parameters: they are updated, or must be read exactly */
};

struct main_params;

/* Describe the main parameters of 'buffers', which must outlive them.  Allocates no device
 * memory.
 */
struct main_params *main_params_create (const struct main_params_config *config,
                                        struct buffers *buffers, struct mg_error *err);
void main_params_destroy (struct main_params *m);

/* Bytes that main_params_bind() allocates on the device.  Call buffers_bind() before
 * main_params_bind().
 */
int64_t main_params_bytes (const struct main_params *m);
int main_params_bind (struct main_params *m, struct mg_error *err);

/* Copy the initial values (param_init()) to the main parameters, and make float8
 * parameters of the main parameters.  Collective over all ranks.
 */
int main_params_init (struct main_params *m, struct mg_error *err);

/* Make the model's parameters of the main parameters, on all ranks that share them, after all
 * ranges were written.  Collective over all ranks.  A rank on which the call fails still takes
 * part in the collectives, so that ranks can agree on the result.
 */
int main_params_to_model (struct main_params *m, struct mg_error *err);

/* The device address of a range's main parameters if they are float32, else NULL. */
float *main_params_plain (const struct main_params *m, size_t range);

/* Read elements [from, from + n) of a range as float32 into host memory.  If there are no main
 * parameters, this reads the model's parameters.  Blocks until the compute stream is done.
 */
int main_params_read (struct main_params *m, size_t range, int64_t from, int64_t n, float *out,
                      struct mg_error *err);

/* Replace a whole range by float32 from host memory, rounded to the type of main parameters.
 * The model's parameters follow with main_params_to_model().  Blocks as main_params_read().
 */
int main_params_write (struct main_params *m, size_t range, const float *in,
                       struct mg_error *err);

#endif /* LIBCORE_OPTIM_MAIN_PARAMS_H */
