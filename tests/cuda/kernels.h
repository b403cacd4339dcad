/* kernels - the CUDA kernels of the double as a table of kernels. */
#ifndef TESTS_CUDA_KERNELS_H
#define TESTS_CUDA_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

struct kernels;

/* A table whose calls run at once on memory of direct_alloc().  Scratch memory is exactly as large
 * as the call needs, and holds 0xff bytes before each call.  An op without a CUDA kernel fails with
 * ENOTSUP.  The table belongs to the double.
 */
struct kernels *cuda_double_kernels (void);

#ifdef __cplusplus
}
#endif

#endif /* TESTS_CUDA_KERNELS_H */
