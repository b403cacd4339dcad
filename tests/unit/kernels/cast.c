/* cast - every 16-bit and 8-bit value both ways, rounding at and around every boundary */

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { HALVES = 65536 };

/* Where denormals are flushed, and where not: -1 if that is not the same. */
static int cast (struct kernels *k, int64_t n, const void *x, enum mg_dtype from, void *y,
                 enum mg_dtype to)
{
    size_t size = (size_t)n * mg_dtype_size (to);
    void *flushed = kit_alloc (size + 1, 1);
    int rc;

    kit_enter (k);
    rc = kit_cast (k, n, x, from, flushed, to);
    kit_leave (k);
    if (rc == 0 && kit_cast (k, n, x, from, y, to) == 0)
        rc = memcmp (y, flushed, size) == 0 ? 0 : -1;
    if (rc < 0)
        memset (y, 0x77, size); // what the tests below find wrong
    free (flushed);
    return rc;
}

/* What 16 bits mean, from the formats' definitions. */
static double meaning (uint16_t bits, enum mg_dtype dtype)
{
    int digits = dtype == MG_BFLOAT16 ? 7 : 10, bias = dtype == MG_BFLOAT16 ? 127 : 15;
    int exponent = (bits & 0x7fff) >> digits, fraction = bits & ((1 << digits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == (1 << (15 - digits)) - 1)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp (fraction, 1 - bias - digits);
    return sign * ldexp (fraction + (1 << digits), exponent - bias - digits);
}

static void test_all_values (const struct kit_variant *v, enum mg_dtype dtype)
{
    uint16_t *half = kit_alloc (HALVES, sizeof (*half)), *back;
    float *wide = kit_alloc (HALVES, sizeof (*wide));
    int wrong = 0, changed = 0;

    back = kit_alloc (HALVES, sizeof (*back));
    for (int i = 0; i < HALVES; i++)
        half[i] = (uint16_t)i;
    cast (v->k, HALVES, half, dtype, wide, MG_FLOAT32);
    cast (v->k, HALVES, wide, MG_FLOAT32, back, dtype);
    for (int i = 0; i < HALVES; i++) {
        double want = meaning ((uint16_t)i, dtype);

        wrong += !(wide[i] == want || (isnan (wide[i]) && isnan (want)));
        changed += isnan (want) ? !isnan (meaning (back[i], dtype)) : back[i] != half[i];
    }
    is_int (wrong, 0, "%s: all of %s to float", v->name, mg_dtype_name (dtype));
    is_int (changed, 0, "%s: and back", v->name);
    free (half);
    free (back);
    free (wide);
}

/* Midway between neighbours ties go to the even one; a bit more or less to the nearer. */
static void test_rounding (const struct kit_variant *v, enum mg_dtype dtype)
{
    int last = dtype == MG_BFLOAT16 ? 0x7f7f : 0x7bff; /* largest finite */
    float *x = kit_alloc ((size_t)(6 * (last + 1)), sizeof (float));
    uint16_t *got = kit_alloc ((size_t)(6 * (last + 1)), sizeof (*got));
    int wrong = 0, n = 0;

    for (int i = 0; i <= last; i++) {
        double low = meaning ((uint16_t)i, dtype),
               high = meaning ((uint16_t)(i + 1), dtype);
        float middle
            = (float)(i < last ? (low + high) / 2
                               : low + (low - meaning ((uint16_t)(i - 1), dtype)) / 2);

        for (int sign = 1; sign >= -1; sign -= 2) {
            x[n++] = (float)sign * nextafterf (middle, 0);
            x[n++] = (float)sign * middle;
            x[n++] = (float)sign * nextafterf (middle, INFINITY);
        }
    }
    cast (v->k, n, x, MG_FLOAT32, got, dtype);
    for (int i = 0; i < n; i++) {
        int low = i / 6, sign = i % 6 < 3 ? 0 : 0x8000;
        int want = i % 3 == 0 ? low : i % 3 == 2 ? low + 1 : low + (low & 1);

        wrong += got[i] != (sign | want);
    }
    is_int (wrong, 0, "%s: float to %s rounds to nearest even", v->name,
            mg_dtype_name (dtype));
    free (x);
    free (got);
}

/* What 8 bits mean, from the format's definition. */
static double meaning8 (int bits)
{
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    double sign = bits & 0x80 ? -1 : 1;

    if ((bits & 0x7f) == 0x7f)
        return NAN;
    return sign * ldexp (exponent ? fraction + 8 : fraction, (exponent ? exponent : 1) - 10);
}

static void test_all_float8 (const struct kit_variant *v)
{
    uint8_t code[256], back[256];
    uint16_t half[256];
    float wide[256];
    int wrong = 0, changed = 0, half_wrong = 0;

    for (int i = 0; i < 256; i++)
        code[i] = (uint8_t)i;
    cast (v->k, 256, code, MG_FLOAT8_E4M3, wide, MG_FLOAT32);
    cast (v->k, 256, code, MG_FLOAT8_E4M3, half, MG_BFLOAT16);
    cast (v->k, 256, wide, MG_FLOAT32, back, MG_FLOAT8_E4M3);
    for (int i = 0; i < 256; i++) {
        double want = meaning8 (i), got = meaning (half[i], MG_BFLOAT16);

        wrong += !(wide[i] == want || (isnan (wide[i]) && isnan (want)))
                 || !signbit (wide[i]) != (i < 128)
                 || memcmp (&wide[i], &(float){ float8_from_e4m3 (code[i]) }, 4) != 0;
        half_wrong += !(got == want || (isnan (got) && isnan (want)));
        changed += back[i] != i;
    }
    is_int (wrong, 0, "%s: all of float8_e4m3 to float", v->name);
    is_int (half_wrong, 0, "%s: and to bfloat16", v->name);
    is_int (changed, 0, "%s: and back", v->name);
}

/* At every code, midway to the next and a bit beside both: the nearest, ties to even; beyond
 * the largest that one, NaN stays.
 */
static void test_float8_rounding (const struct kit_variant *v)
{
    static const float beyond[] = { 448, 449, 464, 480, 1e10f, FLT_MAX, INFINITY, NAN };
    static const float below[] = { 0, 0x1p-149f, 0x1p-126f, 0x1p-11f, 0x1p-10f };
    enum { LAST = 0x7e, EACH = 5, SPECIAL = 13, N = 2 * (LAST * EACH + SPECIAL) };
    float x[N];
    uint8_t want[N], got[N], plain;
    int wrong = 0, scalar = 0, n = 0;

    for (int sign = 0; sign <= 0x80; sign += 0x80) {
        int first = n;

        for (int i = 0; i < LAST; i++) {
            float middle = (float)((meaning8 (i) + meaning8 (i + 1)) / 2);

            x[n] = (float)meaning8 (i), want[n++] = (uint8_t)i;
            x[n] = nextafterf ((float)meaning8 (i), INFINITY), want[n++] = (uint8_t)i;
            x[n] = nextafterf (middle, 0), want[n++] = (uint8_t)i;
            x[n] = middle, want[n++] = (uint8_t)(i + (i & 1));
            x[n] = nextafterf (middle, INFINITY), want[n++] = (uint8_t)(i + 1);
        }
        for (int i = 0; i < 8; i++)
            x[n] = beyond[i], want[n++] = i < 7 ? 0x7e : 0x7f;
        for (int i = 0; i < 5; i++)
            x[n] = below[i], want[n++] = 0;
        for (int i = first; i < n; i++) {
            x[i] = sign ? -x[i] : x[i];
            want[i] = (uint8_t)(want[i] | sign);
        }
    }
    cast (v->k, n, x, MG_FLOAT32, got, MG_FLOAT8_E4M3);
    for (int i = 0; i < n; i++) {
        plain = float8_to_e4m3 (x[i]);
        wrong += got[i] != want[i];
        scalar += plain != want[i];
    }
    is_int (wrong, 0, "%s: float to float8_e4m3 rounds to nearest even, up to 448", v->name);
    is_int (scalar, 0, "%s: one by one too", v->name);
}

static void test_special (const struct kit_variant *v)
{
    const float x[] = { 65519.99f, 65520, 1e10f, -1e10f, INFINITY, 1e-8f, 2.98e-8f, 3e-8f,
                        -0.0f };
    const uint16_t want[] = { 0x7bff, 0x7c00, 0x7c00, 0xfc00, 0x7c00, 0, 0, 1, 0x8000 };
    uint16_t got[9];

    cast (v->k, 9, x, MG_FLOAT32, got, MG_FLOAT16);
    ok (memcmp (got, want, sizeof (want)) == 0, "%s: edges of float16", v->name);
}

/* Sizes around blocks, between all types. */
static void test_sizes (const struct kit_variant *v)
{
    static const int64_t sizes[] = { 0, 1, 8191, 8192, 8193, 20001 };
    float *x = kit_alloc (20001, sizeof (float)), *y = kit_alloc (20001, sizeof (float));
    uint16_t *a = kit_alloc (20001, 2), *b = kit_alloc (20001, 2);
    float *few = kit_alloc (20001, sizeof (float));
    uint8_t *code = kit_alloc (20001, 1);

    for (int i = 0; i < 20001; i++)
        x[i] = (float)(i % 129 - 64); /* exact in all types */
    for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++) {
        int64_t n = sizes[s];

        memset (y, 0xff, 20001 * sizeof (float));
        cast (v->k, n, x, MG_FLOAT32, a, MG_BFLOAT16);
        cast (v->k, n, a, MG_BFLOAT16, b, MG_FLOAT16);
        cast (v->k, n, b, MG_FLOAT16, a, MG_BFLOAT16);
        cast (v->k, n, a, MG_BFLOAT16, y, MG_FLOAT32);
        ok (memcmp (x, y, (size_t)n * sizeof (float)) == 0
                && (n == 20001 || isnan (y[n])),
            "%s: %d elements through all types", v->name, (int)n);
        for (int64_t i = 0; i < n; i++)
            few[i] = (float)(i % 33 - 16);
        memset (code, 0x55, 20001);
        cast (v->k, n, few, MG_FLOAT32, code, MG_FLOAT8_E4M3);
        cast (v->k, n, code, MG_FLOAT8_E4M3, a, MG_FLOAT16);
        cast (v->k, n, a, MG_FLOAT16, code, MG_FLOAT8_E4M3);
        cast (v->k, n, code, MG_FLOAT8_E4M3, y, MG_FLOAT32);
        ok (memcmp (few, y, (size_t)n * sizeof (float)) == 0
                && (n == 20001 || code[n] == 0x55),
            "%s: %d elements through float8_e4m3", v->name, (int)n);
    }
    cast (v->k, 20001, x, MG_FLOAT32, y, MG_FLOAT32);
    ok (memcmp (x, y, 20001 * sizeof (float)) == 0, "%s: float to float", v->name);
    free (x);
    free (y);
    free (a);
    free (b);
    free (few);
    free (code);
}

/* There and back with scales that are powers of two: as without, where nothing is lost. */
static void test_scaled (const struct kit_variant *v)
{
    enum { N = 8195 };
    float *x = kit_alloc (N, sizeof (float)), *y = kit_alloc (N, sizeof (float));
    uint8_t *code = kit_alloc (N, 1);
    uint16_t *half = kit_alloc (N, sizeof (*half));
    int wrong = 0;

    for (int e = -120; e <= 110; e += 23) {
        float scale = ldexpf (1, e), inverse = ldexpf (1, -e);

        for (int i = 0; i < N; i++)
            x[i] = (float)(i % 31 - 15) * scale;
        kit_cast_scaled (v->k, N, inverse, x, MG_FLOAT32, code, MG_FLOAT8_E4M3);
        kit_cast_scaled (v->k, N, scale, code, MG_FLOAT8_E4M3, half, MG_BFLOAT16);
        cast (v->k, N, half, MG_BFLOAT16, y, MG_FLOAT32);
        wrong += memcmp (x, y, N * sizeof (float)) != 0
                 || float8_from_e4m3 (code[N - 1]) != (N - 1) % 31 - 15;
    }
    is_int (wrong, 0, "%s: scaled to float8_e4m3 and back", v->name);
    free (x);
    free (y);
    free (code);
    free (half);
}

/* With a scale in device memory, which every call reads anew; 'scale' does not count then. */
static void test_scale_at (const struct kit_variant *v)
{
    enum { N = 5003 };
    float *x = kit_alloc (N, sizeof (float)), *y = kit_alloc (N, sizeof (float));
    float *want = kit_alloc (N, sizeof (float)), scale = 0.3f;
    uint16_t *half = kit_alloc (N, sizeof (*half)), *as = kit_alloc (N, sizeof (*as));
    struct kern_cast wide = { .n = N, .scale = 5, .scale_at = &scale, .x = x, .from = MG_FLOAT32,
                              .y = y, .to = MG_FLOAT32 };
    struct kern_cast narrow = { .n = N, .scale_at = &scale, .x = x, .from = MG_FLOAT32,
                                .y = half, .to = MG_BFLOAT16 };
    int wrong = 0;

    kit_random (x, N, 4);
    for (int i = 0; i < 3; i++) {
        scale = i == 2 ? 1 : scale * 2;
        kit_cast_scaled (v->k, N, scale, x, MG_FLOAT32, want, MG_FLOAT32);
        kit_cast_scaled (v->k, N, scale, x, MG_FLOAT32, as, MG_BFLOAT16);
        wrong += kern_cast (v->k, &wide, NULL, NULL) < 0
                 || kern_cast (v->k, &narrow, NULL, NULL) < 0
                 || memcmp (y, want, N * sizeof (float)) != 0
                 || memcmp (half, as, N * sizeof (*half)) != 0;
    }
    is_int (wrong, 0, "%s: scales in device memory", v->name);
    free (x);
    free (y);
    free (want);
    free (half);
    free (as);
}

/* In place, all values but the last: what comes of them as floats. */
static void test_in_place (const struct kit_variant *v, enum mg_dtype dtype)
{
    enum { N = 65536 };
    uint16_t *x = kit_alloc (N, sizeof (*x)), *want = kit_alloc (N, sizeof (*want));
    float *wide = kit_alloc (N, sizeof (*wide));
    int wrong = 0;

    for (int i = 0; i < N; i++)
        x[i] = (uint16_t)i;
    cast (v->k, N, x, dtype, wide, MG_FLOAT32);
    for (int i = 0; i < N; i++)
        wide[i] *= 0.3f;
    cast (v->k, N, wide, MG_FLOAT32, want, dtype);
    kit_cast_scaled (v->k, N - 1, 0.3f, x, dtype, x, dtype);
    for (int i = 0; i < N; i++)
        wrong += i == N - 1 ? x[i] != i : !isnan (wide[i]) && x[i] != want[i];
    is_int (wrong, 0, "%s: 0.3 x in place, %s", v->name, mg_dtype_name (dtype));
    kit_cast_scaled (v->k, N, 2, wide, MG_FLOAT32, wide, MG_FLOAT32);
    is_near (wide[1], 2 * (0.3f * (float)meaning (1, dtype)), 0, "%s: and float32", v->name);
    free (x);
    free (want);
    free (wide);
}

static void test_badparam (const struct kit_variant *v)
{
    float x = 1, y = 2;
    struct mg_error err = { "" };

    errno = 0;
    ok (kern_cast (v->k,
                   &(struct kern_cast){ .n = 1, .scale = 1, .x = &x, .from = MG_FLOAT32,
                                        .y = &y, .to = MG_INT32 },
                   NULL, &err) == -1
            && errno == ENOTSUP && y == 2,
        "%s: bad type: %s", v->name, err.text);
    ok (kern_cast (v->k,
                   &(struct kern_cast){ .n = 1, .scale = 1, .x = &x, .from = MG_FLOAT64,
                                        .y = &y, .to = MG_FLOAT32 },
                   NULL, &err) == -1,
        "%s: bad type: %s", v->name, err.text);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < kit.count; i++) {
        for (int t = 0; t < 2; t++) {
            test_all_values (&kit.variants[i], t ? MG_FLOAT16 : MG_BFLOAT16);
            test_rounding (&kit.variants[i], t ? MG_FLOAT16 : MG_BFLOAT16);
        }
        test_all_float8 (&kit.variants[i]);
        test_float8_rounding (&kit.variants[i]);
        test_special (&kit.variants[i]);
        test_sizes (&kit.variants[i]);
        test_scaled (&kit.variants[i]);
        test_scale_at (&kit.variants[i]);
        test_in_place (&kit.variants[i], i % 2 ? MG_FLOAT16 : MG_BFLOAT16);
        test_badparam (&kit.variants[i]);
    }
    kit_close (&kit);
    return done_testing ();
}
