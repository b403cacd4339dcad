/* sort.cu - a bitonic sort (Batcher 1968) */

#include "kernels/cuda/sort.h"

enum {
    SORTED = CUDA_SORT_MIN, /* keys that one block sorts in shared memory */
    PAIRS = SORTED / 2 / CUDA_THREADS,
};

static __device__ inline void order (uint64_t *low, uint64_t *high, bool ascending)
{
    uint64_t a = *low, b = *high;

    if ((a > b) == ascending) {
        *low = b;
        *high = a;
    }
}

/* Pair i of keys that are 'distance' apart: the place of the lower one. */
static __device__ inline int64_t place_of (int64_t i, int64_t distance)
{
    return i / distance * 2 * distance + i % distance;
}

/* Merge pieces of 'size' keys, from the given distance of pairs down: one step in global memory. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    sort_step (uint64_t *key, int64_t count, int64_t size, int64_t distance)
{
    for (int64_t i = cuda_thread (); i < count / 2; i += cuda_num_threads ()) {
        int64_t at = place_of (i, distance);

        order (&key[at], &key[at + distance], (at & size) == 0);
    }
}

/* The same for SORTED keys in shared memory: all steps of the sizes 'from' to 'to', each from the
 * distance of half a piece or of half of SORTED down.
 */
__global__ void __launch_bounds__ (CUDA_THREADS)
    sort_piece (uint64_t *key, int64_t count, int64_t from, int64_t to)
{
    uint64_t *piece = (uint64_t *)ptx_shared ();

    for (int64_t base = (int64_t)blockIdx.x * SORTED; base < count;
         base += (int64_t)gridDim.x * SORTED) {
        for (int i = threadIdx.x; i < SORTED; i += CUDA_THREADS)
            piece[i] = key[base + i];
        for (int64_t size = from; size <= to; size *= 2)
            for (int distance = (int)min (size, (int64_t)SORTED) / 2; distance > 0; distance /= 2) {
                __syncthreads ();
                for (int j = 0; j < PAIRS; j++) {
                    int at = (int)place_of (threadIdx.x + j * CUDA_THREADS, distance);

                    order (&piece[at], &piece[at + distance], ((base + at) & size) == 0);
                }
            }
        __syncthreads ();
        for (int i = threadIdx.x; i < SORTED; i += CUDA_THREADS)
            key[base + i] = piece[i];
        __syncthreads ();
    }
}

static int launch_piece (const struct cuda_call *call, const char *op, uint64_t *key,
                         int64_t count, int64_t from, int64_t to, struct mg_error *err)
{
    cudaLaunchConfig_t config = cuda_config (call, cuda_blocks (count / SORTED), CUDA_THREADS,
                                             SORTED * sizeof (*key));

    return cuda_launched (
        cudaLaunchKernelEx (&config, cuda_kernel<sort_piece> (), key, count, from, to), op, err);
}

int cuda_sort (const struct cuda_call *call, const char *op, uint64_t *key, int64_t count,
               struct mg_error *err)
{
    if (launch_piece (call, op, key, count, 2, SORTED, err) < 0)
        return -1;
    for (int64_t size = 2 * SORTED; size <= count; size *= 2) {
        for (int64_t distance = size / 2; distance >= SORTED; distance /= 2)
            if (cuda_launch_each<sort_step> (call, op, err, count / 2, key, count, size, distance)
                < 0)
                return -1;
        if (launch_piece (call, op, key, count, size, size, err) < 0)
            return -1;
    }
    return 0;
}
