/* scratch.c - the scratch memory that the CUDA kernels need */

#include "kernels/cuda/cuda.h"

/* Two float sums of each column for each group of rows. */
size_t cuda_norm_bwd_scratch (const struct kern_norm_bwd *a)
{
    int64_t groups = (a->rows + CUDA_NORM_GROUP - 1) / CUDA_NORM_GROUP;

    return (size_t)(2 * groups * a->cols) * sizeof (float);
}
