/* gpt.c - specifications of a GPT's layers, from its configuration
 *
 * 'kind' of a parameter is a coordinate of its initial values: a number that is given away once
 * keeps its meaning for ever.
 */

#include <errno.h>

#include "libcore/nn/gpt.h"
#include "libcore/nn/ops.h"

/* Kinds of the parameters. */
enum {
    KIND_NORM1_WEIGHT, KIND_NORM1_BIAS, KIND_PROJ_WEIGHT, KIND_PROJ_BIAS, KIND_QKV_WEIGHT,
    KIND_QKV_BIAS, KIND_NORM2_WEIGHT, KIND_NORM2_BIAS, KIND_FC1_WEIGHT, KIND_FC1_BIAS,
    KIND_FC2_WEIGHT, KIND_FC2_BIAS,
    KIND_WORD = 100, KIND_POSITION, KIND_OUTPUT, KIND_FINAL_WEIGHT, KIND_FINAL_BIAS,
};

/* A layer that is being specified. */
struct maker {
    const struct nn *nn;
    const struct nn_shape *shape;
    struct layer_spec *spec;
    int gradient; /* of the hidden state */
};

static int vector (struct maker *m, const char *name, enum param_split split, int64_t n,
                   enum init init, int kind)
{
    return layer_add_param (m->spec, &(struct layer_param){ .name = name, .ndims = 1,
                                                            .global = { n }, .split = split,
                                                            .init = init, .kind = kind });
}

static int matrix (struct maker *m, const char *name, enum param_split split, int64_t rows,
                   int64_t cols, enum init init, int kind)
{
    return layer_add_param (m->spec, &(struct layer_param){ .name = name, .ndims = 2,
                                                            .global = { rows, cols },
                                                            .split = split, .init = init,
                                                            .kind = kind, .matrix = true });
}

static int tensor (struct maker *m, const char *name, enum layer_life life, int64_t rows,
                   int64_t cols)
{
    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .life = life,
                                                              .ndims = 2,
                                                              .shape = { rows, cols } });
}

static int statistics (struct maker *m, const char *name, int64_t rows, int64_t cols)
{
    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .wide = true,
                                                              .life = LIFE_SAVED, .ndims = 2,
                                                              .shape = { rows, cols } });
}

/* Made by backward passes, of no use between layers. */
static int gradient (struct maker *m, const char *name, int64_t rows, int64_t cols)
{
    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .gradient = true,
                                                              .life = LIFE_SHARED, .ndims = 2,
                                                              .shape = { rows, cols } });
}

static int hidden (struct maker *m, const char *name, enum layer_life life)
{
    return tensor (m, name, life, m->shape->rows, m->nn->hidden);
}

/* Summands of all tokens, before they leave a tensor-parallel region. */
static int branch (struct maker *m)
{
    return tensor (m, "branch", LIFE_SHARED, m->shape->tokens, m->nn->hidden);
}

static void phase (struct maker *m, const struct phase *p)
{
    layer_add_phase (m->spec, p);
}

/* norm: its result. 'dy' is what the linear layer behind it starts to reduce. */
static int add_norm (struct maker *m, const char *name, const char *y_name,
                     const char *stat_name, const struct layer_op *op, int x, int weight,
                     int bias, int dy)
{
    int y = hidden (m, y_name, LIFE_SAVED);
    int stat = statistics (m, stat_name, 2, m->shape->rows);

    phase (m, &(struct phase){ .name = name, .op = op,
                               .operand = { [NORM_X] = x, [NORM_Y] = y, [NORM_STAT] = stat,
                                            [NORM_WEIGHT] = weight, [NORM_BIAS] = bias,
                                            [NORM_DY] = dy, [NORM_DX] = m->gradient } });
    return y;
}

/* What a half adds to the residual, and the gradient of that. */
struct sum {
    int branch, dbranch;
};

/* The end of a half: the sum over the tensor-parallel group, then the residual. */
static void add_residual (struct maker *m, const char *reduce, const char *name,
                          const struct sum *sum, int in, int out, int bias, int which)
{
    phase (m, &(struct phase){ .name = reduce, .op = &op_reduce,
                               .operand = { [REDUCE_X] = sum->branch } });
    phase (m, &(struct phase){ .name = name, .op = &op_residual, .which = which,
                               .operand = { [RESIDUAL_BRANCH] = sum->branch,
                                            [RESIDUAL_IN] = in, [RESIDUAL_OUT] = out,
                                            [RESIDUAL_BIAS] = bias,
                                            [RESIDUAL_DOUT] = m->gradient,
                                            [RESIDUAL_DBRANCH] = sum->dbranch } });
}

/* Attention half: 'out' = 'in' + ... */
static void add_attention (struct maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    int64_t h = nn->hidden, tokens = m->shape->tokens, local = nn->local_attention;
    int64_t attention = (int64_t)nn->config.num_heads * nn->head_dim;
    int norm_weight = vector (m, "input_layernorm.weight", SPLIT_NONE, h, INIT_ONE,
                              KIND_NORM1_WEIGHT);
    int norm_bias = vector (m, "input_layernorm.bias", SPLIT_NONE, h, INIT_ZERO,
                            KIND_NORM1_BIAS);
    int proj = matrix (m, "self_attention.linear_proj.weight", SPLIT_COLS, h, attention,
                       INIT_SCALED, KIND_PROJ_WEIGHT);
    int proj_bias = vector (m, "self_attention.linear_proj.bias", SPLIT_NONE, h, INIT_ZERO,
                            KIND_PROJ_BIAS);
    int qkv = matrix (m, "self_attention.linear_qkv.weight", SPLIT_ROWS, 3 * attention, h,
                      INIT_NORMAL, KIND_QKV_WEIGHT);
    int qkv_bias = vector (m, "self_attention.linear_qkv.bias", SPLIT_ROWS, 3 * attention,
                           INIT_ZERO, KIND_QKV_BIAS);
    int dnorm = gradient (m, "norm", tokens, h);
    int x = add_norm (m, "input_layernorm", "norm1", "stat1", &op_norm_add, in, norm_weight,
                      norm_bias, dnorm);
    int heads = tensor (m, "qkv", LIFE_SAVED, tokens, 3 * local);
    int lse = statistics (m, "lse", m->shape->batch * nn->local_heads, m->shape->seq);
    int context = tensor (m, "context", LIFE_SAVED, tokens, local);
    int dheads = gradient (m, "qkv", tokens, 3 * local);
    int dcontext = gradient (m, "context", tokens, local);
    int sum = branch (m), dbranch = gradient (m, "branch", m->shape->rows, h);

    phase (m, &(struct phase){ .name = "linear_qkv", .op = &op_linear_column,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = heads,
                                            [COLUMN_WEIGHT] = qkv, [COLUMN_BIAS] = qkv_bias,
                                            [COLUMN_DY] = dheads, [COLUMN_DX] = dnorm } });
    phase (m, &(struct phase){ .name = "core_attention", .op = &op_attention,
                               .operand = { [ATTENTION_QKV] = heads, [ATTENTION_OUT] = context,
                                            [ATTENTION_LSE] = lse,
                                            [ATTENTION_DOUT] = dcontext,
                                            [ATTENTION_DQKV] = dheads } });
    phase (m, &(struct phase){ .name = "linear_proj", .op = &op_linear_row,
                               .operand = { [ROW_X] = context, [ROW_Y] = sum,
                                            [ROW_WEIGHT] = proj, [ROW_DY] = dbranch,
                                            [ROW_DX] = dcontext } });
    add_residual (m, "attention_reduce", "self_attn_bda",
                  &(struct sum){ sum, dbranch }, in, out, proj_bias, 0);
}

/* Feed-forward half: 'out' = 'in' + ... */
static void add_mlp (struct maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    int64_t h = nn->hidden, ffn = nn->config.ffn_hidden_size, tokens = m->shape->tokens;
    int norm_weight = vector (m, "pre_mlp_layernorm.weight", SPLIT_NONE, h, INIT_ONE,
                              KIND_NORM2_WEIGHT);
    int norm_bias = vector (m, "pre_mlp_layernorm.bias", SPLIT_NONE, h, INIT_ZERO,
                            KIND_NORM2_BIAS);
    int fc1 = matrix (m, "mlp.linear_fc1.weight", SPLIT_ROWS, ffn, h, INIT_NORMAL,
                      KIND_FC1_WEIGHT);
    int fc1_bias = vector (m, "mlp.linear_fc1.bias", SPLIT_ROWS, ffn, INIT_ZERO,
                           KIND_FC1_BIAS);
    int fc2 = matrix (m, "mlp.linear_fc2.weight", SPLIT_COLS, h, ffn, INIT_SCALED,
                      KIND_FC2_WEIGHT);
    int fc2_bias = vector (m, "mlp.linear_fc2.bias", SPLIT_NONE, h, INIT_ZERO, KIND_FC2_BIAS);
    int dnorm = gradient (m, "norm", tokens, h);
    int x = add_norm (m, "pre_mlp_layernorm", "norm2", "stat2", &op_norm_add, in, norm_weight,
                      norm_bias, dnorm);
    int wide = tensor (m, "fc1", LIFE_SAVED, tokens, nn->local_ffn);
    int active = tensor (m, "gelu", LIFE_SAVED, tokens, nn->local_ffn);
    int dwide = gradient (m, "ffn", tokens, nn->local_ffn);
    int sum = branch (m), dbranch = gradient (m, "branch", m->shape->rows, h);

    phase (m, &(struct phase){ .name = "linear_fc1", .op = &op_linear_column,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = wide,
                                            [COLUMN_WEIGHT] = fc1, [COLUMN_BIAS] = fc1_bias,
                                            [COLUMN_DY] = dwide, [COLUMN_DX] = dnorm } });
    phase (m, &(struct phase){ .name = "gelu", .op = &op_gelu,
                               .operand = { [GELU_X] = wide, [GELU_Y] = active,
                                            [GELU_DY] = dwide } });
    phase (m, &(struct phase){ .name = "linear_fc2", .op = &op_linear_row,
                               .operand = { [ROW_X] = active, [ROW_Y] = sum,
                                            [ROW_WEIGHT] = fc2, [ROW_DY] = dbranch,
                                            [ROW_DX] = dwide } });
    add_residual (m, "mlp_reduce", "mlp_bda", &(struct sum){ sum, dbranch }, in, out,
                  fc2_bias, 1);
}

static void make_layer (struct maker *m)
{
    int in = hidden (m, "input", LIFE_INPUT), out = hidden (m, "output", LIFE_OUTPUT);
    int residual = hidden (m, "residual", LIFE_SAVED);

    m->spec->name = "layer";
    m->spec->prefix = "decoder.layers.%d.";
    add_attention (m, in, residual);
    add_mlp (m, residual, out);
}

static int vocabulary (struct maker *m, const char *name, int kind)
{
    const struct model_config *c = &m->nn->config;

    return layer_add_param (
        m->spec, &(struct layer_param){ .name = name, .ndims = 2,
                                        .global = { c->vocab_size, c->hidden_size },
                                        .padded = c->padded_vocab_size, .split = SPLIT_ROWS,
                                        .init = INIT_NORMAL, .kind = kind,
                                        .embedding = kind == KIND_WORD });
}

static void make_embedding (struct maker *m)
{
    const struct model_config *c = &m->nn->config;
    int out = hidden (m, "output", LIFE_OUTPUT), sum = branch (m);
    int word = vocabulary (m, "word_embeddings.weight", KIND_WORD);
    int position = layer_add_param (
        m->spec, &(struct layer_param){ .name = "position_embeddings.weight", .ndims = 2,
                                        .global = { c->max_positions, c->hidden_size },
                                        .init = INIT_NORMAL, .kind = KIND_POSITION });

    m->spec->name = "embedding";
    m->spec->prefix = "embedding.";
    phase (m, &(struct phase){ .name = "word_embeddings", .op = &op_word,
                               .operand = { [WORD_OUT] = sum, [WORD_TABLE] = word,
                                            [WORD_DOUT] = m->gradient } });
    phase (m, &(struct phase){ .name = "reduce", .op = &op_reduce,
                               .operand = { [REDUCE_X] = sum } });
    phase (m, &(struct phase){ .name = "position_embeddings", .op = &op_position,
                               .operand = { [POSITION_X] = sum, [POSITION_OUT] = out,
                                            [POSITION_TABLE] = position,
                                            [POSITION_DOUT] = m->gradient } });
}

static void make_copy (struct maker *m)
{
    int in = hidden (m, "input", LIFE_INPUT), out = hidden (m, "output", LIFE_OUTPUT);

    m->spec->name = "copy";
    m->spec->prefix = "";
    phase (m, &(struct phase){ .name = "copy", .op = &op_copy,
                               .operand = { [COPY_X] = in, [COPY_Y] = out } });
}

/* The final norm and the output layer, whose output is the logits. */
static void make_head (struct maker *m)
{
    const struct nn *nn = m->nn;
    int in = hidden (m, "input", LIFE_INPUT);
    int norm_weight = vector (m, "decoder.final_layernorm.weight", SPLIT_NONE, nn->hidden,
                              INIT_ONE, KIND_FINAL_WEIGHT);
    int norm_bias = vector (m, "decoder.final_layernorm.bias", SPLIT_NONE, nn->hidden,
                            INIT_ZERO, KIND_FINAL_BIAS);
    int weight = nn->config.tied_embeddings
                     ? vocabulary (m, "embedding.word_embeddings.weight", KIND_WORD)
                     : vocabulary (m, "output_layer.weight", KIND_OUTPUT);
    int dnorm = gradient (m, "norm", m->shape->tokens, nn->hidden);
    int x = add_norm (m, "final_layernorm", "norm", "stat", &op_norm, in, norm_weight,
                      norm_bias, dnorm);
    int logits = layer_add_tensor (
        m->spec, &(struct layer_tensor){ .name = "logits", .wide = true, .life = LIFE_OUTPUT,
                                         .ndims = 2,
                                         .shape = { m->shape->tokens, nn->local_vocab } });

    m->spec->name = "output layer";
    m->spec->prefix = "";
    phase (m, &(struct phase){ .name = "output_layer", .op = &op_linear_logits,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = logits,
                                            [COLUMN_WEIGHT] = weight, [COLUMN_DY] = logits,
                                            [COLUMN_DX] = dnorm } });
}

static void make_loss (struct maker *m)
{
    int64_t tokens = m->shape->tokens;
    int logits = layer_add_tensor (
        m->spec, &(struct layer_tensor){ .name = "logits", .wide = true, .life = LIFE_INPUT,
                                         .ndims = 2,
                                         .shape = { tokens, m->nn->local_vocab } });
    int max = statistics (m, "softmax maxima", 1, tokens);
    int sums = statistics (m, "softmax sums", 2, tokens);
    int scale = statistics (m, "scale", 1, tokens);

    m->spec->name = "loss";
    m->spec->prefix = "";
    phase (m, &(struct phase){ .name = "cross_entropy", .op = &op_cross_entropy,
                               .operand = { [LOSS_LOGITS] = logits, [LOSS_MAX] = max,
                                            [LOSS_SUMS] = sums, [LOSS_SCALE] = scale } });
}

int gpt_spec (enum gpt_layer which, const struct nn *nn, const struct nn_shape *shape,
              struct layer_spec *spec, struct mg_error *err)
{
    static void (*const make[GPT_NUM_LAYERS]) (struct maker *m) = {
        [GPT_EMBEDDING] = make_embedding, [GPT_LAYER] = make_layer, [GPT_COPY] = make_copy,
        [GPT_HEAD] = make_head, [GPT_LOSS] = make_loss,
    };
    struct maker m = { .nn = nn, .shape = shape, .spec = spec };

    *spec = (struct layer_spec){ .num_params = 0 };
    if (which != GPT_LOSS && which != GPT_COPY)
        m.gradient = hidden (&m, "hidden", LIFE_GRADIENT);
    make[which] (&m);
    return layer_spec_check (spec, err);
}
