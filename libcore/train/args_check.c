/* args_check.c - which arguments a run requires, and which go together
 *
 * Each rule looks at arguments only, not at files or at the number of ranks, and reports the
 * first that is broken.  Rules of a model on a geometry are in topo/margs_check.c.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/train/args.h"
#include "libcore/train/config.h"
#include "libcore/train/phases.h"
#include "libcore/train/skip.h"

/* Phases follow from iterations if batches have one size. */
static int check_phases (const struct run_config *c, struct mg_error *err)
{
    const struct batch_config *b = &c->batches;
    struct phases phases;

    if (!c->length.phases)
        return 0;
    if (b->steps || b->ramp_start > 0)
        return mg_error_set (err, EINVAL, "--phase-transition-iterations wants one global batch "
                             "size: it excludes %s", b->steps ? "--step-batch-size-schedule"
                                                              : "--rampup-batch-size");
    if (c->data.batches)
        return mg_error_set (err, EINVAL, "--phase-transition-iterations and --batches exclude "
                             "each other");
    if (phases_parse (c->length.phases, &phases, err) < 0)
        return -1;
    phases_clear (&phases);
    return 0;
}

/* What each module says of its configuration. */
static int check_modules (const struct run_config *c, struct mg_error *err)
{
    if (train_data_check (&c->data, err) < 0 || check_phases (c, err) < 0)
        return -1;
    if (c->length.skip_train && (c->save.dir || c->outputs.gradients))
        return mg_error_set (err, EINVAL, "--skip-train excludes --save and --save-gradients: "
                             "nothing changes");
    if (evaluate_check (&c->evaluation, &c->data, err) < 0 || report_check (&c->report, err) < 0)
        return -1;
    return tensorboard_check (&c->tensorboard, err);
}

/* The device, and how a run ends. */
static int check_process (const struct train_args *args, struct mg_error *err)
{
    struct device_choice device;
    sigset_t signals;

    if (args->device && device_choose (args->device, false, &device, err) < 0)
        return mg_error_prefix (err, "--device");
    if (args->exit_on_signal && args->ignore_signals)
        return mg_error_set (err, EINVAL, "--exit-signal-handler and --no-exit-signal-handler "
                             "exclude each other");
    if (args->check_nan && args->no_check_nan)
        return mg_error_set (err, EINVAL, "--check-for-nan-in-loss-and-grad and its --no- "
                             "exclude each other");
    if (stop_signals (args->exit_signals, &signals, err) < 0)
        return mg_error_prefix (err, "--exit-signal");
    return 0;
}

static int check_required (const struct train_args *args, struct mg_error *err)
{
    const struct {
        const char *name;
        bool given;
    } required[] = {
        { "num-layers", args->num_layers != TRAIN_UNSET },
        { "hidden-size", args->hidden_size != TRAIN_UNSET },
        { "num-attention-heads", args->num_heads != TRAIN_UNSET },
        { "seq-length", args->seq_length != TRAIN_UNSET || args->batches },
        { "micro-batch-size", args->micro_batch_size != TRAIN_UNSET || args->batches },
        { "train-iters or --train-samples",
          args->train_iters != TRAIN_UNSET || args->train_samples != TRAIN_UNSET
              || args->skip_train },
        { "lr", args->lr >= 0 || args->skip_train },
        { "data-path, --train-data-path, --batches or --mock-data",
          args->data_path.count > 0 || args->train_data_path.count > 0 || args->batches
              || args->mock_data || args->skip_train },
        { "vocab-size, --padded-vocab-size or --tokenizer-type",
          args->vocab_size != TRAIN_UNSET || args->padded_vocab_size != TRAIN_UNSET
              || args->tokenizer },
    };
    char missing[256] = "";
    size_t len = 0;
    int count = 0;

    for (size_t i = 0; i < sizeof (required) / sizeof (required[0]); i++) {
        if (required[i].given)
            continue;
        snprintf (missing + len, sizeof (missing) - len, "%s--%s", count++ > 0 ? "; " : "",
                  required[i].name);
        len = strlen (missing);
    }
    if (count > 0)
        return mg_error_set (err, EINVAL, "%s %s required", missing,
                             count == 1 ? "is" : "are");
    return 0;
}

/* Is 'word' one of these, which stand with spaces between? */
static bool is_among (const char *word, const char *list)
{
    size_t len = strlen (word);

    for (const char *at = list; (at = strstr (at, word)); at += len) {
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return len > 0;
    }
    return false;
}

/* What the optimizer's state is stored as. */
static int check_state_types (const struct train_args *args, struct mg_error *err)
{
    const struct {
        const char *name, *value, *types;
    } rows[] = {
        { "main-grads-dtype", args->main_grads_dtype, "fp32 bf16" },
        { "main-params-dtype", args->main_params_dtype, "fp32 fp16" },
        { "exp-avg-dtype", args->exp_avg_dtype, "fp32 fp16 bf16 fp8" },
        { "exp-avg-sq-dtype", args->exp_avg_sq_dtype, "fp32 fp16 bf16 fp8" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (!is_among (rows[i].value, rows[i].types))
            return mg_error_set (err, EINVAL, "--%s %s: want one of %s", rows[i].name,
                                 rows[i].value, rows[i].types);
        if (strcmp (rows[i].value, "fp32") != 0 && !args->precision_aware)
            return mg_error_set (err, EINVAL, "--%s %s wants --use-precision-aware-optimizer",
                                 rows[i].name, rows[i].value);
    }
    if (strcmp (args->main_grads_dtype, "fp32") != 0 && (!args->bf16 || args->grads_float32))
        return mg_error_set (err, EINVAL, "--main-grads-dtype %s wants --bf16 and excludes "
                             "--accumulate-allreduce-grads-in-fp32", args->main_grads_dtype);
    if (args->whole_main_params && !args->precision_aware)
        return mg_error_set (err, EINVAL, "--no-store-param-remainders wants "
                             "--use-precision-aware-optimizer");
    if (!args->precision_aware)
        return 0;
    if (!args->sharded_optimizer)
        return mg_error_set (err, EINVAL, "--use-precision-aware-optimizer wants "
                             "--use-distributed-optimizer");
    if (!args->bf16 && !args->fp16)
        return mg_error_set (err, EINVAL, "--use-precision-aware-optimizer wants --bf16 or "
                             "--fp16");
    return 0;
}

int train_args_check_types (const struct train_args *args, struct mg_error *err)
{
    if (args->bf16 && args->fp16)
        return mg_error_set (err, EINVAL, "--bf16 and --fp16 exclude each other");
    if (args->grads_bfloat16 && args->grads_float32)
        return mg_error_set (err, EINVAL, "--grad-reduce-in-bf16 and "
                             "--accumulate-allreduce-grads-in-fp32 exclude each other");
    if (args->grads_bfloat16 && !args->bf16)
        return mg_error_set (err, EINVAL, "--grad-reduce-in-bf16 wants --bf16");
    if (args->loss_scale != TRAIN_UNSET && !args->bf16 && !args->fp16)
        return mg_error_set (err, EINVAL, "--loss-scale wants --fp16 or --bf16");
    if (args->fp16 && args->min_loss_scale > args->initial_loss_scale)
        return mg_error_set (err, EINVAL, "--min-loss-scale %g is above --initial-loss-scale "
                             "%g", args->min_loss_scale, args->initial_loss_scale);
    if (args->fp8_param_gather && (!args->bf16 || !args->sharded_optimizer))
        return mg_error_set (err, EINVAL, "--fp8-param-gather wants --bf16 and "
                             "--use-distributed-optimizer");
    return check_state_types (args, err);
}

/* What a run begins with. */
static int check_load (const struct train_args *args, struct mg_error *err)
{
    const struct {
        const char *name;
        bool given;
    } wanting[] = {
        { "ckpt-step", args->ckpt_step != TRAIN_UNSET },
        { "exit-on-missing-checkpoint", args->exit_on_missing },
        { "finetune", args->finetune && !args->pretrained },
        { "no-load-optim", args->no_load_optim },
    };

    for (size_t i = 0; i < sizeof (wanting) / sizeof (wanting[0]); i++) {
        if (wanting[i].given && !args->load)
            return mg_error_set (err, EINVAL, "--%s wants --load DIR", wanting[i].name);
    }
    if (args->override_schedule && args->checkpoint_schedule)
        return mg_error_set (err, EINVAL, "--override-opt-param-scheduler and "
                             "--use-checkpoint-opt-param-scheduler exclude each other");
    if (args->load && args->checkpoint_schedule && (args->finetune || args->no_load_optim))
        return mg_error_set (err, EINVAL, "--use-checkpoint-opt-param-scheduler and --%s exclude "
                             "each other: the arguments' schedule begins anew",
                             args->finetune ? "finetune" : "no-load-optim");
    return 0;
}

int train_args_check_together (const struct train_args *args, struct mg_error *err)
{
    struct run_config c;
    int64_t range[2];

    run_config_init (&c, args);
    if (skip_check (&c.length.skip, err) < 0 || check_modules (&c, err) < 0
        || check_process (args, err) < 0
        || trace_iterations_parse (c.trace.iterations, range, err) < 0
        || check_load (args, err) < 0 || train_args_check_recompute (args, err) < 0
        || train_args_check_types (args, err) < 0 || run_config_check_buffers (&c, err) < 0)
        return -1;
    if (args->save_interval != TRAIN_UNSET && !args->save)
        return mg_error_set (err, EINVAL, "--save-interval wants --save DIR");
    if ((args->save_retain_interval != TRAIN_UNSET || args->keep_last != TRAIN_UNSET)
        && !args->save)
        return mg_error_set (err, EINVAL, "--%s wants --save DIR",
                             args->keep_last != TRAIN_UNSET ? "keep-last-n-checkpoints"
                                                            : "save-retain-interval");
    if (args->decoupled_min_lr != TRAIN_UNSET && args->decoupled_lr == TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--decoupled-min-lr wants --decoupled-lr");
    if (args->async_save && !args->save)
        return mg_error_set (err, EINVAL, "--async-save wants --save DIR");
    return train_args_check_moe (args, err);
}

int train_args_check (const struct train_args *args, struct mg_error *err)
{
    return check_required (args, err) < 0 ? -1 : train_args_check_together (args, err);
}
