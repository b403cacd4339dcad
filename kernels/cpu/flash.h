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
    BQ = 64,   /* queries of a block; also the row length of all that has queries across */
    BK = 64,   /* keys of a block */
    CUT = 16,  /* keys taken at a time where a mask cuts through the block */
    PANEL = 16, /* blocks that a thread goes through together, at most */
    PANEL_FLOATS = 3 << 17, /* of these: 1.5 MiB */
    CACHE_LINE = 64, /* bytes */
};

/* log2 e.  Queries are multiplied by scale log2 e, so that the softmax is made of powers of 2. */
#define FLASH_LOG2E 1.4426950408889634

/* A call with the defaults of its arguments filled in, and what decides which blocks are
 * skipped.  'queries' and 'keys' hold lowest and highest positions by block.  They lie in scratch
 * memory.
 */
struct flash_plan {
    struct kern_attention_fwd a; /* head_dim_v and strides of v are set */
    int64_t entries;   /* batch entries with positions of their own: batch, or 1 */
    int64_t q_blocks, k_blocks;
    int32_t *queries;  /* [entries][q_blocks][4]: see struct flash_queries */
    int32_t *keys;     /* [entries][k_blocks][2]: lowest, highest */
};

/* The keys that queries of a block see: those from position 'low' to position 'high'. */
struct flash_range {
    int32_t min_low, max_low, min_high, max_high;
};

/* Queries first .. first + count - 1 of one head of one batch entry. */
struct flash_queries {
    int64_t entry, head, first, count;
    int64_t across; /* count, rounded up to whole vectors */
    int32_t position[BQ];
    int32_t low[BQ], high[BQ]; /* lowest and highest position that each query sees */
    struct flash_range range;
};

/* Keys first .. first + count - 1 of one kv head of one batch entry. */
struct flash_keys {
    int64_t entry, head, first, count;
    int32_t position[BK];
    int32_t min[BK / CUT], max[BK / CUT]; /* of the positions of each CUT keys */
    float *k, *v; /* [count][head_dim], [count][head_dim_v]: float32 copies of the rows */
};

/* Keys from .. from + count - 1 of a block, with queries lead .. end - 1 of another. */
struct flash_pair {
    int64_t from, count;
    int64_t lead, end; /* whole vectors; the other queries see none of the keys */
    bool cut;          /* a mask hides some of the keys from some of the queries */
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

static inline int64_t flash_k_row (const struct kern_attention_fwd *a,
                                   const struct flash_keys *k, int64_t j)
{
    return (k->first + j) * a->kv_stride_s + k->entry * a->kv_stride_b
           + k->head * a->kv_stride_g;
}

static inline int64_t flash_v_row (const struct kern_attention_fwd *a,
                                   const struct flash_keys *k, int64_t j)
{
    return (k->first + j) * a->v_stride_s + k->entry * a->v_stride_b
           + k->head * a->v_stride_g;
}

/* Of lse, [batch][heads][seq_q]. */
static inline int64_t flash_lse (const struct kern_attention_fwd *a,
                                 const struct flash_queries *q)
{
    return (q->entry * a->heads + q->head) * a->seq_q + q->first;
}

/* The width of rows of v and out. */
static inline int64_t flash_dim_v (const struct kern_attention_fwd *a)
{
    return a->head_dim_v > 0 ? a->head_dim_v : a->head_dim;
}

/* Set 'all' to the call with the defaults of its arguments filled in. */
void flash_complete (const struct kern_attention_fwd *a, struct kern_attention_fwd *all);

/* Floats of scratch memory that flash_prepare() needs, a multiple of 16. */
size_t flash_plan_floats (const struct kern_attention_fwd *a);

/* Look at all positions of a call. */
void flash_prepare (const struct kern_attention_fwd *a, float *memory, struct flash_plan *plan);

/* Blocks that a thread takes together, 1 to PANEL, if a block has 'each' floats: as many as leave
 * room in a cache of a core, and fewer if 'sets' sets of 'blocks' blocks would not keep the threads
 * busy.
 */
int64_t flash_panel (int64_t sets, int64_t blocks, int64_t each, int threads);

/* EINVAL unless the heads are a multiple of the kv heads. */
int kern_attention_check (const struct kern_attention_fwd *a, struct mg_error *err);

/* True if no query of the one block sees a key of the other. */
static inline bool flash_hidden (const struct flash_plan *plan, int64_t entry, int64_t q_block,
                                 int64_t k_block)
{
    int64_t i = plan->entries == 1 ? 0 : entry;
    const int32_t *q = plan->queries + (i * plan->q_blocks + q_block) * 4;
    const int32_t *k = plan->keys + (i * plan->k_blocks + k_block) * 2;

    return k[1] < q[0] || k[0] > q[3];
}

/* Set 'q' to block 'block' of a head. */
void flash_set_queries (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                        int64_t block, struct flash_queries *q);

/* Set 'k' to block 'block' of a kv head, and copy the rows to k->k and k->v. */
void flash_set_keys (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                     int64_t block, struct flash_keys *k);

/* Rows of a matrix of any type: 'rows' of 'cols' elements, 'stride' apart, from element
 * 'first' of 'x' on.
 */
struct flash_rows {
    void *x;
    enum mg_dtype dtype;
    int64_t first, stride, rows, cols;
};

/* Have rows first .. first + count - 1, or as many of them as there are, brought into the cache, as
 * they will soon be read or written.  The processor does not do it by itself, since rows lie in
 * memory far apart.
 */
void flash_fetch (const struct flash_rows *x, int64_t first, int64_t count);

/* The rows of a block of keys that are brought into the cache, 'count' at a time, while the block
 * before it is worked with.
 */
struct flash_ahead {
    struct flash_rows k, v;
    int64_t row, count; /* the first row that has not been asked for */
};

/* Set 'ahead' to the rows of the block behind 'k'.  After about 'times' calls of
 * flash_ahead_fetch() all rows have been asked for.
 */
void flash_ahead_set (const struct kern_attention_fwd *a, const struct flash_keys *k,
                      int64_t times, struct flash_ahead *ahead);
void flash_ahead_fetch (struct flash_ahead *ahead);

/* Set 'pair' to the keys that 'q' is paired with at once: those from key 'from' to the end of
 * their block, but only CUT where a mask hides some of them from some queries, as the
 * queries that see none are then left out.  Depends on positions only.  False if no query
 * sees any: pair->count keys are to be skipped.
 */
bool flash_pair (const struct flash_queries *q, const struct flash_keys *k, int64_t from,
                 struct flash_pair *pair);

/* out[c][r] = scale x[r][c]; row length of out is BQ; 0 for r from x->rows to 'across'. */
void flash_turn (const struct flash_rows *x, int64_t across, float scale, float *out);

/* The way back: x[r][c] = (or +=, with 'accumulate') scale[r] in[c][r]. */
void flash_turn_back (const float *in, const float *scale, bool accumulate,
                      const struct flash_rows *x);

/* s[key][query] = k qt, rounded as 'coeff' wants it, minus infinity where the key is not visible;
 * qt is [head_dim][BQ].  Rows of s are the keys of the pair.
 */
void flash_scores (const struct kern_attention_fwd *a, const struct flash_queries *q,
                   const struct flash_keys *k, const struct flash_pair *pair, const float *qt,
                   float *s);

/* factor[key][query]: what dropout multiplies probabilities by. */
void flash_drop (const struct kern_attention_fwd *a, const struct flash_queries *q,
                 const struct flash_keys *k, const struct flash_pair *pair, float *factor);

#endif /* KERNELS_CPU_FLASH_H */
