/* main_params_private - the members of struct main_params, for the files of this folder. */
#ifndef LIBCORE_OPTIM_MAIN_PARAMS_PRIVATE_H
#define LIBCORE_OPTIM_MAIN_PARAMS_PRIVATE_H

#include "libcore/optim/main_params.h"
#include "libcore/optim/owned.h"

struct main_params {
    struct main_params_config config;
    struct buffers *buffers;
    struct owned value; /* a float32 parameter is its own main parameter */
    float *found;       /* [num_ranges] largest magnitudes of ranges, in host memory */
    float *largest;     /* [num_tensors] largest magnitudes of tensors, of all ranks */
};

/* True if the model's parameters of a buffer are the upper halves of the main ones. */
bool main_params_has_halves (const struct main_params *m, int buffer);

/* True if the model's parameters of a range are roundings of main parameters that exist apart
 * from them: neither the main parameters themselves, nor their upper halves, nor float8, which
 * needs a scale.
 */
bool main_params_is_rounded (const struct main_params *m, size_t range);

/* Compute m->largest, the largest magnitudes of whole tensors, from m->found of all
 * ranks.  Collective over all ranks; blocks. */
int main_params_agree_largest (struct main_params *m, struct mg_error *err);

/* Round main parameters of this rank's ranges to float8 parameters, before these are
 * gathered, and set the scales of all float8 parameters.  Collective over all ranks, also
 * on a rank that fails; blocks.  Does nothing for a model without float8 parameters.
 */
int main_params_quantise (struct main_params *m, struct mg_error *err);

#endif /* LIBCORE_OPTIM_MAIN_PARAMS_PRIVATE_H */
