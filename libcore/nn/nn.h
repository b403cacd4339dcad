/* nn - what every layer of this rank's model needs in order to run.
 *
 * Activations are [s, b, h]: row t of a matrix is position t / batch of batch entry
 * t % batch.  Inside a tensor-parallel region (from a column-parallel to a row-parallel
 * linear) a rank has all rows; outside of it, with sequence parallelism, it has 'rows' of
 * them, a contiguous part of the sequence (Korthikanti et al. 2022).
 */
#ifndef LIBCORE_NN_NN_H
#define LIBCORE_NN_NN_H

#include <stdint.h>

#include "libcore/device/device.h"
#include "libcore/nn/config.h"
#include "megatron/comm.h"

struct check;

struct nn {
    struct model_config config;
    enum mg_dtype dtype; /* of parameters and activations: float32, bfloat16, float16 */
    enum mg_dtype weight_storage; /* of the matrices of layers: the same, or float8 */
    const struct kernels *kern;
    struct mg_comm *tp; /* tensor-parallel group */
    int tp_rank, tp_size;
    struct mg_stream *compute;
    struct mg_stream *tp_stream;   /* carries the collectives that overlap kernels */
    struct mg_event *computed;     /* compute stream -> tp stream */
    struct mg_event *communicated; /* tp stream -> compute stream */
    int64_t batch, seq, tokens;    /* micro-batch size, positions, batch * seq */
    int64_t rows;           /* of this rank outside the tensor-parallel regions */
    struct kern_positions position; /* of its rows */
    void *gathered;         /* [tokens, hidden] scratch of nn_enter(), if rows < tokens */

    void *weight; /* a float8 weight as products take it, room for the largest one; else
                     NULL */

    bool planning;          /* kernels only tell their scratch: nothing is communicated */
    struct check *check;    /* look at all that is made (nn/check.h); NULL: do not */

    /* sizes of this rank's shards */
    int64_t hidden, local_heads, head_dim, local_attention; /* heads * head_dim */
    int64_t local_ffn, local_vocab;
};

/* What a pass works on: one microbatch, in the device's memory. */
struct nn_batch {
    int32_t *token; /* [tokens] in [s, b] order */
    int32_t *label;
    float *mask;     /* [tokens] weight of a token in the loss */
    int64_t *sample; /* [batch] consumed-sample indices: coordinates of randomness */
};

/* Into a tensor-parallel region: all tokens' rows, from this rank's rows 'x' [rows,
 * hidden].  The result is x itself, or, with sequence parallelism, the one gathered
 * buffer, good until the next call.  NULL and a text on failure.
 */
const void *nn_enter (const struct nn *nn, const void *x, struct mg_error *err);

/* Out of a tensor-parallel region: 'partial' [tokens, hidden] holds this rank's summands;
 * afterwards nn_own_rows() of it holds the sum of this rank's rows.  16-bit summands are
 * added up in float32 and rounded once.
 */
int nn_leave (const struct nn *nn, void *partial, struct mg_error *err);

/* The same, started on the tp stream after what is enqueued on the compute stream; other
 * kernels may be enqueued until nn_leave_wait().
 */
int nn_leave_start (const struct nn *nn, void *partial, struct mg_error *err);
int nn_leave_wait (const struct nn *nn, struct mg_error *err);

/* Over the tensor-parallel group, of float32, on the compute stream. */
int nn_all_reduce (const struct nn *nn, float *buf, int64_t count, enum mg_reduce_op op,
                   struct mg_error *err);

/* This rank's rows in a buffer of all tokens. */
void *nn_own_rows (const struct nn *nn, void *all);

#endif /* LIBCORE_NN_NN_H */
