/* cublaslt_check.cpp - the double of cuBLASLt against sums in double precision, and its refusals
 *
 * Sizes, types, transposes, batches, epilogues, algorithms; then each thing that the real library
 * refuses, with the status that its manual names.  The program writes TAP.
 * With the argument "shared" or "apart" it runs products on two streams with one workspace, which
 * is a mistake, or with two, and exits with 1 if a result is wrong.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

static int checks, failed;
static cublasLtHandle_t handle;
static cudaStream_t stream;

static void report (bool good, const char *name)
{
    failed += !good;
    printf ("%s %d - %s\n", good ? "ok" : "not ok", ++checks, name);
}

static void is_status (cublasStatus_t got, cublasStatus_t want, const char *name)
{
    report (got == want, name);
    if (got != want)
        printf ("# got %s, want %s\n", cublasLtGetStatusName (got), cublasLtGetStatusName (want));
}

static size_t size_of (cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static void put (void *p, size_t i, cudaDataType type, float v)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = v;
    else if (type == CUDA_R_16BF)
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn (v);
    else
        ((__half *)p)[i] = __float2half_rn (v);
}

static double get (const void *p, size_t i, cudaDataType type)
{
    if (type == CUDA_R_32F)
        return ((const float *)p)[i];
    if (type == CUDA_R_16BF)
        return __bfloat162float (((const __nv_bfloat16 *)p)[i]);
    return __half2float (((const __half *)p)[i]);
}

/* A matrix of the device with 'batch' parts, and its copy on the host. */
struct matrix {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld, stride;
    int32_t batch;
    std::vector<char> host;
    char *base = nullptr, *device = nullptr;
    cublasLtMatrixLayout_t layout = nullptr;

    /* 'shift' bytes after a multiple of 256. */
    matrix (cudaDataType type, uint64_t rows, uint64_t cols, int64_t pad, int32_t batch, int seed,
            size_t shift = 0)
        : type (type), rows (rows), cols (cols), ld (rows + pad), stride (ld * cols + pad),
          batch (batch), host (stride * batch * size_of (type))
    {
        for (size_t i = 0; i < host.size () / size_of (type); i++)
            put (host.data (), i, type, (float)((i * 7 + seed * 13) % 17) / 8 - 1);
        if (cudaMalloc ((void **)&base, host.size () + shift) != cudaSuccess)
            exit (1);
        device = base + shift;
        cudaMemcpy (device, host.data (), host.size (), cudaMemcpyHostToDevice);
        cublasLtMatrixLayoutCreate (&layout, type, rows, cols, ld);
        cublasLtMatrixLayoutSetAttribute (layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                          sizeof batch);
        cublasLtMatrixLayoutSetAttribute (layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof stride);
    }
    matrix (const matrix &) = delete;
    ~matrix ()
    {
        cublasLtMatrixLayoutDestroy (layout);
        cudaFree (base);
    }
    double at (int64_t part, int64_t i, int64_t j) const
    {
        return get (host.data (), part * stride + j * ld + i, type);
    }
};

struct form {
    cudaDataType in, out;
    uint64_t m, n, k;
    bool trans_a, trans_b, bias, device_scalars;
    int64_t pad;
    int32_t batch;
    float alpha, beta;
};

static cublasLtMatmulDesc_t make_desc (const form &f, const void *bias)
{
    cublasLtMatmulDesc_t d;
    int32_t t = CUBLAS_OP_T, device = CUBLASLT_POINTER_MODE_DEVICE;
    uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;

    cublasLtMatmulDescCreate (&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (f.trans_a)
        cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
    if (f.trans_b)
        cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_TRANSB, &t, sizeof t);
    if (f.device_scalars)
        cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_POINTER_MODE, &device, 4);
    if (f.bias) {
        cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4);
        cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    return d;
}

/* Largest error of the result, relative to the sum of the sizes of its terms. */
static double error_of (const form &f, const matrix &a, const matrix &b, const matrix &c,
                        const matrix &bias, const void *result)
{
    double worst = 0;

    for (int64_t p = 0; p < f.batch; p++)
        for (uint64_t j = 0; j < f.n; j++)
            for (uint64_t i = 0; i < f.m; i++) {
                double sum = 0, size = 1e-3, got;

                for (uint64_t l = 0; l < f.k; l++) {
                    double v = (f.trans_a ? a.at (p, l, i) : a.at (p, i, l))
                               * (f.trans_b ? b.at (p, j, l) : b.at (p, l, j)) * f.alpha;

                    sum += v;
                    size += fabs (v);
                }
                sum += f.beta * c.at (p, i, j) + (f.bias ? bias.at (0, i, 0) : 0);
                size += fabs (f.beta * c.at (p, i, j)) + (f.bias ? fabs (bias.at (0, i, 0)) : 0);
                got = get (result, p * c.stride + j * c.ld + i, f.out);
                if (!(fabs (got - sum) / size <= worst))
                    worst = fabs (got - sum) / size; /* a NaN stays */
            }
    return worst;
}

/* One product in place by each algorithm that the heuristic offers. */
static void check_form (const form &f, const char *name)
{
    matrix a (f.in, f.trans_a ? f.k : f.m, f.trans_a ? f.m : f.k, f.pad, f.batch, 1);
    matrix b (f.in, f.trans_b ? f.n : f.k, f.trans_b ? f.k : f.n, f.pad, f.batch, 2);
    matrix c (f.out, f.m, f.n, f.pad, f.batch, 3), bias (f.out, f.m, 1, 0, 1, 4);
    cublasLtMatmulDesc_t d = make_desc (f, bias.device);
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found[8];
    uint64_t most = 1 << 20;
    float *scalars, both[2] = { f.alpha, f.beta };
    void *workspace;
    int n = 0;
    double tolerance = f.out == CUDA_R_32F ? 1e-6 : f.out == CUDA_R_16F ? 1e-3 : 8e-3;
    std::vector<char> result (c.host.size ());

    cudaMalloc (&workspace, most);
    cudaMalloc ((void **)&scalars, sizeof both);
    cudaMemcpy (scalars, both, sizeof both, cudaMemcpyHostToDevice);
    cublasLtMatmulPreferenceCreate (&wish);
    cublasLtMatmulPreferenceSetAttribute (wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, 8);
    is_status (cublasLtMatmulAlgoGetHeuristic (handle, d, a.layout, b.layout, c.layout, c.layout,
                                               wish, 8, found, &n),
               CUBLAS_STATUS_SUCCESS, name);
    report (n >= 1, "(an algorithm is found)");
    for (int i = 0; i < n; i++) {
        cudaMemcpy (c.device, c.host.data (), c.host.size (), cudaMemcpyHostToDevice);
        cublasStatus_t status = cublasLtMatmul (
            handle, d, f.device_scalars ? scalars : both, a.device, a.layout, b.device, b.layout,
            f.device_scalars ? scalars + 1 : both + 1, c.device, c.layout, c.device, c.layout,
            &found[i].algo, workspace, found[i].workspaceSize, stream);
        if (!f.device_scalars) /* the call has read the attributes already */
            both[0] = both[1] = NAN;
        cudaStreamSynchronize (stream);
        cudaMemcpy (result.data (), c.device, result.size (), cudaMemcpyDeviceToHost);
        both[0] = f.alpha;
        both[1] = f.beta;
        double worst = error_of (f, a, b, c, bias, result.data ());
        report (status == CUBLAS_STATUS_SUCCESS && worst <= tolerance, "(its product is right)");
        if (!(worst <= tolerance))
            printf ("# %s: error %g\n", name, worst);
    }
    cublasLtMatmulPreferenceDestroy (wish);
    cublasLtMatmulDescDestroy (d);
    cudaFree (scalars);
    cudaFree (workspace);
}

static void check_products ()
{
    const cudaDataType f32 = CUDA_R_32F, b16 = CUDA_R_16BF, h16 = CUDA_R_16F;

    check_form ({ f32, f32, 5, 7, 9, false, false, false, false, 0, 1, 1, 0 }, "odd sizes");
    check_form ({ f32, f32, 16, 8, 32, true, false, false, false, 0, 1, 2, 1 }, "A transposed");
    check_form ({ f32, f32, 16, 8, 32, false, true, false, false, 4, 1, 1, 0.5f }, "B transposed");
    check_form ({ f32, f32, 16, 8, 32, true, true, true, false, 0, 1, 1, 0 }, "both, and a bias");
    check_form ({ f32, f32, 8, 8, 16, false, false, false, true, 0, 1, 3, 2 }, "device scalars");
    check_form ({ b16, b16, 16, 24, 64, true, false, true, false, 0, 1, 1, 0 }, "bfloat16");
    check_form ({ b16, f32, 16, 24, 64, false, true, false, false, 0, 1, 1, 1 },
                "bfloat16 into float32 gradients");
    check_form ({ h16, h16, 24, 16, 40, false, false, false, false, 8, 1, 1, 0 }, "float16");
    check_form ({ h16, f32, 24, 16, 40, true, false, true, false, 0, 1, 1, 0 }, "float16, float32");
    check_form ({ b16, b16, 8, 16, 24, true, false, false, false, 8, 3, 0.25f, 0 }, "three parts");
    check_form ({ f32, f32, 3, 1, 1, false, false, false, false, 1, 2, 1, 1 }, "k of 1");
}

/* The statuses of heuristic and product for a form with these types, in 'wanted'. */
static void check_types (cudaDataType ta, cudaDataType tb, cudaDataType tc, int bias_type,
                         uint32_t epilogue, cublasStatus_t wanted, const char *name)
{
    matrix a (ta, 16, 16, 0, 1, 1), b (tb, 16, 16, 0, 1, 2), c (tc, 16, 16, 0, 1, 3);
    form f = { ta, tc, 16, 16, 16, false, false, true, false, 0, 1, 1, 0 };
    cublasLtMatmulDesc_t d = make_desc (f, a.device);
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    float one = 1, zero = 0;
    int n = 0;

    cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4);
    cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, 4);
    cublasLtMatmulPreferenceCreate (&wish);
    is_status (cublasLtMatmulAlgoGetHeuristic (handle, d, a.layout, b.layout, c.layout, c.layout,
                                               wish, 1, &found, &n),
               wanted, name);
    is_status (cublasLtMatmul (handle, d, &one, a.device, a.layout, b.device, b.layout, &zero,
                               c.device, c.layout, c.device, c.layout, nullptr, nullptr, 0, stream),
               wanted, "(and so says the product)");
    cublasLtMatmulPreferenceDestroy (wish);
    cublasLtMatmulDescDestroy (d);
}

static void check_refused_types ()
{
    const cudaDataType f32 = CUDA_R_32F, b16 = CUDA_R_16BF, h16 = CUDA_R_16F;
    const uint32_t bias = CUBLASLT_EPILOGUE_BIAS, plain = CUBLASLT_EPILOGUE_DEFAULT;
    const cublasStatus_t no = CUBLAS_STATUS_NOT_SUPPORTED, yes = CUBLAS_STATUS_SUCCESS;

    check_types (f32, f32, f32, -1, plain, yes, "float32");
    check_types (f32, f32, b16, -1, plain, no, "16-bit result of float32 operands");
    check_types (b16, h16, f32, -1, plain, no, "bfloat16 by float16");
    check_types (b16, b16, h16, -1, plain, no, "float16 result of bfloat16 operands");
    check_types (b16, f32, f32, -1, plain, no, "bfloat16 by float32");
    check_types (b16, b16, b16, CUDA_R_16BF, bias, yes, "a bias of the result's type");
    check_types (b16, b16, b16, CUDA_R_32F, bias, no, "a float32 bias of a bfloat16 result");
    check_types (b16, b16, f32, CUDA_R_16BF, bias, no, "a bfloat16 bias of a float32 result");
    check_types (b16, b16, b16, -1, CUBLASLT_EPILOGUE_GELU_AUX, no, "GELU with its input kept");
}

/* A product of bfloat16 whose A begins 'shift' bytes late, with an algorithm for 'told' bytes. */
static cublasStatus_t run_shifted (size_t shift, uint32_t told, uint64_t most, size_t given,
                                   size_t workspace_shift, uint64_t *wanted)
{
    matrix a (CUDA_R_16BF, 16, 16, 0, 1, 1, shift), b (CUDA_R_16BF, 16, 16, 0, 1, 2);
    matrix c (CUDA_R_16BF, 16, 16, 0, 1, 3);
    form f = { CUDA_R_16BF, CUDA_R_16BF, 16, 16, 16, false, false, false, false, 0, 1, 1, 0 };
    cublasLtMatmulDesc_t d = make_desc (f, nullptr);
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    cublasStatus_t status;
    float one = 1, zero = 0;
    char *workspace;
    int n = 0;

    cudaMalloc ((void **)&workspace, 1 << 20);
    cublasLtMatmulPreferenceCreate (&wish);
    cublasLtMatmulPreferenceSetAttribute (wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &told,
                                          4);
    cublasLtMatmulPreferenceSetAttribute (wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, 8);
    cublasLtMatmulAlgoGetHeuristic (handle, d, a.layout, b.layout, c.layout, c.layout, wish, 1,
                                    &found, &n);
    *wanted = found.workspaceSize;
    status = cublasLtMatmul (handle, d, &one, a.device, a.layout, b.device, b.layout, &zero,
                             c.device, c.layout, c.device, c.layout, &found.algo,
                             workspace + workspace_shift, given, stream);
    cudaStreamSynchronize (stream);
    cudaFree (workspace);
    cublasLtMatmulPreferenceDestroy (wish);
    cublasLtMatmulDescDestroy (d);
    return status;
}

static void check_refused_memory ()
{
    const cublasStatus_t invalid = CUBLAS_STATUS_INVALID_VALUE, yes = CUBLAS_STATUS_SUCCESS;
    uint64_t wanted = 0;

    is_status (run_shifted (0, 256, 0, 0, 0, &wanted), yes, "no workspace");
    is_status (run_shifted (2, 256, 0, 0, 0, &wanted), CUBLAS_STATUS_NOT_SUPPORTED,
               "less alignment than the algorithm was found for");
    is_status (run_shifted (2, 2, 0, 0, 0, &wanted), yes, "an algorithm for that alignment");
    is_status (run_shifted (0, 256, 1 << 20, 1 << 20, 0, &wanted), yes, "a workspace");
    report (wanted > 0, "(that is used)");
    is_status (run_shifted (0, 256, 1 << 20, wanted - 1, 0, &wanted), invalid,
               "a workspace that is too small");
    is_status (run_shifted (0, 256, 1 << 20, wanted, 16, &wanted), invalid,
               "a workspace that is not aligned");
}

static void check_attributes ()
{
    cublasLtMatmulDesc_t d;
    int32_t value = CUBLAS_OP_T;
    size_t written = 0;

    cublasLtMatmulDescCreate (&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    is_status (cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_TRANSA, &value, 8),
               CUBLAS_STATUS_INVALID_VALUE, "a wrong size of an attribute");
    is_status (cublasLtMatmulDescSetAttribute (d, CUBLASLT_MATMUL_DESC_TRANSA, &value, 4),
               CUBLAS_STATUS_SUCCESS, "a right one");
    value = -1;
    report (cublasLtMatmulDescGetAttribute (d, CUBLASLT_MATMUL_DESC_TRANSA, &value, 4, &written)
                    == CUBLAS_STATUS_SUCCESS
                && value == CUBLAS_OP_T && written == 4,
            "it comes back");
    report (cublasLtMatmulDescGetAttribute (d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr, 0,
                                            &written)
                    == CUBLAS_STATUS_SUCCESS
                && written == sizeof (void *),
            "the size of an attribute");
    cublasLtMatmulDescDestroy (d);
    report (cublasLtGetVersion () == CUBLAS_VERSION, "the version is the header's");
}

/* Sizes that contradict each other, and matrices that are not on the device. */
static void check_refused_sizes ()
{
    matrix a (CUDA_R_32F, 8, 8, 0, 1, 1), b (CUDA_R_32F, 16, 8, 0, 1, 2);
    matrix c (CUDA_R_32F, 8, 8, 0, 1, 3);
    form f = { CUDA_R_32F, CUDA_R_32F, 8, 8, 8, false, false, false, false, 0, 1, 1, 0 };
    cublasLtMatmulDesc_t d = make_desc (f, nullptr);
    float one = 1, zero = 0;

    is_status (cublasLtMatmul (handle, d, &one, a.device, a.layout, b.device, b.layout, &zero,
                               c.device, c.layout, c.device, c.layout, nullptr, nullptr, 0, stream),
               CUBLAS_STATUS_INVALID_VALUE, "sizes of k that differ");
    is_status (cublasLtMatmul (handle, d, &one, a.host.data (), a.layout, c.device, c.layout, &zero,
                               c.device, c.layout, c.device, c.layout, nullptr, nullptr, 0, stream),
               CUBLAS_STATUS_INVALID_VALUE, "a matrix of the host");
    cudaSetDevice (1);
    is_status (cublasLtMatmul (handle, d, &one, a.device, a.layout, c.device, c.layout, &zero,
                               c.device, c.layout, c.device, c.layout, nullptr, nullptr, 0, stream),
               CUBLAS_STATUS_EXECUTION_FAILED, "another current device");
    cudaSetDevice (0);
    cublasLtMatmulDescDestroy (d);
}

/* Products on two streams, whose workspaces are one or two.  True if both results are right. */
static bool run_two_streams (bool shared)
{
    form f = { CUDA_R_32F, CUDA_R_32F, 16, 16, 32, false, false, false, false, 0, 1, 1, 0 };
    matrix a (CUDA_R_32F, 16, 32, 0, 1, 1), b (CUDA_R_32F, 32, 16, 0, 1, 2);
    matrix a2 (CUDA_R_32F, 16, 32, 0, 1, 5), c (CUDA_R_32F, 16, 16, 0, 1, 3);
    matrix c2 (CUDA_R_32F, 16, 16, 0, 1, 3);
    cublasLtMatmulDesc_t d = make_desc (f, nullptr);
    const size_t size = 4096;
    float one = 1, zero = 0;
    char *workspace;
    cudaStream_t other;
    bool good = true;
    std::vector<char> result (c.host.size ());

    cudaMalloc ((void **)&workspace, 2 * size);
    cudaStreamCreateWithFlags (&other, cudaStreamNonBlocking);
    for (int i = 0; i < 10; i++) {
        cublasLtMatmul (handle, d, &one, a.device, a.layout, b.device, b.layout, &zero, c.device,
                        c.layout, c.device, c.layout, nullptr, workspace, size, stream);
        cublasLtMatmul (handle, d, &one, a2.device, a.layout, b.device, b.layout, &zero, c2.device,
                        c.layout, c2.device, c.layout, nullptr, workspace + (shared ? 0 : size),
                        size, other);
        cudaDeviceSynchronize ();
        cudaMemcpy (result.data (), c.device, result.size (), cudaMemcpyDeviceToHost);
        good = good && error_of (f, a, b, c, c, result.data ()) <= 1e-6;
        cudaMemcpy (result.data (), c2.device, result.size (), cudaMemcpyDeviceToHost);
        good = good && error_of (f, a2, b, c2, c, result.data ()) <= 1e-6;
    }
    cublasLtMatmulDescDestroy (d);
    cudaStreamDestroy (other);
    cudaFree (workspace);
    return good;
}

int main (int argc, char **argv)
{
    if (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking) != cudaSuccess
        || cublasLtCreate (&handle) != CUBLAS_STATUS_SUCCESS) {
        printf ("Bail out! no stream or handle\n");
        return 1;
    }
    if (argc > 1)
        return !run_two_streams (!strcmp (argv[1], "shared"));
    check_products ();
    check_refused_types ();
    check_refused_memory ();
    check_attributes ();
    check_refused_sizes ();
    cublasLtDestroy (handle);
    printf ("1..%d\n", checks);
    return failed > 0;
}
