/* cublaslt.cpp - the double of cuBLASLt: column-major products with float32 sums
 *
 * It has three algorithms, as a heuristic would find them: whole products of any alignment (1) or
 * of 16 bytes (2), and halves of k that are added at the end (3), which wants a workspace and 16
 * bytes.  So bits depend on the algorithm.  The halves and their addition are two operations, and
 * another stream may run between them: two streams that share a workspace spoil their results.
 * Types, epilogues and their refusals are those of NVIDIA's table for CUBLAS_COMPUTE_32F.
 */

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <map>

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/cuda/runtime.h"

/* What a number of an attribute is: its size, and where it lies. */
struct attribute {
    int number;
    size_t size, offset;
};

struct desc {
    int32_t compute, scale, pointer_mode, trans_a, trans_b, trans_c, fill, bias_type;
    uint32_t epilogue;
    const void *bias;
    int64_t bias_stride;
    int32_t sm_count;
};
static const attribute desc_attributes[] = {
    { CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4, offsetof (desc, compute) },
    { CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4, offsetof (desc, scale) },
    { CUBLASLT_MATMUL_DESC_POINTER_MODE, 4, offsetof (desc, pointer_mode) },
    { CUBLASLT_MATMUL_DESC_TRANSA, 4, offsetof (desc, trans_a) },
    { CUBLASLT_MATMUL_DESC_TRANSB, 4, offsetof (desc, trans_b) },
    { CUBLASLT_MATMUL_DESC_TRANSC, 4, offsetof (desc, trans_c) },
    { CUBLASLT_MATMUL_DESC_FILL_MODE, 4, offsetof (desc, fill) },
    { CUBLASLT_MATMUL_DESC_EPILOGUE, 4, offsetof (desc, epilogue) },
    { CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8, offsetof (desc, bias) },
    { CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 8, offsetof (desc, bias_stride) },
    { CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4, offsetof (desc, bias_type) },
    { CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 4, offsetof (desc, sm_count) },
    { -1, 0, 0 },
};

struct layout {
    int32_t type, order, batch;
    uint64_t rows, cols;
    int64_t ld, stride;
};
static const attribute layout_attributes[] = {
    { CUBLASLT_MATRIX_LAYOUT_TYPE, 4, offsetof (layout, type) },
    { CUBLASLT_MATRIX_LAYOUT_ORDER, 4, offsetof (layout, order) },
    { CUBLASLT_MATRIX_LAYOUT_ROWS, 8, offsetof (layout, rows) },
    { CUBLASLT_MATRIX_LAYOUT_COLS, 8, offsetof (layout, cols) },
    { CUBLASLT_MATRIX_LAYOUT_LD, 8, offsetof (layout, ld) },
    { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4, offsetof (layout, batch) },
    { CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8, offsetof (layout, stride) },
    { -1, 0, 0 },
};

struct preference {
    uint32_t search, reduction, align[4];
    uint64_t workspace, impl;
    float waves;
};
static const attribute preference_attributes[] = {
    { CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4, offsetof (preference, search) },
    { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8, offsetof (preference, workspace) },
    { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, offsetof (preference, reduction) },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4, offsetof (preference, align[0]) },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4, offsetof (preference, align[1]) },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4, offsetof (preference, align[2]) },
    { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4, offsetof (preference, align[3]) },
    { CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 4, offsetof (preference, waves) },
    { CUBLASLT_MATMUL_PREF_IMPL_MASK, 8, offsetof (preference, impl) },
    { -1, 0, 0 },
};

static_assert (sizeof (desc) <= sizeof (cublasLtMatmulDescOpaque_t), "fits");
static_assert (sizeof (layout) <= sizeof (cublasLtMatrixLayoutOpaque_t), "fits");
static_assert (sizeof (preference) <= sizeof (cublasLtMatmulPreferenceOpaque_t), "fits");

static const attribute *find_attribute (const attribute *table, int number, const char *of)
{
    for (; table->number >= 0; table++)
        if (table->number == number)
            return table;
    fprintf (stderr, "cuda double: attribute %d of %s is not in the double of cuBLASLt\n", number,
             of);
    return nullptr;
}

static cublasStatus_t set_attribute (const attribute *table, void *object, int number,
                                     const void *value, size_t size, const char *of)
{
    const attribute *a = find_attribute (table, number, of);

    if (!a || !object || !value || size != a->size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy ((char *)object + a->offset, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get_attribute (const attribute *table, const void *object, int number,
                                     void *value, size_t size, size_t *written, const char *of)
{
    const attribute *a = find_attribute (table, number, of);

    if (!a || !object || (size == 0 && !written))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (size != 0 && (size != a->size || !value))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (written)
        *written = a->size;
    if (size != 0)
        memcpy (value, (const char *)object + a->offset, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* Products. */

enum { ANY_ALIGNMENT = 1, ALIGNED, HALVES, NUM_ALGORITHMS = 3 };

/* What a cublasLtMatmulAlgo_t has. */
struct algorithm {
    uint64_t mark, id, workspace;
};
static const uint64_t MARK = 0x4d47616c676f0001;
static_assert (sizeof (algorithm) <= sizeof (cublasLtMatmulAlgo_t), "fits");

struct product {
    desc d;
    layout a, b, c, out;
    const void *pa, *pb, *pc, *alpha, *beta; /* alpha, beta: of the device, or NULL */
    void *po;
    float *workspace; /* of HALVES: float [batch][2][n][m]; else NULL */
    float alpha_value, beta_value;
};

static size_t size_of (int type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static float load (const void *p, int64_t i, int type)
{
    if (type == CUDA_R_32F)
        return ((const float *)p)[i];
    if (type == CUDA_R_16BF)
        return __bfloat162float (((const __nv_bfloat16 *)p)[i]);
    return __half2float (((const __half *)p)[i]);
}

static void store (void *p, int64_t i, int type, float value)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = value;
    else if (type == CUDA_R_16BF)
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn (value);
    else
        ((__half *)p)[i] = __float2half_rn (value);
}

static uint64_t depth (const desc *d, const layout *a)
{
    return d->trans_a == CUBLAS_OP_N ? a->cols : a->rows;
}

/* Column j of the sum over k from 'begin' to 'end': sums[m]. */
static void sum_column (const product *p, int64_t batch, int64_t j, int64_t begin, int64_t end,
                        float *sums)
{
    int64_t m = p->out.rows;
    int64_t step_i = p->d.trans_a == CUBLAS_OP_N ? 1 : p->a.ld;
    int64_t step_l = p->d.trans_a == CUBLAS_OP_N ? p->a.ld : 1;

    std::fill (sums, sums + m, 0.0f);
    for (int64_t l = begin; l < end; l++) {
        int64_t at = p->d.trans_b == CUBLAS_OP_N ? j * p->b.ld + l : l * p->b.ld + j;
        float v = load (p->pb, batch * p->b.stride + at, p->b.type);

        for (int64_t i = 0; i < m; i++)
            sums[i] += load (p->pa, batch * p->a.stride + i * step_i + l * step_l, p->a.type) * v;
    }
}

/* The sums of both halves of k, into the workspace. */
static void sum_halves (const product *p)
{
    int64_t m = p->out.rows, n = p->out.cols, k = depth (&p->d, &p->a);
    float *to = p->workspace;

    for (int batch = 0; batch < p->out.batch; batch++)
        for (int half = 0; half < 2; half++)
            for (int64_t j = 0; j < n; j++, to += m)
                sum_column (p, batch, j, half == 0 ? 0 : k / 2, half == 0 ? k / 2 : k, to);
}

/* Column j of the product without alpha: sums[m]. */
static void form_column (const product *p, int64_t batch, int64_t j, float *sums)
{
    int64_t m = p->out.rows, n = p->out.cols;
    const float *first, *second;

    if (!p->workspace) {
        sum_column (p, batch, j, 0, depth (&p->d, &p->a), sums);
        return;
    }
    first = p->workspace + (2 * batch * n + j) * m;
    second = first + n * m;
    for (int64_t i = 0; i < m; i++)
        sums[i] = first[i] + second[i];
}

static void write_batch (const product *p, int64_t batch)
{
    int64_t m = p->out.rows, n = p->out.cols;
    float alpha = p->alpha ? *(const float *)p->alpha : p->alpha_value;
    float beta = p->beta ? *(const float *)p->beta : p->beta_value;
    std::vector<float> sums (m);

    for (int64_t j = 0; j < n; j++) {
        form_column (p, batch, j, sums.data ());
        for (int64_t i = 0; i < m; i++) {
            float v = alpha * sums[i];

            if (beta != 0)
                v += beta * load (p->pc, batch * p->c.stride + j * p->c.ld + i, p->c.type);
            if (p->d.epilogue == CUBLASLT_EPILOGUE_BIAS)
                v += load (p->d.bias, batch * p->d.bias_stride + i, p->out.type);
            store (p->po, batch * p->out.stride + j * p->out.ld + i, p->out.type, v);
        }
    }
}

/* Sizes that contradict each other are invalid, whatever the types. */
static bool sizes_fit (const desc *d, const layout *a, const layout *b, const layout *c,
                       const layout *o)
{
    bool na = d->trans_a == CUBLAS_OP_N, nb = d->trans_b == CUBLAS_OP_N;

    for (const layout *l : { a, b, c, o })
        if (l->rows == 0 || l->cols == 0 || l->ld < (int64_t)l->rows || l->batch != o->batch
            || l->batch < 1)
            return false;
    return (na ? a->cols : a->rows) == (nb ? b->rows : b->cols)
           && (na ? a->rows : a->cols) == o->rows && (nb ? b->cols : b->rows) == o->cols
           && c->rows == o->rows && c->cols == o->cols;
}

/* The row of NVIDIA's table for these types and this epilogue. */
static bool is_supported (const desc *d, const layout *a, const layout *b, const layout *c,
                          const layout *o)
{
    for (const layout *l : { a, b, c, o })
        if ((l->type != CUDA_R_32F && l->type != CUDA_R_16BF && l->type != CUDA_R_16F)
            || l->order != CUBLASLT_ORDER_COL)
            return false;
    if (d->compute != CUBLAS_COMPUTE_32F || d->scale != CUDA_R_32F || d->trans_c != CUBLAS_OP_N
        || d->fill != CUBLAS_FILL_MODE_FULL || d->trans_a == CUBLAS_OP_C
        || d->trans_b == CUBLAS_OP_C || (uint32_t)d->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE)
        return false;
    if (a->type != b->type || c->type != o->type
        || (o->type != CUDA_R_32F && o->type != a->type))
        return false;
    if (d->epilogue == CUBLASLT_EPILOGUE_BIAS)
        return d->bias_type < 0 || d->bias_type == o->type;
    return d->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
}

/* Do rows and batches begin at multiples of 16 bytes if the matrix does? */
static bool rows_aligned (const layout *l)
{
    size_t size = size_of (l->type);

    return l->ld * size % 16 == 0 && (l->batch == 1 || l->stride * size % 16 == 0);
}

static uint64_t workspace_of (uint64_t id, const layout *o)
{
    return id == HALVES ? (2 * o->batch * o->rows * o->cols * sizeof (float) + 255) / 256 * 256 : 0;
}

/* Can algorithm 'id' do the product, with matrices at multiples of align[4] bytes? */
static bool can_do (uint64_t id, const desc *d, const layout *a, const layout *b, const layout *c,
                    const layout *o, const uint32_t *align)
{
    const layout *all[] = { a, b, c, o };

    for (int i = 0; i < 4; i++) {
        if (align[i] < size_of (all[i]->type))
            return false;
        if (id != ANY_ALIGNMENT && (align[i] < 16 || !rows_aligned (all[i])))
            return false;
    }
    return id != HALVES || depth (d, a) >= 2;
}

static uint32_t alignment_of (const void *p)
{
    uintptr_t at = (uintptr_t)p;

    return at % 256 == 0 ? 256 : (uint32_t)(at & -at);
}

/* Is all of a matrix in one allocation of the device? */
static bool in_device (const void *p, const layout *l)
{
    int64_t last = (l->batch - 1) * l->stride + (l->cols - 1) * l->ld + l->rows;

    return runtime_is_device (p, last * size_of (l->type));
}

static cublasStatus_t check_pointers (const product *p, const algorithm *algo,
                                      const void *workspace, size_t workspace_size)
{
    const void *bias = p->d.bias;
    bool reads_c = p->d.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE || p->beta_value != 0;

    if (!in_device (p->pa, &p->a) || !in_device (p->pb, &p->b) || !in_device (p->po, &p->out)
        || (reads_c && !in_device (p->pc, &p->c)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p->d.epilogue == CUBLASLT_EPILOGUE_BIAS
        && !runtime_is_device (bias, p->out.rows * size_of (p->out.type)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p->alpha && (!runtime_is_device (p->alpha, 4) || !runtime_is_device (p->beta, 4)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->workspace > workspace_size
        || (algo->workspace > 0
            && ((uintptr_t)workspace % 256 || !runtime_is_device (workspace, algo->workspace))))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* Algorithms that can do the product, best first.  Returns how many. */
static int find_algorithms (const desc *d, const layout *a, const layout *b, const layout *c,
                            const layout *o, const uint32_t *align, uint64_t workspace, int wanted,
                            algorithm *list)
{
    static const uint64_t order[NUM_ALGORITHMS] = { HALVES, ALIGNED, ANY_ALIGNMENT };
    int n = 0;

    for (uint64_t id : order)
        if (n < wanted && can_do (id, d, a, b, c, o, align) && workspace_of (id, o) <= workspace)
            list[n++] = { MARK, id, workspace_of (id, o) };
    return n;
}

extern "C" {

size_t cublasLtGetVersion (void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion (void)
{
    return CUDART_VERSION;
}

const char *cublasLtGetStatusName (cublasStatus_t status)
{
    static const std::map<int, const char *> names = {
        { CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS" },
        { CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED" },
        { CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE" },
        { CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED" },
        { CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED" },
    };
    auto found = names.find (status);

    return found == names.end () ? "CUBLAS_STATUS_UNKNOWN" : found->second;
}

const char *cublasLtGetStatusString (cublasStatus_t status)
{
    return cublasLtGetStatusName (status);
}

cublasStatus_t cublasLtCreate (cublasLtHandle_t *handle)
{
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (runtime_enter () != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = (cublasLtHandle_t) new int (runtime_device ());
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy (cublasLtHandle_t handle)
{
    delete (int *)handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate (cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                         cudaDataType_t scale)
{
    desc d = {};

    d.compute = compute;
    d.scale = scale;
    d.fill = CUBLAS_FILL_MODE_FULL;
    d.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    d.bias_type = -1;
    *out = new cublasLtMatmulDescOpaque_t ();
    memcpy (*out, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy (cublasLtMatmulDesc_t d)
{
    delete d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute (cublasLtMatmulDesc_t d,
                                               cublasLtMatmulDescAttributes_t number,
                                               const void *value, size_t size)
{
    return set_attribute (desc_attributes, d, number, value, size, "products");
}

cublasStatus_t cublasLtMatmulDescGetAttribute (cublasLtMatmulDesc_t d,
                                               cublasLtMatmulDescAttributes_t number, void *value,
                                               size_t size, size_t *written)
{
    return get_attribute (desc_attributes, d, number, value, size, written, "products");
}

cublasStatus_t cublasLtMatrixLayoutCreate (cublasLtMatrixLayout_t *out, cudaDataType type,
                                           uint64_t rows, uint64_t cols, int64_t ld)
{
    layout l = { type, CUBLASLT_ORDER_COL, 1, rows, cols, ld, 0 };

    *out = new cublasLtMatrixLayoutOpaque_t ();
    memcpy (*out, &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy (cublasLtMatrixLayout_t l)
{
    delete l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute (cublasLtMatrixLayout_t l,
                                                 cublasLtMatrixLayoutAttribute_t number,
                                                 const void *value, size_t size)
{
    return set_attribute (layout_attributes, l, number, value, size, "layouts");
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute (cublasLtMatrixLayout_t l,
                                                 cublasLtMatrixLayoutAttribute_t number,
                                                 void *value, size_t size, size_t *written)
{
    return get_attribute (layout_attributes, l, number, value, size, written, "layouts");
}

cublasStatus_t cublasLtMatmulPreferenceCreate (cublasLtMatmulPreference_t *out)
{
    preference p = {};

    for (uint32_t &align : p.align)
        align = 256;
    *out = new cublasLtMatmulPreferenceOpaque_t ();
    memcpy (*out, &p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy (cublasLtMatmulPreference_t p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute (cublasLtMatmulPreference_t p,
                                                     cublasLtMatmulPreferenceAttributes_t number,
                                                     const void *value, size_t size)
{
    return set_attribute (preference_attributes, p, number, value, size, "preferences");
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute (cublasLtMatmulPreference_t p,
                                                     cublasLtMatmulPreferenceAttributes_t number,
                                                     void *value, size_t size, size_t *written)
{
    return get_attribute (preference_attributes, p, number, value, size, written, "preferences");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic (
    cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t la,
    cublasLtMatrixLayout_t lb, cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t lo,
    cublasLtMatmulPreference_t wish, int wanted, cublasLtMatmulHeuristicResult_t *results,
    int *found)
{
    const desc *d = (const desc *)product;
    const layout *a = (const layout *)la, *b = (const layout *)lb, *c = (const layout *)lc;
    const layout *o = (const layout *)lo;
    const preference *p = (const preference *)wish;
    algorithm list[NUM_ALGORITHMS];

    if (!handle || !d || !a || !b || !c || !o || !p || !results || !found || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    *found = 0;
    if (!sizes_fit (d, a, b, c, o))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_supported (d, a, b, c, o))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *found = find_algorithms (d, a, b, c, o, p->align, p->workspace,
                              std::min (wanted, (int)NUM_ALGORITHMS), list);
    for (int i = 0; i < *found; i++) {
        memset (&results[i], 0, sizeof results[i]);
        memcpy (&results[i].algo, &list[i], sizeof list[i]);
        results[i].workspaceSize = list[i].workspace;
        results[i].state = CUBLAS_STATUS_SUCCESS;
        results[i].wavesCount = 1;
    }
    return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul (cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void *alpha,
                               const void *pa, cublasLtMatrixLayout_t a, const void *pb,
                               cublasLtMatrixLayout_t b, const void *beta, const void *pc,
                               cublasLtMatrixLayout_t c, void *po, cublasLtMatrixLayout_t o,
                               const cublasLtMatmulAlgo_t *chosen, void *workspace,
                               size_t workspace_size, cudaStream_t handle_of_stream)
{
    struct CUstream_st *stream = runtime_stream (handle_of_stream);
    uint32_t align[] = { alignment_of (pa), alignment_of (pb), alignment_of (pc ? pc : po),
                         alignment_of (po) };
    algorithm algo;
    product p = {};
    cublasStatus_t status;

    if (!handle || !d || !a || !b || !c || !o || !alpha || !beta || !pa || !pb || !po)
        return CUBLAS_STATUS_INVALID_VALUE;
    p = { *(const desc *)d,   *(const layout *)a, *(const layout *)b, *(const layout *)c,
          *(const layout *)o, pa,                 pb,                 pc,
          nullptr,            nullptr,            po,                 nullptr,
          0,                  0 };
    if (!sizes_fit (&p.d, &p.a, &p.b, &p.c, &p.out))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_supported (&p.d, &p.a, &p.b, &p.c, &p.out))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!chosen && find_algorithms (&p.d, &p.a, &p.b, &p.c, &p.out, align, workspace_size, 1, &algo)
                       == 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (chosen)
        memcpy (&algo, chosen, sizeof algo);
    if (algo.mark != MARK || algo.workspace != workspace_of (algo.id, &p.out))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!can_do (algo.id, &p.d, &p.a, &p.b, &p.c, &p.out, align))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.d.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        p.alpha = alpha;
        p.beta = beta;
    } else {
        p.alpha_value = *(const float *)alpha;
        p.beta_value = *(const float *)beta;
    }
    status = check_pointers (&p, &algo, workspace, workspace_size);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!stream || stream->device != *(int *)handle || runtime_device () != *(int *)handle
        || runtime_enter () != cudaSuccess || runtime_check_issue (stream) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    p.workspace = algo.workspace > 0 ? (float *)workspace : nullptr;
    if (p.workspace)
        runtime_submit (stream, [p] {
            sum_halves (&p);
            return cudaSuccess;
        });
    runtime_submit (stream, [p] {
        for (int i = 0; i < p.out.batch; i++)
            write_batch (&p, i);
        return cudaSuccess;
    });
    return CUBLAS_STATUS_SUCCESS;
}

} /* extern "C" */
