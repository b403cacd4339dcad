/* flash.c - blocks of queries and keys
 *
 * Forward and backward attention prepare blocks, compute scores and apply dropout with these
 * functions, so that both passes see the same numbers.
 */

#include <math.h>

#include "kernels/cpu/flash.h"
#include "kernels/cpu/philox.h"
#include "libcore/base/rng.h"

/* Batch entries whose positions or starts differ. */
static int64_t count_entries (const struct kern_attention_fwd *a)
{
    bool same = (!a->pos_q.at || a->pos_q.stride_b == 0)
                && (!a->pos_k.at || a->pos_k.stride_b == 0)
                && (!a->start.at || a->start.stride_b == 0);

    return same ? cpu_min (1, a->batch) : a->batch;
}

size_t flash_plan_floats (const struct kern_attention_fwd *a)
{
    int64_t each = 4 * flash_blocks (a->seq_q, BQ) + 2 * flash_blocks (a->seq_k, BK);

    return (size_t)(a->batch * each + 15) / 16 * 16;
}

int64_t flash_panel (int64_t sets, int64_t blocks, int64_t each, int threads)
{
    int64_t width = PANEL;

    while (width > 1 && (width * each > PANEL_FLOATS
                         || sets * flash_blocks (blocks, width) < 4 * threads))
        width /= 2;
    return cpu_min (width, blocks);
}

static int32_t clamp (int64_t position)
{
    return (int32_t)(position < 0 ? 0 : cpu_min (position, INT32_MAX));
}

/* Set position, low and high of query 'i', and widen the range. */
static void set_query (const struct kern_attention_fwd *a, int64_t i, struct flash_queries *q)
{
    int64_t s = q->first + i, position = cpu_position (&a->pos_q, s, q->entry);
    int64_t low = a->start.at ? a->start.at[s * a->start.stride_s
                                            + q->entry * a->start.stride_b]
                              : 0;
    int64_t high = a->causal ? position : INT32_MAX;
    struct flash_range *r = &q->range;

    if (a->window.set && a->window.left >= 0 && low < position - a->window.left)
        low = position - a->window.left;
    if (a->window.set && a->window.right >= 0)
        high = cpu_min (high, position + a->window.right);
    q->position[i] = (int32_t)position;
    q->low[i] = clamp (low);
    q->high[i] = clamp (high);
    r->min_low = q->low[i] < r->min_low ? q->low[i] : r->min_low;
    r->max_low = q->low[i] > r->max_low ? q->low[i] : r->max_low;
    r->min_high = q->high[i] < r->min_high ? q->high[i] : r->min_high;
    r->max_high = q->high[i] > r->max_high ? q->high[i] : r->max_high;
}

void flash_set_queries (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                        int64_t block, struct flash_queries *q)
{
    q->entry = entry;
    q->head = head;
    q->first = block * BQ;
    q->count = cpu_min (BQ, a->seq_q - q->first);
    q->across = (q->count + VEC - 1) / VEC * VEC;
    q->range = (struct flash_range){ INT32_MAX, 0, INT32_MAX, 0 };
    for (int64_t i = 0; i < q->count; i++)
        set_query (a, i, q);
    /* The places that fill up the last vector neither widen the range nor keep a vector in a pair.
     */
    for (int64_t i = q->count; i < q->across; i++) {
        q->position[i] = q->position[q->count - 1];
        q->low[i] = q->range.max_low;
        q->high[i] = q->range.max_high;
    }
}

/* Set everything but the rows. */
static void set_positions (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                           int64_t block, struct flash_keys *k)
{
    k->entry = entry;
    k->head = head;
    k->first = block * BK;
    k->count = cpu_min (BK, a->seq_k - k->first);
    for (int64_t j = 0; j < k->count; j++) {
        int32_t position = (int32_t)cpu_position (&a->pos_k, k->first + j, entry);
        int32_t *min = &k->min[j / CUT], *max = &k->max[j / CUT];

        k->position[j] = position;
        *min = j % CUT == 0 || position < *min ? position : *min;
        *max = j % CUT == 0 || position > *max ? position : *max;
    }
}

/* Lowest and highest position of keys from .. end - 1; from and end are multiples of CUT, or end
 * is the number of keys.
 */
static void find_range (const struct flash_keys *k, int64_t from, int64_t end, int32_t *min,
                        int32_t *max)
{
    *min = k->min[from / CUT];
    *max = k->max[from / CUT];
    for (int64_t j = from + CUT; j < end; j += CUT) {
        *min = k->min[j / CUT] < *min ? k->min[j / CUT] : *min;
        *max = k->max[j / CUT] > *max ? k->max[j / CUT] : *max;
    }
}

void flash_complete (const struct kern_attention_fwd *a, struct kern_attention_fwd *all)
{
    *all = *a;
    all->head_dim_v = flash_dim_v (a);
    if (a->v_stride_s == 0 && a->v_stride_b == 0 && a->v_stride_g == 0) {
        all->v_stride_s = a->kv_stride_s;
        all->v_stride_b = a->kv_stride_b;
        all->v_stride_g = a->kv_stride_g;
    }
}

void flash_prepare (const struct kern_attention_fwd *a, float *memory, struct flash_plan *plan)
{
    struct flash_queries q;
    struct flash_keys k;

    flash_complete (a, &plan->a);
    plan->entries = count_entries (a);
    plan->q_blocks = flash_blocks (a->seq_q, BQ);
    plan->k_blocks = flash_blocks (a->seq_k, BK);
    plan->queries = (int32_t *)memory;
    plan->keys = plan->queries + plan->entries * plan->q_blocks * 4;
    for (int64_t i = 0; i < plan->entries * plan->q_blocks; i++) {
        flash_set_queries (a, i / plan->q_blocks, 0, i % plan->q_blocks, &q);
        memcpy (plan->queries + 4 * i, &q.range, sizeof (q.range));
    }
    for (int64_t i = 0; i < plan->entries * plan->k_blocks; i++) {
        set_positions (a, i / plan->k_blocks, 0, i % plan->k_blocks, &k);
        find_range (&k, 0, k.count, plan->keys + 2 * i, plan->keys + 2 * i + 1);
    }
}

VEC_INLINE void copy_row (const void *x, int64_t first, int64_t n, float *copy,
                          const enum mg_dtype type)
{
    for (int64_t c = 0; c < n; c += VEC)
        vec_store_part (copy + c, vec_get (x, first + c, n - c, type), n - c);
}

VEC_INLINE void copy_keys (const struct kern_attention_fwd *a, const struct flash_keys *k,
                           const enum mg_dtype type)
{
    for (int64_t j = 0; j < k->count; j++)
        copy_row (a->k, flash_k_row (a, k, j), a->head_dim, k->k + j * a->head_dim, type);
    for (int64_t j = 0; j < k->count; j++)
        copy_row (a->v, flash_v_row (a, k, j), a->head_dim_v, k->v + j * a->head_dim_v, type);
}

void flash_set_keys (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                     int64_t block, struct flash_keys *k)
{
    set_positions (a, entry, head, block, k);
    VEC_TYPED (a->dtype, copy_keys, a, k);
}

void flash_fetch (const struct flash_rows *x, int64_t first, int64_t count)
{
    size_t size = cpu_size (x->dtype), length = (size_t)x->cols * size;

    for (int64_t r = first; r < cpu_min (first + count, x->rows); r++) {
        const char *row = (const char *)x->x + (size_t)(x->first + r * x->stride) * size;

        for (size_t i = 0; i < length; i += CACHE_LINE)
            __builtin_prefetch (row + i, 0, 2); /* into the second-level cache */
    }
}

void flash_ahead_set (const struct kern_attention_fwd *a, const struct flash_keys *k,
                      int64_t times, struct flash_ahead *ahead)
{
    struct flash_keys next = { .entry = k->entry, .head = k->head, .first = k->first + BK };
    int64_t rows = cpu_min (BK, a->seq_k - next.first);

    ahead->k = (struct flash_rows){ (void *)a->k, a->dtype, flash_k_row (a, &next, 0),
                                    a->kv_stride_s, rows, a->head_dim };
    ahead->v = (struct flash_rows){ (void *)a->v, a->dtype, flash_v_row (a, &next, 0),
                                    a->v_stride_s, rows, a->head_dim_v };
    ahead->row = 0;
    ahead->count = flash_blocks (BK, times);
}

void flash_ahead_fetch (struct flash_ahead *ahead)
{
    flash_fetch (&ahead->k, ahead->row, ahead->count);
    flash_fetch (&ahead->v, ahead->row, ahead->count);
    ahead->row += ahead->count;
}

/* Set lead and end so that queries before lead and from end on see no key of positions min .. max.
 * Both are multiples of a vector's length.
 */
static void leave_out (const struct flash_queries *q, int32_t min, int32_t max,
                       struct flash_pair *pair)
{
    int64_t lead = 0, end = q->across;

    while (lead < q->across && q->high[lead] < min)
        lead++;
    while (end > 0 && q->low[end - 1] > max)
        end--;
    pair->lead = lead / VEC * VEC;
    pair->end = (end + VEC - 1) / VEC * VEC;
}

bool flash_pair (const struct flash_queries *q, const struct flash_keys *k, int64_t from,
                 struct flash_pair *pair)
{
    const struct flash_range *r = &q->range;
    int32_t min, max;

    *pair = (struct flash_pair){ .from = from, .count = k->count - from, .end = q->across };
    find_range (k, from, k->count, &min, &max);
    if (min >= r->max_low && max <= r->min_high)
        return true;
    if (max < r->min_low || min > r->max_high)
        return false;
    pair->count = cpu_min (CUT, pair->count);
    find_range (k, from, from + pair->count, &min, &max);
    pair->cut = min < r->max_low || max > r->min_high;
    leave_out (q, min, max, pair);
    return pair->lead < pair->end;
}

/* A square of VEC x VEC at a time, from (row, col) on, as much of it as there is. */
VEC_INLINE void turn_square (const struct flash_rows *x, int64_t row, int64_t col,
                             float scale, float *out, const enum mg_dtype type)
{
    int64_t first = x->first + row * x->stride + col;
    int64_t rows = x->rows - row, cols = x->cols - col;
    vf square[VEC];

    VEC_UNROLL for (int i = 0; i < VEC; i++)
        square[i] = i < rows ? scale * vec_get (x->x, first + i * x->stride, cols, type)
                             : (vf){ 0 };
    vec_transpose (square);
    VEC_UNROLL for (int i = 0; i < VEC; i++)
        if (i < cols)
            vec_store (out + i * BQ, square[i]);
}

void flash_turn (const struct flash_rows *x, int64_t across, float scale, float *out)
{
    for (int64_t r = 0; r < across; r += VEC) {
        flash_fetch (x, r + VEC, VEC);
        for (int64_t c = 0; c < x->cols; c += VEC)
            VEC_TYPED (x->dtype, turn_square, x, r, c, scale, out + c * BQ + r);
    }
}

VEC_INLINE void turn_back_square (const float *in, const float *scale, bool accumulate,
                                  const struct flash_rows *x, int64_t row, int64_t col,
                                  const enum mg_dtype type)
{
    int64_t first = x->first + row * x->stride + col;
    int64_t rows = x->rows - row, cols = x->cols - col;
    vf square[VEC];

    VEC_UNROLL for (int i = 0; i < VEC; i++)
        square[i] = i < cols ? vec_load (in + i * BQ) : (vf){ 0 };
    vec_transpose (square);
    VEC_UNROLL for (int i = 0; i < VEC; i++)
        if (i < rows) {
            vf v = scale[i] * square[i];

            if (accumulate)
                v += vec_get (x->x, first + i * x->stride, cols, type);
            vec_put (x->x, first + i * x->stride, v, cols, type);
        }
}

void flash_turn_back (const float *in, const float *scale, bool accumulate,
                      const struct flash_rows *x)
{
    flash_fetch (x, 0, VEC);
    for (int64_t r = 0; r < x->rows; r += VEC) {
        flash_fetch (x, r + VEC, VEC);
        for (int64_t c = 0; c < x->cols; c += VEC)
            VEC_TYPED (x->dtype, turn_back_square, in + c * BQ + r, scale + r, accumulate, x, r,
                       c);
    }
}

static void mask (const struct flash_queries *q, const struct flash_keys *k,
                  const struct flash_pair *pair, float *s)
{
    const int32_t *position = k->position + pair->from;

    for (int64_t i = pair->lead; i < pair->end; i += VEC) {
        vi low, high;

        memcpy (&low, q->low + i, sizeof (low));
        memcpy (&high, q->high + i, sizeof (high));
        for (int64_t j = 0; j < pair->count; j++) {
            float *p = s + j * BQ + i;

            vec_store (p, vec_select ((high >= position[j]) & (low <= position[j]),
                                      vec_load (p), vec_set (-INFINITY)));
        }
    }
}

/* Round scores, which are multiplied by log2 e, as float16 rounds them after a division by coeff.
 */
static void round_scores (const struct kern_attention_fwd *a, const struct flash_pair *pair,
                          float *s)
{
    const float factor = (float)(a->coeff * FLASH_LOG2E), inverse = (float)(1 / (a->coeff
                                                                                * FLASH_LOG2E));

    for (int64_t j = 0; j < pair->count; j++) {
        for (int64_t i = pair->lead; i < pair->end; i += VEC) {
            float *p = s + j * BQ + i;

            vec_store (p, factor * vec_from_fp16 (vec_to_fp16 (inverse * vec_load (p))));
        }
    }
}

void flash_scores (const struct kern_attention_fwd *a, const struct flash_queries *q,
                   const struct flash_keys *k, const struct flash_pair *pair, const float *qt,
                   float *s)
{
    cpu_tile (&(struct cpu_tile){ .m = pair->count,
                                  .n = pair->end - pair->lead,
                                  .k = a->head_dim,
                                  .a = k->k + pair->from * a->head_dim,
                                  .a_row = a->head_dim,
                                  .a_col = 1,
                                  .b = qt + pair->lead,
                                  .ldb = BQ,
                                  .c = s + pair->lead,
                                  .ldc = BQ });
    if (a->coeff > 0 && a->dtype == MG_FLOAT16)
        round_scores (a, pair, s);
    if (pair->cut)
        mask (q, k, pair, s);
}

void flash_drop (const struct kern_attention_fwd *a, const struct flash_queries *q,
                 const struct flash_keys *k, const struct flash_pair *pair, float *factor)
{
    struct philox_drop drop = philox_drop (a->dropout_p);
    uint64_t head = (uint64_t)(a->first_head + q->head), layer = (uint64_t)a->layer;
    uint64_t key = rng_key (a->seed, RNG_DROPOUT_ATTENTION, head, layer);
    uint64_t sample = (uint64_t)a->sample[q->entry];

    for (int64_t i = pair->lead; i < pair->end; i += VEC) {
        vu position, value[4];
        uint32_t block = 0;

        memcpy (&position, q->position + i, sizeof (position));
        for (int64_t j = 0; j < pair->count; j++) {
            uint32_t at = (uint32_t)k->position[pair->from + j];

            /* Four keys share the values of one call. */
            if (j == 0 || at / 4 != block) {
                block = at / 4;
                philox_vec (key, block, position, sample, value);
            }
            vec_store (factor + j * BQ + i, philox_factor (drop, value[at % 4]));
        }
    }
}
