/* twins_copy.c - copies, constants and conversions on the double against the CPU's */

#include <math.h>
#include <string.h>

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

struct blocks {
    int64_t rows, heads, cols;
    int64_t x_between, y_between; /* elements between two blocks of a row */
    size_t shift, y_shift;
};

static const struct blocks blocks[] = {
    { 0, 2, 8, 0, 0, 0, 0 }, { 3, 0, 8, 0, 0, 0, 0 }, { 3, 2, 0, 8, 8, 0, 0 },
    { 1, 1, 1, 0, 0, 0, 0 }, { 3, 2, 16, 8, 0, 0, 0 }, { 3, 2, 16, 8, 0, 1, 0 },
    { 5, 3, 37, 3, 11, 0, 0 }, { 2, 2, 20, 4, 12, 2, 0 }, { 2, 2, 20, 0, 4, 0, 0 },
    { 2, 2, 20, 4, 0, 0, 0 }, { 2, 1, 4100, 0, 4, 0, 0 }, { 2, 1, 4100, 0, 3, 0, 0 },
    { 2, 2, 32, 0, 0, 0, 1 },
};

static const char *const combine_names[] = { "", " sum", " mean", " max", " min" };

/* If 'spread', x has one block, which goes to all places. */
static void test_copy (enum mg_dtype dtype, const struct blocks *b, enum kern_combine combine,
                       bool spread)
{
    int64_t x_h = spread ? 0 : b->cols + b->x_between, y_h = b->cols + b->y_between;
    struct kern_copy a = { .rows = b->rows, .heads = b->heads, .cols = b->cols,
                           .combine = combine, .x_stride_h = x_h, .y_stride_h = y_h,
                           .dtype = dtype };

    a.x_stride = b->heads * (b->cols + b->x_between);
    a.y_stride = b->heads * y_h + (combine ? y_h : 0);
    a.x = twins_random ((size_t)(b->rows * a.x_stride), dtype, b->shift, 1);
    a.y = twins_random ((size_t)(b->rows * a.y_stride), dtype, b->shift + b->y_shift,
                        2);
    twins_check (KERN_COPY, &a, TWINS_EXACT, "copy %s %dx%dx%d+%zu%s%s", mg_dtype_name (dtype),
                 (int)b->rows, (int)b->heads, (int)b->cols, b->shift, combine_names[combine],
                 spread ? " spread" : "");
}

/* --- numbers that combining flushes, rounds or cancels --- */

/* The bits of a number: 0, denormal, near the least normal one or near 1, of either sign; or large
 * or infinite, and positive.  So no sum is a NaN: the bits of NaNs may differ.
 */
static uint64_t edge_bits (enum mg_dtype dtype, uint64_t random)
{
    const int bits = 8 * (int)mg_dtype_size (dtype);
    const int digits = dtype == MG_FLOAT64 ? 52 : dtype == MG_FLOAT32 ? 23
                       : dtype == MG_BFLOAT16 ? 7 : 10;
    const uint64_t most = (UINT64_C (1) << (bits - 1 - digits)) - 1;
    uint64_t fraction = random >> 8 & ((UINT64_C (1) << digits) - 1);
    uint64_t sign = (random & 1) << (bits - 1);

    switch (random >> 1 & 7) {
    case 0:
        return sign;
    case 1:
        return random >> 4 & 7 ? 1 : most << digits; // few are infinite
    case 2:
        return (most - 1) << digits | fraction;
    case 3:
        return sign | most / 2 << digits | fraction;
    case 4:
    case 5:
        return sign | (1 + (random >> 4 & 3)) << digits | fraction;
    default:
        return sign | fraction;
    }
}

static void test_edges (enum mg_dtype dtype, int64_t heads, enum kern_combine combine, size_t shift)
{
    enum { COLS = 1001, HEADS = 3 };
    struct kern_copy a = { .rows = 1, .heads = heads, .cols = COLS, .combine = combine,
                           .x_stride_h = COLS, .dtype = dtype };
    static char bits[HEADS * COLS * 8];
    size_t n = (size_t)heads * COLS, size = mg_dtype_size (dtype);
    uint64_t random = 88172645463325252u;

    for (size_t i = 0; i < n; i++) {
        uint64_t x;

        random ^= random << 13; // G. Marsaglia, Xorshift RNGs (2003)
        random ^= random >> 7;
        random ^= random << 17;
        x = edge_bits (dtype, random);
        memcpy (bits + i * size, &x, size);
    }
    a.x = twins_values (n, size, shift, bits);
    a.y = twins_values (COLS, size, shift, NULL);
    twins_flush (true);
    twins_check (KERN_COPY, &a, TWINS_EXACT, "edges of %s, %d blocks%s+%zu", mg_dtype_name (dtype),
                 (int)heads, combine_names[combine], shift);
    twins_flush (false);
}

static void test_combine (void)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_FLOAT64, MG_BFLOAT16, MG_FLOAT16 };

    for (size_t d = 0; d < sizeof (types) / sizeof (types[0]); d++) {
        for (size_t i = 0; i < sizeof (blocks) / sizeof (blocks[0]); i++) {
            test_copy (types[d], &blocks[i], KERN_COMBINE_NONE, false);
            test_copy (types[d], &blocks[i], KERN_COMBINE_NONE, true);
            test_copy (types[d], &blocks[i], KERN_COMBINE_SUM, false);
            test_copy (types[d], &blocks[i], KERN_COMBINE_MEAN + i % 3, false);
        }
        for (int combine = KERN_COMBINE_SUM; combine <= KERN_COMBINE_MIN; combine++) {
            test_edges (types[d], 1, (enum kern_combine)combine, 0);
            test_edges (types[d], 2, (enum kern_combine)combine, 1);
            test_edges (types[d], 3, (enum kern_combine)combine, 0);
        }
    }
}

static void test_fill (enum mg_dtype dtype, size_t n, size_t shift, float value)
{
    struct kern_fill a = { .n = (int64_t)n, .value = value, .dtype = dtype };

    a.out = twins_random (n, dtype, shift, 1);
    twins_check (KERN_FILL, &a, TWINS_EXACT, "fill %s %zu+%zu with %g", mg_dtype_name (dtype), n,
                 shift, (double)value);
}

/* --- conversions --- */

enum { STORED = 4 };
static const enum mg_dtype stored[STORED]
    = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16, MG_FLOAT8_E4M3 };

/* Numbers that conversions round, make infinite or bound, ties among them, then some of each
 * magnitude.
 */
static void numbers (float *x, size_t n)
{
    static const float edge[] = { 0, -0.0f, 1, -1, 448, 449, -464, 65504, 65519, 65520, 1e30f,
                                  INFINITY, -INFINITY, 0x1p-9f, 0x1p-10f, 0x1.8p-10f, 0x1p-24f,
                                  0x1p-25f, 0x1.8p-25f, 0x1.01p0f, 0x1.03p0f, 1.0625f, 1.1875f,
                                  0x1p-6f, 0x1.fp-7f, 0x1p-126f };
    const size_t edges = sizeof (edge) / sizeof (edge[0]);

    for (size_t i = 0; i < n; i++)
        x[i] = i < edges ? edge[i]
                         : ldexpf ((float)((int)(i * 2654435761u >> 8 & 0xffff) - 0x8000),
                                   (int)(i % 48) - 36);
}

static void *some (enum mg_dtype dtype, size_t n, size_t shift)
{
    float x[2048];
    uint8_t bytes[2048];

    if (n > sizeof (bytes))
        bail_out ("%zu numbers", n);
    if (dtype == MG_FLOAT8_E4M3) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(i * 7);
        return twins_values (n, 1, shift, bytes);
    }
    numbers (x, n);
    return twins_numbers (n, dtype, shift, x);
}

static void *room (enum mg_dtype dtype, size_t n, size_t shift)
{
    return dtype == MG_FLOAT8_E4M3 ? twins_values (n, 1, shift, NULL)
                                   : twins_random (n, dtype, shift, 5);
}

static void test_cast (enum mg_dtype from, enum mg_dtype to, size_t n, size_t shift,
                       size_t y_shift, float scale, bool on_device)
{
    struct kern_cast a = { .n = (int64_t)n, .scale = on_device ? NAN : scale, .from = from,
                           .to = to };

    if (on_device)
        a.scale_at = twins_numbers (1, MG_FLOAT32, 0, &scale);
    a.x = some (from, n, shift);
    a.y = room (to, n, y_shift);
    twins_check (KERN_CAST, &a, TWINS_EXACT, "cast %s to %s %zu+%zu+%zu times %g%s",
                 mg_dtype_name (from), mg_dtype_name (to), n, shift, y_shift, (double)scale,
                 on_device ? " on the device" : "");
}

static void test_cast_in_place (enum mg_dtype dtype)
{
    struct kern_cast a = { .n = 77, .scale = 0.25f, .from = dtype, .to = dtype };

    a.x = a.y = some (dtype, 77, 1);
    twins_check (KERN_CAST, &a, TWINS_EXACT, "cast %s in place", mg_dtype_name (dtype));
}

static void test_casts (void)
{
    for (int f = 0; f < STORED; f++) {
        for (int t = 0; t < STORED; t++) {
            test_cast (stored[f], stored[t], 0, 0, 0, 1, false);
            test_cast (stored[f], stored[t], 1, 0, 0, 2, true);
            test_cast (stored[f], stored[t], 271, 0, 0, 1, false);
            test_cast (stored[f], stored[t], 1024, 0, 0, 0.25f, true);
            test_cast (stored[f], stored[t], 271, 1, 2, 4, false);
            test_cast (stored[f], stored[t], 64, 1, 0, 1, false);
            test_cast (stored[f], stored[t], 64, 0, 1, 1, false);
        }
        test_cast_in_place (stored[f]);
    }
    test_cast (MG_FLOAT32, MG_BFLOAT16, 2048, 0, 0, 1, false);
}

/* What instrumented kernels move: each element once, in full sectors. */
static void test_counts (void)
{
    enum { ROWS = 6, HEADS = 2, COLS = 256, N = ROWS * HEADS * COLS };
    struct kern_copy copy = { .rows = ROWS, .heads = HEADS, .cols = COLS,
                              .x_stride = HEADS * COLS, .x_stride_h = COLS,
                              .y_stride = HEADS * COLS, .y_stride_h = COLS, .dtype = MG_BFLOAT16 };
    struct kern_cast cast = { .n = N, .scale = 1, .from = MG_FLOAT32, .to = MG_BFLOAT16 };
    struct launch_counts c;

    copy.x = twins_random (N, MG_BFLOAT16, 0, 1);
    copy.y = twins_random (N, MG_BFLOAT16, 0, 2);
    if (!twins_count (KERN_COPY, &copy, &c))
        return;
    is_int (c.read_bytes + c.written_bytes, 2 * N * 2, "copy moves each element once");
    is_int (c.sectors, 2 * N * 2 / 32, "(in full sectors)");
    cast.x = twins_random (N, MG_FLOAT32, 0, 1);
    cast.y = twins_random (N, MG_BFLOAT16, 0, 2);
    if (!twins_count (KERN_CAST, &cast, &c))
        return;
    is_int (c.read_bytes + c.written_bytes, N * 6, "cast moves each element once");
    is_int (c.sectors, N * 6 / 32, "(in full sectors)");
}

void twins_copy (void)
{
    static const size_t sizes[] = { 0, 1, 7, 64, 257, 5000 };

    for (size_t d = 0; d < TWINS_DTYPES; d++) {
        for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
            test_fill (twins_dtypes[d], sizes[i], 0, 0.3f);
            test_fill (twins_dtypes[d], sizes[i], 3, -70000);
        }
    }
    test_combine ();
    test_casts ();
    test_counts ();
}
