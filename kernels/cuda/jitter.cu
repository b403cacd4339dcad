/* jitter.cu - uniform factors near 1, and random logits, by coordinates (formulas in moe.h)
 *
 * A thread has a pack of a row, or four logits of a token.
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

/* --- random logits --- */

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    router_random (struct kern_router_random a, int64_t blocks)
{
    for (int64_t i = cuda_thread (); i < a.tokens * blocks; i += cuda_num_threads ()) {
        int64_t block, token = cuda_divide (i, blocks, &block);
        struct cuda_row row = cuda_row_of (a.place, token);
        T *to = (T *)a.logits + token * a.experts;
        double x[4], bias[4] = {};

        cuda_normal (row.key, (uint32_t)block, row.position, row.sample, x);
        if (a.bias != 0)
            cuda_normal (a.bias_key, (uint32_t)block, a.bias_stays, a.bias_stays ? 0 : row.sample,
                         bias);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (block * 4 + j < a.experts)
                to[block * 4 + j] = (T)(x[j] + a.bias * bias[j]);
    }
}

int cuda_router_random (const struct cuda_call *call, const struct kern_router_random *a,
                        struct mg_error *err)
{
    const char *op = "router_random";
    int64_t blocks = (a->experts + 3) / 4, n = a->tokens * blocks;

    if (kern_router_check (op, a->tokens, a->experts, 0, a->dtype, err) < 0)
        return -1;
    return a->dtype == MG_FLOAT64
               ? cuda_launch_each<router_random<double>> (call, op, err, n, *a, blocks)
               : cuda_launch_each<router_random<float>> (call, op, err, n, *a, blocks);
}
