/* mma - tiles of 16-bit elements in shared memory, and their products on tensor cores.
 *
 * A row of a tile of COLS elements takes mma_ld<COLS> elements: with the 16 bytes behind each row,
 * the 8 rows that ldmatrix reads together lie in different banks.  Sums of a warp are
 * c[COLS / 8][4]: 16 rows, in the layout of c of ptx.h.
 */
#ifndef KERNELS_CUDA_MMA_H
#define KERNELS_CUDA_MMA_H

#include <string.h>

#include "kernels/cuda/block.h"

template <int COLS> static constexpr int mma_ld = COLS + 8;

/* Copy 'cols' elements of each of 'count' rows in the background, by THREADS threads.  Further rows
 * to ROWS and columns to COLS are 0.  Rows in memory are aligned to 16 bytes.
 */
template <int ROWS, int COLS, int THREADS, typename T>
static __device__ inline void mma_fetch (T *to, const T *from, int64_t stride, int64_t count,
                                         int cols)
{
    const int PIECES = COLS / 8;

    for (int i = (int)threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        int row = i / PIECES, col = i % PIECES * 8;
        int valid = row < count ? min (max (cols - col, 0), 8) * (int)sizeof (T) : 0;

        ptx_copy<16> (to + row * mma_ld<COLS> + col, valid ? from + row * stride + col : from,
                      valid);
    }
}

static __device__ inline __nv_bfloat162 mma_rounded (float low, float high, __nv_bfloat16)
{
    return __floats2bfloat162_rn (low, high);
}
static __device__ inline __half2 mma_rounded (float low, float high, __half)
{
    return __floats2half2_rn (low, high);
}

/* Two numbers as a register of a fragment. */
template <typename T> static __device__ inline uint32_t mma_pair (float low, float high)
{
    auto both = mma_rounded (low, high, T ());
    uint32_t bits;

    memcpy (&bits, &both, sizeof (bits));
    return bits;
}

/* Two tiles that follow each other += a times two tiles of b. */
template <typename T>
static __device__ inline void mma_two (float (&c)[4], float (&c_next)[4], const uint32_t (&a)[4],
                                       const uint32_t (&b)[4])
{
    const uint32_t low[2] = { b[0], b[1] }, high[2] = { b[2], b[3] };

    ptx_mma<T> (c, a, low);
    ptx_mma<T> (c_next, a, high);
}

/* c += a b^T: a has 16 rows, b 8 TILES rows, each of DEPTH elements. */
template <int DEPTH, typename T, int TILES>
static __device__ inline void mma_rows (float (&c)[TILES][4], const T *a, const T *b)
{
    const int LD = mma_ld<DEPTH>;
    int lane = (int)threadIdx.x % CUDA_WARP;

    a += lane % 16 * LD + lane / 16 * 8;
    b += (lane / 16 * 8 + lane % 8) * LD + lane / 8 % 2 * 8;
#pragma unroll
    for (int d = 0; d < DEPTH; d += 16) {
        uint32_t of_a[4], of_b[4];

        ptx_ldmatrix<4> (of_a, a + d);
#pragma unroll
        for (int j = 0; j < TILES; j += 2) {
            ptx_ldmatrix<4> (of_b, b + j * 8 * LD + d);
            mma_two<T> (c[j], c[j + 1], of_a, of_b);
        }
    }
}

/* c += w b: w[DEPTH / 8][4] are weights as mma_rows() leaves them, b has DEPTH rows of LD
 * elements.
 */
template <int LD, typename T, int DEPTH8, int TILES>
static __device__ inline void mma_weights (float (&c)[TILES][4], const float (&w)[DEPTH8][4],
                                           const T *b)
{
    int lane = (int)threadIdx.x % CUDA_WARP;

    b += lane % 16 * LD + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < DEPTH8; k += 2) {
        uint32_t of_w[4], of_b[4];

#pragma unroll
        for (int i = 0; i < 4; i++)
            of_w[i] = mma_pair<T> (w[k + i / 2][i % 2 * 2], w[k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < TILES; j += 2) {
            ptx_ldmatrix<4, true> (of_b, b + k * 8 * LD + j * 8);
            mma_two<T> (c[j], c[j + 1], of_w, of_b);
        }
    }
}

#endif /* KERNELS_CUDA_MMA_H */
