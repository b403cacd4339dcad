/* flash_mma - what the kernels of attention on tensor cores share: which pairs of a query and a key
 * there are, in 32 bits.
 *
 * A block has FLASH_MMA_ROWS rows of one side, 16 for each warp, and goes through the other side in
 * tiles.
 */
#ifndef KERNELS_CUDA_FLASH_MMA_H
#define KERNELS_CUDA_FLASH_MMA_H

#include <math.h>

#include "kernels/cuda/flash.h"
#include "kernels/cuda/mma.h"

enum {
    FLASH_MMA_WARPS = 4,
    FLASH_MMA_THREADS = FLASH_MMA_WARPS * CUDA_WARP,
    FLASH_MMA_ROWS = FLASH_MMA_WARPS * 16,
};

/* The position of keys behind the last one.  No query sees it. */
enum { FLASH_NOWHERE = INT32_MAX };

/* A query: it sees the positions low to high. */
struct flash_mma_query {
    int position, low, high;
};

static __device__ inline struct flash_mma_query flash_mma_query_of (
    const struct kern_attention_fwd &a, int64_t entry, int64_t s)
{
    struct flash_query q = flash_query_of (a, entry, s);

    return { (int)q.position, (int)max (q.low, (int64_t)-INT32_MAX),
             (int)min (q.high, (int64_t)FLASH_NOWHERE - 1) };
}

/* The position of key s. */
static __device__ inline int flash_mma_key (const struct kern_attention_fwd &a, int64_t entry,
                                            int64_t s)
{
    return s < a.seq_k ? (int)cuda_position (a.pos_k, s, entry) : (int)FLASH_NOWHERE;
}

static __device__ inline bool flash_mma_sees (int low, int high, int position)
{
    return low <= position && position <= high;
}

/* Returns the factor by which scores of flash_mma_score() must be multiplied. */
static __device__ inline float flash_mma_scale (const struct kern_attention_fwd &a)
{
    return a.dtype == MG_FLOAT16 && a.coeff > 0 ? 1 : (float)a.scale;
}

/* The score of a product of q and k, over flash_mma_scale(). */
template <typename T>
static __device__ inline float flash_mma_score (const struct kern_attention_fwd &a, float product)
{
    return a.dtype == MG_FLOAT16 && a.coeff > 0 ? flash_score<T> (a, product) : product;
}

static __device__ inline int flash_mma_min (int x)
{
#pragma unroll
    for (int bits = CUDA_WARP / 2; bits > 0; bits /= 2)
        x = min (x, __shfl_xor_sync (0xffffffff, x, bits));
    return x;
}
static __device__ inline int flash_mma_max (int x)
{
    return -flash_mma_min (-x);
}

/* Of the queries of a block: those that see something, see low_min to high_max at most; all see
 * low_max to high_min.
 */
struct flash_bounds {
    int low_min, low_max, high_min, high_max;
};

/* Of ROWS queries. */
template <int ROWS>
static __device__ inline struct flash_bounds flash_bounds_of (const struct kern_attention_fwd &a,
                                                              int64_t entry, int64_t first)
{
    struct flash_bounds b = { INT32_MAX, -INT32_MAX, INT32_MAX, -INT32_MAX };

    for (int row = (int)threadIdx.x % CUDA_WARP; row < ROWS; row += CUDA_WARP) {
        struct flash_mma_query q = flash_mma_query_of (a, entry, first + row);

        b.low_max = max (b.low_max, q.low);
        b.high_min = min (b.high_min, q.high);
        if (q.low <= q.high) {
            b.low_min = min (b.low_min, q.low);
            b.high_max = max (b.high_max, q.high);
        }
    }
    return { flash_mma_min (b.low_min), flash_mma_max (b.low_max), flash_mma_min (b.high_min),
             flash_mma_max (b.high_max) };
}

/* The lowest and the highest position of the keys first to last, which are there. */
static __device__ inline void flash_mma_span (const struct kern_attention_fwd &a, int64_t entry,
                                              int first, int last, int *low, int *high)
{
    int lane = (int)threadIdx.x % CUDA_WARP;

    *low = first;
    *high = last;
    if (!a.pos_k.at)
        return;
    *low = INT32_MAX;
    *high = -INT32_MAX;
    for (int i = first; i <= last; i += CUDA_WARP) {
        int position = (int)cuda_position (a.pos_k, min (i + lane, last), entry);

        *low = min (*low, position);
        *high = max (*high, position);
    }
    *low = flash_mma_min (*low);
    *high = flash_mma_max (*high);
}

/* A tile of keys: the first of them, and if all queries of the block see all of its keys. */
struct flash_keys {
    int first;
    bool is_full;
};

/* The first tile of KEYS keys, from key 'first' on, that some query may see; its first key is seq_k
 * or more if there is none.
 */
template <int KEYS>
static __device__ inline struct flash_keys flash_keys_of (const struct kern_attention_fwd &a,
                                                          int64_t entry,
                                                          const struct flash_bounds &b, int first)
{
    for (; first < a.seq_k; first += KEYS) {
        int low, high;

        flash_mma_span (a, entry, first, min (first + KEYS, (int)a.seq_k) - 1, &low, &high);
        if (b.low_min <= high && low <= b.high_max)
            return { first, first + KEYS <= a.seq_k && b.low_max <= low && high <= b.high_min };
    }
    return { first, false };
}

/* A bit for each weight [COUNT / 4][4] of a thread in 16 rows: set where dropout keeps the weight.
 * The rows of the thread are at 'upper' and 'lower', column i at position[i]; rows are queries or,
 * if OF_KEYS is set, keys.  The bits are drawn one after the other: side by side, so many draws do
 * not fit into the registers.
 */
template <bool OF_KEYS, int COUNT>
static __device__ inline uint32_t flash_mma_kept (const struct flash_dropout &d, int upper,
                                                  int lower, const int *position)
{
    int t = (int)threadIdx.x % 4 * 2;
    uint32_t kept = 0;

    static_assert (COUNT <= 32, "bits of a register");
#pragma unroll 1
    for (int n = 0; n < COUNT; n++) {
        int row = n % 4 / 2 ? lower : upper, column = position[n / 4 * 8 + t + n % 2];
        float factor = OF_KEYS ? flash_factor (d, column, row) : flash_factor (d, row, column);

        kept |= (uint32_t)(factor != 0) << n;
    }
    return kept;
}

#endif /* KERNELS_CUDA_FLASH_MMA_H */
