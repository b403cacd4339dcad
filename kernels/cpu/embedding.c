/* embedding.c - rows of a vocabulary shard, and positions added to them
 *
 * Gradients of rows that share an id are added in the order of the tokens, whatever the
 * number of threads: threads divide the columns, not the tokens.  A 16-bit row is widened
 * at its first token, takes them all, and is rounded; so tokens of an id form a list.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"

enum { STRIP = 128 }; /* columns */

static bool is_local (int32_t id, int64_t first, int64_t count)
{
    return id >= first && id < first + count;
}

int cpu_embedding_fwd (const struct kernels *k, const struct kern_embedding_fwd *a,
                       struct mg_error *err)
{
    size_t size = (size_t)a->cols * cpu_size (a->dtype);

    (void)k, (void)err;
    if (size == 0)
        return 0;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t t = 0; t < a->tokens; t++) {
        if (is_local (a->id[t], a->first, a->count))
            memcpy ((char *)a->out + (size_t)t * size,
                    (const char *)a->table + (size_t)(a->id[t] - a->first) * size, size);
        else
            memset ((char *)a->out + (size_t)t * size, 0, size);
    }
    return 0;
}

VEC_INLINE void add (float *sum, const void *x, int64_t first, int64_t n,
                     const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store_part (sum + i,
                        vec_load_part (sum + i, n - i)
                            + vec_get (x, first + i, n - i, type),
                        n - i);
}

/* Tokens with the same local id: 'first' of every row of the table, 'next' of every token; -1
 * at the end.
 */
struct chains {
    int64_t *first, *next;
};

/* Elements of both. */
static int64_t chains_size (const struct kern_embedding_bwd *a)
{
    return a->grad_dtype == MG_FLOAT32 ? 0 : a->count + a->tokens;
}

static struct chains make_chains (const struct kern_embedding_bwd *a, int64_t *memory)
{
    struct chains c = { memory, memory + a->count };

    for (int64_t i = 0; i < a->count; i++)
        c.first[i] = -1;
    for (int64_t t = a->tokens; t-- > 0;) {
        if (is_local (a->id[t], a->first, a->count)) {
            c.next[t] = c.first[a->id[t] - a->first];
            c.first[a->id[t] - a->first] = t;
        }
    }
    return c;
}

/* Elements of a table's row, at most STRIP or PHILOX_CHUNK, to floats and back; 'wide' has
 * room for whole vectors.
 */
VEC_INLINE void widen (const void *table, int64_t first, int64_t n, float *wide,
                       const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store (wide + i, vec_get (table, first + i, n - i, type));
}

VEC_INLINE void narrow (void *table, int64_t first, int64_t n, const float *wide,
                        const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_put (table, first + i, vec_load (wide + i), n - i, type);
}

/* Add columns col .. col + n - 1 of token 't' and of those behind it to their row. */
static void add_chain (const struct kern_embedding_bwd *a, const struct chains *c, int64_t t,
                       int64_t col, int64_t n)
{
    int64_t to = (a->id[t] - a->first) * a->cols + col;
    float sum[STRIP];

    VEC_TYPED (a->grad_dtype, widen, a->dtable, to, n, sum);
    for (; t >= 0; t = c->next[t])
        VEC_TYPED (a->dtype, add, sum, a->dout, t * a->cols + col, n);
    VEC_TYPED (a->grad_dtype, narrow, a->dtable, to, n, sum);
}

static void add_chains (const struct kernels *k, const struct kern_embedding_bwd *a,
                        int64_t *memory)
{
    const struct chains c = make_chains (a, memory);

#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t col = 0; col < a->cols; col += STRIP) {
        int64_t n = cpu_min (STRIP, a->cols - col);

        for (int64_t t = 0; t < a->tokens; t++)
            if (is_local (a->id[t], a->first, a->count)
                && c.first[a->id[t] - a->first] == t)
                add_chain (a, &c, t, col, n);
    }
}

/* 'memory' has chains_size() elements. */
static void add_tokens (const struct kernels *k, const struct kern_embedding_bwd *a,
                        int64_t *memory)
{
    if (a->grad_dtype != MG_FLOAT32) {
        add_chains (k, a, memory);
        return;
    }
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t col = 0; col < a->cols; col += STRIP) {
        int64_t n = cpu_min (STRIP, a->cols - col);

        for (int64_t t = 0; t < a->tokens; t++)
            if (is_local (a->id[t], a->first, a->count))
                VEC_TYPED (a->dtype, add,
                           (float *)a->dtable + (a->id[t] - a->first) * a->cols + col,
                           a->dout, t * a->cols + col, n);
    }
}

size_t cpu_embedding_bwd_scratch (const struct kernels *k, const struct kern_embedding_bwd *a)
{
    (void)k;
    return (size_t)chains_size (a) * sizeof (int64_t);
}

int cpu_embedding_bwd (const struct kernels *k, const struct kern_embedding_bwd *a,
                       struct mg_error *err)
{
    size_t size = cpu_embedding_bwd_scratch (k, a);
    int64_t *memory = cpu_scratch (k, size, err);

    if (!memory && size > 0)
        return -1;
    add_tokens (k, a, memory);
    return 0;
}

/* Entry of the table that is added to row 'row'. */
static int64_t entry_of (const struct kern_positions *entry, const struct kern_dropout *d,
                         int64_t row)
{
    return cpu_position (entry->at ? entry : &d->position, row / d->batch, row % d->batch);
}

VEC_INLINE void position_fwd_row (const struct kern_position_fwd *a, int64_t row,
                                  const enum mg_dtype type)
{
    const struct kern_dropout *d = &a->dropout;
    int64_t first = row * a->cols;
    int64_t position = entry_of (&a->entry, d, row) * a->cols;
    float factor[PHILOX_CHUNK];

    for (int64_t col = 0; col < a->cols; col += PHILOX_CHUNK) {
        int64_t n = cpu_min (PHILOX_CHUNK, a->cols - col);

        if (d->p > 0)
            philox_chunk (d, row, col, n, factor);
        for (int64_t c = 0; c < n; c += VEC) {
            vf v = vec_get (a->x, first + col + c, n - c, type)
                   + vec_get (a->table, position + col + c, n - c, type);

            if (d->p > 0)
                v *= vec_load (factor + c);
            vec_put (a->y, first + col + c, v, n - c, type);
        }
    }
}

int cpu_position_fwd (const struct kernels *k, const struct kern_position_fwd *a,
                      struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->tokens; row++)
        VEC_TYPED (a->dtype, position_fwd_row, a, row);
    return 0;
}

/* dx of columns col .. col + n - 1 of a row, which is added to 'sum' as stored. */
VEC_INLINE void position_bwd_chunk (const struct kern_position_bwd *a, int64_t row,
                                    int64_t col, int64_t n, float *sum,
                                    const enum mg_dtype type)
{
    int64_t first = row * a->cols + col;
    float factor[PHILOX_CHUNK];

    if (a->dropout.p > 0)
        philox_chunk (&a->dropout, row, col, n, factor);
    for (int64_t c = 0; c < n; c += VEC) {
        vf v = vec_get (a->dy, first + c, n - c, type);

        if (a->dropout.p > 0)
            v *= vec_load (factor + c);
        vec_put (a->dx, first + c, v, n - c, type);
    }
    if (sum)
        add (sum, a->dx, first, n, type);
}

/* Rows 'row' to 'end', which are all rows of one position. */
static void position_bwd_rows (const struct kern_position_bwd *a, int64_t row, int64_t end)
{
    int64_t position = entry_of (&a->entry, &a->dropout, row) * a->cols;
    float sum[PHILOX_CHUNK];

    for (int64_t col = 0; col < a->cols; col += PHILOX_CHUNK) {
        int64_t n = cpu_min (PHILOX_CHUNK, a->cols - col);

        VEC_TYPED (a->grad_dtype, widen, a->dtable, position + col, n, sum);
        for (int64_t r = row; r < end; r++)
            VEC_TYPED (a->dtype, position_bwd_chunk, a, r, col, n, sum);
        VEC_TYPED (a->grad_dtype, narrow, a->dtable, position + col, n, sum);
    }
}

/* Positions in any order: dx is formed first.  Then its rows are added to the table as rows of
 * tokens are, with positions in place of ids.
 */
static struct kern_embedding_bwd as_tokens (const struct kern_position_bwd *a)
{
    return (struct kern_embedding_bwd){
        .tokens = a->tokens,
        .cols = a->cols,
        .count = a->count,
        .dout = a->dx,
        .dtable = a->dtable,
        .dtype = a->dtype,
        .grad_dtype = a->grad_dtype,
    };
}

size_t cpu_position_bwd_scratch (const struct kernels *k, const struct kern_position_bwd *a)
{
    const struct kern_embedding_bwd tokens = as_tokens (a);

    (void)k;
    if (!a->dropout.position.at && !a->entry.at)
        return 0;
    return (size_t)chains_size (&tokens) * sizeof (int64_t)
           + (size_t)a->tokens * sizeof (int32_t);
}

static int position_bwd_listed (const struct kernels *k, const struct kern_position_bwd *a,
                                struct mg_error *err)
{
    struct kern_embedding_bwd tokens = as_tokens (a);
    int64_t *memory = cpu_scratch (k, cpu_position_bwd_scratch (k, a), err);
    int32_t *id;

    if (!memory && a->tokens > 0)
        return -1;
    tokens.id = id = (int32_t *)(memory + chains_size (&tokens));
    for (int64_t t = 0; t < a->tokens; t++)
        id[t] = (int32_t)entry_of (&a->entry, &a->dropout, t);
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->tokens; row++)
        for (int64_t col = 0; col < a->cols; col += PHILOX_CHUNK)
            VEC_TYPED (a->dtype, position_bwd_chunk, a, row, col,
                       cpu_min (PHILOX_CHUNK, a->cols - col), NULL);
    add_tokens (k, &tokens, memory);
    return 0;
}

int cpu_position_bwd (const struct kernels *k, const struct kern_position_bwd *a,
                      struct mg_error *err)
{
    int64_t batch = a->dropout.batch;
    int64_t positions = a->tokens > 0 ? (a->tokens + batch - 1) / batch : 0;

    if (a->dropout.position.at || a->entry.at)
        return position_bwd_listed (k, a, err);
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t s = 0; s < positions; s++)
        position_bwd_rows (a, s * batch, cpu_min ((s + 1) * batch, a->tokens));
    return 0;
}
