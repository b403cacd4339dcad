/* reduce.c - ordered sums, averages, maxima and minima
 *
 * Block by block: the first source is widened into an accumulator that stays in the first
 * cache, the others are combined into it, the result is narrowed.  float32, float64 and
 * int64 are their own accumulators; 16-bit types and float8 use float32, the smaller integers
 * int64, whose lower bits wrap as theirs do.
 */

#include <stdint.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "libcore/base/half.h"
#include "libcore/comm/reduce.h"

enum { BLOCK = 1024 };

typedef void (*combine_f) (void *acc, const void *src, size_t n);

static void sum_f32 (void *acc, const void *src, size_t n)
{
    float *a = acc;
    const float *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] += x[i];
}

static void max_f32 (void *acc, const void *src, size_t n)
{
    float *a = acc;
    const float *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i] > a[i] || x[i] != x[i] ? x[i] : a[i];
}

static void min_f32 (void *acc, const void *src, size_t n)
{
    float *a = acc;
    const float *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i] < a[i] || x[i] != x[i] ? x[i] : a[i];
}

static void sum_f64 (void *acc, const void *src, size_t n)
{
    double *a = acc;
    const double *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] += x[i];
}

static void max_f64 (void *acc, const void *src, size_t n)
{
    double *a = acc;
    const double *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i] > a[i] || x[i] != x[i] ? x[i] : a[i];
}

static void min_f64 (void *acc, const void *src, size_t n)
{
    double *a = acc;
    const double *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i] < a[i] || x[i] != x[i] ? x[i] : a[i];
}

static void divide_f32 (void *acc, int by, size_t n)
{
    float *a = acc;

    for (size_t i = 0; i < n; i++)
        a[i] /= (float)by;
}

static void divide_f64 (void *acc, int by, size_t n)
{
    double *a = acc;

    for (size_t i = 0; i < n; i++)
        a[i] /= by;
}

/* Unsigned, so that an overflow wraps rather than be undefined. */
static void sum_i64 (void *acc, const void *src, size_t n)
{
    uint64_t *a = acc;
    const uint64_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] += x[i];
}

static void max_i64 (void *acc, const void *src, size_t n)
{
    int64_t *a = acc;
    const int64_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i] > a[i] ? x[i] : a[i];
}

static void min_i64 (void *acc, const void *src, size_t n)
{
    int64_t *a = acc;
    const int64_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i] < a[i] ? x[i] : a[i];
}

static void load_bf16 (void *acc, const void *src, size_t n)
{
    float *a = acc;
    const uint16_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = half_from_bf16 (x[i]);
}

static void store_bf16 (void *dst, const void *acc, size_t n)
{
    uint16_t *y = dst;
    const float *a = acc;

    for (size_t i = 0; i < n; i++)
        y[i] = half_to_bf16 (a[i]);
}

static void load_fp16 (void *acc, const void *src, size_t n)
{
    float *a = acc;
    const uint16_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = half_from_fp16 (x[i]);
}

static void store_fp16 (void *dst, const void *acc, size_t n)
{
    uint16_t *y = dst;
    const float *a = acc;

    for (size_t i = 0; i < n; i++)
        y[i] = half_to_fp16 (a[i]);
}

static void load_e4m3 (void *acc, const void *src, size_t n)
{
    float *a = acc;
    const uint8_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = float8_from_e4m3 (x[i]);
}

static void store_e4m3 (void *dst, const void *acc, size_t n)
{
    uint8_t *y = dst;
    const float *a = acc;

    for (size_t i = 0; i < n; i++)
        y[i] = float8_to_e4m3 (a[i]);
}

static void load_i32 (void *acc, const void *src, size_t n)
{
    int64_t *a = acc;
    const int32_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i];
}

static void store_i32 (void *dst, const void *acc, size_t n)
{
    uint32_t *y = dst;
    const uint64_t *a = acc;

    for (size_t i = 0; i < n; i++)
        y[i] = (uint32_t)a[i];
}

static void load_u8 (void *acc, const void *src, size_t n)
{
    int64_t *a = acc;
    const uint8_t *x = src;

    for (size_t i = 0; i < n; i++)
        a[i] = x[i];
}

static void store_u8 (void *dst, const void *acc, size_t n)
{
    uint8_t *y = dst;
    const uint64_t *a = acc;

    for (size_t i = 0; i < n; i++)
        y[i] = (uint8_t)a[i];
}

/* load and store NULL: the type is its own accumulator. */
static const struct row {
    size_t size;
    combine_f load, store;
    combine_f combine[3]; /* by enum mg_reduce_op */
    void (*divide) (void *acc, int by, size_t n);
} rows[MG_NUM_DTYPES] = {
    [MG_FLOAT32] = { 4, NULL, NULL, { sum_f32, max_f32, min_f32 }, divide_f32 },
    [MG_FLOAT64] = { 8, NULL, NULL, { sum_f64, max_f64, min_f64 }, divide_f64 },
    [MG_BFLOAT16] = { 2, load_bf16, store_bf16, { sum_f32, max_f32, min_f32 }, divide_f32 },
    [MG_FLOAT16] = { 2, load_fp16, store_fp16, { sum_f32, max_f32, min_f32 }, divide_f32 },
    [MG_INT32] = { 4, load_i32, store_i32, { sum_i64, max_i64, min_i64 }, NULL },
    [MG_INT64] = { 8, NULL, NULL, { sum_i64, max_i64, min_i64 }, NULL },
    [MG_UINT8] = { 1, load_u8, store_u8, { sum_i64, max_i64, min_i64 }, NULL },
    [MG_FLOAT8_E4M3] = { 1, load_e4m3, store_e4m3, { sum_f32, max_f32, min_f32 }, divide_f32 },
};

/* One block of 'n' elements at byte 'off' of every buffer. */
static void reduce_block (const struct row *row, enum mg_reduce_op op, char *out,
                          const void *const *src, int nsrc, size_t off, size_t n)
{
    combine_f combine = row->combine[op == MG_AVG ? MG_SUM : op];
    _Alignas (64) char acc[BLOCK * 8], wide[BLOCK * 8];

    if (row->load)
        row->load (acc, (const char *)src[0] + off, n);
    else
        memcpy (acc, (const char *)src[0] + off, n * row->size);
    for (int r = 1; r < nsrc; r++) {
        const void *x = (const char *)src[r] + off;

        if (row->load) {
            row->load (wide, x, n);
            x = wide;
        }
        combine (acc, x, n);
    }
    if (op == MG_AVG)
        row->divide (acc, nsrc, n);
    if (row->store)
        row->store (out + off, acc, n);
    else
        memcpy (out + off, acc, n * row->size);
}

void reduce_ordered (enum mg_dtype dtype, enum mg_reduce_op op, void *out,
                     const void *const *src, int nsrc, size_t count)
{
    const struct row *row = &rows[dtype];

    for (size_t i = 0; i < count; i += BLOCK) {
        size_t n = count - i < BLOCK ? count - i : BLOCK;

        reduce_block (row, op, out, src, nsrc, i * row->size, n);
    }
}
