/* optimizer - main gradients, AdamW's moments, and one step over the elements that a rank owns.
 *
 * An optimizer stands on buffers (buffers.h), which have the model's parameters and gradients,
 * and on main parameters (main_params.h), which it updates.  Its own values are main gradients
 * and two moments of every element that this rank owns.  They are float32, or stored in fewer
 * bytes (struct optimizer_types); updates compute in float32 all the same, and others read and
 * write float32.  Values that have a scale (struct kern_state) are stored by an update with one
 * scale for a tensor, whose largest magnitude all ranks agree on: so results do not depend on
 * how the tensor is cut.
 *
 * The step: the buffers sum gradients over the data-parallel group (the loss's weight holds the
 * 1 / size, or the reduction averages).  Main gradients are made of these sums.  Where gradients
 * are of a 16-bit type, each of their sums rounds once, and main gradients are float32.  Main
 * gradients are then summed over the tensor-parallel group (parameters of which each rank saw
 * its own rows) and over the embedding group (tied embeddings).  The global norm is formed once
 * across all axes; clipped gradients go through AdamW.
 */
#ifndef LIBCORE_OPTIM_OPTIMIZER_H
#define LIBCORE_OPTIM_OPTIMIZER_H

#include "libcore/optim/buffers.h"
#include "libcore/optim/main_params.h"

/* Types of the optimizer's own values; all zeros: float32.  Moments may be what struct
 * kern_state offers.
 */
struct optimizer_types {
    enum mg_dtype main_grad; /* float32, or the type of gradients */
    enum mg_dtype exp_avg, exp_avg_sq; /* first and second moment */
};

struct optimizer_config {
    double beta1, beta2, eps;
    double clip_grad; /* 0: no clipping */
    bool count_zeros; /* with the norm, count gradients that are zero */
    bool snapshot;    /* room for optimizer_take_snapshot() */
    struct optimizer_types types;
};

struct optimizer;

/* Describe an optimizer over buffers and main parameters, which are kept and stay until after
 * optimizer_destroy().  Allocates no device memory.
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
    OPTIMIZER_PART_PACKED,   /* gradients on their way over the tensor-parallel group */
    OPTIMIZER_NUM_PARTS
};
int64_t optimizer_bytes (const struct optimizer *o, enum optimizer_part part);

/* Allocate what an optimizer needs, after buffers_bind() and main_params_bind(). */
int optimizer_bind (struct optimizer *o, struct mg_error *err);

/* Sum gradients over the groups that share parameters, in this order.  Main gradients in this
 * rank's ranges are the sums afterwards.
 */
enum optimizer_share {
    OPTIMIZER_DATA,      /* buffers_reduce(), and main gradients of these sums */
    OPTIMIZER_SEQUENCE,  /* parameters of which each tensor-parallel rank saw its rows */
    OPTIMIZER_EMBEDDING, /* tied embeddings, over the embedding group */
    OPTIMIZER_NUM_SHARES
};
int optimizer_reduce_share (struct optimizer *o, enum optimizer_share share,
                            struct mg_error *err);

/* All of them. */
int optimizer_reduce_grads (struct optimizer *o, struct mg_error *err);

/* What all ranks agree on in one small all-reduce a step, besides the norm: 'extra'
 * values are summed over all ranks in rank order.
 */
enum { OPTIMIZER_MAX_EXTRA = 8 };

/* *norm = L2 norm of the whole model's gradient, every parameter counted once; extra[i] =
 * sum over all ranks.  Host values, the same bits on every rank.  A NaN or infinity
 * anywhere makes the norm not finite.
 */
int optimizer_grad_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                         struct mg_error *err);

/* Elements that are zero in the gradient of the last optimizer_grad_norm(): of the whole model,
 * every parameter counted once, padding not.  The same on every rank.
 */
int64_t optimizer_zeros (const struct optimizer *o);

/* Multiply the main gradients by 'factor': before an update whose norm was multiplied too. */
int optimizer_scale_grads (struct optimizer *o, double factor, struct mg_error *err);

/* One AdamW update with gradients multiplied by min (1, clip / (norm + 1e-6)).  The model's
 * parameters in this rank's ranges are new afterwards: buffers_gather() has to follow.
 */
int optimizer_step (struct optimizer *o, double lr, double weight_decay, double norm,
                    struct mg_error *err);

/* Steps taken so far (bias correction); settable on resume. */
int64_t optimizer_steps (const struct optimizer *o);
void optimizer_set_steps (struct optimizer *o, int64_t steps);

/* The values of every element that this rank owns.  Ranges are those of the buffers. */
enum optimizer_value {
    OPTIMIZER_MAIN_PARAM, /* of the main parameters */
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

/* Copy main parameters and moments as they are stored, if there is room for that and this rank's
 * ranges count.  Blocks until the compute stream is done.
 */
int optimizer_take_snapshot (struct optimizer *o, struct mg_error *err);

/* True if some rank has room for a copy. */
bool optimizer_has_snapshot (const struct optimizer *o);

/* optimizer_read() of the copy that was taken last.  Any one thread may call it while others go on
 * with everything else; it does not wait for the compute stream.
 */
int optimizer_snapshot_read (struct optimizer *o, size_t range, enum optimizer_value value,
                             int64_t from, int64_t n, float *out, struct mg_error *err);

#endif /* LIBCORE_OPTIM_OPTIMIZER_H */
