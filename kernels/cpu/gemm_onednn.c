/* gemm_onednn.c - matrix product by oneDNN (2.x and 3.x)
 *
 * A primitive is made when a shape is first used and kept; using it again only sets a few
 * pointers.
 *
 * float32: each thread computes a share of the rows or columns of C of a large product.  oneDNN
 * divides the other products.  How k is divided depends on the shape and on the number of threads,
 * so results may differ in rounding between numbers of threads (not between runs).  With 16-bit
 * types the product is cut into blocks of C here, by its size alone, and oneDNN computes each on
 * one thread: that costs about 4% (256 rows, layers of 768 to 50304 features) and the result does
 * not depend on the number of threads.
 *
 * If the processor has no products of a 16-bit type, oneDNN emulates them, six times slower than in
 * float32. cpu_gemm_ref() computes these products.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/cpu.h"

enum { ARGS = 5 }; /* of an execution: a, b, c, scratch, bias */

enum { BLOCK_ROWS = 256, BLOCK_COLS = 128 }; /* of C, with 16-bit types */

/* The properties that a primitive depends on.  They are compared as bytes, so the struct has no
 * holes.  k is CPU_ANY_DEPTH if the primitive learns it when it is run.
 */
struct key {
    int64_t m, n, k, lda, ldb, ldc;
    uint8_t trans; /* 1: of a, 2: of b */
    uint8_t accumulate, bias;
    uint8_t alone; /* run by one thread, perhaps beside others */
    uint16_t dtype, c_dtype;
};

struct product {
    struct key key;
    bool usable; /* false: oneDNN has no good code for the product */
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t *args; /* [sets][ARGS]: memories hold a pointer, so one set a thread */
    int sets, count;       /* count of the ARGS are used */
    size_t scratch;        /* bytes of scratch of a set, whole pages */
};

struct onednn {
    int threads;
    bool emulate; /* also types that the processor does not multiply */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct product **slots; /* open addressing, NULL: free */
    size_t capacity, used;  /* capacity is a power of two */
};

static int fail (struct mg_error *err, const char *what, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        return mg_error_set (err, ENOMEM, "gemm: oneDNN: out of memory while %s", what);
    return mg_error_set (err, EIO, "gemm: oneDNN: %s failed with status %d", what, (int)status);
}

static dnnl_data_type_t type_of (int dtype)
{
    return dtype == MG_BFLOAT16 ? dnnl_bf16 : dtype == MG_FLOAT16 ? dnnl_f16 : dnnl_f32;
}

/* Versions 2 and 3 differ in how descriptors are made; the rest is the same. */
#if DNNL_VERSION_MAJOR >= 3

enum { ISA_FP16 = dnnl_cpu_isa_avx512_core_fp16 };

/* Version 3.6 writes a C of one column as if its rows had no gap between them. */
enum { GAP_IN_COLUMN = false };

typedef dnnl_memory_desc_t desc_t;

static dnnl_status_t make_desc (desc_t *md, int64_t rows, int64_t cols,
                                int64_t row_stride, int64_t col_stride, int dtype)
{
    dnnl_dims_t dims = { rows, cols }, strides = { row_stride, col_stride };

    return dnnl_memory_desc_create_with_strides (md, 2, dims, type_of (dtype), strides);
}

static void free_desc (desc_t *md)
{
    if (*md)
        dnnl_memory_desc_destroy (*md);
}

static dnnl_status_t append_sum (dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum (ops, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t make_matmul (dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                  const desc_t md[4], dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create (pd, engine, md[0], md[1], md[3], md[2],
                                              attr);
}

static dnnl_status_t make_memory (dnnl_memory_t *memory, const desc_t *md,
                                  dnnl_engine_t engine)
{
    return dnnl_memory_create (memory, *md, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t make_scratch (dnnl_memory_t *memory, dnnl_primitive_desc_t pd,
                                   dnnl_engine_t engine, size_t *size)
{
    const_dnnl_memory_desc_t md
        = dnnl_primitive_desc_query_md (pd, dnnl_query_scratchpad_md, 0);

    *size = dnnl_memory_desc_get_size (md);
    return dnnl_memory_create (memory, md, engine, DNNL_MEMORY_NONE);
}

#else

enum { ISA_FP16 = 1 << 30 }; /* none */
enum { GAP_IN_COLUMN = true };

typedef dnnl_memory_desc_t desc_t;

static dnnl_status_t make_desc (desc_t *md, int64_t rows, int64_t cols,
                                int64_t row_stride, int64_t col_stride, int dtype)
{
    dnnl_dims_t dims = { rows, cols }, strides = { row_stride, col_stride };

    return dnnl_memory_desc_init_by_strides (md, 2, dims, type_of (dtype), strides);
}

static void free_desc (desc_t *md)
{
    (void)md;
}

static dnnl_status_t append_sum (dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum (ops, 1);
}

static dnnl_status_t make_matmul (dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                  const desc_t md[4], dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init (&desc, &md[0], &md[1],
                                                  md[3].ndims ? &md[3] : NULL, &md[2]);

    return status == dnnl_success
               ? dnnl_primitive_desc_create (pd, &desc, attr, engine, NULL)
               : status;
}

static dnnl_status_t make_memory (dnnl_memory_t *memory, const desc_t *md,
                                  dnnl_engine_t engine)
{
    return dnnl_memory_create (memory, md, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t make_scratch (dnnl_memory_t *memory, dnnl_primitive_desc_t pd,
                                   dnnl_engine_t engine, size_t *size)
{
    const dnnl_memory_desc_t *md
        = dnnl_primitive_desc_query_md (pd, dnnl_query_scratchpad_md, 0);

    *size = dnnl_memory_desc_get_size (md);
    return dnnl_memory_create (memory, md, engine, DNNL_MEMORY_NONE);
}

#endif

static struct key key_of (const struct kern_gemm *a, bool alone)
{
    return (struct key){
        .m = a->m,
        .n = a->n,
        .k = a->k,
        .lda = a->lda,
        .ldb = a->ldb,
        .ldc = a->ldc,
        .trans = (uint8_t)(a->trans_a | a->trans_b << 1),
        .accumulate = a->accumulate,
        .bias = a->bias != NULL,
        .alone = alone,
        .dtype = (uint16_t)a->dtype,
        .c_dtype = (uint16_t)a->c_dtype,
    };
}

static size_t hash (const struct key *key)
{
    const int64_t *word = &key->m;
    uint64_t h = key->trans | key->accumulate << 2 | key->bias << 3 | key->dtype << 4
                 | key->c_dtype << 8 | key->alone << 12;

    for (int i = 0; i < 6; i++) {
        h = (h ^ (uint64_t)word[i]) * 0x9e3779b97f4a7c15;
        h ^= h >> 29;
    }
    return (size_t)h;
}

/* The slot that holds the key, or the free one where it belongs. */
static struct product **find (struct onednn *o, const struct key *key)
{
    size_t i = hash (key);

    for (;; i++) {
        struct product **slot = &o->slots[i & (o->capacity - 1)];

        if (!*slot || memcmp (&(*slot)->key, key, sizeof (*key)) == 0)
            return slot;
    }
}

static int grow (struct onednn *o, struct mg_error *err)
{
    struct product **old = o->slots;
    size_t old_capacity = o->capacity, capacity = old_capacity ? 2 * old_capacity : 64;
    struct product **slots = calloc (capacity, sizeof (*slots));

    if (!slots)
        return mg_error_set (err, ENOMEM, "gemm: out of memory");
    o->slots = slots;
    o->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i])
            *find (o, &old[i]->key) = old[i];
    free (old);
    return 0;
}

static void destroy_product (struct product *p)
{
    if (p) {
        for (int i = 0; p->args && i < p->sets * ARGS; i++)
            if (p->args[i].memory)
                dnnl_memory_destroy (p->args[i].memory);
        if (p->primitive)
            dnnl_primitive_destroy (p->primitive);
        free (p->args);
        free (p);
    }
}

/* Descriptors of a, b, c and, if there is one, the bias. */
static dnnl_status_t describe (const struct key *k, desc_t md[4])
{
    int64_t depth = k->k == CPU_ANY_DEPTH ? DNNL_RUNTIME_DIM_VAL : k->k;
    dnnl_status_t status
        = make_desc (&md[0], k->m, depth, k->trans & 1 ? 1 : k->lda, k->trans & 1 ? k->lda : 1,
                     k->dtype);

    if (status == dnnl_success)
        status = make_desc (&md[1], depth, k->n, k->trans & 2 ? 1 : k->ldb,
                            k->trans & 2 ? k->ldb : 1, k->dtype);
    if (status == dnnl_success)
        status = make_desc (&md[2], k->m, k->n, k->ldc, 1, k->c_dtype);
    if (status == dnnl_success && k->bias)
        status = make_desc (&md[3], 1, k->n, k->n, 1, k->dtype);
    return status;
}

static dnnl_status_t choose (struct onednn *o, const struct key *key, const desc_t md[4],
                             dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create (&attr);

    if (status == dnnl_success)
        status
            = dnnl_primitive_attr_set_scratchpad_mode (attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && key->accumulate) {
        status = dnnl_post_ops_create (&ops);
        if (status == dnnl_success)
            status = append_sum (ops);
        if (status == dnnl_success)
            status = dnnl_primitive_attr_set_post_ops (attr, ops);
    }
    if (status == dnnl_success)
        status = make_matmul (pd, o->engine, md, attr);
    if (ops)
        dnnl_post_ops_destroy (ops);
    if (attr)
        dnnl_primitive_attr_destroy (attr);
    return status;
}

/* oneDNN's plain reference code is slower than ours. */
static bool is_reference (dnnl_primitive_desc_t pd)
{
    const char *name = "";

    dnnl_primitive_desc_query (pd, dnnl_query_impl_info_str, 0, (void *)&name);
    return strncmp (name, "ref", 3) == 0;
}

/* One set of arguments.  a and b of any depth have none: run_any_depth() makes them. */
static dnnl_status_t add_memories (struct onednn *o, dnnl_exec_arg_t args[ARGS],
                                   int count, bool any_depth, const desc_t md[4],
                                   dnnl_primitive_desc_t pd, size_t *scratch_size)
{
    static const int roles[ARGS] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                     DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS };
    dnnl_status_t status = dnnl_success;

    for (int i = 0; i < count && status == dnnl_success; i++) {
        args[i].arg = roles[i];
        if (i == 3)
            status = make_scratch (&args[i].memory, pd, o->engine, scratch_size);
        else if (i > 1 || !any_depth)
            status = make_memory (&args[i].memory, &md[i == 4 ? 3 : i], o->engine);
    }
    return status;
}

/* All sets. */
static dnnl_status_t add_sets (struct onednn *o, struct product *p, const desc_t md[4],
                               dnnl_primitive_desc_t pd, size_t *scratch_size)
{
    dnnl_status_t status = dnnl_success;

    p->sets = p->key.alone ? o->threads : 1;
    p->count = p->key.bias ? ARGS : ARGS - 1;
    if (!(p->args = calloc ((size_t)p->sets * ARGS, sizeof (*p->args))))
        return dnnl_out_of_memory;
    for (int i = 0; i < p->sets && status == dnnl_success; i++)
        status = add_memories (o, p->args + i * ARGS, p->count, p->key.k == CPU_ANY_DEPTH, md, pd,
                               scratch_size);
    return status;
}

/* Fill p->primitive and p->args, or leave p->usable false. */
static int build (struct onednn *o, struct product *p, struct mg_error *err)
{
    dnnl_primitive_desc_t pd = NULL;
    desc_t md[4];
    size_t scratch_size = 0;
    dnnl_status_t status;
    int result = 0;

    if (!GAP_IN_COLUMN && p->key.n == 1 && p->key.m > 1 && p->key.ldc > 1)
        return 0; /* our own loops do it */
    memset (md, 0, sizeof (md));
    status = describe (&p->key, md);
    if (status == dnnl_success)
        status = choose (o, &p->key, md, &pd);
    if (status == dnnl_unimplemented || (status == dnnl_success && is_reference (pd)))
        goto done;
    if (status == dnnl_success)
        status = dnnl_primitive_create (&p->primitive, pd);
    if (status == dnnl_success)
        status = add_sets (o, p, md, pd, &scratch_size);
    if (status != dnnl_success)
        result = fail (err, "preparing a product", status);
    p->scratch = (scratch_size + 4095) / 4096 * 4096;
    p->usable = result == 0;
done:
    for (int i = 0; i < 4; i++)
        free_desc (&md[i]);
    if (pd)
        dnnl_primitive_desc_destroy (pd);
    return result;
}

static struct product *add (struct onednn *o, const struct key *key, struct mg_error *err)
{
    struct product *p;

    if (2 * (o->used + 1) > o->capacity && grow (o, err) < 0)
        return NULL;
    if (!(p = calloc (1, sizeof (*p)))) {
        mg_error_set (err, ENOMEM, "gemm: out of memory");
        return NULL;
    }
    p->key = *key;
    if (build (o, p, err) < 0) {
        int saved_errno = errno;

        destroy_product (p);
        errno = saved_errno;
        return NULL;
    }
    *find (o, key) = p;
    o->used++;
    return p;
}

static bool is_wide (const struct kern_gemm *a)
{
    return a->dtype == MG_FLOAT32 && a->c_dtype == MG_FLOAT32;
}

/* The smallest share of C that a thread computes by itself is LONG_SHARE x SHORT_SHARE.  Shares
 * are cut at multiples of SHARE_STEP rows or columns.
 */
enum { LONG_SHARE = 256, SHORT_SHARE = 128, SHARE_STEP = 16 };

static int64_t long_side (const struct kern_gemm *a)
{
    return a->m > a->n ? a->m : a->n;
}

/* True if each thread computes a share of C. */
static bool is_dealt (const struct onednn *o, const struct kern_gemm *a)
{
    return o->threads > 1 && long_side (a) >= LONG_SHARE * (int64_t)o->threads
           && cpu_min (a->m, a->n) >= SHORT_SHARE;
}

/* True if dnnl_sgemm computes the product, and not a primitive.
 *
 * B as stored: the primitive reads B in place, which costs up to a third if the rows of B lie
 * multiples of 4096 bytes apart.  dnnl_sgemm copies B, and was as fast or faster in all shapes
 * measured (18 layers of 64 to 5120 features, 64 to 1024 rows).
 *
 * B transposed: dnnl_sgemm is as fast as the primitive if every thread computes a share (0.97 to
 * 1.05 times as fast, 256 and 1024 rows), and faster on one thread from 512 rows and 2048 columns
 * on (1.01 to 1.16 times).
 */
static bool is_for_sgemm (const struct onednn *o, const struct kern_gemm *a)
{
    bool large = a->m >= 512 && a->n >= 2048;

    return is_wide (a) && !a->bias && a->n * a->k >= 1 << 18
           && (!a->trans_b || is_dealt (o, a) || (o->threads == 1 && large));
}

static dnnl_status_t sgemm (const struct kern_gemm *a)
{
    return dnnl_sgemm (a->trans_a ? 'T' : 'N', a->trans_b ? 'T' : 'N', a->m, a->n, a->k, 1, a->a,
                       a->lda, a->b, a->ldb, a->accumulate ? 1 : 0, a->c, a->ldc);
}

/* Share 'i' of 'shares' of a product: rows of C, or columns if there are more of these. */
static struct kern_gemm share_of (const struct kern_gemm *a, int i, int shares)
{
    int64_t side = long_side (a), steps = (side + SHARE_STEP - 1) / SHARE_STEP;
    int64_t first = steps * i / shares * SHARE_STEP;
    int64_t end = cpu_min (side, steps * (i + 1) / shares * SHARE_STEP);
    struct kern_gemm share = *a;

    if (a->m >= a->n) {
        share.m = end - first;
        share.a = (const float *)a->a + (a->trans_a ? first : first * a->lda);
        share.c = (float *)a->c + first * a->ldc;
    } else {
        share.n = end - first;
        share.b = (const float *)a->b + (a->trans_b ? first * a->ldb : first);
        share.c = (float *)a->c + first;
    }
    return share;
}

/* Each thread calls dnnl_sgemm for a share.  If oneDNN divides a product, its threads copy the
 * same rows and wait for each other.  Shares were 1.00 to 1.06 times as fast in 14 of 15 products
 * of a model (5 layers of 768 to 32000 features, 1024 rows, 2 threads), and 0.98 times in the
 * other.
 */
static dnnl_status_t run_shares (const struct onednn *o, const struct kern_gemm *a)
{
    dnnl_status_t failure = dnnl_success;

#pragma omp parallel for num_threads (o->threads)
    for (int i = 0; i < o->threads; i++) {
        struct kern_gemm share = share_of (a, i, o->threads);
        dnnl_status_t status = sgemm (&share);

        if (status != dnnl_success) {
#pragma omp atomic write
            failure = status;
        }
    }
    return failure;
}

static int run_sgemm (const struct onednn *o, const struct kern_gemm *a, struct mg_error *err)
{
    dnnl_status_t status = is_dealt (o, a) ? run_shares (o, a) : sgemm (a);

    return status == dnnl_success ? 0 : fail (err, "a product", status);
}

/* The primitive for a product, which is run by one thread if 'alone' is set. NULL, and no text if
 * errno is ENOTSUP, on failure.
 */
static struct product *prepare (struct onednn *o, const struct kern_gemm *a, bool alone,
                                struct mg_error *err)
{
    struct key key = key_of (a, alone);
    struct product *p = o->capacity ? *find (o, &key) : NULL;

    if (!p && !(p = add (o, &key, err)))
        return NULL;
    if (!p->usable) {
        errno = ENOTSUP;
        return NULL;
    }
    return p;
}

/* With arguments of set 'set', and scratch memory for this call alone. */
static dnnl_status_t execute (struct onednn *o, const struct product *p, int set,
                              void *scratch, const struct kern_gemm *a)
{
    const void *data[ARGS] = { a->a, a->b, a->c, scratch, a->bias };
    dnnl_exec_arg_t *args = p->args + set * ARGS;
    dnnl_status_t status;

    for (int i = 0; i < p->count; i++)
        dnnl_memory_set_data_handle (args[i].memory, (void *)data[i]);
    status = dnnl_primitive_execute (p->primitive, o->stream, p->count, args);
    return status == dnnl_success ? dnnl_stream_wait (o->stream) : status;
}

/* A product whose depth is known only now: a and b are described for this call.  (These are a few
 * hundred bytes that the library allocates.)
 */
static dnnl_status_t run_any_depth (struct onednn *o, const struct product *p, int set,
                                    void *scratch, const struct kern_gemm *a)
{
    const void *data[ARGS] = { a->a, a->b, a->c, scratch };
    dnnl_exec_arg_t args[ARGS];
    struct key key = p->key;
    desc_t md[4];
    dnnl_status_t status;

    memset (md, 0, sizeof (md));
    memcpy (args, p->args + set * ARGS, sizeof (args));
    key.k = a->k;
    status = describe (&key, md);
    for (int i = 0; i < 2 && status == dnnl_success; i++)
        status = make_memory (&args[i].memory, &md[i], o->engine);
    for (int i = 0; i < 4 && status == dnnl_success; i++)
        status = dnnl_memory_set_data_handle (args[i].memory, (void *)data[i]);
    if (status == dnnl_success)
        status = dnnl_primitive_execute (p->primitive, o->stream, 4, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait (o->stream);
    for (int i = 0; i < 2; i++)
        if (args[i].memory)
            dnnl_memory_destroy (args[i].memory);
    for (int i = 0; i < 4; i++)
        free_desc (&md[i]);
    return status;
}

static int run_product (struct onednn *o, const struct kernels *k, const struct kern_gemm *a,
                        struct mg_error *err)
{
    struct product *p = prepare (o, a, false, err);
    dnnl_status_t status;
    void *scratch;

    if (!p || (!(scratch = cpu_scratch (k, p->scratch, err)) && p->scratch > 0))
        return -1;
    status = execute (o, p, 0, scratch, a);
    return status == dnnl_success ? 0 : fail (err, "a product", status);
}

/* The block of C from (row, col) on. */
static struct kern_gemm block_of (const struct kern_gemm *a, int64_t row, int64_t col)
{
    size_t size = cpu_size (a->dtype), c_size = cpu_size (a->c_dtype);
    struct kern_gemm b = *a;

    b.m = cpu_min (BLOCK_ROWS, a->m - row);
    b.n = cpu_min (BLOCK_COLS, a->n - col);
    b.a = (const char *)a->a + (size_t)(a->trans_a ? row : row * a->lda) * size;
    b.b = (const char *)a->b + (size_t)(a->trans_b ? col * a->ldb : col) * size;
    b.c = (char *)a->c + (size_t)(row * a->ldc + col) * c_size;
    if (a->bias)
        b.bias = (const char *)a->bias + (size_t)col * size;
    return b;
}

/* A product cut into blocks: whole ones, and those of the last rows and columns. */
struct blocks {
    int64_t down, across;
    struct product *p[2][2]; /* [last row of blocks][last column] */
    size_t part;             /* bytes of scratch of each thread */
};

static int prepare_blocks (struct onednn *o, const struct kern_gemm *a, struct blocks *b,
                           struct mg_error *err)
{
    b->down = (a->m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    b->across = (a->n + BLOCK_COLS - 1) / BLOCK_COLS;
    b->part = 0;
    for (int i = 0; i < 4; i++) {
        struct kern_gemm block = block_of (a, i / 2 ? (b->down - 1) * BLOCK_ROWS : 0,
                                           i % 2 ? (b->across - 1) * BLOCK_COLS : 0);
        struct product *p = b->p[i / 2][i % 2] = prepare (o, &block, true, err);

        if (!p)
            return -1;
        if (p->scratch > b->part)
            b->part = p->scratch;
    }
    return 0;
}

static int run_blocks (struct onednn *o, const struct kernels *k, const struct kern_gemm *a,
                       struct mg_error *err)
{
    dnnl_status_t failure = dnnl_success;
    struct blocks b;
    char *scratch;

    if (prepare_blocks (o, a, &b, err) < 0
        || (!(scratch = cpu_scratch (k, b.part * (size_t)o->threads, err)) && b.part > 0))
        return -1;
#pragma omp parallel for num_threads (o->threads) schedule (dynamic) \
    if (b.down * b.across > 1)
    for (int64_t task = 0; task < b.down * b.across; task++) {
        int64_t row = task % b.down, col = task / b.down;
        struct kern_gemm block = block_of (a, row * BLOCK_ROWS, col * BLOCK_COLS);
        size_t own = b.part > 0 ? (size_t)cpu_thread () * b.part : 0;
        dnnl_status_t status = execute (o, b.p[row == b.down - 1][col == b.across - 1],
                                        cpu_thread (), scratch + own, &block);

        if (status != dnnl_success) {
#pragma omp atomic write
            failure = status;
        }
    }
    return failure == dnnl_success ? 0 : fail (err, "a product", failure);
}

/* True if the processor multiplies a type.  Every level includes the bits of those below it. */
static bool is_native (int dtype)
{
    unsigned has = (unsigned)dnnl_get_effective_cpu_isa (), want = 0;

    if (dtype == MG_BFLOAT16)
        want = dnnl_cpu_isa_avx512_core_bf16;
    if (dtype == MG_FLOAT16)
        want = ISA_FP16;
    return has == 0 /* no x86: not known */ || (has & want) == want;
}

static bool is_for_us (const struct onednn *o, const struct kern_gemm *a)
{
    return o->emulate || (is_native (a->dtype) && is_native (a->c_dtype));
}

static int onednn_run (void *impl, const struct kernels *k, const struct kern_gemm *a,
                       struct mg_error *err)
{
    struct onednn *o = impl;
    int before, result;

    if (!is_for_us (o, a)) {
        errno = ENOTSUP;
        return -1;
    }
    /* oneDNN takes the calling thread's OpenMP default as its number of threads */
    before = cpu_set_threads (is_wide (a) ? o->threads : 1);
    if (!is_wide (a))
        result = run_blocks (o, k, a, err);
    else
        result = is_for_sgemm (o, a) ? run_sgemm (o, a, err) : run_product (o, k, a, err);
    cpu_set_threads (before);
    return result;
}

/* dnnl_sgemm() takes its memory, and gives it back, by itself. */
static int plan_product (struct onednn *o, const struct kern_gemm *a, size_t *scratch,
                         struct mg_error *err)
{
    bool by_sgemm = is_for_sgemm (o, a);
    struct product *p = by_sgemm ? NULL : prepare (o, a, false, err);

    if (!p && !by_sgemm)
        return -1;
    *scratch = p ? p->scratch : 0;
    return 0;
}

static int plan_blocks (struct onednn *o, const struct kern_gemm *a, size_t *scratch,
                        struct mg_error *err)
{
    struct blocks b;

    if (prepare_blocks (o, a, &b, err) < 0)
        return -1;
    if (__builtin_mul_overflow (b.part, (size_t)o->threads, scratch))
        return mg_error_set (err, ENOMEM, "gemm: no memory for scratch");
    return 0;
}

static int onednn_plan (void *impl, const struct kern_gemm *a, size_t *scratch,
                        struct mg_error *err)
{
    struct onednn *o = impl;
    int before, result;

    if (!is_for_us (o, a)) {
        errno = ENOTSUP;
        return -1;
    }
    before = cpu_set_threads (is_wide (a) ? o->threads : 1);
    result = is_wide (a) ? plan_product (o, a, scratch, err)
                         : plan_blocks (o, a, scratch, err);
    cpu_set_threads (before);
    return result;
}

static const void *onednn_block (void *impl, const struct kern_gemm *a, size_t *scratch,
                                 struct mg_error *err)
{
    struct onednn *o = impl;
    const struct product *p;

    errno = ENOTSUP;
    p = is_for_us (o, a) ? prepare (o, a, true, err) : NULL;
    if (p)
        *scratch = p->scratch;
    return p;
}

static int onednn_run_block (void *impl, const void *block, int thread, void *scratch,
                             const struct kern_gemm *a)
{
    const struct product *p = block;
    dnnl_status_t status = p->key.k == CPU_ANY_DEPTH ? run_any_depth (impl, p, thread, scratch, a)
                                                     : execute (impl, p, thread, scratch, a);

    return status == dnnl_success ? 0 : -1;
}

static int onednn_single (const struct kern_gemm *a)
{
    return sgemm (a) == dnnl_success ? 0 : -1;
}

static void onednn_destroy (void *impl)
{
    struct onednn *o = impl;

    if (o) {
        int saved_errno = errno;

        for (size_t i = 0; i < o->capacity; i++)
            destroy_product (o->slots[i]);
        free (o->slots);
        if (o->stream)
            dnnl_stream_destroy (o->stream);
        if (o->engine)
            dnnl_engine_destroy (o->engine);
        free (o);
        errno = saved_errno;
    }
}

static void *onednn_create (int threads, bool emulate, struct mg_error *err)
{
    struct onednn *o = calloc (1, sizeof (*o));
    dnnl_status_t status;

    if (!o) {
        mg_error_set (err, ENOMEM, "gemm: out of memory");
        return NULL;
    }
    o->threads = threads;
    o->emulate = emulate;
    status = dnnl_engine_create (&o->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create (&o->stream, o->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        fail (err, "creating its engine", status);
        onednn_destroy (o);
        return NULL;
    }
    return o;
}

const struct cpu_gemm cpu_gemm_onednn = {
    .name = "onednn",
    .create = onednn_create,
    .destroy = onednn_destroy,
    .run = onednn_run,
    .plan = onednn_plan,
    .block = onednn_block,
    .run_block = onednn_run_block,
    .single = onednn_single,
};
