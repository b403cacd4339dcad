/* direct.cpp - device memory and launches without a runtime */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>

#include <cuda_runtime_api.h>

#include "tests/cuda/direct.h"
#include "tests/cuda/launch.h"

struct memory {
    char *base; /* of malloc() */
    size_t size;
};

static std::map<const char *, memory> memories;
static bool all_allowed;

void *direct_alloc (size_t size, size_t offset)
{
    char *base = (char *)aligned_alloc (256, (size + offset + 511) / 256 * 256);

    if (!base) {
        fprintf (stderr, "direct: no memory for %zu bytes\n", size);
        exit (1);
    }
    memset (base + offset, 0xff, size);
    memories[base + offset] = { base, size };
    return base + offset;
}

void direct_free (void *p)
{
    auto found = memories.find ((const char *)p);

    if (found == memories.end ())
        return;
    free (found->second.base);
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
