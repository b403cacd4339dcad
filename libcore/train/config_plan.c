/* config_plan.c - the parts of a run's configuration that depend on the number of ranks:
 * batch sizes, learning rate, buckets
 */

#include <errno.h>
#include <inttypes.h>

#include "libcore/train/config.h"

/* --- batch sizes --- */

static int check_batch (const struct run_config *c, struct mg_error *err)
{
    const struct batch_config *b = &c->batches;

    if (c->file_rows && b->global_batch && b->global_batch != c->file_rows)
        return mg_error_set (err, EINVAL,
                             "--global-batch-size %" PRId64 ", but the batches in %s have %" PRId64
                             " samples",
                             b->global_batch, c->data.batches, c->file_rows);
    if (c->file_rows && (b->steps || b->ramp_start > 0 || b->round_down))
        return mg_error_set (
            err, EINVAL,
            "--batches, whose batches have one size, excludes "
            "--step-batch-size-schedule, --rampup-batch-size and --decrease-"
            "batch-size-if-needed");
    if (b->ramp_start > 0 && !b->global_batch)
        return mg_error_set (err, EINVAL,
                             "--rampup-batch-size wants --global-batch-size to "
                             "grow up to");
    return 0;
}

struct num_microbatches *run_config_batches (const struct run_config *c, int dp,
                                             struct mg_error *err)
{
    struct batch_config config = c->batches;

    if (check_batch (c, err) < 0)
        return NULL;
    config.dp = dp;
    config.seq_length = c->model.config.seq_length;
    if (c->file_rows)
        config.global_batch = c->file_rows;
    if (config.global_batch == 0 && !config.steps)
        config.global_batch = (int64_t)config.micro_batch * dp;
    return num_microbatches_create (&config, err);
}

int64_t run_config_iterations (const struct run_config *c,
                               const struct num_microbatches *batches)
{
    const struct run_length *length = &c->length;
    struct batch_size first;

    if (length->skip_train)
        return 0;
    if (length->samples == TRAIN_UNSET)
        return length->iters;
    num_microbatches_at (batches, 0, &first);
    if (num_microbatches_count (batches) == 1 && first.running > 0)
        return length->samples / first.running; // as Megatron-LM: the rest is left
    return num_microbatches_iterations (batches, length->samples);
}

/* --- learning rate --- */

/* True if a corner of the schedule is given in this unit. */
static bool is_given (const struct lr_lengths *l)
{
    return l->decay != TRAIN_UNSET || l->warmup > 0 || l->wsd_decay != TRAIN_UNSET;
}

/* The unit of the run's end decides between iterations and samples. */
static int check_unit (const struct run_config *c, struct mg_error *err)
{
    const struct lr_given *given = &c->lr;
    bool samples = c->length.samples != TRAIN_UNSET;

    if (samples && c->length.iters != TRAIN_UNSET)
        return mg_error_set (err, EINVAL,
                             "--train-iters and --train-samples exclude each "
                             "other");
    if (samples && is_given (&given->iters))
        return mg_error_set (err, EINVAL, "--train-samples excludes --lr-decay-iters, "
                             "--lr-warmup-iters and --lr-wsd-decay-iters: give samples");
    if (!samples && is_given (&given->samples))
        return mg_error_set (err, EINVAL, "--lr-decay-samples, --lr-warmup-samples and "
                             "--lr-wsd-decay-samples want --train-samples");
    if (given->warmup_fraction >= 0 && (given->iters.warmup > 0 || given->samples.warmup > 0))
        return mg_error_set (err, EINVAL,
                             "--lr-warmup-fraction and --lr-warmup-%s exclude "
                             "each other",
                             samples ? "samples" : "iters");
    return 0;
}

/* Said in the unit in which it was given. */
static int check_warmup (int64_t warmup, int64_t decay, const char *unit,
                         struct mg_error *err)
{
    if (warmup > 0 && warmup >= decay)
        return mg_error_set (err, EINVAL,
                             "--lr-warmup-%s %" PRId64 " is not less than the %" PRId64
                             " of the decay",
                             unit, warmup, decay);
    return 0;
}

/* Corners of the schedule in samples. */
static int lr_in_samples (const struct run_config *c, struct lr_config *lr,
                          struct mg_error *err)
{
    const struct lr_lengths *l = &c->lr.samples;

    lr->decay = l->decay != TRAIN_UNSET ? l->decay : c->length.samples;
    lr->warmup = (double)l->warmup;
    lr->wsd_decay = l->wsd_decay;
    lr->wd_incr = c->length.samples;
    return check_warmup (l->warmup, lr->decay, "samples", err);
}

/* The same from iterations. */
static int lr_in_iterations (const struct run_config *c, const struct num_microbatches *b,
                             struct lr_config *lr, struct mg_error *err)
{
    const struct lr_lengths *l = &c->lr.iters;
    int64_t decay = l->decay != TRAIN_UNSET ? l->decay : c->length.iters;
    int64_t train = c->length.iters > 0 ? c->length.iters : 1;
    const int64_t most = INT64_C (1) << 60;

    if (decay < 1)
        decay = 1;
    if (check_warmup (l->warmup, decay, "iters", err) < 0)
        return -1;
    lr->decay = num_microbatches_samples (b, decay);
    lr->wd_incr = num_microbatches_samples (b, train);
    lr->warmup = (double)num_microbatches_samples (b, l->warmup);
    if (l->wsd_decay <= decay)
        lr->wsd_decay = lr->decay - num_microbatches_samples (b, decay - l->wsd_decay);
    else
        lr->wsd_decay = num_microbatches_samples (b, l->wsd_decay);
    if (lr->decay > most || lr->wd_incr > most || lr->wsd_decay > most)
        return mg_error_set (err, ERANGE, "%" PRId64 " iterations take too many samples",
                             decay > train ? decay : train);
    return 0;
}

int run_config_lr (const struct run_config *c, const struct num_microbatches *batches,
                   struct lr_config *lr, struct mg_error *err)
{
    const struct lr_given *given = &c->lr;
    bool samples = c->length.samples != TRAIN_UNSET;

    *lr = given->lr;
    if (check_unit (c, err) < 0)
        return -1;
    if ((samples ? lr_in_samples (c, lr, err) : lr_in_iterations (c, batches, lr, err)) < 0)
        return -1;
    if (given->warmup_fraction >= 1)
        return mg_error_set (err, EINVAL, "--lr-warmup-fraction %g is not less than 1, all of the "
                             "decay", given->warmup_fraction);
    if (given->warmup_fraction >= 0)
        lr->warmup = given->warmup_fraction * (double)lr->decay;
    if (lr_style_parse ("--lr-decay-style", given->style, &lr->style, err) < 0
        || wsd_style_parse ("--lr-wsd-decay-style", given->wsd_style, &lr->wsd_style, err) < 0
        || wd_style_parse ("--weight-decay-incr-style", given->wd_style, &lr->wd_style, err) < 0)
        return -1;
    if (lr->style == LR_WSD
        && (samples ? given->samples.wsd_decay : given->iters.wsd_decay) == TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--lr-decay-style WSD wants --lr-wsd-decay-%s",
                             samples ? "samples" : "iters");
    return lr_check (lr, err);
}

/* --- buffers --- */

int run_config_check_buffers (const struct run_config *c, struct mg_error *err)
{
    const struct buffers_config *b = &c->buffers;
    int instances = c->job.optimizer_instances;

    if (b->average && c->step.per_token_loss)
        return mg_error_set (err, EINVAL, "--ddp-average-in-collective and "
                             "--calculate-per-token-loss exclude each other");
    if (c->bucket.bucket_size && c->bucket.num_buckets)
        return mg_error_set (err, EINVAL,
                             "--ddp-bucket-size and --ddp-num-buckets exclude each other");
    if (instances > 1 && !b->sharded)
        return mg_error_set (err, EINVAL, "--num-distributed-optimizer-instances %d needs "
                             "--use-distributed-optimizer", instances);
    if (b->overlap_param_gather && (!b->sharded || !b->overlap_grad_reduce))
        return mg_error_set (err, EINVAL, "--overlap-param-gather needs "
                             "--use-distributed-optimizer and --overlap-grad-reduce");
    return 0;
}

/* Use several buckets only if their communication is overlapped. */
struct buffers_config run_config_buffers (const struct run_config *c, int dp, int pp_rank,
                                          const struct param *params, size_t n)
{
    struct buffers_config config = c->buffers;
    struct layout_bucket_rule rule = c->bucket;
    int64_t size;

    rule.dp = dp;
    rule.pp_rank = pp_rank;
    for (size_t i = 0; i < n; i++)
        rule.num_params += params[i].numel;
    size = layout_bucket_size (&rule, NULL);
    if (size == LAYOUT_ONE_BUCKET)
        config.bucket_size = 0;
    else
        config.bucket_size = size > 0 ? size : 1; // each parameter alone either way
    return config;
}
