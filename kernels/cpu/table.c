/* table.c - the CPU backend's table
 *
 * A slot of the table takes the arguments of any op; the functions here give them their type.
 */

#include "kernels/cpu/cpu.h"

#define RUN(OP, op)                                                                     \
    static int run_##op (const struct kernels *k, const void *args,                     \
                         struct mg_stream *stream, struct mg_error *err)                \
    {                                                                                   \
        if (cpu_of (k)->num_given > 0) /* else other threads may call, too */           \
            cpu_of (k)->stream = stream;                                                \
        return cpu_##op (k, args, err);                                                 \
    }
KERN_OPS (RUN)

#define SCRATCH(OP, op)                                                                 \
    static int scratch_##op (const struct kernels *k, const void *args, size_t *bytes,  \
                             struct mg_error *err)                                      \
    {                                                                                   \
        (void)err;                                                                      \
        *bytes = cpu_##op##_scratch (k, args);                                          \
        return 0;                                                                       \
    }
CPU_SCRATCH_OPS (SCRATCH)

static int scratch_gemm (const struct kernels *k, const void *args, size_t *bytes,
                         struct mg_error *err)
{
    return cpu_gemm_scratch (k, args, bytes, err);
}

static int scratch_expert_gemm (const struct kernels *k, const void *args, size_t *bytes,
                                struct mg_error *err)
{
    return cpu_expert_gemm_scratch (k, args, bytes, err);
}

#define RUN_SLOT(OP, op) [KERN_##OP] = run_##op,
#define SCRATCH_SLOT(OP, op) [KERN_##OP] = scratch_##op,

const struct kern_ops cpu_ops = {
    .name = "cpu",
    .run = { KERN_OPS (RUN_SLOT) },
    .scratch = { [KERN_GEMM] = scratch_gemm, [KERN_EXPERT_GEMM] = scratch_expert_gemm,
                 CPU_SCRATCH_OPS (SCRATCH_SLOT) },
};
