/* buffers - parameters and gradients of a rank in contiguous memory, summed and gathered over
 * the ranks that share them.
 *
 * Training, evaluation and generation use buffers.  Only training has gradients, and an
 * optimizer (optimizer.h) over the buffers.  main_params.h writes parameters that were loaded.
 *
 * Each data-parallel rank has all parameters of its stage.  Buffers that are sharded (layout.h)
 * have one owner for each element among these ranks.  A reduction leaves the sum of an element's
 * gradients with its owner, the owner updates the element, and gathering sends the new parameters
 * to all ranks.  If the job has several 'instances' of the distributed optimizer, each instance
 * owns all shards, and a reduction also adds up the sums of the instances.  Buffers that are not
 * sharded have one shard: every rank owns everything.
 *
 * Parameters of experts have groups of their own: the ranks of the expert-data-parallel group
 * share them.  Their summed gradients are still divided by the size of the data-parallel group.
 *
 * Buffers sum gradients over data-parallel ranks only, in the type of the gradients.  The
 * optimizer sums main gradients over tensor-parallel ranks and over the embedding group, in the
 * type of main gradients.
 */
#ifndef LIBCORE_OPTIM_BUFFERS_H
#define LIBCORE_OPTIM_BUFFERS_H

#include "libcore/job/job.h"
#include "libcore/nn/param.h"
#include "libcore/optim/layout.h"

struct buffers_config {
    bool sharded;              /* each rank owns a shard of every bucket */
    int64_t bucket_size;       /* elements of a bucket, 0: one bucket */
    bool high_busbw;           /* sharded: buckets end at multiples of 2^16 */
    bool no_grads;             /* there is no memory for gradients */
    enum mg_dtype grad;        /* type of gradients: float32 or the parameters' own */
    bool average;              /* reductions average over data-parallel ranks */
    bool overlap_grad_reduce;  /* reduce a bucket while the backward pass goes on */
    bool overlap_param_gather; /* gather a bucket while others are used; sharded only */
    bool local_norm;           /* keep what buffers_local_norm() returns */
};

struct buffers;

/* Lay out the n parameters, and set their grad_dtype.  Allocates no device memory.  The
 * buffers keep 'params', of which the caller changes nothing afterwards.  'stream' is the
 * compute stream.  num_tensors is the number of tensors of the whole model: param->order is
 * below it.
 */
struct buffers *buffers_create (const struct buffers_config *config, const struct job *job,
                                struct mg_stream *stream, struct param *params, size_t n,
                                int num_tensors, struct mg_error *err);
void buffers_destroy (struct buffers *b);

/* Bytes that buffers_bind() allocates on the device; the number of elements, padding included. */
enum buffers_part { BUFFERS_PARAMS, BUFFERS_GRADS, BUFFERS_NUM_PARTS };
int64_t buffers_bytes (const struct buffers *b, enum buffers_part part);
int64_t buffers_elements (const struct buffers *b);

/* Bytes of pinned host memory that buffers_bind() allocates. */
int64_t buffers_staging_bytes (const struct buffers *b);

/* For values in device memory that the run's own thread reads and writes. */
struct bounce;
const struct bounce *buffers_bounce (const struct buffers *b);

/* Allocate the memory, zeroed, and set data and grad of every parameter.  Without gradients
 * param->grad is NULL.  Float8 parameters are the exception: until main_params_init() returns,
 * their grad is memory for initial values (param_init()), outside the plan.
 */
int buffers_bind (struct buffers *b, struct mg_error *err);

/* --- what this rank owns --- */

/* Elements [from, to) of a parameter's part on this rank, all of which this rank owns. */
struct buffers_range {
    size_t param;
    int64_t from, to;
    int buffer;        /* place in the layout's list */
    int64_t shard;     /* place of the first element among the elements of the buffer that this
                          rank owns: the shards of all buckets, one after the other */
    void *data, *grad; /* the first element; NULL before buffers_bind(), or without gradients */
};

/* The ranges, in ascending order of parameters, at most one for each parameter. */
size_t buffers_num_ranges (const struct buffers *b);
const struct buffers_range *buffers_range_at (const struct buffers *b, size_t range);

/* True if this rank's ranges of dense or expert parameters count in norms and are written to
 * files.  If several ranks own the same ranges, those of one rank count.
 */
bool buffers_counts (const struct buffers *b, bool expert);

/* --- gradients --- */

/* Set all gradients to zero, before an iteration's first backward pass. */
int buffers_zero_grad (struct buffers *b, struct mg_error *err);

/* The same, before passes that write every gradient that is a product.  Large gradients of this
 * kind are not set to zero: their first product overwrites them (param->fresh).
 */
int buffers_begin_grad (struct buffers *b, struct mg_error *err);

/* With overlap_grad_reduce, before an iteration's passes: announce that buffers_grads_ready()
 * will be called num_microbatches times for every parameter.
 */
void buffers_expect (struct buffers *b, int64_t num_microbatches);

/* A backward pass has added its part to the gradients of parameters first to first + n - 1.
 * The last call for a bucket starts the bucket's reduction.  Does nothing without
 * overlap_grad_reduce.
 */
int buffers_grads_ready (struct buffers *b, size_t first, size_t n, struct mg_error *err);

/* Sum the gradients over the data-parallel ranks, and make the compute stream wait for sums
 * that were started before.  Afterwards the gradients in this rank's ranges are sums.
 */
int buffers_reduce (struct buffers *b, struct mg_error *err);

/* L2 norm of this rank's gradients as they were before buffers_reduce() and buffers_grads_ready()
 * summed them, as of the last optimizer_measure_grads(); NaN without local_norm.
 */
double buffers_local_norm (const struct buffers *b);

/* --- parameters --- */

/* Send the parameters in this rank's ranges to all ranks that share them, after an update.
 * Does nothing if the buffers are not sharded.  With overlap_param_gather this call only
 * starts the gathering, and other ranks' parameters come later.
 */
int buffers_gather (struct buffers *b, struct mg_error *err);

/* Make the compute stream wait until parameters first to first + n - 1 have arrived. */
int buffers_params_needed (struct buffers *b, size_t first, size_t n, struct mg_error *err);

/* Wait until all parameters have arrived. */
int buffers_params_wait (struct buffers *b, struct mg_error *err);

#endif /* LIBCORE_OPTIM_BUFFERS_H */
