/* gpt.c - specifications of a GPT's layers, from its configuration */

#include <errno.h>

#include "libcore/model/gpt_private.h"

/* --- the feed-forward half --- */

int gpt_gated (struct gpt_maker *m, const char *name, int64_t ffn, int64_t cols, enum init init,
               int kind)
{
    bool gated = m->nn->config.gated;
    int64_t gate = gated ? ffn : 0;

    return layer_add_param (m->spec, &(struct layer_param){
        .name = name, .ndims = cols > 0 ? 2 : 1, .global = { ffn + gate, cols },
        .split = SPLIT_ROWS, .blocks = gated ? 2 : 1, .part = { gate, gate }, .init = init,
        .kind = kind, .matrix = cols > 0 });
}

/* 'out' = 'in' + ... */
static void add_mlp (struct gpt_maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    const struct model_config *c = &nn->config;
    struct nn_extent tokens = gpt_tokens ();
    int64_t h = nn->hidden, ffn = c->ffn_hidden_size;
    int64_t width = nn->local_ffn * (c->gated ? 2 : 1);
    bool bias = !c->no_linear_bias;
    struct gpt_norm norm = gpt_norm_params (m, "pre_mlp_layernorm.weight",
                                            "pre_mlp_layernorm.bias", h,
                                    KIND_NORM2_WEIGHT, false);
    int fc1 = gpt_gated (m, "mlp.linear_fc1.weight", ffn, h, INIT_NORMAL, KIND_FC1_WEIGHT);
    int fc1_bias = bias ? gpt_gated (m, "mlp.linear_fc1.bias", ffn, 0, INIT_ZERO, KIND_FC1_BIAS)
                        : LAYER_NONE;
    int fc2 = gpt_matrix (m, "mlp.linear_fc2.weight", SPLIT_COLS, h, ffn, INIT_SCALED,
                      KIND_FC2_WEIGHT);
    int fc2_bias = bias ? gpt_vector (m, "mlp.linear_fc2.bias", SPLIT_NONE, h, INIT_ZERO,
                                  KIND_FC2_BIAS) : LAYER_NONE;
    int dnorm = gpt_gradient (m, "norm", tokens, h);
    int x = gpt_add_norm (m, "pre_mlp_layernorm", "norm2", "stat2", true, in, norm, dnorm);
    int wide = gpt_tensor (m, "fc1", LIFE_SAVED, tokens, width);
    int active = gpt_tensor (m, "act", LIFE_SAVED, tokens, nn->local_ffn);
    int dactive = gpt_gradient (m, "ffn", tokens, nn->local_ffn);
    int dwide = c->gated ? gpt_gradient (m, "fc1", tokens, width) : dactive;
    struct gpt_sum sum = { gpt_branch (m), gpt_gradient (m, "branch", gpt_rows (), h) };

    gpt_made_by (m, wide, RECOMPUTE_MLP);
    gpt_made_by (m, active, RECOMPUTE_MLP);
    gpt_phase (m, &(struct phase){ .name = "linear_fc1", .op = &op_linear_column,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = wide,
                                            [COLUMN_WEIGHT] = fc1, [COLUMN_BIAS] = fc1_bias,
                                            [COLUMN_DY] = dwide, [COLUMN_DX] = dnorm } });
    gpt_phase (m, &(struct phase){ .name = "activation", .op = &op_act,
                               .operand = { [ACT_X] = wide, [ACT_Y] = active,
                                            [ACT_DY] = dactive, [ACT_DX] = dwide } });
    gpt_phase (m, &(struct phase){ .name = "linear_fc2", .op = &op_linear_row,
                               .operand = { [ROW_X] = active, [ROW_Y] = sum.branch,
                                            [ROW_WEIGHT] = fc2, [ROW_DY] = sum.dbranch,
                                            [ROW_DX] = dactive } });
    gpt_add_reduce (m, "mlp_reduce", sum.branch);
    gpt_add_residual (m, "mlp_bda", &sum, in, out, fc2_bias, 1);
}

static void make_layer (struct gpt_maker *m)
{
    int in = gpt_hidden (m, "input", LIFE_INPUT), out = gpt_hidden (m, "output", LIFE_OUTPUT);
    int residual = gpt_hidden (m, "residual", LIFE_SAVED);

    m->spec->name = "layer";
    m->spec->block = true;
    m->spec->prefix = "decoder.layers.%d.";
    m->spec->mtp_prefix = "mtp.layers.%d.mtp_model_layer.";
    m->scopes = GRAPH_BIT (GRAPH_ATTN);
    gpt_add_attention (m, in, residual);
    m->scopes = GRAPH_BIT (GRAPH_MLP);
    if (m->experts)
        gpt_add_experts (m, residual, out);
    else
        add_mlp (m, residual, out);
}

int gpt_vocabulary (struct gpt_maker *m, const char *name, int kind, bool whole_name)
{
    const struct model_config *c = &m->nn->config;

    return layer_add_param (
        m->spec, &(struct layer_param){ .name = name, .ndims = 2,
                                        .whole_name = whole_name,
                                        .global = { c->vocab_size, c->hidden_size },
                                        .padded = c->padded_vocab_size, .split = SPLIT_ROWS,
                                        .init = kind == KIND_WORD ? INIT_EMBEDDING : INIT_NORMAL,
                                        .kind = kind,
                                        .product = kind == KIND_OUTPUT,
                                        .embedding = kind == KIND_WORD,
                                        .output = kind == KIND_OUTPUT });
}

int gpt_head_weight (struct gpt_maker *m)
{
    if (m->nn->config.tied_embeddings)
        return gpt_vocabulary (m, "embedding.word_embeddings.weight", KIND_WORD, true);
    return gpt_vocabulary (m, "output_layer.weight", KIND_OUTPUT, true);
}

static void make_embedding (struct gpt_maker *m)
{
    const struct model_config *c = &m->nn->config;
    int out = gpt_hidden (m, "output", LIFE_OUTPUT), sum = gpt_branch (m);
    int word = gpt_vocabulary (m, "word_embeddings.weight", KIND_WORD, false), position;
    int at = gpt_positions (m);

    if (at == LAYER_NONE && c->reset_positions)
        at = gpt_input (m, "positions", LAYER_INT32, gpt_tokens (), false);

    m->spec->name = "embedding";
    m->spec->prefix = "embedding.";
    gpt_phase (m, &(struct phase){ .name = "word_embeddings", .op = &op_word,
                               .operand = { [WORD_OUT] = sum, [WORD_TABLE] = word,
                                            [WORD_DOUT] = m->gradient,
                                            [WORD_TOKENS] = gpt_input (m, "tokens", LAYER_INT32,
                                                                       gpt_tokens (),
                                                                       false) } });
    gpt_phase (m, &(struct phase){ .name = "reduce", .op = &op_reduce,
                               .operand = { [REDUCE_X] = sum } });
    if (c->positions != MODEL_LEARNED) {
        gpt_phase (m, &(struct phase){ .name = "dropout", .op = &op_embedding_dropout,
                                   .operand = { [DROPOUT_X] = sum, [DROPOUT_OUT] = out,
                                                [DROPOUT_DOUT] = m->gradient,
                                                [DROPOUT_SAMPLES] = gpt_samples (m) } });
        return;
    }
    position = layer_add_param (
        m->spec, &(struct layer_param){ .name = "position_embeddings.weight", .ndims = 2,
                                        .global = { c->max_positions, c->hidden_size },
                                        .init = INIT_EMBEDDING, .kind = KIND_POSITION });
    gpt_phase (m, &(struct phase){ .name = "position_embeddings", .op = &op_position,
                               .operand = { [POSITION_X] = sum, [POSITION_OUT] = out,
                                            [POSITION_TABLE] = position,
                                            [POSITION_DOUT] = m->gradient,
                                            [POSITION_SAMPLES] = gpt_samples (m),
                                            [POSITION_AT] = at } });
}

static void make_copy (struct gpt_maker *m)
{
    int in = gpt_hidden (m, "input", LIFE_INPUT), out = gpt_hidden (m, "output", LIFE_OUTPUT);

    m->spec->name = "copy";
    m->spec->prefix = "";
    gpt_phase (m, &(struct phase){ .name = "copy", .op = &op_copy,
                               .operand = { [COPY_X] = in, [COPY_Y] = out } });
}

enum gpt_layer gpt_kind (const struct nn *nn, int layer)
{
    int at = nn_pattern_number (nn, layer);

    if (nn->cache.length > 0 && nn_has_window (nn, layer))
        return model_has_experts (&nn->config, layer) ? GPT_WINDOW_EXPERTS : GPT_WINDOW;
    return (model_has_experts (&nn->config, layer) ? GPT_EXPERTS : GPT_LAYER)
           + (nn->cp_size > 1 ? context_comm_at (&nn->context, at) : CONTEXT_P2P);
}

/* The exchange of context parallelism that a transformer layer of a kind has. */
static enum context_comm exchange_of (int which)
{
    if (which >= GPT_WINDOW)
        return CONTEXT_P2P;
    return (enum context_comm)(which - (which >= GPT_EXPERTS ? GPT_EXPERTS : GPT_LAYER));
}

int gpt_spec (int which, const struct nn *nn, const struct nn_shape *shape,
              struct layer_spec *spec, struct mg_error *err)
{
    static void (*const make[GPT_LAYER]) (struct gpt_maker *m) = {
        [GPT_EMBEDDING] = make_embedding, [GPT_COPY] = make_copy, [GPT_HEAD] = gpt_make_head,
        [GPT_MTP_INPUT] = gpt_make_mtp_input, [GPT_MTP_HEAD] = gpt_make_mtp_head,
        [GPT_MTP_LAST] = gpt_make_last_mtp_head,
    };
    struct gpt_maker m = { .nn = nn, .shape = shape, .spec = spec };

    *spec = (struct layer_spec){ .num_params = 0 };
    if (which != GPT_COPY)
        m.gradient = gpt_hidden (&m, "hidden", LIFE_GRADIENT);
    if (which < GPT_LAYER)
        make[which] (&m);
    else {
        m.window = which >= GPT_WINDOW;
        m.experts = which >= GPT_EXPERTS && which != GPT_WINDOW;
        m.exchange = nn_exchange (nn, exchange_of (which));
        make_layer (&m);
    }
    return nn->cache.length > 0 ? layer_spec_forward_only (spec, err) : layer_spec_trim (spec, err);
}
