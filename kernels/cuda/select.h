/* select - order in a block: doubles as keys, the m-th largest key, sorted places.
 *
 * The key of a double is a whole number.  A larger double has a larger key, -0 and 0 have the same
 * key, and a NaN has the key 0, which no number has.  All functions here are called by all threads
 * of a block of whole warps, and begin and end with a barrier.  Results depend neither on the
 * number of threads nor on their order.
 */
#ifndef KERNELS_CUDA_SELECT_H
#define KERNELS_CUDA_SELECT_H

#include "kernels/cuda/block.h"

#define CUDA_SIGN (1ull << 63)

static __device__ inline uint64_t cuda_key (double v)
{
    uint64_t bits = (uint64_t)__double_as_longlong (v);

    if (v != v)
        return 0;
    if (v == 0)
        return CUDA_SIGN;
    return bits & CUDA_SIGN ? ~bits : bits | CUDA_SIGN;
}

/* A double that has the key. */
static __device__ inline double cuda_key_value (uint64_t key)
{
    return __longlong_as_double ((long long)(key & CUDA_SIGN ? key ^ CUDA_SIGN : ~key));
}

enum { CUDA_DIGIT = 8, CUDA_DIGITS = 1 << CUDA_DIGIT };

/* Of the keys that were counted by a digit, the digit of the m-th largest one, and its number among
 * the keys of this digit.
 */
struct cuda_digit {
    uint32_t digit, m;
};

static __device__ inline struct cuda_digit cuda_find_digit (const uint32_t *bins, uint32_t m)
{
    enum { EACH = CUDA_DIGITS / CUDA_WARP };
    SHARED (struct cuda_digit, found, [1]);
    unsigned lane = threadIdx.x % CUDA_WARP;

    if (threadIdx.x < CUDA_WARP) {
        uint32_t mine = 0, up_to;

        for (int j = 0; j < EACH; j++)
            mine += bins[lane * EACH + j];
        up_to = mine; // keys of this lane's digits and of larger ones
        for (unsigned by = 1; by < CUDA_WARP; by *= 2) {
            uint32_t other = __shfl_down_sync (0xffffffff, up_to, by);

            up_to += lane + by < CUDA_WARP ? other : 0;
        }
        if (up_to - mine < m && m <= up_to) {
            uint32_t left = m - (up_to - mine), digit = lane * EACH + EACH - 1;

            for (; left > bins[digit]; digit--)
                left -= bins[digit];
            found[0].digit = digit;
            found[0].m = left;
        }
    }
    __syncthreads ();
    return found[0];
}

/* The m-th largest of key_at (0), ..., key_at (n - 1), whose keys have 'bits' bits; 1 <= m <= n,
 * and n is below 2^32.  A radix selection: each pass counts the keys that may be the m-th by
 * their next digit.
 */
template <typename KEY_AT>
static __device__ inline uint64_t cuda_select (int64_t n, int64_t m, int bits,
                                               const KEY_AT &key_at)
{
    SHARED (uint32_t, bins, [CUDA_DIGITS]);
    struct cuda_digit found = { 0, (uint32_t)m };
    uint64_t known = 0;

    for (int shift = bits - CUDA_DIGIT; shift >= 0; shift -= CUDA_DIGIT) {
        __syncthreads (); // what an earlier pass found has been read
        for (unsigned i = threadIdx.x; i < CUDA_DIGITS; i += blockDim.x)
            bins[i] = 0;
        __syncthreads ();
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            uint64_t key = key_at (i);

            if ((key ^ known) >> shift >> CUDA_DIGIT == 0)
                atomicAdd (&bins[key >> shift & (CUDA_DIGITS - 1)], 1u);
        }
        __syncthreads ();
        found = cuda_find_digit (bins, found.m);
        known |= (uint64_t)found.digit << shift;
    }
    __syncthreads ();
    return known;
}

/* place[0..count) = the places 0, ..., count - 1 in order; count is a power of two.  before (a, b)
 * is true if place a comes before place b, of places that differ.  A bitonic sort (Batcher 1968).
 */
template <typename BEFORE>
static __device__ inline void cuda_sort_places (int32_t *place, int64_t count,
                                                const BEFORE &before)
{
    __syncthreads ();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        place[i] = (int32_t)i;
    for (int64_t size = 2; size <= count; size *= 2)
        for (int64_t distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads ();
            for (int64_t i = threadIdx.x; i < count / 2; i += blockDim.x) {
                int64_t at = 2 * i - (i & (distance - 1));
                int32_t a = place[at], b = place[at + distance];

                if (before (b, a) == ((at & size) == 0)) {
                    place[at] = b;
                    place[at + distance] = a;
                }
            }
        }
    __syncthreads ();
}

/* place[0..count) = the places of keys [n], the largest key first; of equal keys the first one
 * comes first, and places from n on come last.
 */
static __device__ inline void cuda_sort_keys (const uint64_t *key, int64_t n, int32_t *place,
                                              int64_t count)
{
    cuda_sort_places (place, count, [&] (int32_t a, int32_t b) {
        uint64_t x = a < n ? key[a] : 0, y = b < n ? key[b] : 0;

        return x > y || (x == y && a < b);
    });
}

#endif /* KERNELS_CUDA_SELECT_H */
