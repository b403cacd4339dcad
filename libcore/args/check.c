/* check.c - the arguments that a run requires, and the rules between arguments
 *
 * Each rule looks at arguments only, not at files or at the number of ranks, and reports the
 * first that is broken.  Rules of a model on a geometry are in topo/margs_check.c, rules of a
 * module's configuration in that module.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/args/args.h"

int train_args_check_required (const struct train_args *args, struct mg_error *err)
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
              || args->mock_data || args->program_samples[SPLIT_TRAIN] || args->skip_train },
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

/* True if 'word' is one of these words, which have spaces between them. */
static bool is_among (const char *word, const char *list)
{
    size_t len = strlen (word);

    for (const char *at = list; (at = strstr (at, word)); at += len) {
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return len > 0;
    }
    return false;
}

/* The types in which the optimizer's state is stored. */
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

int train_args_check_load (const struct train_args *args, struct mg_error *err)
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
    if (args->load_weights && args->pretrained)
        return mg_error_set (err, EINVAL, "--load-weights and --pretrained-checkpoint exclude "
                             "each other: a run begins with the weights of one");
    if (args->override_schedule && args->checkpoint_schedule)
        return mg_error_set (err, EINVAL, "--override-opt-param-scheduler and "
                             "--use-checkpoint-opt-param-scheduler exclude each other");
    if (args->load && args->checkpoint_schedule && (args->finetune || args->no_load_optim))
        return mg_error_set (err, EINVAL, "--use-checkpoint-opt-param-scheduler and --%s exclude "
                             "each other: the arguments' schedule begins anew",
                             args->finetune ? "finetune" : "no-load-optim");
    return 0;
}
