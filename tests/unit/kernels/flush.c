/* flush - denormals in the ops: none comes out, none stays, whichever thread computes, and
 * every thread has its own mode back
 */

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/cpu.h"
#include "libcore/base/flush.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { N = 40009 }; /* more than one thread's share */

static int count_denormals (const float *x, int64_t n)
{
    int count = 0;

    for (int64_t i = 0; i < n; i++)
        count += fpclassify (x[i]) == FP_SUBNORMAL;
    return count;
}

/* --- modes --- */

/* Threads of the program's own pool, each with its own mode: what they have now. */
static void get_modes (int threads, uint64_t *mode)
{
    for (int i = 0; i < threads; i++)
        mode[i] = 0;
#pragma omp parallel num_threads (threads)
    mode[cpu_thread ()] = flush_mode ();
}

static void set_roundings (int threads)
{
    static const int rounding[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

#pragma omp parallel num_threads (threads)
    fesetround (rounding[cpu_thread () % 3]);
}

static int threads_of (const struct kit_variant *v)
{
#ifdef _OPENMP
    return v->threads;
#else
    (void)v;
    return 1;
#endif
}

static void test_modes (const struct kit_variant *v)
{
    int threads = threads_of (v);
    uint64_t before[8], inside[8], nested[8], after[8], flushing;
    int wrong = 0, differ = 0, lost = 0;

    set_roundings (threads);
    get_modes (threads, before);
    kernels_cpu_enter (v->k);
    get_modes (threads, inside);
    kernels_cpu_enter (v->k);
    kernels_cpu_leave (v->k);
    get_modes (threads, nested);
    kernels_cpu_leave (v->k);
    get_modes (threads, after);
#pragma omp parallel num_threads (threads)
    fesetround (FE_TONEAREST);
    flushing = flush_begin ();
    flush_end (flushing);
    for (int i = 0; i < threads; i++) {
        wrong += inside[i] != inside[0] || nested[i] != inside[0] || inside[i] == before[i];
        differ += i > 0 && before[i] != before[0];
        lost += (after[i] & ~0x3full) != (before[i] & ~0x3full); // without sticky flags
    }
    is_int (differ, threads - 1, "%s: %d threads with modes of their own", v->name,
            threads);
    is_int (wrong, 0, "%s: have one mode between enter and leave", v->name);
    is_int (lost, 0, "%s: and their own again", v->name);
}

/* --- sums that would be denormal --- */

static void test_gemm (const struct kit_variant *v)
{
    enum { M = 96, K = 32 };
    float *a = kit_alloc (M * K, sizeof (float)), *b = kit_alloc (M * K, sizeof (float));
    float *c = kit_alloc (M * M, sizeof (float));
    struct kern_gemm g = { .m = M, .n = M, .k = K, .a = a, .lda = K, .b = b, .ldb = K,
                           .trans_b = true, .c = c, .ldc = M };
    int zero = 0;

    for (int i = 0; i < M * K; i++)
        a[i] = 0x1p-70f, b[i] = 0x1p-66f; // 32 products of 2^-136: 2^-131
    kernels_cpu_enter (v->k);
    kern_gemm (v->k, &g, NULL, NULL);
    kernels_cpu_leave (v->k);
    for (int i = 0; i < M * M; i++)
        zero += c[i] == 0;
    is_int (zero, M * M, "%s: gemm: all of a product of tiny numbers is 0", v->name);
    free (a);
    free (b);
    free (c);
}

/* --- moments --- */

static struct kern_adamw step_of (int64_t n, float *grad)
{
    return (struct kern_adamw){ .n = n, .grad = grad, .lr = 1e-3, .beta1 = 0.9,
                                .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0, .c1 = 1,
                                .c2 = 1, .grad_scale = 1 };
}

/* A first moment that gets no gradient goes to 0, and does not stay at the least number. */
static void test_stuck (const struct kit_variant *v)
{
    float *m = kit_alloc (N, sizeof (float)), *s = kit_alloc (N, sizeof (float));
    float *p = kit_alloc (N, sizeof (float)), *grad = calloc (N, sizeof (float));
    struct kern_adamw a = step_of (N, grad);
    int before, after, zero = 0;

    for (int i = 0; i < N; i++) {
        m[i] = i % 2 ? 0x1p-149f : 1.2e-38f; // the least number; one that is about to be denormal
        s[i] = i % 3 ? 1e-40f : 1e-12f;
        p[i] = 1;
    }
    a.param.data = p, a.m.data = m, a.v.data = s;
    before = count_denormals (m, N) + count_denormals (s, N);
    kernels_cpu_enter (v->k);
    kern_adamw (v->k, &a, NULL, NULL);
    kernels_cpu_leave (v->k);
    after = count_denormals (m, N) + count_denormals (s, N) + count_denormals (p, N);
    for (int i = 0; i < N; i++)
        zero += m[i] == 0 && (s[i] == 0) == (i % 3 != 0) && p[i] == 1;
    ok (before > N && after == 0 && zero == N,
        "%s: adamw: of %d denormals %d stay, %d of %d first moments are 0", v->name, before,
        after, zero, N);
    free (m);
    free (s);
    free (p);
    free (grad);
}

/* Second moments that are stored with a scale and get no gradient, for 'steps' steps that
 * halve them: nearly all go far below 2^-126, and to the least number that there is.
 */
static void test_positive (const struct kit_variant *v, enum mg_dtype dtype)
{
    enum { FEW = 64, STEPS = 160 };
    float p[FEW] = { 0 }, m[FEW] = { 0 }, grad[FEW] = { 0 }, x[FEW], y[FEW];
    uint16_t data[FEW];
    struct kern_adamw a = step_of (FEW, grad);
    int lost = 0, denormals = 0, raised = 0;

    a.param.data = p, a.m.data = m, a.beta2 = 0.5;
    a.v = (struct kern_state){ .data = data, .dtype = dtype, .positive = true };
    for (int i = 0; i < FEW; i++)
        x[i] = i % 8 == 0 ? 0 : ldexpf (1, -i);
    a.v.scale = kern_scale (dtype, 1);
    kernels_cpu_enter (v->k);
    kit_state_store (v->k, FEW, x, MG_FLOAT32, &a.v);
    for (int step = 0; step < STEPS; step++) {
        struct kern_three largest;

        kern_adamw_largest (v->k,
                &(struct kern_adamw_largest){ .update = a, .out = &largest },
                NULL, NULL);
        a.scale.v = kern_scale (dtype, largest.v);
        kern_adamw (v->k, &a, NULL, NULL);
        a.v.scale = a.scale.v;
        kit_state_load (v->k, FEW, &a.v, y, MG_FLOAT32);
        denormals += count_denormals (y, FEW);
        for (int i = 0; i < FEW; i++) {
            lost += !(y[i] >= FLT_MIN) && x[i] > 0;
            raised += y[i] != 0 && x[i] == 0;
        }
    }
    kernels_cpu_leave (v->k);
    ok (lost == 0 && raised == 0 && denormals == 0 && y[1] == 0x1p-125f,
        "%s: %s: second moments above 0 stay above 0 at %g, none is denormal (%d, %d, %d)",
        v->name, mg_dtype_name (dtype), (double)y[1], lost, raised, denormals);
}

int main (void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    struct kit kit;

    kit_open_cpu (&kit);
    for (size_t i = 0; i < kit.count; i++) {
        test_modes (&kit.variants[i]);
        test_gemm (&kit.variants[i]);
        test_stuck (&kit.variants[i]);
        test_positive (&kit.variants[i], MG_FLOAT16);
        test_positive (&kit.variants[i], MG_FLOAT8_E4M3);
    }
    kit_close (&kit);
    return done_testing ();
#else
    skip_all ("this processor's mode is not known");
#endif
}
