/* direct.cpp - device memory and launches without a runtime */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <map>

#include <cuda_runtime_api.h>

#include "tests/cuda/direct.h"
#include "tests/cuda/launch.h"

struct memory {
    char *pages; /* of mmap(), the last one no memory */
    size_t mapped, size;
};

enum { PAGE = 4096 };

static std::map<const char *, memory> memories;
static bool all_allowed;

/* Device code has accessed what is no memory. */
static void on_fault (int, siginfo_t *info, void *)
{
    launch_fault (info->si_addr);
    signal (SIGSEGV, SIG_DFL); // not device code: the program fails as it would
}

static void handle_faults (void)
{
    static char stack[64 << 10];
    stack_t alternative = {};
    struct sigaction action = {};

    alternative.ss_sp = stack;
    alternative.ss_size = sizeof (stack);
    sigaltstack (&alternative, nullptr);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction (SIGSEGV, &action, nullptr);
}

/* The memory ends at a page without access, if that leaves it aligned. */
void *direct_alloc (size_t size, size_t offset)
{
    size_t room = (size + offset + 255) / 256 * 256;
    size_t mapped = (room + PAGE - 1) / PAGE * PAGE + PAGE;
    char *pages = (char *)mmap (nullptr, mapped, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p = pages + mapped - PAGE - room + offset;

    if (pages == MAP_FAILED) {
        fprintf (stderr, "direct: no memory for %zu bytes\n", size);
        exit (1);
    }
    if (memories.empty ())
        handle_faults ();
    mprotect (pages + mapped - PAGE, PAGE, PROT_NONE);
    memset (p, 0xff, size);
    memories[p] = { pages, mapped, size };
    return p;
}

void direct_free (void *p)
{
    auto found = memories.find ((const char *)p);

    if (found == memories.end ())
        return;
    munmap (found->second.pages, found->second.mapped);
    memories.erase (found);
}

void direct_allow_all (void)
{
    all_allowed = true;
}

static bool find_bounds (void *, const void *address, const void **base, size_t *size)
{
    auto next = memories.upper_bound ((const char *)address);

    if (next == memories.begin ())
        return false;
    --next;
    *base = next->first;
    *size = next->second.size;
    return (const char *)address < next->first + next->second.size + 64;
}

cudaError_t cudaLaunchKernelExC (const cudaLaunchConfig_t *config, const void *kernel, void **args)
{
    struct launch_request r = {};

    r.kernel = kernel;
    r.grid[0] = config->gridDim.x;
    r.grid[1] = config->gridDim.y;
    r.grid[2] = config->gridDim.z;
    r.block[0] = config->blockDim.x;
    r.block[1] = config->blockDim.y;
    r.block[2] = config->blockDim.z;
    r.shared = config->dynamicSmemBytes;
    r.args = args;
    r.bounds = all_allowed ? nullptr : find_bounds;
    return (cudaError_t)launch_run (&r);
}

const char *cudaGetErrorString (cudaError_t)
{
    return launch_reason ();
}

/* The few calls that launches, conform.cu and faults.cu need besides. */

cudaError_t cudaFuncSetAttribute (const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount (int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice (int *device)
{
    *device = 0;
    return cudaSuccess;
}

/* Of capability 9.0. */
cudaError_t cudaDeviceGetAttribute (int *value, enum cudaDeviceAttr attribute, int)
{
    switch ((int)attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 227 << 10;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t cudaMalloc (void **p, size_t size)
{
    *p = direct_alloc (size, 0);
    return cudaSuccess;
}

cudaError_t cudaFree (void *p)
{
    direct_free (p);
    return cudaSuccess;
}

cudaError_t cudaMemcpy (void *to, const void *from, size_t size, enum cudaMemcpyKind)
{
    memcpy (to, from, size);
    return cudaSuccess;
}

cudaError_t cudaMemset (void *p, int value, size_t size)
{
    memset (p, value, size);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize (void)
{
    return cudaSuccess;
}
