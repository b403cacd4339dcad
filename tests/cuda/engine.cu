/* engine.cu - what launch.h promises of launches: errors, host threads that launch at once
 *
 * Writes TAP; exits with 1 if a check fails.
 */

#include <stdio.h>
#include <string.h>

#include <thread>

#include "kernels/cuda/block.h"
#include "tests/cuda/direct.h"

enum { THREADS = 256, TURNS = 20 };

static int checks, failed;

static void report (bool good, const char *name)
{
    failed += !good;
    printf ("%s %d - %s\n", good ? "ok" : "not ok", ++checks, name);
}

__global__ void __launch_bounds__ (THREADS) sums (float *out, int turns)
{
    float x = (float)threadIdx.x;

    for (int i = 0; i < turns; i++)
        x = cuda_block_sum (x) / (i ? THREADS : 1);
    out[THREADS * blockIdx.x + threadIdx.x] = x;
}

/* Fails in its second block; the third is not run. */
__global__ void __launch_bounds__ (THREADS) trap (float *out, int)
{
    if (blockIdx.x == 1)
        __trap ();
    out[THREADS * blockIdx.x + threadIdx.x] = 1;
}

static cudaError_t launch (void (*kernel) (float *, int), float *out, int turns, unsigned blocks)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = dim3 (blocks);
    config.blockDim = dim3 (THREADS);
    return cudaLaunchKernelEx (&config, kernel, out, turns);
}

static bool are_sums (const float *out)
{
    for (int i = 0; i < 3 * THREADS; i++)
        if (out[i] != THREADS * (THREADS - 1) / 2)
            return false;
    return true;
}

static void check_threads ()
{
    float *out[2] = { (float *)direct_alloc (3 * THREADS * sizeof (float), 0),
                      (float *)direct_alloc (3 * THREADS * sizeof (float), 0) };
    bool good[2] = { true, true };
    auto many = [&] (int t) {
        for (int i = 0; i < TURNS; i++) {
            memset (out[t], 0xff, 3 * THREADS * sizeof (float));
            good[t] &= launch (sums, out[t], TURNS, 3) == cudaSuccess && are_sums (out[t]);
        }
    };
    std::thread other (many, 1);

    many (0);
    other.join ();
    report (good[0] && good[1], "two host threads run kernels at the same time");
    direct_free (out[0]);
    direct_free (out[1]);
}

static void check_errors ()
{
    float *out = (float *)direct_alloc (3 * THREADS * sizeof (float), 0);
    void *args[1] = { &out };
    cudaLaunchConfig_t config = {};

    config.gridDim = config.blockDim = dim3 (1);
    report (cudaLaunchKernelExC (&config, (const void *)check_threads, args)
                == cudaErrorInvalidDeviceFunction,
            "a function that was never described is no kernel");
    report (launch (trap, out, 0, 3) == cudaErrorLaunchFailure
                && strstr (launch_reason (), "__trap"),
            "a trap ends the kernel, and the reason is kept");
    report (out[0] == 1 || out[2 * THREADS] == 1, "(with an earlier block)");
    report (!(out[THREADS] == 1), "nothing of the block runs on");
    report (launch (sums, out, TURNS, 3) == cudaSuccess && are_sums (out)
                && launch_reason ()[0] == '\0',
            "the next kernel runs, and has no reason");
    config.blockDim = dim3 (LAUNCH_MAX_THREADS + 1);
    report (cudaLaunchKernelEx (&config, sums, out, 1) == cudaErrorInvalidConfiguration,
            "a block that is too large");
    report (!launch_is_device (), "the host runs no device code");
    direct_free (out);
}

int main ()
{
    check_threads ();
    check_errors ();
    printf ("1..%d\n", checks);
    return failed > 0;
}
