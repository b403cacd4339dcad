/* gemm_double.cu - matrix product in double, of operands of any types
 *
 * A block has TILE x TILE elements of C and goes through k in steps of DEPTH.  It converts the
 * parts of A and B of a step to double in shared memory.  A thread has EACH x EACH elements, LANES
 * apart.  An element is one sum, from the first element of k on.
 */

#include "kernels/cuda/block.h"

enum {
    TILE = 64,
    DEPTH = 16,
    LANES = 16, /* threads across a tile */
    EACH = TILE / LANES,
    LD = TILE + 1, /* lines of k are stored to different banks */
};

static __device__ inline double get (const void *p, int64_t i, enum mg_dtype dtype)
{
    switch (dtype) {
    case MG_FLOAT64: return ((const double *)p)[i];
    case MG_BFLOAT16: return (double)cuda_float (((const __nv_bfloat16 *)p)[i]);
    case MG_FLOAT16: return (double)cuda_float (((const __half *)p)[i]);
    default: return (double)((const float *)p)[i];
    }
}

static __device__ inline void put (void *p, int64_t i, enum mg_dtype dtype, double value)
{
    switch (dtype) {
    case MG_FLOAT64: ((double *)p)[i] = value; break;
    case MG_BFLOAT16: ((__nv_bfloat16 *)p)[i] = cuda_rounded<__nv_bfloat16> ((float)value); break;
    case MG_FLOAT16: ((__half *)p)[i] = cuda_rounded<__half> ((float)value); break;
    default: ((float *)p)[i] = (float)value;
    }
}

/* A of a product, or the transpose of B: 'all' lines of k elements.  They lie in memory as
 * [all][ld], or as [k][ld] if 'k_down' is set.
 */
struct lines {
    const void *p;
    int64_t ld, all, k;
    bool k_down;
    enum mg_dtype dtype;
};

/* part[.][line] = elements k .. k + DEPTH - 1 of the lines from 'first' on; 0 behind the last one.
 * The threads of a warp read elements that follow each other in memory.
 */
static __device__ inline void load (double (&part)[DEPTH][LD], const struct lines &s,
                                    int64_t first, int64_t k)
{
    for (int i = threadIdx.x; i < TILE * DEPTH; i += CUDA_THREADS) {
        int line = s.k_down ? i % TILE : i / DEPTH, deep = s.k_down ? i / TILE : i % DEPTH;
        int64_t row = first + line, col = k + deep;
        double x = 0;

        if (row < s.all && col < s.k)
            x = get (s.p, s.k_down ? col * s.ld + row : row * s.ld + col, s.dtype);
        part[deep][line] = x;
    }
}

static __device__ inline void store (const struct kern_gemm_double &a, int64_t row, int64_t col,
                                     double sum)
{
    int64_t at = row * a.ldc + col;

    if (row >= a.m || col >= a.n)
        return;
    if (a.accumulate)
        sum += get (a.c, at, a.c_dtype);
    if (a.bias)
        sum += get (a.bias, col, a.bias_dtype);
    put (a.c, at, a.c_dtype, sum);
}

/* The tile from (row, col) on. */
static __device__ inline void multiply (const struct kern_gemm_double &a, int64_t row, int64_t col)
{
    SHARED (double, a_part, [DEPTH][LD]);
    SHARED (double, b_part, [DEPTH][LD]);
    const struct lines left = { a.a, a.lda, a.m, a.k, a.trans_a, a.a_dtype };
    const struct lines right = { a.b, a.ldb, a.n, a.k, !a.trans_b, a.b_dtype };
    int down = (int)threadIdx.x / LANES, across = (int)threadIdx.x % LANES;
    double sum[EACH][EACH] = {};

    for (int64_t k = 0; k < a.k; k += DEPTH) {
        __syncthreads (); // the step before has been multiplied
        load (a_part, left, row, k);
        load (b_part, right, col, k);
        __syncthreads ();
        for (int l = 0; l < DEPTH; l++) {
            double x[EACH], y[EACH];

#pragma unroll
            for (int i = 0; i < EACH; i++) {
                x[i] = a_part[l][i * LANES + down];
                y[i] = b_part[l][i * LANES + across];
            }
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[i][j] += x[i] * y[j];
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            store (a, row + i * LANES + down, col + j * LANES + across, sum[i][j]);
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    gemm_double (struct kern_gemm_double a, int64_t across, int64_t tiles)
{
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t col, row = cuda_divide (t, across, &col);

        multiply (a, row * TILE, col * TILE);
    }
}

int cuda_gemm_double (const struct cuda_call *call, const struct kern_gemm_double *a,
                      struct mg_error *err)
{
    int64_t across = (a->n + TILE - 1) / TILE, tiles = (a->m + TILE - 1) / TILE * across;
    cudaLaunchConfig_t config = cuda_config (call, cuda_blocks (tiles), CUDA_THREADS, 0);

    if (kern_gemm_double_check (a, err) < 0)
        return -1;
    if (tiles == 0)
        return 0;
    return cuda_launched (
        cudaLaunchKernelEx (&config, cuda_kernel<gemm_double> (), *a, across, tiles),
        "gemm_double", err);
}
