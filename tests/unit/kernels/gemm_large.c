/* gemm_large - products that are so large that all threads compute a part */

#include <math.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { FORMS = 4 };

/* A float32 product that is large enough for each thread to compute a share of C.  'tall': C has
 * more rows than columns.  There are gaps between rows.  Every 37th element is compared with a sum
 * in double.
 */
static void test_large (const struct kit_variant *v, bool tall, int form, bool accumulate)
{
    enum { LONG = 2053, SHORT = 1030, K = 257, GAP = 3 };
    const int64_t m = tall ? LONG : SHORT, n = tall ? SHORT : LONG;
    const bool trans_a = form & 1, trans_b = form & 2;
    struct kern_gemm g = { .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate,
                           .m = m, .n = n, .k = K, .lda = (trans_a ? m : K) + GAP,
                           .ldb = (trans_b ? K : n) + GAP, .ldc = n + GAP };
    struct kit_array a = kit_array ((size_t)((trans_a ? K : m) * g.lda), 1);
    struct kit_array b = kit_array ((size_t)((trans_b ? n : K) * g.ldb), 2);
    struct kit_array c = kit_array ((size_t)(m * g.ldc), 3);
    double worst = 0;
    int changed = 0;

    kit_random (a.x, a.n, 1);
    kit_random (b.x, b.n, 2);
    for (size_t i = 0; i < c.n; i++)
        c.x[i] = 0.5f;
    g.a = a.x;
    g.b = b.x;
    g.c = c.x;
    ok (kern_gemm (v->k, &g, NULL, NULL) == 0, "%s: a large %s product, form %d%s", v->name,
        tall ? "tall" : "wide", form, accumulate ? ", added" : "");
    for (int64_t i = 0; i < m * n; i += 37) {
        int64_t row = i / n, col = i % n;
        double sum = accumulate ? 0.5 : 0;

        for (int64_t k = 0; k < K; k++)
            sum += (double)a.x[trans_a ? k * g.lda + row : row * g.lda + k]
                   * b.x[trans_b ? col * g.ldb + k : k * g.ldb + col];
        worst = fmax (worst, fabs (c.x[row * g.ldc + col] - sum));
    }
    for (int64_t row = 0; row < m; row++)
        for (int64_t col = n; col < g.ldc; col++)
            changed += c.x[row * g.ldc + col] != 0.5f;
    ok (worst < 3e-5 && changed == 0, "%s: its elements (error %.2g, %d changed between rows)",
        v->name, worst, changed);
    ok (kit_array_free (&a) && kit_array_free (&b) && kit_array_free (&c),
        "%s: nothing written outside the matrices", v->name);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < kit.count; i++)
        for (int form = 0; form < FORMS; form++)
            for (int tall = 0; tall < 2; tall++)
                if (kit_takes ((size_t)(form * 2 + tall)))
                    test_large (&kit.variants[i], tall, form, (form + tall) % 2);
    kit_close (&kit);
    return done_testing ();
}
