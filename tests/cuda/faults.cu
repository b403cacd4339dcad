/* faults.cu - kernels with planted faults, each of which the double must find
 *
 * A kernel is right with fault 0.  A fault is found if CUDA reports an error or a result is wrong,
 * in one of the orders of threads that the test runs this program in (t5001).  Some faults only an
 * instrumented program finds: fault WATCHED of the table.  The program is built both ways.  It
 * writes a line a fault: "found NAME", "missed NAME", or "unseen NAME" for a WATCHED one that the
 * plain program does not find.  Exit status 1: a kernel without its faults is wrong.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include "kernels/cuda/block.h"
#include "tests/cuda/direct.h"

#ifdef __SANITIZE_THREAD__
static const bool instrumented = true;
#else
static const bool instrumented = false;
#endif

enum { N = 256, OUT = 512 };

/* Sums of a block, twice through the same memory. */
enum reduce_fault {
    REDUCE_OK,
    REDUCE_NO_BARRIER,
    REDUCE_NO_BARRIER_REUSE,
    REDUCE_LANE_STEP,
    REDUCE_MASK,
    REDUCE_HALF_WARP,
    REDUCE_SOME_THREADS,
    REDUCE_TWO_BARRIERS,
    REDUCE_EARLY_RETURN,
    REDUCE_LOOP_COUNT,
    REDUCE_VOTE,
    REDUCE_WIDTH,
    REDUCE_TRAP,
    REDUCE_FAULTS
};

static __device__ float reduce_block (float x, int fault)
{
    SHARED (float, sums, [32]);
    unsigned lane = threadIdx.x % 32, mask = fault == REDUCE_MASK ? 0x7fffffff : 0xffffffff;
    int width = fault == REDUCE_WIDTH ? 16 : 32;

    for (int bits = 16; bits > 0; bits /= fault == REDUCE_LANE_STEP ? 4 : 2)
        if (fault != REDUCE_HALF_WARP || lane < 16)
            x += __shfl_down_sync (mask, x, (unsigned)bits, width);
    if (lane == 0)
        sums[threadIdx.x / 32] = x;
    if (fault != REDUCE_NO_BARRIER)
        __syncthreads ();
    x = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        x += sums[i];
    if (fault != REDUCE_NO_BARRIER_REUSE)
        __syncthreads ();
    return x;
}

__global__ void reduce (int fault, const float *in, float *out)
{
    float sum, again;

    if (fault == REDUCE_EARLY_RETURN && threadIdx.x == 70)
        return;
    if (fault == REDUCE_TRAP && threadIdx.x == 3)
        __trap ();
    if (fault == REDUCE_VOTE && threadIdx.x % 32 < 31)
        out[1] = (float)__any_sync (0xffffffff, in[0] > 2);
    if (fault == REDUCE_SOME_THREADS && threadIdx.x < 100)
        __syncthreads ();
    if (fault == REDUCE_TWO_BARRIERS) {
        if (threadIdx.x < 64)
            __syncthreads ();
        else
            __syncthreads ();
    }
    for (unsigned i = 0; fault == REDUCE_LOOP_COUNT && i < 1 + threadIdx.x / 128; i++)
        __syncthreads ();
    sum = reduce_block (in[threadIdx.x], fault);
    again = reduce_block (in[threadIdx.x] * 2, fault);
    out[threadIdx.x] = sum + again;
}

static float reduce_want (const float *in, int)
{
    float sum = 0;

    for (int i = 0; i < N; i++)
        sum += in[i] * 3;
    return sum;
}

/* A transposed copy of 16 x 16 floats. */
enum transpose_fault {
    TRANSPOSE_OK,
    TRANSPOSE_NO_BARRIER,
    TRANSPOSE_STRIDE,
    TRANSPOSE_SWAPPED,
    TRANSPOSE_READ_BEYOND,
    TRANSPOSE_WRITE_BEYOND,
    TRANSPOSE_WRITE_BEFORE,
    TRANSPOSE_MISALIGNED,
    TRANSPOSE_SHARED_BEYOND,
    TRANSPOSE_DYNAMIC_BEYOND,
    TRANSPOSE_MISSED,
    TRANSPOSE_NULL,
    TRANSPOSE_TYPE,
    TRANSPOSE_UNWRITTEN_SHARED,
    TRANSPOSE_FREED,
    TRANSPOSE_FAULTS
};

__global__ void transpose (int fault, const float *in, float *out)
{
    SHARED (float, tile, [16 * 17]);
    float *dynamic = (float *)ptx_shared (); // 256 floats
    int me = (int)threadIdx.x, row = me / 16, col = me % 16;
    int stride = fault == TRANSPOSE_STRIDE ? 18 : 17;

    if (fault == TRANSPOSE_MISALIGNED && me == 0)
        *(float4 *)(out + 1) = *(const float4 *)in;
    if (fault == TRANSPOSE_SHARED_BEYOND && me == 0)
        tile[blockDim.x + 16] = in[0];
    if (fault == TRANSPOSE_NULL && me == 9)
        in = nullptr;
    if (fault != TRANSPOSE_UNWRITTEN_SHARED || me != 7)
        tile[row * 17 + col] = in[fault == TRANSPOSE_READ_BEYOND && me == 255 ? 1024 : me];
    dynamic[fault == TRANSPOSE_DYNAMIC_BEYOND ? me + 1 : me] = in[me];
    if (fault != TRANSPOSE_NO_BARRIER)
        __syncthreads ();
    if (fault == TRANSPOSE_MISSED && me == 200)
        return;
    if (fault == TRANSPOSE_TYPE)
        ((__nv_bfloat16 *)out)[me] = cuda_rounded<__nv_bfloat16> (tile[col * 17 + row]);
    else if (fault == TRANSPOSE_WRITE_BEYOND && me == 255)
        out[OUT] = tile[col * 17 + row];
    else if (fault == TRANSPOSE_WRITE_BEFORE && me == 0)
        out[-1] = tile[0];
    else
        out[fault == TRANSPOSE_SWAPPED ? col * 16 + row : me] = tile[col * stride % 272 + row];
}

static float transpose_want (const float *in, int i)
{
    return in[i % 16 * 16 + i / 16];
}

/* Sums of four tiles that arrive by cp.async in two buffers. */
enum pipeline_fault {
    PIPELINE_OK,
    PIPELINE_NO_WAIT,
    PIPELINE_SHORT_WAIT,
    PIPELINE_NO_COMMIT,
    PIPELINE_NO_BARRIER,
    PIPELINE_NO_BARRIER_REFILL,
    PIPELINE_VALID,
    PIPELINE_MISALIGNED,
    PIPELINE_SIZE,
    PIPELINE_ONE_BUFFER,
    PIPELINE_BEYOND,
    PIPELINE_FAULTS
};

static __device__ void pipeline_fetch (int fault, const float *in, float *buffers, int tile)
{
    float *to = buffers + (fault == PIPELINE_ONE_BUFFER ? 0 : tile % 2 * 64);
    int me = (int)threadIdx.x;
    const float *from = in + tile * 64 + 4 * (me % 16);

    if (fault == PIPELINE_BEYOND && tile == 3)
        from += 4 * 256;
    if (me < 16 && fault == PIPELINE_MISALIGNED)
        ptx_copy<16> (to + 4 * me, from + 1, 16);
    else if (me < 16 && fault == PIPELINE_SIZE)
        ptx_copy<8> (to + 4 * me, from, 8);
    else if (me < 16)
        ptx_copy<16> (to + 4 * me, from, fault == PIPELINE_VALID ? 12 : 16);
    if (fault != PIPELINE_NO_COMMIT)
        ptx_copy_commit ();
}

__global__ void pipeline (int fault, const float *in, float *out)
{
    float *buffers = (float *)ptx_shared (), sum = 0;
    int me = (int)threadIdx.x;

    pipeline_fetch (fault, in, buffers, 0);
    for (int tile = 0; tile < 4; tile++) {
        if (tile < 3)
            pipeline_fetch (fault, in, buffers, tile + 1);
        if (fault == PIPELINE_SHORT_WAIT && tile < 3)
            ptx_copy_wait<2> ();
        else if (fault != PIPELINE_NO_WAIT && tile < 3)
            ptx_copy_wait<1> ();
        else if (fault != PIPELINE_NO_WAIT)
            ptx_copy_wait<0> ();
        if (fault != PIPELINE_NO_BARRIER)
            __syncthreads ();
        if (me < 64)
            sum += buffers[tile % 2 * 64 + (me + 5) % 64];
        if (fault != PIPELINE_NO_BARRIER_REFILL)
            __syncthreads ();
    }
    out[me] = me < 64 ? sum : 0;
}

static float pipeline_want (const float *in, int i)
{
    float sum = 0;

    for (int tile = 0; tile < 4; tile++)
        sum += in[tile * 64 + (i + 5) % 64];
    return i < 64 ? sum : 0;
}

/* A 16 x 16 matrix times its first 8 columns, by ldmatrix and mma.sync. */
enum product_fault {
    PRODUCT_OK,
    PRODUCT_ROW,
    PRODUCT_TRANS,
    PRODUCT_SWAPPED_A,
    PRODUCT_SWAPPED_B,
    PRODUCT_TYPE,
    PRODUCT_COLUMN,
    PRODUCT_MISALIGNED,
    PRODUCT_NOT_ZEROED,
    PRODUCT_NO_BARRIER,
    PRODUCT_LANE,
    PRODUCT_BEYOND,
    PRODUCT_HALF_WARP,
    PRODUCT_FAULTS
};

__global__ void product (int fault, const float *in, float *out)
{
    SHARED (uint4, memory, [32]);
    __nv_bfloat16 *tile = (__nv_bfloat16 *)memory;
    int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4 * 2;
    int row = fault == PRODUCT_ROW ? lane % 8 : lane % 16;
    uint32_t a[4], b[2];
    float c[4] = {};

    out[threadIdx.x] = 0;
    tile[threadIdx.x] = cuda_rounded<__nv_bfloat16> (in[threadIdx.x]);
    if (fault != PRODUCT_NO_BARRIER)
        __syncthreads ();
    if (threadIdx.x >= 32 || (fault == PRODUCT_HALF_WARP && lane >= 16))
        return;
    if (fault == PRODUCT_NOT_ZEROED)
        c[1] = in[lane];
    ptx_ldmatrix<4> (a, tile + row * 16 + lane / 16 * 8 + (fault == PRODUCT_MISALIGNED ? 1 : 0)
                            + (fault == PRODUCT_BEYOND ? 128 : 0));
    if (fault == PRODUCT_TRANS)
        ptx_ldmatrix<2> (b, tile + lane % 16 * 16);
    else
        ptx_ldmatrix<2, true> (b, tile + lane % 16 * 16);
    if (fault == PRODUCT_SWAPPED_A) {
        uint32_t other = a[1];

        a[1] = a[2];
        a[2] = other;
    }
    if (fault == PRODUCT_SWAPPED_B)
        b[0] = b[0] >> 16 | b[0] << 16;
    if (fault == PRODUCT_TYPE)
        ptx_mma<__half> (c, a, b);
    else
        ptx_mma<__nv_bfloat16> (c, a, b);
    if (fault == PRODUCT_LANE)
        g ^= 1;
    for (int i = 0; i < 4; i++)
        out[(g + i / 2 * 8) * 8 + (fault == PRODUCT_COLUMN ? t + i / 2 : t + i % 2)] = c[i];
}

static float product_want (const float *in, int i)
{
    float sum = 0;

    for (int k = 0; k < 16 && i < 128; k++)
        sum += in[i / 8 * 16 + k] * in[k * 16 + i % 8];
    return sum;
}

/* Two blocks: sums of elements into 8 cells, of which out[8 ..] has a copy of the inputs. */
enum cells_fault {
    CELLS_OK,
    CELLS_NO_ATOMIC,
    CELLS_SAME_PLACE,
    CELLS_OTHER_BLOCK,
    CELLS_NO_SYNCWARP,
    CELLS_EXCHANGE,
    CELLS_FAULTS
};

__global__ void cells (int fault, const float *in, float *out)
{
    SHARED (int, count, [8]);
    SHARED (float, pairs, [256]);
    int me = (int)threadIdx.x, block = (int)blockIdx.x, half = me < 128;

    if (me < 8)
        count[me] = 0;
    pairs[me] = in[me];
    if (fault != CELLS_NO_SYNCWARP)
        __syncwarp ();
    in = fault == CELLS_OTHER_BLOCK && block == 1 ? out : in;
    if (half)
        out[8 + block * 128 + me] = pairs[me ^ 1] + (in[8 + (me ^ 1)] < -1000 ? 1.0f : 0.0f);
    __syncthreads ();
    if (fault == CELLS_NO_ATOMIC)
        count[me % 8]++;
    else if (fault == CELLS_EXCHANGE)
        atomicExch (&count[me % 8], count[me % 8] + 1);
    else
        atomicAdd (&count[me % 8], 1);
    __syncthreads ();
    if (me < 4)
        out[fault == CELLS_SAME_PLACE ? me : 4 * block + me] = (float)count[4 * block + me];
}

static float cells_want (const float *in, int i)
{
    return i < 8 ? 32 : in[((i - 8) % 128) ^ 1];
}

/* The table. */

typedef void kernel_f (int fault, const float *in, float *out);

struct fault {
    const char *name;
    kernel_f *kernel;
    int number, blocks;
    bool watched;
    float (*want) (const float *in, int i);
    int outputs;
};

#define ROW(KERNEL, NUMBER, BLOCKS, WATCHED, OUTPUTS) \
    { #NUMBER, KERNEL, NUMBER, BLOCKS, WATCHED, KERNEL##_want, OUTPUTS }
#define REDUCE(F, W) ROW (reduce, REDUCE_##F, 1, W, N)
#define TRANSPOSE(F, W) ROW (transpose, TRANSPOSE_##F, 1, W, N)
#define PIPELINE(F, W) ROW (pipeline, PIPELINE_##F, 1, W, N)
#define PRODUCT(F, W) ROW (product, PRODUCT_##F, 1, W, N)
#define CELLS(F, W) ROW (cells, CELLS_##F, 2, W, N)

static const bool PLAIN = false, WATCHED = true;

static const struct fault faults[] = {
    REDUCE (OK, PLAIN), REDUCE (NO_BARRIER, PLAIN), REDUCE (NO_BARRIER_REUSE, WATCHED),
    REDUCE (LANE_STEP, PLAIN), REDUCE (MASK, PLAIN), REDUCE (HALF_WARP, PLAIN),
    REDUCE (SOME_THREADS, PLAIN), REDUCE (TWO_BARRIERS, PLAIN), REDUCE (EARLY_RETURN, PLAIN),
    REDUCE (LOOP_COUNT, PLAIN), REDUCE (VOTE, PLAIN), REDUCE (WIDTH, PLAIN), REDUCE (TRAP, PLAIN),
    TRANSPOSE (OK, PLAIN), TRANSPOSE (NO_BARRIER, PLAIN), TRANSPOSE (STRIDE, PLAIN),
    TRANSPOSE (SWAPPED, PLAIN), TRANSPOSE (READ_BEYOND, PLAIN), TRANSPOSE (WRITE_BEYOND, PLAIN),
    TRANSPOSE (WRITE_BEFORE, PLAIN), TRANSPOSE (MISALIGNED, WATCHED),
    TRANSPOSE (SHARED_BEYOND, WATCHED), TRANSPOSE (DYNAMIC_BEYOND, PLAIN),
    TRANSPOSE (MISSED, PLAIN), TRANSPOSE (NULL, PLAIN), TRANSPOSE (TYPE, PLAIN),
    TRANSPOSE (UNWRITTEN_SHARED, PLAIN), TRANSPOSE (FREED, WATCHED),
    PIPELINE (OK, PLAIN), PIPELINE (NO_WAIT, PLAIN), PIPELINE (SHORT_WAIT, PLAIN),
    PIPELINE (NO_COMMIT, PLAIN), PIPELINE (NO_BARRIER, PLAIN),
    PIPELINE (NO_BARRIER_REFILL, PLAIN), PIPELINE (VALID, PLAIN), PIPELINE (MISALIGNED, PLAIN),
    PIPELINE (SIZE, PLAIN), PIPELINE (ONE_BUFFER, PLAIN), PIPELINE (BEYOND, PLAIN),
    PRODUCT (OK, PLAIN), PRODUCT (ROW, PLAIN), PRODUCT (TRANS, PLAIN), PRODUCT (SWAPPED_A, PLAIN),
    PRODUCT (SWAPPED_B, PLAIN), PRODUCT (TYPE, PLAIN), PRODUCT (COLUMN, PLAIN),
    PRODUCT (MISALIGNED, PLAIN), PRODUCT (NOT_ZEROED, PLAIN), PRODUCT (NO_BARRIER, PLAIN),
    PRODUCT (LANE, PLAIN), PRODUCT (BEYOND, PLAIN), PRODUCT (HALF_WARP, PLAIN),
    CELLS (OK, PLAIN), CELLS (NO_ATOMIC, WATCHED), CELLS (SAME_PLACE, PLAIN),
    CELLS (OTHER_BLOCK, WATCHED), CELLS (NO_SYNCWARP, PLAIN), CELLS (EXCHANGE, WATCHED),
};

/* True if CUDA reports an error or a result is wrong. */
static bool is_found (const struct fault *f)
{
    float *in = (float *)direct_alloc (N * sizeof (float), 0);
    float *out = (float *)direct_alloc (OUT * sizeof (float), 0), want[N];
    cudaLaunchConfig_t config = {};
    bool found;

    for (int i = 0; i < N; i++)
        in[i] = (float)((i * 37 + i / 7) % 11 - 5);
    for (int i = 0; i < N; i++)
        want[i] = f->want (in, i);
    config.gridDim = dim3 ((unsigned)f->blocks);
    config.blockDim = dim3 (N);
    config.dynamicSmemBytes = N * sizeof (float);
    if (f->kernel == transpose && f->number == TRANSPOSE_FREED)
        direct_free (in);
    found = cudaLaunchKernelEx (&config, f->kernel, f->number, (const float *)in, out)
            != cudaSuccess;
    for (int i = 0; i < f->outputs; i++)
        found |= !(out[i] == want[i]);
    for (int i = f->outputs + 8; i < OUT; i++)
        found |= !isnan (out[i]); // written, though it is not an output
    direct_free (in);
    direct_free (out);
    return found;
}

int main ()
{
    int status = 0;

    for (const struct fault &f : faults) {
        bool found = is_found (&f);

        if (f.number == 0) {
            printf ("%s %s\n", found ? "wrong" : "right", f.name);
            status |= found;
        } else {
            printf ("%s %s\n", found ? "found" : f.watched && !instrumented ? "unseen" : "missed",
                    f.name);
        }
    }
    return status;
}
