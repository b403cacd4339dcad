/* kernels.cpp - the CUDA kernels as a table of kernels, on the double, for the tests of kernels
 *
 * Device memory is memory of the host here, so the tests' operands are used where they are.  An op
 * without a CUDA kernel fails with ENOTSUP (kern_run()).
 */

#include <vector>

#include "kernels/cuda/cuda.h"
#include "tests/cuda/direct.h"

extern "C" {
#include "tests/unit/kernels/kit.h"
}

static std::vector<char> scratch;

static void *scratch_of (size_t size)
{
    if (scratch.size () < size)
        scratch.resize (size);
    return scratch.data ();
}

static size_t cuda_norm_fwd_scratch (const struct kern_norm_fwd *)
{
    return 0;
}

#define RUN(OP, op)                                                                     \
    static int run_##op (const struct kernels *, const void *args, struct mg_stream *,  \
                         struct mg_error *err)                                          \
    {                                                                                   \
        const struct kern_##op *a = (const struct kern_##op *)args;                     \
        struct cuda_call call = { nullptr, scratch_of (cuda_##op##_scratch (a)) };      \
                                                                                        \
        return cuda_##op (&call, a, err);                                               \
    }
CUDA_OPS (RUN)
#undef RUN

struct kernels *kit_linked_kernels (void)
{
    static struct kern_ops ops;
    static struct kernels k;

    direct_allow_all ();
    ops.name = "cuda double";
#define SLOT(OP, op) ops.run[KERN_##OP] = run_##op;
    CUDA_OPS (SLOT)
#undef SLOT
    k.ops = &ops;
    return &k;
}
