/* router_loss.cu - the router's auxiliary losses (formulas in moe.h)
 *
 * A block has a token at a time, and forms the sums by which the token's scores are divided.  Sums
 * over tokens are sums over columns: row s of the matrix [tokens / batch][batch][experts] has
 * token s of each sequence, and its columns are those of the results.  Counts are whole numbers,
 * which blocks add to in any order.  One block forms what is one number of all tokens or counts.
 */

#include "kernels/cuda/columns.h"
#include "kernels/cuda/router.h"

/* --- sums --- */

/* By what the scores of a token are made of its logits. */
struct token {
    struct cuda_softmax softmax; /* of softmax scores, or if the z-loss is wanted */
    double divisor;              /* of the scores before */
};

/* The scratch memory. */
struct work {
    double *divisor, *most, *lse; /* [tokens] */
    uint32_t *count;              /* [batch][experts] */
    double *sum;                  /* [groups][batch][experts] */
    int64_t rows, group;
};

static __device__ inline double undivided (double x, enum kern_score score, double most)
{
    double slope;

    return cuda_is_softmax (score) ? exp (x - most) : cuda_own_score (x, score, &slope);
}

template <typename T>
static __device__ inline struct token read_token (const T *x, int64_t n, enum kern_score score,
                                                  bool wants_softmax)
{
    struct token token = { { 0, 0 }, 0 };

    if (wants_softmax || cuda_is_softmax (score))
        token.softmax = cuda_softmax_of (x, n);
    if (cuda_is_softmax (score)) {
        token.divisor = token.softmax.sum;
        return token;
    }
    for (int64_t e = threadIdx.x; e < n; e += blockDim.x)
        token.divisor += undivided ((double)x[e], score, 0);
    token.divisor = cuda_block_sum (token.divisor) + KERN_ROUTER_EPS;
    return token;
}

static __device__ inline bool counts (const float *mask, int64_t t)
{
    return !mask || mask[t] != 0;
}

/* The numbers of each token, and the counts of its best experts. */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    sum_tokens (struct kern_router_sums a, struct work w, int64_t power, struct cuda_room room)
{
    struct cuda_order order = cuda_order_in (cuda_room_of (room), a.experts, power);

    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        const T *x = (const T *)a.logits + t * a.experts;
        struct token token;

        if (!counts (a.mask, t))
            continue;
        token = read_token (x, a.experts, a.score, a.z_loss != nullptr);
        if (threadIdx.x == 0) {
            w.divisor[t] = token.divisor;
            w.most[t] = token.softmax.most;
            w.lse[t] = token.softmax.most + log (token.softmax.sum);
        }
        if (!a.count || a.topk == 0)
            continue;
        __syncthreads (); // the order of an earlier token has been read
        for (int64_t e = threadIdx.x; e < a.experts; e += blockDim.x)
            order.key[e] = cuda_key (undivided ((double)x[e], a.score, token.softmax.most)
                                     / token.divisor);
        cuda_sort_keys (order.key, a.experts, order.place, order.count);
        for (int64_t k = threadIdx.x; k < a.topk; k += blockDim.x)
            atomicAdd (&w.count[t % a.batch * a.experts + order.place[k]], 1u);
    }
}

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS) sum_scores (struct kern_router_sums a,
                                                             struct work w)
{
    int64_t cols = a.batch * a.experts;

    cuda_sum_columns<1, double> (
        w.rows, w.group, cols,
        [&] (int64_t row, int64_t col, double (&sum)[1]) {
            int64_t e, t = row * a.batch + cuda_divide (col, a.experts, &e);

            if (t < a.tokens && counts (a.mask, t))
                sum[0] += undivided ((double)((const T *)a.logits)[t * a.experts + e], a.score,
                                     w.most[t])
                          / w.divisor[t];
        },
        [&] (int64_t group, int64_t col, double total) { w.sum[group * cols + col] = total; });
}

__global__ void __launch_bounds__ (CUDA_THREADS) store_sums (struct kern_router_sums a,
                                                             struct work w)
{
    int64_t cols = a.batch * a.experts, groups = (w.rows + w.group - 1) / w.group;

    for (int64_t i = cuda_thread (); i < cols; i += cuda_num_threads ()) {
        double sum = 0;

        for (int64_t g = 0; a.sum && g < groups; g++)
            sum += w.sum[g * cols + i];
        if (a.sum)
            a.sum[i] = (float)sum;
        if (a.count)
            a.count[i] = (float)w.count[i];
    }
}

__global__ void __launch_bounds__ (CUDA_THREADS) sum_z_loss (struct kern_router_sums a,
                                                             struct work w)
{
    double sum = 0, counted = 0;

    for (int64_t t = threadIdx.x; t < a.tokens; t += CUDA_THREADS)
        if (counts (a.mask, t)) {
            sum += w.lse[t] * w.lse[t];
            counted++;
        }
    sum = cuda_block_sum (sum);
    counted = cuda_block_sum (counted);
    if (threadIdx.x == 0 && counted > 0)
        *a.z_loss += sum / counted;
}

template <typename T>
static int launch_sums (const struct cuda_call *call, const struct kern_router_sums *a,
                        struct mg_error *err)
{
    const char *op = "router_sums";
    int64_t cols = a->batch * a->experts;
    char *scratch = (char *)call->scratch;
    struct work w;

    w.rows = (a->tokens + a->batch - 1) / a->batch;
    w.group = cuda_router_group (w.rows);
    w.divisor = cuda_cut<double> (&scratch, 3 * a->tokens);
    w.most = w.divisor + a->tokens;
    w.lse = w.most + a->tokens;
    w.count = cuda_cut<uint32_t> (&scratch, cols);
    w.sum = cuda_cut<double> (&scratch, cuda_router_groups (w.rows) * cols);
    if (a->count) {
        const struct kern_fill zero = { .n = cols, .value = 0, .out = w.count,
                                        .dtype = MG_FLOAT32 };

        if (cuda_fill (call, &zero, err) < 0) // the bits of 0
            return -1;
    }
    if (cuda_launch_tokens<sum_tokens<T>> (call, op, err, a->tokens, a->experts,
                                           cuda_order_bytes (a->experts, 0), scratch, *a, w,
                                           cuda_power_of_two (a->experts))
        < 0)
        return -1;
    if (a->sum
        && cuda_launch_each<sum_scores<T>> (call, op, err,
                                            cuda_router_groups (w.rows) * cuda_strips<1> (cols)
                                                * CUDA_THREADS,
                                            *a, w)
               < 0)
        return -1;
    if (cuda_launch_each<store_sums> (call, op, err, a->sum || a->count ? cols : 0, *a, w) < 0)
        return -1;
    return cuda_launch_each<sum_z_loss> (call, op, err, a->z_loss && a->tokens > 0, *a, w);
}

int cuda_router_sums (const struct cuda_call *call, const struct kern_router_sums *a,
                      struct mg_error *err)
{
    if (kern_router_sums_check (a, err) < 0)
        return -1;
    return CUDA_LOGITS (a->dtype, launch_sums, call, a, err);
}

/* --- loss --- */

__global__ void __launch_bounds__ (CUDA_THREADS) router_loss (struct kern_router_loss a)
{
    int64_t n = a.batch * a.experts;
    double total = 0, loss = 0, factor, tokens;

    for (int64_t i = threadIdx.x; i < n; i += CUDA_THREADS)
        total += (double)a.count[i];
    total = cuda_block_sum (total);
    tokens = a.tokens > 0 ? a.tokens : total / (double)(a.topk * a.batch);
    factor = total > 0 ? (double)a.experts / (tokens * total) : 0;
    for (int64_t i = threadIdx.x; i < n; i += CUDA_THREADS) {
        double slope = factor * (double)a.count[i];

        if (a.loss)
            loss += slope * (double)a.sum[i];
        if (a.weight)
            a.weight[i] = (float)(a.coeff * slope);
    }
    loss = cuda_block_sum (loss);
    if (a.loss && threadIdx.x == 0)
        *a.loss += loss;
}

int cuda_router_loss (const struct cuda_call *call, const struct kern_router_loss *a,
                      struct mg_error *err)
{
    return cuda_launch_each<router_loss> (call, "router_loss", err, 1, *a);
}

/* --- backward --- */

__global__ void __launch_bounds__ (CUDA_THREADS)
    count_tokens (int64_t tokens, const float *mask, double *counted)
{
    double sum = 0;

    for (int64_t t = threadIdx.x; t < tokens; t += CUDA_THREADS)
        sum += counts (mask, t);
    sum = cuda_block_sum (sum);
    if (threadIdx.x == 0)
        *counted = sum;
}

/* 'scale' and 'z' are the factors of the token's own losses. */
template <typename T>
static __device__ inline void add_slopes (const struct kern_router_loss_bwd &a, int64_t t,
                                          double scale, double z)
{
    const T *x = (const T *)a.logits + t * a.experts;
    T *dx = (T *)a.dlogits + t * a.experts;
    const float *weight = a.weight ? a.weight + t % a.batch * a.experts : nullptr;
    struct token token = read_token (x, a.experts, a.score, z != 0);
    double lse = token.softmax.most + log (token.softmax.sum), mean = 0;

    for (int64_t e = threadIdx.x; weight && e < a.experts; e += blockDim.x)
        mean += undivided ((double)x[e], a.score, token.softmax.most) / token.divisor
                * (double)weight[e];
    mean = cuda_block_sum (mean);
    for (int64_t e = threadIdx.x; e < a.experts; e += blockDim.x) {
        double d = (double)dx[e], slope;

        if (z != 0)
            d += z * 2 * lse * (exp ((double)x[e] - token.softmax.most) / token.softmax.sum);
        if (weight) {
            if (cuda_is_softmax (a.score))
                slope = exp ((double)x[e] - token.softmax.most);
            else
                cuda_own_score ((double)x[e], a.score, &slope);
            d += slope / token.divisor * scale * ((double)weight[e] - mean);
        }
        dx[e] = (T)d;
    }
}

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    router_loss_bwd (struct kern_router_loss_bwd a, const double *counted, struct cuda_room)
{
    double factor = a.factor ? *a.factor : 1, z = factor * a.z / *counted;

    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x)
        if (counts (a.mask, t))
            add_slopes<T> (a, t, factor * a.scale, z);
}

template <typename T>
static int launch_bwd (const struct cuda_call *call, const struct kern_router_loss_bwd *a,
                       struct mg_error *err)
{
    const char *op = "router_loss_bwd";
    double *counted = (double *)call->scratch;

    if (a->tokens == 0)
        return 0;
    if (cuda_launch_each<count_tokens> (call, op, err, 1, a->tokens, a->mask, counted) < 0)
        return -1;
    return cuda_launch_tokens<router_loss_bwd<T>> (call, op, err, a->tokens, a->experts, 0, nullptr,
                                                   *a, (const double *)counted);
}

int cuda_router_loss_bwd (const struct cuda_call *call, const struct kern_router_loss_bwd *a,
                          struct mg_error *err)
{
    if (kern_router_loss_bwd_check (a, err) < 0)
        return -1;
    return CUDA_LOGITS (a->dtype, launch_bwd, call, a, err);
}
