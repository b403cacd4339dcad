/* flash - what the forward and the backward pass of attention share (contract in kernels.h).
 *
 * A block has ROWS queries of a head, or in the backward pass also ROWS keys, and goes through the
 * other side in tiles of TILE rows.  LANES threads have a row: each has the scores of EACH rows of
 * the tile, and COLS columns of the row's result.  Rows are floats in shared memory.  A tile
 * without a visible pair is left out.
 */
#ifndef KERNELS_CUDA_FLASH_H
#define KERNELS_CUDA_FLASH_H

#include "kernels/cuda/philox.h"
#include "libcore/base/rng.h"

enum {
    FLASH_ROWS = 16,
    FLASH_TILE = 32,
    FLASH_LANES = CUDA_THREADS / FLASH_ROWS,
    FLASH_EACH = FLASH_TILE / FLASH_LANES,
    FLASH_LD = FLASH_TILE + 1, /* of weights [FLASH_ROWS][FLASH_TILE] */
};

/* Where a block works. */
struct flash_block {
    int64_t entry, head; /* of queries, or in a pass over keys of keys */
    int64_t first;       /* row */
};

/* Unit i of batch entries, 'heads' heads and the blocks of 'rows' rows. */
static __device__ inline struct flash_block flash_block_of (int64_t i, int64_t heads, int64_t rows)
{
    struct flash_block b;
    int64_t blocks = (rows + FLASH_ROWS - 1) / FLASH_ROWS, block;
    int64_t outer = cuda_divide (i, blocks, &block);

    b.entry = cuda_divide (outer, heads, &b.head);
    b.first = block * FLASH_ROWS;
    return b;
}

/* The first elements of rows. */
static __device__ inline int64_t flash_q (const struct kern_attention_fwd &a, int64_t entry,
                                          int64_t head, int64_t s)
{
    int64_t in_group, group = cuda_divide (head, a.heads / a.kv_heads, &in_group);

    return s * a.q_stride_s + entry * a.q_stride_b + group * a.q_stride_g
           + in_group * a.q_stride_h;
}
static __device__ inline int64_t flash_k (const struct kern_attention_fwd &a, int64_t entry,
                                          int64_t kv_head, int64_t s)
{
    return s * a.kv_stride_s + entry * a.kv_stride_b + kv_head * a.kv_stride_g;
}
static __device__ inline int64_t flash_v (const struct kern_attention_fwd &a, int64_t entry,
                                          int64_t kv_head, int64_t s)
{
    return s * a.v_stride_s + entry * a.v_stride_b + kv_head * a.v_stride_g;
}
static __device__ inline int64_t flash_out (const struct kern_attention_fwd &a, int64_t entry,
                                            int64_t head, int64_t s)
{
    return s * a.out_stride_s + entry * a.out_stride_b + head * a.out_stride_h;
}
static __device__ inline int64_t flash_lse (const struct kern_attention_fwd &a, int64_t entry,
                                            int64_t head, int64_t s)
{
    return (entry * a.heads + head) * a.seq_q + s;
}

/* A query, and the keys that it sees: those at positions low to high. */
struct flash_query {
    int64_t position, low, high;
};

/* Query s; behind the last one: a query that sees nothing. */
static __device__ inline struct flash_query flash_query_of (const struct kern_attention_fwd &a,
                                                            int64_t entry, int64_t s)
{
    struct flash_query q = { 0, 1, 0 };

    if (s >= a.seq_q)
        return q;
    q.position = cuda_position (a.pos_q, s, entry);
    q.low = a.start.at ? a.start.at[s * a.start.stride_s + entry * a.start.stride_b] : 0;
    q.high = a.causal ? q.position : INT32_MAX;
    if (a.window.set && a.window.left >= 0)
        q.low = max (q.low, q.position - a.window.left);
    if (a.window.set && a.window.right >= 0)
        q.high = min (q.high, q.position + a.window.right);
    return q;
}

/* The position of key s; behind the last one: one that nobody sees. */
static __device__ inline int64_t flash_key (const struct kern_attention_fwd &a, int64_t entry,
                                            int64_t s)
{
    return s < a.seq_k ? cuda_position (a.pos_k, s, entry) : INT64_MAX;
}

static __device__ inline bool flash_sees (const struct flash_query &q, int64_t position)
{
    return q.low <= position && position <= q.high;
}

/* 'rows' rows of 'cols' elements as floats, ld floats apart; rows from 'count' on are 0. */
template <typename T>
static __device__ inline void flash_load (float *to, int ld, const T *from, int64_t stride,
                                          int rows, int64_t count, int cols)
{
    for (int r = threadIdx.x / CUDA_WARP; r < rows; r += CUDA_THREADS / CUDA_WARP)
        for (int c = threadIdx.x % CUDA_WARP; c < cols; c += CUDA_WARP)
            to[r * ld + c] = r < count ? cuda_float (from[r * stride + c]) : 0;
}

static __device__ inline float flash_dot (const float *x, const float *y, int n)
{
    float sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* sum[c] += the sum over the tile's rows of weight[row] times column c LANES + lane. */
template <int COLS>
static __device__ inline void flash_add (float (&sum)[COLS], const float *weight,
                                         const float *tile, int ld, int cols)
{
    int lane = threadIdx.x % FLASH_LANES;

    for (int r = 0; r < FLASH_TILE; r++) {
        float w = weight[r];

#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (c * FLASH_LANES + lane < cols)
                sum[c] += w * tile[r * ld + c * FLASH_LANES + lane];
    }
}

/* The score of a product of q and k. */
template <typename T>
static __device__ inline float flash_score (const struct kern_attention_fwd &a, float product)
{
    float score = (float)a.scale * product;

    if (sizeof (T) == 2 && a.dtype == MG_FLOAT16 && a.coeff > 0)
        score = (float)a.coeff
                * cuda_float (cuda_rounded<__half> ((float)(1 / a.coeff) * score));
    return score;
}

/* The factor of dropout for the weight of a pair. */
struct flash_dropout {
    uint64_t key, sample;
    uint32_t threshold;
    float scale;
    bool set;
};

static __device__ inline struct flash_dropout flash_dropout_of (const struct kern_attention_fwd &a,
                                                                int64_t entry, int64_t head)
{
    struct flash_dropout d = { 0, 0, 0, 1, false };

    if (a.dropout_p > 0) {
        d.key = cuda_rng_key (a.seed, RNG_DROPOUT_ATTENTION, (uint64_t)(a.first_head + head),
                              (uint64_t)a.layer);
        d.sample = (uint64_t)a.sample[entry];
        d.threshold = (uint32_t)(a.dropout_p * 0x1p32);
        d.scale = (float)(1 / (1 - a.dropout_p));
        d.set = true;
    }
    return d;
}

static __device__ inline float flash_factor (const struct flash_dropout &d, int64_t query,
                                             int64_t key)
{
    uint4 bits;
    uint32_t value;

    if (!d.set)
        return 1;
    bits = cuda_philox (d.key, (uint32_t)key / 4, (uint32_t)query, d.sample);
    value = key % 4 == 0 ? bits.x : key % 4 == 1 ? bits.y : key % 4 == 2 ? bits.z : bits.w;
    return value < d.threshold ? 0 : d.scale;
}

/* The sum, the largest, of the values of a row's threads. */
static __device__ inline float flash_row_sum (float x)
{
#pragma unroll
    for (int bits = FLASH_LANES / 2; bits > 0; bits /= 2)
        x += __shfl_xor_sync (0xffffffff, x, bits);
    return x;
}
static __device__ inline float flash_row_max (float x)
{
#pragma unroll
    for (int bits = FLASH_LANES / 2; bits > 0; bits /= 2)
        x = fmaxf (x, __shfl_xor_sync (0xffffffff, x, bits));
    return x;
}

/* The largest of a float in memory and x.  As whole numbers, floats above 0 have the order of
 * floats, those below 0 the opposite one.
 */
static __device__ inline void flash_note_most (float *most, float x)
{
    if (x >= 0)
        atomicMax ((int *)most, __float_as_int (x));
    else
        atomicMin ((unsigned *)most, __float_as_uint (x));
}

/* What a backward pass has besides the forward pass's arguments. */
struct flash_pass {
    const void *dout;
    const float *delta; /* of each query, dout . out: [batch][heads][seq_q] */
    void *dq, *dk, *dv;
    bool accumulate;
};

/* On the host: */

/* Floats from one row in shared memory to the next, an odd number so that banks differ. */
static inline int flash_ld (int64_t cols)
{
    return (int)cols | 1;
}

/* Arguments with head_dim_v and the strides of v filled in. */
static inline struct kern_attention_fwd flash_args (const struct kern_attention_fwd *from)
{
    struct kern_attention_fwd a = *from;

    if (a.head_dim_v == 0)
        a.head_dim_v = a.head_dim;
    if (a.v_stride_s == 0 && a.v_stride_b == 0 && a.v_stride_g == 0) {
        a.v_stride_s = a.kv_stride_s;
        a.v_stride_b = a.kv_stride_b;
        a.v_stride_g = a.kv_stride_g;
    }
    return a;
}

/* FN<type, COLS> (...) for columns of a result. */
#define FLASH_COLS(T, cols, FN, ...)                           \
    ((cols) <= 4 * FLASH_LANES   ? FN<T, 4> (__VA_ARGS__)      \
     : (cols) <= 8 * FLASH_LANES ? FN<T, 8> (__VA_ARGS__)      \
                                 : FN<T, 16> (__VA_ARGS__))
#define FLASH_TYPED(dtype, cols, FN, ...)                                               \
    ((dtype) == MG_BFLOAT16  ? FLASH_COLS (__nv_bfloat16, cols, FN, __VA_ARGS__)        \
     : (dtype) == MG_FLOAT16 ? FLASH_COLS (__half, cols, FN, __VA_ARGS__)               \
                             : FLASH_COLS (float, cols, FN, __VA_ARGS__))

enum { FLASH_MAX_DIM = 16 * FLASH_LANES };

/* 0, or -1 and ENOTSUP if heads have more than FLASH_MAX_DIM features. */
int cuda_attention_check (const struct kern_attention_fwd *a, struct mg_error *err);

/* A row of the table of attention's kernels (attention.cu).  Their arguments are of flash_args()
 * and have been checked.
 */
struct flash_variant {
    int capability; /* of the device, at least: 10 major + minor */
    bool (*takes) (const struct kern_attention_fwd *a, const struct cuda_limits *limits);
    int (*fwd) (const struct cuda_call *call, const struct kern_attention_fwd *a,
                struct mg_error *err);
    bool (*takes_bwd) (const struct kern_attention_fwd *a, const struct flash_pass *g,
                       const struct cuda_limits *limits);
    int (*bwd) (const struct cuda_call *call, const struct kern_attention_fwd *a,
                const struct flash_pass *g, struct mg_error *err);
};

/* The first row that takes the arguments, and whose capability the device has.  g NULL: for the
 * forward pass.
 */
const struct flash_variant *flash_variant_of (const struct cuda_limits *limits,
                                              const struct kern_attention_fwd *a,
                                              const struct flash_pass *g);

/* The backward pass on plain cores (attention_bwd.cu), which takes everything. */
int cuda_attention_plain_bwd (const struct cuda_call *call, const struct kern_attention_fwd *a,
                              const struct flash_pass *g, struct mg_error *err);

/* Attention on tensor cores (attention_mma.cu, attention_bwd_mma.cu), which takes 16-bit types with
 * rows that are aligned to 16 bytes and a scale above 0, where the device has the shared memory.
 */
bool cuda_attention_mma_takes (const struct kern_attention_fwd *a,
                               const struct cuda_limits *limits);
int cuda_attention_mma_fwd (const struct cuda_call *call, const struct kern_attention_fwd *a,
                            struct mg_error *err);
bool cuda_attention_mma_takes_bwd (const struct kern_attention_fwd *a, const struct flash_pass *g,
                                   const struct cuda_limits *limits);
int cuda_attention_mma_bwd (const struct cuda_call *call, const struct kern_attention_fwd *a,
                            const struct flash_pass *g, struct mg_error *err);

#endif /* KERNELS_CUDA_FLASH_H */
