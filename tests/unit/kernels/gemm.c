/* gemm - products of every form against plain sums in double */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

struct shape {
    int64_t m, n, k;
    int64_t extra; /* elements by which rows are longer than they need be */
};

static const struct shape shapes[] = {
    { 1, 1, 1, 0 },    { 1, 1, 1, 3 },     { 2, 3, 5, 0 },      { 7, 1, 9, 1 },
    { 1, 17, 4, 0 },   { 1, 33, 1, 2 },    { 16, 16, 16, 0 },   { 17, 15, 31, 5 },
    { 64, 48, 32, 0 }, { 65, 63, 129, 7 }, { 96, 256, 256, 0 },
    { 97, 257, 257, 1 },
    { 3, 1000, 2, 0 }, { 200, 5, 300, 0 }, { 30, 64, 512, 512 },
    { 257, 385, 33, 2 },
};

enum { FORMS = 4 };

static const enum mg_dtype types[][2] = {
    { MG_FLOAT32, MG_FLOAT32 },
    { MG_BFLOAT16, MG_FLOAT32 },
    { MG_BFLOAT16, MG_BFLOAT16 },
    { MG_FLOAT32, MG_BFLOAT16 },
    { MG_FLOAT16, MG_FLOAT32 },
    { MG_FLOAT16, MG_FLOAT16 },
    { MG_BFLOAT16, MG_FLOAT16 },
};

/* A matrix in float and, rounded, in bfloat16 and float16. */
struct matrix {
    struct kit_array a;
    uint16_t *bf16, *fp16;
};

static struct matrix matrix (int64_t rows, int64_t ld, uint64_t seed)
{
    size_t n = (size_t)(rows * ld);
    struct matrix m = { .a = kit_array (n, 1) };

    kit_random (m.a.x, n, seed);
    m.bf16 = kit_alloc (n, sizeof (*m.bf16));
    m.fp16 = kit_alloc (n, sizeof (*m.fp16));
    for (size_t i = 0; i < n; i++) {
        m.bf16[i] = half_to_bf16 (m.a.x[i]);
        m.fp16[i] = half_to_fp16 (m.a.x[i]);
    }
    return m;
}

static int overruns;

static void matrix_free (struct matrix *m)
{
    overruns += !kit_array_free (&m->a);
    free (m->bf16);
    free (m->fp16);
}

static double value (const struct matrix *m, enum mg_dtype dtype, int64_t i)
{
    if (dtype == MG_FLOAT32)
        return (double)m->a.x[i];
    return dtype == MG_BFLOAT16 ? (double)half_from_bf16 (m->bf16[i])
                                : (double)half_from_fp16 (m->fp16[i]);
}

/* What storing a value may change it by. */
static double rounding (enum mg_dtype dtype, double x)
{
    if (dtype == MG_FLOAT32)
        return 0;
    return fabs (x) * (dtype == MG_BFLOAT16 ? 0x1p-8 : 0x1p-11) + 0x1p-25;
}

/* What C should be and how far it may be off, element by element. */
struct expected {
    double *want, *allowed;
};

static struct expected expect (const struct kern_gemm *g, const struct matrix *a,
                               const struct matrix *b, const struct matrix *c,
                               const struct matrix *bias)
{
    size_t n = (size_t)(g->m * g->ldc);
    struct expected e = { calloc (n, sizeof (double)), calloc (n, sizeof (double)) };

    if (!e.want || !e.allowed)
        bail_out ("out of memory");
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->ldc; j++) {
            double sum = 0, size = 0, before = value (c, g->c_dtype, i * g->ldc + j);

            for (int64_t l = 0; l < g->k; l++) {
                double term
                    = value (a, g->dtype, g->trans_a ? l * g->lda + i : i * g->lda + l)
                      * (j < g->n ? value (b, g->dtype,
                                           g->trans_b ? j * g->ldb + l : l * g->ldb + j)
                                  : 0);

                sum += term;
                size += fabs (term);
            }
            sum += g->bias && j < g->n ? value (bias, g->dtype, j) : 0;
            sum += g->accumulate ? before : 0;
            size = (size + fabs (sum)) * 0x1p-22 + rounding (g->c_dtype, sum);
            /* between the rows nothing may change */
            e.want[i * g->ldc + j] = j < g->n ? sum : before;
            e.allowed[i * g->ldc + j] = j < g->n ? size + 1e-30 : 0;
        }
    }
    return e;
}

static bool is_close (const struct kern_gemm *g, const struct expected *e,
                      const struct matrix *c)
{
    for (int64_t i = 0; i < g->m * g->ldc; i++)
        if (!(fabs (value (c, g->c_dtype, i) - e->want[i]) <= e->allowed[i]))
            return false;
    return true;
}

struct test {
    const struct shape *shape;
    int form, what; /* what: 0 plain, 1 bias, 2 accumulate */
    enum mg_dtype dtype, c_dtype;
};

/* Variants come in pairs, one thread and more. With a library float32 may differ. */
static bool is_same (const struct kit *kit, size_t i, const struct kern_gemm *g,
                     const struct matrix *before, const struct matrix *c)
{
    if (i % 2 == 0
        || (g->dtype == MG_FLOAT32 && g->c_dtype == MG_FLOAT32 && kit->variants[i].library))
        return true;
    for (int64_t j = 0; j < g->m * g->ldc; j++)
        if (value (before, g->c_dtype, j) != value (c, g->c_dtype, j))
            return false;
    return true;
}

static void *data (const struct matrix *m, enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 ? (void *)m->a.x : dtype == MG_BFLOAT16 ? m->bf16 : m->fp16;
}

/* One product by every variant; failed[i] counts those of variant i. */
static void run (const struct kit *kit, const struct test *t, int failed[])
{
    const struct shape *s = t->shape;
    struct kern_gemm g = { .trans_a = t->form & 1,
                           .trans_b = t->form & 2,
                           .accumulate = t->what == 2,
                           .m = s->m,
                           .n = s->n,
                           .k = s->k,
                           .lda = (t->form & 1 ? s->m : s->k) + s->extra,
                           .ldb = (t->form & 2 ? s->k : s->n) + s->extra,
                           .ldc = s->n + s->extra,
                           .dtype = t->dtype,
                           .c_dtype = t->c_dtype };
    struct matrix a = matrix (g.trans_a ? s->k : s->m, g.lda, 1);
    struct matrix b = matrix (g.trans_b ? s->n : s->k, g.ldb, 2);
    struct matrix bias = matrix (1, s->n, 3), before = matrix (s->m, g.ldc, 4);
    struct matrix last = { .bf16 = NULL };
    struct expected e;

    g.a = data (&a, t->dtype);
    g.b = data (&b, t->dtype);
    g.bias = t->what == 1 ? data (&bias, t->dtype) : NULL;
    e = expect (&g, &a, &b, &before, &bias);
    for (size_t i = 0; i < kit->count; i++) {
        const struct kernels *k = kit->variants[i].k;
        struct matrix c = matrix (s->m, g.ldc, 4);
        struct mg_error err = { "" };

        g.c = data (&c, t->c_dtype);
        if (kern_gemm (k, &g, NULL, &err) < 0 || !is_close (&g, &e, &c)
            || !is_same (kit, i, &g, &last, &c)) {
            failed[i]++;
            diag ("m %d n %d k %d extra %d what %d wrong %s", (int)s->m, (int)s->n,
                  (int)s->k, (int)s->extra, t->what, err.text);
        }
        if (i % 2 == 0) {
            last = c;
        } else {
            matrix_free (&last);
            matrix_free (&c);
        }
    }
    free (e.want);
    free (e.allowed);
    matrix_free (&a);
    matrix_free (&b);
    matrix_free (&bias);
    matrix_free (&before);
}

static void test_shapes (const struct kit *kit, int form, enum mg_dtype dtype,
                         enum mg_dtype c_dtype)
{
    int failed[KIT_VARIANTS] = { 0 };

    for (size_t s = 0; s < sizeof (shapes) / sizeof (shapes[0]); s++)
        for (int what = 0; kit_takes (s) && what < 3; what++) {
            /* the large ones in one way: they are about blocks */
            if (shapes[s].m * shapes[s].n * shapes[s].k > 1 << 20
                && (what != 2 || dtype != c_dtype))
                continue;
            run (kit, &(struct test){ &shapes[s], form, what, dtype, c_dtype }, failed);
        }
    for (size_t i = 0; i < kit->count; i++)
        is_int (failed[i], 0, "%s: %s to %s, %s%s, shapes", kit->variants[i].name,
                mg_dtype_name (dtype), mg_dtype_name (c_dtype), form & 1 ? "T" : "N",
                form & 2 ? "T" : "N");
}

/* 16-bit products are the same bits with any number of threads, whoever computes them, and
 * all that our own loops compute: more blocks than one, a large k that might be divided,
 * sizes that no block divides.
 */
static void test_threads (enum cpu_library library, enum mg_dtype dtype,
                          enum mg_dtype c_dtype, int form, const struct shape *s)
{
    static const char *const who[] = { "own loops", "library", "library always" };
    const struct cpu_isa *isa = cpu_isa_get (0);
    struct kern_gemm g = { .trans_a = form & 1, .trans_b = form & 2, .accumulate = form & 1,
                           .m = s->m, .n = s->n, .k = s->k, .ldc = s->n, .dtype = dtype,
                           .c_dtype = c_dtype };
    struct matrix a = matrix (s->m * s->k, 1, 1), b = matrix (s->n * s->k, 1, 2);
    static const int threads[] = { 1, 2, 3, 5 };
    float *first = NULL;
    int differ = 0;

    for (size_t i = 1; !isa->usable (); i++)
        isa = cpu_isa_get (i);
    g.lda = g.trans_a ? s->m : s->k;
    g.ldb = g.trans_b ? s->k : s->n;
    g.a = data (&a, dtype);
    g.b = data (&b, dtype);
    for (size_t i = 0; i < sizeof (threads) / sizeof (threads[0]); i++) {
        size_t size = (size_t)(s->m * s->n) * sizeof (float);
        struct kernels *k = cpu_create (threads[i], isa, library, NULL);
        float *c = calloc (1, size);

        if (!k || !c)
            bail_out ("out of memory");
        g.c = c;
        differ += kern_gemm (k, &g, NULL, NULL) < 0;
        if (first)
            differ += memcmp (first, c, size) != 0;
        if (i > 0)
            free (c);
        else
            first = c;
        kernels_cpu_destroy (k);
    }
    is_int (differ, 0, "%s: %s to %s, form %d, %d x %d x %d: same bits with 1 to 5 threads",
            who[library], mg_dtype_name (dtype), mg_dtype_name (c_dtype), form, (int)s->m,
            (int)s->n, (int)s->k);
    free (first);
    matrix_free (&a);
    matrix_free (&b);
}

/* k = 0 leaves zeros, the bias, or what was there; m or n = 0 nothing. */
static void test_empty (const struct kit_variant *v)
{
    float x[4] = { 1, 2, 3, 4 }, bias[2] = { 7, 8 }, c[4] = { 5, 5, 5, 5 };
    struct kern_gemm g = { .m = 2, .n = 2, .a = x, .b = x, .ldb = 2, .c = c, .ldc = 2 };

    g.accumulate = true;
    is_int (kern_gemm (v->k, &g, NULL, NULL), 0, "%s: k = 0, accumulate", v->name);
    ok (c[0] == 5 && c[3] == 5, "%s: C is kept", v->name);
    g.accumulate = false;
    g.bias = bias;
    is_int (kern_gemm (v->k, &g, NULL, NULL), 0, "%s: k = 0, bias", v->name);
    ok (c[0] == 7 && c[1] == 8 && c[2] == 7 && c[3] == 8, "%s: C is the bias", v->name);
    g.bias = NULL;
    is_int (kern_gemm (v->k, &g, NULL, NULL), 0, "%s: k = 0", v->name);
    ok (c[0] == 0 && c[3] == 0, "%s: C is 0", v->name);
    g = (struct kern_gemm){ .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldc = 2 };
    is_int (kern_gemm (v->k, &g, NULL, NULL), 0, "%s: m = 0", v->name);
    g = (struct kern_gemm){ .m = 2, .k = 2, .lda = 2 };
    is_int (kern_gemm (v->k, &g, NULL, NULL), 0, "%s: n = 0", v->name);
}

enum { ROWS = 7, COLS = 5, DEPTH = 3 };

/* C of ones, but for an infinity in the first row of A and the last column of B.  A library that
 * emulates a type may make a NaN of it.
 */
static bool is_contained (const float *c)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            float x = c[i * COLS + j];

            if (i == 0 || j == COLS - 1 ? isfinite (x) : x != (float)DEPTH)
                return false;
        }
    return true;
}

/* What is not finite shows where it belongs, and nowhere else: what operands are filled up with
 * has no part in C.
 */
static void test_infinity (const struct kit_variant *v, int form, enum mg_dtype dtype)
{
    float a[ROWS * DEPTH], b[DEPTH * COLS], c[ROWS * COLS];
    uint16_t half_a[ROWS * DEPTH], half_b[DEPTH * COLS];
    const bool wide = dtype == MG_FLOAT32;
    struct kern_gemm g = {
        .trans_a = form & 1, .trans_b = form & 2, .m = ROWS, .n = COLS, .k = DEPTH,
        .a = wide ? (void *)a : half_a, .lda = form & 1 ? ROWS : DEPTH,
        .b = wide ? (void *)b : half_b, .ldb = form & 2 ? DEPTH : COLS,
        .c = c, .ldc = COLS, .dtype = dtype, .c_dtype = MG_FLOAT32,
    };

    for (int i = 0; i < ROWS * DEPTH; i++)
        a[i] = i == (g.trans_a ? (DEPTH - 1) * ROWS : DEPTH - 1) ? INFINITY : 1;
    for (int i = 0; i < DEPTH * COLS; i++)
        b[i] = i == (g.trans_b ? (COLS - 1) * DEPTH : COLS - 1) ? INFINITY : 1;
    for (int i = 0; i < ROWS * DEPTH; i++)
        half_a[i] = dtype == MG_BFLOAT16 ? half_to_bf16 (a[i]) : half_to_fp16 (a[i]);
    for (int i = 0; i < DEPTH * COLS; i++)
        half_b[i] = dtype == MG_BFLOAT16 ? half_to_bf16 (b[i]) : half_to_fp16 (b[i]);
    ok (kern_gemm (v->k, &g, NULL, NULL) == 0 && is_contained (c),
        "%s: %s, form %d: infinities stay where they belong", v->name, mg_dtype_name (dtype),
        form);
}

static void test_badparam (const struct kit_variant *v)
{
    float x[4] = { 1, 2, 3, 4 }, c[4] = { 0 };
    const struct kern_gemm good = { .m = 2, .n = 2, .k = 2, .a = x, .lda = 2, .b = x,
                                    .ldb = 2, .c = c, .ldc = 2 };
    struct kern_gemm bad[6] = { good, good, good, good, good, good };
    static const int want[6] = { EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, ENOTSUP };

    bad[0].m = -1;
    bad[1].lda = 1;
    bad[2].ldb = 1;
    bad[3].ldc = 1;
    bad[4].bias = x;
    bad[4].accumulate = true;
    bad[5].dtype = MG_INT32;
    for (int i = 0; i < 6; i++) {
        struct mg_error err = { "" };

        errno = 0;
        ok (kern_gemm (v->k, &bad[i], NULL, &err) == -1 && errno == want[i]
                && strncmp (err.text, "gemm: ", 6) == 0,
            "%s: bad parameter %d: %s", v->name, i, err.text);
    }
    ok (c[0] == 0 && c[3] == 0, "%s: C is untouched", v->name);
}

/* More shapes than the cache of a library starts with; each twice. */
static void test_many_shapes (const struct kit_variant *v)
{
    enum { COUNT = 150 };
    float a[COUNT], b[COUNT];
    int bad = 0;

    for (int i = 0; i < COUNT; i++)
        a[i] = b[i] = (float)(i + 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i <= COUNT; i++) {
            float c = -1;
            struct kern_gemm g = { .trans_b = true,
                                   .m = 1,
                                   .n = 1,
                                   .k = i,
                                   .a = a,
                                   .lda = i,
                                   .b = b,
                                   .ldb = i,
                                   .c = &c,
                                   .ldc = 1 };

            bad += kern_gemm (v->k, &g, NULL, NULL) < 0
                   || c != (float)(i * (i + 1) * (2 * i + 1) / 6);
        }
    }
    is_int (bad, 0, "%s: %d shapes, twice", v->name, COUNT);
}

int main (void)
{
    static const struct shape cut[] = { { 64, 64, 4096, 0 }, { 257, 129, 100, 0 },
                                        { 300, 400, 37, 0 }, { 1, 300, 700, 0 },
                                        { 520, 801, 300, 0 } };
    struct kit kit;

    kit_open (&kit);
    for (size_t t = 0; t < sizeof (types) / sizeof (types[0]); t++)
        for (int form = 0; form < FORMS; form++)
            test_shapes (&kit, form, types[t][0], types[t][1]);
    for (size_t s = 0; s < sizeof (cut) / sizeof (cut[0]); s++)
        for (int form = 0; form < FORMS; form++)
            for (enum cpu_library who = CPU_NO_LIBRARY; who <= CPU_LIBRARY_ALWAYS; who++) {
                if (who == CPU_NO_LIBRARY)
                    test_threads (who, MG_FLOAT32, MG_FLOAT32, form, &cut[s]);
                for (int t = 0; t < 2; t++) {
                    enum mg_dtype dtype = t ? MG_FLOAT16 : MG_BFLOAT16;

                    test_threads (who, dtype, dtype, form, &cut[s]);
                    if (form & 1)
                        test_threads (who, dtype, MG_FLOAT32, form, &cut[s]);
                }
            }
    for (size_t i = 0; i < kit.count; i++) {
        test_empty (&kit.variants[i]);
        for (int form = 0; form < FORMS; form++)
            for (size_t t = 0; t < 3; t++)
                test_infinity (&kit.variants[i], form,
                               t == 0 ? MG_FLOAT32 : t == 1 ? MG_BFLOAT16 : MG_FLOAT16);
        test_badparam (&kit.variants[i]);
        test_many_shapes (&kit.variants[i]);
    }
    is_int (overruns, 0, "nothing written outside the matrices");
    kit_close (&kit);
    return done_testing ();
}
