/* load.c - the kernels that launches name, and their loading */

#include <errno.h>

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda.h"

enum { MAX_KERNELS = 4096 };

static const void *kernels[MAX_KERNELS];
static int num_kernels;

bool cuda_list_kernel (const void *kernel)
{
    if (num_kernels < MAX_KERNELS)
        kernels[num_kernels] = kernel;
    num_kernels++;
    return true;
}

int cuda_load_kernels (struct mg_error *err)
{
    struct cudaFuncAttributes attributes;

    if (num_kernels > MAX_KERNELS)
        return mg_error_set (err, ENOMEM, "device cuda: %d kernels, room for %d", num_kernels,
                             MAX_KERNELS);
    for (int i = 0; i < num_kernels; i++) {
        cudaError_t rc = cudaFuncGetAttributes (&attributes, kernels[i]);

        if (rc != cudaSuccess)
            return mg_error_set (err, EIO, "device cuda: kernel %d of %d cannot be loaded: %s (%s)",
                                 i + 1, num_kernels, cudaGetErrorString (rc),
                                 cudaGetErrorName (rc));
    }
    return 0;
}
