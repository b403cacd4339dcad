/* rope.cu - rotary position embedding (formulas in kernels.h)
 *
 * A thread has a pack of pairs: two packs that are 'half' elements apart, or one pack whose
 * neighbours are pairs.
 */

#include "kernels/cuda/number.h"
#include "kernels/cuda/philox.h"

/* The place of unit i of a call: the first element of its head, and its row of the table. */
struct place {
    int64_t head, pack;
    const float *table;
};

static __device__ inline struct place find (const struct kern_rope &a, int64_t i, int64_t packs)
{
    struct place p;
    int64_t h, b, block = cuda_divide (i, packs, &p.pack), group = cuda_divide (block, a.heads, &h);
    int64_t g, token = cuda_divide (group, a.groups, &g), s = cuda_divide (token, a.batch, &b);

    p.head = group * a.stride_g + h * a.stride_h;
    p.table = a.table + cuda_position (a.position, s, b) * 2 * a.half;
    return p;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) rope_halves (struct kern_rope a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.half), n = a.tokens * a.groups * a.heads * packs;

    for (int64_t i = cuda_thread (); i < n; i += cuda_num_threads ()) {
        struct place at = find (a, i, packs);
        int64_t first = at.pack * SIZE, left = a.half - first;
        T *x = (T *)a.x + at.head + first;
        cuda_pack<T> low = cuda_load<WIDE> (x, left), high = cuda_load<WIDE> (x + a.half, left);
        auto cosine = cuda_load_group<WIDE, SIZE> (at.table + first, left);
        auto sine = cuda_load_group<WIDE, SIZE> (at.table + a.half + first, left);

#pragma unroll
        for (int j = 0; j < SIZE; j++) {
            float c = cosine.x[j], s = a.inverse ? -sine.x[j] : sine.x[j];
            float x0 = cuda_float (low.x[j]), x1 = cuda_float (high.x[j]);

            low.x[j] = cuda_rounded<T> (c * x0 - s * x1);
            high.x[j] = cuda_rounded<T> (s * x0 + c * x1);
        }
        cuda_store<WIDE> (x, low, left);
        cuda_store<WIDE> (x + a.half, high, left);
    }
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) rope_pairs (struct kern_rope a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (2 * a.half), n = a.tokens * a.groups * a.heads * packs;

    for (int64_t i = cuda_thread (); i < n; i += cuda_num_threads ()) {
        struct place at = find (a, i, packs);
        int64_t first = at.pack * SIZE, left = 2 * a.half - first;
        T *x = (T *)a.x + at.head + first;
        cuda_pack<T> pairs = cuda_load<WIDE> (x, left);
        auto cosine = cuda_load_group<WIDE, SIZE / 2> (at.table + first / 2, left / 2);
        auto sine = cuda_load_group<WIDE, SIZE / 2> (at.table + a.half + first / 2, left / 2);

#pragma unroll
        for (int j = 0; j < SIZE; j += 2) {
            float c = cosine.x[j / 2], s = a.inverse ? -sine.x[j / 2] : sine.x[j / 2];
            float x0 = cuda_float (pairs.x[j]), x1 = cuda_float (pairs.x[j + 1]);

            pairs.x[j] = cuda_rounded<T> (c * x0 - s * x1);
            pairs.x[j + 1] = cuda_rounded<T> (s * x0 + c * x1);
        }
        cuda_store<WIDE> (x, pairs, left);
    }
}

template <typename T>
static int launch (const struct cuda_call *call, const struct kern_rope *a, struct mg_error *err)
{
    const int64_t size = (int64_t)sizeof (T), heads = a->tokens * a->groups * a->heads;
    bool wide = cuda_is_wide (a->x, a->stride_g * size) && a->stride_h * size % 16 == 0
                && cuda_is_wide (a->table, a->half * (int64_t)sizeof (float));

    if (a->interleaved) {
        int64_t n = heads * cuda_packs<T> (2 * a->half);

        return wide ? cuda_launch_each<rope_pairs<T, true>> (call, "rope", err, n, *a)
                    : cuda_launch_each<rope_pairs<T, false>> (call, "rope", err, n, *a);
    }
    wide = wide && a->half * size % 16 == 0;
    return wide ? cuda_launch_each<rope_halves<T, true>> (call, "rope", err,
                                                          heads * cuda_packs<T> (a->half), *a)
                : cuda_launch_each<rope_halves<T, false>> (call, "rope", err,
                                                           heads * cuda_packs<T> (a->half), *a);
}

int cuda_rope (const struct cuda_call *call, const struct kern_rope *a, struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch, call, a, err);
}
