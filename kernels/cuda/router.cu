/* router.cu - experts and probabilities of tokens, and the gradient (formulas in moe.h)
 *
 * A block has a token at a time.  The experts are sorted by their values, with groups twice: by
 * group and value first.  A sort of all experts takes about as long as it takes to find the few
 * best of as many experts as models have, and it is never quadratic.  Sums over the best experts
 * of a group have the order of their values, as on the CPU, so that groups of equal values stay
 * equal.
 */

#include "kernels/cuda/router.h"

/* --- forward --- */

/* Experts outside of the best groups get the key of minus infinity. */
static __device__ inline void limit_groups (const struct kern_router &r, const struct cuda_order &o)
{
    int64_t n = r.experts / r.groups;
    int64_t best = min (max (r.topk / r.group_topk, (int64_t)1), n);
    int64_t rest = (r.groups - r.group_topk) * n;

    cuda_sort_places (o.place, o.count, [&] (int32_t a, int32_t b) {
        int64_t ignored, x = cuda_divide (a, n, &ignored), y = cuda_divide (b, n, &ignored);
        uint64_t v = a < r.experts ? o.key[a] : 0, w = b < r.experts ? o.key[b] : 0;

        return x < y || (x == y && (v > w || (v == w && a < b)));
    });
    for (int64_t g = threadIdx.x; g < r.groups; g += blockDim.x) {
        double sum = 0;

        for (int64_t i = 0; i < best; i++)
            sum += cuda_key_value (o.key[o.place[g * n + i]]);
        o.group[g] = cuda_key (sum);
    }
    cuda_sort_keys (o.group, r.groups, o.place, o.count);
    for (int64_t i = threadIdx.x; i < rest; i += blockDim.x) {
        int64_t e, g = cuda_divide (i, n, &e);

        o.key[o.place[r.group_topk + g] * n + e] = cuda_key (-INFINITY);
    }
}

template <typename T>
static __device__ inline void choose (const struct kern_router_fwd &a, const T *x,
                                      const struct cuda_softmax &softmax,
                                      const struct cuda_order &o, int32_t *index)
{
    const struct kern_router &r = a.router;

    __syncthreads (); // the order of an earlier token has been read
    for (int64_t e = threadIdx.x; e < r.experts; e += blockDim.x) {
        double v = (double)x[e];

        v = a.beta ? v - (double)a.beta[e]
                   : cuda_score (v, r.score, softmax) + (a.bias ? (double)a.bias[e] : 0);
        o.key[e] = cuda_key (v);
    }
    if (r.groups > 0)
        limit_groups (r, o);
    cuda_sort_keys (o.key, r.experts, o.place, o.count);
    for (int64_t k = threadIdx.x; k < r.topk; k += blockDim.x)
        index[k] = o.place[k];
    __syncthreads ();
}

/* q of a token's choices: see struct kern_router. */
struct shares {
    double most;    /* logit of KERN_SOFTMAX_CHOSEN */
    double divisor;
};

/* q times the divisor. */
static __device__ inline double undivided (double s, enum kern_score score,
                                           const struct shares &shares)
{
    return score == KERN_SOFTMAX_CHOSEN ? exp (s - shares.most) : s;
}

template <typename T>
static __device__ inline struct shares make_shares (const struct kern_router &r, const T *x,
                                                    const struct cuda_softmax &softmax,
                                                    const int32_t *index)
{
    struct shares shares = { -INFINITY, 1 };
    double sum = 0;

    if (r.score == KERN_SOFTMAX || (r.topk == 1 && r.score != KERN_SOFTMAX_CHOSEN))
        return shares;
    if (r.score == KERN_SOFTMAX_CHOSEN) {
        for (int64_t k = threadIdx.x; k < r.topk; k += blockDim.x)
            if (index[k] >= 0)
                shares.most = max (shares.most, (double)x[index[k]]);
        shares.most = cuda_block_max (shares.most, (double)-INFINITY);
    }
    for (int64_t k = threadIdx.x; k < r.topk; k += blockDim.x)
        if (index[k] >= 0)
            sum += undivided (cuda_score ((double)x[index[k]], r.score, softmax), r.score, shares);
    shares.divisor = cuda_block_sum (sum)
                     + (r.score == KERN_SOFTMAX_CHOSEN ? 0 : KERN_ROUTER_EPS);
    return shares;
}

static __host__ __device__ inline double scale_of (const struct kern_router &r)
{
    return r.scale != 0 ? r.scale : 1;
}

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    router_fwd (struct kern_router_fwd a, int64_t count, struct cuda_room room)
{
    const struct kern_router &r = a.router;
    struct cuda_order order = cuda_order_in (cuda_room_of (room), r.experts, count);

    for (int64_t t = blockIdx.x; t < r.tokens; t += gridDim.x) {
        const T *x = (const T *)a.logits + t * r.experts;
        int32_t *index = a.index + t * r.topk;
        struct cuda_softmax softmax = { 0, 1 };
        struct shares shares;

        if (r.score == KERN_SOFTMAX)
            softmax = cuda_softmax_of (x, r.experts);
        if (!a.given)
            choose (a, x, softmax, order, index);
        shares = make_shares (r, x, softmax, index);
        for (int64_t k = threadIdx.x; k < r.topk; k += blockDim.x) {
            double q = 0;

            if (index[k] >= 0)
                q = undivided (cuda_score ((double)x[index[k]], r.score, softmax), r.score, shares)
                    / shares.divisor;
            a.prob[t * r.topk + k] = (float)(scale_of (r) * q);
        }
    }
}

template <typename T>
static int launch_fwd (const struct cuda_call *call, const struct kern_router_fwd *a,
                       struct mg_error *err)
{
    const struct kern_router *r = &a->router;

    return cuda_launch_tokens<router_fwd<T>> (call, "router_fwd", err, r->tokens, r->experts,
                                              cuda_order_bytes (r->experts, r->groups),
                                              (char *)call->scratch, *a,
                                              cuda_power_of_two (r->experts));
}

int cuda_router_fwd (const struct cuda_call *call, const struct kern_router_fwd *a,
                     struct mg_error *err)
{
    if (kern_router_check_options (&a->router, err) < 0)
        return -1;
    return CUDA_LOGITS (a->router.dtype, launch_fwd, call, a, err);
}

/* --- backward --- */

/* Sums over the choices of a token. */
struct sums {
    double mean;  /* of q dprob */
    double score; /* of s, for scores that are divided by it */
};

/* The gradient of a chosen logit. */
template <typename T>
static __device__ inline double slope_of (const struct kern_router &r, T x, double dprob,
                                          const struct cuda_softmax &softmax,
                                          const struct shares &shares, const struct sums &sums)
{
    double g = scale_of (r) * dprob, mean = scale_of (r) * sums.mean, slope;

    if (cuda_is_softmax (r.score)) {
        double s = cuda_score ((double)x, r.score, softmax);

        return undivided (s, r.score, shares) / shares.divisor * (g - mean);
    }
    cuda_own_score ((double)x, r.score, &slope);
    return slope * (r.topk == 1 ? g : (g - mean) / sums.score);
}

/* The gradients that chosen logits had wait in 'before' while all others get theirs. */
template <typename T>
static __device__ inline void store_slopes (const struct kern_router_bwd &a, int64_t t,
                                            const struct cuda_softmax &softmax,
                                            const struct shares &shares, const struct sums &sums,
                                            double *before)
{
    const struct kern_router &r = a.router;
    const T *x = (const T *)a.logits + t * r.experts;
    T *dx = (T *)a.dlogits + t * r.experts;
    const int32_t *index = a.index + t * r.topk;

    if (a.accumulate) {
        for (int64_t k = threadIdx.x; k < r.topk; k += blockDim.x)
            before[k] = index[k] < 0 ? 0 : (double)dx[index[k]];
        __syncthreads ();
    }
    for (int64_t e = threadIdx.x; e < r.experts; e += blockDim.x) {
        double d = a.accumulate ? (double)dx[e] : 0;

        if (r.score == KERN_SOFTMAX)
            d += -scale_of (r) * cuda_score ((double)x[e], r.score, softmax) * sums.mean;
        dx[e] = (T)d;
    }
    __syncthreads ();
    for (int64_t k = threadIdx.x; k < r.topk; k += blockDim.x)
        if (index[k] >= 0)
            dx[index[k]] = (T)((a.accumulate ? before[k] : 0)
                               + slope_of (r, x[index[k]],
                                           (double)a.dprob[t * r.topk + k], softmax, shares,
                                           sums));
}

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    router_bwd (struct kern_router_bwd a, struct cuda_room room)
{
    const struct kern_router &r = a.router;

    for (int64_t t = blockIdx.x; t < r.tokens; t += gridDim.x) {
        const T *x = (const T *)a.logits + t * r.experts;
        const int32_t *index = a.index + t * r.topk;
        struct cuda_softmax softmax = { 0, 1 };
        struct shares shares;
        struct sums sums = { 0, 0 };

        if (r.score == KERN_SOFTMAX)
            softmax = cuda_softmax_of (x, r.experts);
        shares = make_shares (r, x, softmax, index);
        for (int64_t k = threadIdx.x; k < r.topk; k += blockDim.x) {
            double s;

            if (index[k] < 0)
                continue;
            s = cuda_score ((double)x[index[k]], r.score, softmax);
            sums.mean += undivided (s, r.score, shares) / shares.divisor
                         * (double)a.dprob[t * r.topk + k];
            sums.score += s;
        }
        sums.mean = cuda_block_sum (sums.mean);
        sums.score = cuda_block_sum (sums.score) + KERN_ROUTER_EPS;
        store_slopes<T> (a, t, softmax, shares, sums, (double *)cuda_room_of (room));
    }
}

template <typename T>
static int launch_bwd (const struct cuda_call *call, const struct kern_router_bwd *a,
                       struct mg_error *err)
{
    const struct kern_router *r = &a->router;

    return cuda_launch_tokens<router_bwd<T>> (call, "router_bwd", err, r->tokens, r->experts,
                                              cuda_part_bytes (r->topk, sizeof (double)),
                                              (char *)call->scratch, *a);
}

int cuda_router_bwd (const struct cuda_call *call, const struct kern_router_bwd *a,
                     struct mg_error *err)
{
    if (kern_router_check_options (&a->router, err) < 0)
        return -1;
    return CUDA_LOGITS (a->router.dtype, launch_bwd, call, a, err);
}
