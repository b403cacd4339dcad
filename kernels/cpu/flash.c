/* flash.c - blocks of queries and keys
 *
 * Forward and backward attention prepare blocks, compute scores and apply dropout with these
 * functions, so that both passes see the same numbers.
 */

#include <math.h>

#include "kernels/cpu/flash.h"
#include "kernels/cpu/philox.h"
#include "libcore/base/rng.h"

static void set_positions (const struct kern_positions *positions, int64_t entry,
                           int64_t first, int64_t count, int32_t *out, int32_t *min,
                           int32_t *max)
{
    *min = INT32_MAX;
    *max = INT32_MIN;
    for (int64_t i = 0; i < count; i++) {
        out[i] = (int32_t)cpu_position (positions, first + i, entry);
        *min = out[i] < *min ? out[i] : *min;
        *max = out[i] > *max ? out[i] : *max;
    }
}

void flash_set_queries (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                        int64_t block, struct flash_queries *q)
{
    q->entry = entry;
    q->head = head;
    q->first = block * BQ;
    q->count = cpu_min (BQ, a->seq_q - q->first);
    q->across = (q->count + VEC - 1) / VEC * VEC;
    set_positions (&a->pos_q, entry, q->first, q->count, q->position, &q->min, &q->max);
    for (int64_t i = q->count; i < q->across; i++)
        q->position[i] = q->max;
}

void flash_set_keys (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                     int64_t first, int64_t count, struct flash_keys *k)
{
    k->entry = entry;
    k->head = head;
    k->first = first;
    k->count = count;
    k->lead = 0;
    set_positions (&a->pos_k, entry, k->first, k->count, k->position, &k->min, &k->max);
    k->k = k->v = NULL;
    if (a->dtype == MG_FLOAT32) {
        k->k = (const float *)a->k + flash_kv_row (a, k, 0);
        k->v = (const float *)a->v + flash_kv_row (a, k, 0);
    }
    k->k_stride = k->v_stride = a->kv_stride_s;
}

/* Queries of the leading vectors whose positions are all below 'position'. */
static int64_t count_before (const struct flash_queries *q, int32_t position)
{
    int64_t lead = 0;

    while (lead < q->across && q->position[lead] < position)
        lead++;
    return lead / VEC * VEC;
}

bool flash_pair (const struct kern_attention_fwd *a, const struct flash_queries *q,
                 int64_t first, struct flash_keys *k)
{
    int64_t head = q->head / (a->heads / a->kv_heads);
    int64_t count = cpu_min (BK - first % BK, a->seq_k - first);

    flash_set_keys (a, q->entry, head, first, count, k);
    if (!a->causal || k->max <= q->min)
        return true;
    if (k->min > q->max)
        return false;
    flash_set_keys (a, q->entry, head, first, cpu_min (CUT, count), k);
    k->lead = count_before (q, k->min);
    return k->lead < q->across;
}

VEC_INLINE void copy_row (const void *x, int64_t first, int64_t n, float *copy,
                          const enum mg_dtype type)
{
    for (int64_t c = 0; c < n; c += VEC)
        vec_store_part (copy + c, vec_get (x, first + c, n - c, type), n - c);
}

void flash_copy_rows (const struct kern_attention_fwd *a, const struct flash_keys *k,
                      const void *x, const float **rows, int64_t *stride, float *copy)
{
    for (int64_t i = 0; i < k->count; i++)
        VEC_TYPED (a->dtype, copy_row, x, flash_kv_row (a, k, i), a->head_dim,
                   copy + i * a->head_dim);
    *rows = copy;
    *stride = a->head_dim;
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
    for (int64_t r = 0; r < across; r += VEC)
        for (int64_t c = 0; c < x->cols; c += VEC)
            VEC_TYPED (x->dtype, turn_square, x, r, c, scale, out + c * BQ + r);
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
    for (int64_t r = 0; r < x->rows; r += VEC)
        for (int64_t c = 0; c < x->cols; c += VEC)
            VEC_TYPED (x->dtype, turn_back_square, in + c * BQ + r, scale + r, accumulate, x, r,
                       c);
}

static void mask (const struct flash_queries *q, const struct flash_keys *k, float *s)
{
    for (int64_t i = k->lead; i < q->across; i += VEC) {
        vi position;

        memcpy (&position, q->position + i, sizeof (position));
        for (int64_t j = 0; j < k->count; j++) {
            float *p = s + j * BQ + i;

            vec_store (p, vec_select (position >= k->position[j], vec_load (p),
                                      vec_set (-INFINITY)));
        }
    }
}

void flash_scores (const struct kern_attention_fwd *a, const struct flash_queries *q,
                   const struct flash_keys *k, const float *qt, float *s)
{
    cpu_tile (&(struct cpu_tile){ .m = k->count,
                                  .n = q->across - k->lead,
                                  .k = a->head_dim,
                                  .a = k->k,
                                  .a_row = k->k_stride,
                                  .a_col = 1,
                                  .b = qt + k->lead,
                                  .ldb = BQ,
                                  .c = s + k->lead,
                                  .ldc = BQ });
    if (a->causal && k->max > q->min)
        mask (q, k, s);
}

void flash_drop (const struct kern_attention_fwd *a, const struct flash_queries *q,
                 const struct flash_keys *k, float *factor)
{
    struct philox_drop drop = philox_drop (a->dropout_p);
    uint64_t head = (uint64_t)(a->first_head + q->head), layer = (uint64_t)a->layer;
    uint64_t key = rng_key (a->seed, RNG_DROPOUT_ATTENTION, head, layer);
    uint64_t sample = (uint64_t)a->sample[q->entry];

    for (int64_t i = k->lead; i < q->across; i += VEC) {
        vu position, value[4];
        uint32_t block = 0;

        memcpy (&position, q->position + i, sizeof (position));
        for (int64_t j = 0; j < k->count; j++) {
            uint32_t at = (uint32_t)k->position[j];

            /* Four keys share the values of one call. */
            if (j == 0 || at / 4 != block) {
                block = at / 4;
                philox_vec (key, block, position, sample, value);
            }
            vec_store (factor + j * BQ + i, philox_factor (drop, value[at % 4]));
        }
    }
}
