/* copy.cu - blocks of columns from one matrix to another, and their sum (contract in kernels.h)
 *
 * A thread has one pack of a block.  Blocks are copied as bytes of elements; only a sum forms
 * numbers.
 */

#include "kernels/cuda/block.h"

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) copy (struct kern_copy a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.rows * a.heads * packs; i += cuda_num_threads ()) {
        int64_t pack, head, block = cuda_divide (i, packs, &pack);
        int64_t row = cuda_divide (block, a.heads, &head), col = pack * SIZE;
        const T *x = (const T *)a.x + row * a.x_stride + head * a.x_stride_h + col;

        cuda_store<WIDE> ((T *)a.y + row * a.y_stride + head * a.y_stride_h + col,
                          cuda_load<WIDE> (x, a.cols - col), a.cols - col);
    }
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) copy_sum (struct kern_copy a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack), col = pack * SIZE, left = a.cols - col;
        float sum[SIZE] = {};
        cuda_pack<T> y;

        for (int64_t h = 0; h < a.heads; h++) {
            cuda_pack<T> x = cuda_load<WIDE> (
                (const T *)a.x + row * a.x_stride + h * a.x_stride_h + col, left);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                sum[j] += cuda_float (x.x[j]);
        }
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            y.x[j] = cuda_rounded<T> (sum[j]);
        cuda_store<WIDE> ((T *)a.y + row * a.y_stride + col, y, left);
    }
}

template <typename T>
static int launch (const struct cuda_call *call, const struct kern_copy *a, struct mg_error *err)
{
    const int64_t size = (int64_t)sizeof (T), packs = cuda_packs<T> (a->cols);
    bool wide = cuda_is_wide (a->x, a->x_stride * size) && cuda_is_wide (a->y, a->y_stride * size)
                && a->x_stride_h * size % 16 == 0 && (a->sum || a->y_stride_h * size % 16 == 0);

    if (a->sum)
        return wide ? cuda_launch_each<copy_sum<T, true>> (call, "copy", err, a->rows * packs, *a)
                    : cuda_launch_each<copy_sum<T, false>> (call, "copy", err, a->rows * packs,
                                                            *a);
    return wide ? cuda_launch_each<copy<T, true>> (call, "copy", err, a->rows * a->heads * packs,
                                                   *a)
                : cuda_launch_each<copy<T, false>> (call, "copy", err, a->rows * a->heads * packs,
                                                    *a);
}

int cuda_copy (const struct cuda_call *call, const struct kern_copy *a, struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch, call, a, err);
}
