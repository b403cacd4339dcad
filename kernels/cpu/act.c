/* act.c - activations and their derivatives, plain, gated and weighted (formulas in kernels.h)
 *
 * The functions that are x s (x), s between 0 and 1, are formed from an exponential e that is
 * small where s is near 1: s = 1 / (1 + e), and s (1 - s) = e s^2.  This needs no tanh, and
 * nothing cancels where s is near 0 or 1.  Where e is about to leave float's range, s is 0 or 1 in
 * float, and e is formed from a bounded x.  For the tanh form of GeLU, (1 + tanh u) / 2 =
 * 1 / (1 + e^-2u), with u = a x (1 + b x^2).
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

static const float gelu_a = 0.79788456f, gelu_b = 0.044715f, quick = 1.702f;

/* x if |x| <= most, else most with its sign; keeps a NaN. */
VEC_INLINE vf bound (vf x, float most)
{
    return vec_min (vec_set (most), vec_max (vec_set (-most), x));
}

/* e^-2u of a bounded x */
VEC_INLINE vf exp_2u (vf x)
{
    return vec_exp (-2 * gelu_a * x * (1.0f + gelu_b * x * x));
}

/* Beyond this |x| the function is x or 0 in float. */
VEC_INLINE float range (const enum kern_function f)
{
    return f == KERN_GELU_TANH ? 10.0f : f == KERN_GELU ? 13.0f
           : f == KERN_QUICK_GELU ? 47.0f : 80.0f;
}

/* erfc (z) e^(z^2) of 0 <= z <= 9.3: t P (t), t = 1 / (1 + z / 2), P the minimax polynomial for the
 * relative error (4e-8).
 */
VEC_INLINE vf scaled_erfc (vf z)
{
    vf t = 1.0f / (1.0f + 0.5f * z), p = vec_set (-0x1.e26ea6p-5f);

    p = p * t + 0x1.22829cp-2f;
    p = p * t + -0x1.f10816p-2f;
    p = p * t + 0x1.1a999ep-2f;
    p = p * t + -0x1.9c7e62p-6f;
    p = p * t + 0x1.9dd68cp-3f;
    p = p * t + 0x1.f232e4p-3f;
    p = p * t + 0x1.212144p-2f;
    p = p * t + 0x1.20db98p-2f;
    return p * t;
}

/* The normal distribution's function at a bounded x; *density = its derivative. */
VEC_INLINE vf normal (vf x, vf *density)
{
    vf z = vec_max (x, -x) * 0.70710678f, e = vec_exp (-0.5f * x * x);
    vf tail = 0.5f * e * scaled_erfc (z);

    *density = 0.39894228f * e;
    return vec_select (x > 0.0f, 1.0f - tail, tail);
}

/* The e of a bounded x, see the top. */
VEC_INLINE vf small (vf x, const enum kern_function f)
{
    return f == KERN_GELU_TANH ? exp_2u (x) : f == KERN_QUICK_GELU ? vec_exp (-quick * x)
                                                                   : vec_exp (-x);
}

VEC_INLINE vf value (vf x, const enum kern_function f)
{
    vf near = bound (x, range (f)), density;

    if (f == KERN_RELU || f == KERN_SQUARED_RELU) {
        vf r = vec_max ((vf){ 0 }, x);

        return f == KERN_RELU ? r : r * r;
    }
    if (f == KERN_GELU)
        return vec_max (near, x) * normal (near, &density);
    return vec_max (near, x) * (1.0f / (1.0f + small (near, f)));
}

VEC_INLINE vf slope (vf x, const enum kern_function f)
{
    vf v = bound (x, range (f)), density, s, e;

    if (f == KERN_RELU)
        return vec_select (x > 0.0f, vec_set (1.0f), vec_select (x == x, (vf){ 0 }, x));
    if (f == KERN_SQUARED_RELU)
        return 2.0f * vec_max ((vf){ 0 }, x);
    if (f == KERN_GELU) {
        s = normal (v, &density);
        return s + v * density;
    }
    e = small (v, f);
    s = 1.0f / (1.0f + e);
    if (f == KERN_GELU_TANH)
        return s + 2 * gelu_a * v * (e * s * s) * (1.0f + 3 * gelu_b * v * v);
    return s + (f == KERN_QUICK_GELU ? quick : 1.0f) * v * (e * s * s);
}

/* --- plain --- */

VEC_INLINE void fwd (const struct kern_act_fwd *a, int64_t begin, int64_t end, float factor,
                     const enum kern_function f, const enum mg_dtype type)
{
    for (int64_t i = begin; i < end; i += VEC)
        vec_put (a->y, i, factor * value (vec_get (a->x, i, end - i, type), f), end - i, type);
}

VEC_INLINE void bwd (const struct kern_act_bwd *a, int64_t begin, int64_t end, float factor,
                     const enum kern_function f, const enum mg_dtype type)
{
    for (int64_t i = begin; i < end; i += VEC) {
        vf d = slope (vec_get (a->x, i, end - i, type), f);

        vec_put (a->dx, i, factor * vec_get (a->dy, i, end - i, type) * d, end - i, type);
    }
}

/* *out = the product of dy and f (x) in row 'row'. */
VEC_INLINE void dot (const struct kern_act_bwd *a, int64_t row, float *out,
                     const enum kern_function f, const enum mg_dtype type)
{
    vf sum = { 0 };

    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t i = row * a->cols + c, left = a->cols - c;

        sum += vec_get (a->dy, i, left, type) * value (vec_get (a->x, i, left, type), f);
    }
    *out = vec_sum (sum);
}

/* --- gated --- */

/* At most 'most'; keeps a NaN. */
VEC_INLINE vf not_above (vf x, float most)
{
    return vec_min (vec_set (most), x);
}

/* g and l of a row from column 'c' on, not clamped; f (g) (l + offset) of these. */
VEC_INLINE vf gate_of (const void *x, int64_t row, int64_t cols, int64_t c,
                       const enum mg_dtype type)
{
    return vec_get (x, 2 * row * cols + c, cols - c, type);
}

VEC_INLINE vf linear_of (const void *x, int64_t row, int64_t cols, int64_t c,
                         const enum mg_dtype type)
{
    return vec_get (x, (2 * row + 1) * cols + c, cols - c, type);
}

VEC_INLINE vf gated_value (const struct kern_act *act, vf g, vf l, const enum kern_function f)
{
    if (act->clamp > 0) {
        g = not_above (g, act->clamp);
        l = bound (l, act->clamp);
    }
    return value (g, f) * (l + act->offset);
}

/* Row 'row'. */
VEC_INLINE void gated_fwd (const struct kern_act_fwd *a, int64_t row, float factor,
                           const enum kern_function f, const enum mg_dtype type)
{
    for (int64_t c = 0; c < a->cols; c += VEC) {
        vf g = gate_of (a->x, row, a->cols, c, type), l = linear_of (a->x, row, a->cols, c, type);

        vec_put (a->y, row * a->cols + c, factor * gated_value (&a->act, g, l, f), a->cols - c,
                 type);
    }
}

VEC_INLINE void gated_bwd (const struct kern_act_bwd *a, int64_t row, float factor,
                           const enum kern_function f, const enum mg_dtype type)
{
    const struct kern_act *act = &a->act;
    int64_t gate = 2 * row * a->cols, linear = gate + a->cols;

    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t left = a->cols - c;
        vf g = gate_of (a->x, row, a->cols, c, type), l = linear_of (a->x, row, a->cols, c, type);
        vf dy = factor * vec_get (a->dy, row * a->cols + c, left, type), dg = dy, dl = dy;

        if (act->clamp > 0) {
            dg = vec_select (g > act->clamp, (vf){ 0 }, dg);
            dl = vec_select ((l > act->clamp) | (l < -act->clamp), (vf){ 0 }, dl);
            g = not_above (g, act->clamp);
            l = bound (l, act->clamp);
        }
        vec_put (a->dx, gate + c, dg * (l + act->offset) * slope (g, f), left, type);
        vec_put (a->dx, linear + c, dl * value (g, f), left, type);
    }
}

VEC_INLINE void gated_dot (const struct kern_act_bwd *a, int64_t row, float *out,
                           const enum kern_function f, const enum mg_dtype type)
{
    vf sum = { 0 };

    for (int64_t c = 0; c < a->cols; c += VEC) {
        vf g = gate_of (a->x, row, a->cols, c, type), l = linear_of (a->x, row, a->cols, c, type);

        sum += vec_get (a->dy, row * a->cols + c, a->cols - c, type)
               * gated_value (&a->act, g, l, f);
    }
    *out = vec_sum (sum);
}

/* --- ops --- */

/* Each function and type is a loop of its own. */
#define ACT_TYPED(function, type, loop, ...)                                                  \
    do {                                                                                      \
        if ((function) == KERN_GELU_TANH)                                                     \
            VEC_TYPED (type, loop, __VA_ARGS__, KERN_GELU_TANH);                              \
        else if ((function) == KERN_GELU)                                                     \
            VEC_TYPED (type, loop, __VA_ARGS__, KERN_GELU);                                   \
        else if ((function) == KERN_QUICK_GELU)                                               \
            VEC_TYPED (type, loop, __VA_ARGS__, KERN_QUICK_GELU);                             \
        else if ((function) == KERN_SILU)                                                     \
            VEC_TYPED (type, loop, __VA_ARGS__, KERN_SILU);                                   \
        else if ((function) == KERN_RELU)                                                     \
            VEC_TYPED (type, loop, __VA_ARGS__, KERN_RELU);                                   \
        else                                                                                  \
            VEC_TYPED (type, loop, __VA_ARGS__, KERN_SQUARED_RELU);                           \
    } while (0)

int cpu_act_fwd (const struct kernels *k, const struct kern_act_fwd *a, struct mg_error *err)
{
    int64_t n = a->rows * a->cols, parts = a->act.gated ? a->rows : cpu_blocks (n);

    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (n > CPU_SERIAL)
    for (int64_t p = 0; p < parts; p++) {
        if (a->act.gated)
            ACT_TYPED (a->act.function, a->dtype, gated_fwd, a, p, 1);
        else
            ACT_TYPED (a->act.function, a->dtype, fwd, a, p * CPU_BLOCK,
                       cpu_min ((p + 1) * CPU_BLOCK, n), 1);
    }
    return 0;
}

int cpu_act_bwd (const struct kernels *k, const struct kern_act_bwd *a, struct mg_error *err)
{
    int64_t n = a->rows * a->cols, parts = a->act.gated ? a->rows : cpu_blocks (n);

    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (n > CPU_SERIAL)
    for (int64_t p = 0; p < parts; p++) {
        if (a->act.gated)
            ACT_TYPED (a->act.function, a->dtype, gated_bwd, a, p, 1);
        else
            ACT_TYPED (a->act.function, a->dtype, bwd, a, p * CPU_BLOCK,
                       cpu_min ((p + 1) * CPU_BLOCK, n), 1);
    }
    return 0;
}

/* --- rows of experts --- */

static int64_t count_rows (int64_t rows, const int64_t *live)
{
    return live ? cpu_min (rows, *live) : rows;
}

static void expert_row_fwd (const struct kern_act_fwd *a, int64_t row, float factor)
{
    if (a->act.gated)
        ACT_TYPED (a->act.function, a->dtype, gated_fwd, a, row, factor);
    else
        ACT_TYPED (a->act.function, a->dtype, fwd, a, row * a->cols, (row + 1) * a->cols, factor);
}

static void expert_row_bwd (const struct kern_act_bwd *a, int64_t row, float factor)
{
    if (a->act.gated)
        ACT_TYPED (a->act.function, a->dtype, gated_bwd, a, row, factor);
    else
        ACT_TYPED (a->act.function, a->dtype, bwd, a, row * a->cols, (row + 1) * a->cols, factor);
}

static void expert_row_dot (const struct kern_act_bwd *a, int64_t row, float *out)
{
    if (a->act.gated)
        ACT_TYPED (a->act.function, a->dtype, gated_dot, a, row, out);
    else
        ACT_TYPED (a->act.function, a->dtype, dot, a, row, out);
}

int cpu_expert_act_fwd (const struct kernels *k, const struct kern_expert_act_fwd *a,
                        struct mg_error *err)
{
    int64_t rows = count_rows (a->fwd.rows, a->live);

    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (rows * a->fwd.cols > CPU_SERIAL)
    for (int64_t row = 0; row < rows; row++)
        expert_row_fwd (&a->fwd, row, a->factor ? a->factor[row] : 1);
    return 0;
}

/* dfactor first: dx may be dy. */
int cpu_expert_act_bwd (const struct kernels *k, const struct kern_expert_act_bwd *a,
                        struct mg_error *err)
{
    int64_t rows = count_rows (a->bwd.rows, a->live);

    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (rows * a->bwd.cols > CPU_SERIAL)
    for (int64_t row = 0; row < rows; row++) {
        if (a->dfactor)
            expert_row_dot (&a->bwd, row, &a->dfactor[row]);
        expert_row_bwd (&a->bwd, row, a->factor ? a->factor[row] : 1);
    }
    return 0;
}
