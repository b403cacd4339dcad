/* state - values stored in halves, with scales and rounded; and loaded again */

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

/* With a scale for the largest of them that is finite. */
static int store (const struct kernels *k, int64_t n, const float *in,
                  struct kern_state *state)
{
    float largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = isfinite (in[i]) ? fmaxf (largest, fabsf (in[i])) : largest;
    if (!state->upper && kern_has_scale (state->dtype))
        state->scale = kern_scale (state->dtype, largest);
    return kit_state_store (k, n, in, MG_FLOAT32, state);
}

static int load (const struct kernels *k, int64_t n, const struct kern_state *state,
                 float *out)
{
    return kit_state_load (k, n, state, out, MG_FLOAT32);
}

/* --- halves --- */

enum { PATTERNS = 1 << 22 };

/* All upper halves with lower ones at and around the tie, then random bits. */
static uint32_t pattern (uint32_t i)
{
    static const uint32_t lower[8] = { 0, 1, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff };
    uint64_t x = i * 0x9e3779b97f4a7c15;

    if (i < 8 << 16)
        return i >> 3 << 16 | lower[i & 7];
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
    return (uint32_t)(x >> 32);
}

static void test_halves (const struct kit_variant *v)
{
    float *in = kit_alloc (PATTERNS, 4), *out = kit_alloc (PATTERNS, 4);
    uint16_t *upper = kit_alloc (PATTERNS, 2), *lower = kit_alloc (PATTERNS, 2);
    struct kern_state state = { .data = lower, .upper = upper };
    int nans = 0, lost = 0, rounded = 0, other = 0, ties = 0;

    for (uint32_t i = 0; i < PATTERNS; i++)
        in[i] = half_float_of (pattern (i));
    store (v->k, PATTERNS, in, &state);
    load (v->k, PATTERNS, &state, out);
    for (uint32_t i = 0; i < PATTERNS; i++) {
        uint32_t bits = pattern (i);
        bool nan = (bits & 0x7fffffff) > 0x7f800000;
        bool tie = (bits & 0x1ffff) == 0x8000; /* the even bfloat16 is below */

        nans += nan && !(isnan (out[i]) && upper[i] == 0x7fc0);
        if (nan)
            continue;
        lost += half_bits_of (out[i]) != bits;
        rounded += upper[i] != (uint16_t)((bits + 0x8000) >> 16);
        other += (upper[i] != half_to_bf16 (in[i])) != tie;
        ties += tie;
    }
    is_int (lost, 0, "%s: %d floats come back from their halves", v->name, PATTERNS);
    is_int (rounded, 0, "%s: upper halves are rounded half up", v->name);
    ok (other == 0 && ties > 30000, "%s: to nearest even but in %d ties", v->name, ties);
    is_int (nans, 0, "%s: a NaN is the quiet one", v->name);
    free (in);
    free (out);
    free (upper);
    free (lower);
}

/* --- scales --- */

enum { N = 8203 };

struct kind {
    enum mg_dtype dtype;
    double limit;
    float least; /* scale */
};

static const struct kind kinds[]
    = { { MG_FLOAT16, 32752, 0x1p-101f }, { MG_FLOAT8_E4M3, FLOAT8_E4M3_MAX, 0x1p-116f } };

static unsigned int to_bits (float x, enum mg_dtype dtype)
{
    return dtype == MG_FLOAT16 ? half_to_fp16 (x) : float8_to_e4m3 (x);
}

static unsigned int bits_at (const void *data, int i, enum mg_dtype dtype)
{
    return dtype == MG_FLOAT16 ? ((const uint16_t *)data)[i] : ((const uint8_t *)data)[i];
}

/* Values over some 40 powers of two below 'largest', which one of them is. */
static void fill (float *x, float largest)
{
    kit_random (x, N, 7);
    for (int i = 0; i < N; i++)
        x[i] = (float)ldexp (x[i] * (double)largest, -(i % 40));
    x[N / 3] = -largest;
    x[5] = 0;
}

/* Stored again, and its two parts stored on their own, each with its scale. */
static bool again_same (const struct kernels *k, enum mg_dtype dtype, const float *x,
                        void *data)
{
    float *back = kit_alloc (N, sizeof (float));
    size_t size = mg_dtype_size (dtype);
    struct kern_state s = { .data = data, .dtype = dtype };
    struct kern_state rest = { .data = (char *)data + 517 * size, .dtype = dtype };
    bool same = true;

    for (int cut = 0; cut < 2; cut++) {
        int n = cut ? 517 : N;

        memset (data, 0xff, N * size);
        store (k, n, x, &s);
        load (k, n, &s, back);
        if (cut) {
            store (k, N - n, x + n, &rest);
            load (k, N - n, &rest, back + n);
        }
        same = same && memcmp (x, back, N * sizeof (float)) == 0;
    }
    free (back);
    return same;
}

/* Bits that are not those of x / scale, and values further off than half a last place. */
static void compare (const struct kern_state *s, const float *x, const float *y, int *wrong,
                     int *inexact)
{
    double relative = s->dtype == MG_FLOAT16 ? 0x1p-11 : 0x1p-4;
    double least = s->dtype == MG_FLOAT16 ? 0x1p-24 : 0x1p-9, scale = s->scale;

    for (int i = 0; i < N; i++) {
        *wrong += bits_at (s->data, i, s->dtype) != to_bits (x[i] / s->scale, s->dtype);
        *inexact += fabs ((double)y[i] - x[i])
                    > fabs ((double)x[i]) * relative + scale * least / 2;
    }
}

/* Around every third power of two, and around the limits that change the scale. */
static void test_scales (const struct kit_variant *v, const struct kind *kind)
{
    float *x = kit_alloc (N, sizeof (float)), *y = kit_alloc (N, sizeof (float));
    void *data = kit_alloc (N, 2);
    struct kern_state s = { .data = data, .dtype = kind->dtype };
    int powers = 0, halves = 0, wrong = 0, inexact = 0, changed = 0, runs = 0, exponent;

    for (int e = -149; e <= 127; e += e == 126 ? 1 : 3) {
        for (int what = 0; what < 4; what++, runs++) {
            double top = what < 2 ? kind->limit : 1;
            float largest = (float)ldexp (top, e > 127 - 15 && what < 2 ? 127 - 15 : e);

            largest = what % 2 ? nextafterf (largest, INFINITY) : largest;
            fill (x, largest);
            store (v->k, N, x, &s);
            load (v->k, N, &s, y);
            powers += frexp (s.scale, &exponent) == 0.5;
            halves += largest / s.scale <= kind->limit
                      && (largest / s.scale > kind->limit / 2 || s.scale == kind->least);
            compare (&s, x, y, &wrong, &inexact);
            changed += !again_same (v->k, kind->dtype, y, data);
        }
    }
    is_int (powers, runs, "%s: %s: %d scales are powers of two", v->name,
            mg_dtype_name (kind->dtype), runs);
    is_int (halves, runs, "%s: that bring the largest to the upper half", v->name);
    is_int (wrong, 0, "%s: values are rounded to nearest even", v->name);
    is_int (inexact, 0, "%s: and are within half a last place", v->name);
    is_int (changed, 0, "%s: what was loaded is stored as it is, whole and in parts", v->name);
    free (x);
    free (y);
    free (data);
}

/* Tiny values beside a large one, of moments that must not be negative nor vanish. */
static void test_positive (const struct kit_variant *v, const struct kind *kind)
{
    float x[100], y[100];
    uint16_t data[100];
    struct kern_state s = { .data = data, .dtype = kind->dtype };
    int zero[2] = { 0, 0 }, lost = 0;

    for (int i = 0; i < 100; i++)
        x[i] = i % 10 == 0 ? 0 : ldexpf (1, -i);
    for (int positive = 0; positive < 2; positive++) {
        s.positive = positive;
        store (v->k, 100, x, &s);
        load (v->k, 100, &s, y);
        for (int i = 0; i < 100; i++)
            zero[positive] += y[i] == 0 && x[i] > 0;
        for (int i = 0; i < 100; i += 10)
            lost += y[i] != 0;
    }
    ok (zero[0] > 30 && zero[1] == 0 && lost == 0,
        "%s: %s: %d of 90 vanish, none that must not, and 0 is 0", v->name,
        mg_dtype_name (kind->dtype), zero[0]);
}

static void test_special (const struct kit_variant *v, const struct kind *kind)
{
    float x[] = { 1, NAN, -3, INFINITY, -INFINITY }, y[5];
    uint16_t data[5] = { 0 };
    struct kern_state s = { .data = data, .dtype = kind->dtype };
    const char *name = mg_dtype_name (kind->dtype);

    load (v->k, 5, &s, y);
    ok (y[0] == 0 && y[4] == 0, "%s: %s: memory of zeros is zeros", v->name, name);
    store (v->k, 5, x, &s);
    load (v->k, 5, &s, y);
    ok (y[0] == 1 && isnan (y[1]) && y[2] == -3 && y[3] > 3 && y[4] == -y[3],
        "%s: %s: NaN and infinity beside numbers: %g, %g", v->name, name, s.scale, y[3]);
    x[0] = x[2] = 0;
    ok (isnan (kern_scale (kind->dtype, INFINITY)) && store (v->k, 1, x, &s) == 0
            && s.scale > 0 && load (v->k, 1, &s, y) == 0 && y[0] == 0
            && store (v->k, 0, x, &s) == 0,
        "%s: %s: zeros alone, nothing at all", v->name, name);
}

/* --- the rest --- */

static void test_plain (const struct kit_variant *v, enum mg_dtype dtype)
{
    enum { MANY = 20001 };
    float *x = kit_alloc (MANY, 4), *y = kit_alloc (MANY, 4);
    void *data = kit_alloc (MANY, 4);
    struct kern_state s = { .data = data, .dtype = dtype, .positive = true };
    int wrong = 0;

    kit_random (x, MANY, 9);
    store (v->k, MANY, x, &s);
    load (v->k, MANY, &s, y);
    for (int i = 0; i < MANY; i++)
        wrong += y[i] != (dtype == MG_FLOAT32 ? x[i] : half_from_bf16 (half_to_bf16 (x[i])));
    is_int (wrong, 0, "%s: %s", v->name, mg_dtype_name (dtype));
    free (x);
    free (y);
    free (data);
}

/* From a 16-bit array and to one; the upper halves may be that. */
static void test_narrow (const struct kit_variant *v)
{
    enum { MANY = 20001 };
    const struct kernels *k = v->k;
    uint16_t *x = kit_alloc (MANY, 2), *y = kit_alloc (MANY, 2), *lower = kit_alloc (MANY, 2);
    const struct kern_state halves = { .data = lower, .upper = y };
    const struct kern_state scaled = { .data = lower, .dtype = MG_FLOAT16,
                                       .scale = 0x1p-8f };
    int low = 0;

    for (int i = 0; i < MANY; i++)
        x[i] = half_to_bf16 ((float)(i % 255 - 127));
    kit_state_store (k, MANY, x, MG_BFLOAT16, &scaled);
    kit_state_load (k, MANY, &scaled, y, MG_BFLOAT16);
    ok (memcmp (x, y, MANY * 2) == 0, "%s: bfloat16, stored with a scale", v->name);
    kit_state_store (k, MANY, y, MG_BFLOAT16, &halves);
    for (int i = 0; i < MANY; i++)
        low += lower[i] != 0;
    ok (memcmp (x, y, MANY * 2) == 0 && low == 0, "%s: upper halves in place", v->name);
    free (x);
    free (y);
    free (lower);
}

static void test_badparam (const struct kit_variant *v)
{
    float x = 1, y = 2;
    struct kern_state s = { .data = &y, .dtype = MG_INT32 };
    struct mg_error err = { "" };

    errno = 0;
    ok (kern_state_store (v->k,
            &(struct kern_state_store){ .n = 1, .in = &x, .dtype = MG_FLOAT32,
                                        .state = s },
            NULL, &err) == -1
            && errno == ENOTSUP
            && kern_state_load (v->k,
                    &(struct kern_state_load){ .n = 1, .state = s, .out = &x,
                                               .dtype = MG_FLOAT32 },
                    NULL, &err) == -1
            && x == 1 && y == 2,
        "%s: bad type: %s", v->name, err.text);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < kit.count; i++) {
        const struct kit_variant *v = &kit.variants[i];

        test_halves (v);
        for (size_t k = 0; k < sizeof (kinds) / sizeof (kinds[0]); k++) {
            test_scales (v, &kinds[k]);
            test_positive (v, &kinds[k]);
            test_special (v, &kinds[k]);
        }
        test_plain (v, MG_FLOAT32);
        test_plain (v, MG_BFLOAT16);
        test_narrow (v);
        test_badparam (v);
    }
    kit_close (&kit);
    return done_testing ();
}
