/* reduce.c - test ordered reductions of every type and operation */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "libcore/comm/reduce.h"
#include "tests/tap/tap.h"
#include "tests/unit/comm/values.h"

enum { NSRC = 5 };

/* One element the plain way, from the left. */
static double serial (enum mg_dtype dtype, enum mg_reduce_op op, void *const *src,
                      size_t i)
{
    double acc = value_get (dtype, src[0], i);

    for (int r = 1; r < NSRC; r++)
        acc = value_combine (dtype, op, acc, value_get (dtype, src[r], i));
    return value_finish (dtype, op, acc, NSRC);
}

static void all_types (void)
{
    static const size_t counts[] = { 0, 1, 7, 1023, 1024, 1025, 5000 };

    for (int dtype = 0; dtype < MG_NUM_DTYPES; dtype++) {
        for (size_t c = 0; c < sizeof (counts) / sizeof (counts[0]); c++) {
            size_t n = counts[c], size = mg_dtype_size (dtype), wrong = 0;
            void *src[NSRC], *out = calloc (n + 1, size), *want = calloc (1, size);

            for (int r = 0; r < NSRC; r++) {
                src[r] = calloc (n + 1, size);
                for (size_t i = 0; i < n; i++)
                    value_put (dtype, src[r], i, value_of (dtype, (uint32_t)c, r, i));
            }
            for (int op = MG_SUM; op <= MG_AVG; op++) {
                if (!value_has (dtype, op))
                    continue;
                reduce_ordered (dtype, op, out, (const void *const *)src, NSRC, n);
                for (size_t i = 0; i < n; i++) {
                    value_put (dtype, want, 0, serial (dtype, op, src, i));
                    wrong += memcmp ((char *)out + i * size, want, size) != 0;
                }
            }
            is_int (wrong, 0, "%zu %s: the same bits as one by one", n,
                    mg_dtype_name (dtype));
            reduce_ordered (dtype, MG_MAX, out, (const void *const *)src, NSRC, n);
            reduce_ordered (dtype, MG_MAX, src[2], (const void *const *)src, NSRC, n);
            ok (memcmp (out, src[2], n * size) == 0, "also in place of one source");
            for (int r = 0; r < NSRC; r++)
                free (src[r]);
            free (out);
            free (want);
        }
    }
}

static void order_matters (void)
{
    float a = 1e8f, b = -1e8f, c = 1.0f, out;
    const void *abc[] = { &a, &b, &c }, *cab[] = { &c, &a, &b };

    reduce_ordered (MG_FLOAT32, MG_SUM, &out, abc, 3, 1);
    is_near (out, 1.0, 0.0, "1e8 - 1e8 + 1 is 1");
    reduce_ordered (MG_FLOAT32, MG_SUM, &out, cab, 3, 1);
    is_near (out, 0.0, 0.0, "1 + 1e8 - 1e8 is 0");
}

/* 256 + 1 + 1 is 258 when rounded once, 256 when every step is rounded to bfloat16; 2048 and
 * float16 alike.  An average fits where its sum does not.
 */
static void rounded_once (void)
{
    uint16_t x = half_to_bf16 (256.0f), one = half_to_bf16 (1.0f), out;
    uint16_t y = half_to_fp16 (2048.0f), unit = half_to_fp16 (1.0f);
    uint16_t much = half_to_fp16 (60000.0f);
    const void *src[] = { &x, &one, &one }, *halves[] = { &y, &unit, &unit };
    const void *large[] = { &much, &much };

    reduce_ordered (MG_BFLOAT16, MG_SUM, &out, src, 3, 1);
    is_near (half_from_bf16 (out), 258.0, 0.0, "bfloat16 sums are rounded once");
    reduce_ordered (MG_FLOAT16, MG_SUM, &out, halves, 3, 1);
    is_near (half_from_fp16 (out), 2050.0, 0.0, "float16 sums are rounded once");
    reduce_ordered (MG_FLOAT16, MG_SUM, &out, large, 2, 1);
    ok (half_from_fp16 (out) == INFINITY, "a float16 sum that is too large is infinite");
    reduce_ordered (MG_FLOAT16, MG_AVG, &out, large, 2, 1);
    is_int (out, much, "the average is not");
}

static void edges (void)
{
    float nan = NAN, one = 1.0f, two = 2.0f, out;
    double wide_nan = NAN, wide_one = 1.0, wide_out;
    int32_t big = INT32_MAX, i1 = 1, iout;
    int64_t lbig = INT64_MAX, l1 = 1, lout;
    const void *first[] = { &nan, &one, &two }, *last[] = { &one, &two, &nan };
    const void *ints[] = { &big, &i1 }, *longs[] = { &lbig, &l1 };
    const void *wide_first[] = { &wide_nan, &wide_one }, *wide_last[] = { &wide_one, &wide_nan };

    for (int op = MG_SUM; op <= MG_AVG; op++) {
        reduce_ordered (MG_FLOAT32, op, &out, first, 3, 1);
        ok (isnan (out), "operation %d keeps a first NaN", op);
        reduce_ordered (MG_FLOAT32, op, &out, last, 3, 1);
        ok (isnan (out), "and a last one");
        reduce_ordered (MG_FLOAT64, op, &wide_out, wide_first, 2, 1);
        ok (isnan (wide_out), "so it does with float64");
        reduce_ordered (MG_FLOAT64, op, &wide_out, wide_last, 2, 1);
        ok (isnan (wide_out), "the last one, too");
    }
    reduce_ordered (MG_INT32, MG_SUM, &iout, ints, 2, 1);
    is_int (iout, INT32_MIN, "int32 wraps");
    reduce_ordered (MG_INT64, MG_SUM, &lout, longs, 2, 1);
    is_int (lout, INT64_MIN, "int64 wraps");
}

/* Every 16-bit pattern survives the way up and down, and rounding is to nearest even. */
static void halves (void)
{
    static const struct {
        float value;
        uint16_t bf16, fp16;
    } rows[] = {
        { 0.0f, 0x0000, 0x0000 }, { -0.0f, 0x8000, 0x8000 }, { 1.0f, 0x3f80, 0x3c00 },
        { -2.0f, 0xc000, 0xc000 }, { 65504.0f, 0x4780, 0x7bff },
        { 65519.0f, 0x4780, 0x7bff }, { 65520.0f, 0x4780, 0x7c00 },
        { 1e30f, 0x714a, 0x7c00 }, { INFINITY, 0x7f80, 0x7c00 },
        { -INFINITY, 0xff80, 0xfc00 }, { 0x1p-14f, 0x3880, 0x0400 },
        { 0x1p-24f, 0x3380, 0x0001 }, { 0x1p-25f, 0x3300, 0x0000 },
        { 0x1.8p-24f, 0x33c0, 0x0002 }, { 0x1.000002p-25f, 0x3300, 0x0001 },
        { 0x1.004p0f, 0x3f80, 0x3c01 }, { 0x1.002p0f, 0x3f80, 0x3c00 },
        { 0x1.006p0f, 0x3f80, 0x3c02 }, { 0x1.01p0f, 0x3f80, 0x3c04 },
        { 0x1.03p0f, 0x3f82, 0x3c0c }, { 3.4028235e38f, 0x7f80, 0x7c00 },
    };
    int wrong_bf16 = 0, wrong_fp16 = 0;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        is_int (half_to_bf16 (rows[i].value), rows[i].bf16, "%g in bfloat16",
                rows[i].value);
        is_int (half_to_fp16 (rows[i].value), rows[i].fp16, "%g in float16",
                rows[i].value);
    }
    for (unsigned x = 0; x < 65536; x++) {
        float b = half_from_bf16 ((uint16_t)x), h = half_from_fp16 ((uint16_t)x);

        if (isnan (b) ? !isnan (half_from_bf16 (half_to_bf16 (b)))
                      : half_to_bf16 (b) != x)
            wrong_bf16++;
        if (isnan (h) ? !isnan (half_from_fp16 (half_to_fp16 (h)))
                      : half_to_fp16 (h) != x)
            wrong_fp16++;
    }
    is_int (wrong_bf16, 0, "all bfloat16 values survive");
    is_int (wrong_fp16, 0, "all float16 values survive");
    ok (isnan (half_from_bf16 (half_to_bf16 (half_float_of (0x7f800001)))),
        "a NaN whose payload is cut off stays one");
}

int main (void)
{
    all_types ();
    order_matters ();
    rounded_once ();
    edges ();
    halves ();
    return done_testing ();
}
