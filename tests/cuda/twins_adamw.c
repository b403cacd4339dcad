/* twins_adamw.c - AdamW and stored values on the double against the CPU's */

#include <math.h>

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

/* Ways to store a value. */
static const struct way {
    const char *name;
    enum mg_dtype dtype;
    bool halves;
    float scale;
} ways[] = {
    { "float32", MG_FLOAT32, false, 0 },
    { "bfloat16", MG_BFLOAT16, false, 0 },
    { "float16", MG_FLOAT16, false, 0x1p-14f },
    { "float8", MG_FLOAT8_E4M3, false, 0x1p-8f },
    { "two halves", MG_BFLOAT16, true, 0 },
};

enum { NUM_WAYS = sizeof (ways) / sizeof (ways[0]) };

/* n values of a store; their bytes are any, but no NaN of float8. */
static struct kern_state state (size_t n, const struct way *way, size_t shift, bool positive,
                                uint64_t seed)
{
    struct kern_state s = { .dtype = way->dtype, .scale = way->scale, .positive = positive };
    unsigned char bytes[2048];

    if (way->dtype == MG_FLOAT8_E4M3) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)((i * 37 + seed) % (positive ? 127 : 126));
        s.data = twins_values (n, 1, shift, bytes);
        return s;
    }
    if (positive) { // 0.25 in all types is a second moment
        float x[2048];

        for (size_t i = 0; i < n; i++)
            x[i] = 0.25f + (float)(i % 7);
        s.data = twins_numbers (n, way->dtype, shift, x);
    } else {
        s.data = twins_random (n, way->dtype, shift, seed);
    }
    if (way->halves)
        s.upper = twins_random (n, MG_BFLOAT16, shift, seed + 1);
    return s;
}

static struct kern_adamw update (size_t n, const struct way *param, const struct way *moment,
                                 enum mg_dtype grad_dtype, size_t shift)
{
    struct kern_adamw a = { .n = (int64_t)n, .grad_dtype = grad_dtype, .lr = 1e-2, .beta1 = 0.9,
                            .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1, .c1 = 0.1,
                            .c2 = 0.01, .grad_scale = 0.5 };

    a.param = state (n, param, shift, false, 1);
    a.m = state (n, moment, shift, false, 3);
    a.v = state (n, moment->halves ? &ways[0] : moment, shift, true, 5);
    a.scale = (struct kern_three){ 0x1p-13f, 0x1p-13f, 0x1p-6f };
    a.grad = twins_random (n, grad_dtype, shift, 7);
    return a;
}

/* True if its elements cannot be compared as numbers. */
static bool is_coarse (const struct way *way)
{
    return way->halves || way->dtype == MG_FLOAT8_E4M3;
}

static void test_adamw (size_t n, const struct way *param, const struct way *moment,
                        enum mg_dtype grad_dtype, size_t shift, bool copy)
{
    bool wide = param->dtype == MG_FLOAT32 && moment->dtype == MG_FLOAT32 && !copy;
    struct kern_adamw a = update (n, param, moment, grad_dtype, shift);
    struct kern_adamw_largest l = { 0 };
    struct kern_three three = { 0, 0, 0 };

    if (copy) {
        a.copy_dtype = MG_BFLOAT16;
        a.copy = twins_random (n, MG_BFLOAT16, shift, 9);
    }
    /* The last bit of a product may change a float8 to the next number, and a lower half to any
     * number.  So only the accesses are checked here; kit-adamw_types checks these numbers.
     */
    twins_check (KERN_ADAMW, &a,
                 is_coarse (param) || is_coarse (moment)
                     ? INFINITY
                     : twins_tolerance (wide ? MG_FLOAT32 : MG_BFLOAT16),
                 "adamw %zu+%zu %s, moments %s, gradients %s%s", n, shift, param->name,
                 moment->name, mg_dtype_name (grad_dtype), copy ? ", a copy" : "");
    l.update = update (n, param, moment, grad_dtype, shift);
    l.out = (struct kern_three *)twins_numbers (3, MG_FLOAT32, 0, &three.param);
    twins_check (KERN_ADAMW_LARGEST, &l, 1e-5, "adamw_largest %s, moments %s", param->name,
                 moment->name);
}

static void test_state (const struct way *way, enum mg_dtype dtype, size_t n, size_t shift)
{
    struct kern_state_load l = { .n = (int64_t)n, .dtype = dtype };
    struct kern_state_store s = { .n = (int64_t)n, .dtype = dtype };

    l.state = state (n, way, shift, false, 1);
    l.out = twins_random (n, dtype, shift, 3);
    twins_check (KERN_STATE_LOAD, &l, TWINS_EXACT, "state_load %zu+%zu of %s as %s", n, shift,
                 way->name, mg_dtype_name (dtype));
    s.state = state (n, way, shift, false, 1);
    s.in = twins_random (n, dtype, shift, 4);
    twins_check (KERN_STATE_STORE, &s, TWINS_EXACT, "state_store %zu+%zu as %s of %s", n, shift,
                 way->name, mg_dtype_name (dtype));
}

void twins_adamw (void)
{
    test_adamw (1000, &ways[0], &ways[0], MG_FLOAT32, 0, false);
    test_adamw (1003, &ways[0], &ways[0], MG_FLOAT32, 1, false);
    test_adamw (1003, &ways[0], &ways[0], MG_FLOAT32, 0, true);
    test_adamw (0, &ways[0], &ways[0], MG_FLOAT32, 0, false);
    for (int w = 0; w < NUM_WAYS; w++) {
        test_adamw (517, &ways[w], &ways[0], MG_BFLOAT16, 1, false);
        test_adamw (517, &ways[0], &ways[w], MG_FLOAT16, 0, false);
        for (int d = 0; d < TWINS_DTYPES; d++) {
            test_state (&ways[w], twins_dtypes[d], 600, 0);
            test_state (&ways[w], twins_dtypes[d], 37, 1);
        }
    }
}
