/* adamw.cu - AdamW (formula in kernels.h)
 *
 * If all arrays are float32, a thread has a pack of each array.  Else a thread has one element,
 * which it reads and writes in the way that the element is stored.
 */

#include <math.h>

#include "kernels/cuda/state.h"

/* The formula's scalars, formed in double, rounded once. */
struct scalars {
    float beta1, beta2, rest1, rest2, decay, step, root, eps, scale;
};

static struct scalars scalars_of (const struct kern_adamw *a)
{
    struct scalars s;

    s.beta1 = (float)a->beta1;
    s.beta2 = (float)a->beta2;
    s.rest1 = (float)(1 - a->beta1);
    s.rest2 = (float)(1 - a->beta2);
    s.decay = (float)(1 - a->lr * a->weight_decay);
    s.step = (float)(a->lr / a->c1);
    s.root = (float)(1 / sqrt (a->c2));
    s.eps = (float)a->eps;
    s.scale = (float)a->grad_scale;
    return s;
}

static __device__ inline void update (const struct scalars &s, float grad, float *param, float *m,
                                      float *v)
{
    float g = grad * s.scale;

    *m = s.beta1 * *m + s.rest1 * g;
    *v = s.beta2 * *v + s.rest2 * (g * g);
    *param = *param * s.decay - s.step * *m / (sqrtf (*v) * s.root + s.eps);
}

template <typename T> struct alignas (4 * sizeof (T)) quad {
    T x[4];
};

template <typename T>
static __device__ inline void store_quad (void *to, int64_t i, const cuda_pack<float> &param)
{
    quad<T> rounded;

#pragma unroll
    for (int j = 0; j < 4; j++)
        rounded.x[j] = cuda_rounded<T> (param.x[j]);
    *(quad<T> *)((T *)to + i) = rounded;
}

/* The copies of a pack from i on. */
static __device__ inline void store_copy (const struct kern_adamw &a, int64_t i,
                                          const cuda_pack<float> &param)
{
    bool whole = a.n - i >= 4 && (uintptr_t)a.copy % sizeof (quad<__half>) == 0;

    if (whole && a.copy_dtype == MG_BFLOAT16)
        return store_quad<__nv_bfloat16> (a.copy, i, param);
    if (whole && a.copy_dtype == MG_FLOAT16)
        return store_quad<__half> (a.copy, i, param);
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (i + j < a.n)
            cuda_set_typed_element (a.copy, i + j, param.x[j], a.copy_dtype);
}

template <bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) adamw_plain (struct kern_adamw a, struct scalars s)
{
    const int SIZE = cuda_pack<float>::SIZE;

    for (int64_t i = cuda_thread () * SIZE; i < a.n; i += cuda_num_threads () * SIZE) {
        float *at[] = { (float *)a.param.data + i, (float *)a.m.data + i, (float *)a.v.data + i };
        cuda_pack<float> grad = cuda_load<WIDE> ((const float *)a.grad + i, a.n - i);
        cuda_pack<float> param = cuda_load<WIDE> (at[0], a.n - i);
        cuda_pack<float> m = cuda_load<WIDE> (at[1], a.n - i);
        cuda_pack<float> v = cuda_load<WIDE> (at[2], a.n - i);

#pragma unroll
        for (int j = 0; j < SIZE; j++)
            update (s, grad.x[j], &param.x[j], &m.x[j], &v.x[j]);
        cuda_store<WIDE> (at[0], param, a.n - i);
        cuda_store<WIDE> (at[1], m, a.n - i);
        cuda_store<WIDE> (at[2], v, a.n - i);
        if (a.copy)
            store_copy (a, i, param);
    }
}

/* The new values of element i. */
static __device__ inline struct kern_three compute (const struct kern_adamw &a,
                                                    const struct scalars &s, int64_t i)
{
    struct kern_three x = { cuda_state_get (a.param, i), cuda_state_get (a.m, i),
                            cuda_state_get (a.v, i) };

    update (s, cuda_typed_element (a.grad, i, a.grad_dtype), &x.param, &x.m, &x.v);
    return x;
}

/* In place, but with new scales, which the arguments' states have here. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    adamw_stored (struct kern_adamw a, struct scalars s, struct kern_state param,
                  struct kern_state m, struct kern_state v)
{
    for (int64_t i = cuda_thread (); i < a.n; i += cuda_num_threads ()) {
        struct kern_three x = compute (a, s, i);

        cuda_state_put (param, i, x.param);
        cuda_state_put (m, i, x.m);
        cuda_state_put (v, i, x.v);
        if (a.copy)
            cuda_set_typed_element (a.copy, i, cuda_state_get (param, i), a.copy_dtype);
    }
}

static int check (const struct kern_adamw *a, struct mg_error *err)
{
    return kern_state_check (&a->param, "adamw: parameter", err) < 0
                   || kern_state_check (&a->m, "adamw: first moment", err) < 0
                   || kern_state_check (&a->v, "adamw: second moment", err) < 0
               ? -1 : 0;
}

static bool is_plain (const struct kern_state *s)
{
    return s->dtype == MG_FLOAT32 && !s->upper;
}

int cuda_adamw (const struct cuda_call *call, const struct kern_adamw *a, struct mg_error *err)
{
    const struct scalars s = scalars_of (a);
    struct kern_state param = a->param, m = a->m, v = a->v;
    bool wide = cuda_is_wide (a->param.data, 0) && cuda_is_wide (a->m.data, 0)
                && cuda_is_wide (a->v.data, 0) && cuda_is_wide (a->grad, 0);

    if (check (a, err) < 0)
        return -1;
    param.scale = a->scale.param;
    m.scale = a->scale.m;
    v.scale = a->scale.v;
    if (!is_plain (&param) || !is_plain (&m) || !is_plain (&v) || a->grad_dtype != MG_FLOAT32)
        return cuda_launch_each<adamw_stored> (call, "adamw", err, a->n, *a, s, param, m, v);
    return wide ? cuda_launch_each<adamw_plain<true>> (call, "adamw", err,
                                                       cuda_packs<float> (a->n), *a, s)
                : cuda_launch_each<adamw_plain<false>> (call, "adamw", err,
                                                        cuda_packs<float> (a->n), *a, s);
}

/* --- largest magnitudes --- */

/* Magnitudes of finite floats have the order of their bits. */
static __device__ inline uint32_t magnitude (float x)
{
    uint32_t bits = __float_as_uint (x) & 0x7fffffff;

    return bits < 0x7f800000 ? bits : 0;
}

/* The largest of the block's three values, in thread 0; once in a kernel. */
static __device__ inline uint3 largest (uint3 mine)
{
    SHARED (uint3, most, [CUDA_THREADS]);

    most[threadIdx.x] = mine;
    for (unsigned half = CUDA_THREADS / 2; half > 0; half /= 2) {
        __syncthreads ();
        if (threadIdx.x < half) {
            uint3 a = most[threadIdx.x], b = most[threadIdx.x + half];

            most[threadIdx.x] = make_uint3 (max (a.x, b.x), max (a.y, b.y), max (a.z, b.z));
        }
    }
    return threadIdx.x == 0 ? most[0] : mine;
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    adamw_largest (struct kern_adamw a, struct scalars s, uint3 *part)
{
    uint3 most = { 0, 0, 0 };

    for (int64_t i = cuda_thread (); i < a.n; i += cuda_num_threads ()) {
        struct kern_three x = compute (a, s, i);

        most = make_uint3 (max (most.x, magnitude (x.param)), max (most.y, magnitude (x.m)),
                           max (most.z, magnitude (x.v)));
    }
    most = largest (most);
    if (threadIdx.x == 0)
        part[blockIdx.x] = most;
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    adamw_largest_parts (const uint3 *part, unsigned parts, struct kern_three *out)
{
    uint3 most = { 0, 0, 0 };

    for (unsigned i = threadIdx.x; i < parts; i += CUDA_THREADS)
        most = make_uint3 (max (most.x, part[i].x), max (most.y, part[i].y),
                           max (most.z, part[i].z));
    most = largest (most);
    if (threadIdx.x == 0)
        *out = { __uint_as_float (most.x), __uint_as_float (most.y), __uint_as_float (most.z) };
}

int cuda_adamw_largest (const struct cuda_call *call, const struct kern_adamw_largest *a,
                        struct mg_error *err)
{
    const struct scalars s = scalars_of (&a->update);
    int64_t blocks = (a->update.n + CUDA_THREADS - 1) / CUDA_THREADS;
    unsigned parts = cuda_blocks (blocks < CUDA_PARTS ? blocks : (int64_t)CUDA_PARTS);
    uint3 *part = (uint3 *)call->scratch;

    if (check (&a->update, err) < 0
        || cuda_launch_each<adamw_largest> (call, "adamw_largest", err,
                                            (int64_t)parts * CUDA_THREADS, a->update, s, part) < 0)
        return -1;
    return cuda_launch_each<adamw_largest_parts> (call, "adamw_largest", err, 1,
                                                  (const uint3 *)part, parts, a->out);
}
