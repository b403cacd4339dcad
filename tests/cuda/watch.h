/* watch - what instrumented device code reads and writes (-fsanitize=thread, answered here).
 *
 * Two accesses of one byte in one launch race if one of them is a write, they are of different
 * threads, not both atomic, and nothing orders them: a barrier of the block, or, inside a warp, a
 * warp operation that names both lanes.  Nothing orders two blocks.  An access must lie inside an
 * allocation of the device or the block's shared memory, and be aligned to its size.  Accesses of
 * the fiber's own stack are private.
 */
#ifndef TESTS_CUDA_WATCH_H
#define TESTS_CUDA_WATCH_H

#include "tests/cuda/device.h"

void watch_launch_begin (const struct launch_request *request);
void watch_launch_end (void);
void watch_block_begin (void);
void watch_block_end (void);

/* The threads of the block have met; the lanes of 'mask' of a warp have. */
void watch_barrier (void);
void watch_warp (unsigned warp, unsigned mask);

/* True if the address is on the stack of the running thread. */
bool launch_is_stack (const void *address);

#endif /* TESTS_CUDA_WATCH_H */
