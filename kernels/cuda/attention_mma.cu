/* attention_mma.cu - attention forward on tensor cores
 *
 * The tiling is that of FlashAttention-2 (Dao 2023, arXiv 2307.08691): a warp has 16 queries and
 * all keys of a tile, so that scores, softmax and sums stay in registers.  While a tile of keys is
 * used, the next one that some query of the block sees arrives in the other buffer.
 *
 * For each query, m is the largest score so far times log2 e, and l the sum of 2^(score log2 e - m)
 * over the keys of the thread.
 */

#include "kernels/cuda/flash_mma.h"

enum { ROWS = FLASH_MMA_ROWS, THREADS = FLASH_MMA_THREADS };

/* Shared memory of a block: its queries and what they see, two buffers of keys and values, and
 * positions of keys.
 */
template <typename T, int D, int DV, int KEYS> struct memory {
    T q[ROWS * mma_ld<D>];
    T k[2][KEYS * mma_ld<D>];
    T v[2][KEYS * mma_ld<DV>];
    int position[2][KEYS];
    struct flash_mma_query query[ROWS];
    struct flash_bounds bounds; // of the queries
};

template <typename T, int D, int DV, int KEYS>
static __device__ inline void fetch (const struct kern_attention_fwd &a,
                                     struct memory<T, D, DV, KEYS> *m, int buffer, int64_t entry,
                                     int64_t kv_head, int64_t first)
{
    int64_t left = a.seq_k - first;

    mma_fetch<KEYS, D, THREADS> (m->k[buffer], (const T *)a.k + flash_k (a, entry, kv_head, first),
                                 a.kv_stride_s, left, (int)a.head_dim);
    mma_fetch<KEYS, DV, THREADS> (m->v[buffer], (const T *)a.v + flash_v (a, entry, kv_head, first),
                                  a.v_stride_s, left, (int)a.head_dim_v);
    if (threadIdx.x < KEYS)
        m->position[buffer][threadIdx.x] = flash_mma_key (a, entry, first + threadIdx.x);
}

/* The two queries of a thread, 8 rows apart. */
struct rows {
    float m[2], l[2], most[2];
};

static __device__ inline struct rows begin_rows (const struct kern_attention_fwd &a, float sink)
{
    struct rows r;
    int lane = (int)threadIdx.x % CUDA_WARP;
    bool has_sink = a.has_sink && sink != -INFINITY;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.m[i] = has_sink ? sink * (float)M_LOG2E : -INFINITY;
        r.l[i] = has_sink && lane % 4 == 0 ? 1 : 0;
        r.most[i] = -INFINITY;
    }
    return r;
}

/* Turn products into scores divided by flash_mma_scale(): minus infinity if the query does not see
 * the key.  'query' has the queries of the warp.
 */
template <typename T, int COUNT>
static __device__ inline void mask (const struct kern_attention_fwd &a,
                                    const struct flash_mma_query *query, bool is_full,
                                    const int *position, float (&s)[COUNT][4])
{
    int t = (int)threadIdx.x % 4 * 2, row = (int)threadIdx.x % CUDA_WARP / 4;
    const struct flash_mma_query both[2] = { query[row], query[row + 8] };

#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const struct flash_mma_query &q = both[i / 2];

            s[j][i] = flash_mma_score<T> (a, s[j][i]);
            if (!is_full && !flash_mma_sees (q.low, q.high, position[j * 8 + t + i % 2]))
                s[j][i] = -INFINITY;
        }
}

/* Scores become weights, and earlier sums shrink. */
template <int COUNT, int TILES>
static __device__ inline void soften (struct rows *r, float scale, float (&s)[COUNT][4],
                                      float (&sum)[TILES][4])
{
    const float scale_log2 = scale * (float)M_LOG2E;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int at = i * 2;
        float most = -INFINITY, base, shrink, part = 0;

#pragma unroll
        for (int j = 0; j < COUNT; j++)
            most = fmaxf (most, fmaxf (s[j][at], s[j][at + 1]));
        most = fmaxf (most, __shfl_xor_sync (0xffffffff, most, 1));
        most = fmaxf (most, __shfl_xor_sync (0xffffffff, most, 2));
        r->most[i] = fmaxf (r->most[i], most);
        most = fmaxf (r->m[i], most * scale_log2);
        base = most == -INFINITY ? 0 : most;
        shrink = ptx_exp2 (r->m[i] - base);
        r->m[i] = most;
#pragma unroll
        for (int j = 0; j < COUNT; j++)
#pragma unroll
            for (int e = at; e < at + 2; e++)
                part += s[j][e] = ptx_exp2 (__fmaf_rn (s[j][e], scale_log2, -base));
        r->l[i] = r->l[i] * shrink + part;
#pragma unroll
        for (int c = 0; c < TILES; c++) {
            sum[c][at] *= shrink;
            sum[c][at + 1] *= shrink;
        }
    }
}

/* Weights that dropout drops become 0; the others are scaled at the end. */
template <int COUNT>
static __device__ inline void drop (const struct flash_dropout &d,
                                    const struct flash_mma_query *query, const int *position,
                                    float (&s)[COUNT][4])
{
    int row = (int)threadIdx.x % CUDA_WARP / 4;
    uint32_t kept = flash_mma_kept<false, COUNT * 4> (d, query[row].position,
                                                      query[row + 8].position, position);

#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(kept >> (j * 4 + i) & 1))
                s[j][i] = 0;
}

/* The rows of a warp go through its own part of the memory of queries, to be written in packs. */
template <typename T, int LD, int TILES>
static __device__ inline void end_rows (const struct kern_attention_fwd &a, float factor,
                                        int64_t entry, int64_t head, int64_t first,
                                        const struct rows &r, const float (&sum)[TILES][4], T *room)
{
    int lane = (int)threadIdx.x % CUDA_WARP, packs = (int)cuda_packs<T> (a.head_dim_v);

    static_assert (LD >= 8 * TILES, "room for a row");
    __syncwarp ();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = lane / 4 + i * 8;
        float l = r.l[i] + __shfl_xor_sync (0xffffffff, r.l[i], 1), over_l;

        l += __shfl_xor_sync (0xffffffff, l, 2);
        over_l = l == 0 ? 0 : factor / l;
#pragma unroll
        for (int c = 0; c < TILES; c++)
            *(uint32_t *)(room + row * LD + c * 8 + lane % 4 * 2)
                = mma_pair<T> (sum[c][i * 2] * over_l, sum[c][i * 2 + 1] * over_l);
        if (lane % 4 == 0 && first + row < a.seq_q) {
            a.lse[flash_lse (a, entry, head, first + row)]
                = l == 0 ? -INFINITY : r.m[i] * (float)M_LN2 + logf (l);
            if (a.max_logit && r.most[i] > -INFINITY)
                flash_note_most (a.max_logit, r.most[i] * flash_mma_scale (a));
        }
    }
    __syncwarp ();
    for (int i = lane; i < 16 * packs; i += CUDA_WARP) {
        int row = i / packs, col = i % packs * cuda_pack<T>::SIZE;

        if (first + row < a.seq_q)
            cuda_store<true> ((T *)a.out + flash_out (a, entry, head, first + row) + col,
                              *(const cuda_pack<T> *)(room + row * LD + col), a.head_dim_v - col);
    }
}

template <typename T, int D, int DV, int KEYS>
static __device__ inline void forward (const struct kern_attention_fwd &a, int entry, int head,
                                       int first, struct memory<T, D, DV, KEYS> *mem)
{
    int warp = (int)threadIdx.x / CUDA_WARP, buffer = 0;
    int kv_head = head / (int)(a.heads / a.kv_heads), own = first + warp * 16;
    T *q = mem->q + warp * 16 * mma_ld<D>;
    float sum[DV / 8][4] = {};
    struct flash_bounds bounds = flash_bounds_of<ROWS> (a, entry, first);
    struct flash_keys tile = flash_keys_of<KEYS> (a, entry, bounds, 0);
    const struct flash_mma_query *query = mem->query + warp * 16;
    struct rows r = begin_rows (a, a.has_sink && a.sink ? cuda_float (((const T *)a.sink)[head])
                                                        : 0);

    __syncthreads (); // an earlier block of queries is done
    if (threadIdx.x == 0)
        mem->bounds = bounds;
    if (threadIdx.x < ROWS)
        mem->query[threadIdx.x] = flash_mma_query_of (a, entry, first + threadIdx.x);
    if (tile.first < a.seq_k) {
        mma_fetch<ROWS, D, THREADS> (mem->q, (const T *)a.q + flash_q (a, entry, head, first),
                                     a.q_stride_s, a.seq_q - first, (int)a.head_dim);
        fetch (a, mem, 0, entry, kv_head, tile.first);
    }
    ptx_copy_commit ();
    while (tile.first < a.seq_k) {
        struct flash_keys next;
        float s[KEYS / 8][4] = {};

        ptx_copy_wait<0> ();
        __syncthreads (); // the tile has arrived, and nobody reads the other buffer
        next = flash_keys_of<KEYS> (a, entry, mem->bounds, tile.first + KEYS);
        if (next.first < a.seq_k)
            fetch (a, mem, buffer ^ 1, entry, kv_head, next.first);
        ptx_copy_commit ();
        mma_rows<D> (s, (const T *)q, (const T *)mem->k[buffer]);
        mask<T> (a, query, tile.is_full, mem->position[buffer], s);
        soften (&r, flash_mma_scale (a), s, sum);
        if (a.dropout_p > 0) // not held in registers from tile to tile
            drop (flash_dropout_of (a, entry, head), query, mem->position[buffer], s);
        mma_weights<mma_ld<DV>> (sum, s, (const T *)mem->v[buffer]);
        tile = next;
        buffer ^= 1;
    }
    end_rows<T, mma_ld<D>> (a, flash_dropout_of (a, entry, head).scale, entry, head, own, r, sum,
                            q);
}

template <typename T, int D, int DV, int KEYS>
__global__ void __launch_bounds__ (THREADS, 2)
    attention_mma_fwd (struct kern_attention_fwd a, int units)
{
    const int blocks = (int)((a.seq_q + ROWS - 1) / ROWS), heads = (int)a.heads;
    const int pairs = (int)a.batch * heads;

    /* Later queries see more keys with causal masks, so they begin first. */
    for (int i = (int)blockIdx.x; i < units; i += (int)gridDim.x) {
        int pair = i % pairs;

        forward (a, pair / heads, pair % heads, (blocks - 1 - i / pairs) * ROWS,
                 (struct memory<T, D, DV, KEYS> *)ptx_shared ());
    }
}

/* --- on the host --- */

template <typename T, int D, int DV, int KEYS> static constexpr size_t shared_bytes ()
{
    return sizeof (struct memory<T, D, DV, KEYS>);
}

/* Blocks of queries of all heads. */
static int64_t units_of (const struct kern_attention_fwd *a)
{
    return a->batch * a->heads * ((a->seq_q + ROWS - 1) / ROWS);
}

template <typename T, int D, int DV, int KEYS>
static int launch (const struct cuda_call *call, const struct kern_attention_fwd *a,
                   struct mg_error *err)
{
    const size_t bytes = shared_bytes<T, D, DV, KEYS> ();
    int64_t units = units_of (a);
    cudaLaunchConfig_t config = cuda_config (call, cuda_blocks (units), THREADS, bytes);
    auto *kernel = cuda_kernel<attention_mma_fwd<T, D, DV, KEYS>> ();
    cudaError_t rc = cuda_allow_shared<attention_mma_fwd<T, D, DV, KEYS>> (bytes);

    if (units == 0)
        return 0;
    if (rc == cudaSuccess)
        rc = cudaLaunchKernelEx (&config, kernel, *a, (int)units);
    return cuda_launched (rc, "attention_fwd", err);
}

/* FN<T, columns of q and k, of v, keys of a tile> (...).  Up to 128 columns, and 192 with 128, fit
 * into the 99 KiB of capabilities 8.6, 8.9 and 12.0; all into the 163 KiB of 8.0.
 */
#define SIZED(T, a, FN, ...)                                                                     \
    ((a)->head_dim <= 64 && (a)->head_dim_v <= 64     ? FN<T, 64, 64, 64> (__VA_ARGS__)          \
     : (a)->head_dim <= 96 && (a)->head_dim_v <= 96   ? FN<T, 96, 96, 64> (__VA_ARGS__)          \
     : (a)->head_dim <= 128 && (a)->head_dim_v <= 128 ? FN<T, 128, 128, 64> (__VA_ARGS__)        \
     : (a)->head_dim <= 192 && (a)->head_dim_v <= 128 ? FN<T, 192, 128, 32> (__VA_ARGS__)        \
     : (a)->head_dim <= 192 && (a)->head_dim_v <= 192 ? FN<T, 192, 192, 32> (__VA_ARGS__)        \
                                                      : FN<T, 256, 256, 32> (__VA_ARGS__))

bool cuda_attention_mma_takes (const struct kern_attention_fwd *a, const struct cuda_limits *limits)
{
    const int64_t strides = a->q_stride_s | a->q_stride_b | a->q_stride_g | a->q_stride_h
                            | a->kv_stride_s | a->kv_stride_b | a->kv_stride_g | a->v_stride_s
                            | a->v_stride_b | a->v_stride_g | a->out_stride_s | a->out_stride_b
                            | a->out_stride_h;
    const uintptr_t pointers = (uintptr_t)a->q | (uintptr_t)a->k | (uintptr_t)a->v
                               | (uintptr_t)a->out;

    return (a->dtype == MG_BFLOAT16 || a->dtype == MG_FLOAT16) && a->scale > 0
           && a->seq_q < INT32_MAX - FLASH_MMA_ROWS && a->seq_k < INT32_MAX - FLASH_MMA_ROWS
           && units_of (a) <= INT32_MAX / 2 && pointers % 16 == 0 && strides % 8 == 0
           && SIZED (__half, a, shared_bytes) <= limits->shared;
}

int cuda_attention_mma_fwd (const struct cuda_call *call, const struct kern_attention_fwd *a,
                            struct mg_error *err)
{
    if (a->dtype == MG_BFLOAT16)
        return SIZED (__nv_bfloat16, a, launch, call, a, err);
    return SIZED (__half, a, launch, call, a, err);
}
