/* conform.cu - what the double of CUDA claims of device code, as checks that also run on a GPU
 *
 * Each check runs one block, whose threads write floats, and compares these with what the CUDA
 * and PTX manuals say.  Numbers are small integers where a device may round in another way.  The
 * program writes TAP; it exits with 1 if a check fails.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cuda_runtime.h>

#include "kernels/cuda/block.h"

enum { IN = 1024, OUT = 2048, THREADS = 64 };

static int checks, failed;

static void report (bool good, const char *name)
{
    failed += !good;
    printf ("%s %d - %s\n", good ? "ok" : "not ok", ++checks, name);
}

/* A claim has: void operator() (in, out), run by each thread; THREADS_OF_IT threads. */
template <typename Claim> __global__ void __launch_bounds__ (1024) run_claim (Claim claim,
                                                                            const float *in,
                                                                            float *out)
{
    claim (in, out);
}

/* Run a claim; false if CUDA reports an error.  Outputs that nobody writes are NaN. */
template <typename Claim>
static bool run (Claim claim, dim3 threads, const float *in, float *out)
{
    float *in_device = nullptr, *out_device = nullptr;
    cudaLaunchConfig_t config = {};
    bool good = cudaMalloc ((void **)&in_device, IN * sizeof (float)) == cudaSuccess
                && cudaMalloc ((void **)&out_device, OUT * sizeof (float)) == cudaSuccess;

    config.gridDim = dim3 (1);
    config.blockDim = threads;
    config.dynamicSmemBytes = 8 << 10;
    good = good
           && cudaMemcpy (in_device, in, IN * sizeof (float), cudaMemcpyHostToDevice) == cudaSuccess
           && cudaMemset (out_device, 0xff, OUT * sizeof (float)) == cudaSuccess
           && cudaLaunchKernelEx (&config, run_claim<Claim>, claim, (const float *)in_device,
                                  out_device)
                  == cudaSuccess
           && cudaDeviceSynchronize () == cudaSuccess
           && cudaMemcpy (out, out_device, OUT * sizeof (float), cudaMemcpyDeviceToHost)
                  == cudaSuccess;
    cudaFree (in_device);
    cudaFree (out_device);
    return good;
}

/* The same bits, or a NaN on both sides. */
static bool same (float a, float b)
{
    return (isnan (a) && isnan (b)) || (a == b && signbit (a) == signbit (b));
}

/* Check that out[i] is want (i) for the first n. */
template <typename Claim, typename Want>
static void claim_is (const char *name, Claim claim, dim3 threads, const float *in, int n,
                      Want want)
{
    static float out[OUT];
    bool good = run (claim, threads, in, out);

    for (int i = 0; i < n && good; i++)
        if (!same (out[i], want (i))) {
            printf ("# %s: value %d is %g, not %g\n", name, i, out[i], want (i));
            good = false;
        }
    report (good, name);
}

/* Small integers. */
static void fill (float *in)
{
    for (int i = 0; i < IN; i++)
        in[i] = (float)((i * 37 + i / 7) % 11 - 5);
}

/* Indices. */

struct indices {
    __device__ void operator() (const float *, float *out) const
    {
        unsigned linear = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        unsigned lane = linear % 32;

        out[linear] = (float)__shfl_sync (0xffffffff, linear, (int)(lane ^ 1))
                      + (gridDim.x == 1 && blockIdx.x == 0 ? 0.5f : 0.0f);
    }
};

static void check_indices (const float *in)
{
    claim_is ("threads of a warp follow each other, x first", indices{}, dim3 (4, 8, 4), in, 128,
              [] (int i) { return (float)(i ^ 1) + 0.5f; });
}

/* Shuffles. */

enum shuffle { SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR };

struct shuffles {
    enum shuffle kind;
    int by, width;

    __device__ void operator() (const float *in, float *out) const
    {
        float x = in[threadIdx.x];

        x = kind == SHUFFLE        ? __shfl_sync (0xffffffff, x, by, width)
            : kind == SHUFFLE_UP   ? __shfl_up_sync (0xffffffff, x, (unsigned)by, width)
            : kind == SHUFFLE_DOWN ? __shfl_down_sync (0xffffffff, x, (unsigned)by, width)
                                   : __shfl_xor_sync (0xffffffff, x, by, width);
        out[threadIdx.x] = x;
    }
};

/* The lane that a lane gets its value from. */
static int source (enum shuffle kind, int by, int width, int lane)
{
    int first = lane / width * width, last = first + width - 1;
    int from = kind == SHUFFLE        ? first + by % width
               : kind == SHUFFLE_UP   ? lane - by
               : kind == SHUFFLE_DOWN ? lane + by
                                      : lane ^ by;

    if (kind == SHUFFLE_UP && from < first)
        return lane;
    return kind != SHUFFLE && kind != SHUFFLE_UP && from > last ? lane : from;
}

static void check_shuffles (const float *)
{
    static const char *const names[] = { "shfl", "shfl_up", "shfl_down", "shfl_xor" };
    float in[IN];

    for (int i = 0; i < IN; i++)
        in[i] = (float)i;
    for (int kind = SHUFFLE; kind <= SHUFFLE_XOR; kind++)
        for (int width = 32; width >= 4; width /= 2)
            for (int by : { 1, 3, 18 }) {
                char name[80];

                snprintf (name, sizeof (name), "%s by %d, width %d", names[kind], by, width);
                claim_is (name, shuffles{ (enum shuffle)kind, by, width }, dim3 (THREADS), in,
                          THREADS, [=] (int i) {
                              return (float)(i / 32 * 32
                                             + source ((enum shuffle)kind, by, width, i % 32));
                          });
            }
}

/* Votes, integers of a warp, barriers that count. */

struct votes {
    __device__ void operator() (const float *in, float *out) const
    {
        unsigned lane = threadIdx.x % 32, mine = 3 * lane + 1;
        float *o = out + 16 * threadIdx.x;

        o[0] = __ballot_sync (0xffffffff, lane % 3 == 0) == 0x49249249;
        o[1] = (float)__any_sync (0xffffffff, lane == 7);
        o[2] = (float)__any_sync (0xffffffff, lane == 77);
        o[3] = (float)__all_sync (0xffffffff, lane < 32);
        o[4] = (float)__all_sync (0xffffffff, lane != 31);
        o[5] = (float)__reduce_add_sync (0xffffffff, mine);
        o[6] = (float)__reduce_max_sync (0xffffffff, mine);
        o[7] = (float)__reduce_min_sync (0xffffffff, mine);
        o[8] = (float)__reduce_or_sync (0xffffffff, 1u << lane % 4);
        o[9] = (float)__reduce_and_sync (0xffffffff, lane | 6);
        o[10] = (float)__syncthreads_count (threadIdx.x < 40);
        o[11] = (float)(__syncthreads_or (threadIdx.x == 63) != 0);
        o[12] = (float)(__syncthreads_or (0) != 0);
        o[13] = (float)(__syncthreads_and (1) != 0);
        o[14] = (float)(__syncthreads_and (threadIdx.x != 5) != 0);
        o[15] = lane < 16 ? (float)__ballot_sync (0x0000ffff, lane < 2) : in[0] * 0;
    }
};

static void check_votes (const float *in)
{
    static const char *const names[16]
        = { "ballot", "any of one lane", "any of none", "all of all", "all of all but one",
            "reduce_add", "reduce_max", "reduce_min", "reduce_or", "reduce_and",
            "syncthreads_count", "syncthreads_or of one", "syncthreads_or of none",
            "syncthreads_and of all", "syncthreads_and of all but one", "ballot of half a warp" };
    static const float want[16] = { 1, 1, 0, 1, 0, 1520, 94, 1, 15, 6, 40, 1, 0, 1, 0, 3 };
    static float out[OUT];
    bool ran = run (votes{}, dim3 (THREADS), in, out);

    for (int k = 0; k < 16; k++) {
        bool good = ran;

        for (int t = 0; t < THREADS; t++)
            good &= out[16 * t + k] == (k == 15 && t % 32 >= 16 ? 0 : want[k]);
        report (good, names[k]);
    }
}

/* Atomics. */

struct atomics {
    __device__ void operator() (const float *, float *out) const
    {
        SHARED (int, cells, [8]);
        SHARED (float, sum, [1]);
        int me = (int)threadIdx.x;

        if (me < 8)
            cells[me] = 0;
        if (me == 8)
            sum[0] = 0;
        __syncthreads ();
        atomicAdd (&cells[0], me);
        atomicSub (&cells[1], 2);
        atomicMax (&cells[2], me * 5 % 64);
        atomicMin (&cells[3], -me);
        atomicOr (&cells[4], 1 << me % 8);
        atomicXor (&cells[5], me);
        atomicAdd (sum, 0.5f);
        if (atomicCAS (&cells[6], 0, me + 1) == 0)
            atomicExch (&cells[7], me + 1);
        __syncthreads ();
        if (me < 8)
            out[me] = (float)cells[me];
        if (me == 8)
            out[8] = sum[0];
        if (me == 9)
            out[9] = cells[6] == cells[7];
    }
};

static void check_atomics (const float *in)
{
    static const char *const names[8]
        = { "atomicAdd", "atomicSub", "atomicMax", "atomicMin", "atomicOr", "atomicXor",
            "atomicAdd of floats", "atomicCAS lets one through, atomicExch" };
    static const float want[8] = { 2016, -128, 63, -63, 255, 0, 32, 1 };
    static const int at[8] = { 0, 1, 2, 3, 4, 5, 8, 9 };
    static float out[OUT];
    bool ran = run (atomics{}, dim3 (THREADS), in, out);

    for (int k = 0; k < 8; k++)
        report (ran && out[at[k]] == want[k], names[k]);
}

/* Types and arithmetic: claim number 'kind' of a value. */

enum { NUMBERS = 35 };

struct numbers {
    static __device__ float small (float x)
    {
        return cuda_float (cuda_rounded<__nv_bfloat16> (x));
    }
    static __device__ float half (float x)
    {
        return cuda_float (cuda_rounded<__half> (x));
    }
    __device__ void operator() (const float *in, float *out) const
    {
        float one = in[0], nan = in[1], inf = in[2], tiny = in[3];
        int k = 0;

        if (threadIdx.x)
            return;
        out[k++] = small (one + 0x1p-8f);             /* tie: even below */
        out[k++] = small (one + 0x3p-8f);             /* tie: even above */
        out[k++] = small (one + 0x1.01p-8f);          /* above the tie */
        out[k++] = small (one * 0x1.ffp127f);         /* rounds to infinity */
        out[k++] = small (nan);
        out[k++] = small (tiny);                      /* a denormal stays */
        out[k++] = small (-one * 0);
        out[k++] = half (one + 0x1p-11f);
        out[k++] = half (one + 0x3p-11f);
        out[k++] = half (65519.0f * one);
        out[k++] = half (65520.0f * one);
        out[k++] = half (nan);
        out[k++] = half (0x1p-24f * one);
        out[k++] = half (0x1p-25f * one);             /* tie: to 0 */
        out[k++] = half (0x1.8p-25f * one);
        out[k++] = fmaxf (nan, one);
        out[k++] = fminf (one, nan);
        out[k++] = max (nan, one);
        out[k++] = min (one, nan);
        out[k++] = tiny * one;                        /* float32 keeps denormals */
        out[k++] = tiny * 0.5f;
        out[k++] = __saturatef (nan);
        out[k++] = __saturatef (one * 3);
        out[k++] = ptx_exp2 (-inf);
        out[k++] = ptx_exp2 (nan);
        out[k++] = ptx_exp2 (one * 10);
        out[k++] = ptx_exp2 (one * -127);             /* a denormal is 0 */
        out[k++] = inf * 0;
        out[k++] = (float)__popc (0xf0f0u) * one;
        out[k++] = (float)__clz (1) + (float)__clz (0);
        out[k++] = (float)__ffs (8) + (float)__ffs (0);
        out[k++] = (float)__umulhi (0x80000000u, 6);
        out[k++] = __uint_as_float (__float_as_uint (one) | 0x80000000u);
        out[k++] = (float)__longlong_as_double (__double_as_longlong (one) ^ (1ll << 63));
        out[k++] = __fmaf_rn (one + 0x1p-23f, one - 0x1p-23f, -one); /* one rounding */
    }
};

static void check_numbers (const float *)
{
    static const char *const names[NUMBERS]
        = { "bfloat16 rounds a tie down to even", "bfloat16 rounds a tie up to even",
            "bfloat16 rounds up above a tie", "bfloat16 overflows to infinity",
            "bfloat16 keeps a NaN", "bfloat16 keeps a denormal", "bfloat16 keeps -0",
            "float16 rounds a tie down to even", "float16 rounds a tie up to even",
            "float16: 65519 is 65504", "float16: 65520 is infinity", "float16 keeps a NaN",
            "float16 has denormals", "float16: 2^-25 is 0", "float16: above 2^-25 is 2^-24",
            "fmaxf of a NaN is the number", "fminf of a NaN is the number",
            "max of a NaN is the number", "min of a NaN is the number",
            "a product that is a denormal", "half of a denormal", "saturate of a NaN is 0",
            "saturate of 3 is 1", "exp2 of -infinity", "exp2 of a NaN", "exp2 of 10",
            "exp2 whose result is a denormal is 0", "infinity times 0 is a NaN", "popc",
            "clz, also of 0", "ffs, also of 0", "umulhi", "bits of a float",
            "bits of a double",
            "fma rounds once" };
    static const float want[NUMBERS]
        = { 1, 1 + 0x4p-8f, 1 + 0x2p-8f, INFINITY, NAN, 0x1p-130f, -0.0f, 1, 1 + 0x4p-11f,
            65504, INFINITY, NAN, 0x1p-24f, 0, 0x1p-24f, 1, 1, 1, 1, 0x1p-130f, 0x1p-131f, 0, 1,
            0, NAN, 1024, 0, NAN, 8, 63, 4, 3, -1, -1, -0x1p-46f };
    float in[IN] = { 1, NAN, INFINITY, 0x1p-130f };
    static float out[OUT];
    bool ran = run (numbers{}, dim3 (32), in, out);

    for (int k = 0; k < NUMBERS; k++) {
        bool good = ran && same (out[k], want[k]);

        if (!good)
            printf ("# %s: %a, not %a\n", names[k], out[k], want[k]);
        report (good, names[k]);
    }
}

/* mma.sync: a[16][16] at in, b[16][8] at in + 256, c[16][8] at in + 384; out is c of each lane. */

template <typename T> struct products {
    static __device__ uint32_t pair (float low, float high)
    {
        T two[2] = { cuda_rounded<T> (low), cuda_rounded<T> (high) };
        uint32_t bits;

        memcpy (&bits, two, sizeof (bits));
        return bits;
    }
    __device__ void operator() (const float *in, float *out) const
    {
        int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4 * 2;
        const float *a = in, *b = in + 256, *c = in + 384;
        uint32_t ra[4], rb[2];
        float rc[4];

        for (int i = 0; i < 4; i++) {
            const float *at = a + (g + i % 2 * 8) * 16 + t + i / 2 * 8;

            ra[i] = pair (at[0], at[1]);
            rc[i] = c[(g + i / 2 * 8) * 8 + t + i % 2];
        }
        for (int i = 0; i < 2; i++)
            rb[i] = pair (b[(t + i * 8) * 8 + g], b[(t + i * 8 + 1) * 8 + g]);
        ptx_mma<T> (rc, ra, rb);
        for (int i = 0; i < 4; i++)
            out[4 * lane + i] = rc[i];
    }
};

/* Element 'i' of all lanes' c. */
static float product_at (const float *in, int i)
{
    int lane = i / 4, row = lane / 4 + i % 4 / 2 * 8, col = lane % 4 * 2 + i % 2;
    float sum = in[384 + row * 8 + col];

    for (int k = 0; k < 16; k++)
        sum += in[row * 16 + k] * in[256 + k * 8 + col];
    return sum;
}

/* One register and half of a or b only: its elements are where the manual says. */
static bool is_in_a (int i, int reg, int half)
{
    int row = i / 16, col = i % 16;

    return row / 8 == reg % 2 && col / 8 == reg / 2 && col % 2 == half;
}

template <typename T> static void check_products (const char *type)
{
    float in[IN];
    char name[100];
    auto claim = [&] {
        claim_is (name, products<T>{}, dim3 (32), in, 128,
                  [&] (int i) { return product_at (in, i); });
    };

    fill (in);
    snprintf (name, sizeof (name), "mma %s: a b + c", type);
    claim ();
    for (int reg = 0; reg < 4; reg++)
        for (int half = 0; half < 2; half++) {
            fill (in);
            for (int i = 0; i < 256; i++)
                in[i] = is_in_a (i, reg, half) ? (float)(i % 13 - 6) : 0;
            snprintf (name, sizeof (name), "mma %s: half %d of a[%d]", type, half, reg);
            claim ();
        }
    for (int reg = 0; reg < 2; reg++)
        for (int half = 0; half < 2; half++) {
            fill (in);
            for (int i = 0; i < 128; i++)
                in[256 + i] = i / 8 / 8 == reg && i / 8 % 2 == half ? (float)(i % 13 - 6) : 0;
            snprintf (name, sizeof (name), "mma %s: half %d of b[%d]", type, half, reg);
            claim ();
        }
    memset (in, 0, sizeof (in));
    in[5 * 16 + 3] = NAN;
    snprintf (name, sizeof (name), "mma %s: a NaN spoils its row", type);
    claim ();
    memset (in, 0, sizeof (in));
    in[5 * 16 + 3] = INFINITY;
    snprintf (name, sizeof (name), "mma %s: infinity times 0", type);
    claim ();
    memset (in, 0, sizeof (in));
    in[0] = 0x1p-14f;
    in[256] = 0x1p-14f;
    in[384] = -0x1p-30f;
    snprintf (name, sizeof (name), "mma %s: sums are float32", type);
    claim ();
}

/* ldmatrix: 4 matrices in shared memory, value = place. */

template <int N, bool TRANS> struct matrices {
    __device__ void operator() (const float *, float *out) const
    {
        SHARED (uint4, rows, [32]);
        uint16_t *elements = (uint16_t *)rows;
        unsigned lane = threadIdx.x;
        uint32_t r[N];

        for (unsigned i = lane; i < 256; i += 32)
            elements[i] = (uint16_t)i;
        __syncthreads ();
        ptx_ldmatrix<N, TRANS> (r, &rows[lane]);
        for (int i = 0; i < N; i++) {
            out[(lane * N + i) * 2] = (float)(r[i] & 0xffff);
            out[(lane * N + i) * 2 + 1] = (float)(r[i] >> 16);
        }
    }
};

template <int N, bool TRANS> static void check_matrices (const float *in)
{
    char name[80];

    snprintf (name, sizeof (name), "ldmatrix.x%d%s", N, TRANS ? ".trans" : "");
    claim_is (name, matrices<N, TRANS>{}, dim3 (32), in, 64 * N, [] (int i) {
        int lane = i / 2 / N, matrix = i / 2 % N, g = lane / 4, t = lane % 4 * 2 + i % 2;

        return (float)(matrix * 64 + (TRANS ? t * 8 + g : g * 8 + t));
    });
}

/* cp.async. */

template <int BYTES> struct copies {
    int valid;

    __device__ void operator() (const float *in, float *out) const
    {
        SHARED (uint4, room, [32]);
        char *mine = (char *)room + threadIdx.x * BYTES;

        ptx_copy<BYTES> (mine, (const char *)in + threadIdx.x * BYTES, valid);
        ptx_copy_commit ();
        ptx_copy_wait<0> ();
        __syncthreads ();
        for (int i = 0; i < BYTES / 4; i++)
            out[threadIdx.x * (BYTES / 4) + i] = ((const float *)mine)[i];
    }
};

template <int BYTES> static void check_copies (const float *in)
{
    for (int valid = 0; valid <= BYTES; valid += 4) {
        char name[80];

        snprintf (name, sizeof (name), "cp.async of %d bytes, %d of them valid", BYTES, valid);
        claim_is (name, copies<BYTES>{ valid }, dim3 (32), in, 32 * BYTES / 4,
                  [=] (int i) { return i * 4 % BYTES < valid ? in[i] : 0; });
    }
}

/* Three groups; all but LEFT are waited for, then all. */
template <int LEFT> struct groups {
    __device__ void operator() (const float *in, float *out) const
    {
        float *room = (float *)ptx_shared ();

        for (int g = 0; g < 3; g++) {
            ptx_copy<4> (room + g * 32 + threadIdx.x, in + g * 32 + threadIdx.x, 4);
            ptx_copy_commit ();
        }
        ptx_copy_wait<LEFT> ();
        for (int g = 0; g < 3 - LEFT; g++)
            out[g * 32 + threadIdx.x] = room[g * 32 + threadIdx.x];
        ptx_copy_wait<0> ();
    }
};

template <int LEFT> static void check_groups (const float *in)
{
    char name[80];

    snprintf (name, sizeof (name), "cp.async: all groups but the last %d have arrived", LEFT);
    claim_is (name, groups<LEFT>{}, dim3 (32), in, 32 * (3 - LEFT), [=] (int i) { return in[i]; });
}

/* Shared memory of a block: two declarations, and one in a function that is called twice. */
static __device__ float *own_array ()
{
    SHARED (float, array, [64]);

    return array;
}

struct shared {
    __device__ void operator() (const float *in, float *out) const
    {
        SHARED (float, first, [64]);
        SHARED (float, second, [64]);
        unsigned me = threadIdx.x, other = me ^ 33;

        first[me] = in[me];
        second[me] = in[64 + me];
        own_array ()[me] = in[128 + me];
        __syncthreads ();
        out[me] = first[other];
        out[64 + me] = second[other];
        out[128 + me] = own_array ()[other];
    }
};

int main ()
{
    float in[IN];
    int devices = 0;
    cudaError_t rc = cudaGetDeviceCount (&devices);

    if (rc != cudaSuccess || devices == 0) {
        printf ("1..0 # SKIP no GPU: %s\n", rc ? cudaGetErrorString (rc) : "none is there");
        return 0;
    }
    fill (in);
    check_indices (in);
    check_shuffles (in);
    check_votes (in);
    check_atomics (in);
    check_numbers (in);
    check_products<__nv_bfloat16> ("bf16");
    check_products<__half> ("f16");
    check_matrices<1, false> (in);
    check_matrices<2, false> (in);
    check_matrices<4, false> (in);
    check_matrices<1, true> (in);
    check_matrices<2, true> (in);
    check_matrices<4, true> (in);
    check_copies<4> (in);
    check_copies<8> (in);
    check_copies<16> (in);
    check_groups<0> (in);
    check_groups<1> (in);
    check_groups<2> (in);
    claim_is ("declarations of shared memory", shared{}, dim3 (THREADS), in, 192,
              [&] (int i) { return in[i ^ 33]; });
    printf ("1..%d\n", checks);
    return failed > 0;
}
