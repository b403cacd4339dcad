/* expert_tile - tiles of the products of experts: which tile is whose.
 *
 * With KERN_EXPERT_FWD and KERN_EXPERT_DGRAD the numbers of tiles follow from offsets in device
 * memory.  So a launch has as many blocks as the sizes of the call may need, up to
 * EXPERT_MOST_BLOCKS, and block b takes tiles b, b + gridDim.x, ... of all experts.  No tile is
 * shared, so results do not depend on which block has which.
 */
#ifndef KERNELS_CUDA_EXPERT_TILE_H
#define KERNELS_CUDA_EXPERT_TILE_H

#include "kernels/cuda/block.h"

/* Rows and columns of a tile.  Blocks at most: several for each multiprocessor of a large GPU. */
enum { EXPERT_TILE = 128, EXPERT_MOST_BLOCKS = 1024 };

/* True if elements are read or written in runs of 16 bytes (a, b) or of a thread's columns (c). */
struct expert_wide {
    bool a, b, c;
};

/* C[m,n] = A[m,k] B[k,n] of an expert.  In memory A is [m][lda] and B is [k][ldb]; with
 * KERN_EXPERT_FWD, B is [n][ldb]; with KERN_EXPERT_WGRAD, A is [k][lda].
 */
template <typename T> struct expert_product {
    int64_t m, n, k;
    const T *a, *b;
    int64_t lda, ldb;
    int64_t c, ldc; /* first element of C in what is written */
};

template <enum kern_expert_form FORM, typename T>
static __device__ inline struct expert_product<T> expert_product_of (
    const struct kern_expert_gemm &a, int64_t e)
{
    int64_t first = a.offset[e], rows = a.offset[e + 1] - first, weight = e * a.w_stride;
    const T *x = (const T *)a.x + first * a.in, *y = (const T *)a.y + first * a.out;
    const T *w = (const T *)a.w + weight;

    if (FORM == KERN_EXPERT_FWD)
        return { rows, a.out, a.in, x, w, a.in, a.in, first * a.out, a.out };
    if (FORM == KERN_EXPERT_DGRAD)
        return { rows, a.in, a.out, y, w, a.out, a.in, first * a.in, a.in };
    return { a.out, a.in, rows, y, x, a.out, a.in, weight, a.in };
}

static __host__ __device__ inline int64_t expert_tiles (int64_t n)
{
    return (n + EXPERT_TILE - 1) / EXPERT_TILE;
}

/* Tiles from one column of tiles to the next. */
template <enum kern_expert_form FORM>
static __device__ inline int64_t expert_down (const struct kern_expert_gemm &a, int64_t e)
{
    return expert_tiles (FORM == KERN_EXPERT_WGRAD ? a.out : a.offset[e + 1] - a.offset[e]);
}

/* Where a search for tiles has come to, and what it has found. */
struct expert_cursor {
    int64_t first, before;       /* experts before 'first' have 'before' tiles */
    int64_t expert, row, column; /* the tile begins there */
};

/* Find tile t; false if there is none.  The tiles of later calls are behind it.  All lanes of a
 * warp call this: each counts the tiles of an expert.
 */
template <enum kern_expert_form FORM>
static __device__ inline bool expert_find (const struct kern_expert_gemm &a,
                                           struct expert_cursor *at, int64_t t)
{
    unsigned lane = threadIdx.x % CUDA_WARP;
    int64_t across = expert_tiles (FORM == KERN_EXPERT_FWD ? a.out : a.in);

    for (; at->first < a.experts; at->first += CUDA_WARP) {
        int64_t e = at->first + lane;
        int64_t mine = e < a.experts ? expert_down<FORM> (a, e) * across : 0, sum = mine;
        unsigned behind;

#pragma unroll
        for (unsigned by = 1; by < CUDA_WARP; by *= 2) {
            int64_t other = __shfl_up_sync (0xffffffff, sum, by);

            sum += lane >= by ? other : 0;
        }
        behind = __ballot_sync (0xffffffff, t < at->before + sum);
        if (behind) {
            int found = __ffs ((int)behind) - 1;
            int64_t number = t - at->before - __shfl_sync (0xffffffff, sum - mine, found), down;

            at->expert = at->first + found;
            down = expert_down<FORM> (a, at->expert);
            at->column = cuda_divide (number, down, &at->row) * EXPERT_TILE;
            at->row *= EXPERT_TILE;
            return true;
        }
        at->before += __shfl_sync (0xffffffff, sum, CUDA_WARP - 1);
    }
    return false;
}

/* On the host: */

/* Blocks of a launch. */
static inline unsigned expert_blocks (const struct kern_expert_gemm *a)
{
    int64_t across = expert_tiles (a->form == KERN_EXPERT_FWD ? a->out : a->in);
    int64_t down = a->form == KERN_EXPERT_WGRAD ? a->experts * expert_tiles (a->out)
                                                : a->rows / EXPERT_TILE + a->experts;

    const int64_t most = EXPERT_MOST_BLOCKS;

    return cuda_blocks (down * across < most ? down * across : most);
}

#endif /* KERNELS_CUDA_EXPERT_TILE_H */
