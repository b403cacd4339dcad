/* gemm_double - the product in double by a plain loop, of all types; and jitter, a product with
 * random factors
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

struct problem {
    struct kern_gemm_double a; /* sizes and types */
    struct typed x, y, bias;   /* the operands */
    bool biased;
    float *before;
};

static int run (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_gemm_double a = p->a;
    struct typed c = typed_create ((size_t)(a.m * a.ldc), a.c_dtype, 1);
    int rc;

    typed_set (&c, p->before);
    a.a = p->x.x;
    a.b = p->y.x;
    a.bias = p->biased ? p->bias.x : NULL;
    a.c = c.x;
    rc = kern_gemm_double (k, &a, NULL, NULL);
    typed_get (&c, out);
    return typed_destroy (&c) ? rc : -1;
}

static void expect (const struct problem *p, const float *x, const float *y, const float *bias,
                    double *want)
{
    const struct kern_gemm_double *a = &p->a;

    for (int64_t i = 0; i < a->m * a->ldc; i++)
        want[i] = (double)p->before[i]; // also between rows
    for (int64_t i = 0; i < a->m; i++) {
        for (int64_t j = 0; j < a->n; j++) {
            double sum = a->accumulate ? want[i * a->ldc + j]
                         : p->biased   ? (double)bias[j] : 0;

            for (int64_t l = 0; l < a->k; l++)
                sum += (double)x[a->trans_a ? l * a->lda + i : i * a->lda + l]
                       * (double)y[a->trans_b ? j * a->ldb + l : l * a->ldb + j];
            want[i * a->ldc + j] = sum;
        }
    }
}

static float *inputs (struct typed *a, size_t n, enum mg_dtype dtype, uint64_t seed)
{
    float *x = kit_alloc (n, sizeof (float));

    kit_random (x, n, seed);
    typed_round_all (x, n, dtype);
    *a = typed_create (n, dtype, 1);
    typed_set (a, x);
    return x;
}

/* 'how': 1, 2: transposed, 4: added to, 8: a bias */
static void test (const struct kit *kit, const int64_t size[3], int how,
                  const enum mg_dtype types[4])
{
    int64_t m = size[0], n = size[1], k = size[2];
    struct problem p = { .a = { how & 1, how & 2, how & 4, m, n, k, .lda = (how & 1 ? m : k) + 1,
                                .ldb = (how & 2 ? k : n) + 2, .ldc = n + 3, .a_dtype = types[0],
                                .b_dtype = types[1], .c_dtype = types[2],
                                .bias_dtype = types[3] },
                         .biased = how & 8 };
    float *x = inputs (&p.x, (size_t)((how & 1 ? k : m) * p.a.lda), types[0], 1);
    float *y = inputs (&p.y, (size_t)((how & 2 ? n : k) * p.a.ldb), types[1], 2);
    float *bias = inputs (&p.bias, (size_t)n, types[3], 3);
    double *want = kit_alloc ((size_t)(m * p.a.ldc), sizeof (double));

    p.before = kit_alloc ((size_t)(m * p.a.ldc), sizeof (float));
    kit_random (p.before, (size_t)(m * p.a.ldc), 4);
    typed_round_all (p.before, (size_t)(m * p.a.ldc), types[2]);
    expect (&p, x, y, bias, want);
    kit_check (kit, run, &p, (size_t)(m * p.a.ldc), want, 1e-7 + typed_error (types[2]),
               "%s x %s to %s, %d x %d x %d, way %d", mg_dtype_name (types[0]),
               mg_dtype_name (types[1]), mg_dtype_name (types[2]), (int)m, (int)n, (int)k, how);
    typed_destroy (&p.x);
    typed_destroy (&p.y);
    typed_destroy (&p.bias);
    free (p.before);
    free (want);
    free (x);
    free (y);
    free (bias);
}

static void test_products (const struct kit *kit)
{
    static const int64_t sizes[][3] = { { 0, 3, 2 }, { 1, 1, 1 },    { 3, 5, 0 },
                                        { 7, 9, 4 }, { 65, 130, 129 }, { 64, 64, 300 } };
    static const enum mg_dtype types[][4] = {
        { MG_FLOAT32, MG_FLOAT32, MG_FLOAT32, MG_FLOAT32 },
        { MG_FLOAT64, MG_BFLOAT16, MG_FLOAT16, MG_FLOAT64 },
        { MG_BFLOAT16, MG_FLOAT16, MG_FLOAT64, MG_BFLOAT16 },
        { MG_FLOAT16, MG_FLOAT64, MG_BFLOAT16, MG_FLOAT16 },
    };

    for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++)
        for (size_t t = 0; t < sizeof (types) / sizeof (types[0]); t++)
            for (int how = 0; how < 12; how++)
                test (kit, sizes[s], how, types[t]);
}

static void test_refused (const struct kernels *k)
{
    float x = 0;
    struct kern_gemm_double a = { .m = -1 };
    struct mg_error err = { "" };

    ok (kern_gemm_double (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a = (struct kern_gemm_double){ .accumulate = true, .bias = &x };
    ok (kern_gemm_double (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a = (struct kern_gemm_double){ .b_dtype = MG_INT32 };
    ok (kern_gemm_double (k, &a, NULL, &err) < 0 && errno == ENOTSUP, "%s", err.text);
}

/* --- jitter --- */

struct jittered {
    int64_t rows, cols;
    bool accumulate;
    enum mg_dtype dtype;
    float *x;
};

static const int64_t sample[] = { 12, 80000000000 };

static int run_jitter (const struct kernels *k, const void *arg, float *out)
{
    const struct jittered *p = arg;
    struct typed x = typed_create ((size_t)(p->rows * p->cols), p->dtype, 1);
    struct kern_jitter a = { p->rows, p->cols, 0.125, { 9, sample, 2, { 0 } }, x.x, p->accumulate,
                             x.x, p->dtype };
    int rc;

    typed_set (&x, p->x);
    rc = kern_jitter (k, &a, NULL, NULL); // in place
    typed_get (&x, out);
    return typed_destroy (&x) ? rc : -1;
}

static void test_jitter (const struct kit *kit, int64_t rows, int64_t cols, enum mg_dtype dtype,
                         bool accumulate)
{
    struct jittered p = { rows, cols, accumulate, dtype, NULL };
    size_t n = (size_t)(rows * cols);
    double *want = kit_alloc (n, sizeof (double));

    p.x = kit_alloc (n, sizeof (float));
    kit_random (p.x, n, 1);
    typed_round_all (p.x, n, dtype);
    for (int64_t i = 0; i < rows * cols; i++) {
        int64_t r = i / cols, c = i % cols;
        uint32_t bits[4];
        double factor;

        rng_philox (9, (uint32_t)(c / 4), (uint32_t)(r / 2), (uint64_t)sample[r % 2], bits);
        factor = 1 - 0.125 + 2 * 0.125 * ((double)bits[c % 4] + 0.5) * 0x1p-32;
        want[i] = (double)p.x[i] * factor + (accumulate ? (double)p.x[i] : 0);
    }
    kit_check (kit, run_jitter, &p, n, want, 2e-7 + typed_error (dtype), "jitter of [%d, %d], %s%s",
               (int)rows, (int)cols, mg_dtype_name (dtype), accumulate ? ", added" : "");
    free (p.x);
    free (want);
}

int main (void)
{
    static const int64_t sizes[][2] = { { 0, 4 }, { 1, 1 }, { 5, 33 }, { 300, 130 } };
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };
    struct kit kit;

    kit_open (&kit);
    test_products (&kit);
    test_refused (kit.variants[0].k);
    for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++)
        for (int i = 0; i < 6; i++)
            test_jitter (&kit, sizes[s][0], sizes[s][1], types[i / 2], i % 2);
    kit_close (&kit);
    return done_testing ();
}
