/* product.cu - conversions around products (product.h) */

#include "kernels/cuda/block.h"
#include "kernels/cuda/product.h"

template <typename FROM, typename TO>
__global__ void __launch_bounds__ (CUDA_THREADS) convert (struct cuda_matrix m)
{
    const FROM *from = (const FROM *)m.from;
    TO *to = (TO *)m.to;
    int64_t n = m.rows * m.cols, step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t row = i / m.cols, col = i % m.cols;
        float x = from ? cuda_float (from[row * m.from_ld + col]) : 0;

        to[row * m.to_ld + col] = cuda_rounded<TO> (x);
    }
}

template <typename FROM, typename TO>
static int launch (const struct cuda_call *call, const struct cuda_matrix *m, struct mg_error *err)
{
    int64_t n = m->rows * m->cols;
    cudaLaunchConfig_t config = cuda_config (
        call, cuda_blocks ((n + CUDA_THREADS - 1) / CUDA_THREADS), CUDA_THREADS, 0);

    return cuda_launched (cudaLaunchKernelEx (&config, cuda_kernel<convert<FROM, TO>> (), *m),
                          "gemm", err);
}

template <typename FROM>
static int launch_from (const struct cuda_call *call, const struct cuda_matrix *m,
                        struct mg_error *err)
{
    return CUDA_TYPED_WITH (FROM, m->to_dtype, launch, call, m, err);
}

int cuda_convert (const struct cuda_call *call, const struct cuda_matrix *m, struct mg_error *err)
{
    if (m->rows == 0 || m->cols == 0)
        return 0;
    return CUDA_TYPED (m->from_dtype, launch_from, call, m, err);
}
