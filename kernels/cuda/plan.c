/* plan.c - the table of a CUDA device that is only planned: what kernels need of scratch memory */

#include "kernels/cuda/cuda.h"

#define SCRATCH(OP, op)                                                                 \
    static int scratch_##op (const struct kernels *k, const void *args, size_t *bytes,  \
                             struct mg_error *err)                                      \
    {                                                                                   \
        (void)k, (void)err;                                                             \
        *bytes = cuda_##op##_scratch (args);                                            \
        return 0;                                                                       \
    }
SCRATCH (GEMM, gemm)
CUDA_SCRATCH_OPS (SCRATCH)

#define SLOT(OP, op) [KERN_##OP] = scratch_##op,

const struct kern_ops kern_cuda_plan_ops = {
    .name = "cuda",
    .scratch = { SLOT (GEMM, gemm) CUDA_SCRATCH_OPS (SLOT) },
};
