/* optimizer_private - the members of an optimizer, for the files that implement it. */
#ifndef LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H
#define LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H

#include "libcore/optim/main_params_private.h"
#include "libcore/optim/optimizer.h"

/* Gradients of the dense, or the expert, sequence-parallel parameters, one after the other. */
struct optimizer_packed {
    float *grad;
    int64_t n;
};

struct optimizer {
    struct optimizer_config config;
    struct buffers *buffers;
    struct main_params *main;
    struct owned value[OPTIMIZER_NUM_VALUES]; /* the place of main parameters is empty */
    struct owned copy[OPTIMIZER_NUM_VALUES];  /* the last snapshot, without main gradients */
    struct owned copy_upper; /* upper halves of the main parameters in 'copy' */
    struct mg_comm *embd;
    struct optimizer_packed packed[2];
    struct kern_three *agreed; /* [num_tensors] largest magnitudes over all ranks; NULL: nothing
                                  is scaled */
    double *reduced;           /* [num_tensors + OPTIMIZER_MAX_EXTRA + 1] */
    double apart_norm;         /* norm of tensors that are 'apart' */
    int64_t num_zeros;
    double vocabulary_lr; /* learning rate of the vocabulary in the current step */
    int64_t steps;
};

/* Returns a value of the optimizer, or of its main parameters. */
static inline struct owned *optimizer_owned (const struct optimizer *o,
                                             enum optimizer_value value)
{
    return value == OPTIMIZER_MAIN_PARAM ? &o->main->value
                                         : (struct owned *)&o->value[value];
}

/* Set the scales of tensors by the largest magnitudes of their ranges, which are among
 * the device's findings. Collective over all ranks; blocks.
 */
int optimizer_find_scales (struct optimizer *o, struct mg_error *err);
struct kern_three optimizer_scales (const struct optimizer *o, size_t range);

/* The copy for checkpoints: its description and its memory. */
int optimizer_snapshot_create (struct optimizer *o, struct mg_error *err);
int64_t optimizer_snapshot_bytes (const struct optimizer *o);
int optimizer_snapshot_bind (struct optimizer *o, struct mg_error *err);
void optimizer_snapshot_clear (struct optimizer *o);

/* Gradients that are packed for the sum over tensor-parallel ranks. */
int64_t optimizer_sums_bytes (const struct optimizer *o);
int optimizer_sums_bind (struct optimizer *o, struct mg_error *err);
void optimizer_sums_clear (struct optimizer *o);

#endif /* LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H */
