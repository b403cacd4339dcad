/* gpt_head.c - the heads of a model: a norm, the output layer and its loss
 *
 * With layers for multi-token prediction, what the norm of a head makes is also the output of the
 * layer, which the next layer for multi-token prediction reads.  So backward passes add the
 * gradient that comes from there to that of the product, and one logits tensor after the other is
 * replaced by its gradient.
 *
 * The head of a model with caches makes the logits of the rows that are wanted, and has no loss.
 */

#include "libcore/model/gpt_private.h"

/* The loss of logits; 'mtp': of multi-token prediction. */
static void add_loss (struct gpt_maker *m, int logits, bool mtp)
{
    const struct model_config *c = &m->nn->config;
    struct nn_extent tokens = gpt_tokens (), one = gpt_fixed (1);
    const struct layer_tensor total = { .name = "loss", .type = LAYER_FLOAT64, .life = LIFE_LOSS,
                                        .ndims = 1, .shape = { 3 } };
    struct layer_tensor unused = total;
    struct phase p = {
        .name = "cross_entropy", .op = &op_cross_entropy,
        .operand = { [LOSS_LOGITS] = logits, [LOSS_TOTAL] = layer_add_tensor (m->spec, &total),
                     [LOSS_MAX] = gpt_statistics (m, "softmax maxima", tokens, 1),
                     [LOSS_SUMS] = gpt_statistics (m, "softmax sums", nn_times (tokens, 2), 1),
                     [LOSS_SCALE] = gpt_statistics (m, "scale", tokens, 1),
                     [LOSS_LABELS] = gpt_input (m, "labels", LAYER_INT32, tokens, mtp),
                     [LOSS_MASK] = gpt_input (m, "loss_mask", LAYER_FLOAT32, tokens, mtp) } };

    if (m->nn->cp_size > 1 || c->mtp_num_layers > 0)
        p.operand[LOSS_COUNT] = gpt_input (m, "loss_count", LAYER_FLOAT64, one, mtp);
    m->spec->loss = (struct layer_loss){ "lm loss", 1 };
    if (mtp) {
        p.operand[LOSS_MAIN_COUNT] = gpt_input (m, "loss_count", LAYER_FLOAT64, one, false);
        unused.life = LIFE_SHARED;
        p.operand[LOSS_UNUSED] = layer_add_tensor (m->spec, &unused);
        m->spec->loss = (struct layer_loss){ "mtp_%d loss", c->mtp_scaling_factor
                                                            / c->mtp_num_layers };
    }
    gpt_phase (m, &p);
}

/* The reader of the output of a head's norm: no layer, a layer, or a layer from which no gradient
 * comes back.
 */
enum reader { NO_READER, READER, DETACHED_READER };

/* The rows of 'x' that the head takes. */
static int add_wanted (struct gpt_maker *m, int x)
{
    struct nn_extent wanted = nn_extent (NN_WANTED, 1);
    int y = gpt_scratch (m, "wanted_rows", wanted, m->nn->hidden);

    gpt_phase (m, &(struct phase){ .name = "wanted_rows", .op = &op_take_rows,
                                   .operand = { [TAKE_X] = x, [TAKE_Y] = y,
                                                [TAKE_ROWS] = gpt_input (m, "wanted", LAYER_INT32,
                                                                         wanted, false) } });
    return y;
}

/* 'mtp': the head is that of a layer for multi-token prediction, whose loss may not train the
 * weight of the output layer.
 */
static void add_head (struct gpt_maker *m, const char *norm_weight, const char *norm_bias,
                      enum reader reader, bool mtp)
{
    bool last = reader == NO_READER, detached = mtp && m->nn->config.mtp_detached;
    struct nn_extent tokens = gpt_tokens ();
    int64_t h = m->nn->hidden;
    bool some = m->nn->cache.length > 0;
    struct nn_extent rows = some ? nn_extent (NN_WANTED, 1) : gpt_rows ();
    int in = gpt_hidden (m, "input", LIFE_INPUT), x = some ? add_wanted (m, in) : in;
    int out = gpt_tensor (m, last ? "norm" : "output", last ? LIFE_SAVED : LIFE_OUTPUT, rows, h);
    int stat = gpt_norm_statistics (m, "stat", rows);
    struct gpt_norm norm = gpt_norm_params (m, norm_weight, norm_bias, h, KIND_FINAL_WEIGHT, false);
    int weight = gpt_head_weight (m), dnorm = gpt_gradient (m, "norm", tokens, h);
    int logits = gpt_statistics (m, "logits", some ? rows : tokens, m->nn->local_vocab);

    gpt_phase (m, &(struct phase){ .name = "final_layernorm", .op = &op_norm,
                                   .operand = { [NORM_X] = x, [NORM_Y] = out,
                                                [NORM_STAT] = stat, [NORM_WEIGHT] = norm.weight,
                                                [NORM_BIAS] = norm.bias, [NORM_DY] = dnorm,
                                                [NORM_DX] = m->gradient } });
    if (reader == READER)
        gpt_phase (m, &(struct phase){ .name = "two_readers", .op = &op_two_readers,
                                       .operand = { [READERS_DX] = dnorm,
                                                    [READERS_DY] = m->gradient } });
    gpt_phase (m, &(struct phase){ .name = "output_layer",
                                   .op = &op_linear_logits, .frozen = detached,
                                   .operand = { [COLUMN_X] = out, [COLUMN_Y] = logits,
                                                [COLUMN_WEIGHT] = weight, [COLUMN_DY] = logits,
                                                [COLUMN_DX] = dnorm } });
    if (!some)
        add_loss (m, logits, mtp);
}

void gpt_make_head (struct gpt_maker *m)
{
    const struct model_config *c = &m->nn->config;
    enum reader reader = c->mtp_num_layers == 0 ? NO_READER
                         : c->mtp_detached      ? DETACHED_READER
                                                : READER;

    m->spec->name = "output layer";
    m->spec->prefix = "";
    add_head (m, "decoder.final_layernorm.weight", "decoder.final_layernorm.bias", reader, false);
}

static void make_mtp_head (struct gpt_maker *m, enum reader reader)
{
    m->spec->name = "head";
    m->spec->prefix = m->spec->mtp_prefix = "mtp.layers.%d.";
    add_head (m, "final_layernorm.weight", "final_layernorm.bias", reader, true);
}

void gpt_make_mtp_head (struct gpt_maker *m)
{
    make_mtp_head (m, READER);
}

void gpt_make_last_mtp_head (struct gpt_maker *m)
{
    make_mtp_head (m, NO_READER);
}
