/* copy.cu - blocks of columns from one matrix to another, and blocks combined (contract in
 * kernels.h)
 *
 * A thread has one pack of a block.  Blocks are copied as bytes of elements; only combined blocks
 * are numbers.
 *
 * Sums and means flush denormals as x86 does, though the compiler keeps them.  A sum that is
 * denormal is exact, so it is flushed after it is formed.  A mean is not: x86 flushes a mean that
 * would still be below the least normal number if it were rounded to all bits of its significand.
 * A small mean is therefore formed 2^64 times as large.
 */

#include "kernels/cuda/block.h"

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) copy (struct kern_copy a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.rows * a.heads * packs; i += cuda_num_threads ()) {
        int64_t pack, head, block = cuda_divide (i, packs, &pack);
        int64_t row = cuda_divide (block, a.heads, &head), col = pack * SIZE;
        const T *x = (const T *)a.x + row * a.x_stride + head * a.x_stride_h + col;

        cuda_store<WIDE> ((T *)a.y + row * a.y_stride + head * a.y_stride_h + col,
                          cuda_load<WIDE> (x, a.cols - col), a.cols - col);
    }
}

/* The type in which elements are combined. */
template <typename T> struct accumulator {
    using type = float;
};
template <> struct accumulator<double> {
    using type = double;
};

static __device__ inline double widened (double x)
{
    return x;
}
template <typename T> static __device__ inline float widened (T x)
{
    return cuda_float (x);
}

template <typename T> static __device__ inline T narrowed (float x)
{
    return cuda_rounded<T> (x);
}
template <typename T> static __device__ inline T narrowed (double x)
{
    return x;
}

/* The least normal number. */
template <typename A> static __device__ constexpr A least ()
{
    return sizeof (A) == 4 ? (A)0x1p-126 : (A)0x1p-1022;
}

template <typename A> static __device__ inline A flushed (A x)
{
    return fabs (x) < least<A> () ? copysign (A (0), x) : x;
}

template <typename A> static __device__ inline A mean (A sum, int64_t n)
{
    const A large = (A)0x1p64, x = flushed (sum), q = x / (A)n;
    A scaled;

    if (!(fabs (q) < 2 * least<A> ()))
        return q;
    scaled = x * large / (A)n;
    return fabs (scaled) < least<A> () * large ? copysign (A (0), x) : scaled / large;
}

template <enum kern_combine COMBINE, typename A>
static __device__ inline A combined (A acc, A x)
{
    if (COMBINE == KERN_COMBINE_MAX)
        return flushed (x) > flushed (acc) || x != x ? x : acc;
    if (COMBINE == KERN_COMBINE_MIN)
        return flushed (x) < flushed (acc) || x != x ? x : acc;
    return flushed (flushed (acc) + flushed (x));
}

template <typename T, bool WIDE, enum kern_combine COMBINE>
__global__ void __launch_bounds__ (CUDA_THREADS) copy_combine (struct kern_copy a)
{
    using A = typename accumulator<T>::type;
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack), col = pack * SIZE, left = a.cols - col;
        A acc[SIZE] = {};
        cuda_pack<T> y;

        for (int64_t h = 0; h < a.heads; h++) {
            cuda_pack<T> x = cuda_load<WIDE> (
                (const T *)a.x + row * a.x_stride + h * a.x_stride_h + col, left);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                acc[j] = h == 0 ? widened (x.x[j])
                                : combined<COMBINE> (acc[j], (A)widened (x.x[j]));
        }
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            y.x[j] = narrowed<T> (COMBINE == KERN_COMBINE_MEAN && a.heads > 0
                                      ? mean (acc[j], a.heads) : acc[j]);
        cuda_store<WIDE> ((T *)a.y + row * a.y_stride + col, y, left);
    }
}

template <typename T, enum kern_combine COMBINE>
static int launch_combine (const struct cuda_call *call, const struct kern_copy *a, bool wide,
                           struct mg_error *err)
{
    int64_t n = a->rows * cuda_packs<T> (a->cols);

    return wide ? cuda_launch_each<copy_combine<T, true, COMBINE>> (call, "copy", err, n, *a)
                : cuda_launch_each<copy_combine<T, false, COMBINE>> (call, "copy", err, n, *a);
}

template <typename T>
static int launch (const struct cuda_call *call, const struct kern_copy *a, struct mg_error *err)
{
    const int64_t size = (int64_t)sizeof (T), packs = cuda_packs<T> (a->cols);
    bool wide = cuda_is_wide (a->x, a->x_stride * size) && cuda_is_wide (a->y, a->y_stride * size)
                && a->x_stride_h * size % 16 == 0
                && (a->combine || a->y_stride_h * size % 16 == 0);

    switch (a->combine) {
    case KERN_COMBINE_SUM:
        return launch_combine<T, KERN_COMBINE_SUM> (call, a, wide, err);
    case KERN_COMBINE_MEAN:
        return launch_combine<T, KERN_COMBINE_MEAN> (call, a, wide, err);
    case KERN_COMBINE_MAX:
        return launch_combine<T, KERN_COMBINE_MAX> (call, a, wide, err);
    case KERN_COMBINE_MIN:
        return launch_combine<T, KERN_COMBINE_MIN> (call, a, wide, err);
    default:
        return wide ? cuda_launch_each<copy<T, true>> (call, "copy", err,
                                                       a->rows * a->heads * packs, *a)
                    : cuda_launch_each<copy<T, false>> (call, "copy", err,
                                                        a->rows * a->heads * packs, *a);
    }
}

int cuda_copy (const struct cuda_call *call, const struct kern_copy *a, struct mg_error *err)
{
    return a->dtype == MG_FLOAT64 ? launch<double> (call, a, err)
                                  : CUDA_TYPED (a->dtype, launch, call, a, err);
}
