/* linear.c - the three products of a linear layer */

#include "libcore/nn/linear.h"

int linear_fwd (const struct nn *nn, const struct linear *l, int64_t rows, const float *x,
                float *y, struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .trans_b = true,
        .m = rows, .n = out, .k = in,
        .a = x, .lda = in,
        .b = l->weight->data, .ldb = in,
        .c = y, .ldc = out,
        .bias = l->bias ? l->bias->data : NULL,
        .dtype = MG_FLOAT32, .c_dtype = MG_FLOAT32,
    };

    return nn->kern->ops->gemm (nn->kern, &g, nn->compute, err);
}

int linear_bwd_input (const struct nn *nn, const struct linear *l, int64_t rows,
                      const float *dy, float *dx, struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .m = rows, .n = in, .k = out,
        .a = dy, .lda = out,
        .b = l->weight->data, .ldb = in,
        .c = dx, .ldc = in,
        .dtype = MG_FLOAT32, .c_dtype = MG_FLOAT32,
    };

    return nn->kern->ops->gemm (nn->kern, &g, nn->compute, err);
}

int linear_bwd_weight (const struct nn *nn, const struct linear *l, int64_t rows,
                       const float *dy, const float *x, struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .trans_a = true, .accumulate = true,
        .m = out, .n = in, .k = rows,
        .a = dy, .lda = out,
        .b = x, .ldb = in,
        .c = l->weight->grad, .ldc = in,
        .dtype = MG_FLOAT32, .c_dtype = MG_FLOAT32,
    };

    if (nn->kern->ops->gemm (nn->kern, &g, nn->compute, err) < 0)
        return -1;
    if (!l->bias)
        return 0;
    return nn->kern->ops->col_sum (nn->kern, rows, out, dy, MG_FLOAT32, l->bias->grad, nn->compute, err);
}
