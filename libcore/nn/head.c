/* head.c - final norm, vocabulary-parallel logits and cross entropy */

#include "libcore/nn/head.h"

void head_carve (const struct nn *nn, struct arena *a, struct head_acts *acts)
{
    acts->norm = arena_take (a, nn->rows * nn->hidden, mg_dtype_size (nn->dtype));
    acts->stat = arena_take (a, 2 * nn->rows, sizeof (float));
    acts->logits = arena_take (a, nn->tokens * nn->local_vocab, sizeof (float));
    acts->max = arena_take (a, nn->tokens, sizeof (float));
    acts->sums = arena_take (a, 2 * nn->tokens, sizeof (float));
    acts->scale = arena_take (a, nn->tokens, sizeof (float));
}

/* Local columns that belong to the true vocabulary; the rest is padding. */
static int64_t valid_columns (const struct nn *nn, const struct head *h)
{
    int64_t valid = nn->config.vocab_size - h->output.weight->offset[0];

    if (valid < 0)
        return 0;
    return valid > nn->local_vocab ? nn->local_vocab : valid;
}

static int cross_entropy (const struct nn *nn, const struct head *h,
                          const struct nn_batch *batch, struct head_acts *acts,
                          struct mg_error *err)
{
    struct kern_xent_max max = {
        .tokens = nn->tokens,
        .cols = nn->local_vocab,
        .valid = valid_columns (nn, h),
        .logits = acts->logits,
        .max = acts->max,
    };
    struct kern_xent_sum sum = {
        .tokens = nn->tokens,
        .cols = nn->local_vocab,
        .valid = max.valid,
        .first = h->output.weight->offset[0],
        .logits = acts->logits,
        .max = acts->max,
        .label = batch->label,
        .sum = acts->sums,
        .target = acts->sums + nn->tokens,
    };

    if (kern_xent_max (nn->kern, &max, nn->compute, err) < 0
        || nn_all_reduce (nn, acts->max, nn->tokens, MG_MAX, err) < 0
        || kern_xent_sum (nn->kern, &sum, nn->compute, err) < 0)
        return -1;
    return nn_all_reduce (nn, acts->sums, 2 * nn->tokens, MG_SUM, err);
}

int head_fwd (const struct nn *nn, const struct head *h, const struct nn_batch *batch,
              const void *x, struct head_acts *acts, const struct head_loss *loss,
              struct mg_error *err)
{
    struct kern_xent_loss l = {
        .tokens = nn->tokens,
        .sum = acts->sums,
        .target = acts->sums + nn->tokens,
        .mask = batch->mask,
        .weight = loss->weight,
        .scale = acts->scale,
        .out = loss->out,
        .per_token = loss->per_token,
    };

    const void *normed;

    if (norm_fwd (nn, &h->norm, x, acts->norm, acts->stat, err) < 0
        || !(normed = nn_enter (nn, acts->norm, err))
        || linear_fwd (nn, &h->output, nn->tokens, normed, acts->logits, err) < 0
        || cross_entropy (nn, h, batch, acts, err) < 0
        || kern_xent_loss (nn->kern, &l, nn->compute, err) < 0)
        return mg_error_prefix (err, "output layer: forward");
    return 0;
}

int head_bwd (const struct nn *nn, const struct head *h, const struct nn_batch *batch,
              const void *x, struct head_acts *acts, void *partial, void *dx,
              struct mg_error *err)
{
    struct kern_xent_bwd xent = {
        .tokens = nn->tokens,
        .cols = nn->local_vocab,
        .valid = valid_columns (nn, h),
        .first = h->output.weight->offset[0],
        .logits = acts->logits,
        .max = acts->max,
        .sum = acts->sums,
        .label = batch->label,
        .scale = acts->scale,
        .dtype = nn->dtype,
    };

    const void *normed = nn_enter (nn, acts->norm, err);

    if (!normed || kern_xent_bwd (nn->kern, &xent, nn->compute, err) < 0
        || linear_bwd_input (nn, &h->output, nn->tokens, acts->logits, partial, err) < 0
        || nn_leave_start (nn, partial, err) < 0
        || linear_bwd_weight (nn, &h->output, nn->tokens, acts->logits, normed, err) < 0
        || nn_leave_wait (nn, err) < 0
        || norm_bwd (nn, &h->norm, nn_own_rows (nn, partial), x, acts->stat, dx, false, err)
               < 0)
        return mg_error_prefix (err, "output layer: backward");
    return 0;
}
