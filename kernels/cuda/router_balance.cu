/* router_balance.cu - balancing experts by other means than losses: Sinkhorn's algorithm,
 * quantiles, biases, capacity (formulas in moe.h)
 *
 * Only the device knows how many rounds Sinkhorn's algorithm takes, and the host does not wait for
 * it.  So the host enqueues GRID_ROUNDS rounds of three kernels, which return at once when the
 * rounds are done, and then one block that runs the rounds that are left.  Most calls end within
 * the first rounds, which use the whole device.  Blocks that wait for each other would need all
 * of them to run at the same time, and launches for all possible rounds would take longer than
 * the work.  A round is made of the same functions in both cases, which have the same sums in
 * the same order whatever the number of blocks is.
 *
 * An expert's quantile and the last choice within its capacity are found by a radix selection in a
 * block (select.h).  The list of an expert's choices has no order, and no result depends on one:
 * equal probabilities are told apart by the numbers of the choices.
 */

#include "kernels/cuda/columns.h"
#include "kernels/cuda/router.h"

/* --- Sinkhorn --- */

enum { GRID_ROUNDS = 12 };

/* The scratch memory. */
struct sinkhorn {
    double *c;        /* [tokens][experts] */
    double *d0, *d1;  /* factors of rows and columns */
    double *sum;      /* [groups][experts] */
    int *done;
    int64_t group;    /* rows of a group */
};

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    sinkhorn_begin (struct kern_router_sinkhorn a, struct sinkhorn s)
{
    int64_t n = a.tokens * a.experts;

#pragma unroll 1 // unrolled, the loop spills registers
    for (int64_t i = cuda_thread (); i < n; i += cuda_num_threads ()) {
        s.c[i] = exp ((double)((const T *)a.logits)[i]);
        if (i < a.experts)
            s.d1[i] = 1;
    }
    if (cuda_thread () == 0)
        *s.done = 0;
}

/* d0: a warp has a row. */
static __device__ inline void make_d0 (const struct kern_router_sinkhorn &a,
                                       const struct sinkhorn &s)
{
    for (int64_t t = cuda_thread () / CUDA_WARP; t < a.tokens;
         t += cuda_num_threads () / CUDA_WARP) {
        const double *c = s.c + t * a.experts;
        double total = 0;

        for (int64_t e = threadIdx.x % CUDA_WARP; e < a.experts; e += CUDA_WARP)
            total += s.d1[e] * c[e];
        total = cuda_warp_sum (total);
        if (threadIdx.x % CUDA_WARP == 0)
            s.d0[t] = 1 / (double)a.tokens / (total + KERN_SINKHORN_EPS);
    }
}

static __device__ inline void sum_experts (const struct kern_router_sinkhorn &a,
                                           const struct sinkhorn &s)
{
    cuda_sum_columns<1, double> (
        a.tokens, s.group, a.experts,
        [&] (int64_t t, int64_t e, double (&sum)[1]) {
            sum[0] += s.d0[t] * s.c[t * a.experts + e];
        },
        [&] (int64_t group, int64_t e, double total) { s.sum[group * a.experts + e] = total; });
}

/* d1, by one block; true, in all threads, if this was the last round. */
static __device__ inline bool make_d1 (const struct kern_router_sinkhorn &a,
                                       const struct sinkhorn &s)
{
    int64_t groups = (a.tokens + s.group - 1) / s.group;
    double change = 0;

    for (int64_t e = threadIdx.x; e < a.experts; e += CUDA_THREADS) {
        double sum = 0, before = s.d1[e], d1;

        for (int64_t g = 0; g < groups; g++)
            sum += s.sum[g * a.experts + e];
        d1 = 1 / (double)a.experts / (sum + KERN_SINKHORN_EPS);
        s.d1[e] = d1;
        change += fabs (d1 - before);
    }
    return !(cuda_block_sum (change) / (double)a.experts > a.tol);
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    sinkhorn_d0 (struct kern_router_sinkhorn a, struct sinkhorn s)
{
    if (!*s.done)
        make_d0 (a, s);
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    sinkhorn_sum (struct kern_router_sinkhorn a, struct sinkhorn s)
{
    if (!*s.done)
        sum_experts (a, s);
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    sinkhorn_d1 (struct kern_router_sinkhorn a, struct sinkhorn s)
{
    bool done = *s.done;

    __syncthreads (); // all threads have read it
    if (!done && make_d1 (a, s) && threadIdx.x == 0)
        *s.done = 1;
}

/* The rounds that are left, by one block. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    sinkhorn_rest (struct kern_router_sinkhorn a, struct sinkhorn s)
{
    bool done = *s.done;

    for (int i = GRID_ROUNDS; !done && i < KERN_SINKHORN_ROUNDS; i++) {
        make_d0 (a, s);
        __syncthreads ();
        sum_experts (a, s);
        __syncthreads ();
        done = make_d1 (a, s);
        __syncthreads ();
    }
}

/* The plan, and the best experts of each token in it. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    sinkhorn_choose (struct kern_router_sinkhorn a, struct sinkhorn s, int64_t power,
                     struct cuda_room room)
{
    struct cuda_order order = cuda_order_in (cuda_room_of (room), a.experts, power);

    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        __syncthreads (); // the order of an earlier token has been read
        for (int64_t e = threadIdx.x; e < a.experts; e += blockDim.x) {
            int64_t i = t * a.experts + e;
            double v = s.c[i] * (s.d1[e] * s.d0[t]);

            order.key[e] = cuda_key (v);
            if (a.plan)
                a.plan[i] = (float)v;
        }
        cuda_sort_keys (order.key, a.experts, order.place, order.count);
        for (int64_t k = threadIdx.x; k < a.topk; k += blockDim.x)
            a.index[t * a.topk + k] = order.place[k];
    }
}

static int launch_round (const struct cuda_call *call, const struct kern_router_sinkhorn *a,
                         const struct sinkhorn &s, struct mg_error *err)
{
    const char *op = "router_sinkhorn";
    int64_t blocks = cuda_router_groups (a->tokens) * cuda_strips<1> (a->experts);

    if (cuda_launch_each<sinkhorn_d0> (call, op, err, a->tokens * CUDA_WARP, *a, s) < 0
        || cuda_launch_each<sinkhorn_sum> (call, op, err, blocks * CUDA_THREADS, *a, s) < 0)
        return -1;
    return cuda_launch_each<sinkhorn_d1> (call, op, err, 1, *a, s);
}

template <typename T>
static int launch_begin (const struct cuda_call *call, const struct kern_router_sinkhorn *a,
                         const struct sinkhorn &s, struct mg_error *err)
{
    return cuda_launch_each<sinkhorn_begin<T>> (call, "router_sinkhorn", err,
                                                a->tokens * a->experts, *a, s);
}

int cuda_router_sinkhorn (const struct cuda_call *call, const struct kern_router_sinkhorn *a,
                          struct mg_error *err)
{
    const char *op = "router_sinkhorn";
    char *scratch = (char *)call->scratch;
    struct sinkhorn s;

    if (kern_router_check (op, a->tokens, a->experts, a->topk, a->dtype, err) < 0)
        return -1;
    if (a->tokens == 0 || a->experts == 0)
        return 0;
    s.c = cuda_cut<double> (&scratch, a->tokens * a->experts);
    s.d0 = cuda_cut<double> (&scratch, a->tokens);
    s.d1 = cuda_cut<double> (&scratch, a->experts);
    s.sum = cuda_cut<double> (&scratch, cuda_router_groups (a->tokens) * a->experts);
    s.done = cuda_cut<int> (&scratch, 1);
    s.group = cuda_router_group (a->tokens);
    if (CUDA_LOGITS (a->dtype, launch_begin, call, a, s, err) < 0)
        return -1;
    for (int i = 0; i < GRID_ROUNDS; i++)
        if (launch_round (call, a, s, err) < 0)
            return -1;
    if (cuda_launch_each<sinkhorn_rest> (call, op, err, 1, *a, s) < 0)
        return -1;
    return cuda_launch_tokens<sinkhorn_choose> (call, op, err, a->tokens, a->experts,
                                                cuda_order_bytes (a->experts, 0), scratch, *a, s,
                                                cuda_power_of_two (a->experts));
}

/* --- quantiles --- */

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    find_alpha (struct kern_router_quantile a, double *alpha, struct cuda_room)
{
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        const T *x = (const T *)a.logits + t * a.experts;
        uint64_t key = cuda_select (a.experts, a.topk + 1, 64, [&] (int64_t e) {
            return cuda_key ((double)x[e] - (double)a.beta[e]);
        });

        if (threadIdx.x == 0)
            alpha[t] = cuda_key_value (key);
    }
}

/* A block has an expert at a time. */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    find_quantiles (struct kern_router_quantile a, const double *alpha)
{
    int64_t m = a.tokens * a.topk / a.experts + 1;

    for (int64_t e = blockIdx.x; e < a.experts; e += gridDim.x) {
        uint64_t key = cuda_select (a.tokens, m, 64, [&] (int64_t t) {
            double x = (double)((const T *)a.logits)[t * a.experts + e] - alpha[t];

            return cuda_key (x == x ? x : -INFINITY);
        });

        if (threadIdx.x == 0)
            a.sum[e] += (float)cuda_key_value (key);
    }
}

template <typename T>
static int launch_quantile (const struct cuda_call *call, const struct kern_router_quantile *a,
                            struct mg_error *err)
{
    const char *op = "router_quantile";
    double *alpha = (double *)call->scratch;

    if (cuda_launch_tokens<find_alpha<T>> (call, op, err, a->tokens, a->experts, 0, nullptr, *a,
                                           alpha)
        < 0)
        return -1;
    return cuda_launch_each<find_quantiles<T>> (call, op, err, a->experts * CUDA_THREADS, *a,
                                                (const double *)alpha);
}

int cuda_router_quantile (const struct cuda_call *call, const struct kern_router_quantile *a,
                          struct mg_error *err)
{
    if (kern_router_quantile_check (a, err) < 0)
        return -1;
    if (a->tokens == 0 || a->experts == 0)
        return 0;
    return CUDA_LOGITS (a->dtype, launch_quantile, call, a, err);
}

/* --- biases --- */

__global__ void __launch_bounds__ (CUDA_THREADS) router_beta (struct kern_router_beta a)
{
    double mean = 0;

    for (int64_t e = threadIdx.x; e < a.experts; e += CUDA_THREADS)
        mean += a.ema * (double)a.beta[e] + (1 - a.ema) * a.scale * (double)a.sum[e];
    mean = cuda_block_sum (mean) / (double)a.experts;
    for (int64_t e = threadIdx.x; e < a.experts; e += CUDA_THREADS)
        a.beta[e] = (float)(a.ema * (double)a.beta[e]
                            + (1 - a.ema) * a.scale * (double)a.sum[e] - mean);
}

int cuda_router_beta (const struct cuda_call *call, const struct kern_router_beta *a,
                      struct mg_error *err)
{
    return cuda_launch_each<router_beta> (call, "router_beta", err, a->experts > 0, *a);
}

__global__ void __launch_bounds__ (CUDA_THREADS) router_bias (struct kern_router_bias a)
{
    double mean = 0;

    for (int64_t e = threadIdx.x; e < a.experts; e += CUDA_THREADS)
        mean += (double)a.count[e];
    mean = cuda_block_sum (mean) / (double)a.experts;
    for (int64_t e = threadIdx.x; e < a.experts; e += CUDA_THREADS) {
        double lack = mean - (double)a.count[e];

        a.bias[e] += (float)(a.rate * (double)((lack > 0) - (lack < 0)));
    }
}

int cuda_router_bias (const struct cuda_call *call, const struct kern_router_bias *a,
                      struct mg_error *err)
{
    return cuda_launch_each<router_bias> (call, "router_bias", err, a->experts > 0, *a);
}

/* --- capacity --- */

/* The choices of expert e are list[begin[e]], ..., list[end[e] - 1]. */
struct lists {
    uint32_t *begin, *end; /* [experts] */
    int32_t *list;         /* [tokens][topk] */
};

static __device__ inline bool is_expert (const struct kern_router_capacity &a, int32_t e)
{
    return e >= 0 && e < a.experts;
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    count_choices (struct kern_router_capacity a, uint32_t *count)
{
    for (int64_t c = cuda_thread (); c < a.tokens * a.topk; c += cuda_num_threads ())
        if (is_expert (a, a.index[c]))
            atomicAdd (&count[a.index[c]], 1u);
}

/* 'end' holds counts; each list is empty at first.  One block. */
__global__ void __launch_bounds__ (CUDA_THREADS) begin_lists (int64_t experts, struct lists s)
{
    uint32_t first = 0;

    for (int64_t base = 0; base < experts; base += CUDA_THREADS) {
        int64_t e = base + threadIdx.x;
        uint32_t all, at = first + cuda_block_before (e < experts ? s.end[e] : 0, &all);

        if (e < experts)
            s.begin[e] = s.end[e] = at;
        first += all;
    }
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    list_choices (struct kern_router_capacity a, struct lists s)
{
    for (int64_t c = cuda_thread (); c < a.tokens * a.topk; c += cuda_num_threads ()) {
        int32_t e = a.index[c];

        if (is_expert (a, e))
            s.list[atomicAdd (&s.end[e], 1u)] = (int32_t)c;
        a.kept[c] = e;
    }
}

/* Larger for a choice that is kept before others, and different for each. */
static __device__ inline uint64_t key_of (const struct kern_router_capacity &a, int32_t c)
{
    uint32_t later = ~(uint32_t)c, bits, sign = 0x80000000u;
    float p;

    if (!a.by_prob)
        return later;
    p = a.prob[c];
    p = p != p ? -INFINITY : p == 0 ? 0 : p;
    bits = __float_as_uint (p);
    return (uint64_t)(bits & sign ? ~bits : bits | sign) << 32 | later;
}

/* A block has an expert at a time. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    limit_experts (struct kern_router_capacity a, struct lists s)
{
    for (int64_t e = blockIdx.x; e < a.experts; e += gridDim.x) {
        const int32_t *list = s.list + s.begin[e];
        int64_t n = s.end[e] - s.begin[e];
        uint64_t last = ~0ull;

        if (n <= a.capacity)
            continue;
        if (a.capacity > 0)
            last = cuda_select (n, a.capacity, a.by_prob ? 64 : 32,
                                [&] (int64_t i) { return key_of (a, list[i]); });
        for (int64_t i = threadIdx.x; i < n; i += CUDA_THREADS)
            if (a.capacity == 0 || key_of (a, list[i]) < last)
                a.kept[list[i]] = -1;
    }
}

int cuda_router_capacity (const struct cuda_call *call, const struct kern_router_capacity *a,
                          struct mg_error *err)
{
    const char *op = "router_capacity";
    int64_t n = a->tokens * a->topk;
    char *scratch = (char *)call->scratch;
    struct kern_fill zero = {};
    struct lists s;

    if (kern_router_capacity_check (a, err) < 0)
        return -1;
    if (n == 0)
        return 0;
    s.begin = cuda_cut<uint32_t> (&scratch, a->experts);
    s.end = cuda_cut<uint32_t> (&scratch, a->experts);
    s.list = cuda_cut<int32_t> (&scratch, n);
    zero.n = a->experts;
    zero.out = s.end; // the bits of 0
    zero.dtype = MG_FLOAT32;
    if (cuda_fill (call, &zero, err) < 0
        || cuda_launch_each<count_choices> (call, op, err, n, *a, s.end) < 0
        || cuda_launch_each<begin_lists> (call, op, err, 1, a->experts, s) < 0
        || cuda_launch_each<list_choices> (call, op, err, n, *a, s) < 0)
        return -1;
    return cuda_launch_each<limit_experts> (call, op, err, a->experts * CUDA_THREADS, *a, s);
}
