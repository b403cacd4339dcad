/* cuda - what the files of the CUDA backend share: the functions of its table (contracts in
 * kernels.h), scratch memory, launches.
 *
 * The basenames of the .cu files are those of kernels/cpu/.  A function of the table enqueues its
 * kernels on the stream of the call and returns; it neither allocates nor waits.
 */
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include <stddef.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Where a call runs.  'scratch' has as many bytes as the op's scratch function returns, and is
 * aligned to 256; the next call on the stream may overwrite it.  NULL: the op needs none.
 */
struct cuda_call {
    struct CUstream_st *stream;
    void *scratch;
};

/* The ops that have kernels: those that need no scratch memory, and those that need some.
 * OP (ENUM, name) as in KERN_OPS, in that order.
 */
#define CUDA_PLAIN_OPS(OP) \
    OP (NORM_FWD, norm_fwd)

#define CUDA_SCRATCH_OPS(OP) \
    OP (NORM_BWD, norm_bwd)

#define CUDA_OPS(OP) CUDA_PLAIN_OPS (OP) CUDA_SCRATCH_OPS (OP)

#define CUDA_RUN(OP, op) \
    int cuda_##op (const struct cuda_call *, const struct kern_##op *, struct mg_error *);
CUDA_OPS (CUDA_RUN)
#undef CUDA_RUN

/* Bytes of scratch memory that a call needs (scratch.c).  They depend on sizes and types alone.
 * Plain C: a plan needs no CUDA.
 */
#define CUDA_SCRATCH(OP, op) size_t cuda_##op##_scratch (const struct kern_##op *);
CUDA_SCRATCH_OPS (CUDA_SCRATCH)
#undef CUDA_SCRATCH

/* Rows of a norm whose column sums one block forms. */
enum { CUDA_NORM_GROUP = 32 };

#ifdef __cplusplus
}
#endif

#endif /* KERNELS_CUDA_CUDA_H */
