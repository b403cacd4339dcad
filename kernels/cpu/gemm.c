/* gemm.c - matrix product: checks, and who computes it */

#include <errno.h>

#include "kernels/cpu/cpu.h"

static bool is_supported (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 || dtype == MG_BFLOAT16 || dtype == MG_FLOAT16;
}

static int check (const struct kern_gemm *a, struct mg_error *err)
{
    if (a->m < 0 || a->n < 0 || a->k < 0)
        return mg_error_set (err, EINVAL, "gemm: negative size in m %lld, n %lld, k %lld",
                             (long long)a->m, (long long)a->n, (long long)a->k);
    if (a->lda < (a->trans_a ? a->m : a->k) || a->ldb < (a->trans_b ? a->k : a->n)
        || a->ldc < a->n)
        return mg_error_set (err, EINVAL,
                             "gemm: row lengths a %lld, b %lld, c %lld are too short for "
                             "m %lld, n %lld, k %lld",
                             (long long)a->lda, (long long)a->ldb, (long long)a->ldc,
                             (long long)a->m, (long long)a->n, (long long)a->k);
    if (a->accumulate && a->bias)
        return mg_error_set (err, EINVAL,
                             "gemm: a bias and accumulation exclude each other");
    if (!is_supported (a->dtype) || !is_supported (a->c_dtype))
        return mg_error_set (err, ENOTSUP,
                             "gemm: types %s and %s, want float32, bfloat16 or float16",
                             mg_dtype_name (a->dtype), mg_dtype_name (a->c_dtype));
    return 0;
}

static bool is_nothing (const struct kern_gemm *a)
{
    return a->m == 0 || a->n == 0 || (a->k == 0 && a->accumulate);
}

int cpu_gemm (const struct kernels *k, const struct kern_gemm *a, struct mg_error *err)
{
    const struct cpu *cpu = cpu_of (k);

    if (check (a, err) < 0)
        return -1;
    if (is_nothing (a))
        return 0;
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
    if (check (a, err) < 0)
        return -1;
    if (is_nothing (a))
        return 0;
    *bytes = cpu_gemm_ref_scratch (k, a);
    if (cpu->gemm && a->k > 0 && cpu->gemm->plan (cpu->gemm_impl, a, bytes, err) < 0
        && errno != ENOTSUP)
        return -1;
    return 0;
}
