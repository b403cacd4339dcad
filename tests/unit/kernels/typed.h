/* typed - arrays of the types that ops store, which tests write and read as floats.
 *
 * An array has marked bytes before and behind its elements, and its elements are NaN at first.
 */
#ifndef TESTS_UNIT_KERNELS_TYPED_H
#define TESTS_UNIT_KERNELS_TYPED_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/dtype.h"

struct typed {
    void *x; /* the first element, 'offset' elements behind a 64-byte boundary */
    size_t n;
    enum mg_dtype dtype; /* float32, float64, bfloat16 or float16 */
    char *base;
};

/* Ends the test if there is no memory. */
struct typed typed_create (size_t n, enum mg_dtype dtype, size_t offset);

/* Free it; true if the marks are whole. */
bool typed_destroy (struct typed *a);

/* The value as an element of the type. */
float typed_round (float x, enum mg_dtype dtype);

/* All elements from floats, rounded, and back. */
void typed_set (const struct typed *a, const float *x);
void typed_get (const struct typed *a, float *x);

/* Round all of x to the type. */
void typed_round_all (float *x, size_t n, enum mg_dtype dtype);

/* A relative error that one rounding to the type stays below. */
double typed_error (enum mg_dtype dtype);

#endif /* TESTS_UNIT_KERNELS_TYPED_H */
