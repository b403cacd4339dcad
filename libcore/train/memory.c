/* memory.c - the plan of a rank's memory
 *
 * Modules that allocate say how many bytes they will take; the plan adds them up.
 *
 * Invariant: everything that the plan counts is made here, from the arguments, and bound later
 * as it is: so the bytes that are planned are those that are allocated.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/train_private.h"

const char *const memory_kind_names[NUM_MEMORY_KINDS] = {
    [MEMORY_PARAMETERS] = "parameters",
    [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_MAIN_GRADIENTS] = "main gradients",
    [MEMORY_MAIN] = "main parameters",
    [MEMORY_MOMENTS] = "moments",
    [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_SCRATCH] = "kernel scratch",
    [MEMORY_CHECKPOINT] = "checkpoint",
    [MEMORY_COMMUNICATION] = "communication",
};

int64_t memory_total (const struct memory_plan *plan)
{
    int64_t total = 0;

    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        total += plan->bytes[k];
    return total;
}

int64_t memory_state (const struct memory_plan *plan)
{
    return plan->bytes[MEMORY_PARAMETERS] + plan->bytes[MEMORY_GRADIENTS]
           + plan->bytes[MEMORY_MAIN_GRADIENTS] + plan->bytes[MEMORY_MAIN]
           + plan->bytes[MEMORY_MOMENTS];
}

int64_t memory_activations (const struct memory_plan *plan)
{
    return plan->bytes[MEMORY_ACTIVATIONS] + plan->bytes[MEMORY_WORKSPACE];
}

struct memory_each memory_each (const struct memory_plan *plan)
{
    double elements = (double)(plan->elements + plan->padding);
    int64_t whole = plan->bytes[MEMORY_PARAMETERS] + plan->bytes[MEMORY_GRADIENTS];
    struct memory_each each = { 0 };

    if (elements > 0) {
        each.whole = (double)whole / elements;
        each.shared = (double)(memory_state (plan) - whole) * plan->shards / elements;
        each.total = each.whole + each.shared / plan->shards;
    }
    return each;
}

void memory_each_describe (const struct memory_plan *plan, char text[MEMORY_EACH_TEXT])
{
    struct memory_each each = memory_each (plan);

    snprintf (text, MEMORY_EACH_TEXT, "%.3f (%.4g + %.4g/d, d = %d)", each.total, each.whole,
              each.shared, plan->shards);
}

void memory_clear (struct memory_plan *plan)
{
    free (plan->pool);
    *plan = (struct memory_plan){ .num_pools = 0 };
}

/* --- what follows from the arguments --- */

/* Bucket by bucket only where that is overlapped with something: by Megatron-LM's rules. */
static int64_t bucket_size (const struct train *t)
{
    const struct grid *grid = job_grid (t->job);
    size_t n;
    const struct param *params = model_params (t->model, &n);
    struct layout_bucket_rule rule = {
        .bucket_size = t->args.bucket_size == TRAIN_UNSET ? 0 : t->args.bucket_size,
        .num_buckets = t->args.num_buckets == TRAIN_UNSET ? 0 : t->args.num_buckets,
        .dp = mg_comm_size (job_comm (t->job, GROUP_DP_CP)),
        .overlap = t->args.overlap_grad_reduce,
        .pp_rank = grid_coord (grid, false, MG_AXIS_PP, job_rank (t->job)),
    };
    int64_t size;

    for (size_t i = 0; i < n; i++)
        rule.num_params += params[i].numel;
    size = layout_bucket_size (&rule, NULL);
    if (size == LAYOUT_ONE_BUCKET)
        return 0;
    return size > 0 ? size : 1; /* each parameter alone either way */
}

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

static struct buffers_config choose_buffers (const struct train *t)
{
    const struct train_args *args = &t->args;

    return (struct buffers_config){
        .sharded = args->sharded_optimizer,
        .bucket_size = bucket_size (t),
        .high_busbw = args->high_busbw,
        .no_grads = args->skip_train,
        .grad = train_grad_dtype (args),
        .average = args->average_grads,
        .overlap_grad_reduce = args->overlap_grad_reduce,
        .overlap_param_gather = args->overlap_param_gather,
    };
}

static struct main_params_config choose_main (const struct train_args *args)
{
    return (struct main_params_config){
        .dtype = type_of (args->main_params_dtype),
        .remainders = args->precision_aware && !args->whole_main_params,
        .float8 = args->fp8_param_gather,
        .keep = !args->skip_train || args->save_weights,
    };
}

static struct optimizer_config choose_optimizer (const struct train_args *args)
{
    return (struct optimizer_config){
        .beta1 = args->adam_beta1,
        .beta2 = args->adam_beta2,
        .eps = args->adam_eps,
        .clip_grad = args->clip_grad,
        .count_zeros = args->log_zeros,
        .snapshot = args->async_save,
        .types = { .main_grad = type_of (args->main_grads_dtype),
                   .exp_avg = type_of (args->exp_avg_dtype),
                   .exp_avg_sq = type_of (args->exp_avg_sq_dtype) },
    };
}

static int make_model (struct train *t, struct mg_error *err)
{
    struct model_spec spec = {
        .config = t->config,
        .micro_batch_size = train_micro_batch (&t->args),
        .sequence_parallel = t->args.sequence_parallel && t->geometry.tp > 1,
        .stages = t->stages,
        .dtype = train_dtype (&t->args),
        .float8_weights = t->args.fp8_param_gather,
    };
    int group = t->args.microbatch_group != TRAIN_UNSET ? t->args.microbatch_group : 0;

    if (!(t->model = model_create (&spec, t->job, err))
        || !(t->passes = passes_create (t->model, t->job, t->batches, group,
                                       evaluate_any (&t->evaluation)
                                           ? t->evaluation.batch.num_microbatches : 0,
                                       err)))
        return -1;
    return 0;
}

/* Parameters and what belongs to them; a run that only evaluates has no optimizer. */
static int make_buffers (struct train *t, struct mg_error *err)
{
    const struct buffers_config buffers = choose_buffers (t);
    const struct main_params_config main = choose_main (&t->args);
    const struct optimizer_config optimizer = choose_optimizer (&t->args);
    size_t n;
    struct param *params = model_params (t->model, &n);

    if (!(t->buffers = buffers_create (&buffers, t->job, model_stream (t->model), params, n,
                                       model_num_tensors (t->model), err))
        || !(t->main = main_params_create (&main, t->buffers, err)))
        return -1;
    if (!t->args.skip_train
        && !(t->optimizer = optimizer_create (&optimizer, t->buffers, t->main, err)))
        return -1;
    return 0;
}

/* --- the plan --- */

static int plan_activations (struct train *t, struct mg_error *err)
{
    struct memory_plan *plan = &t->memory;
    const int *slots = passes_slots (t->passes);
    size_t total = model_activation_bytes (t->model, slots);

    if (total == 0 || total > INT64_MAX)
        return model_activation_error (err);
    plan->num_pools = model_num_pools (t->model);
    if (!(plan->pool = calloc ((size_t)plan->num_pools + 1, sizeof (*plan->pool))))
        return mg_error_set (err, ENOMEM, "memory plan: out of memory");
    for (int p = 0; p < plan->num_pools; p++) {
        plan->pool[p].slots = slots[p];
        plan->pool[p].bytes = (int64_t)model_pool_bytes (t->model, p, slots[p]);
        if (plan->pool[p].bytes == 0 && errno != 0)
            return model_activation_error (err);
        plan->bytes[MEMORY_ACTIVATIONS] += plan->pool[p].bytes;
    }
    plan->bytes[MEMORY_WORKSPACE] = (int64_t)total - plan->bytes[MEMORY_ACTIVATIONS];
    return 0;
}

/* Bytes of buffers, main parameters and optimizer. */
static void plan_state (const struct train *t, struct memory_plan *plan)
{
    size_t n;
    const struct param *params = model_params (t->model, &n);
    const struct optimizer *o = t->optimizer;

    for (size_t i = 0; i < n; i++)
        plan->elements += params[i].numel;
    plan->padding = buffers_elements (t->buffers) - plan->elements;
    plan->shards = t->args.sharded_optimizer ? mg_comm_size (job_comm_shard (t->job, false)) : 1;
    plan->bytes[MEMORY_PARAMETERS] = buffers_bytes (t->buffers, BUFFERS_PARAMS);
    plan->bytes[MEMORY_GRADIENTS] = buffers_bytes (t->buffers, BUFFERS_GRADS);
    plan->bytes[MEMORY_MAIN] = main_params_bytes (t->main);
    if (!o)
        return;
    plan->bytes[MEMORY_MAIN_GRADIENTS] = optimizer_bytes (o, OPTIMIZER_PART_MAIN_GRADS);
    plan->bytes[MEMORY_MOMENTS] = optimizer_bytes (o, OPTIMIZER_PART_MOMENTS);
    plan->bytes[MEMORY_CHECKPOINT] = optimizer_bytes (o, OPTIMIZER_PART_SNAPSHOT);
    plan->bytes[MEMORY_COMMUNICATION] = optimizer_bytes (o, OPTIMIZER_PART_PACKED);
}

int memory_plan (struct train *t, struct mg_error *err)
{
    struct memory_plan *plan = &t->memory;
    size_t scratch;

    memory_clear (plan);
    if (make_model (t, err) < 0 || make_buffers (t, err) < 0
        || plan_activations (t, err) < 0
        || model_scratch_bytes (t->model, &scratch, err) < 0)
        return -1;
    plan_state (t, plan);
    plan->bytes[MEMORY_SCRATCH] = (int64_t)scratch;
    plan->bytes[MEMORY_COMMUNICATION] += (int64_t)job_comm_bytes (t->job);
    return 0;
}

/* --- does it fit? --- */

/* What would make this run smaller, given how it is now. */
static void advise (const struct train *t, char *text, size_t n)
{
    const struct memory_plan *plan = &t->memory;
    bool dp = mg_comm_size (job_comm (t->job, GROUP_DP_CP)) > 1;
    bool state = memory_state (plan) > memory_activations (plan);

    snprintf (text, n, "%s%s%s%smore tensor or pipeline parallelism or more nodes would help",
              t->args.async_save ? "no --async-save, " : "",
              state && dp && !t->args.sharded_optimizer ? "--use-distributed-optimizer, " : "",
              !state && train_micro_batch (&t->args) > 1 ? "a smaller --micro-batch-size, " : "",
              !state && t->geometry.tp > 1 && !t->args.sequence_parallel
                  ? "--sequence-parallel, "
              : !state && train_dtype (&t->args) == MG_FLOAT32 ? "--bf16, "
                                                                : "");
}

/* Every rank of a node needs about as much as this one. */
int memory_check (const struct train *t, struct mg_error *err)
{
    const double gib = 1 << 30;
    int ranks = bootstrap_info (t->bootstrap)->local_size;
    double need = (double)memory_total (&t->memory);
    double have = (double)device_available (job_device (t->job));
    char advice[200];

    if (have == 0 || need * ranks <= have)
        return 0;
    advise (t, advice, sizeof (advice));
    return mg_error_set (err, ENOMEM, "%d x %.2f GiB are needed by the ranks of this node (%.2f"
                         " GiB parameters, gradients and moments, %.2f GiB activations each),"
                         " it has %.2f GiB, %.2f GiB less; %s (--no-check-memory: try it)",
                         ranks, need / gib, (double)memory_state (&t->memory) / gib,
                         (double)memory_activations (&t->memory) / gib, have / gib,
                         (need * ranks - have) / gib, advice);
}
