/* gemm.c - matrix product */

#include <errno.h>

#include "kernels/cpu/cpu.h"

int cpu_gemm (const struct kernels *k, const struct kern_gemm *a, struct mg_stream *stream,
              struct mg_error *err)
{
    (void)k, (void)stream;
    if (a->accumulate && a->bias)
        return mg_error_set (err, EINVAL, "gemm: a bias and accumulation exclude each other");
    for (int64_t i = 0; i < a->m; i++) {
        for (int64_t j = 0; j < a->n; j++) {
            float sum = a->bias ? cpu_load (a->bias, a->dtype, j) : 0;

            for (int64_t l = 0; l < a->k; l++)
                sum += cpu_load (a->a, a->dtype, a->trans_a ? l * a->lda + i : i * a->lda + l)
                       * cpu_load (a->b, a->dtype,
                                   a->trans_b ? j * a->ldb + l : l * a->ldb + j);
            if (a->accumulate)
                sum += cpu_load (a->c, a->c_dtype, i * a->ldc + j);
            cpu_store (a->c, a->c_dtype, i * a->ldc + j, sum);
        }
    }
    return 0;
}
