/* jitter.cu - uniform factors near 1 by coordinates (formula in moe.h)
 *
 * A thread has a pack of a row.
 */

#include "kernels/cuda/philox.h"

/* 1 - eps + 2 eps (v + 1/2) / 2^32 */
static __device__ inline float factor (uint32_t v, float eps)
{
    return 1.0f + eps * (((float)v + 0.5f) * 0x1p-31f - 1.0f);
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) jitter (struct kern_jitter a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack), col = pack * SIZE;
        int64_t at = row * a.cols + col, left = a.cols - col;
        cuda_pack<T> x = cuda_load<WIDE> ((const T *)a.x + at, left), y = {};
        uint32_t bits[SIZE];

        if (a.accumulate)
            y = cuda_load<WIDE> ((const T *)a.y + at, left);
        cuda_row_bits (cuda_row_of (a.place, row), col, bits);
#pragma unroll
        for (int j = 0; j < SIZE; j++) {
            float v = cuda_float (x.x[j]) * factor (bits[j], (float)a.eps);

            y.x[j] = cuda_rounded<T> (a.accumulate ? cuda_float (y.x[j]) + v : v);
        }
        cuda_store<WIDE> ((T *)a.y + at, y, left);
    }
}

template <typename T>
static int launch (const struct cuda_call *call, const struct kern_jitter *a, struct mg_error *err)
{
    int64_t stride = a->cols * (int64_t)sizeof (T), n = a->rows * cuda_packs<T> (a->cols);
    bool wide = cuda_is_wide (a->x, stride) && cuda_is_wide (a->y, stride);

    return wide ? cuda_launch_each<jitter<T, true>> (call, "jitter", err, n, *a)
                : cuda_launch_each<jitter<T, false>> (call, "jitter", err, n, *a);
}

int cuda_jitter (const struct cuda_call *call, const struct kern_jitter *a, struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch, call, a, err);
}
