/* attention.cu - attention forward: a block of queries at a time, and tiles of keys
 *
 * For each query, m is the largest score so far and l the sum of e^(score - m) (Dao et al. 2022).
 * A sink is in m and l from the start.
 */

#include <math.h>

#include "kernels/cuda/flash.h"

struct running {
    float m, l, most;
};

/* Write the weights of a tile's scores to p.  Returns the factor of earlier results. */
static __device__ inline float soften (const struct kern_attention_fwd &a, struct running *run,
                                       const float (&score)[FLASH_EACH],
                                       const float (&factor)[FLASH_EACH], float *p)
{
    int lane = threadIdx.x % FLASH_LANES;
    float most = -INFINITY, m, shrink, sum = 0;

#pragma unroll
    for (int e = 0; e < FLASH_EACH; e++)
        most = fmaxf (most, score[e]);
    if (a.max_logit)
        run->most = fmaxf (run->most, most);
    m = fmaxf (run->m, flash_row_max (most));
    shrink = run->m == -INFINITY ? 0 : expf (run->m - m);
#pragma unroll
    for (int e = 0; e < FLASH_EACH; e++) {
        float w = score[e] == -INFINITY ? 0 : expf (score[e] - m);

        sum += w;
        p[e * FLASH_LANES + lane] = w * factor[e];
    }
    run->l = run->l * shrink + flash_row_sum (sum);
    run->m = m;
    return shrink;
}

static __device__ inline struct running begin_row (const struct kern_attention_fwd &a, float sink)
{
    struct running run = { -INFINITY, 0, -INFINITY };

    if (a.has_sink && sink != -INFINITY) {
        run.m = sink;
        run.l = 1;
    }
    return run;
}

template <typename T, int COLS>
static __device__ inline void end_row (const struct kern_attention_fwd &a,
                                       const struct flash_block &b, int64_t s,
                                       const struct running &run, const float (&sum)[COLS])
{
    int lane = threadIdx.x % FLASH_LANES;
    float over_l = run.l == 0 ? 0 : 1 / run.l, most = flash_row_max (run.most);
    T *out = (T *)a.out + flash_out (a, b.entry, b.head, s);

    if (s >= a.seq_q)
        return;
#pragma unroll
    for (int c = 0; c < COLS; c++)
        if (c * FLASH_LANES + lane < a.head_dim_v)
            out[c * FLASH_LANES + lane] = cuda_rounded<T> (sum[c] * over_l);
    if (lane != 0)
        return;
    a.lse[flash_lse (a, b.entry, b.head, s)] = run.l == 0 ? -INFINITY : run.m + logf (run.l);
    if (a.max_logit && most > -INFINITY)
        flash_note_most (a.max_logit, most);
}

template <typename T, int COLS>
static __device__ inline void forward (const struct kern_attention_fwd &a,
                                       const struct flash_block &b, float *q, float *tile, int ld)
{
    int row = threadIdx.x / FLASH_LANES, lane = threadIdx.x % FLASH_LANES;
    int64_t kv_head = b.head / (a.heads / a.kv_heads), s = b.first + row;
    float *p = tile + FLASH_TILE * ld + row * FLASH_LD, sum[COLS] = {};
    struct flash_query query = flash_query_of (a, b.entry, s);
    struct flash_dropout drop = flash_dropout_of (a, b.entry, b.head);
    struct running run = begin_row (
        a, a.has_sink && a.sink ? cuda_float (((const T *)a.sink)[b.head]) : 0);

    __syncthreads (); // an earlier block of queries is done
    flash_load (q, ld, (const T *)a.q + flash_q (a, b.entry, b.head, b.first), a.q_stride_s,
                FLASH_ROWS, a.seq_q - b.first, (int)a.head_dim);
    for (int64_t first = 0; first < a.seq_k; first += FLASH_TILE) {
        int64_t left = a.seq_k - first, key[FLASH_EACH];
        float score[FLASH_EACH], factor[FLASH_EACH], shrink;
        bool any = false;

#pragma unroll
        for (int e = 0; e < FLASH_EACH; e++) {
            key[e] = flash_key (a, b.entry, first + e * FLASH_LANES + lane);
            any = any || flash_sees (query, key[e]);
        }
        if (!__syncthreads_or (any))
            continue;
        flash_load (tile, ld, (const T *)a.k + flash_k (a, b.entry, kv_head, first),
                    a.kv_stride_s, FLASH_TILE, left, (int)a.head_dim);
        __syncthreads ();
#pragma unroll
        for (int e = 0; e < FLASH_EACH; e++) {
            float product = flash_dot (q + row * ld, tile + (e * FLASH_LANES + lane) * ld,
                                       (int)a.head_dim);
            bool sees = flash_sees (query, key[e]);

            score[e] = sees ? flash_score<T> (a, product) : -INFINITY;
            factor[e] = sees ? flash_factor (drop, query.position, key[e]) : 0;
        }
        shrink = soften (a, &run, score, factor, p);
        __syncthreads ();
        flash_load (tile, ld, (const T *)a.v + flash_v (a, b.entry, kv_head, first), a.v_stride_s,
                    FLASH_TILE, left, (int)a.head_dim_v);
        __syncthreads ();
#pragma unroll
        for (int c = 0; c < COLS; c++)
            sum[c] *= shrink;
        flash_add (sum, p, tile, ld, (int)a.head_dim_v);
    }
    end_row<T> (a, b, s, run, sum);
}

template <typename T, int COLS>
__global__ void __launch_bounds__ (CUDA_THREADS)
    attention_fwd (struct kern_attention_fwd a, int64_t blocks, int ld)
{
    float *q = (float *)ptx_shared ();

    for (int64_t i = blockIdx.x; i < blocks; i += gridDim.x)
        forward<T, COLS> (a, flash_block_of (i, a.heads, a.seq_q), q, q + FLASH_ROWS * ld, ld);
}

template <typename T, int COLS>
static int launch (const struct cuda_call *call, const struct kern_attention_fwd *a,
                   struct mg_error *err)
{
    int ld = flash_ld (a->head_dim > a->head_dim_v ? a->head_dim : a->head_dim_v);
    size_t bytes
        = (size_t)((FLASH_ROWS + FLASH_TILE) * ld + FLASH_ROWS * FLASH_LD) * sizeof (float);
    int64_t blocks = a->batch * a->heads * ((a->seq_q + FLASH_ROWS - 1) / FLASH_ROWS);
    cudaLaunchConfig_t config = cuda_config (call, cuda_blocks (blocks), CUDA_THREADS, bytes);
    auto *kernel = cuda_kernel<attention_fwd<T, COLS>> ();
    cudaError_t rc = cuda_allow_shared<attention_fwd<T, COLS>> (bytes);

    if (blocks == 0)
        return 0;
    if (rc == cudaSuccess)
        rc = cudaLaunchKernelEx (&config, kernel, *a, blocks, ld);
    return cuda_launched (rc, "attention_fwd", err);
}

static int plain_fwd (const struct cuda_call *call, const struct kern_attention_fwd *a,
                      struct mg_error *err)
{
    return FLASH_TYPED (a->dtype, a->head_dim_v, launch, call, a, err);
}

static bool takes_all (const struct kern_attention_fwd *, const struct cuda_limits *)
{
    return true;
}

static bool takes_all_bwd (const struct kern_attention_fwd *, const struct flash_pass *,
                           const struct cuda_limits *)
{
    return true;
}

/* The kernels, best first. */
static const struct flash_variant variants[] = {
    { 80, cuda_attention_mma_takes, cuda_attention_mma_fwd, cuda_attention_mma_takes_bwd,
      cuda_attention_mma_bwd },
    { 0, takes_all, plain_fwd, takes_all_bwd, cuda_attention_plain_bwd },
};

int cuda_limits_of (struct cuda_limits *limits, struct mg_error *err)
{
    int device = 0, major = 0, minor = 0, shared = 0;
    cudaError_t rc = cudaGetDevice (&device);

    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor, device);
    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute (&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute (&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (rc != cudaSuccess)
        return mg_error_set (err, EIO, "device cuda: what device %d can do is unknown: %s", device,
                             cudaGetErrorString (rc));
    limits->capability = 10 * major + minor;
    limits->shared = (size_t)shared;
    return 0;
}

const struct flash_variant *flash_variant_of (const struct cuda_limits *limits,
                                              const struct kern_attention_fwd *a,
                                              const struct flash_pass *g)
{
    const struct flash_variant *v = variants;

    while (limits->capability < v->capability
           || !(g ? v->takes_bwd (a, g, limits) : v->takes (a, limits)))
        v++;
    return v;
}

int cuda_attention_check (const struct kern_attention_fwd *a, struct mg_error *err)
{
    if (a->head_dim <= FLASH_MAX_DIM && a->head_dim_v <= FLASH_MAX_DIM)
        return 0;
    return mg_error_set (err, ENOTSUP, "cuda kernel attention: heads of %lld and %lld features, "
                         "want at most %d", (long long)a->head_dim, (long long)a->head_dim_v,
                         FLASH_MAX_DIM);
}

int cuda_attention_fwd (const struct cuda_call *call, const struct kern_attention_fwd *from,
                        struct mg_error *err)
{
    const struct kern_attention_fwd a = flash_args (from);

    if (kern_attention_check (&a, err) < 0 || cuda_attention_check (&a, err) < 0)
        return -1;
    return flash_variant_of (&call->limits, &a, NULL)->fwd (call, &a, err);
}
