/* twins_gemm_double.c - products in double on the double against the CPU's */

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

static const struct shape {
    int64_t m, n, k, pad; /* elements behind each row */
} shapes[] = {
    { 1, 1, 1, 0 },  { 3, 5, 7, 0 },  { 64, 64, 16, 0 }, { 70, 9, 33, 2 }, { 9, 130, 40, 0 },
    { 0, 5, 3, 0 },  { 5, 0, 3, 0 },  { 5, 3, 0, 1 },
};
enum { SHAPES = sizeof (shapes) / sizeof (shapes[0]) };

enum { TRANS_A = 1, TRANS_B = 2, ACCUMULATE = 4, BIAS = 8 };

struct types {
    enum mg_dtype a, b, c, bias;
};

/* A matrix of rows of cols elements; *ld is the row length. */
static void *make (int64_t rows, int64_t cols, int64_t pad, enum mg_dtype dtype, uint64_t seed,
                   int64_t *ld)
{
    *ld = cols + pad;
    return twins_random ((size_t)(rows * *ld), dtype, (size_t)pad, seed);
}

static void test (const struct shape *s, struct types t, int with)
{
    struct kern_gemm_double a = { .trans_a = with & TRANS_A, .trans_b = with & TRANS_B,
                                  .accumulate = with & ACCUMULATE, .m = s->m, .n = s->n,
                                  .k = s->k, .a_dtype = t.a, .b_dtype = t.b, .c_dtype = t.c,
                                  .bias_dtype = t.bias };

    a.a = make (a.trans_a ? s->k : s->m, a.trans_a ? s->m : s->k, s->pad, t.a, 1, &a.lda);
    a.b = make (a.trans_b ? s->n : s->k, a.trans_b ? s->k : s->n, s->pad, t.b, 2, &a.ldb);
    a.c = make (s->m, s->n, s->pad, t.c, 3, &a.ldc);
    if (with & BIAS)
        a.bias = twins_random ((size_t)s->n, t.bias, 0, 4);
    twins_check (KERN_GEMM_DOUBLE, &a, t.c == MG_FLOAT64 ? 1e-7 : twins_tolerance (t.c),
                 "gemm_double %s %s to %s %dx%dx%d+%d with %d", mg_dtype_name (t.a),
                 mg_dtype_name (t.b), mg_dtype_name (t.c), (int)s->m, (int)s->n, (int)s->k,
                 (int)s->pad, with);
}

void twins_gemm_double (void)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_FLOAT64, MG_BFLOAT16, MG_FLOAT16 };
    const struct types same = { MG_FLOAT32, MG_FLOAT32, MG_FLOAT32, MG_FLOAT32 };

    for (int i = 0; i < SHAPES; i++)
        for (int with = 0; with < (ACCUMULATE | BIAS); with++)
            test (&shapes[i], same, with);
    for (int i = 0; i < 64; i++) {
        const struct types t = { types[i % 4], types[i / 4 % 4], types[i / 16], types[i * 7 % 4] };

        test (&shapes[1], t, i % 4 + (i % 3 ? BIAS : ACCUMULATE));
    }
}
