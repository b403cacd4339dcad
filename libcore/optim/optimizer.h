/* optimizer - parameters, gradients and AdamW's moments in contiguous buffers, and one
 * step over them.
 *
 * Where the model's parameters are of a 16-bit type, the optimizer has main parameters, in
 * float32 as gradients and moments are: they are what is updated, saved and loaded, and the
 * model's are made of them by rounding (Micikevicius et al. 2018).  A float32 model's are
 * their own main parameters.
 *
 * It may be told to store these in fewer bytes (struct optimizer_types); updates compute in
 * float32 all the same, and others read and write float32.  Values that have a scale (struct
 * kern_state) are stored by an update with one scale for a tensor, of whose parts the ranks
 * tell each other the largest magnitudes: so results do not depend on how it is cut.
 *
 * The step: gradients are summed over the data-parallel group (the loss's weight holds
 * the 1 / size, or the reduction averages), tied embeddings over the embedding group; the
 * global norm is formed once across all axes; clipped gradients go through AdamW.
 * Parameters of experts have groups of their own: the ranks of the expert-data-parallel group
 * share them, and what they add up is still divided by the size of the data-parallel group.
 *
 * Where gradients are of a 16-bit type, microbatches are added up in it and each of its
 * reductions rounds once; what updates read, the main gradients, is made of these sums, and
 * the sums over the tensor-parallel and the embedding group are formed in it.
 *
 * A distributed optimizer (ZeRO-1, Rajbhandari et al. 2020) reduces every bucket of
 * gradients so that each data-parallel rank gets the sums of its shard only, keeps moments
 * for and updates only that, and gathers the parameters.  Its ranks form 'instances' groups
 * if asked to: shards are those of an instance, whose sums are then added up across the
 * instances.  Without it each rank has one shard, everything.
 */
#ifndef LIBCORE_OPTIM_OPTIMIZER_H
#define LIBCORE_OPTIM_OPTIMIZER_H

#include "libcore/job/job.h"
#include "libcore/nn/param.h"
#include "libcore/optim/layout.h"

/* Types of the optimizer's own memory; all zeros: float32.  Main parameters and moments may
 * be what struct kern_state offers.
 */
struct optimizer_types {
    enum mg_dtype grad;      /* gradients as passes add them up and ranks reduce them */
    enum mg_dtype main_grad; /* as updates read them: float32, or the same */
    enum mg_dtype main;      /* main parameters, of parameters that are not float32 */
    bool remainders;         /* float32 main parameters of bfloat16 ones: only what these lack,
                                their lower halves */
    enum mg_dtype exp_avg, exp_avg_sq; /* first and second moment */
};

struct optimizer_config {
    double beta1, beta2, eps;
    double clip_grad;    /* 0: no clipping */
    int64_t bucket_size; /* elements of a gradient bucket, 0: one bucket */
    bool high_busbw;     /* sharded: buckets end at multiples of 2^16 */
    bool count_zeros;    /* with the norm, count gradients that are zero */
    bool overlap_grad_reduce;  /* reduce a bucket while the backward pass goes on */
    bool overlap_param_gather; /* gather a bucket while others are used; sharded only */
    bool sharded;        /* distributed optimizer; its instances are the job's */
    bool float8;         /* some parameters of the model, on whatever rank, are in float8 */
    bool snapshot;       /* room for optimizer_take_snapshot() */
    bool average;        /* reductions over data-parallel ranks average */
    bool frozen;         /* there will be no updates: neither gradients nor moments, and main
                            parameters only where they are not the model's and ... */
    bool keep_main;      /* ... these are to be written */
    struct optimizer_types types;
};

struct optimizer;

/* Bytes that optimizer_create() will allocate on the device for n parameters, by what they
 * hold; -1 and a text if they cannot be laid out.  *elements is what the buffers hold, padding
 * included: parameters and gradients are for all of them, main gradients, main parameters and
 * moments for this rank's shard.
 */
enum optimizer_part {
    OPTIMIZER_PARAMS,
    OPTIMIZER_GRADS,
    OPTIMIZER_MAIN_GRADS, /* gradients as updates read them, where the model's are not so */
    OPTIMIZER_MAIN, /* main parameters, where they are not the model's */
    OPTIMIZER_MOMENTS,
    OPTIMIZER_SNAPSHOT, /* a copy for checkpoints, on ranks whose ranges count */
    OPTIMIZER_PACKED, /* gradients on their way over the tensor-parallel group */
    OPTIMIZER_NUM_PARTS
};
int optimizer_bytes (const struct optimizer_config *config, const struct job *job,
                     const struct param *params, size_t n,
                     int64_t bytes[OPTIMIZER_NUM_PARTS], int64_t *elements,
                     struct mg_error *err);

/* Lay out and allocate; sets data and grad of every parameter (zeroed). 'stream' is the
 * compute stream. num_tensors: of the whole model, see param->order.  Of a frozen one grad is
 * NULL, but for float8 parameters until optimizer_take_params(); main parameters, where they
 * are not kept, are there from optimizer_write() to optimizer_give_params(), outside the plan.
 */
struct optimizer *optimizer_create (const struct optimizer_config *config,
                                    const struct job *job, struct mg_stream *stream,
                                    struct param *params, size_t n, int num_tensors,
                                    struct mg_error *err);
void optimizer_destroy (struct optimizer *o);

/* Gradients to zero, before an iteration's first backward pass. */
int optimizer_zero_grad (struct optimizer *o, struct mg_error *err);

/* With overlap_grad_reduce, before an iteration's passes: how often optimizer_grads_ready()
 * will be told of every parameter.
 */
void optimizer_expect (struct optimizer *o, int64_t num_microbatches);

/* A backward pass has added its part to the gradients of parameters first to first + n - 1.
 * The last one of a bucket starts its reduction.
 */
int optimizer_grads_ready (struct optimizer *o, size_t first, size_t n, struct mg_error *err);

/* Sum gradients over the groups that share parameters: in this order, or all at once.  Main
 * gradients are sums afterwards; of the gradients themselves a sharded optimizer's ranges are
 * those over the data-parallel group.
 */
enum optimizer_share {
    OPTIMIZER_DATA,      /* all of them, over the data-parallel group */
    OPTIMIZER_SEQUENCE,  /* parameters of which each tensor-parallel rank saw its rows */
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

/* Of the gradient of the last optimizer_grad_norm(): elements of the whole model that are
 * zero, every parameter counted once, padding not.  The same on every rank.
 */
int64_t optimizer_zeros (const struct optimizer *o);

/* Multiply the main gradients by 'factor': before an update whose norm was multiplied too. */
int optimizer_scale_grads (struct optimizer *o, double factor, struct mg_error *err);

/* One AdamW update with gradients multiplied by min (1, clip / (norm + 1e-6)).  Of a sharded
 * optimizer optimizer_gather_params() has to follow.
 */
int optimizer_step (struct optimizer *o, double lr, double weight_decay, double norm,
                    struct mg_error *err);

/* Every rank's shard of the parameters to all, after an update.  Nothing to do if the
 * optimizer is not sharded.
 */
int optimizer_gather_params (struct optimizer *o, struct mg_error *err);

/* With overlap_param_gather that is only started, and ends before the other ranks' parts of
 * the parameters have come.  Make the compute stream wait for those of parameters first to
 * first + n - 1, or the caller for all.
 */
int optimizer_params_needed (struct optimizer *o, size_t first, size_t n,
                             struct mg_error *err);
int optimizer_params_wait (struct optimizer *o, struct mg_error *err);

/* Steps taken so far (bias correction); settable on resume. */
int64_t optimizer_steps (const struct optimizer *o);
void optimizer_set_steps (struct optimizer *o, int64_t steps);

/* The main parameters from the model's, after initial values were written there. */
int optimizer_take_params (struct optimizer *o, struct mg_error *err);

/* The model's parameters from the main ones, on all ranks, after these were loaded.  Nothing
 * is done in float32: what was loaded into data is whole.  Collective; a rank on which it fails
 * has done its part of that all the same, so that ranks can agree on the result.
 */
int optimizer_give_params (struct optimizer *o, struct mg_error *err);

/* Elements [from, to) of a parameter's part on this rank, which this rank updates. */
struct optimizer_range {
    size_t param;
    int64_t from, to;
};

/* What the optimizer has of every element that it updates. */
enum optimizer_value {
    OPTIMIZER_MAIN_PARAM,
    OPTIMIZER_MAIN_GRAD,
    OPTIMIZER_EXP_AVG, /* first moment */
    OPTIMIZER_EXP_AVG_SQ,
    OPTIMIZER_NUM_VALUES
};

/* The ranges, in ascending order of parameters, at most one each. */
size_t optimizer_num_ranges (const struct optimizer *o);
const struct optimizer_range *optimizer_range_at (const struct optimizer *o, size_t range);

/* Is there such a value?  Of a frozen optimizer main parameters alone, which are the model's
 * where they are not kept.
 */
bool optimizer_has (const struct optimizer *o, enum optimizer_value value);

/* Where a value of a range is in the device's memory, if it is plain float32, else NULL. */
float *optimizer_plain (const struct optimizer *o, size_t range, enum optimizer_value value);

/* Elements [from, from + n) of a value, counted from the range's first, as float32 in host
 * memory. Blocks until the compute stream is done.
 */
int optimizer_read (struct optimizer *o, size_t range, enum optimizer_value value,
                    int64_t from, int64_t n, float *out, struct mg_error *err);

/* Replace a value of a whole range, by float32 in host memory that is stored in the value's
 * type.  Blocks as that.
 */
int optimizer_write (struct optimizer *o, size_t range, enum optimizer_value value,
                     const float *in, struct mg_error *err);

/* Copy main parameters and moments as they are, where there is room for that and this rank's
 * ranges count.  Blocks until the compute stream is done.
 */
int optimizer_take_snapshot (struct optimizer *o, struct mg_error *err);

/* Is there room for a copy on some rank? */
bool optimizer_has_snapshot (const struct optimizer *o);

/* optimizer_plain() and optimizer_read() of the copy that was taken last: by any one thread,
 * while others go on with everything else; nothing waits for the compute stream.
 */
float *optimizer_snapshot_plain (const struct optimizer *o, size_t range,
                                 enum optimizer_value value);
int optimizer_snapshot_read (struct optimizer *o, size_t range, enum optimizer_value value,
                             int64_t from, int64_t n, float *out, struct mg_error *err);

/* Do this rank's ranges of dense or expert parameters count in norms and files?  Others hold
 * the same ones where not.
 */
bool optimizer_counts (const struct optimizer *o, bool expert);

#endif /* LIBCORE_OPTIM_OPTIMIZER_H */
