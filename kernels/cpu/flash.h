/* flash - blocks of queries and keys, what both directions of attention share.
 *
 * Everything is kept with the queries across a vector: scores are [key][query].  Then the
 * softmax over keys runs down the rows, in which no element meets another of its vector,
 * and odd head sizes and numbers of keys need no care.  Products with queries across
 * are cpu_tile()s, whose first operand is any strided matrix.
 */
#ifndef KERNELS_CPU_FLASH_H
#define KERNELS_CPU_FLASH_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum {
    BQ = 64, /* queries of a block; also the row length of all that has queries across */
    BK = 64, /* keys of a block */
    CUT = 16 /* keys taken at a time where a mask cuts through the block */
};

/* Queries first .. first + count - 1 of one head of one batch entry. */
struct flash_queries {
    int64_t entry, head, first, count;
    int64_t across; /* count, rounded up to whole vectors */
    int32_t position[BQ];
    int32_t min, max; /* of the positions */
};

/* Keys first .. first + count - 1 of one kv head of one batch entry. */
struct flash_keys {
    int64_t entry, head, first, count;
    int32_t position[BK];
    int32_t min, max;
    int64_t lead; /* that many queries, whole vectors, are known to see none of them */
    /* First rows, the others follow at k_stride, v_stride.  NULL unless they are float32:
     * flash_copy_rows() makes them so.
     */
    const float *k, *v;
    int64_t k_stride, v_stride;
};

static inline int64_t flash_blocks (int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* Row of a query in q or its gradient, in out or its gradient, of a key in k or v. */
static inline int64_t flash_q_row (const struct kern_attention_fwd *a,
                                   const struct flash_queries *q, int64_t i)
{
    int64_t group = a->heads / a->kv_heads;

    return (q->first + i) * a->q_stride_s + q->entry * a->q_stride_b
           + q->head / group * a->q_stride_g + q->head % group * a->q_stride_h;
}

static inline int64_t flash_out_row (const struct kern_attention_fwd *a,
                                     const struct flash_queries *q, int64_t i)
{
    return (q->first + i) * a->out_stride_s + q->entry * a->out_stride_b
           + q->head * a->out_stride_h;
}

static inline int64_t flash_kv_row (const struct kern_attention_fwd *a,
                                    const struct flash_keys *k, int64_t j)
{
    return (k->first + j) * a->kv_stride_s + k->entry * a->kv_stride_b
           + k->head * a->kv_stride_g;
}

/* Of lse, [batch][heads][seq_q]. */
static inline int64_t flash_lse (const struct kern_attention_fwd *a,
                                 const struct flash_queries *q)
{
    return (q->entry * a->heads + q->head) * a->seq_q + q->first;
}

/* Set 'q' to block 'block' of a head. */
void flash_set_queries (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                        int64_t block, struct flash_queries *q);

/* Set 'k' to 'count' (at most BK) keys of a kv head, with k and v where they are. */
void flash_set_keys (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                     int64_t first, int64_t count, struct flash_keys *k);

/* Set 'k' to the keys that 'q' is paired with at once: those from 'first' to the end of
 * their block, but only CUT where the mask hides some of them from some queries, as the
 * queries that see none are then left out.  Depends on positions only.  False if no query
 * sees any.
 */
bool flash_pair (const struct kern_attention_fwd *a, const struct flash_queries *q,
                 int64_t first, struct flash_keys *k);

/* Copy the keys' rows of 'x' (a->k or a->v) to 'copy' ([count][head_dim]) as float32 and
 * let '*rows' be these.  For 16-bit types, and for a product that goes through the rows
 * again and again: where they are, they often lie a power of two apart and push each other
 * out of the cache.
 */
void flash_copy_rows (const struct kern_attention_fwd *a, const struct flash_keys *k,
                      const void *x, const float **rows, int64_t *stride, float *copy);

/* Rows of a matrix of any type: 'rows' of 'cols' elements, 'stride' apart, from element
 * 'first' of 'x' on.
 */
struct flash_rows {
    void *x;
    enum mg_dtype dtype;
    int64_t first, stride, rows, cols;
};

/* out[c][r] = scale x[r][c]; row length of out is BQ; 0 for r from x->rows to 'across'. */
void flash_turn (const struct flash_rows *x, int64_t across, float scale, float *out);

/* The way back: x[r][c] = (or +=, with 'accumulate') scale[r] in[c][r]. */
void flash_turn_back (const float *in, const float *scale, bool accumulate,
                      const struct flash_rows *x);

/* s[key][query] = k qt, minus infinity where the key is not visible; qt is
 * [head_dim][BQ]. */
void flash_scores (const struct kern_attention_fwd *a, const struct flash_queries *q,
                   const struct flash_keys *k, const float *qt, float *s);

/* factor[key][query]: what dropout multiplies probabilities by. */
void flash_drop (const struct kern_attention_fwd *a, const struct flash_queries *q,
                 const struct flash_keys *k, float *factor);

#endif /* KERNELS_CPU_FLASH_H */
