/* config.c - from arguments to the configurations of modules
 *
 * Invariant: this is the only place where a run's arguments are read one by one, and nothing
 * here can fail.  TRAIN_UNSET becomes the module's value for "not given".
 */

#include <string.h>

#include "libcore/args/other.h"
#include "libcore/train/config.h"

static int given (int value)
{
    return value == TRAIN_UNSET ? 0 : value;
}

static int64_t given64 (int64_t value)
{
    return value == TRAIN_UNSET ? 0 : value;
}

/* --- types --- */

/* A type by the name that arguments have for it. */
static enum mg_dtype type_of (const char *name)
{
    static const struct {
        const char *name;
        enum mg_dtype dtype;
    } types[] = { { "fp16", MG_FLOAT16 }, { "bf16", MG_BFLOAT16 }, { "fp8", MG_FLOAT8_E4M3 } };

    for (size_t i = 0; i < sizeof (types) / sizeof (types[0]); i++) {
        if (strcmp (types[i].name, name) == 0)
            return types[i].dtype;
    }
    return MG_FLOAT32;
}

/* Gradients as they are added up and reduced, by Megatron-LM's rules: float32; with --bf16
 * --grad-reduce-in-bf16 or --main-grads-dtype bf16 bfloat16; with --fp16 float16, unless
 * --accumulate-allreduce-grads-in-fp32.
 */
static enum mg_dtype grad_type (const struct train_args *args)
{
    if (args->bf16 && (args->grads_bfloat16 || strcmp (args->main_grads_dtype, "bf16") == 0))
        return MG_BFLOAT16;
    return args->fp16 && !args->grads_float32 ? MG_FLOAT16 : MG_FLOAT32;
}

/* --- a module each --- */

static struct batch_config set_batches (const struct train_args *args, int micro_batch)
{
    return (struct batch_config){
        .micro_batch = micro_batch,
        .global_batch = given (args->global_batch_size),
        .round_down = args->round_batch_down,
        .steps = args->batch_steps,
        .ramp_start = args->batch_ramp[0],
        .ramp_increment = args->batch_ramp[1],
        .ramp_samples = args->batch_ramp[2],
    };
}

static struct run_length set_length (const struct train_args *args)
{
    return (struct run_length){
        .iters = args->train_iters,
        .samples = args->train_samples,
        .exit_interval = given64 (args->exit_interval),
        .phases = args->phases,
        .skip_train = args->skip_train,
        .skip = args->iterations_to_skip,
    };
}

static struct lr_given set_lr (const struct train_args *args)
{
    double wd = args->weight_decay;

    return (struct lr_given){
        .lr = {
            .init = args->lr_warmup_init,
            .max = args->lr,
            .min = args->min_lr,
            .decoupled = args->decoupled_lr != TRAIN_UNSET,
            .decoupled_max = args->decoupled_lr,
            .decoupled_min = args->decoupled_min_lr != TRAIN_UNSET ? args->decoupled_min_lr
                                                                   : args->min_lr,
            .wd_start = args->start_weight_decay >= 0 ? args->start_weight_decay : wd,
            .wd_end = args->end_weight_decay >= 0 ? args->end_weight_decay : wd,
        },
        .iters = { .decay = args->lr_decay_iters, .wsd_decay = args->lr_wsd_decay_iters,
                   .warmup = args->lr_warmup_iters },
        .samples = { .decay = args->lr_decay_samples, .wsd_decay = args->lr_wsd_decay_samples,
                     .warmup = args->lr_warmup_samples },
        .warmup_fraction = args->lr_warmup_fraction,
        .style = args->lr_decay_style,
        .wsd_style = args->lr_wsd_decay_style,
        .wd_style = args->weight_decay_incr_style,
    };
}

/* The loss scale: dynamic with --fp16, or as --loss-scale says, else 1. */
static struct grad_scaler_config set_scaler (const struct train_args *args)
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

static struct buffers_config set_buffers (const struct train_args *args)
{
    return (struct buffers_config){
        .sharded = args->sharded_optimizer,
        .high_busbw = args->high_busbw,
        .no_grads = args->skip_train,
        .grad = grad_type (args),
        .average = args->average_grads,
        .overlap_grad_reduce = args->overlap_grad_reduce,
        .overlap_param_gather = args->overlap_param_gather,
        .local_norm = args->check_large_grads,
    };
}

static struct layout_bucket_rule set_bucket (const struct train_args *args)
{
    return (struct layout_bucket_rule){
        .bucket_size = given64 (args->bucket_size),
        .num_buckets = given64 (args->num_buckets),
        .overlap = args->overlap_grad_reduce,
    };
}

static struct main_params_config set_main (const struct train_args *args)
{
    return (struct main_params_config){
        .dtype = type_of (args->main_params_dtype),
        .remainders = args->precision_aware && !args->whole_main_params,
        .float8 = args->fp8_param_gather,
        .keep = !args->skip_train || args->save_weights,
    };
}

static struct optimizer_config set_optimizer (const struct train_args *args)
{
    return (struct optimizer_config){
        .beta1 = args->adam_beta1,
        .beta2 = args->adam_beta2,
        .eps = args->adam_eps,
        .clip_grad = args->clip_grad,
        .decay_qk_norm = args->decay_qk_norm,
        .count_zeros = args->log_zeros,
        .snapshot = args->async_save,
        .types = { .main_grad = type_of (args->main_grads_dtype),
                   .exp_avg = type_of (args->exp_avg_dtype),
                   .exp_avg_sq = type_of (args->exp_avg_sq_dtype) },
    };
}

static struct data_config set_data (const struct train_args *args)
{
    return (struct data_config){
        .all = args->data_path,
        .part = { [SPLIT_TRAIN] = args->train_data_path,
                  [SPLIT_VALID] = args->valid_data_path,
                  [SPLIT_TEST] = args->test_data_path },
        .split = args->split,
        .mock = args->mock_data,
        .loader = args->dataloader,
        .edit = args->edit,
        .vocab_size = args->vocab_size,
        .padded_vocab_size = args->padded_vocab_size,
        .batches = args->batches,
        .from_program = { args->program_samples[SPLIT_TRAIN], args->program_samples[SPLIT_VALID],
                          args->program_samples[SPLIT_TEST] },
        .surplus = args->data_surplus,
        .cache = args->data_cache,
        .seed = args->seed,
        .tokenizer = args->tokenizer,
        .tokenizer_files = { .vocab = args->vocab_file, .merge = args->merge_file,
                             .model = args->tokenizer_model,
                             .vocab_size = given (args->vocab_size),
                             .has_eod = args->null_eod != TRAIN_UNSET,
                             .eod = args->null_eod },
    };
}

enum { DEFAULT_ITERS = 100, DEFAULT_INTERVAL = 1000 }; // Megatron-LM's

static struct evaluation_config set_evaluation (const struct train_args *args)
{
    int64_t iters = args->eval_iters, interval = args->eval_interval;

    return (struct evaluation_config){
        .iters = iters == TRAIN_UNSET ? DEFAULT_ITERS : iters,
        .interval = interval == TRAIN_UNSET ? DEFAULT_INTERVAL : interval,
        .start = args->eval.start,
        .global_batch = given (args->eval.global_batch_size),
        .micro_batch_size = given (args->eval.micro_batch_size),
        .seq_length = given (args->eval.seq_length),
        .full = args->eval.full,
        .several = args->eval.several,
        .names = args->eval.names,
        .alone = args->skip_train,
        .wants_validation = interval > 0 && (iters != 0 || args->eval.full) && !args->skip_train,
    };
}

static enum lr_prefer preferred (const struct train_args *args)
{
    if (args->override_schedule || args->skip_train) // the one without training has none
        return LR_PREFER_OWN;
    return args->checkpoint_schedule ? LR_PREFER_SAVED : LR_WANT_SAME;
}

static struct resume_config set_resume (const struct train_args *args)
{
    struct state_source from = { .iteration = -1, .no_optimizer = args->no_load_optim,
                                 .prefer = preferred (args) };
    struct resume_config resume = {
        .weights = args->load_weights,
        .load = from,
        .pretrained = from,
        .must_exist = args->exit_on_missing,
        .save = args->save,
        .skip_train = args->skip_train,
    };

    resume.load.dir = args->load;
    resume.load.iteration = args->ckpt_step != TRAIN_UNSET ? args->ckpt_step : -1;
    resume.load.weights_only = args->finetune;
    resume.pretrained.dir = args->pretrained;
    resume.pretrained.weights_only = true;
    resume.upcycle = args->moe.upcycling;
    return resume;
}

static struct save_config set_save (const struct train_args *args)
{
    bool prunes = args->keep_last != TRAIN_UNSET || args->save_retain_interval != TRAIN_UNSET;

    return (struct save_config){
        .dir = args->save,
        .interval = given64 (args->save_interval),
        .keep = { .last = args->keep_last != TRAIN_UNSET ? args->keep_last : prunes,
                  .every = given64 (args->save_retain_interval) },
        .async = args->async_save,
    };
}

static struct report_config set_report (const struct train_args *args)
{
    return (struct report_config){
        .interval = args->log_interval,
        .memory_interval = given64 (args->log_memory_interval),
        .throughput = args->log_throughput,
        .timing_level = args->timing_log_level,
        .timing_option = args->timing_log_option,
        .metrics_file = args->metrics_file,
    };
}

static struct tensorboard_config set_tensorboard (const struct train_args *args)
{
    const struct train_tensorboard *t = &args->tensorboard;

    return (struct tensorboard_config){
        .dir = t->dir,
        .interval = t->log_interval,
        .timers = t->timers,
        .throughput = args->log_throughput,
        .validation_ppl = t->validation_ppl,
        .memory = t->memory,
        .world_size = t->world_size,
        .loss_scale = !t->no_loss_scale,
        .learning_rate = !t->no_learning_rate,
        .layers = args->moe.per_layer_logging,
    };
}

const char *run_config_backend (const struct train_args *args)
{
    bool other = args->backend
                 && args_other_value ("distributed-backend", strlen ("distributed-backend"),
                                      args->backend);

    return other && !args_backend_is_nccl (args) ? NULL : args->backend;
}

/* Rules between the two are checked later. */
static enum job_transfers set_transfers (const struct train_args *args)
{
    if (args->no_overlap_p2p)
        return JOB_TRANSFERS_GROUPED;
    return args->overlap_p2p ? JOB_TRANSFERS_LANES : JOB_TRANSFERS_BY_DEVICE;
}

void run_config_init (struct run_config *c, const struct train_args *args)
{
    *c = (struct run_config){
        .args = args,
        .job = { .timeout = args->timeout_minutes * 60,
                 .optimizer_instances = args->optimizer_instances,
                 .transfers = set_transfers (args),
                 .device = args->device,
                 .comm = run_config_backend (args),
                 .ordered_sums = args->deterministic,
                 .nccl_config = args->nccl_config,
                 .fingerprint = train_args_fingerprint (args),
                 .watch = { .warn_seconds = args->stall_minutes * 60 } },
        .vocab_divisor = args->vocab_divisor,
        .model = train_model_spec (args),
        .microbatch_group = given (args->microbatch_group),
        .length = set_length (args),
        .lr = set_lr (args),
        .scaler = set_scaler (args),
        .step = { .per_token_loss = args->per_token_loss, .skip_overflows = args->fp16,
                  .check_nan = !args->no_check_nan, .params_norm = args->log_params_norm,
                  .outliers.check = { [OUTLIER_LOSS] = args->check_spiky_loss,
                                      [OUTLIER_GRADS] = args->check_large_grads },
                  .hash_interval = given64 (args->check_hash_interval) },
        .buffers = set_buffers (args),
        .bucket = set_bucket (args),
        .main = set_main (args),
        .optimizer = set_optimizer (args),
        .check_memory = !args->no_check_memory,
        .device_reserve = (int64_t)args->device_reserve_mib << 20,
        .comm_reserve = (int64_t)args->communicator_reserve_mib << 20,
        .data = set_data (args),
        .evaluation = set_evaluation (args),
        .resume = set_resume (args),
        .save = set_save (args),
        .outputs = { .weights = args->save_weights, .gradients = args->save_gradients },
        .report = set_report (args),
        .tensorboard = set_tensorboard (args),
        .trace = { .file = args->trace_file, .iterations = args->trace_iterations },
        .stop = { .signals = args->ignore_signals ? NULL : args->exit_signals,
                  .minutes = args->exit_minutes },
    };
    train_margs (args, &c->margs);
    c->batches = set_batches (args, c->model.micro_batch_size);
}

void run_config_clear (struct run_config *c)
{
    stages_destroy (c->stages);
    c->stages = NULL;
    c->model.stages = NULL;
}
