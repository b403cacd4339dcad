/* columns - sums over the rows of a matrix, in groups of rows
 *
 * A block has a group of rows and a strip of columns.  A warp has some of the rows, and a lane has
 * SIZE columns that follow each other.  The block adds the sums of its warps in order.  The sums of
 * groups lie in scratch memory until cuda_add_columns() adds them in order.  So the order of all
 * sums depends on the shape only.
 */
#ifndef KERNELS_CUDA_COLUMNS_H
#define KERNELS_CUDA_COLUMNS_H

#include "kernels/cuda/block.h"

/* Strips of 'cols' columns: blocks that a group of rows takes. */
template <int SIZE> static __host__ __device__ inline int64_t cuda_strips (int64_t cols)
{
    return (cols + CUDA_WARP * SIZE - 1) / (CUDA_WARP * SIZE);
}

/* Sum groups of 'group' rows.  next (row, col, sum) adds columns col .. col + SIZE - 1 of a row to
 * sum[SIZE]; col is below cols.  done (g, col, total) stores the sum of one column of group g.
 * Sums are of type SUM, which has +=.
 */
template <int SIZE, typename SUM = float, typename NEXT, typename DONE>
static __device__ inline void cuda_sum_columns (int64_t rows, int64_t group, int64_t cols,
                                                const NEXT &next, const DONE &done)
{
    /* A row of padding per element, so that both ways through the array have no bank conflicts. */
    SHARED (SUM, part, [CUDA_WARPS][SIZE][CUDA_WARP + CUDA_WARP / SIZE]);
    int64_t strips = cuda_strips<SIZE> (cols), blocks = (rows + group - 1) / group * strips;
    unsigned warp = threadIdx.x / CUDA_WARP, lane = threadIdx.x % CUDA_WARP;

    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        int64_t strip, g = cuda_divide (block, strips, &strip);
        int64_t first = strip * CUDA_WARP * SIZE, col = first + lane * SIZE;
        int64_t end = min ((g + 1) * group, rows);
        SUM sum[SIZE] = {};

        if (col < cols)
            for (int64_t row = g * group + warp; row < end; row += CUDA_WARPS)
                next (row, col, sum);
        __syncthreads (); // the sums of an earlier block have been read
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            part[warp][j][lane] = sum[j];
        __syncthreads ();
        for (unsigned c = threadIdx.x; c < CUDA_WARP * SIZE && first + c < cols;
             c += CUDA_THREADS) {
            SUM total = {};

#pragma unroll
            for (int w = 0; w < CUDA_WARPS; w++)
                total += part[w][c % SIZE][c / SIZE];
            done (g, first + c, total);
        }
    }
}

/* out[col] += the sums of all groups, sums[groups][cols], in order; out has the type 'dtype'. */
int cuda_add_columns (const struct cuda_call *call, const char *op, const float *sums,
                      int64_t groups, int64_t cols, void *out, enum mg_dtype dtype,
                      struct mg_error *err);

#endif /* KERNELS_CUDA_COLUMNS_H */
