/* embedding.c - word and position embeddings at the bottom of the model
 *
 * The vocabulary is split by rows over the tensor-parallel group: a rank looks up what it
 * has, an all-reduce adds the shards up (Shoeybi et al. 2019, section 3).
 */

#include "libcore/base/rng.h"
#include "libcore/ops/ops.h"

static int word_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *table = pass_param (pass, phase, WORD_TABLE);
    const struct kern_embedding_fwd k = {
        .tokens = pass->shape->tokens,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .id = pass_data (pass, phase, WORD_TOKENS),
        .first = table->runs.offset[0],
        .count = table->extent[0],
        .table = tensor_address (table->data),
        .out = pass_data (pass, phase, WORD_OUT),
    };

    return kern_embedding_fwd (nn->kern, &k, nn->compute, err);
}

static int word_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *table = pass_param (pass, phase, WORD_TABLE);
    const struct kern_embedding_bwd k = {
        .tokens = pass->shape->tokens,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .id = pass_data (pass, phase, WORD_TOKENS),
        .first = table->runs.offset[0],
        .count = table->extent[0],
        .dout = nn_enter (nn, pass->shape, pass_data (pass, phase, WORD_DOUT),
                          pass_data (pass, phase, WORD_ALL_ROWS), err),
        .dtable = tensor_address (table->grad),
        .grad_dtype = table->grad_dtype,
    };

    return k.dout ? kern_embedding_bwd (nn->kern, &k, nn->compute, err) : -1;
}

const struct layer_op op_word = {
    .name = "word",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [WORD_OUT] = { "out", false, OPERAND_WRITE, 0 },
        [WORD_TABLE] = { "table", true, OPERAND_READ, OPERAND_ADD },
        [WORD_DOUT] = { "dout", false, 0, OPERAND_READ },
        [WORD_TOKENS] = { "tokens", false, OPERAND_READ, OPERAND_READ },
        [WORD_ALL_ROWS] = { OPS_ALL_ROWS, false, 0, OPERAND_SCRATCH },
    },
    .fwd = word_fwd,
    .bwd = word_bwd,
};

static struct kern_dropout dropout (const struct pass *pass, const struct phase *phase,
                                    int samples)
{
    const struct nn *nn = pass->nn;

    return (struct kern_dropout){
        .p = pass->training ? nn->config.hidden_dropout : 0.0,
        .key = rng_key (nn->config.seed, RNG_DROPOUT_EMBEDDING, 0,
                        (uint64_t)pass->layer->mtp),
        .sample = pass_data (pass, phase, samples),
        .batch = pass->shape->batch,
        .position = pass->shape->position,
    };
}

static int dropout_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_bias_dropout_add_fwd k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, DROPOUT_X)),
        .dropout = dropout (pass, phase, DROPOUT_SAMPLES),
        .y = pass_data (pass, phase, DROPOUT_OUT),
    };

    return kern_bias_dropout_add_fwd (nn->kern, &k, nn->compute, err);
}

static int dropout_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_bias_dropout_add_bwd k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .dy = pass_data (pass, phase, DROPOUT_DOUT),
        .dropout = dropout (pass, phase, DROPOUT_SAMPLES),
        .dx = pass_data (pass, phase, DROPOUT_DOUT),
        .grad_dtype = nn->dtype,
    };

    return kern_bias_dropout_add_bwd (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_embedding_dropout = {
    .name = "embedding_dropout",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [DROPOUT_X] = { "x", false, OPERAND_READ, 0 },
        [DROPOUT_OUT] = { "out", false, OPERAND_WRITE, 0 },
        [DROPOUT_DOUT] = { "dout", false, 0, OPERAND_READ | OPERAND_WRITE },
        [DROPOUT_SAMPLES] = { "samples", false, OPERAND_READ, OPERAND_READ },
    },
    .fwd = dropout_fwd,
    .bwd = dropout_bwd,
};

/* Positions in their documents of this rank's rows, if positions are reset. */
static struct kern_positions entry (const struct pass *pass, const struct phase *phase)
{
    const struct nn_shape *shape = pass->shape;
    const struct tensor *at = pass_tensor (pass, phase, POSITION_AT);

    if (!at)
        return (struct kern_positions){ .at = NULL };
    return (struct kern_positions){ tensor_at (at, nn_own_row (pass->nn, shape)), shape->batch, 1 };
}

static int position_fwd (const struct pass *pass, const struct phase *phase,
                         struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *table = pass_param (pass, phase, POSITION_TABLE);
    const struct kern_position_fwd k = {
        .tokens = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, POSITION_X)),
        .table = tensor_address (table->data),
        .count = table->extent[0],
        .entry = entry (pass, phase),
        .dropout = dropout (pass, phase, POSITION_SAMPLES),
        .y = pass_data (pass, phase, POSITION_OUT),
    };

    return kern_position_fwd (nn->kern, &k, nn->compute, err);
}

static int position_bwd (const struct pass *pass, const struct phase *phase,
                         struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *table = pass_param (pass, phase, POSITION_TABLE);
    const struct kern_position_bwd k = {
        .tokens = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .dy = pass_data (pass, phase, POSITION_DOUT),
        .dropout = dropout (pass, phase, POSITION_SAMPLES),
        .dx = pass_data (pass, phase, POSITION_DOUT),
        .dtable = tensor_address (table->grad),
        .count = table->extent[0],
        .entry = entry (pass, phase),
        .grad_dtype = table->grad_dtype,
    };

    return kern_position_bwd (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_position = {
    .name = "position",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [POSITION_X] = { "x", false, OPERAND_READ, 0 },
        [POSITION_OUT] = { "out", false, OPERAND_WRITE, 0 },
        [POSITION_TABLE] = { "table", true, OPERAND_READ, OPERAND_ADD },
        [POSITION_DOUT] = { "dout", false, 0, OPERAND_READ | OPERAND_WRITE },
        [POSITION_SAMPLES] = { "samples", false, OPERAND_READ, OPERAND_READ },
        [POSITION_AT] = { "at", false, OPERAND_READ, OPERAND_READ },
    },
    .fwd = position_fwd,
    .bwd = position_bwd,
};
