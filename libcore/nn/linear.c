/* linear.c - the three products of a linear layer */

#include "libcore/nn/linear.h"

/* Row length of dy. */
static int64_t dy_stride (const struct nn *nn, const struct linear *l)
{
    int64_t out = l->weight->extent[0];

    return l->logits ? kern_xent_ld (out, nn->dtype) : out;
}

/* The weight as products take it: of float8, written out anew for each. */
static const void *weight_of (const struct nn *nn, const struct linear *l,
                              struct mg_error *err)
{
    const struct param *w = l->weight;

    if (w->storage == nn->dtype)
        return w->data;
    if (kern_cast (nn->kern,
                   &(struct kern_cast){ .n = w->numel, .scale = w->scale, .x = w->data,
                                        .from = w->storage, .y = nn->weight,
                                        .to = nn->dtype },
                   nn->compute, err) < 0)
        return NULL;
    return nn->weight;
}

int linear_fwd (const struct nn *nn, const struct linear *l, int64_t rows, const void *x,
                void *y, struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .trans_b = true,
        .m = rows, .n = out, .k = in,
        .a = x, .lda = in,
        .b = weight_of (nn, l, err), .ldb = in,
        .c = y, .ldc = out,
        .bias = l->bias ? l->bias->data : NULL,
        .dtype = nn->dtype, .c_dtype = l->logits ? MG_FLOAT32 : nn->dtype,
    };

    return g.b ? kern_gemm (nn->kern, &g, nn->compute, err) : -1;
}

int linear_bwd_input (const struct nn *nn, const struct linear *l, int64_t rows,
                      const void *dy, void *dx, struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .m = rows, .n = in, .k = out,
        .a = dy, .lda = dy_stride (nn, l),
        .b = weight_of (nn, l, err), .ldb = in,
        .c = dx, .ldc = in,
        .dtype = nn->dtype, .c_dtype = nn->dtype,
    };

    return g.b ? kern_gemm (nn->kern, &g, nn->compute, err) : -1;
}

int linear_bwd_weight (const struct nn *nn, const struct linear *l, int64_t rows,
                       const void *dy, const void *x, struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .trans_a = true, .accumulate = true,
        .m = out, .n = in, .k = rows,
        .a = dy, .lda = dy_stride (nn, l),
        .b = x, .ldb = in,
        .c = l->weight->grad, .ldc = in,
        .dtype = nn->dtype, .c_dtype = l->weight->grad_dtype,
    };

    if (kern_gemm (nn->kern, &g, nn->compute, err) < 0)
        return -1;
    if (!l->bias)
        return 0;
    return kern_col_sum (nn->kern,
            &(struct kern_col_sum){ .rows = rows, .cols = out, .x = dy,
                                    .dtype = nn->dtype, .out = l->bias->grad,
                                    .grad_dtype = l->bias->grad_dtype },
            nn->compute, err);
}
