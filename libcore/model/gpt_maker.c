/* gpt_maker.c - parameters, tensors and phases that several layers have */

#include <string.h>

#include "libcore/model/gpt_private.h"

int gpt_vector (struct gpt_maker *m, const char *name, enum param_split split, int64_t n,
                enum init init, int kind)
{
    return layer_add_param (m->spec, &(struct layer_param){ .name = name, .ndims = 1,
                                                            .global = { n }, .split = split,
                                                            .init = init, .kind = kind });
}

int gpt_matrix (struct gpt_maker *m, const char *name, enum param_split split, int64_t rows,
                int64_t cols, enum init init, int kind)
{
    return layer_add_param (m->spec, &(struct layer_param){ .name = name, .ndims = 2,
                                                            .global = { rows, cols },
                                                            .split = split, .init = init,
                                                            .kind = kind, .matrix = true });
}

int gpt_typed (struct gpt_maker *m, const char *name, enum layer_type type, enum layer_life life,
               struct nn_extent rows, int64_t cols)
{
    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .type = type,
                                                              .life = life, .ndims = 2,
                                                              .shape = { nn_count (m->shape, rows),
                                                                         cols },
                                                              .rows = rows });
}

int gpt_tensor (struct gpt_maker *m, const char *name, enum layer_life life, struct nn_extent rows,
                int64_t cols)
{
    return gpt_typed (m, name, LAYER_OF_MODEL, life, rows, cols);
}

void gpt_made_by (struct gpt_maker *m, int t, enum recompute_module module)
{
    m->spec->tensor[t].modules |= RECOMPUTE_BIT (module);
}

int gpt_statistics (struct gpt_maker *m, const char *name, struct nn_extent rows, int64_t cols)
{
    return gpt_typed (m, name, LAYER_FLOAT32, LIFE_SAVED, rows, cols);
}

int gpt_gradient (struct gpt_maker *m, const char *name, struct nn_extent rows, int64_t cols)
{
    int t = gpt_tensor (m, name, LIFE_SHARED, rows, cols);

    m->spec->tensor[t].gradient = true;
    return t;
}

int gpt_hidden (struct gpt_maker *m, const char *name, enum layer_life life)
{
    return gpt_tensor (m, name, life, gpt_rows (), m->nn->hidden);
}

int gpt_branch (struct gpt_maker *m)
{
    return gpt_tensor (m, "branch", LIFE_SHARED, gpt_tokens (), m->nn->hidden);
}

int gpt_input (struct gpt_maker *m, const char *name, enum layer_type type, struct nn_extent n,
               bool mtp)
{
    int parts = mtp ? 1 + m->nn->config.mtp_num_layers : 0;

    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .type = type,
                                                              .life = LIFE_BATCH, .ndims = 1,
                                                              .shape = { nn_count (m->shape, n) },
                                                              .rows = n, .parts = parts });
}

int gpt_samples (struct gpt_maker *m)
{
    if (m->samples == LAYER_NONE)
        m->samples = gpt_input (m, "samples", LAYER_INT64, nn_extent (NN_SEQUENCES, 1), false);
    return m->samples;
}

int gpt_positions (struct gpt_maker *m)
{
    if (m->positions == LAYER_NONE && m->nn->cache.length > 0)
        m->positions = gpt_input (m, "positions", LAYER_INT32, gpt_tokens (), false);
    return m->positions;
}

/* The scratch tensor of the layer, as large as the largest request. */
static int scratch_once (struct gpt_maker *m, int *t, const char *name, struct nn_extent rows,
                         int64_t cols)
{
    struct layer_tensor *row;

    if (*t == LAYER_NONE)
        *t = gpt_scratch (m, name, rows, cols);
    row = &m->spec->tensor[*t];
    if (row->shape[0] < nn_count (m->shape, rows)) {
        row->shape[0] = nn_count (m->shape, rows);
        row->rows = rows;
    }
    return *t;
}

/* Room for each of the phase's weights that are stored in another type than products take. */
static int converted (struct gpt_maker *m, const struct phase *phase)
{
    int t = LAYER_NONE;

    for (int i = 0, n = layer_num_operands (phase->op); i < n; i++) {
        const struct layer_param *row;

        if (!phase->op->operand[i].param)
            continue;
        row = &m->spec->param[phase->operand[i]];
        if (row->matrix && m->nn->weight_storage != m->nn->dtype)
            t = scratch_once (m, &m->converted, OPS_CONVERTED,
                              gpt_fixed (layer_param_count (row, m->nn)), 1);
    }
    return t;
}

void gpt_phase (struct gpt_maker *m, const struct phase *p)
{
    struct phase phase = *p;

    phase.scopes = m->scopes;
    phase.fixed = m->fixed;
    for (int i = 0, n = layer_num_operands (p->op); i < n; i++) {
        const char *name = p->op->operand[i].name;

        if (name && strcmp (name, OPS_ALL_ROWS) == 0 && m->shape->rows < m->shape->tokens)
            phase.operand[i] = scratch_once (m, &m->all_rows, name, gpt_tokens (),
                                             m->nn->hidden);
        else if (name && strcmp (name, OPS_CONVERTED) == 0)
            phase.operand[i] = converted (m, &phase);
    }
    layer_add_phase (m->spec, &phase);
}

struct gpt_norm gpt_norm_params (struct gpt_maker *m, const char *weight, const char *bias,
                                 int64_t n, int kind, bool partial)
{
    const struct model_config *c = &m->nn->config;
    const struct layer_param w = { .name = weight, .ndims = 1, .global = { n },
                                   .init = c->norm_1p ? INIT_ZERO : INIT_ONE, .kind = kind,
                                   .partial = partial };
    const struct layer_param b = { .name = bias, .ndims = 1, .global = { n },
                                   .init = INIT_ZERO, .kind = kind + 1, .partial = partial };
    struct gpt_norm norm = { LAYER_NONE, LAYER_NONE };

    if (kern_norm_kinds[c->norm].weight)
        norm.weight = layer_add_param (m->spec, &w);
    if (kern_norm_kinds[c->norm].bias)
        norm.bias = layer_add_param (m->spec, &b);
    return norm;
}

int gpt_norm_statistics (struct gpt_maker *m, const char *name, struct nn_extent rows)
{
    return gpt_statistics (m, name, nn_times (rows, kern_norm_kinds[m->nn->config.norm].stats), 1);
}

int gpt_add_norm (struct gpt_maker *m, const char *name, const char *y_name,
                  const char *stat_name, bool adds, int x, struct gpt_norm norm, int dy)
{
    int y = gpt_hidden (m, y_name, LIFE_SAVED);
    int stat = gpt_norm_statistics (m, stat_name, gpt_rows ());

    gpt_made_by (m, y, RECOMPUTE_LAYERNORM);
    gpt_made_by (m, stat, RECOMPUTE_LAYERNORM);
    gpt_phase (m, &(struct phase){ .name = name, .op = &op_norm, .adds = adds,
                               .operand = { [NORM_X] = x, [NORM_Y] = y, [NORM_STAT] = stat,
                                            [NORM_WEIGHT] = norm.weight,
                                            [NORM_BIAS] = norm.bias, [NORM_DY] = dy,
                                            [NORM_DX] = m->gradient } });
    return y;
}

void gpt_add_reduce (struct gpt_maker *m, const char *name, int x)
{
    gpt_phase (m, &(struct phase){ .name = name, .op = &op_reduce,
                                   .operand = { [REDUCE_X] = x } });
}

void gpt_add_residual (struct gpt_maker *m, const char *name, const struct gpt_sum *sum, int in,
                       int out, int bias, int which)
{
    gpt_phase (m, &(struct phase){ .name = name, .op = &op_residual, .which = which,
                                   .operand = { [RESIDUAL_BRANCH] = sum->branch,
                                                [RESIDUAL_IN] = in, [RESIDUAL_OUT] = out,
                                                [RESIDUAL_BIAS] = bias,
                                                [RESIDUAL_DOUT] = m->gradient,
                                                [RESIDUAL_DBRANCH] = sum->dbranch,
                                                [RESIDUAL_SAMPLES] = gpt_samples (m) } });
}

int gpt_scratch (struct gpt_maker *m, const char *name, struct nn_extent rows, int64_t cols)
{
    return gpt_tensor (m, name, LIFE_SHARED, rows, cols);
}
