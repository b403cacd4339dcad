/* cache.c - passes that continue sequences: keys and values that are kept, and the rows of the head
 *
 * A cache has the keys and values of a layer, packed, a row for each position: with room for n
 * positions (nn_kept()), position p of the sequence in place i is in row i n + p % n.  A pass
 * writes the rows of its own positions first, and then reads those of all positions that are there.
 * So a sequence has more keys than queries.
 *
 * Invariant: the rows that a pass overwrites are of positions that none of its rows sees.
 *
 * With multi-latent attention a cache has latents, and the rotated key of all heads at their ends.
 * A pass makes the keys and values of a sequence of them anew.
 */

#include "libcore/ops/attention.h"

/* The same heads from row 'n' on. */
static struct attention_heads below (const struct attention_heads *h, int64_t n)
{
    struct attention_heads from = *h;

    from.first += n * h->stride;
    return from;
}

static struct attention_operands rows_from (const struct attention_operands *x, int64_t n)
{
    return (struct attention_operands){ below (&x->q, n), below (&x->k, n), below (&x->v, n) };
}

/* Positions of a sequence that a cache has room for. */
static int64_t room_of (const struct pass *pass, const struct tensor *cache)
{
    return cache->shape[0] / pass->nn->cache.sequences;
}

/* Rows of a sequence in a pass, from its row 'from' on, which follow each other in the cache. */
struct run {
    int64_t from, rows;
    int64_t at; /* row of the cache */
};

/* Find the next run.  Before the first call it is all zeros.  False behind the last one. */
static bool next_run (const struct nn_sequence *s, int64_t room, struct run *run)
{
    int64_t from = run->from + run->rows, slot = (s->first + from) % room;
    int64_t left = s->rows - from;

    *run = (struct run){ from, left < room - slot ? left : room - slot, s->place * room + slot };
    return left > 0;
}

static int cache_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *cache = pass_tensor (pass, phase, CACHE_CACHE);
    const struct tensor *key = pass_tensor (pass, phase, CACHE_KEY);
    const struct attention_operands own =
        attention_local (nn, key, key, pass_tensor (pass, phase, CACHE_VALUE));
    const struct attention_operands kept = attention_packed (nn, cache, 0, nn->local_groups, false);
    int64_t row = 0;

    for (int i = 0; i < pass->shape->num_sequences; i++) {
        const struct nn_sequence *s = &pass->shape->sequence[i];
        struct run run = { 0, 0, 0 };

        while (next_run (s, room_of (pass, cache), &run)) {
            const struct attention_operands from = rows_from (&own, row + run.from);
            const struct attention_operands to = rows_from (&kept, run.at);

            if (attention_move_keys (pass, &from, &to, run.rows, nn->local_groups, err) < 0)
                return -1;
        }
        row += s->rows;
    }
    return 0;
}

const struct layer_op op_cache_keys = {
    .name = "cache_keys",
    .operand = {
        [CACHE_KEY] = { "key", false, OPERAND_READ, 0 },
        [CACHE_VALUE] = { "value", false, OPERAND_READ, 0 },
        [CACHE_CACHE] = { "cache", false, OPERAND_READ | OPERAND_WRITE, 0 },
    },
    .fwd = cache_fwd,
};

/* --- attention --- */

/* Set the positions of a call.  If the cache has lost positions, it is a ring whose oldest position
 * is somewhere in it.  Only differences of positions matter, so the oldest one counts as 0.
 */
static void set_positions (const struct pass *pass, const struct nn_sequence *s, int64_t room,
                           const void *at, struct kern_attention_fwd *a)
{
    const struct tensor *ring = &pass->nn->cache.ring;
    int64_t known = s->first + s->rows;

    a->pos_q = (struct kern_positions){ at, 1, 0 };
    a->pos_k = (struct kern_positions){ .at = NULL };
    a->seq_k = known < room ? known : room;
    if (known <= room)
        return;
    a->pos_q.at = tensor_at (ring, room - s->rows);
    a->pos_k = (struct kern_positions){ tensor_at (ring, room - known % room), 1, 0 };
}

/* Make the call of one sequence from the call of the whole pass.  The sequence's rows begin with
 * 'row', and its keys and values, for which there is so much room, with row 'key'.
 */
static struct kern_attention_fwd call_of (const struct pass *pass, const struct phase *phase,
                                          const struct kern_attention_fwd *whole,
                                          const struct nn_sequence *s, int64_t row, int64_t key,
                                          int64_t room)
{
    const struct attention_operands x = attention_values (pass, phase);
    const struct attention_operands kept = rows_from (&x, key);
    const struct tensor *out = pass_tensor (pass, phase, ATTENTION_OUT);
    struct kern_attention_fwd a = *whole;

    a.seq_q = s->rows;
    a.q = tensor_at (x.q.t, x.q.first + row * x.q.stride);
    a.out = tensor_at (out, row * out->shape[1]);
    a.lse = tensor_at (pass_tensor (pass, phase, ATTENTION_LSE), row * a.heads);
    set_positions (pass, s, room, tensor_at (pass_tensor (pass, phase, CACHED_AT), row), &a);
    attention_set_keys (&a, &kept, 1);
    return a;
}

/* Rows of no sequence get a context of zeros. */
static int clear_rest (const struct pass *pass, const struct phase *phase, int64_t row,
                       struct mg_error *err)
{
    const struct tensor *out = pass_tensor (pass, phase, ATTENTION_OUT);
    const struct kern_fill zero = { .n = tensor_count (out) - row * out->shape[1],
                                    .out = tensor_at (out, row * out->shape[1]),
                                    .dtype = out->dtype };

    return zero.n > 0 ? kern_fill (pass->nn->kern, &zero, pass->nn->compute, err) : 0;
}

static int attention_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct kern_attention_fwd whole = attention_describe (pass, phase);
    int64_t room = room_of (pass, pass_tensor (pass, phase, ATTENTION_KEY)), row = 0;

    for (int i = 0; i < pass->shape->num_sequences; i++) {
        const struct nn_sequence *s = &pass->shape->sequence[i];
        const struct kern_attention_fwd a = call_of (pass, phase, &whole, s, row, s->place * room,
                                                     room);

        if (kern_attention_fwd (pass->nn->kern, &a, pass->nn->compute, err) < 0)
            return -1;
        row += s->rows;
    }
    return clear_rest (pass, phase, row, err);
}

/* Pairs of the rows of a sequence and the keys that they meet.  A row meets all keys before the
 * pass and, on average, half of the sequence's own rows, but no more keys than 'seen'.
 */
static double pairs_of (const struct nn_sequence *s, double seen)
{
    double first = (double)s->first, end = first + (double)s->rows;
    double turn = seen < first ? first : seen < end ? seen : end; /* from here on 'seen' keys */

    return (turn * turn - first * first) / 2 + (end - turn) * seen;
}

/* A cache with less room than all positions need is that of a layer with a window (nn_kept()).  A
 * row of it sees 'left' keys and its own.  A window that saves no room counts as none.
 */
static double cached_pairs (const struct nn *nn, const struct layer_tensor *cache,
                            const struct nn_shape *shape)
{
    bool window = cache->shape[0] / nn->cache.sequences < nn->cache.length;
    double pairs = 0;

    for (int i = 0; i < shape->num_sequences; i++) {
        const struct nn_sequence *s = &shape->sequence[i];

        pairs += pairs_of (s, (double)(window ? nn->config.window.left + 1 : s->first + s->rows));
    }
    return pairs;
}

static double cached_flops (const struct layer_spec *spec, const struct phase *phase,
                            const struct nn *nn, const struct nn_shape *shape)
{
    return attention_pair_flops (
        nn, cached_pairs (nn, &spec->tensor[phase->operand[ATTENTION_KEY]], shape));
}

const struct layer_op op_attention_cached = {
    .name = "attention_cached",
    .flops = cached_flops,
    .operand = {
        ATTENTION_OPERANDS,
        [CACHED_AT] = { "at", false, OPERAND_READ, 0 },
    },
    .fwd = attention_fwd,
};

/* --- latents --- */

static int latents_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *x = pass_tensor (pass, phase, LATENTS_X);
    const struct tensor *cache = pass_tensor (pass, phase, LATENTS_CACHE);
    int64_t width = x->shape[1], row = 0;

    for (int i = 0; i < pass->shape->num_sequences; i++) {
        const struct nn_sequence *s = &pass->shape->sequence[i];
        struct run run = { 0, 0, 0 };

        while (next_run (s, room_of (pass, cache), &run)) {
            const struct kern_copy k = {
                .rows = run.rows, .heads = 1, .cols = width,
                .x = tensor_at (x, (row + run.from) * width), .x_stride = width,
                .y = tensor_at (cache, run.at * width), .y_stride = width,
                .dtype = nn->dtype,
            };

            if (kern_copy (nn->kern, &k, nn->compute, err) < 0)
                return -1;
        }
        row += s->rows;
    }
    return 0;
}

const struct layer_op op_cache_latents = {
    .name = "cache_latents",
    .operand = {
        [LATENTS_X] = { "x", false, OPERAND_READ, 0 },
        [LATENTS_CACHE] = { "cache", false, OPERAND_READ | OPERAND_WRITE, 0 },
    },
    .fwd = latents_fwd,
};

/* Rows of a product that makes keys and values.  The number is the same for sequences of all
 * lengths, since libraries of products prepare each shape of a product anew.
 */
enum { KEYS_BLOCK = 64 };

/* The keys and values of 'rows' positions, from row 'first' on, of the latents at 'from'. */
static int make_block (const struct pass *pass, const struct phase *phase, const void *weight,
                       const void *from, int64_t first, int64_t rows, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_latent *l = &nn->config.latent;
    const struct param *w = pass_param (pass, phase, CACHED_WEIGHT);
    const struct tensor *key = pass_tensor (pass, phase, ATTENTION_KEY);
    const struct tensor *value = pass_tensor (pass, phase, ATTENTION_VALUE);
    int64_t width = l->kv_rank + l->rope_dim, at = first * value->shape[1];
    const char *latents = (const char *)from + (size_t)(first * width) * mg_dtype_size (nn->dtype);
    const struct kern_gemm g = {
        .trans_b = true,
        .m = rows, .n = w->extent[0], .k = w->extent[1], .a = latents, .lda = width,
        .b = weight, .ldb = w->extent[1], .c = tensor_at (value, at), .ldc = value->shape[1],
        .dtype = nn->dtype, .c_dtype = nn->dtype,
    };
    const struct kern_copy own = {
        .rows = rows, .heads = nn->local_heads, .cols = l->qk_dim,
        .x = tensor_at (value, at), .x_stride = value->shape[1], .x_stride_h = l->qk_dim + l->v_dim,
        .y = tensor_at (key, first * key->shape[1]), .y_stride = key->shape[1],
        .y_stride_h = nn->head_dim,
        .dtype = nn->dtype,
    };
    struct kern_copy shared = own;

    shared.cols = l->rope_dim;
    shared.x = latents + (size_t)l->kv_rank * mg_dtype_size (nn->dtype);
    shared.x_stride = width;
    shared.x_stride_h = 0;
    shared.y = tensor_at (key, first * key->shape[1] + l->qk_dim);
    if (kern_gemm (nn->kern, &g, nn->compute, err) < 0
        || kern_copy (nn->kern, &own, nn->compute, err) < 0)
        return -1;
    return kern_copy (nn->kern, &shared, nn->compute, err);
}

/* Make the keys and values of at least 'rows' positions.  The place has room for so many. */
static int make_keys (const struct pass *pass, const struct phase *phase, const void *weight,
                      const void *from, int64_t rows, int64_t room, struct mg_error *err)
{
    for (int64_t first = 0; first < rows; first += KEYS_BLOCK) {
        int64_t left = room - first, n = left < KEYS_BLOCK ? left : KEYS_BLOCK;

        if (make_block (pass, phase, weight, from, first, n, err) < 0)
            return -1;
    }
    return 0;
}

static int attention_latents_fwd (const struct pass *pass, const struct phase *phase,
                                  struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_attention_fwd whole = attention_describe (pass, phase);
    const struct tensor *cache = pass_tensor (pass, phase, CACHED_LATENTS);
    const void *weight = nn_weight (nn, pass_param (pass, phase, CACHED_WEIGHT),
                                    pass_data (pass, phase, CACHED_CONVERTED), err);
    int64_t room = room_of (pass, cache), row = 0;

    if (!weight)
        return -1;
    for (int i = 0; i < pass->shape->num_sequences; i++) {
        const struct nn_sequence *s = &pass->shape->sequence[i];
        const void *from = tensor_at (cache, s->place * room * cache->shape[1]);
        const struct kern_attention_fwd a = call_of (pass, phase, &whole, s, row, 0, room);

        if (make_keys (pass, phase, weight, from, a.seq_k, room, err) < 0
            || kern_attention_fwd (nn->kern, &a, nn->compute, err) < 0)
            return -1;
        row += s->rows;
    }
    return clear_rest (pass, phase, row, err);
}

/* The keys and values of the product are those of all positions that are kept. */
static double latents_flops (const struct layer_spec *spec, const struct phase *phase,
                             const struct nn *nn, const struct nn_shape *shape)
{
    const struct layer_tensor *cache = &spec->tensor[phase->operand[CACHED_LATENTS]];
    struct nn_shape keys = *shape;

    keys.tokens = 0;
    for (int i = 0; i < shape->num_sequences; i++) {
        const struct nn_sequence *s = &shape->sequence[i];
        int64_t known = s->first + s->rows, room = cache->shape[0] / nn->cache.sequences;

        keys.tokens += known < room ? known : room;
    }
    return attention_pair_flops (nn, cached_pairs (nn, cache, shape))
           + layer_product_flops (&spec->param[phase->operand[CACHED_WEIGHT]], &keys);
}

const struct layer_op op_attention_latents = {
    .name = "attention_latents",
    .flops = latents_flops,
    .operand = {
        [ATTENTION_QUERY] = { "query", false, OPERAND_READ, 0 },
        [ATTENTION_KEY] = { "key", false, OPERAND_SCRATCH, 0 },
        [ATTENTION_VALUE] = { "value", false, OPERAND_SCRATCH, 0 },
        [ATTENTION_OUT] = { "out", false, OPERAND_WRITE, 0 },
        [ATTENTION_LSE] = { "lse", false, OPERAND_WRITE, 0 },
        [ATTENTION_SAMPLES] = { "samples", false, OPERAND_READ, 0 },
        [ATTENTION_STARTS] = { "starts", false, OPERAND_READ, 0 },
        [ATTENTION_SINK] = { "sink", true, OPERAND_READ, 0 },
        [CACHED_AT] = { "at", false, OPERAND_READ, 0 },
        [CACHED_LATENTS] = { "latents", false, OPERAND_READ, 0 },
        [CACHED_WEIGHT] = { "weight", true, OPERAND_READ, 0 },
        [CACHED_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, 0 },
    },
    .fwd = attention_latents_fwd,
};

/* --- the head --- */

/* Each rank fills in the rows that it has, and zeros for the others.  So the sum over the ranks is
 * exact.
 */
static int take_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *x = pass_tensor (pass, phase, TAKE_X);
    const struct tensor *y = pass_tensor (pass, phase, TAKE_Y);
    const struct kern_embedding_fwd k = {
        .tokens = y->live,
        .cols = nn->hidden,
        .id = pass_data (pass, phase, TAKE_ROWS),
        .first = nn_own_row (nn, pass->shape),
        .count = x->live,
        .table = tensor_at (x, 0),
        .out = tensor_at (y, 0),
        .dtype = nn->dtype,
    };

    if (kern_embedding_fwd (nn->kern, &k, nn->compute, err) < 0)
        return -1;
    if (pass->shape->rows == pass->shape->tokens)
        return 0;
    return mg_comm_all_reduce (nn->tp, tensor_at (y, 0), (size_t)tensor_count (y), nn->dtype,
                               MG_SUM, nn->compute, err);
}

const struct layer_op op_take_rows = {
    .name = "take_rows",
    .operand = {
        [TAKE_X] = { "x", false, OPERAND_READ, 0 },
        [TAKE_ROWS] = { "rows", false, OPERAND_READ, 0 },
        [TAKE_Y] = { "y", false, OPERAND_WRITE, 0 },
    },
    .fwd = take_fwd,
};
