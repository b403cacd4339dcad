/* main_params - the exact values of parameters, and how the model's parameters are made of them.
 *
 * Main parameters are what an optimizer updates and what files hold.  A float32 parameter is its
 * own main parameter.  Where the model's parameters are of a 16-bit type or float8, main
 * parameters are float32, or stored in fewer bytes (struct kern_state), and the model's are made
 * of them by rounding (Micikevicius et al. 2018).  A float8 parameter also has a scale, which
 * all ranks agree on: main_params_float8.c.
 *
 * Each rank has main parameters of the elements that it owns (buffers.h).  Main parameters that
 * are not kept exist from main_params_write() to main_params_give() only, outside the plan: this
 * is how a run without updates loads its parameters.  Ranges are those of the buffers.
 */
#ifndef LIBCORE_OPTIM_MAIN_PARAMS_H
#define LIBCORE_OPTIM_MAIN_PARAMS_H

#include "libcore/optim/buffers.h"

struct main_params_config {
    enum mg_dtype dtype; /* of main parameters of parameters that are not float32 */
    bool remainders;     /* float32 main parameters of bfloat16 ones: store only their lower
                            halves, since the model's parameters are the upper ones */
    bool float8;         /* some parameters of the model, on whatever rank, are in float8 */
    bool keep;           /* they are updated, or are to be read exactly */
};

struct main_params;

/* Describe the main parameters of buffers that stay until after main_params_destroy().
 * Allocates no device memory.
 */
struct main_params *main_params_create (const struct main_params_config *config,
                                        struct buffers *buffers, struct mg_error *err);
void main_params_destroy (struct main_params *m);

/* Bytes that main_params_bind() allocates on the device.  buffers_bind() comes first. */
int64_t main_params_bytes (const struct main_params *m);
int main_params_bind (struct main_params *m, struct mg_error *err);

/* Make main parameters of the initial values (param_init()), and float8 parameters of main
 * ones on all ranks.  Collective over all ranks.
 */
int main_params_take (struct main_params *m, struct mg_error *err);

/* Make the model's parameters of the main ones, on all ranks that share them, after all ranges
 * were written.  Collective over all ranks: a rank on which it fails has done its part of the
 * collectives all the same, so that ranks can agree on the result.
 */
int main_params_give (struct main_params *m, struct mg_error *err);

/* The device address of a range's main parameters if they are float32, else NULL. */
float *main_params_plain (const struct main_params *m, size_t range);

/* Read elements [from, from + n) of a range as float32 into host memory.  If there are no main
 * parameters, this reads the model's own.  Blocks until the compute stream is done.
 */
int main_params_read (struct main_params *m, size_t range, int64_t from, int64_t n, float *out,
                      struct mg_error *err);

/* Replace a whole range by float32 from host memory, rounded to the type of main parameters.
 * The model's parameters follow with main_params_give().  Blocks as main_params_read().
 */
int main_params_write (struct main_params *m, size_t range, const float *in,
                       struct mg_error *err);

#endif /* LIBCORE_OPTIM_MAIN_PARAMS_H */
