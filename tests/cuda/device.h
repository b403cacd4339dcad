/* device - the language of CUDA device code for g++.
 *
 * This header is included before a .cu file that g++ compiles (-include).  The toolkit's headers
 * have the types, the conversions and the host interface; this header has what they lack outside
 * of nvcc.  A name that is in neither does not compile: __activemask(), for example, and <<< >>>.
 * Shared memory is declared with SHARED() of kernels/cuda/ptx.h; __shared__ does not compile.
 *
 * The threads of a block are fibers of one host thread (launch.cpp).  A fiber runs until it waits
 * for others, so a barrier, a shuffle or a vote needs all threads that it names.
 */
#ifndef TESTS_CUDA_DEVICE_H
#define TESTS_CUDA_DEVICE_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>

#include "tests/cuda/launch.h"

#undef __shared__
#define __shared__ SHARED_of_ptx_h_declares_shared_memory
#undef __launch_bounds__
#define __launch_bounds__(...)

/* Where a call stands in the source. */
#define DEVICE_SITE const char *file = __builtin_FILE (), int line = __builtin_LINE ()
#define DEVICE_QUIET __attribute__ ((no_sanitize ("thread"))) inline

/* The running thread of the device. */
struct launch_thread {
    uint3 index;
    unsigned linear, lane, warp;
};
#define DEVICE_THREAD extern __thread __attribute__ ((tls_model ("initial-exec")))
extern "C" {
DEVICE_THREAD struct launch_thread *launch_self;
DEVICE_THREAD uint3 threadIdx, blockIdx, blockDim, gridDim; // set where fibers change

/* All threads of the block meet at one place of the source; returns the number of them whose
 * predicate is not 0.
 */
int launch_barrier (int predicate, const char *what, const char *file, int line);

/* The lanes of 'mask' meet.  The last one calls combine (cells, mask): cells[lane] is 'cell' of
 * that lane.
 */
typedef void (*launch_combine_f) (void **cells, unsigned mask);
void launch_warp (unsigned mask, void *cell, launch_combine_f combine, const char *what,
                  const char *file, int line);

void *launch_shared_dynamic (void);
/* The block's memory for a declaration; 'key' names the declaration. */
void *launch_shared_static (const void *key, size_t size);

/* True if 'address' is in the shared memory of a block, and the piece that holds it: size 0 if none
 * does.
 */
bool launch_shared_bounds (const void *address, const void **base, size_t *size);

/* cp.async: 'bytes' are written when they are waited for, zeros behind the first 'valid' bytes. */
void launch_copy_async (void *shared, const void *global, unsigned bytes, unsigned valid,
                        const char *file, int line);
void launch_copy_commit (void);
void launch_copy_wait (unsigned groups_left);

/* Tell the watch of an access that is not instrumented. */
enum launch_access { LAUNCH_READ, LAUNCH_WRITE, LAUNCH_ATOMIC };
void launch_note_access (const void *ptr, unsigned size, enum launch_access access);
void launch_note_exp (void);
void launch_note_mma (void);

/* End the kernel with a cudaError_t and a text. */
void launch_fail (int error, const char *fmt, ...)
    __attribute__ ((noreturn, cold, format (printf, 2, 3)));
}

enum { warpSize = 32 };

/* Barriers. */
inline void __syncthreads (DEVICE_SITE)
{
    launch_barrier (0, "__syncthreads", file, line);
}
inline int __syncthreads_count (int p, DEVICE_SITE)
{
    return launch_barrier (p, "__syncthreads_count", file, line);
}
inline int __syncthreads_or (int p, DEVICE_SITE)
{
    return launch_barrier (p, "__syncthreads_or", file, line) != 0;
}
inline int __syncthreads_and (int p, DEVICE_SITE)
{
    return launch_barrier (!p, "__syncthreads_and", file, line) == 0;
}
inline void __threadfence () {}
inline void __threadfence_block () {}
inline void __trap ()
{
    launch_fail (cudaErrorLaunchFailure, "__trap ()");
}

/* Shuffles.  The value of a lane that is not in the mask is poison. */
template <typename T> struct device_shuffle {
    T in, out;
    int from;

    DEVICE_QUIET static void combine (void **cells, unsigned mask)
    {
        for (int lane = 0; lane < 32; lane++) {
            auto *me = (device_shuffle *)cells[lane];

            if (!(mask >> lane & 1))
                continue;
            if (mask >> me->from & 1)
                memcpy ((void *)&me->out, &((device_shuffle *)cells[me->from])->in, sizeof (T));
            else
                memset ((void *)&me->out, 0xff, sizeof (T));
        }
    }
    DEVICE_QUIET static T run (unsigned mask, T value, int from, const char *what,
                               const char *file, int line)
    {
        device_shuffle me = { value, value, from };

        launch_warp (mask, &me, combine, what, file, line);
        return me.out;
    }
};

/* A lane whose source is outside of its segment of 'width' lanes gets its own value. */
DEVICE_QUIET int device_lane_within (int from, int width)
{
    int lane = (int)launch_self->lane, first = lane & ~(width - 1);

    return from < first || from >= first + width ? lane : from;
}
template <typename T>
DEVICE_QUIET T __shfl_sync (unsigned mask, T v, int src, int width = 32, DEVICE_SITE)
{
    int from = ((int)launch_self->lane & ~(width - 1)) + (src & (width - 1));

    return device_shuffle<T>::run (mask, v, from, "__shfl_sync", file, line);
}
template <typename T>
DEVICE_QUIET T __shfl_xor_sync (unsigned mask, T v, int bits, int width = 32, DEVICE_SITE)
{
    int lane = (int)launch_self->lane, from = lane ^ bits;

    /* A segment further down may be read, one further up may not. */
    if (from >= (lane & ~(width - 1)) + width)
        from = lane;
    return device_shuffle<T>::run (mask, v, from, "__shfl_xor_sync", file, line);
}
template <typename T>
DEVICE_QUIET T __shfl_down_sync (unsigned mask, T v, unsigned by, int width = 32, DEVICE_SITE)
{
    int from = device_lane_within ((int)launch_self->lane + (int)by, width);

    return device_shuffle<T>::run (mask, v, from, "__shfl_down_sync", file, line);
}
template <typename T>
DEVICE_QUIET T __shfl_up_sync (unsigned mask, T v, unsigned by, int width = 32, DEVICE_SITE)
{
    int from = device_lane_within ((int)launch_self->lane - (int)by, width);

    return device_shuffle<T>::run (mask, v, from, "__shfl_up_sync", file, line);
}

/* Votes and reductions of integers: one fold over the lanes in ascending order. */
template <typename T, typename F> struct device_fold {
    DEVICE_QUIET static void combine (void **cells, unsigned mask)
    {
        T sum = F::first ();

        for (int lane = 0; lane < 32; lane++)
            if (mask >> lane & 1)
                sum = F::next (sum, *(T *)cells[lane], lane);
        for (int lane = 0; lane < 32; lane++)
            if (mask >> lane & 1)
                *(T *)cells[lane] = sum;
    }
    DEVICE_QUIET static T run (unsigned mask, T value, const char *what, const char *file,
                               int line)
    {
        launch_warp (mask, &value, combine, what, file, line);
        return value;
    }
};
#define DEVICE_FOLD(NAME, T, FIRST, NEXT)                                                \
    struct device_##NAME {                                                               \
        DEVICE_QUIET static T first () { return FIRST; }                                 \
        DEVICE_QUIET static T next (T r, T x, int lane) { (void)lane; return NEXT; }     \
    };                                                                                   \
    DEVICE_QUIET T __##NAME##_sync (unsigned mask, T v, DEVICE_SITE)                     \
    {                                                                                    \
        return device_fold<T, device_##NAME>::run (mask, v, "__" #NAME "_sync", file,    \
                                                   line);                                \
    }
DEVICE_FOLD (ballot, unsigned, 0, r | (unsigned)(x != 0) << lane)
DEVICE_FOLD (any, int, 0, r | (x != 0))
DEVICE_FOLD (all, int, 1, r & (x != 0))
DEVICE_FOLD (reduce_add, unsigned, 0, r + x)
DEVICE_FOLD (reduce_max, unsigned, 0, r > x ? r : x)
DEVICE_FOLD (reduce_min, unsigned, ~0u, r < x ? r : x)
DEVICE_FOLD (reduce_or, unsigned, 0, r | x)
DEVICE_FOLD (reduce_and, unsigned, ~0u, r & x)

inline void __syncwarp (unsigned mask = 0xffffffff, DEVICE_SITE)
{
    launch_warp (mask, nullptr, [] (void **, unsigned) {}, "__syncwarp", file, line);
}

/* Atomics.  Fibers change only where they wait, so plain code is atomic. */
#define DEVICE_ATOMIC(NAME, NEXT)                                                        \
    template <typename T> DEVICE_QUIET T NAME (T *p, std::common_type_t<T> v)            \
    {                                                                                    \
        launch_note_access (p, sizeof (T), LAUNCH_ATOMIC);                               \
        T old = *p;                                                                      \
        *p = (NEXT);                                                                     \
        return old;                                                                      \
    }
DEVICE_ATOMIC (atomicAdd, old + v)
DEVICE_ATOMIC (atomicSub, old - v)
DEVICE_ATOMIC (atomicMax, old > v ? old : v)
DEVICE_ATOMIC (atomicMin, old < v ? old : v)
DEVICE_ATOMIC (atomicExch, v)
DEVICE_ATOMIC (atomicOr, old | v)
DEVICE_ATOMIC (atomicAnd, old & v)
DEVICE_ATOMIC (atomicXor, old ^ v)
template <typename T>
DEVICE_QUIET T atomicCAS (T *p, std::common_type_t<T> expected, std::common_type_t<T> v)
{
    launch_note_access (p, sizeof (T), LAUNCH_ATOMIC);
    T old = *p;
    *p = old == expected ? v : old;
    return old;
}

/* Loads and stores with hints for the caches. */
template <typename T> inline T __ldg (const T *p) { return *p; }
template <typename T> inline T __ldcs (const T *p) { return *p; }
template <typename T> inline T __ldcg (const T *p) { return *p; }
template <typename T> inline void __stcs (T *p, T v) { *p = v; }
template <typename T> inline void __stcg (T *p, T v) { *p = v; }

/* Bits and numbers.  The last bits of the device's fast functions differ. */
template <typename To, typename From> DEVICE_QUIET To device_bits (From from)
{
    To to;

    static_assert (sizeof (to) == sizeof (from), "the same size");
    memcpy (&to, &from, sizeof (to));
    return to;
}
inline int __float_as_int (float v) { return device_bits<int> (v); }
inline unsigned __float_as_uint (float v) { return device_bits<unsigned> (v); }
inline float __int_as_float (int v) { return device_bits<float> (v); }
inline float __uint_as_float (unsigned v) { return device_bits<float> (v); }
inline long long __double_as_longlong (double v) { return device_bits<long long> (v); }
inline double __longlong_as_double (long long v) { return device_bits<double> (v); }
inline int __popc (unsigned v) { return __builtin_popcount (v); }
inline int __clz (int v) { return v ? __builtin_clz ((unsigned)v) : 32; }
inline int __ffs (int v) { return __builtin_ffs (v); }
inline unsigned __umulhi (unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline void sincospi (double x, double *s, double *c) { sincos (M_PI * x, s, c); }
inline float rsqrtf (float x) { return 1.0f / sqrtf (x); }
inline float __fdividef (float a, float b) { return a / b; }
inline float __fmaf_rn (float a, float b, float c) { return fmaf (a, b, c); }
inline float __fadd_rn (float a, float b) { return a + b; }
inline float __fmul_rn (float a, float b) { return a * b; }
inline float __fsqrt_rn (float a) { return sqrtf (a); }
inline float __saturatef (float x) { return !(x > 0) ? 0 : x > 1 ? 1 : x; }
inline float __logf (float x) { return logf (x); }
inline float device_expf (float x) { launch_note_exp (); return (expf) (x); }
inline float device_exp2f (float x) { launch_note_exp (); return (exp2f) (x); }
inline float __expf (float x) { return device_expf (x); }
#define expf(x) device_expf (x)
#define exp2f(x) device_exp2f (x)
/* As in CUDA, min() and max() of floats are fminf() and fmaxf(): a NaN loses. */
template <typename A, typename B> DEVICE_QUIET std::common_type_t<A, B> min (A a, B b)
{
    std::common_type_t<A, B> x = a, y = b;

    return x < y || y != y ? x : y;
}
template <typename A, typename B> DEVICE_QUIET std::common_type_t<A, B> max (A a, B b)
{
    std::common_type_t<A, B> x = a, y = b;

    return x > y || y != y ? x : y;
}

/* Launches: describe the kernel, then call the runtime as the toolkit's template does. */
template <typename... P> struct device_call {
    template <size_t... I>
    DEVICE_QUIET static void expand (const void *kernel, void **args, std::index_sequence<I...>)
    {
        ((void (*) (P...))kernel) (*(std::remove_reference_t<P> *)args[I]...);
    }
    DEVICE_QUIET static void run (const void *kernel, void **args)
    {
        expand (kernel, args, std::index_sequence_for<P...> ());
    }
};
template <typename... P, typename... A>
inline cudaError_t device_launch (const char *name, const cudaLaunchConfig_t *config,
                                  void (*kernel) (P...), A &&...args)
{
    const struct launch_kernel description
        = { name, device_call<P...>::run, (int)sizeof...(P), { sizeof (P)... } };

    static_assert (sizeof...(P) <= LAUNCH_MAX_PARAMETERS, "too many parameters");
    launch_describe ((const void *)kernel, &description);
    return [&] (P... copies) {
        void *list[] = { (void *)&copies..., nullptr };

        return cudaLaunchKernelExC (config, (const void *)kernel, list);
    }(std::forward<A> (args)...);
}
#define DEVICE_TEXT(x) #x
#define DEVICE_PLACE(line) __FILE__ ":" DEVICE_TEXT (line)
#define DEVICE_SECOND(config, kernel, ...) #kernel " of " DEVICE_PLACE (__LINE__)
#define cudaLaunchKernelEx(...) device_launch (DEVICE_SECOND (__VA_ARGS__, ), __VA_ARGS__)

#include "tests/cuda/ptx_host.h"

#endif /* TESTS_CUDA_DEVICE_H */
