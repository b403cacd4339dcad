/* table.c - the CUDA backend's table */

#include <errno.h>
#include <stdlib.h>

#include "kernels/cuda/product.h"
#include "kernels/cuda/table.h"

struct cuda_table {
    struct kernels kernels;
    cuda_open_f *open;
    struct cuda_products *products;
    struct cuda_limits limits;
};

static struct cuda_table *table_of (const struct kernels *k)
{
    return (struct cuda_table *)k; // kernels come first
}

/* cuda_open_f of the table, and the limits of its device. */
static int open_call (const struct kernels *k, struct mg_stream *stream, size_t scratch,
                      struct cuda_call *call, struct mg_error *err)
{
    int rc = table_of (k)->open (k, stream, scratch, call, err);

    call->limits = table_of (k)->limits;
    return rc;
}

#define RUN(OP, op)                                                                     \
    static int run_##op (const struct kernels *k, const void *args,                     \
                         struct mg_stream *stream, struct mg_error *err)                \
    {                                                                                   \
        struct cuda_call call;                                                          \
                                                                                        \
        if (open_call (k, stream, 0, &call, err) < 0)                                   \
            return -1;                                                                  \
        return cuda_##op (&call, args, err);                                            \
    }
CUDA_PLAIN_OPS (RUN)

#define RUN_SCRATCH(OP, op)                                                             \
    static int run_##op (const struct kernels *k, const void *args,                     \
                         struct mg_stream *stream, struct mg_error *err)                \
    {                                                                                   \
        struct cuda_call call;                                                          \
                                                                                        \
        if (open_call (k, stream, cuda_##op##_scratch (args), &call, err) < 0)          \
            return -1;                                                                  \
        return cuda_##op (&call, args, err);                                            \
    }                                                                                   \
    static int scratch_##op (const struct kernels *k, const void *args, size_t *bytes,  \
                             struct mg_error *err)                                      \
    {                                                                                   \
        (void)k, (void)err;                                                             \
        *bytes = cuda_##op##_scratch (args);                                            \
        return 0;                                                                       \
    }
CUDA_SCRATCH_OPS (RUN_SCRATCH)

static int run_gemm (const struct kernels *k, const void *args, struct mg_stream *stream,
                     struct mg_error *err)
{
    struct cuda_call call;

    if (kern_gemm_check (args, err) < 0
        || open_call (k, stream, cuda_gemm_scratch (args), &call, err) < 0)
        return -1;
    return cuda_product (table_of (k)->products, &call, args, err);
}

static int scratch_gemm (const struct kernels *k, const void *args, size_t *bytes,
                         struct mg_error *err)
{
    if (kern_gemm_check (args, err) < 0)
        return -1;
    *bytes = cuda_gemm_scratch (args);
    return cuda_product_prepare (table_of (k)->products, args, err);
}

#define RUN_SLOT(OP, op) [KERN_##OP] = run_##op,
#define SCRATCH_SLOT(OP, op) [KERN_##OP] = scratch_##op,

static const struct kern_ops ops = {
    .name = "cuda",
    .run = { [KERN_GEMM] = run_gemm, CUDA_OPS (RUN_SLOT) },
    .scratch = { [KERN_GEMM] = scratch_gemm, CUDA_SCRATCH_OPS (SCRATCH_SLOT) },
};

struct cuda_table *cuda_table_create (cuda_open_f *open, void *impl, struct mg_error *err)
{
    struct cuda_table *table = calloc (1, sizeof (*table));

    if (!table) {
        mg_error_set (err, ENOMEM, "device cuda: out of memory");
        return NULL;
    }
    table->open = open;
    table->kernels = (struct kernels){ .ops = &ops, .impl = impl };
    if (cuda_load_kernels (err) < 0 || cuda_limits_of (&table->limits, err) < 0
        || !(table->products = cuda_products_create (err))) {
        cuda_table_destroy (table);
        return NULL;
    }
    return table;
}

struct kernels *cuda_table_kernels (struct cuda_table *table)
{
    return &table->kernels;
}

void cuda_table_destroy (struct cuda_table *table)
{
    if (table)
        cuda_products_destroy (table->products);
    free (table);
}
