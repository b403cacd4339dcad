/* product.c - kern_gemm by cuBLASLt (product.h) */

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/product.h"

enum { NUM_BUCKETS = 256, NUM_MATRICES = 4 /* A, B, C and D of cuBLASLt, C and D the same */ };

/* A product as cuBLASLt computes it.  All bytes count in comparisons, so a shape is zeroed first.
 */
struct shape {
    int64_t m, n, k, lda, ldb, ldc;
    enum mg_dtype dtype, c_dtype;
    uint32_t align_a, align_b, align_c; /* bytes: a power of two up to 256 */
    uint8_t trans_a, trans_b, accumulate, bias;
};

struct product {
    struct product *next; /* of the bucket */
    struct shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* a and b as cuBLASLt has them: our b and a */
    cublasLtMatmulAlgo_t algorithm;
    bool tried; /* it has run once on memory of its own, or there was none */
};

struct cuda_products {
    cublasLtHandle_t handle;
    pthread_mutex_t lock; /* guards the list, and a product while it is enqueued */
    struct product *bucket[NUM_BUCKETS];
};

static int check (cublasStatus_t status, const struct shape *s, struct mg_error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    return mg_error_set (err, EIO, "cuda kernel gemm: %s %s [%lld,%lld] x %s [%lld,%lld] -> %s: %s",
                         s->trans_a ? "transposed" : "plain", mg_dtype_name (s->dtype),
                         (long long)s->m, (long long)s->k, s->trans_b ? "transposed" : "plain",
                         (long long)s->k, (long long)s->n, mg_dtype_name (s->c_dtype),
                         cublasLtGetStatusString (status));
}

static cudaDataType_t type_of (enum mg_dtype dtype)
{
    return dtype == MG_BFLOAT16 ? CUDA_R_16BF : dtype == MG_FLOAT16 ? CUDA_R_16F : CUDA_R_32F;
}

/* --- descriptions --- */

static cublasStatus_t describe_product (struct product *p)
{
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cublasOperation_t op_a = p->shape.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = p->shape.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status = cublasLtMatmulDescCreate (&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);

    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute (p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
                                                 sizeof (op_a));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute (p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
                                                 sizeof (op_b));
    if (status == CUBLAS_STATUS_SUCCESS && p->shape.bias)
        status = cublasLtMatmulDescSetAttribute (p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                 sizeof (epilogue));
    return status;
}

/* A row-major matrix is a column-major one of as many rows as ours has columns. */
static cublasStatus_t describe_matrices (struct product *p)
{
    const struct shape *s = &p->shape;
    cublasStatus_t status;

    status = cublasLtMatrixLayoutCreate (&p->a, type_of (s->dtype),
                                         (uint64_t)(s->trans_b ? s->k : s->n),
                                         (uint64_t)(s->trans_b ? s->n : s->k), s->ldb);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutCreate (&p->b, type_of (s->dtype),
                                             (uint64_t)(s->trans_a ? s->m : s->k),
                                             (uint64_t)(s->trans_a ? s->k : s->m), s->lda);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutCreate (&p->c, type_of (s->c_dtype), (uint64_t)s->n,
                                             (uint64_t)s->m, s->ldc);
    return status;
}

static cublasStatus_t choose_algorithm (struct cuda_products *products, struct product *p)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[NUM_MATRICES] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    const uint32_t bytes[NUM_MATRICES] = { p->shape.align_b, p->shape.align_a, p->shape.align_c,
                                           p->shape.align_c };
    const size_t workspace = CUDA_GEMM_WORKSPACE;
    cublasLtMatmulHeuristicResult_t found;
    cublasLtMatmulPreference_t preference;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate (&preference);
    int count = 0;

    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    status = cublasLtMatmulPreferenceSetAttribute (
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof (workspace));
    for (int i = 0; i < NUM_MATRICES && status == CUBLAS_STATUS_SUCCESS; i++)
        status = cublasLtMatmulPreferenceSetAttribute (preference, alignments[i], &bytes[i],
                                                       sizeof (bytes[i]));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic (products->handle, p->desc, p->a, p->b, p->c, p->c,
                                                 preference, 1, &found, &count);
    cublasLtMatmulPreferenceDestroy (preference);
    if (status == CUBLAS_STATUS_SUCCESS && count == 0)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_SUCCESS)
        p->algorithm = found.algo;
    return status;
}

static void product_destroy (struct product *p)
{
    if (p->desc)
        cublasLtMatmulDescDestroy (p->desc);
    if (p->a)
        cublasLtMatrixLayoutDestroy (p->a);
    if (p->b)
        cublasLtMatrixLayoutDestroy (p->b);
    if (p->c)
        cublasLtMatrixLayoutDestroy (p->c);
    free (p);
}

static struct product *product_create (struct cuda_products *products, const struct shape *shape,
                                       struct mg_error *err)
{
    struct product *p = calloc (1, sizeof (*p));
    cublasStatus_t status;

    if (!p) {
        mg_error_set (err, ENOMEM, "cuda kernel gemm: out of memory");
        return NULL;
    }
    p->shape = *shape;
    status = describe_product (p);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrices (p);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = choose_algorithm (products, p);
    if (check (status, shape, err) == 0)
        return p;
    product_destroy (p);
    return NULL;
}

/* FNV-1a (Fowler, Noll, Vo). */
static unsigned bucket_of (const struct shape *shape)
{
    const unsigned char *byte = (const unsigned char *)shape;
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < sizeof (*shape); i++)
        hash = (hash ^ byte[i]) * 16777619u;
    return hash % NUM_BUCKETS;
}

/* The product of a shape, made when it is first asked for.  The lock is held. */
static struct product *find (struct cuda_products *products, const struct shape *shape,
                             struct mg_error *err)
{
    struct product **bucket = &products->bucket[bucket_of (shape)], *p;

    for (p = *bucket; p; p = p->next) {
        if (memcmp (&p->shape, shape, sizeof (*shape)) == 0)
            return p;
    }
    if ((p = product_create (products, shape, err))) {
        p->next = *bucket;
        *bucket = p;
    }
    return p;
}

/* --- what runs --- */

/* The parts of a call's scratch memory, and what cuBLASLt gets. */
struct run {
    struct shape shape;
    const void *a, *b, *bias;
    void *c;
    char *workspace;
    float *sums, *wide_bias; /* float32 copies of C and of the bias, if they are needed */
};

static uint32_t alignment (const void *p)
{
    const uintptr_t at = (uintptr_t)p | 256;

    return (uint32_t)(at & -at);
}

static struct run run_of (const struct kern_gemm *a, void *scratch)
{
    const bool narrowed = cuda_gemm_is_narrowed (a);
    struct run r;

    memset (&r, 0, sizeof (r));
    r.workspace = scratch;
    r.sums = (float *)(r.workspace + CUDA_GEMM_WORKSPACE);
    r.wide_bias = narrowed ? r.sums + cuda_gemm_padded (a->m * a->n) : r.sums;
    r.a = a->a;
    r.b = a->b;
    r.c = narrowed ? r.sums : a->c;
    r.bias = a->bias;
    r.shape.m = a->m;
    r.shape.n = a->n;
    r.shape.k = a->k;
    r.shape.lda = a->lda;
    r.shape.ldb = a->ldb;
    r.shape.ldc = narrowed ? a->n : a->ldc;
    r.shape.dtype = a->dtype;
    r.shape.c_dtype = narrowed ? MG_FLOAT32 : a->c_dtype;
    r.shape.trans_a = a->trans_a;
    r.shape.trans_b = a->trans_b;
    r.shape.accumulate = a->accumulate;
    r.shape.bias = a->bias != NULL;
    return r;
}

/* cuBLASLt adds a bias of the result's type.  float32 holds the values of each type, so that a copy
 * in a wider type changes nothing; a 16-bit result has operands and a bias of its own type.
 */
static int convert_bias (struct run *r, const struct cuda_call *call, const struct kern_gemm *a,
                         struct mg_error *err)
{
    const struct cuda_matrix bias = { .rows = 1, .cols = a->n, .from = a->bias, .from_ld = a->n,
                                      .from_dtype = a->dtype, .to = r->wide_bias, .to_ld = a->n,
                                      .to_dtype = MG_FLOAT32 };

    if (!a->bias || r->shape.c_dtype == a->dtype)
        return 0;
    r->bias = r->wide_bias;
    return cuda_convert (call, &bias, err);
}

/* Convert C to the float32 sums, or the sums to C. */
static int convert_c (const struct run *r, const struct cuda_call *call, const struct kern_gemm *a,
                      bool to_sums, struct mg_error *err)
{
    struct cuda_matrix m = { .rows = a->m, .cols = a->n, .from = r->sums, .from_ld = a->n,
                             .from_dtype = MG_FLOAT32, .to = a->c, .to_ld = a->ldc,
                             .to_dtype = a->c_dtype };

    if (to_sums)
        m = (struct cuda_matrix){ .rows = a->m, .cols = a->n, .from = a->c, .from_ld = a->ldc,
                                  .from_dtype = a->c_dtype, .to = r->sums, .to_ld = a->n,
                                  .to_dtype = MG_FLOAT32 };
    return cuda_convert (call, &m, err);
}

static int multiply (struct cuda_products *products, struct run *r, const struct cuda_call *call,
                     struct mg_error *err)
{
    const float one = 1, beta = r->shape.accumulate ? 1 : 0;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    struct product *p;
    int rc = -1;

    r->shape.align_a = alignment (r->a);
    r->shape.align_b = alignment (r->b);
    r->shape.align_c = alignment (r->c);
    pthread_mutex_lock (&products->lock);
    if ((p = find (products, &r->shape, err))) {
        if (r->bias)
            status = cublasLtMatmulDescSetAttribute (p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                     &r->bias, sizeof (r->bias));
        if (status == CUBLAS_STATUS_SUCCESS)
            status = cublasLtMatmul (products->handle, p->desc, &one, r->b, p->a, r->a, p->b, &beta,
                                     r->c, p->c, r->c, p->c, &p->algorithm, r->workspace,
                                     CUDA_GEMM_WORKSPACE, call->stream);
        rc = check (status, &r->shape, err);
    }
    pthread_mutex_unlock (&products->lock);
    return rc;
}

/* A product of no terms: C stays, or is the bias or 0. */
static int clear (const struct cuda_call *call, const struct kern_gemm *a, struct mg_error *err)
{
    const struct cuda_matrix m = { .rows = a->m, .cols = a->n, .from = a->bias, .from_ld = 0,
                                   .from_dtype = a->dtype, .to = a->c, .to_ld = a->ldc,
                                   .to_dtype = a->c_dtype };

    return a->accumulate ? 0 : cuda_convert (call, &m, err);
}

int cuda_product (struct cuda_products *products, const struct cuda_call *call,
                  const struct kern_gemm *a, struct mg_error *err)
{
    const bool narrowed = cuda_gemm_is_narrowed (a);
    struct run r;

    if (a->m == 0 || a->n == 0)
        return 0;
    if (a->k == 0)
        return clear (call, a, err);
    r = run_of (a, call->scratch);
    if (convert_bias (&r, call, a, err) < 0
        || (narrowed && a->accumulate && convert_c (&r, call, a, true, err) < 0)
        || multiply (products, &r, call, err) < 0)
        return -1;
    return narrowed ? convert_c (&r, call, a, false, err) : 0;
}

/* --- before the first step --- */

/* Elements of a stored matrix whose last row is not longer than it must be. */
static size_t stored_bytes (int64_t rows, int64_t cols, int64_t ld, enum mg_dtype dtype)
{
    return (size_t)((rows - 1) * ld + cols) * mg_dtype_size (dtype);
}

static size_t padded (size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Run a product on memory of its own. */
static int try_product (struct cuda_products *products, const struct kern_gemm *planned,
                        struct mg_error *err)
{
    struct kern_gemm a = *planned;
    size_t size_a = padded (stored_bytes (a.trans_a ? a.k : a.m, a.trans_a ? a.m : a.k, a.lda,
                                          a.dtype));
    size_t size_b = padded (stored_bytes (a.trans_b ? a.n : a.k, a.trans_b ? a.k : a.n, a.ldb,
                                          a.dtype));
    size_t size_c = padded (stored_bytes (a.m, a.n, a.ldc, a.c_dtype));
    size_t size_bias = padded ((size_t)a.n * mg_dtype_size (a.dtype));
    size_t size = size_a + size_b + size_c + size_bias;
    struct cuda_call call = { .stream = NULL };
    char *memory;
    int rc;

    if (cudaMalloc ((void **)&memory, size + cuda_gemm_scratch (planned)) != cudaSuccess) {
        cudaGetLastError ();
        return 0; // without a trial the first product may have to load its kernel
    }
    if (cudaStreamCreateWithFlags (&call.stream, cudaStreamNonBlocking) != cudaSuccess) {
        cudaFree (memory);
        return mg_error_set (err, EIO, "cuda kernel gemm: no stream for a trial");
    }
    a.a = memory;
    a.b = memory + size_a;
    a.c = memory + size_a + size_b;
    a.bias = planned->bias ? memory + size_a + size_b + size_c : NULL;
    call.scratch = memory + size;
    rc = cudaMemsetAsync (memory, 0, size, call.stream) == cudaSuccess
             ? cuda_product (products, &call, &a, err)
             : mg_error_set (err, EIO, "cuda kernel gemm: no zeros for a trial");
    if (cudaStreamSynchronize (call.stream) != cudaSuccess && rc == 0)
        rc = mg_error_set (err, EIO, "cuda kernel gemm: a trial failed");
    cudaStreamDestroy (call.stream);
    cudaFree (memory);
    return rc;
}

int cuda_product_prepare (struct cuda_products *products, const struct kern_gemm *a,
                          struct mg_error *err)
{
    struct product *p;
    struct run r;
    bool first;

    if (a->m == 0 || a->n == 0 || a->k == 0)
        return 0;
    r = run_of (a, NULL);
    r.shape.align_a = r.shape.align_b = r.shape.align_c = alignment (NULL);
    pthread_mutex_lock (&products->lock);
    if ((p = find (products, &r.shape, err))) {
        first = !p->tried;
        p->tried = true;
    }
    pthread_mutex_unlock (&products->lock);
    if (!p)
        return -1;
    return first ? try_product (products, a, err) : 0;
}

struct cuda_products *cuda_products_create (struct mg_error *err)
{
    struct cuda_products *products = calloc (1, sizeof (*products));
    cublasStatus_t status;

    if (!products) {
        mg_error_set (err, ENOMEM, "cuda kernel gemm: out of memory");
        return NULL;
    }
    if ((status = cublasLtCreate (&products->handle)) != CUBLAS_STATUS_SUCCESS) {
        mg_error_set (err, EIO, "device cuda: cuBLASLt does not start: %s",
                      cublasLtGetStatusString (status));
        free (products);
        return NULL;
    }
    pthread_mutex_init (&products->lock, NULL);
    return products;
}

void cuda_products_destroy (struct cuda_products *products)
{
    if (!products)
        return;
    for (int i = 0; i < NUM_BUCKETS; i++) {
        while (products->bucket[i]) {
            struct product *p = products->bucket[i];

            products->bucket[i] = p->next;
            product_destroy (p);
        }
    }
    cublasLtDestroy (products->handle);
    pthread_mutex_destroy (&products->lock);
    free (products);
}
