/* twins - runs a call on the CPU's kernels and on the CUDA kernels of the double, and compares what
 * they wrote.
 *
 * A test makes the operands of a call, puts their addresses into an argument struct as for the CPU,
 * and calls twins_check().  Each operand has a second copy in device memory of exactly its bytes,
 * and twins_check() replaces each pointer of the argument struct by the same place in that copy.
 *
 *     struct kern_fill a = { .n = n, .value = 3, .out = twins_random (n, dtype, 1, seed),
 *                            .dtype = dtype };
 *     twins_check (KERN_FILL, &a, TWINS_EXACT, "fill of %d elements", n);
 *
 * The program 'twins' is linked with plain kernels, and 'twins-watch' with instrumented ones, which
 * report races and accesses outside of operands.  'twins-gpu' runs them on a device (place.h).
 */
#ifndef TESTS_CUDA_TWINS_H
#define TESTS_CUDA_TWINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Operands of the next twins_check(), which frees them.  The address is that of the CPU's copy,
 * 'shift' elements behind an address that is aligned to 256 bytes.  Ends the program if there is no
 * memory.
 */

/* n numbers in [-1, 1), a function of 'seed'.  dtype: float32, float64, bfloat16 or float16. */
void *twins_random (size_t n, enum mg_dtype dtype, size_t shift, uint64_t seed);

/* n logits: random numbers within 'scale' of 0; or, where odd is not NULL, the twelve numbers of
 * odd again and again in a mixed order.
 */
void *twins_logits (size_t n, enum mg_dtype dtype, size_t shift, float scale, const float *odd);

/* n numbers that are 'x', rounded to 'dtype'. */
void *twins_numbers (size_t n, enum mg_dtype dtype, size_t shift, const float *x);

/* 'n' values of 'size' bytes: integers, float8.  They are compared byte by byte.  from NULL: 0. */
void *twins_values (size_t n, size_t size, size_t shift, const void *from);

/* The largest relative norm of a difference that a check allows. */
#define TWINS_EXACT 0.0
double twins_tolerance (enum mg_dtype dtype); /* 1e-5 for float32, 1e-2 for 16 bits */

/* Run the op on both sides with the operands that were made since the last call, and free them.
 * The check passes if both runs succeed and each operand differs by at most 'tolerance' in the
 * relative norm: ||got - want|| / ||want||.  TWINS_EXACT: the bytes are the same.  The rest names
 * the check.
 */
void twins_check (enum kern_op op, const void *args, double tolerance, const char *fmt, ...)
    __attribute__ ((format (printf, 4, 5)));

/* From now on the CPU's kernels flush denormals (kernels_cpu_enter()), or keep them as at first. */
void twins_flush (bool flush);

/* Run the op on the double alone and free the operands: what instrumented kernels count of the call
 * (launch.h).  False, with one skipped check, if the kernels are not instrumented.
 */
struct launch_counts;
bool twins_count (enum kern_op op, const void *args, struct launch_counts *counts);

/* The types of most operands: float32, bfloat16, float16. */
enum { TWINS_DTYPES = 3 };
extern const enum mg_dtype twins_dtypes[TWINS_DTYPES];

/* The shape of an op on rows, and the places of its operands: each is 'shift' elements behind an
 * aligned address, but operand 'odd', if that is not 0, is one element behind.
 */
struct twins_shape {
    int64_t rows, cols;
    size_t shift;
    int odd;
};

static inline size_t twins_shift (const struct twins_shape *s, int operand)
{
    return s->odd == operand ? 1 : s->shift;
}

/* The tests, a file (twins_NAME.c) a family of ops. */
void twins_act (void);
void twins_adamw (void);
void twins_attention (void);
void twins_copy (void);
void twins_dropout (void);
void twins_embedding (void);
void twins_expert_bias (void);
void twins_expert_gemm (void);
void twins_expert_sort (void);
void twins_gemm_double (void);
void twins_norm (void);
void twins_reduce (void);
void twins_rope (void);
void twins_router (void);
void twins_router_balance (void);
void twins_router_loss (void);
void twins_row (void);

#endif /* TESTS_CUDA_TWINS_H */
