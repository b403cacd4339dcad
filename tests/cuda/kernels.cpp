/* kernels.cpp - the CUDA kernels of the double as a table of kernels */

#include "kernels/cuda/cuda.h"
#include "tests/cuda/direct.h"
#include "tests/cuda/kernels.h"

extern "C" {
#include "tests/unit/kernels/kit.h"
}

/* Nothing has to be loaded here. */
bool cuda_list_kernel (const void *)
{
    return true;
}

#define RUN(OP, op)                                                                     \
    static int run_##op (const struct kernels *, const void *args, struct mg_stream *,  \
                         struct mg_error *err)                                          \
    {                                                                                   \
        struct cuda_call call = {};                                                     \
                                                                                        \
        if (cuda_limits_of (&call.limits, err) < 0)                                     \
            return -1;                                                                  \
        return cuda_##op (&call, (const struct kern_##op *)args, err);                  \
    }
#define RUN_SCRATCH(OP, op)                                                             \
    static int run_##op (const struct kernels *, const void *args, struct mg_stream *,  \
                         struct mg_error *err)                                          \
    {                                                                                   \
        const struct kern_##op *a = (const struct kern_##op *)args;                     \
        struct cuda_call call = {};                                                     \
        int rc;                                                                         \
                                                                                        \
        if (cuda_limits_of (&call.limits, err) < 0)                                     \
            return -1;                                                                  \
        call.scratch = direct_alloc (cuda_##op##_scratch (a), 0);                       \
        rc = cuda_##op (&call, a, err);                                                 \
        direct_free (call.scratch);                                                     \
        return rc;                                                                      \
    }                                                                                   \
    static int scratch_##op (const struct kernels *, const void *args, size_t *bytes,   \
                             struct mg_error *)                                         \
    {                                                                                   \
        *bytes = cuda_##op##_scratch ((const struct kern_##op *)args);                  \
        return 0;                                                                       \
    }
CUDA_PLAIN_OPS (RUN)
CUDA_SCRATCH_OPS (RUN_SCRATCH)

struct kernels *cuda_double_kernels (void)
{
    static struct kern_ops ops;
    static struct kernels k;

    ops.name = "cuda double";
#define SLOT(OP, op) ops.run[KERN_##OP] = run_##op;
#define SCRATCH_SLOT(OP, op) ops.scratch[KERN_##OP] = scratch_##op;
    CUDA_PLAIN_OPS (SLOT)
    CUDA_SCRATCH_OPS (SLOT)
    CUDA_SCRATCH_OPS (SCRATCH_SLOT)
    k.ops = &ops;
    return &k;
}

/* The tests of kernels use operands where they are, in memory of the host. */
struct kernels *kit_linked_kernels (void)
{
    direct_allow_all ();
    return cuda_double_kernels ();
}
