/* loss.c - vocabulary-parallel cross entropy
 *
 * Logits stay on their rank: the maximum, the sum of exponentials and the label's logit are
 * reduced over the tensor-parallel group between the three kernels.  Padding columns count as
 * minus infinity.
 */

#include "libcore/ops/ops.h"

/* The sums of all ranks' columns. */
static int sum_up (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *sums = pass_tensor (pass, phase, LOSS_SUMS);
    int64_t tokens = pass->shape->tokens;
    const struct kern_xent_max max = {
        .tokens = tokens,
        .cols = nn->local_vocab,
        .valid = nn_valid_columns (nn),
        .logits = pass_data (pass, phase, LOSS_LOGITS),
        .max = pass_data (pass, phase, LOSS_MAX),
    };
    const struct kern_xent_sum sum = {
        .tokens = tokens,
        .cols = nn->local_vocab,
        .valid = max.valid,
        .first = nn_first_column (nn),
        .logits = max.logits,
        .max = max.max,
        .label = pass_data (pass, phase, LOSS_LABELS),
        .sum = tensor_at (sums, 0),
        .target = tensor_at (sums, tokens),
    };

    if (kern_xent_max (nn->kern, &max, nn->compute, err) < 0
        || nn_all_reduce (nn, max.max, tokens, MG_MAX, err) < 0
        || kern_xent_sum (nn->kern, &sum, nn->compute, err) < 0)
        return -1;
    return nn_all_reduce (nn, sum.sum, 2 * tokens, MG_SUM, err);
}

/* The slope of a loss beside the main one has its factor, and the sums do not.  Such a loss is
 * always a mean over tokens.  If the main loss is a sum over tokens, which the number of all tokens
 * divides later, the mean counts as many times as the main loss has tokens.
 */
static int scale_beside (const struct pass *pass, const struct phase *phase,
                         struct kern_xent_loss *l, struct mg_error *err)
{
    const struct nn *nn = pass->nn;

    l->weight = pass->factored_weight;
    l->times = pass->per_token_loss ? pass_data (pass, phase, LOSS_MAIN_COUNT) : NULL;
    l->out = pass_data (pass, phase, LOSS_UNUSED);
    return kern_xent_loss (nn->kern, l, nn->compute, err);
}

static int cross_entropy_fwd (const struct pass *pass, const struct phase *phase,
                              struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *sums = pass_tensor (pass, phase, LOSS_SUMS);
    bool beside = pass_tensor (pass, phase, LOSS_UNUSED) != NULL;
    struct kern_xent_loss l = {
        .tokens = pass->shape->tokens,
        .sum = tensor_at (sums, 0),
        .target = tensor_at (sums, pass->shape->tokens),
        .mask = pass_data (pass, phase, LOSS_MASK),
        .weight = pass->loss_weight,
        .scale = pass_data (pass, phase, LOSS_SCALE),
        .count = pass_data (pass, phase, LOSS_COUNT),
        .out = pass_data (pass, phase, LOSS_TOTAL),
        .per_token = pass->per_token_loss && !beside,
    };

    if (sum_up (pass, phase, err) < 0 || kern_xent_loss (nn->kern, &l, nn->compute, err) < 0)
        return -1;
    return beside ? scale_beside (pass, phase, &l, err) : 0;
}

static int cross_entropy_bwd (const struct pass *pass, const struct phase *phase,
                              struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_xent_bwd k = {
        .tokens = pass->shape->tokens,
        .cols = nn->local_vocab,
        .valid = nn_valid_columns (nn),
        .first = nn_first_column (nn),
        .logits = pass_data (pass, phase, LOSS_LOGITS),
        .max = pass_data (pass, phase, LOSS_MAX),
        .sum = pass_data (pass, phase, LOSS_SUMS),
        .label = pass_data (pass, phase, LOSS_LABELS),
        .scale = pass_data (pass, phase, LOSS_SCALE),
        .dtype = nn->dtype,
    };

    return kern_xent_bwd (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_cross_entropy = {
    .name = "cross_entropy",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [LOSS_LOGITS] = { "logits", false, OPERAND_READ, OPERAND_READ | OPERAND_WRITE },
        [LOSS_MAX] = { "max", false, OPERAND_WRITE, OPERAND_READ },
        [LOSS_SUMS] = { "sums", false, OPERAND_WRITE, OPERAND_READ },
        [LOSS_SCALE] = { "scale", false, OPERAND_WRITE, OPERAND_READ },
        [LOSS_LABELS] = { "labels", false, OPERAND_READ, OPERAND_READ },
        [LOSS_MASK] = { "mask", false, OPERAND_READ, 0 },
        [LOSS_COUNT] = { "count", false, OPERAND_READ, 0 },
        [LOSS_MAIN_COUNT] = { "main_count", false, OPERAND_READ, 0 },
        [LOSS_TOTAL] = { "total", false, OPERAND_ADD, 0 },
        [LOSS_UNUSED] = { "unused", false, OPERAND_SCRATCH, 0 },
    },
    .fwd = cross_entropy_fwd,
    .bwd = cross_entropy_bwd,
};
