/* optimizer - parameters, gradients and AdamW's moments in contiguous buffers, and one
 * step over them.
 *
 * The step: gradients are summed over the data-parallel group (the loss's weight holds
 * the 1 / size), tied embeddings over the embedding group; the global norm is formed once
 * across all axes; clipped gradients go through AdamW.
 */
#ifndef LIBCORE_OPTIM_OPTIMIZER_H
#define LIBCORE_OPTIM_OPTIMIZER_H

#include "libcore/job/job.h"
#include "libcore/nn/param.h"
#include "libcore/optim/layout.h"

struct optimizer_config {
    double beta1, beta2, eps;
    double clip_grad;    /* 0: no clipping */
    int64_t bucket_size; /* elements of a gradient bucket, 0: one bucket */
};

struct optimizer;

/* Bytes that optimizer_create() will allocate for n parameters. */
size_t optimizer_bytes (const struct param *params, size_t n);

/* Lay out and allocate; sets data and grad of every parameter (zeroed). 'stream' is the
 * compute stream. num_tensors: of the whole model, see param->order.
 */
struct optimizer *optimizer_create (const struct optimizer_config *config,
                                    const struct job *job, struct mg_stream *stream,
                                    struct param *params, size_t n, int num_tensors,
                                    struct mg_error *err);
void optimizer_destroy (struct optimizer *o);

/* Gradients to zero, before an iteration's first backward pass. */
int optimizer_zero_grad (struct optimizer *o, struct mg_error *err);

/* Sum gradients over the groups that share parameters: in this order, or all at once. */
enum optimizer_share {
    OPTIMIZER_SEQUENCE,  /* parameters of which each tensor-parallel rank saw its rows */
    OPTIMIZER_DATA,      /* all of them, over the data-parallel group */
    OPTIMIZER_EMBEDDING, /* tied embeddings, over the embedding group */
    OPTIMIZER_NUM_SHARES
};
int optimizer_reduce_share (struct optimizer *o, enum optimizer_share share,
                            struct mg_error *err);
int optimizer_reduce_grads (struct optimizer *o, struct mg_error *err);

/* What all ranks agree on in one small all-reduce a step, besides the norm: 'extra'
 * values are summed over all ranks in rank order.
 */
enum { OPTIMIZER_MAX_EXTRA = 8 };

/* *norm = L2 norm of the whole model's gradient, every parameter counted once; extra[i] =
 * sum over all ranks.  Host values, the same bits on every rank. A NaN or infinity
 * anywhere makes the norm not finite.
 */
int optimizer_grad_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                         struct mg_error *err);

/* Multiply all gradients by 'factor': before an update whose norm was multiplied too. */
int optimizer_scale_grads (struct optimizer *o, double factor, struct mg_error *err);

/* One AdamW update with gradients multiplied by min (1, clip / (norm + 1e-6)). */
int optimizer_step (struct optimizer *o, double lr, double weight_decay, double norm,
                    struct mg_error *err);

/* Steps taken so far (bias correction); settable on resume. */
int64_t optimizer_steps (const struct optimizer *o);
void optimizer_set_steps (struct optimizer *o, int64_t steps);

/* First and second moment of parameter i. */
float *optimizer_exp_avg (struct optimizer *o, size_t i);
float *optimizer_exp_avg_sq (struct optimizer *o, size_t i);

#endif /* LIBCORE_OPTIM_OPTIMIZER_H */
