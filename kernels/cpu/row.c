/* row.c - rows of features from one order to another, and back (formulas in moe.h)
 *
 * Rows are shared among the threads; a row is computed by one thread in one order.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

/* Rows that there are. */
static int64_t count_rows (int64_t rows, const int64_t *live)
{
    return live ? cpu_min (rows, *live) : rows;
}

VEC_INLINE void gather_row (const struct kern_row_gather *a, int64_t to, int64_t from,
                            float weight, const enum mg_dtype type)
{
    for (int64_t c = 0; c < a->cols; c += VEC)
        vec_put (a->y, to + c, weight * vec_get (a->x, from + c, a->cols - c, type), a->cols - c,
                 type);
}

/* Results larger than this are written past the caches, which would read them first. */
enum { STREAM_BYTES = 16 << 20 };

/* Copy a row of whole cache lines past the caches.  Ends with stream_end(). */
VEC_INLINE void stream_row (void *to, const void *from, size_t size)
{
#if defined(__SSE2__)
    for (size_t i = 0; i < size; i += 64) {
        __m128i x[4];

        memcpy (x, (const char *)from + i, sizeof (x));
        VEC_UNROLL for (int j = 0; j < 4; j++)
            _mm_stream_si128 ((__m128i *)((char *)to + i) + j, x[j]);
    }
#else
    memcpy (to, from, size);
#endif
}

VEC_INLINE void stream_end (void)
{
#if defined(__SSE2__)
    _mm_sfence ();
#endif
}

static bool is_for_stream (const struct kern_row_gather *a, int64_t rows, size_t size)
{
    return !a->weight && size % 64 == 0 && (uintptr_t)a->y % 64 == 0
           && (size_t)rows * size > STREAM_BYTES;
}

static void gather (const struct kern_row_gather *a, int64_t i, size_t size, bool stream)
{
    int64_t j = a->source ? a->source[i] : i;
    int64_t from = j / (a->divide ? a->divide : 1);
    char *to = (char *)a->y + (size_t)i * size;

    if (j < 0)
        memset (to, 0, size);
    else if (stream)
        stream_row (to, (const char *)a->x + (size_t)from * size, size);
    else if (!a->weight)
        memcpy (to, (const char *)a->x + (size_t)from * size, size);
    else
        VEC_TYPED (a->dtype, gather_row, a, i * a->cols, from * a->cols, a->weight[j]);
}

int cpu_row_gather (const struct kernels *k, const struct kern_row_gather *a,
                    struct mg_error *err)
{
    size_t size = (size_t)a->cols * cpu_size (a->dtype);
    int64_t rows = count_rows (a->rows, a->live);
    bool stream = is_for_stream (a, rows, size);

    (void)k, (void)err;
    if (size == 0)
        return 0;
#pragma omp parallel num_threads (cpu_of (k)->threads) if (rows * a->cols > CPU_SERIAL)
    {
#pragma omp for
        for (int64_t i = 0; i < rows; i++)
            gather (a, i, size, stream);
        stream_end ();
    }
    return 0;
}

/* Rows of x that a token has, and their weights. */
struct terms {
    int64_t n;
    int64_t from[16];
    float weight[16];
};

/* Terms from place *k of token 't' on. */
static void list_terms (const struct kern_row_combine *a, int64_t t, int64_t *k, struct terms *s)
{
    s->n = 0;
    for (; *k < a->topk && s->n < 16; (*k)++) {
        int64_t c = t * a->topk + *k, row = a->row ? a->row[c] : c;

        if (row < 0)
            continue;
        s->from[s->n] = row * a->cols;
        s->weight[s->n++] = a->weight ? a->weight[c] : 1;
    }
}

/* Columns c, c + 1, ... of the terms' sum, added to 'sum'. */
VEC_INLINE vf add_terms (const struct kern_row_combine *a, const struct terms *s, int64_t c,
                         vf sum, const enum mg_dtype type)
{
    for (int64_t i = 0; i < s->n; i++)
        sum += s->weight[i] * vec_get (a->x, s->from[i] + c, a->cols - c, type);
    return sum;
}

VEC_INLINE void combine_few (const struct kern_row_combine *a, int64_t t, const struct terms *s,
                             const enum mg_dtype type)
{
    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t to = t * a->cols + c, left = a->cols - c;
        vf sum = a->accumulate ? vec_get (a->y, to, left, type) : (vf){ 0 };

        vec_put (a->y, to, add_terms (a, s, c, sum, type), left, type);
    }
}

/* More terms than a list holds. */
VEC_INLINE void combine_many (const struct kern_row_combine *a, int64_t t,
                              const enum mg_dtype type)
{
    struct terms s;

    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t to = t * a->cols + c, left = a->cols - c;
        vf sum = a->accumulate ? vec_get (a->y, to, left, type) : (vf){ 0 };

        for (int64_t k = 0; k < a->topk;) {
            list_terms (a, t, &k, &s);
            sum = add_terms (a, &s, c, sum, type);
        }
        vec_put (a->y, to, sum, left, type);
    }
}

static void combine (const struct kern_row_combine *a, int64_t t)
{
    struct terms s;
    int64_t k = 0;

    list_terms (a, t, &k, &s);
    if (k == a->topk)
        VEC_TYPED (a->dtype, combine_few, a, t, &s);
    else
        VEC_TYPED (a->dtype, combine_many, a, t);
}

int cpu_row_combine (const struct kernels *k, const struct kern_row_combine *a,
                     struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->topk * a->cols > CPU_SERIAL)
    for (int64_t t = 0; t < a->tokens; t++)
        combine (a, t);
    return 0;
}

VEC_INLINE float dot (const struct kern_row_dot *a, int64_t x, int64_t y,
                      const enum mg_dtype type)
{
    vf sum[2] = { { 0 }, { 0 } };

    for (int64_t c = 0; c < a->cols; c += VEC)
        sum[c / VEC % 2] += vec_get (a->x, x + c, a->cols - c, type)
                            * vec_get (a->y, y + c, a->cols - c, type);
    return vec_sum (sum[0] + sum[1]);
}

int cpu_row_dot (const struct kernels *k, const struct kern_row_dot *a, struct mg_error *err)
{
    int64_t choices = a->tokens * a->topk;

    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (choices * a->cols > CPU_SERIAL)
    for (int64_t c = 0; c < choices; c++) {
        int64_t row = a->row ? a->row[c] : c;

        a->out[c] = row < 0 ? 0 : VEC_TYPED (a->dtype, dot, a, row * a->cols,
                                             c / a->topk * a->cols);
    }
    return 0;
}
