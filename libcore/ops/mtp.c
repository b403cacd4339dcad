/* mtp.c - operations of layers for multi-token prediction (DeepSeek-AI 2024, section 2.2)
 *
 * The weight of the projection is [hidden, 2 hidden], and a tensor-parallel rank has some of its
 * rows: it makes some columns of the result.  The ranks' columns are brought together as a sum of
 * matrices with zeros elsewhere, which is exact, so that the result is left as that of a
 * row-parallel layer: each rank gets its own rows.
 */

#include "libcore/ops/ops.h"

/* 'rows' rows of 'cols' columns. */
static int copy (const struct nn *nn, int64_t rows, int64_t cols, const void *x, int64_t x_stride,
                 void *y, int64_t y_stride, struct mg_error *err)
{
    const struct kern_copy k = { .rows = rows, .heads = 1, .cols = cols, .x = x,
                                 .x_stride = x_stride, .y = y, .y_stride = y_stride,
                                 .dtype = nn->dtype };

    return kern_copy (nn->kern, &k, nn->compute, err);
}

/* Rows of all tokens: [a, b]. */
static int join (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    static const int from[] = { PAIR_A, PAIR_B };
    const struct nn *nn = pass->nn;
    const struct tensor *both = pass_tensor (pass, phase, PAIR_BOTH);

    for (int i = 0; i < 2; i++) {
        const void *x = nn_enter (nn, pass->shape, pass_data (pass, phase, from[i]),
                                  pass_data (pass, phase, PAIR_ALL_ROWS), err);

        if (!x
            || copy (nn, pass->shape->tokens, nn->hidden, x, nn->hidden,
                     tensor_at (both, i * nn->hidden), 2 * nn->hidden, err) < 0)
            return -1;
    }
    return 0;
}

/* This rank's columns of the product are put into rows of 'y', which has all columns. */
static int multiply (const struct pass *pass, const struct phase *phase, struct tensor *y,
                     struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *w = pass_param (pass, phase, PAIR_WEIGHT);
    const struct kern_gemm g = {
        .trans_b = true,
        .m = pass->shape->tokens, .n = w->extent[0], .k = w->extent[1],
        .a = pass_data (pass, phase, PAIR_BOTH), .lda = w->extent[1],
        .b = nn_weight (nn, w, pass_data (pass, phase, PAIR_CONVERTED), err), .ldb = w->extent[1],
        .c = tensor_at (y, w->runs.offset[0]), .ldc = nn->hidden,
        .dtype = nn->dtype, .c_dtype = nn->dtype,
    };

    return g.b ? kern_gemm (nn->kern, &g, nn->compute, err) : -1;
}

static int pair_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct tensor *sum = pass_tensor (pass, phase, PAIR_SUM);
    const struct kern_fill zero = { .n = tensor_count (sum), .out = tensor_at (sum, 0),
                                    .dtype = nn->dtype };

    if (join (pass, phase, err) < 0)
        return -1;
    if (nn->tp_size == 1)
        return multiply (pass, phase, pass_tensor (pass, phase, PAIR_OUT), err);
    if (kern_fill (nn->kern, &zero, nn->compute, err) < 0
        || multiply (pass, phase, sum, err) < 0 || nn_leave (nn, pass->shape, sum, err) < 0)
        return -1;
    return copy (nn, pass->shape->rows, nn->hidden, nn_own_rows (nn, pass->shape, sum),
                 nn->hidden, pass_data (pass, phase, PAIR_OUT), nn->hidden, err);
}

/* dW += dy^T [a, b], with this rank's columns of dy. */
static int weight_gradient (const struct pass *pass, const struct phase *phase, const void *dy,
                            struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct param *w = pass_param (pass, phase, PAIR_WEIGHT);
    const struct kern_gemm g = {
        .trans_a = true, .accumulate = param_adds (w),
        .m = w->extent[0], .n = w->extent[1], .k = pass->shape->tokens,
        .a = dy, .lda = w->extent[0],
        .b = pass_data (pass, phase, PAIR_BOTH), .ldb = w->extent[1],
        .c = tensor_address (w->grad), .ldc = w->extent[1],
        .dtype = nn->dtype, .c_dtype = w->grad_dtype,
    };

    return kern_gemm (nn->kern, &g, nn->compute, err);
}

/* Compute the gradients of a and b, in this rank's own rows. */
static int input_gradients (const struct pass *pass, const struct phase *phase, const void *dy,
                            struct mg_error *err)
{
    static const int to[] = { PAIR_DA, PAIR_DB };
    const struct nn *nn = pass->nn;
    const struct param *w = pass_param (pass, phase, PAIR_WEIGHT);
    struct tensor *both = pass_tensor (pass, phase, PAIR_BOTH);
    const struct kern_gemm g = {
        .m = pass->shape->tokens, .n = w->extent[1], .k = w->extent[0],
        .a = dy, .lda = w->extent[0],
        .b = nn_weight (nn, w, pass_data (pass, phase, PAIR_CONVERTED), err), .ldb = w->extent[1],
        .c = tensor_at (both, 0), .ldc = w->extent[1],
        .dtype = nn->dtype, .c_dtype = nn->dtype,
    };

    if (!g.b || kern_gemm (nn->kern, &g, nn->compute, err) < 0
        || nn_leave (nn, pass->shape, both, err) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        const struct tensor *d = pass_tensor (pass, phase, to[i]);
        int64_t first = nn_own_row (nn, pass->shape);

        if (copy (nn, pass->shape->rows, nn->hidden,
                  tensor_at (both, 2 * first * nn->hidden + i * nn->hidden), 2 * nn->hidden,
                  tensor_at (d, first * nn->hidden), nn->hidden, err) < 0)
            return -1;
    }
    return 0;
}

static int pair_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *w = pass_param (pass, phase, PAIR_WEIGHT);
    void *columns = pass_data (pass, phase, PAIR_COLUMNS);
    size_t first = (size_t)w->runs.offset[0] * mg_dtype_size (nn->dtype);
    const char *dy = nn_enter (nn, pass->shape, pass_data (pass, phase, PAIR_DOUT),
                               pass_data (pass, phase, PAIR_ALL_ROWS), err);

    if (!dy
        || copy (nn, pass->shape->tokens, w->extent[0], dy + first, nn->hidden, columns,
                 w->extent[0], err) < 0
        || join (pass, phase, err) < 0 || weight_gradient (pass, phase, columns, err) < 0)
        return -1;
    return input_gradients (pass, phase, columns, err);
}

/* Megatron-LM counts the three norms of the layer, too: a multiplication and its addition for each
 * element.
 */
static double pair_flops (const struct layer_spec *spec, const struct phase *phase,
                          const struct nn *nn, const struct nn_shape *shape)
{
    return layer_product_flops (&spec->param[phase->operand[PAIR_WEIGHT]], shape)
           + 2.0 * 3 * (double)shape->tokens * (double)nn->hidden;
}

const struct layer_op op_project_pair = {
    .name = "project_pair",
    .flags = PHASE_CAPTURABLE,
    .flops = pair_flops,
    .operand = {
        [PAIR_A] = { "a", false, OPERAND_READ, OPERAND_READ },
        [PAIR_B] = { "b", false, OPERAND_READ, OPERAND_READ },
        [PAIR_BOTH] = { "both", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [PAIR_SUM] = { "sum", false, OPERAND_SCRATCH, 0 },
        [PAIR_OUT] = { "out", false, OPERAND_WRITE, 0 },
        [PAIR_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
        [PAIR_DOUT] = { "dout", false, 0, OPERAND_READ },
        [PAIR_COLUMNS] = { "columns", false, 0, OPERAND_SCRATCH },
        [PAIR_DA] = { "da", false, 0, OPERAND_WRITE },
        [PAIR_DB] = { "db", false, 0, OPERAND_WRITE },
        [PAIR_ALL_ROWS] = { OPS_ALL_ROWS, false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [PAIR_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, OPERAND_SCRATCH },
    },
    .fwd = pair_fwd,
    .bwd = pair_bwd,
};

static int two_readers_fwd (const struct pass *pass, const struct phase *phase,
                            struct mg_error *err)
{
    (void)pass, (void)phase, (void)err;
    return 0;
}

static int two_readers_bwd (const struct pass *pass, const struct phase *phase,
                            struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_row_combine k = {
        .tokens = pass->shape->rows, .topk = 1, .cols = nn->hidden,
        .x = pass_data (pass, phase, READERS_DY), .accumulate = true,
        .y = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, READERS_DX)),
        .dtype = nn->dtype,
    };

    return kern_row_combine (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_two_readers = {
    .name = "two_readers",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = {
        [READERS_DX] = { "dx", false, 0, OPERAND_READ | OPERAND_WRITE },
        [READERS_DY] = { "dy", false, 0, OPERAND_READ },
    },
    .fwd = two_readers_fwd,
    .bwd = two_readers_bwd,
};
