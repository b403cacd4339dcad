/* fill.cu - initial weights by global coordinates, and constants (formulas in kernels.h) */

#include "kernels/cuda/philox.h"

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) fill (struct kern_fill a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    cuda_pack<T> pack;

#pragma unroll
    for (int i = 0; i < SIZE; i++)
        pack.x[i] = cuda_rounded<T> (a.value);
    for (int64_t p = cuda_thread (); p < cuda_packs<T> (a.n); p += cuda_num_threads ())
        cuda_store<WIDE> ((T *)a.out + p * SIZE, pack, a.n - p * SIZE);
}

template <typename T>
static int launch_fill (const struct cuda_call *call, const struct kern_fill *a,
                        struct mg_error *err)
{
    int64_t n = cuda_packs<T> (a->n);

    return cuda_is_wide (a->out, 0) ? cuda_launch_each<fill<T, true>> (call, "fill", err, n, *a)
                                    : cuda_launch_each<fill<T, false>> (call, "fill", err, n, *a);
}

int cuda_fill (const struct cuda_call *call, const struct kern_fill *a, struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch_fill, call, a, err);
}

/* A thread has four columns of a row, whose global numbers begin at a multiple of 4. */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    fill_normal (struct kern_fill_normal a, int64_t first_block, int64_t blocks)
{
    for (int64_t i = cuda_thread (); i < a.rows * blocks; i += cuda_num_threads ()) {
        int64_t block, row = cuda_divide (i, blocks, &block);
        double normal[4];

        block += first_block;
        cuda_normal (a.key, (uint32_t)block, (uint32_t)(a.first_row + row), 0, normal);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int64_t col = block * 4 + j - a.first_col;

            if (col >= 0 && col < a.cols)
                ((T *)a.out)[row * a.ld + col]
                    = cuda_rounded<T> ((float)(a.mean + a.std * normal[j]));
        }
    }
}

template <typename T>
static int launch_normal (const struct cuda_call *call, const struct kern_fill_normal *a,
                          struct mg_error *err)
{
    int64_t first = a->first_col / 4, blocks = (a->first_col + a->cols + 3) / 4 - first;

    return cuda_launch_each<fill_normal<T>> (call, "fill_normal", err,
                                             a->cols > 0 ? a->rows * blocks : 0, *a, first,
                                             blocks);
}

int cuda_fill_normal (const struct cuda_call *call, const struct kern_fill_normal *a,
                      struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch_normal, call, a, err);
}
