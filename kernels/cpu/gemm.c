/* gemm.c - matrix product: who computes it */

#include <errno.h>

#include "kernels/cpu/cpu.h"

static bool is_nothing (const struct kern_gemm *a)
{
    return a->m == 0 || a->n == 0 || (a->k == 0 && a->accumulate);
}

int cpu_gemm (const struct kernels *k, const struct kern_gemm *a, struct mg_error *err)
{
    const struct cpu *cpu = cpu_of (k);

    if (kern_gemm_check (a, err) < 0)
        return -1;
    if (is_nothing (a))
        return 0;
    if (cpu_gemm_is_few (a))
        return cpu_gemm_few (k, a, err);
    if (cpu->gemm && a->k > 0) {
        if (cpu->gemm->run (cpu->gemm_impl, k, a, err) == 0)
            return 0;
        if (errno != ENOTSUP)
            return -1;
    }
    return cpu_gemm_ref (k, a, err);
}

int cpu_gemm_scratch (const struct kernels *k, const struct kern_gemm *a, size_t *bytes,
                      struct mg_error *err)
{
    const struct cpu *cpu = cpu_of (k);

    *bytes = 0;
    if (kern_gemm_check (a, err) < 0)
        return -1;
    if (is_nothing (a))
        return 0;
    if (cpu_gemm_is_few (a)) {
        *bytes = cpu_gemm_few_scratch (a);
        return 0;
    }
    *bytes = cpu_gemm_ref_scratch (k, a);
    if (cpu->gemm && a->k > 0 && cpu->gemm->plan (cpu->gemm_impl, a, bytes, err) < 0
        && errno != ENOTSUP)
        return -1;
    return 0;
}
