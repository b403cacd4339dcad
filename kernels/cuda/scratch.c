/* scratch.c - the scratch memory that the CUDA kernels need */

#include "kernels/cuda/cuda.h"

/* Two float sums of each column for each group of rows. */
size_t cuda_norm_bwd_scratch (const struct kern_norm_bwd *a)
{
    int64_t groups = (a->rows + CUDA_NORM_GROUP - 1) / CUDA_NORM_GROUP;

    return (size_t)(2 * groups * a->cols) * sizeof (float);
}

/* A bias is reserved whenever it would be converted: a plan has no pointers. */
size_t cuda_gemm_scratch (const struct kern_gemm *a)
{
    const bool narrowed = cuda_gemm_is_narrowed (a);
    int64_t floats = narrowed ? cuda_gemm_padded (a->m * a->n) : 0;

    if (narrowed || a->c_dtype != a->dtype)
        floats += cuda_gemm_padded (a->n);
    return CUDA_GEMM_WORKSPACE + (size_t)floats * sizeof (float);
}
