/* optimizer - main gradients, AdamW's moments, and one step over the elements that a rank owns.
 *
 * An optimizer uses buffers (buffers.h), which have the model's parameters and gradients, and
 * main parameters (main_params.h), which it updates.  Its own values are the main gradient and
 * two moments of every element that this rank owns.  They are float32, or stored in fewer bytes
 * (struct optimizer_types).  Updates compute in float32 whatever the stored type, and callers
 * read and write float32.  If values have a scale (struct kern_state), an update stores a tensor
 * with one scale, made of its largest magnitude on all ranks.  So results do not depend on how
 * the tensor is cut.
 *
 * A step has these parts:
 *
 * - The buffers sum gradients over the data-parallel group.  The mean is in the loss's weight, or
 *   the reduction averages.
 * - Main gradients are made of these sums.  If gradients are of a 16-bit type, each sum is rounded
 *   once, and main gradients are float32.
 * - Main gradients are summed over the tensor-parallel group, for parameters of which
 *   each rank has processed its own rows, and over the embedding group, for tied
 *   embeddings.
 * - The norm of the whole gradient is computed over all ranks.
 * - AdamW updates main parameters and moments with the clipped gradients.
 */
#ifndef LIBCORE_OPTIM_OPTIMIZER_H
#define LIBCORE_OPTIM_OPTIMIZER_H

#include "libcore/optim/buffers.h"
#include "libcore/optim/main_params.h"

/* Types of the optimizer's own values; all zeros: float32.  Moments may have any type of struct
 * kern_state.
 */
struct optimizer_types {
    enum mg_dtype main_grad; /* float32, or the type of gradients */
    enum mg_dtype exp_avg, exp_avg_sq; /* first and second moment */
};

struct optimizer_config {
    double beta1, beta2, eps;
    double clip_grad; /* 0: no clipping */
    bool decay_qk_norm; /* weight decay applies to norms of queries and keys too */
    bool count_zeros; /* with the norm, count gradients that are zero */
    bool snapshot;    /* room for optimizer_take_snapshot() */
    int apart, num_apart; /* tensors from order 'apart' on have a norm of their own, by
                             which their gradients are clipped */
    struct optimizer_types types;
};

struct optimizer;

/* Describe an optimizer over buffers and main parameters, which must outlive it.  The main
 * parameters are kept ones (main_params_config.keep).  Allocates no device memory.
 */
struct optimizer *optimizer_create (const struct optimizer_config *config,
                                    struct buffers *buffers, struct main_params *main,
                                    struct mg_error *err);
void optimizer_destroy (struct optimizer *o);

/* Bytes that optimizer_bind() allocates on the device. */
enum optimizer_part {
    OPTIMIZER_PART_MAIN_GRADS, /* main gradients that are not the gradients */
    OPTIMIZER_PART_MOMENTS,
    OPTIMIZER_PART_SNAPSHOT, /* a copy for checkpoints, on ranks whose ranges count */
    OPTIMIZER_PART_PACKED,   /* gradients that are packed for the sum over the
                              * tensor-parallel group */
    OPTIMIZER_NUM_PARTS
};
int64_t optimizer_bytes (const struct optimizer *o, enum optimizer_part part);

/* Allocate what an optimizer needs, after buffers_bind() and main_params_bind(). */
int optimizer_bind (struct optimizer *o, struct mg_error *err);

/* Sum gradients over one kind of group.  Call the function for each kind, in this order; afterwards
 * main gradients in this rank's ranges are the sums.
 */
enum optimizer_share {
    OPTIMIZER_DATA,      /* buffers_reduce(), and main gradients of these sums */
    OPTIMIZER_SEQUENCE,  /* parameters of which each tensor-parallel rank has processed
                          * its own rows */
    OPTIMIZER_EMBEDDING, /* tied embeddings, over the embedding group */
    OPTIMIZER_NUM_SHARES
};
int optimizer_reduce_share (struct optimizer *o, enum optimizer_share share,
                            struct mg_error *err);

/* Sum over all kinds of groups, in order. */
int optimizer_reduce_grads (struct optimizer *o, struct mg_error *err);

/* The most 'extra' values that optimizer_reduce_norm() sums. */
enum { OPTIMIZER_MAX_EXTRA = 16 };

/* Enqueue the sums of which optimizer_reduce_norm() makes the norm, and their download. */
int optimizer_measure_grads (struct optimizer *o, struct mg_error *err);

/* After optimizer_measure_grads() and a wait of the host for the compute stream: *norm = L2 norm of
 * the whole model's gradient, where every parameter counts once.  The same
 * all-reduce sums each extra[i] over all ranks, in rank order: this is how ranks agree on something
 * once a step.  Both are in host memory and have the same bits on every rank.  A NaN or infinity in
 * any gradient makes the norm not finite.  Tensors that are 'apart' are not in the norm.
 * But if the norm of these tensors is not finite, *norm is their norm.
 */
int optimizer_reduce_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                           struct mg_error *err);

/* Calls optimizer_measure_grads(), waits, then calls optimizer_reduce_norm(). */
int optimizer_grad_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                         struct mg_error *err);

/* The number of zeros in the whole model's gradient at the last optimizer_reduce_norm(), where
 * every parameter counts once and padding does not count.  The same on every rank.
 */
int64_t optimizer_zeros (const struct optimizer *o);

/* *norm = L2 norm of all main parameters of the whole model, where every parameter counts once.
 * The same bits on every rank.  Collective over all ranks; blocks.
 */
int optimizer_param_norm (struct optimizer *o, double *norm, struct mg_error *err);

/* Multiply the main gradients by 'factor'.  The caller multiplies the norm for optimizer_step()
 * too; the optimizer does so with the norm of tensors that are 'apart'.
 */
int optimizer_scale_grads (struct optimizer *o, double factor, struct mg_error *err);

/* One AdamW update with gradients multiplied by min (1, clip / (norm + 1e-6)).  It changes the
 * model's parameters in this rank's ranges, so that buffers_gather() has to follow.
 */
int optimizer_step (struct optimizer *o, double lr, double weight_decay, double norm,
                    struct mg_error *err);

/* The same with another learning rate for parameters of the vocabulary (param->vocabulary). */
int optimizer_step_decoupled (struct optimizer *o, double lr, double vocabulary_lr,
                              double weight_decay, double norm, struct mg_error *err);

/* The number of steps so far, for AdamW's bias correction; a resumed run sets it. */
int64_t optimizer_steps (const struct optimizer *o);
void optimizer_set_steps (struct optimizer *o, int64_t steps);

/* The optimizer has these values for every element that this rank owns.  Ranges are those of the
 * buffers.
 */
enum optimizer_value {
    OPTIMIZER_MAIN_PARAM, /* of struct main_params */
    OPTIMIZER_MAIN_GRAD,
    OPTIMIZER_EXP_AVG, /* first moment */
    OPTIMIZER_EXP_AVG_SQ,
    OPTIMIZER_NUM_VALUES
};

/* The device address of a value of a range if it is float32, else NULL. */
float *optimizer_plain (const struct optimizer *o, size_t range, enum optimizer_value value);

/* Read elements [from, from + n) of a value, counted from the range's first, as float32 into
 * host memory.  Blocks until the compute stream is done.
 */
int optimizer_read (struct optimizer *o, size_t range, enum optimizer_value value,
                    int64_t from, int64_t n, float *out, struct mg_error *err);

/* Replace a value of a whole range by float32 from host memory, stored in the value's type.
 * Blocks as optimizer_read().
 */
int optimizer_write (struct optimizer *o, size_t range, enum optimizer_value value,
                     const float *in, struct mg_error *err);

/* Copy main parameters and moments as they are stored into host memory, if there is room for that
 * and this rank's ranges count.  Blocks until the compute stream is done.
 */
int optimizer_take_snapshot (struct optimizer *o, struct mg_error *err);

/* True if some rank has room for a copy. */
bool optimizer_has_snapshot (const struct optimizer *o);

/* optimizer_read() of the copy that was taken last.  It uses no stream and no device, so
 * one thread at a time may call it while other threads train.
 */
int optimizer_snapshot_read (struct optimizer *o, size_t range, enum optimizer_value value,
                             int64_t from, int64_t n, float *out, struct mg_error *err);

#endif /* LIBCORE_OPTIM_OPTIMIZER_H */
