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
    int64_t hidden;            /* size of what experts take and give */
    bool padded;               /* every expert has as many rows as its capacity */
    int64_t routed;            /* numbers of a slot and layer in host memory */
    struct tensor summands;    /* [limit][etp_size] int32: row k limit + i for summand k of row i,
                                  with the limit that is planned; empty without expert-tensor
                                  parallelism */
    size_t *lists;             /* host memory for counts and offsets of an exchange */
};

/* What a model keeps from pass to pass: keys and values, or their latents, of 'length' positions in
 * each of 'sequences' places.  Zeros: nothing.  A pass of a model that keeps some continues
 * sequences, and has no backward half.
 *
 * A layer keeps the last nn_kept() positions of a sequence: position p is in row p % nn_kept() of
 * the sequence's place.
 */
struct nn_cache {
    int64_t sequences, length;
    int64_t rows;       /* of a pass, at most */
    struct tensor ring; /* [2 nn_kept()] int32: 0, 1, ... nn_kept() - 1, twice.  Empty: every layer
                           keeps all positions */
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
    bool sequence_parallel; /* tensors outside tensor-parallel regions are split by rows */
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
    struct nn_cache cache;
};

/* What the tokens of a pass need of the experts (nn_set_rows()); zeros without experts. */
struct nn_expert_rows {
    int64_t capacity; /* rows of an expert for the tokens of this rank; 0: unlimited */
    int64_t choices;  /* rows at most that the tokens of this rank take */
    int64_t limit;    /* rows that an expert-tensor-parallel rank receives in a round */
    int64_t rows;     /* rows of the experts in a round */
};

/* Rows of a pass that continue a sequence: they are at the positions from 'first' on, and the keys
 * and values of the positions before are in a place of the caches.
 */
struct nn_sequence {
    int64_t place, first, rows;
};

/* What a pass works on: its live shape.  Operations take every count of rows from here.  A model
 * has memory for a planned shape (nn_plan_shape()), whose counts are the largest of all passes that
 * the model is made for, and a pass has at most as many of each (nn_fits()).  The tensors of a pass
 * keep the planned shape as their capacity, and have as many live rows as the pass gives them
 * (struct nn_extent).
 */
struct nn_shape {
    int64_t batch, seq, tokens; /* micro-batch size, positions on this rank, batch * seq */
    int64_t whole_seq;          /* positions of a sequence, on all context-parallel ranks */
    int64_t rows;               /* this rank's rows outside tensor-parallel regions */
    int64_t wanted;             /* rows that the head takes, with caches; without, it takes all */
    struct nn_expert_rows experts;
    /* With caches: the rows of a pass, those of one sequence behind those of the other.  Rows
     * behind them are of no use.  The caller's, in host memory; batch is 1.
     */
    const struct nn_sequence *sequence; /* [num_sequences] */
    int num_sequences;
    struct kern_positions position; /* of this rank's rows */
    struct tensor positions; /* [whole_seq] int32: of the rows of context-parallel rank 0, then of
                                rank 1 ...; empty: rows are at their positions */
    struct tensor angles; /* [seq][2 rope_pairs] float32: struct kern_rope's table, a row for each
                             position on this rank.  Without context parallelism a row is of its
                             number as position, and there may be more.  Without memory before
                             model_bind(), empty without rotary positions */
};

/* The units in which live rows of a tensor are counted: one, sequences, this rank's rows, tokens,
 * tokens of all context-parallel ranks, rows that the head takes, and the counts of nn_expert_rows.
 */
enum nn_unit { NN_ONE, NN_SEQUENCES, NN_ROWS, NN_TOKENS, NN_WHOLE_TOKENS, NN_WANTED, NN_CHOICES,
               NN_RECEIVED, NN_EXPERT_ROWS };

/* A number of rows: 'times' for each of a unit. */
struct nn_extent {
    enum nn_unit unit;
    int64_t times;
};

static inline struct nn_extent nn_extent (enum nn_unit unit, int64_t times)
{
    return (struct nn_extent){ unit, times };
}

static inline struct nn_extent nn_times (struct nn_extent e, int64_t times)
{
    return (struct nn_extent){ e.unit, e.times * times };
}

/* The number that an extent is in passes of a shape. */
int64_t nn_count (const struct nn_shape *shape, struct nn_extent extent);

/* Set the counts of passes over 'batch' sequences of 'whole_seq' positions.  There are no tables of
 * positions and angles yet.
 */
void nn_shape_init (struct nn_shape *shape, const struct nn *nn, int64_t batch, int64_t whole_seq);

/* Set the counts of a pass that continues 'n' sequences.  With sequence parallelism there are rows
 * behind theirs, up to a multiple of the tensor-parallel ranks.
 */
void nn_shape_continue (struct nn_shape *shape, const struct nn *nn,
                        const struct nn_sequence *sequence, int n, int64_t wanted);

/* True if the attention of a transformer layer, counted from 0, has a window. */
bool nn_has_window (const struct nn *nn, int layer);

/* Returns the positions of a sequence that the cache of a layer has room for.  With a window these
 * are the positions before a pass that its first row sees, and the rows of a pass: window + rows.
 */
int64_t nn_kept (const struct nn *nn, bool window);

/* Check that the sequences of a pass are in different places of the caches, with room for their
 * positions.  Without caches there are none.  -1, EINVAL and a text if not.
 */
int nn_check_sequences (const struct nn *nn, const struct nn_shape *shape, struct mg_error *err);

/* Make each count of a planned shape at least that of another.  All zeros is a planned shape of
 * nothing.
 */
void nn_plan_shape (struct nn_shape *planned, const struct nn_shape *shape);

/* Check that a pass of this shape fits into what is planned.  -1, EINVAL and a text that names the
 * count if not.
 */
int nn_fits (const struct nn_shape *planned, const struct nn_shape *shape, struct mg_error *err);

/* True if all counts are the same. */
bool nn_same_counts (const struct nn_shape *a, const struct nn_shape *b);

/* How the attention of a layer meets the keys and values of other context-parallel ranks.  The
 * heads are dealt out among 'inner' neighbours: each then has a part of the heads, for the rows of
 * all neighbours.  The keys and values of 'outer' such neighbourhoods go round, or are gathered.
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

/* The first of this rank's nn->local_vocab columns of logits, as an id; the number of these columns
 * that are ids of the vocabulary: those behind them are padding.
 */
int64_t nn_first_column (const struct nn *nn);
int64_t nn_valid_columns (const struct nn *nn);

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

/* Set the numbers of rows that experts take, by the others of the shape. */
void nn_set_rows (const struct nn *nn, struct nn_shape *shape);

/* The places of heads in rows of this rank: group g of a row begins at 'first' + g stride_g, and
 * its heads are stride_h apart.  Rows follow each other, groups stride_g apart as well.
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
