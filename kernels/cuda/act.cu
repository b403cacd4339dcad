/* act.cu - activations and their derivatives, plain, gated and weighted (formulas in kernels.h)
 *
 * The forms are those of kernels/cpu/act.c, which says why: the functions that are x s (x) are made
 * of an exponential that is small where s is near 1.
 */

#include "kernels/cuda/block.h"

#define GELU_A 0.79788456f
#define GELU_B 0.044715f
#define QUICK 1.702f

/* x if |x| <= most, else most with its sign; keeps a NaN. */
static __device__ inline float bound (float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

static __device__ inline float not_above (float x, float most)
{
    return x > most ? most : x;
}

/* Beyond this |x| the function is x or 0 in float. */
static __device__ inline float range (enum kern_function f)
{
    return f == KERN_GELU_TANH ? 10.0f : f == KERN_GELU ? 13.0f
           : f == KERN_QUICK_GELU ? 47.0f : 80.0f;
}

/* The small exponential of a bounded x. */
static __device__ inline float exponential (float x, enum kern_function f)
{
    return expf (f == KERN_GELU_TANH    ? -2 * GELU_A * x * (1.0f + GELU_B * x * x)
                 : f == KERN_QUICK_GELU ? -QUICK * x
                                        : -x);
}

/* f (x) and its derivative, which share an exponential.  The compiler drops an unused one. */
struct curve {
    float value, slope;
};

static __device__ inline struct curve relu (float x, bool squared)
{
    float r = x < 0 ? 0 : x;

    if (squared)
        return { r * r, 2.0f * r };
    return { r, x > 0 ? 1 : x == x ? 0 : x };
}

/* x times the normal distribution's function at v; v is x, bounded. */
static __device__ inline struct curve gelu (float x, float v)
{
    float normal = 0.5f * erfcf (-0.70710678f * v);

    return { x * normal, normal + v * (0.39894228f * expf (-0.5f * v * v)) };
}

static __device__ inline struct curve curve_at (float x, enum kern_function f)
{
    float v = bound (x, range (f)), large = x > v ? x : v, s, e, rate;

    if (f == KERN_RELU || f == KERN_SQUARED_RELU)
        return relu (x, f == KERN_SQUARED_RELU);
    if (f == KERN_GELU)
        return gelu (large, v);
    e = exponential (v, f);
    s = __fdividef (1.0f, 1.0f + e); // e is below e^80
    rate = f == KERN_QUICK_GELU ? QUICK : 1.0f;
    if (f == KERN_GELU_TANH)
        rate = 2 * GELU_A * (1.0f + 3 * GELU_B * v * v);
    return { large * s, s + rate * v * (e * s * s) };
}

/* A gate and a linear number after the clamp, and whether each was beyond it. */
struct gate {
    struct curve g;
    float l;
    bool g_beyond, l_beyond;
};

static __device__ inline struct gate gate_at (const struct kern_act &act, float g, float l)
{
    struct gate at = {};

    if (act.clamp > 0) {
        at.g_beyond = g > act.clamp;
        at.l_beyond = l > act.clamp || l < -act.clamp;
        g = not_above (g, act.clamp);
        l = bound (l, act.clamp);
    }
    at.g = curve_at (g, act.function);
    at.l = l + act.offset;
    return at;
}

static __device__ inline int64_t count_rows (int64_t rows, const int64_t *live)
{
    return live ? min (rows, *live) : rows;
}

/* --- forward --- */

/* One pack of a row of y: of x, or of the packs g and l. */
template <typename T, bool WIDE>
static __device__ inline void fwd_pack (const struct kern_act_fwd &a, int64_t row, int64_t pack,
                                        float factor)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t col = pack * SIZE, left = a.cols - col;
    const T *x = (const T *)a.x + row * a.cols * (a.act.gated ? 2 : 1) + col;
    cuda_pack<T> g = cuda_load<WIDE> (x, left), l = {}, y;

    if (a.act.gated)
        l = cuda_load<WIDE> (x + a.cols, left);
#pragma unroll
    for (int j = 0; j < SIZE; j++) {
        float v = cuda_float (g.x[j]);

        if (a.act.gated) {
            struct gate at = gate_at (a.act, v, cuda_float (l.x[j]));

            v = at.g.value * at.l;
        } else {
            v = curve_at (v, a.act.function).value;
        }
        y.x[j] = cuda_rounded<T> (factor * v);
    }
    cuda_store<WIDE> ((T *)a.y + row * a.cols + col, y, left);
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) act_fwd (struct kern_expert_act_fwd a)
{
    int64_t packs = cuda_packs<T> (a.fwd.cols), rows = count_rows (a.fwd.rows, a.live);

    for (int64_t i = cuda_thread (); i < rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack);

        fwd_pack<T, WIDE> (a.fwd, row, pack, a.factor ? a.factor[row] : 1);
    }
}

template <typename T>
static int launch_fwd (const struct cuda_call *call, const char *op,
                       const struct kern_expert_act_fwd *a, struct mg_error *err)
{
    int64_t stride = a->fwd.cols * (int64_t)sizeof (T);
    int64_t n = a->fwd.rows * cuda_packs<T> (a->fwd.cols);
    bool wide = cuda_is_wide (a->fwd.x, stride) && cuda_is_wide (a->fwd.y, stride);

    return wide ? cuda_launch_each<act_fwd<T, true>> (call, op, err, n, *a)
                : cuda_launch_each<act_fwd<T, false>> (call, op, err, n, *a);
}

int cuda_act_fwd (const struct cuda_call *call, const struct kern_act_fwd *a, struct mg_error *err)
{
    const struct kern_expert_act_fwd all = { *a, NULL, NULL };

    return CUDA_TYPED (a->dtype, launch_fwd, call, "act_fwd", &all, err);
}

int cuda_expert_act_fwd (const struct cuda_call *call, const struct kern_expert_act_fwd *a,
                         struct mg_error *err)
{
    return CUDA_TYPED (a->fwd.dtype, launch_fwd, call, "expert_act_fwd", a, err);
}

/* --- backward --- */

/* One pack of a row of dy: the gradient of its x.  Returns the product of dy and f (x).  dx may be
 * dy, so both are read before anything is written.
 */
template <typename T, bool WIDE>
static __device__ inline float bwd_pack (const struct kern_act_bwd &a, int64_t row, int64_t pack,
                                         float factor)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t col = pack * SIZE, left = a.cols - col;
    int64_t at = row * a.cols * (a.act.gated ? 2 : 1) + col;
    const T *x = (const T *)a.x + at;
    cuda_pack<T> g = cuda_load<WIDE> (x, left), l = {}, dg, dl;
    cuda_pack<T> dy = cuda_load<WIDE> ((const T *)a.dy + row * a.cols + col, left);
    float sum = 0;

    if (a.act.gated)
        l = cuda_load<WIDE> (x + a.cols, left);
#pragma unroll
    for (int j = 0; j < SIZE; j++) {
        float d = cuda_float (dy.x[j]), v = cuda_float (g.x[j]), first, second = 0, y;

        if (a.act.gated) {
            struct gate at = gate_at (a.act, v, cuda_float (l.x[j]));

            y = at.g.value * at.l;
            first = (at.g_beyond ? 0 : factor * d) * at.l * at.g.slope;
            second = (at.l_beyond ? 0 : factor * d) * at.g.value;
        } else {
            struct curve at = curve_at (v, a.act.function);

            y = at.value;
            first = factor * d * at.slope;
        }
        sum += d * y; // dy is 0 behind the last column
        dg.x[j] = cuda_rounded<T> (first);
        dl.x[j] = cuda_rounded<T> (second);
    }
    cuda_store<WIDE> ((T *)a.dx + at, dg, left);
    if (a.act.gated)
        cuda_store<WIDE> ((T *)a.dx + at + a.cols, dl, left);
    return sum;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) act_bwd (struct kern_expert_act_bwd a)
{
    int64_t packs = cuda_packs<T> (a.bwd.cols), rows = count_rows (a.bwd.rows, a.live);

    for (int64_t i = cuda_thread (); i < rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack);

        bwd_pack<T, WIDE> (a.bwd, row, pack, a.factor ? a.factor[row] : 1);
    }
}

/* The same with the products of rows: a block has a row. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) act_bwd_dot (struct kern_expert_act_bwd a)
{
    int64_t packs = cuda_packs<T> (a.bwd.cols), rows = count_rows (a.bwd.rows, a.live);

    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float factor = a.factor ? a.factor[row] : 1, sum = 0;

        for (int64_t pack = threadIdx.x; pack < packs; pack += blockDim.x)
            sum += bwd_pack<T, WIDE> (a.bwd, row, pack, factor);
        sum = cuda_block_sum (sum);
        if (threadIdx.x == 0)
            a.dfactor[row] = sum;
    }
}

template <typename T>
static int launch_bwd (const struct cuda_call *call, const char *op,
                       const struct kern_expert_act_bwd *a, struct mg_error *err)
{
    int64_t stride = a->bwd.cols * (int64_t)sizeof (T), packs = cuda_packs<T> (a->bwd.cols);
    bool wide = cuda_is_wide (a->bwd.x, stride) && cuda_is_wide (a->bwd.dy, stride)
                && cuda_is_wide (a->bwd.dx, stride);

    if (!a->dfactor)
        return wide ? cuda_launch_each<act_bwd<T, true>> (call, op, err, a->bwd.rows * packs, *a)
                    : cuda_launch_each<act_bwd<T, false>> (call, op, err, a->bwd.rows * packs, *a);
    return wide ? cuda_launch_each<act_bwd_dot<T, true>> (call, op, err,
                                                          a->bwd.rows * CUDA_THREADS, *a)
                : cuda_launch_each<act_bwd_dot<T, false>> (call, op, err,
                                                           a->bwd.rows * CUDA_THREADS, *a);
}

int cuda_act_bwd (const struct cuda_call *call, const struct kern_act_bwd *a, struct mg_error *err)
{
    const struct kern_expert_act_bwd all = { *a, NULL, NULL, NULL };

    return CUDA_TYPED (a->dtype, launch_bwd, call, "act_bwd", &all, err);
}

int cuda_expert_act_bwd (const struct cuda_call *call, const struct kern_expert_act_bwd *a,
                         struct mg_error *err)
{
    return CUDA_TYPED (a->bwd.dtype, launch_bwd, call, "expert_act_bwd", a, err);
}
