/* cases - one call of most kernels, with the bytes and operations that the call needs.
 *
 * A case is a shape of a model's layers.  Programs run it in several sizes: a small one on the
 * double, which counts what the kernel moves (counts.c), larger ones on a GPU (gpu_kernels.c).
 */
#ifndef TESTS_CUDA_CASES_H
#define TESTS_CUDA_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Sizes of all cases.  'experts' and 4 divide 'rows', 128 divides 'cols'. */
struct cases_size {
    int64_t rows, cols; /* of most operands */
    int64_t seq, heads; /* of attention, for one sequence and head dim 128 */
    int64_t vocab;      /* columns of logits */
    int64_t experts;
    int64_t deep; /* the inner dimension of products */
};
extern const struct cases_size cases_tiny, cases_small, cases_middle, cases_large;

/* Where operands come from.  Both functions return memory that kernels can use, aligned to 256
 * bytes, and end the program if there is none.
 */
struct cases_memory {
    /* n numbers of 'dtype': 'value', or numbers in [-1, 1) if 'value' is NaN. */
    void *(*numbers) (size_t n, enum mg_dtype dtype, float value);
    /* 'size' bytes that are those of 'from'; NULL: zeros. */
    void *(*bytes) (size_t size, const void *from);
};

enum cases_kind {
    CASES_STREAM,  /* the time is that of the bytes: each is read or written once */
    CASES_PRODUCT, /* matrix products */
    CASES_OTHER    /* sorts, choices */
};

struct cases_row {
    const char *name;
    enum kern_op op;
    enum cases_kind kind;
    /* Why a streaming kernel asks the L2 cache for more than 1.1 times the bytes that it needs, or
     * has bank conflicts; NULL: neither.
     */
    const char *reason;
    struct cases_call *(*make) (struct cases_call *c);
};

struct cases_call {
    const struct cases_size *size;
    const struct cases_memory *memory;
    double bytes; /* that the call reads and writes, each once */
    double flops; /* of products */
    _Alignas (16) char args[1024]; /* struct kern_NAME of the op */
};

/* All cases. */
extern const struct cases_row cases[];
extern const size_t cases_count;

/* Make operands and arguments of a case.  'c' holds size and memory. */
void cases_make (const struct cases_row *row, struct cases_call *c);

/* The ops that no case has: ops whose operands are a few numbers of each expert. */
bool cases_lack (enum kern_op op);

#endif /* TESTS_CUDA_CASES_H */
