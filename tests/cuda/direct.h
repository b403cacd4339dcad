/* direct - device memory and launches without a runtime: each launch runs in the call.
 *
 * Tests of the engine and of single kernels use these functions.  Programs that use streams have
 * the whole runtime instead.
 */
#ifndef TESTS_CUDA_DIRECT_H
#define TESTS_CUDA_DIRECT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 'size' bytes of device memory, 0xff each, 'offset' bytes behind a boundary of 256.  Ends the
 * program if there is no memory.  Instrumented kernels may access these bytes only.
 */
void *direct_alloc (size_t size, size_t offset);
void direct_free (void *p);

/* From now on instrumented kernels may access any memory of the host. */
void direct_allow_all (void);

#ifdef __cplusplus
}
#endif

#endif /* TESTS_CUDA_DIRECT_H */
