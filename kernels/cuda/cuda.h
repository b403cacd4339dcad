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

/* The ops that have kernels.  OP (ENUM, name) as in KERN_OPS. */
#define CUDA_OPS(OP)       \
    OP (NORM_FWD, norm_fwd) \
    OP (NORM_BWD, norm_bwd)

#define CUDA_RUN(OP, op) \
    int cuda_##op (const struct cuda_call *, const struct kern_##op *, struct mg_error *);
CUDA_OPS (CUDA_RUN)
#undef CUDA_RUN

/* Bytes of scratch memory that a call needs.  Plain C: a plan needs no CUDA. */
size_t cuda_norm_bwd_scratch (const struct kern_norm_bwd *a);

/* Rows of a norm whose column sums one block forms. */
enum { CUDA_NORM_GROUP = 32 };

#ifdef __cplusplus
}
#endif

#endif /* KERNELS_CUDA_CUDA_H */
