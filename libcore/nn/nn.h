/* nn - the communicators, streams and sizes that every layer of this rank's model uses;
 * the shape of a pass.
 *
 * Activations are [s, b, h]: row t of a matrix is position t / batch of batch entry
 * t % batch.  Inside a tensor-parallel region (from a column-parallel to a row-parallel
 * linear layer) a rank has all rows.  Outside of it, with sequence parallelism, it has 'rows' of
 * them, a contiguous part of the sequence (Korthikanti et al. 2022).
 *
 * With context parallelism all of this is about the rank's own part of the sequence
 * (topo/context.h).  Only the attention needs keys and values of other ranks (struct
 * nn_exchange).
 */
#ifndef LIBCORE_NN_NN_H
#define LIBCORE_NN_NN_H

#include <stdint.h>

#include "libcore/device/device.h"
#include "libcore/nn/config.h"
#include "libcore/tensor/tensor.h"
#include "libcore/topo/context.h"
#include "megatron/comm.h"

/* A stream of transfers beside the compute stream, and the events between the two. */
struct nn_side {
    struct mg_stream *stream;      /* NULL: there is none */
    struct mg_event *computed;     /* compute stream -> this stream */
    struct mg_event *communicated; /* this stream -> compute stream */
    bool *open;                    /* there is work that the compute stream does not wait for */
};

/* The experts of this rank and the ranks that it exchanges tokens with (dispatch.h).  Without
 * experts all is zero but the ranks.
 */
struct nn_experts {
    struct mg_comm *ep, *etp, *group; /* of GROUP_EP, GROUP_ETP, GROUP_TP_EP;
                                         NULL, as the two below, if no layer has experts */
    int ep_rank, ep_size, etp_rank, etp_size;
    int stride_ep, stride_etp; /* the rank in 'group' is ep_rank stride_ep + etp_rank stride_etp */
    struct mg_comm *sequence;  /* GROUP_TP_CP: the ranks that have parts of the same sequences */
    struct mg_comm *all;       /* GROUP_TP_DP_CP: the ranks that have the same routers */
    struct nn_side side;       /* side stream of the exchange of tokens */
    int64_t local;             /* experts of this rank */
    int64_t local_ffn;         /* this rank's part of the size of each */
    int64_t hidden;            /* size of the inputs and outputs of experts */
    int64_t capacity;          /* rows of an expert for the tokens of this rank; 0: unlimited */
    bool padded;               /* every expert has so many rows */
    int64_t choices;           /* the most rows of the tokens of this rank */
    int64_t limit;             /* rows that an expert-tensor-parallel rank receives in a round */
    int64_t rows;              /* rows of the experts in a round */
    int64_t routed;            /* numbers of a slot and layer in host memory */
    struct tensor summands;    /* [limit][etp_size] int32: row k limit + i for summand k of row i;
                                  empty without expert-tensor parallelism */
    size_t *lists;             /* host memory for counts and offsets of an exchange */
};

/* What the rank has. */
struct nn {
    struct model_config config;
    enum mg_dtype dtype; /* of parameters and activations: float32, bfloat16, float16 */
    enum mg_dtype weight_storage; /* of the matrices of layers: 'dtype', or float8 */
    const struct kernels *kern;
    struct mg_comm *tp; /* tensor-parallel group */
    int tp_rank, tp_size;
    struct mg_comm *cp; /* context-parallel group, and the groups of its two levels: neighbours,
                           and those at this rank's place among other neighbours */
    struct mg_comm *cp_inner, *cp_outer; /* NULL: no layer needs levels */
    int cp_rank, cp_size;                /* cp_size 1: a rank has whole sequences */
    struct context_config context;       /* only read while layers are described */
    struct nn_experts experts;
    struct mg_stream *compute;
    struct nn_side tp_side; /* of collectives that overlap kernels */
    struct nn_side cp_side; /* of transfers of keys and values */

    /* sizes of this rank's shards */
    int64_t hidden, local_heads;
    int64_t head_dim, head_dim_v; /* of a query or key, of a value */
    int64_t local_attention;      /* local_heads * head_dim_v */
    int64_t local_groups; /* of query heads; the fused product has [group][queries, key, value] */
    int64_t group_ranks;  /* consecutive ranks that use one group (groups.c); 1: none share */
    int64_t local_ffn, local_vocab;

    const float *rope; /* device memory, [seq of the shape][2 rope_pairs]: struct kern_rope's table
                          for this rank's part of the sequence; NULL before model_bind(), or
                          without rotary positions */
};

/* The shape of a pass. */
struct nn_shape {
    int64_t batch, seq, tokens; /* micro-batch size, positions on this rank, batch * seq */
    int64_t whole_seq;          /* positions of a sequence, on all context-parallel ranks */
    int64_t rows;               /* this rank's rows outside tensor-parallel regions */
    struct kern_positions position; /* of these rows */
    struct tensor positions; /* [whole_seq] int32: of the rows of context-parallel rank 0, then of
                                rank 1 ...; empty: rows are at their positions */
};

/* How the attention of a layer gets the keys and values of other context-parallel ranks.
 * The heads are dealt out among 'inner' neighbours: each then has a part of the heads,
 * for the rows of all neighbours.  The keys and values of 'outer' such neighbourhoods go
 * round between the ranks, or are gathered.
 */
struct nn_exchange {
    int inner, inner_rank;
    struct mg_comm *inner_comm;
    int outer, outer_rank;
    struct mg_comm *outer_comm;
    bool gather; /* keys and values are gathered; then inner is 1 */
};

/* Work on a side stream: what is enqueued between nn_side_begin() and nn_side_end() runs after the
 * work that is now on the compute stream.  nn_side_wait() makes the compute stream wait for it, if
 * it has not done so before.
 */
int nn_side_begin (const struct nn *nn, const struct nn_side *side, struct mg_error *err);
void nn_side_end (const struct nn_side *side);
int nn_side_wait (const struct nn *nn, const struct nn_side *side, struct mg_error *err);

/* The side streams as bits of a set. */
enum { NN_TP_SIDE = 1, NN_CP_SIDE = 2, NN_EP_SIDE = 4, NN_ALL_SIDES = 7 };

/* "tensor-parallel", the first one of a set. */
const char *nn_side_text (unsigned sides);

/* Returns the side streams that have work for which the compute stream does not wait yet. */
unsigned nn_open_sides (const struct nn *nn);

/* nn_side_wait() for each side stream of a set. */
int nn_await (const struct nn *nn, unsigned sides, struct mg_error *err);

/* Forget work on side streams that was captured and will never run. */
void nn_forget_sides (const struct nn *nn);

/* Enter a tensor-parallel region: returns the rows of all tokens, made from this rank's rows 'x'
 * [rows, hidden].  The result is x itself or, with sequence parallelism, in 'all' [tokens, hidden].
 * NULL and a text on failure.
 */
const void *nn_enter (const struct nn *nn, const struct nn_shape *shape, const void *x, void *all,
                      struct mg_error *err);

/* Leave a tensor-parallel region.  'partial' [tokens, columns] holds this rank's summands;
 * afterwards nn_own_rows() of 'partial' holds the sums of this rank's rows.  16-bit summands are
 * added up in float32 and rounded once.
 */
int nn_leave (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
              struct mg_error *err);

/* The same on the tensor-parallel side stream, after the work that is now on the compute stream.
 * The caller may enqueue other kernels on the compute stream, which waits for the sum after
 * nn_await (NN_TP_SIDE).
 */
int nn_leave_start (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
                    struct mg_error *err);

/* Enqueue transfers of keys and values on the cp stream, after the work that is now on the compute
 * stream; make the compute stream wait for them.
 */
int nn_transfer_start (const struct nn *nn, struct mg_comm *comm, const struct mg_p2p *list, int n,
                       struct mg_error *err);
int nn_transfer_wait (const struct nn *nn, struct mg_error *err);

/* Returns a weight as products take it: itself, or, if it is stored in float8, written out in
 * 'converted', which has room for it.  NULL and a text on failure.
 */
struct param;
const void *nn_weight (const struct nn *nn, const struct param *w, void *converted,
                       struct mg_error *err);

/* All-reduce of float32 over the tensor-parallel group, on the compute stream. */
int nn_all_reduce (const struct nn *nn, float *buf, int64_t count, enum mg_reduce_op op,
                   struct mg_error *err);

/* Returns the number by which patterns of layers know transformer layer 'number': the layers for
 * multi-token prediction begin again with 0.
 */
static inline int nn_pattern_number (const struct nn *nn, int number)
{
    return number % nn->config.num_layers;
}

/* Returns the groups and this rank's places of an exchange. */
struct nn_exchange nn_exchange (const struct nn *nn, enum context_comm comm);

/* Set the sizes from the configuration, tp_size, and ep_size and etp_size of 'experts'.  The
 * configuration is valid.
 */
void nn_set_sizes (struct nn *nn);

/* Set the numbers of rows that experts take, for passes of a shape. */
void nn_set_rows (struct nn *nn, const struct nn_shape *shape);

/* Where heads are in rows of this rank: group g of a row begins at 'first' + g stride_g, and its
 * heads are stride_h apart.  Rows follow each other, groups stride_g apart as well.
 */
enum heads {
    HEADS_QUERIES = 1,
    HEADS_KEYS = 2,
    HEADS_BOTH = HEADS_QUERIES | HEADS_KEYS,
    HEADS_LATENT_QUERIES = 4, /* of multi-latent attention: the rotated end of each query */
    HEADS_LATENT_KEY = 8,     /* the rotated end of the latent, the one key of all heads */
};
struct nn_heads {
    int64_t first, groups, heads, stride_g, stride_h;
};

/* 'fused': in the product of queries, keys and values, whose columns are
 * [group][queries, key, value]; else alone, or queries and keys as [group][queries, key].
 */
struct nn_heads nn_heads (const struct nn *nn, enum heads which, bool fused);

/* Returns the first of this rank's rows among those of all tokens; returns this rank's rows in
 * 'all', which has the rows of all tokens, or of this rank alone.
 */
int64_t nn_own_row (const struct nn *nn, const struct nn_shape *shape);
void *nn_own_rows (const struct nn *nn, const struct nn_shape *shape,
                   const struct tensor *all);

#endif /* LIBCORE_NN_NN_H */
