/* nn - what every layer of this rank's model needs in order to run.
 *
 * Activations are [s, b, h]: row t of a matrix is position t / batch of batch entry
 * t % batch.
 */
#ifndef LIBCORE_NN_NN_H
#define LIBCORE_NN_NN_H

#include <stdint.h>

#include "libcore/device/device.h"
#include "libcore/nn/config.h"
#include "megatron/comm.h"

struct nn {
    struct model_config config;
    const struct kernels *kern;
    struct mg_comm *tp; /* tensor-parallel group */
    int tp_rank, tp_size;
    struct mg_stream *compute;
    struct mg_stream *tp_stream;   /* carries the collectives that overlap kernels */
    struct mg_event *computed;     /* compute stream -> tp stream */
    struct mg_event *communicated; /* tp stream -> compute stream */
    int64_t batch, seq, tokens;    /* micro-batch size, positions, batch * seq */

    /* sizes of this rank's shards */
    int64_t hidden, local_heads, head_dim, local_attention; /* heads * head_dim */
    int64_t local_ffn, local_vocab;
};

/* What a pass works on: one microbatch. */
struct nn_batch {
    int32_t *token; /* [tokens] in [s, b] order */
    int32_t *label;
    float *mask;     /* [tokens] weight of a token in the loss */
    int64_t *sample; /* [batch] consumed-sample indices: coordinates of randomness */
};

/* All-reduce 'buf' ([tokens, hidden]) over the tensor-parallel group on the compute
 * stream.
 */
int nn_tp_all_reduce (const struct nn *nn, float *buf, struct mg_error *err);

/* The same started on the tp stream after what is enqueued on the compute stream; kernels
 * may be enqueued until nn_tp_wait().
 */
int nn_tp_all_reduce_start (const struct nn *nn, float *buf, struct mg_error *err);
int nn_tp_wait (const struct nn *nn, struct mg_error *err);

#endif /* LIBCORE_NN_NN_H */
