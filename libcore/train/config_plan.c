/* config_plan.c - what follows from the arguments over the run: types, batch sizes, learning rate
 *
 * As in config.c, every function only reads the arguments and fills the struct of another
 * module.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "libcore/train/config.h"

static int given (int value)
{
    return value == TRAIN_UNSET ? 0 : value;
}

enum mg_dtype train_dtype (const struct train_args *args)
{
    return args->bf16 ? MG_BFLOAT16 : args->fp16 ? MG_FLOAT16 : MG_FLOAT32;
}

enum mg_dtype train_grad_dtype (const struct train_args *args)
{
    if (args->bf16 && (args->grads_bfloat16 || strcmp (args->main_grads_dtype, "bf16") == 0))
        return MG_BFLOAT16;
    return args->fp16 && !args->grads_float32 ? MG_FLOAT16 : MG_FLOAT32;
}

struct grad_scaler_config train_grad_scaler (const struct train_args *args)
{
    bool constant = args->loss_scale != TRAIN_UNSET;

    return (struct grad_scaler_config){
        .constant = constant || !args->fp16,
        .initial = constant ? args->loss_scale : args->fp16 ? args->initial_loss_scale : 1,
        .min = args->min_loss_scale,
        .growth = 2,
        .backoff = 0.5,
        .growth_interval = args->loss_scale_window,
        .hysteresis = args->hysteresis,
    };
}

int train_micro_batch (const struct train_args *args)
{
    return args->micro_batch_size != TRAIN_UNSET ? args->micro_batch_size : 1;
}

/* --- batch sizes --- */

static bool has_ramp (const struct train_args *args)
{
    return args->batch_ramp[0] > 0;
}

static int check_batch (const struct train_args *args, int64_t rows, struct mg_error *err)
{
    if (rows && args->global_batch_size != TRAIN_UNSET && args->global_batch_size != rows)
        return mg_error_set (err, EINVAL,
                             "--global-batch-size %d, but the batches in %s have %" PRId64
                             " samples",
                             args->global_batch_size, args->batches, rows);
    if (rows && (args->batch_steps || has_ramp (args) || args->round_batch_down))
        return mg_error_set (
            err, EINVAL,
            "--batches, whose batches have one size, excludes "
            "--step-batch-size-schedule, --rampup-batch-size and --decrease-"
            "batch-size-if-needed");
    if (has_ramp (args) && args->global_batch_size == TRAIN_UNSET)
        return mg_error_set (err, EINVAL,
                             "--rampup-batch-size wants --global-batch-size to "
                             "grow up to");
    return 0;
}

struct num_microbatches *train_batches (const struct train_args *args, int dp,
                                        int64_t rows, int seq_length,
                                        struct mg_error *err)
{
    struct batch_config config = {
        .micro_batch = train_micro_batch (args),
        .dp = dp,
        .global_batch = rows ? rows : given (args->global_batch_size),
        .round_down = args->round_batch_down,
        .steps = args->batch_steps,
        .seq_length = seq_length,
        .ramp_start = args->batch_ramp[0],
        .ramp_increment = args->batch_ramp[1],
        .ramp_samples = args->batch_ramp[2],
    };

    if (check_batch (args, rows, err) < 0)
        return NULL;
    if (config.global_batch == 0 && !config.steps)
        config.global_batch = (int64_t)config.micro_batch * dp;
    return num_microbatches_create (&config, err);
}

int64_t train_iterations (const struct train_args *args,
                          const struct num_microbatches *batches)
{
    struct batch_size first;

    if (args->skip_train)
        return 0;
    if (args->train_samples == TRAIN_UNSET)
        return args->train_iters;
    num_microbatches_at (batches, 0, &first);
    if (num_microbatches_count (batches) == 1 && first.running > 0)
        return args->train_samples / first.running; // as Megatron-LM: the rest is left
    return num_microbatches_iterations (batches, args->train_samples);
}

/* --- learning rate --- */

/* Iterations and samples are told apart by how the run's end is given. */
static int check_unit (const struct train_args *args, struct mg_error *err)
{
    bool samples = args->train_samples != TRAIN_UNSET;

    if (samples && args->train_iters != TRAIN_UNSET)
        return mg_error_set (err, EINVAL,
                             "--train-iters and --train-samples exclude each "
                             "other");
    if (samples && (args->lr_decay_iters != TRAIN_UNSET || args->lr_warmup_iters > 0
                    || args->lr_wsd_decay_iters != TRAIN_UNSET))
        return mg_error_set (err, EINVAL, "--train-samples excludes --lr-decay-iters, "
                             "--lr-warmup-iters and --lr-wsd-decay-iters: give samples");
    if (!samples && (args->lr_decay_samples != TRAIN_UNSET || args->lr_warmup_samples > 0
                     || args->lr_wsd_decay_samples != TRAIN_UNSET))
        return mg_error_set (err, EINVAL, "--lr-decay-samples, --lr-warmup-samples and "
                             "--lr-wsd-decay-samples want --train-samples");
    if (args->lr_warmup_fraction >= 0
        && (args->lr_warmup_iters > 0 || args->lr_warmup_samples > 0))
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
static int lr_in_samples (const struct train_args *args, struct lr_config *lr,
                          struct mg_error *err)
{
    lr->decay = args->lr_decay_samples != TRAIN_UNSET ? args->lr_decay_samples
                                                      : args->train_samples;
    lr->warmup = (double)args->lr_warmup_samples;
    lr->wsd_decay = args->lr_wsd_decay_samples;
    lr->wd_incr = args->train_samples;
    return check_warmup (args->lr_warmup_samples, lr->decay, "samples", err);
}

/* The same from iterations. */
static int lr_in_iterations (const struct train_args *args,
                             const struct num_microbatches *b, struct lr_config *lr,
                             struct mg_error *err)
{
    int64_t decay = args->lr_decay_iters != TRAIN_UNSET ? args->lr_decay_iters
                                                        : args->train_iters;
    int64_t train = args->train_iters > 0 ? args->train_iters : 1;
    int64_t wsd = args->lr_wsd_decay_iters;
    const int64_t most = INT64_C (1) << 60;

    if (decay < 1)
        decay = 1;
    if (check_warmup (args->lr_warmup_iters, decay, "iters", err) < 0)
        return -1;
    lr->decay = num_microbatches_samples (b, decay);
    lr->wd_incr = num_microbatches_samples (b, train);
    lr->warmup = (double)num_microbatches_samples (b, args->lr_warmup_iters);
    if (wsd <= decay)
        lr->wsd_decay = lr->decay - num_microbatches_samples (b, decay - wsd);
    else
        lr->wsd_decay = num_microbatches_samples (b, wsd);
    if (lr->decay > most || lr->wd_incr > most || lr->wsd_decay > most)
        return mg_error_set (err, ERANGE, "%" PRId64 " iterations take too many samples",
                             decay > train ? decay : train);
    return 0;
}

int train_lr (const struct train_args *args, const struct num_microbatches *batches,
              struct lr_config *lr, struct mg_error *err)
{
    bool samples = args->train_samples != TRAIN_UNSET;

    *lr = (struct lr_config){
        .init = args->lr_warmup_init,
        .max = args->lr,
        .min = args->min_lr,
        .wd_start
        = args->start_weight_decay >= 0 ? args->start_weight_decay : args->weight_decay,
        .wd_end
        = args->end_weight_decay >= 0 ? args->end_weight_decay : args->weight_decay,
    };
    if (check_unit (args, err) < 0)
        return -1;
    if ((samples ? lr_in_samples (args, lr, err)
                 : lr_in_iterations (args, batches, lr, err)) < 0)
        return -1;
    if (args->lr_warmup_fraction >= 0)
        lr->warmup = args->lr_warmup_fraction * (double)lr->decay;
    if (lr_style_parse ("--lr-decay-style", args->lr_decay_style, &lr->style, err) < 0
        || wsd_style_parse ("--lr-wsd-decay-style", args->lr_wsd_decay_style,
                            &lr->wsd_style, err)
               < 0
        || wd_style_parse ("--weight-decay-incr-style", args->weight_decay_incr_style,
                           &lr->wd_style, err)
               < 0)
        return -1;
    if (lr->style == LR_WSD
        && (samples ? args->lr_wsd_decay_samples : args->lr_wsd_decay_iters)
               == TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--lr-decay-style WSD wants --lr-wsd-decay-%s",
                             samples ? "samples" : "iters");
    return lr_check (lr, err);
}
