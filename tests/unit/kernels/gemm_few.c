/* gemm_few - products of few rows against sums in double, and the bits of their rows
 *
 * tests/unit/kernels/gemm.c has products of all forms and sizes, some of which have few rows.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { PLAIN, BIAS, ACCUMULATE, FORMS };

enum { MOST = CPU_FEW_ROWS, GAP = 3 };

/* Around vectors, groups of columns, tasks, and the parts of a row of B. */
static const struct size {
    int64_t n, k;
} sizes[] = {
    { 1, 1 },   { 3, 7 },    { 4, 16 },    { 5, 17 },    { 16, 8 },     { 31, 33 },
    { 33, 64 }, { 70, 257 }, { 13, 1024 }, { 29, 1025 }, { 100, 2051 },
};

static const enum mg_dtype types[][2] = {
    { MG_FLOAT32, MG_FLOAT32 },   { MG_BFLOAT16, MG_BFLOAT16 }, { MG_BFLOAT16, MG_FLOAT32 },
    { MG_FLOAT16, MG_FLOAT16 },   { MG_FLOAT16, MG_FLOAT32 },   { MG_FLOAT32, MG_BFLOAT16 },
};

/* An array of a type, 'offset' elements behind the begin of its memory, with marks around. */
struct operand {
    enum mg_dtype dtype;
    struct kit_array memory;
    char *data;
};

static double value (const struct operand *o, int64_t i)
{
    if (o->dtype == MG_FLOAT32)
        return (double)((const float *)(const void *)o->data)[i];
    return o->dtype == MG_BFLOAT16
               ? (double)half_from_bf16 (((const uint16_t *)(const void *)o->data)[i])
               : (double)half_from_fp16 (((const uint16_t *)(const void *)o->data)[i]);
}

static void set (const struct operand *o, int64_t i, float x)
{
    if (o->dtype == MG_FLOAT32)
        ((float *)(void *)o->data)[i] = x;
    else
        ((uint16_t *)(void *)o->data)[i]
            = o->dtype == MG_BFLOAT16 ? half_to_bf16 (x) : half_to_fp16 (x);
}

/* Random numbers; with 16-bit types some memory is left behind them. */
static struct operand operand (enum mg_dtype dtype, int64_t n, size_t offset, uint64_t seed)
{
    struct operand o = { dtype, kit_array ((size_t)n, offset), NULL };
    float *x = kit_alloc ((size_t)n, sizeof (*x));

    kit_random (x, (size_t)n, seed);
    o.data = (char *)o.memory.x;
    for (int64_t i = 0; i < n; i++)
        set (&o, i, x[i]);
    free (x);
    return o;
}

struct product {
    struct kern_gemm g;
    struct operand a, b, bias, c, before;
};

/* Marks that are not whole. */
static int overruns;

static void make (struct product *p, int64_t m, const struct size *s, const enum mg_dtype type[2],
                  int form, size_t offset)
{
    struct kern_gemm *g = &p->g;

    *g = (struct kern_gemm){ .trans_b = true, .accumulate = form == ACCUMULATE, .m = m, .n = s->n,
                             .k = s->k, .lda = s->k + GAP, .ldb = s->k + (int64_t)offset,
                             .ldc = s->n + GAP, .dtype = type[0], .c_dtype = type[1] };
    p->a = operand (type[0], m * g->lda, offset, 1);
    p->b = operand (type[0], s->n * g->ldb, offset, 2);
    p->bias = operand (type[0], s->n, offset, 3);
    p->c = operand (type[1], m * g->ldc, offset, 4);
    p->before = operand (type[1], m * g->ldc, 0, 4);
    g->a = p->a.data;
    g->b = p->b.data;
    g->c = p->c.data;
    g->bias = form == BIAS ? p->bias.data : NULL;
}

static void drop (struct product *p)
{
    overruns += !kit_array_free (&p->a.memory) + !kit_array_free (&p->b.memory)
                + !kit_array_free (&p->bias.memory) + !kit_array_free (&p->c.memory)
                + !kit_array_free (&p->before.memory);
}

/* What storing a value may change it by. */
static double rounding (enum mg_dtype dtype, double x)
{
    if (dtype == MG_FLOAT32)
        return 0;
    return fabs (x) * (dtype == MG_BFLOAT16 ? 0x1p-8 : 0x1p-11) + 0x1p-25;
}

/* True if element (i, j) of C is the sum; between the rows it is what it was. */
static bool is_right (const struct product *p, int64_t i, int64_t j)
{
    const struct kern_gemm *g = &p->g;
    double got = value (&p->c, i * g->ldc + j), before = value (&p->before, i * g->ldc + j);
    double sum = 0, size = 0;

    if (j >= g->n)
        return got == before;
    for (int64_t l = 0; l < g->k; l++) {
        double term = value (&p->a, i * g->lda + l) * value (&p->b, j * g->ldb + l);

        sum += term;
        size += fabs (term);
    }
    sum += g->bias ? value (&p->bias, j) : 0;
    sum += g->accumulate ? before : 0;
    return fabs (got - sum) <= (size + fabs (sum)) * 0x1p-22 + rounding (g->c_dtype, sum) + 1e-30;
}

/* Row i of the product, in a product of this row alone. */
static bool is_same_alone (const struct kernels *k, const struct product *p, int64_t i)
{
    size_t size = mg_dtype_size (p->g.c_dtype), width = (size_t)p->g.n * size;
    struct kern_gemm alone = p->g;
    char *c = kit_alloc ((size_t)p->g.n, size);
    bool same;

    memcpy (c, p->before.data + (size_t)(i * p->g.ldc) * size, width);
    alone.m = 1;
    alone.a = p->a.data + (size_t)(i * p->g.lda) * mg_dtype_size (p->g.dtype);
    alone.c = c;
    same = kern_gemm (k, &alone, NULL, NULL) == 0
           && memcmp (c, p->c.data + (size_t)(i * p->g.ldc) * size, width) == 0;
    free (c);
    return same;
}

struct count {
    int wrong, differ; /* elements; rows that are others alone */
};

static void run (const struct kernels *k, int64_t m, const struct size *s,
                 const enum mg_dtype type[2], int form, size_t offset, struct count *count)
{
    struct product p;

    make (&p, m, s, type, form, offset);
    count->wrong += !cpu_gemm_is_few (&p.g) || kern_gemm (k, &p.g, NULL, NULL) < 0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < p.g.ldc; j++)
            count->wrong += !is_right (&p, i, j);
        count->differ += !is_same_alone (k, &p, i);
    }
    drop (&p);
}

static void test_variant (const struct kit_variant *v, const enum mg_dtype type[2])
{
    struct count count = { 0, 0 };

    for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++)
        for (int64_t m = 1; m <= MOST; m++)
            run (v->k, m, &sizes[s], type, (int)((size_t)m + s) % FORMS, (s + (size_t)m) % 4,
                 &count);
    is_int (count.wrong, 0, "%s: %s to %s: elements of C", v->name, mg_dtype_name (type[0]),
            mg_dtype_name (type[1]));
    is_int (count.differ, 0, "%s: %s to %s: a row is the same alone", v->name,
            mg_dtype_name (type[0]), mg_dtype_name (type[1]));
}

/* Large enough for threads; library or not, the product is the same. */
static void test_threads (const enum mg_dtype type[2])
{
    static const struct size s = { 1030, 517 };
    static const int threads[] = { 1, 2, 3, 5 };
    const struct cpu_isa *isa = cpu_isa_get (0);
    float *first = NULL;
    int differ = 0;

    for (size_t i = 1; !isa->usable (); i++)
        isa = cpu_isa_get (i);
    for (size_t i = 0; i < sizeof (threads) / sizeof (threads[0]); i++) {
        struct kernels *k
            = cpu_create (threads[i], isa, i % 2 ? CPU_LIBRARY_ALWAYS : CPU_NO_LIBRARY, NULL);
        struct product p;
        size_t bytes = (size_t)(MOST * (s.n + GAP)) * mg_dtype_size (type[1]);

        if (!k)
            bail_out ("out of memory");
        make (&p, MOST, &s, type, PLAIN, 1);
        differ += kern_gemm (k, &p.g, NULL, NULL) < 0;
        if (!first) {
            first = kit_alloc (bytes, 1);
            memcpy (first, p.c.data, bytes);
        }
        differ += memcmp (first, p.c.data, bytes) != 0;
        drop (&p);
        kernels_cpu_destroy (k);
    }
    is_int (differ, 0, "%s to %s: same bits with 1 to 5 threads, with a library and without",
            mg_dtype_name (type[0]), mg_dtype_name (type[1]));
    free (first);
}

/* Products that the kernel leaves to others. */
static void test_choice (void)
{
    const struct kern_gemm good = { .trans_b = true, .m = MOST, .n = 1, .k = 1 };
    struct kern_gemm other[4] = { good, good, good, good };

    ok (cpu_gemm_is_few (&good), "%d rows are few", (int)MOST);
    other[0].m++;
    other[1].trans_a = true;
    other[2].trans_b = false;
    other[3].k = 0;
    for (int i = 0; i < 4; i++)
        ok (!cpu_gemm_is_few (&other[i]), "a product of another form or size: %d", i);
}

int main (void)
{
    struct kit kit;

    kit_open_cpu (&kit);
    for (size_t t = 0; t < sizeof (types) / sizeof (types[0]); t++) {
        for (size_t i = 0; i < kit.count; i++)
            test_variant (&kit.variants[i], types[t]);
        test_threads (types[t]);
    }
    test_choice ();
    is_int (overruns, 0, "nothing written outside the matrices");
    kit_close (&kit);
    return done_testing ();
}
