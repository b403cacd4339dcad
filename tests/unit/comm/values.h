/* values - elements of any type, and reductions the plain way, for the tests here. */
#ifndef TESTS_UNIT_COMM_VALUES_H
#define TESTS_UNIT_COMM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/comm.h"
#include "megatron/dtype.h"

/* Element i of a buffer as a double, and back (rounded to the type). */
double value_get (enum mg_dtype dtype, const void *buf, size_t i);
void value_put (enum mg_dtype dtype, void *buf, size_t i, double value);

/* A number that depends on all three; in every type's range, with a fraction in those
 * that have one, so that the order of a sum shows.
 */
double value_of (enum mg_dtype dtype, uint32_t seed, int rank, size_t i);

/* x op y as a step of an ordered reduction: in float32 for types of at most 32 bits. */
double value_combine (enum mg_dtype dtype, enum mg_reduce_op op, double x, double y);

/* What is left of a reduction over 'n' ranks to be done behind its last step. */
double value_finish (enum mg_dtype dtype, enum mg_reduce_op op, double x, int n);

/* Does the type have the operation? */
bool value_has (enum mg_dtype dtype, enum mg_reduce_op op);

#endif /* TESTS_UNIT_COMM_VALUES_H */
