/* place - memory and kernels of the CUDA side that a test compares with the CPU's.
 *
 * A program is linked with one of two: place_double.c, the kernels of the double, which run in the
 * call, or place_gpu.c, a device of the library (MG_TEST_DEVICE, "cuda" by default): a GPU, or the
 * double of the runtime.  Any failure ends the program.
 */
#ifndef TESTS_CUDA_PLACE_H
#define TESTS_CUDA_PLACE_H

#include <stddef.h>

#include "kernels/kernels.h"

/* 'size': the bytes of all operands that are there at the same time, at most. */
void place_open (size_t size);
void place_close (void);

/* 'size' bytes, 0xff each, 'offset' bytes behind a boundary of 256.  The double refuses accesses of
 * instrumented kernels beside them; on a device, place_free() ends the program if bytes beside them
 * have changed.
 */
void *place_alloc (size_t size, size_t offset);
void place_free (void *p);

/* Copy from the host and to the host. */
void place_write (void *to, const void *from, size_t size);
void place_read (void *to, const void *from, size_t size);

/* Run a call whose operands are in this memory, and wait for its end.  -1 and a text if the call
 * fails.
 */
int place_run (enum kern_op op, const void *args, struct mg_error *err);

/* What the calls between the two count (launch.h); zeros if their kernels are not instrumented. */
struct launch_counts;
void place_count_begin (void);
void place_count (struct launch_counts *counts);

/* Run the call 'count' times and return the seconds that the fastest of them took.  The double
 * returns 0.
 */
double place_time (enum kern_op op, const void *args, int count);

#endif /* TESTS_CUDA_PLACE_H */
