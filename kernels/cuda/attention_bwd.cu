/* attention_bwd.cu - attention backward: p = e^(score - lse), dp = dout . v, delta = dout . out, ds
 * = p (z dp - delta) scale, dq = sum_k ds k, dk = sum_q ds q, dv = sum_q z p dout (Dao et al. 2022)
 *
 * z is the factor of dropout.  One kernel has blocks of queries and forms dq, another one has
 * blocks of keys and forms dk and dv: each forms the scores anew, so that every sum has a fixed
 * order.
 */

#include <math.h>

#include "kernels/cuda/flash.h"
#include "kernels/cuda/state.h"

/* delta of each query, a warp a query: [batch][heads][seq_q]. */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    attention_delta (struct kern_attention_fwd a, const T *dout, float *delta)
{
    int64_t rows = a.batch * a.heads * a.seq_q;

    for (int64_t i = cuda_thread () / CUDA_WARP; i < rows; i += cuda_num_threads () / CUDA_WARP) {
        int64_t s, head, outer = cuda_divide (i, a.seq_q, &s);
        int64_t entry = cuda_divide (outer, a.heads, &head), at = flash_out (a, entry, head, s);
        float sum = 0;

        for (int64_t d = threadIdx.x % CUDA_WARP; d < a.head_dim_v; d += CUDA_WARP)
            sum += cuda_float (((const T *)a.out)[at + d]) * cuda_float (dout[at + d]);
        sum = cuda_warp_sum (sum);
        if (threadIdx.x % CUDA_WARP == 0)
            delta[i] = sum;
    }
}

/* dsink of a head, a block a head. */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    attention_dsink (struct kern_attention_fwd a, const float *delta, void *dsink,
                     enum mg_dtype grad_dtype)
{
    for (int64_t head = blockIdx.x; head < a.heads; head += gridDim.x) {
        double sink = a.sink ? (double)cuda_float (((const T *)a.sink)[head]) : 0, sum = 0;

        for (int64_t i = threadIdx.x; i < a.batch * a.seq_q; i += CUDA_THREADS) {
            int64_t s, entry = cuda_divide (i, a.seq_q, &s);
            int64_t at = flash_lse (a, entry, head, s);

            /* An lse of minus infinity means that the sink is that, too. */
            if (a.lse[at] != -INFINITY)
                sum -= exp (sink - (double)a.lse[at]) * (double)delta[at];
        }
        sum = cuda_block_sum (sum);
        if (threadIdx.x == 0)
            cuda_set_typed_element (dsink, head, cuda_typed_element (dsink, head, grad_dtype)
                                                     + (float)sum, grad_dtype);
    }
}

/* Shared memory of a block: its own rows of two operands, a tile of the other side, weights. */
struct memory {
    float *first, *second, *tile, *weight;
    int ld;
};

static __device__ inline struct memory memory_of (int ld)
{
    struct memory m;

    m.ld = ld;
    m.first = (float *)ptx_shared ();
    m.second = m.first + FLASH_ROWS * ld;
    m.tile = m.second + FLASH_ROWS * ld;
    m.weight = m.tile + FLASH_TILE * ld;
    return m;
}

/* One gradient's row: += or =. */
template <typename T, int COLS>
static __device__ inline void store_row (T *to, const float (&sum)[COLS], int64_t cols, bool add)
{
    int lane = threadIdx.x % FLASH_LANES;

#pragma unroll
    for (int c = 0; c < COLS; c++) {
        int64_t col = c * FLASH_LANES + lane;

        if (col < cols)
            to[col] = cuda_rounded<T> (add ? cuda_float (to[col]) + sum[c] : sum[c]);
    }
}

/* p and ds of a pair. */
struct slopes {
    float p, ds;
};

template <typename T>
static __device__ inline struct slopes slopes_of (const struct kern_attention_fwd &a,
                                                  float product, float dp, float lse, float delta,
                                                  float factor)
{
    float p = expf (flash_score<T> (a, product) - lse);

    return { p * factor, p * (factor * dp - delta) * (float)a.scale };
}

template <typename T, int COLS>
static __device__ inline void queries (const struct kern_attention_fwd &a,
                                       const struct flash_pass &g, const struct flash_block &b,
                                       const struct memory &m)
{
    int row = threadIdx.x / FLASH_LANES, lane = threadIdx.x % FLASH_LANES;
    int64_t kv_head = b.head / (a.heads / a.kv_heads), s = b.first + row;
    int64_t at = flash_lse (a, b.entry, b.head, s);
    struct flash_query query = flash_query_of (a, b.entry, s);
    struct flash_dropout drop = flash_dropout_of (a, b.entry, b.head);
    float lse = s < a.seq_q ? a.lse[at] : 0, delta = s < a.seq_q ? g.delta[at] : 0;
    float *weight = m.weight + row * FLASH_LD, sum[COLS] = {};

    __syncthreads (); // an earlier block of queries is done
    flash_load (m.first, m.ld, (const T *)a.q + flash_q (a, b.entry, b.head, b.first),
                a.q_stride_s, FLASH_ROWS, a.seq_q - b.first, (int)a.head_dim);
    flash_load (m.second, m.ld, (const T *)g.dout + flash_out (a, b.entry, b.head, b.first),
                a.out_stride_s, FLASH_ROWS, a.seq_q - b.first, (int)a.head_dim_v);
    for (int64_t first = 0; first < a.seq_k; first += FLASH_TILE) {
        const T *k = (const T *)a.k + flash_k (a, b.entry, kv_head, first);
        int64_t left = a.seq_k - first, key[FLASH_EACH];
        float product[FLASH_EACH];
        bool any = false;

#pragma unroll
        for (int e = 0; e < FLASH_EACH; e++) {
            key[e] = flash_key (a, b.entry, first + e * FLASH_LANES + lane);
            any = any || flash_sees (query, key[e]);
        }
        if (!__syncthreads_or (any))
            continue;
        flash_load (m.tile, m.ld, k, a.kv_stride_s, FLASH_TILE, left, (int)a.head_dim);
        __syncthreads ();
#pragma unroll
        for (int e = 0; e < FLASH_EACH; e++)
            product[e] = flash_dot (m.first + row * m.ld,
                                    m.tile + (e * FLASH_LANES + lane) * m.ld, (int)a.head_dim);
        __syncthreads ();
        flash_load (m.tile, m.ld, (const T *)a.v + flash_v (a, b.entry, kv_head, first),
                    a.v_stride_s, FLASH_TILE, left, (int)a.head_dim_v);
        __syncthreads ();
#pragma unroll
        for (int e = 0; e < FLASH_EACH; e++) {
            float dp = flash_dot (m.second + row * m.ld,
                                  m.tile + (e * FLASH_LANES + lane) * m.ld, (int)a.head_dim_v);
            float factor = flash_factor (drop, query.position, key[e]);

            weight[e * FLASH_LANES + lane]
                = flash_sees (query, key[e])
                      ? slopes_of<T> (a, product[e], dp, lse, delta, factor).ds
                      : 0;
        }
        __syncthreads ();
        flash_load (m.tile, m.ld, k, a.kv_stride_s, FLASH_TILE, left, (int)a.head_dim);
        __syncthreads ();
        flash_add (sum, weight, m.tile, m.ld, (int)a.head_dim);
    }
    if (s < a.seq_q)
        store_row ((T *)g.dq + flash_q (a, b.entry, b.head, s), sum, a.head_dim, g.accumulate);
}

template <typename T, int COLS>
__global__ void __launch_bounds__ (CUDA_THREADS)
    attention_dq (struct kern_attention_fwd a, struct flash_pass g, int64_t blocks, int ld)
{
    struct memory m = memory_of (ld);

    for (int64_t i = blockIdx.x; i < blocks; i += gridDim.x)
        queries<T, COLS> (a, g, flash_block_of (i, a.heads, a.seq_q), m);
}

/* Add what the queries of a head and tile give to the gradients of the block's keys. */
template <typename T, int COLS>
static __device__ inline void add_tile (const struct kern_attention_fwd &a,
                                        const struct flash_pass &g, const struct memory &m,
                                        int64_t entry, int64_t head, int64_t first, int64_t key,
                                        float (&dk)[COLS], float (&dv)[COLS])
{
    int row = threadIdx.x / FLASH_LANES, lane = threadIdx.x % FLASH_LANES;
    const T *q = (const T *)a.q + flash_q (a, entry, head, first);
    float *weight = m.weight + row * FLASH_LD, product[FLASH_EACH], ds[FLASH_EACH];
    struct flash_dropout drop = flash_dropout_of (a, entry, head);
    struct flash_query query[FLASH_EACH];
    bool any = false;

#pragma unroll
    for (int e = 0; e < FLASH_EACH; e++) {
        query[e] = flash_query_of (a, entry, first + e * FLASH_LANES + lane);
        any = any || flash_sees (query[e], key);
    }
    if (!__syncthreads_or (any))
        return;
    flash_load (m.tile, m.ld, q, a.q_stride_s, FLASH_TILE, a.seq_q - first, (int)a.head_dim);
    __syncthreads ();
#pragma unroll
    for (int e = 0; e < FLASH_EACH; e++)
        product[e] = flash_dot (m.first + row * m.ld, m.tile + (e * FLASH_LANES + lane) * m.ld,
                                (int)a.head_dim);
    __syncthreads ();
    flash_load (m.tile, m.ld, (const T *)g.dout + flash_out (a, entry, head, first),
                a.out_stride_s, FLASH_TILE, a.seq_q - first, (int)a.head_dim_v);
    __syncthreads ();
#pragma unroll
    for (int e = 0; e < FLASH_EACH; e++) {
        int64_t at = flash_lse (a, entry, head, first + e * FLASH_LANES + lane);
        float dp = flash_dot (m.second + row * m.ld, m.tile + (e * FLASH_LANES + lane) * m.ld,
                              (int)a.head_dim_v);
        struct slopes both = { 0, 0 };

        if (flash_sees (query[e], key))
            both = slopes_of<T> (a, product[e], dp, a.lse[at], g.delta[at],
                                 flash_factor (drop, query[e].position, key));
        weight[e * FLASH_LANES + lane] = both.p;
        ds[e] = both.ds;
    }
    __syncthreads ();
    flash_add (dv, weight, m.tile, m.ld, (int)a.head_dim_v);
    __syncthreads ();
#pragma unroll
    for (int e = 0; e < FLASH_EACH; e++)
        weight[e * FLASH_LANES + lane] = ds[e];
    flash_load (m.tile, m.ld, q, a.q_stride_s, FLASH_TILE, a.seq_q - first, (int)a.head_dim);
    __syncthreads ();
    flash_add (dk, weight, m.tile, m.ld, (int)a.head_dim);
}

template <typename T, int COLS>
static __device__ inline void keys (const struct kern_attention_fwd &a, const struct flash_pass &g,
                                    const struct flash_block &b, const struct memory &m)
{
    int row = threadIdx.x / FLASH_LANES;
    int64_t group = a.heads / a.kv_heads, s = b.first + row;
    int64_t key = flash_key (a, b.entry, s);
    float dk[COLS] = {}, dv[COLS] = {};

    __syncthreads (); // an earlier block of keys is done
    flash_load (m.first, m.ld, (const T *)a.k + flash_k (a, b.entry, b.head, b.first),
                a.kv_stride_s, FLASH_ROWS, a.seq_k - b.first, (int)a.head_dim);
    flash_load (m.second, m.ld, (const T *)a.v + flash_v (a, b.entry, b.head, b.first),
                a.v_stride_s, FLASH_ROWS, a.seq_k - b.first, (int)a.head_dim_v);
    for (int64_t head = b.head * group; head < (b.head + 1) * group; head++)
        for (int64_t first = 0; first < a.seq_q; first += FLASH_TILE)
            add_tile<T, COLS> (a, g, m, b.entry, head, first, key, dk, dv);
    if (s >= a.seq_k)
        return;
    store_row ((T *)g.dk + flash_k (a, b.entry, b.head, s), dk, a.head_dim, g.accumulate);
    store_row ((T *)g.dv + flash_v (a, b.entry, b.head, s), dv, a.head_dim_v, g.accumulate);
}

template <typename T, int COLS>
__global__ void __launch_bounds__ (CUDA_THREADS)
    attention_dkv (struct kern_attention_fwd a, struct flash_pass g, int64_t blocks, int ld)
{
    struct memory m = memory_of (ld);

    for (int64_t i = blockIdx.x; i < blocks; i += gridDim.x)
        keys<T, COLS> (a, g, flash_block_of (i, a.kv_heads, a.seq_k), m);
}

/* --- launches --- */

static int64_t blocks_of (int64_t batch, int64_t heads, int64_t rows)
{
    return batch * heads * ((rows + FLASH_ROWS - 1) / FLASH_ROWS);
}

template <auto KERNEL>
static int launch (const struct cuda_call *call, const struct kern_attention_fwd *a,
                   const struct flash_pass *g, int64_t blocks, struct mg_error *err)
{
    int ld = flash_ld (a->head_dim > a->head_dim_v ? a->head_dim : a->head_dim_v);
    size_t bytes
        = (size_t)((2 * FLASH_ROWS + FLASH_TILE) * ld + FLASH_ROWS * FLASH_LD) * sizeof (float);
    cudaLaunchConfig_t config = cuda_config (call, cuda_blocks (blocks), CUDA_THREADS, bytes);
    auto *kernel = cuda_kernel<KERNEL> ();
    cudaError_t rc = cuda_allow_shared<KERNEL> (bytes);

    if (blocks == 0)
        return 0;
    if (rc == cudaSuccess)
        rc = cudaLaunchKernelEx (&config, kernel, *a, *g, blocks, ld);
    return cuda_launched (rc, "attention_bwd", err);
}

template <typename T, int COLS>
static int launch_both (const struct cuda_call *call, const struct kern_attention_fwd *a,
                        const struct flash_pass *g, struct mg_error *err)
{
    int64_t of_queries = blocks_of (a->batch, a->heads, a->seq_q);
    int64_t of_keys = blocks_of (a->batch, a->kv_heads, a->seq_k);

    if (launch<attention_dq<T, COLS>> (call, a, g, of_queries, err) < 0)
        return -1;
    return launch<attention_dkv<T, COLS>> (call, a, g, of_keys, err);
}

template <typename T>
static int launch_first (const struct cuda_call *call, const struct kern_attention_fwd *a,
                         const struct kern_attention_bwd *g, float *delta, struct mg_error *err)
{
    const char *op = "attention_bwd";
    int64_t rows = a->batch * a->heads * a->seq_q;

    if (cuda_launch_each<attention_delta<T>> (call, op, err, rows * CUDA_WARP, *a,
                                              (const T *)g->dout, delta) < 0)
        return -1;
    if (!a->has_sink || !g->dsink)
        return 0;
    return cuda_launch_each<attention_dsink<T>> (call, op, err, a->heads * CUDA_THREADS, *a,
                                                 (const float *)delta, g->dsink, g->grad_dtype);
}

int cuda_attention_plain_bwd (const struct cuda_call *call, const struct kern_attention_fwd *a,
                              const struct flash_pass *g, struct mg_error *err)
{
    int64_t cols = a->head_dim > a->head_dim_v ? a->head_dim : a->head_dim_v;

    return FLASH_TYPED (a->dtype, cols, launch_both, call, a, g, err);
}

int cuda_attention_bwd (const struct cuda_call *call, const struct kern_attention_bwd *g,
                        struct mg_error *err)
{
    const struct kern_attention_fwd a = flash_args (&g->fwd);
    const struct flash_pass pass = { g->dout, (const float *)call->scratch, g->dq, g->dk, g->dv,
                                     g->accumulate };

    if (kern_attention_check (&a, err) < 0 || cuda_attention_check (&a, err) < 0
        || CUDA_TYPED (a.dtype, launch_first, call, &a, g, (float *)call->scratch, err) < 0)
        return -1;
    return flash_variant_of (&call->limits, &a, &pass)->bwd (call, &a, &pass, err);
}
