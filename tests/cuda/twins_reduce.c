/* twins_reduce.c - sums over rows and over arrays on the double against the CPU's */

#include <math.h>

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

static const struct twins_shape shapes[] = {
    { 0, 8, 0, 0 }, { 4, 0, 0, 0 }, { 1, 1, 0, 0 }, { 64, 32, 0, 0 }, { 65, 40, 0, 0 },
    { 130, 37, 1, 0 }, { 9, 2312, 0, 0 }, { 9, 264, 5, 0 }, { 9, 264, 0, 1 }, { 9, 264, 0, 2 },
};

static void test_col_sum (enum mg_dtype dtype, enum mg_dtype grad_dtype,
                          const struct twins_shape *s)
{
    struct kern_col_sum a = { .rows = s->rows, .cols = s->cols, .dtype = dtype,
                              .grad_dtype = grad_dtype };

    a.x = twins_random ((size_t)(s->rows * s->cols), dtype, twins_shift (s, 1), 1);
    a.out = twins_random ((size_t)s->cols, grad_dtype, twins_shift (s, 2), 2);
    twins_check (KERN_COL_SUM, &a, twins_tolerance (grad_dtype), "col_sum %s to %s %dx%d+%zu.%d",
                 mg_dtype_name (dtype), mg_dtype_name (grad_dtype), (int)s->rows, (int)s->cols,
                 s->shift, s->odd);
}

/* n numbers of any stored type, some of them zeros of either sign; one is 'special' if there is
 * room.
 */
static void *array (enum mg_dtype dtype, size_t n, size_t shift, float special)
{
    static float x[70000];
    static uint8_t bytes[70000];

    if (n > sizeof (bytes))
        bail_out ("%zu numbers", n);
    for (size_t i = 0; i < n; i++) {
        x[i] = ldexpf ((float)((int)(i * 2654435761u >> 9 & 0x3ff) - 512), -9 - (int)(i % 5));
        if (i % 17 < 2)
            x[i] = i % 17 ? -0.0f : 0;
        bytes[i] = (uint8_t)(i * 11 % 126 + (i & 1) * 128);
    }
    if (dtype == MG_FLOAT8_E4M3) {
        if (isnan (special) && n > 5)
            bytes[n / 2] = 0xff;
        return twins_values (n, 1, shift, bytes);
    }
    if (n > 5)
        x[n / 2] = special;
    return twins_numbers (n, dtype, shift, x);
}

static void test_arrays (enum mg_dtype dtype, size_t n, size_t shift, float special)
{
    struct kern_sum_sq sum = { .n = (int64_t)n, .dtype = dtype };
    struct kern_max_abs most = { .n = (int64_t)n, .dtype = dtype };
    struct kern_count_zeros zeros = { .n = (int64_t)n, .dtype = dtype };
    const char *type = mg_dtype_name (dtype);

    sum.x = array (dtype, n, shift, special);
    sum.out = twins_random (1, MG_FLOAT64, 0, 1);
    twins_check (KERN_SUM_SQ, &sum, 1e-7, "sum_sq %s %zu+%zu with %g", type, n, shift,
                 (double)special);
    most.x = array (dtype, n, shift, special);
    most.out = twins_random (1, MG_FLOAT32, 0, 1);
    twins_check (KERN_MAX_ABS, &most, TWINS_EXACT, "max_abs %s %zu+%zu with %g", type, n, shift,
                 (double)special);
    if (dtype == MG_FLOAT8_E4M3)
        return;
    zeros.x = array (dtype, n, shift, special);
    zeros.out = twins_random (1, MG_FLOAT64, 0, 1);
    twins_check (KERN_COUNT_ZEROS, &zeros, TWINS_EXACT, "count_zeros %s %zu+%zu", type, n, shift);
}

/* What instrumented kernels move: x once, little besides. */
static void test_counts (void)
{
    enum { ROWS = 128, COLS = 512, N = ROWS * COLS };
    struct kern_col_sum cols = { .rows = ROWS, .cols = COLS, .dtype = MG_BFLOAT16,
                                 .grad_dtype = MG_FLOAT32 };
    struct kern_sum_sq sum = { .n = N, .dtype = MG_BFLOAT16 };
    struct launch_counts c;

    cols.x = twins_random (N, MG_BFLOAT16, 0, 1);
    cols.out = twins_random (COLS, MG_FLOAT32, 0, 2);
    if (!twins_count (KERN_COL_SUM, &cols, &c))
        return;
    ok ((c.read_bytes + c.written_bytes) * 10 <= (N * 2 + COLS * 8) * 11,
        "col_sum moves at most 1.1 times the bytes of x and the sums");
    is_int (c.wavefronts, c.shared_requests, "shared memory has no bank conflicts");
    sum.x = twins_random (N, MG_BFLOAT16, 0, 1);
    sum.out = twins_random (1, MG_FLOAT64, 0, 2);
    if (!twins_count (KERN_SUM_SQ, &sum, &c))
        return;
    ok ((c.read_bytes + c.written_bytes) * 10 <= N * 2 * 11,
        "sum_sq moves at most 1.1 times the bytes of x");
}

void twins_reduce (void)
{
    static const enum mg_dtype stored[]
        = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16, MG_FLOAT8_E4M3 };
    static const struct {
        size_t n, shift;
        float special;
    } arrays[] = { { 0, 0, 0 },      { 1, 0, 0 },          { 6, 1, -3 },     { 255, 0, NAN },
                   { 2049, 3, -5 }, { 4100, 0, INFINITY }, { 20000, 1, 0.5f } };

    for (size_t d = 0; d < TWINS_DTYPES; d++)
        for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
            test_col_sum (twins_dtypes[d], MG_FLOAT32, &shapes[i]);
            test_col_sum (twins_dtypes[d], twins_dtypes[d], &shapes[i]);
        }
    for (size_t d = 0; d < sizeof (stored) / sizeof (stored[0]); d++)
        for (size_t i = 0; i < sizeof (arrays) / sizeof (arrays[0]); i++)
            test_arrays (stored[d], arrays[i].n, arrays[i].shift, arrays[i].special);
    test_counts ();
}
