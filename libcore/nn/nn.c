/* nn.c - into and out of tensor-parallel regions; where heads are */

#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "libcore/nn/moe_traffic.h"
#include "libcore/nn/nn.h"
#include "libcore/nn/param.h"

int nn_side_begin (const struct nn *nn, const struct nn_side *side, struct mg_error *err)
{
    mg_event_record (side->computed, nn->compute);
    return mg_stream_wait_event (side->stream, side->computed, err);
}

void nn_side_end (const struct nn_side *side)
{
    mg_event_record (side->communicated, side->stream);
    *side->open = true;
}

int nn_side_wait (const struct nn *nn, const struct nn_side *side, struct mg_error *err)
{
    if (!*side->open)
        return 0;
    *side->open = false;
    return mg_stream_wait_event (nn->compute, side->communicated, err);
}

enum { NUM_SIDES = 3 };

/* Side stream 'i', whose bit is 1 << i; NULL: the rank has no such stream. */
static const struct nn_side *side_at (const struct nn *nn, int i)
{
    const struct nn_side *side[NUM_SIDES] = { &nn->tp_side, &nn->cp_side, &nn->experts.side };

    return side[i]->stream ? side[i] : NULL;
}

const char *nn_side_text (unsigned sides)
{
    return sides & NN_TP_SIDE ? "tensor-parallel" : sides & NN_CP_SIDE ? "context-parallel"
                                                                       : "expert-parallel";
}

unsigned nn_open_sides (const struct nn *nn)
{
    unsigned open = 0;

    for (int i = 0; i < NUM_SIDES; i++) {
        const struct nn_side *side = side_at (nn, i);

        open |= side && *side->open ? 1u << i : 0;
    }
    return open;
}

int nn_await (const struct nn *nn, unsigned sides, struct mg_error *err)
{
    for (int i = 0; i < NUM_SIDES; i++) {
        const struct nn_side *side = sides & 1u << i ? side_at (nn, i) : NULL;

        if (side && nn_side_wait (nn, side, err) < 0)
            return -1;
    }
    return 0;
}

void nn_forget_sides (const struct nn *nn)
{
    for (int i = 0; i < NUM_SIDES; i++) {
        if (side_at (nn, i))
            *side_at (nn, i)->open = false;
    }
}

const void *nn_enter (const struct nn *nn, const struct nn_shape *shape, const void *x, void *all,
                      struct mg_error *err)
{
    if (shape->rows == shape->tokens)
        return x;
    if (mg_comm_all_gather (nn->tp, x, all, (size_t)(shape->rows * nn->hidden), nn->dtype,
                            nn->compute, err) < 0)
        return NULL;
    return all;
}

int64_t nn_own_row (const struct nn *nn, const struct nn_shape *shape)
{
    return shape->rows == shape->tokens ? 0 : nn->tp_rank * shape->rows;
}

void *nn_own_rows (const struct nn *nn, const struct nn_shape *shape,
                   const struct tensor *all)
{
    int64_t first = all->live == shape->rows ? 0 : nn_own_row (nn, shape);

    return tensor_at (all, first * all->shape[1]);
}

static int reduce (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
                   struct mg_stream *stream, struct mg_error *err)
{
    int64_t cols = partial->shape[1];

    if (shape->rows == shape->tokens)
        return mg_comm_all_reduce (nn->tp, partial->data, (size_t)(shape->tokens * cols),
                                   nn->dtype, MG_SUM, stream, err);
    return mg_comm_reduce_scatter (nn->tp, partial->data, nn_own_rows (nn, shape, partial),
                                   (size_t)(shape->rows * cols), nn->dtype, MG_SUM,
                                   stream, err);
}

int nn_leave (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
              struct mg_error *err)
{
    return reduce (nn, shape, partial, nn->compute, err);
}

int nn_leave_start (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
                    struct mg_error *err)
{
    if (nn_side_begin (nn, &nn->tp_side, err) < 0
        || reduce (nn, shape, partial, nn->tp_side.stream, err) < 0)
        return -1;
    nn_side_end (&nn->tp_side);
    return 0;
}

int nn_transfer_start (const struct nn *nn, struct mg_comm *comm, const struct mg_p2p *list, int n,
                       struct mg_error *err)
{
    if (nn_side_begin (nn, &nn->cp_side, err) < 0
        || mg_comm_p2p (comm, list, n, nn->cp_side.stream, err) < 0)
        return -1;
    nn_side_end (&nn->cp_side);
    return 0;
}

int nn_transfer_wait (const struct nn *nn, struct mg_error *err)
{
    return nn_side_wait (nn, &nn->cp_side, err);
}

const void *nn_weight (const struct nn *nn, const struct param *w, void *converted,
                       struct mg_error *err)
{
    const struct kern_cast cast = {
        .n = w->numel,
        .scale_at = w->scale_at,
        .x = tensor_address (w->data),
        .from = w->storage,
        .y = converted,
        .to = nn->dtype,
    };

    if (w->storage == nn->dtype)
        return cast.x;
    return kern_cast (nn->kern, &cast, nn->compute, err) < 0 ? NULL : cast.y;
}

int64_t nn_first_column (const struct nn *nn)
{
    return nn->tp_rank * nn->local_vocab;
}

int64_t nn_valid_columns (const struct nn *nn)
{
    int64_t valid = nn->config.vocab_size - nn_first_column (nn);

    if (valid < 0)
        return 0;
    return valid > nn->local_vocab ? nn->local_vocab : valid;
}

int nn_all_reduce (const struct nn *nn, float *buf, int64_t count, enum mg_reduce_op op,
                   struct mg_error *err)
{
    return mg_comm_all_reduce (nn->tp, buf, (size_t)count, MG_FLOAT32, op, nn->compute, err);
}

struct nn_exchange nn_exchange (const struct nn *nn, enum context_comm comm)
{
    struct nn_exchange c = { .inner = 1, .outer = 1 };

    if (nn->cp_size < 2)
        return c;
    c.gather = comm == CONTEXT_ALL_GATHER;
    c.inner = context_inner (&nn->context, comm, nn->cp_size);
    c.outer = nn->cp_size / c.inner;
    c.inner_rank = nn->cp_rank % c.inner;
    c.outer_rank = nn->cp_rank / c.inner;
    c.inner_comm = c.outer == 1 ? nn->cp : nn->cp_inner;
    c.outer_comm = c.inner == 1 ? nn->cp : nn->cp_outer;
    return c;
}

static void set_experts (struct nn_experts *x, const struct model_moe *m)
{
    int64_t ranks = (int64_t)x->ep_size * x->etp_size;

    x->local = m->experts / x->ep_size;
    x->local_ffn = m->ffn_hidden_size / x->etp_size;
    x->padded = m->pad_to_capacity && m->capacity_factor > 0
                && !(m->dispatch == MOE_ALL_GATHER && ranks > 1);
    x->routed = ranks > 1 ? ranks * m->experts : 0;
}

void nn_set_sizes (struct nn *nn)
{
    const struct model_config *c = &nn->config;
    int groups = model_groups (c);

    nn->hidden = c->hidden_size;
    nn->head_dim = model_key_dim (c);
    nn->head_dim_v = model_value_dim (c);
    nn->local_heads = c->num_heads / nn->tp_size;
    nn->local_attention = nn->local_heads * nn->head_dim_v;
    nn->group_ranks = groups < nn->tp_size ? nn->tp_size / groups : 1;
    nn->local_groups = groups < nn->tp_size ? 1 : groups / nn->tp_size;
    nn->local_ffn = c->ffn_hidden_size / nn->tp_size;
    nn->local_vocab = c->padded_vocab_size / nn->tp_size;
    if (c->moe.experts > 0)
        set_experts (&nn->experts, &c->moe);
    nn->experts.hidden = c->moe.latent > 0 ? c->moe.latent : c->hidden_size;
}

static int64_t least (int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows of a round.  Rows above the bound of --moe-expert-rank-capacity-factor are left to further
 * rounds.  The bound is at most the number of rows that can come.
 */
void nn_set_rows (const struct nn *nn, struct nn_shape *shape)
{
    const struct model_moe *m = &nn->config.moe;
    const struct nn_experts *x = &nn->experts;
    struct nn_expert_rows *r = &shape->experts;
    double factor = m->rank_capacity_factor > 0 ? m->rank_capacity_factor : 2;
    const struct moe_load load = { .tokens = shape->rows, .topk = m->topk };
    int64_t ranks = (int64_t)x->ep_size * x->etp_size, choices = shape->rows * m->topk;
    int64_t most; // rows of a rank for the experts of a rank

    *r = (struct nn_expert_rows){ .capacity = 0 };
    if (m->experts == 0)
        return;
    if (m->capacity_factor > 0)
        r->capacity = (int64_t)ceil (m->capacity_factor * (double)choices / m->experts);
    most = shape->rows * least (m->topk, x->local);
    if (r->capacity > 0)
        most = x->padded ? x->local * r->capacity : least (most, x->local * r->capacity);
    r->choices = x->padded ? m->experts * r->capacity : choices;
    r->limit = least (moe_load_bound (&load, factor, 1), x->ep_size * most);
    r->rows = x->etp_size * r->limit;
    if (m->dispatch == MOE_ALL_GATHER && ranks > 1)
        r->rows = least (moe_load_bound (&load, factor, x->etp_size), ranks * most);
    if (ranks == 1)
        r->rows = r->limit = r->choices;
}

/* --- the shape of a pass --- */

int64_t nn_count (const struct nn_shape *shape, struct nn_extent extent)
{
    switch (extent.unit) {
    case NN_SEQUENCES:
        return extent.times * shape->batch;
    case NN_ROWS:
        return extent.times * shape->rows;
    case NN_TOKENS:
        return extent.times * shape->tokens;
    case NN_WHOLE_TOKENS: // as many ranks have a sequence in a planned shape
        return extent.times * shape->tokens * (shape->whole_seq / shape->seq);
    case NN_WANTED:
        return extent.times * shape->wanted;
    case NN_CHOICES:
        return extent.times * shape->experts.choices;
    case NN_RECEIVED:
        return extent.times * shape->experts.limit;
    case NN_EXPERT_ROWS:
        return extent.times * shape->experts.rows;
    default:
        return extent.times;
    }
}

void nn_shape_init (struct nn_shape *shape, const struct nn *nn, int64_t batch, int64_t whole_seq)
{
    int64_t seq = whole_seq / nn->cp_size, tokens = batch * seq;

    *shape = (struct nn_shape){
        .batch = batch,
        .seq = seq,
        .tokens = tokens,
        .whole_seq = whole_seq,
        .rows = nn->sequence_parallel ? tokens / nn->tp_size : tokens,
    };
    nn_set_rows (nn, shape);
}

void nn_shape_continue (struct nn_shape *shape, const struct nn *nn,
                        const struct nn_sequence *sequence, int n, int64_t wanted)
{
    int64_t of = nn->sequence_parallel ? nn->tp_size : 1, rows = 0;

    for (int i = 0; i < n; i++)
        rows += sequence[i].rows;
    nn_shape_init (shape, nn, 1, (rows + of - 1) / of * of);
    shape->wanted = wanted;
    shape->sequence = sequence;
    shape->num_sequences = n;
}

bool nn_has_window (const struct nn *nn, int layer)
{
    const struct model_window *w = &nn->config.window;

    return w->on
           && (!pattern_given (&w->layers)
               || pattern_at (&w->layers, nn_pattern_number (nn, layer), false));
}

int64_t nn_kept (const struct nn *nn, bool window)
{
    const struct model_window *w = &nn->config.window;
    const struct nn_cache *c = &nn->cache;

    return window && w->on && w->left >= 0 && w->left < c->length - c->rows ? w->left + c->rows
                                                                            : c->length;
}

static int check_sequence (const struct nn_cache *c, const struct nn_sequence *all, int i,
                           struct mg_error *err)
{
    const struct nn_sequence *s = &all[i];

    if (s->place < 0 || s->place >= c->sequences)
        return mg_error_set (err, EINVAL, "place %lld of the caches: there are %lld",
                             (long long)s->place, (long long)c->sequences);
    if (s->rows < 1 || s->first < 0 || s->first > c->length - s->rows)
        return mg_error_set (err, EINVAL, "%lld rows from position %lld on: the caches have room "
                             "for %lld positions", (long long)s->rows, (long long)s->first,
                             (long long)c->length);
    for (int k = 0; k < i; k++) {
        if (all[k].place == s->place)
            return mg_error_set (err, EINVAL, "place %lld of the caches: two sequences of a pass "
                                 "are there", (long long)s->place);
    }
    return 0;
}

int nn_check_sequences (const struct nn *nn, const struct nn_shape *shape, struct mg_error *err)
{
    if ((nn->cache.length > 0) != (shape->num_sequences > 0))
        return mg_error_set (err, EINVAL, "a pass with %d sequences: the model has %s",
                             shape->num_sequences, nn->cache.length > 0 ? "caches" : "no caches");
    for (int i = 0; i < shape->num_sequences; i++) {
        if (check_sequence (&nn->cache, shape->sequence, i, err) < 0)
            return -1;
    }
    return 0;
}

/* The counts of a shape, by name. */
static const struct {
    const char *name;
    size_t offset;
} counts[] = {
    { "sequences", offsetof (struct nn_shape, batch) },
    { "positions", offsetof (struct nn_shape, seq) },
    { "tokens", offsetof (struct nn_shape, tokens) },
    { "positions on all ranks", offsetof (struct nn_shape, whole_seq) },
    { "rows", offsetof (struct nn_shape, rows) },
    { "rows of the head", offsetof (struct nn_shape, wanted) },
    { "rows of an expert", offsetof (struct nn_shape, experts.capacity) },
    { "choices", offsetof (struct nn_shape, experts.choices) },
    { "received rows", offsetof (struct nn_shape, experts.limit) },
    { "rows of experts", offsetof (struct nn_shape, experts.rows) },
};
enum { NUM_COUNTS = sizeof (counts) / sizeof (counts[0]) };

static int64_t count_at (const struct nn_shape *shape, int i)
{
    return *(const int64_t *)((const char *)shape + counts[i].offset);
}

void nn_plan_shape (struct nn_shape *planned, const struct nn_shape *shape)
{
    for (int i = 0; i < NUM_COUNTS; i++) {
        if (count_at (shape, i) > count_at (planned, i))
            *(int64_t *)((char *)planned + counts[i].offset) = count_at (shape, i);
    }
}

int nn_fits (const struct nn_shape *planned, const struct nn_shape *shape, struct mg_error *err)
{
    for (int i = 0; i < NUM_COUNTS; i++) {
        if (count_at (shape, i) > count_at (planned, i))
            return mg_error_set (err, EINVAL, "a pass of %lld %s: the model was planned for %lld",
                                 (long long)count_at (shape, i), counts[i].name,
                                 (long long)count_at (planned, i));
    }
    return 0;
}

bool nn_same_counts (const struct nn_shape *a, const struct nn_shape *b)
{
    for (int i = 0; i < NUM_COUNTS; i++) {
        if (count_at (a, i) != count_at (b, i))
            return false;
    }
    return true;
}

/* --- heads --- */

/* The rotated parts of multi-latent attention: the end of each query, the end of the latent. */
static struct nn_heads rotated_heads (const struct nn *nn, enum heads which)
{
    const struct model_latent *l = &nn->config.latent;
    int64_t heads = which == HEADS_LATENT_QUERIES ? nn->local_heads : 1;
    int64_t stride = (which == HEADS_LATENT_QUERIES ? l->qk_dim : l->kv_rank) + l->rope_dim;

    return (struct nn_heads){
        .first = stride - l->rope_dim,
        .groups = 1,
        .heads = heads,
        .stride_g = heads * stride,
        .stride_h = stride,
    };
}

struct nn_heads nn_heads (const struct nn *nn, enum heads which, bool fused)
{
    int64_t dim = nn->head_dim, queries = nn->local_heads / nn->local_groups;
    int64_t heads = (which & HEADS_QUERIES ? queries : 0) + (which & HEADS_KEYS ? 1 : 0);

    if (which == HEADS_LATENT_QUERIES || which == HEADS_LATENT_KEY)
        return rotated_heads (nn, which);
    return (struct nn_heads){
        .first = fused && which == HEADS_KEYS ? queries * dim : 0,
        .groups = nn->local_groups,
        .heads = heads,
        .stride_g = (fused ? queries + 2 : heads) * dim,
        .stride_h = dim,
    };
}
