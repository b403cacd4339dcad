/* linear.c - linear layers, whole or a shard: Y = X W^T + b
 *
 * Column parallel: W [out / tp, in], every rank has all of X and makes its columns of Y;
 * the gradient of X is a partial sum.  Row parallel: W [out, in / tp], every rank has its
 * columns of X; Y is a partial sum, and the bias is added after the reduction (Shoeybi et al.
 * 2019, section 3).  A weight in float8 is written out anew for each product.
 */

#include "libcore/ops/ops.h"

/* One of the three products. */
struct linear {
    const struct nn *nn;
    int64_t rows;
    struct param *weight, *bias; /* bias NULL: none */
    void *converted;             /* of nn_weight() */
    bool logits; /* Y is float32, and dY takes Y's place with rows of Y's length */
};

static int64_t dy_stride (const struct linear *l)
{
    int64_t out = l->weight->extent[0];

    return l->logits ? kern_xent_ld (out, l->nn->dtype) : out;
}

static int multiply (const struct linear *l, const void *x, void *y, struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .trans_b = true,
        .m = l->rows, .n = out, .k = in,
        .a = x, .lda = in,
        .b = nn_weight (l->nn, l->weight, l->converted, err), .ldb = in,
        .c = y, .ldc = out,
        .bias = l->bias ? tensor_address (l->bias->data) : NULL,
        .dtype = l->nn->dtype, .c_dtype = l->logits ? MG_FLOAT32 : l->nn->dtype,
    };

    return g.b ? kern_gemm (l->nn->kern, &g, l->nn->compute, err) : -1;
}

/* dX = dY W. */
static int input_gradient (const struct linear *l, const void *dy, void *dx,
                           struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    struct kern_gemm g = {
        .m = l->rows, .n = in, .k = out,
        .a = dy, .lda = dy_stride (l),
        .b = nn_weight (l->nn, l->weight, l->converted, err), .ldb = in,
        .c = dx, .ldc = in,
        .dtype = l->nn->dtype, .c_dtype = l->nn->dtype,
    };

    return g.b ? kern_gemm (l->nn->kern, &g, l->nn->compute, err) : -1;
}

/* dW += dY^T X straight into the main gradient, db += column sums of dY. */
static int weight_gradient (const struct linear *l, const void *dy, const void *x,
                            struct mg_error *err)
{
    int64_t out = l->weight->extent[0], in = l->weight->extent[1];
    const struct nn *nn = l->nn;
    const struct kern_gemm g = {
        .trans_a = true, .accumulate = param_adds (l->weight),
        .m = out, .n = in, .k = l->rows,
        .a = dy, .lda = dy_stride (l),
        .b = x, .ldb = in,
        .c = tensor_address (l->weight->grad), .ldc = in,
        .dtype = nn->dtype, .c_dtype = l->weight->grad_dtype,
    };
    struct kern_col_sum sum = { .rows = l->rows, .cols = out, .x = dy, .dtype = nn->dtype };

    if (kern_gemm (nn->kern, &g, nn->compute, err) < 0)
        return -1;
    if (!l->bias)
        return 0;
    sum.out = tensor_address (l->bias->grad);
    sum.grad_dtype = l->bias->grad_dtype;
    return kern_col_sum (nn->kern, &sum, nn->compute, err);
}

/* Describe a column-parallel product.  'y' is the operand with the rows of the product. */
static struct linear column (const struct pass *pass, const struct phase *phase, int y)
{
    return (struct linear){
        .nn = pass->nn,
        .rows = pass_tensor (pass, phase, y)->live,
        .weight = pass_param (pass, phase, COLUMN_WEIGHT),
        .bias = pass_param (pass, phase, COLUMN_BIAS),
        .converted = pass_data (pass, phase, COLUMN_CONVERTED),
        .logits = phase->op == &op_linear_logits,
    };
}

/* The rows of the product; NULL and a text on failure. */
static const void *column_input (const struct pass *pass, const struct phase *phase,
                                 const struct linear *l, struct mg_error *err)
{
    const struct tensor *x = pass_tensor (pass, phase, COLUMN_X);

    if (x->live == l->rows)
        return tensor_at (x, 0);
    return nn_enter (pass->nn, pass->shape, tensor_at (x, 0),
                     pass_data (pass, phase, COLUMN_ALL_ROWS), err);
}

static int column_fwd (const struct pass *pass, const struct phase *phase,
                       struct mg_error *err)
{
    const struct linear l = column (pass, phase, COLUMN_Y);
    const void *x = column_input (pass, phase, &l, err);

    return x ? multiply (&l, x, pass_data (pass, phase, COLUMN_Y), err) : -1;
}

/* The reduction of the input's gradient runs beside the weight's product. */
static int column_bwd (const struct pass *pass, const struct phase *phase,
                       struct mg_error *err)
{
    const struct linear l = column (pass, phase, COLUMN_DY);
    const void *dy = pass_data (pass, phase, COLUMN_DY), *x = NULL;

    if (!phase->frozen && !(x = column_input (pass, phase, &l, err)))
        return -1;
    if (input_gradient (&l, dy, pass_data (pass, phase, COLUMN_DX), err) < 0
        || nn_leave_start (pass->nn, pass->shape, pass_tensor (pass, phase, COLUMN_DX), err)
               < 0)
        return -1;
    return phase->frozen ? 0 : weight_gradient (&l, dy, x, err);
}

static double column_flops (const struct layer_spec *spec, const struct phase *phase,
                            const struct nn *nn, const struct nn_shape *shape)
{
    (void)nn;
    return layer_product_flops (&spec->param[phase->operand[COLUMN_WEIGHT]], shape);
}

#define COLUMN_OP(text)                                                                      \
    {                                                                                        \
        .name = text,                                                                        \
        .flags = PHASE_CAPTURABLE,                                                           \
        .starts_bwd = NN_TP_SIDE,                                                            \
        .flops = column_flops,                                                               \
        .operand = {                                                                         \
            [COLUMN_X] = { "x", false, OPERAND_READ, OPERAND_READ | OPERAND_TRAIN },         \
            [COLUMN_Y] = { "y", false, OPERAND_WRITE, 0 },                                   \
            [COLUMN_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },  \
            [COLUMN_BIAS] = { "bias", true, OPERAND_READ, OPERAND_ADD },                     \
            [COLUMN_DY] = { "dy", false, 0, OPERAND_READ },                                  \
            [COLUMN_DX] = { "dx", false, 0, OPERAND_WRITE | OPERAND_ASIDE },                 \
            [COLUMN_ALL_ROWS] = { OPS_ALL_ROWS, false, OPERAND_SCRATCH,                      \
                                  OPERAND_SCRATCH | OPERAND_TRAIN },                         \
            [COLUMN_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, OPERAND_SCRATCH }, \
        },                                                                                   \
        .fwd = column_fwd,                                                                   \
        .bwd = column_bwd,                                                                   \
    }

const struct layer_op op_linear_column = COLUMN_OP ("linear_column");
const struct layer_op op_linear_logits = COLUMN_OP ("linear_logits");

static struct linear row (const struct pass *pass, const struct phase *phase)
{
    return (struct linear){
        .nn = pass->nn,
        .rows = pass->shape->tokens,
        .weight = pass_param (pass, phase, ROW_WEIGHT),
        .converted = pass_data (pass, phase, ROW_CONVERTED),
    };
}

static int row_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct linear l = row (pass, phase);

    return multiply (&l, pass_data (pass, phase, ROW_X), pass_data (pass, phase, ROW_Y), err);
}

static int row_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct linear l = row (pass, phase);
    const void *dy = nn_enter (pass->nn, pass->shape, pass_data (pass, phase, ROW_DY),
                               pass_data (pass, phase, ROW_ALL_ROWS), err);

    if (!dy || input_gradient (&l, dy, pass_data (pass, phase, ROW_DX), err) < 0)
        return -1;
    return weight_gradient (&l, dy, pass_data (pass, phase, ROW_X), err);
}

static double row_flops (const struct layer_spec *spec, const struct phase *phase,
                         const struct nn *nn, const struct nn_shape *shape)
{
    (void)nn;
    return layer_product_flops (&spec->param[phase->operand[ROW_WEIGHT]], shape);
}

const struct layer_op op_linear_row = {
    .name = "linear_row",
    .flags = PHASE_CAPTURABLE,
    .flops = row_flops,
    .operand = {
        [ROW_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [ROW_Y] = { "y", false, OPERAND_WRITE, 0 },
        [ROW_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
        [ROW_DY] = { "dy", false, 0, OPERAND_READ },
        [ROW_DX] = { "dx", false, 0, OPERAND_WRITE },
        [ROW_ALL_ROWS] = { OPS_ALL_ROWS, false, 0, OPERAND_SCRATCH },
        [ROW_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, OPERAND_SCRATCH },
    },
    .fwd = row_fwd,
    .bwd = row_bwd,
};

static int reduce_fwd (const struct pass *pass, const struct phase *phase,
                       struct mg_error *err)
{
    return nn_leave (pass->nn, pass->shape, pass_tensor (pass, phase, REDUCE_X), err);
}

const struct layer_op op_reduce = {
    .name = "reduce",
    .flags = PHASE_CAPTURABLE,
    .operand = { [REDUCE_X] = { "x", false, OPERAND_READ | OPERAND_WRITE, 0 } },
    .fwd = reduce_fwd,
};
