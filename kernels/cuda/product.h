/* product - kern_gemm by cuBLASLt.
 *
 * cuBLASLt's matrices are column-major, and a row-major matrix is the transpose of the column-major
 * one in the same memory.  So C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T.  Sums are in
 * float32, and float32 operands are not rounded (no TF32).
 *
 * An algorithm is chosen once for a shape: sizes, types, row lengths and the alignment of the
 * operands.  So a product has the same bits in each call.  What cuBLASLt lacks (a 16-bit result of
 * float32 operands, a result of the other 16-bit type) is formed in float32 scratch memory, and
 * then converted; a bias of another type than the result is converted first.
 */
#ifndef KERNELS_CUDA_PRODUCT_H
#define KERNELS_CUDA_PRODUCT_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_products;

/* Products on the current device.  NULL and a text on failure. */
struct cuda_products *cuda_products_create (struct mg_error *err);

/* NULL is allowed.  The device has done all products. */
void cuda_products_destroy (struct cuda_products *products);

/* Choose the algorithm of a product whose operands are aligned to 256 bytes, and run the product
 * once on memory of its own if there is enough, so that later calls need not load kernels.  Reads
 * sizes and types only.  A shape that is known costs nothing.  Waits for the device.
 */
int cuda_product_prepare (struct cuda_products *products, const struct kern_gemm *a,
                          struct mg_error *err);

/* Enqueue the product; call->scratch has cuda_gemm_scratch() bytes. */
int cuda_product (struct cuda_products *products, const struct cuda_call *call,
                  const struct kern_gemm *a, struct mg_error *err);

/* Enqueue a conversion of a matrix: to[row][col] = from[row][col], rows to_ld and from_ld elements
 * apart, rounded to nearest even.  from_ld 0: each row is that of 'from'.  from NULL: zeros.  Types
 * are float32, bfloat16 or float16.
 */
struct cuda_matrix {
    int64_t rows, cols;
    const void *from;
    int64_t from_ld;
    enum mg_dtype from_dtype;
    void *to;
    int64_t to_ld;
    enum mg_dtype to_dtype;
};
int cuda_convert (const struct cuda_call *call, const struct cuda_matrix *m, struct mg_error *err);

#ifdef __cplusplus
}
#endif

#endif /* KERNELS_CUDA_PRODUCT_H */
