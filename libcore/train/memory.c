/* memory.c - the plan of a rank's memory
 *
 * Modules that allocate say how many bytes they will take; the plan adds them up.
 *
 * Invariant: the parts that the plan reads are bound later without changes, so the
 * planned bytes are the allocated bytes.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/device/device.h"
#include "libcore/train/memory.h"

const char *const memory_kind_names[NUM_MEMORY_KINDS] = {
    [MEMORY_PARAMETERS] = "parameters",
    [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_MAIN_GRADIENTS] = "main gradients",
    [MEMORY_MAIN] = "main parameters",
    [MEMORY_MOMENTS] = "moments",
    [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_CACHES] = "caches",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_SCRATCH] = "kernel scratch",
    [MEMORY_CHECKPOINT] = "checkpoint",
    [MEMORY_COMMUNICATION] = "communication",
    [MEMORY_STAGING] = "staging",
};

int64_t memory_total (const struct memory_plan *plan)
{
    int64_t total = 0;

    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        total += plan->bytes[k];
    return total;
}

int64_t memory_host (const struct memory_plan *plan)
{
    return plan->bytes[MEMORY_CHECKPOINT] + plan->bytes[MEMORY_STAGING];
}

int64_t memory_device (const struct memory_plan *plan)
{
    return memory_total (plan) - (plan->apart ? memory_host (plan) : 0);
}

int64_t memory_need (const struct memory_plan *plan)
{
    return memory_device (plan) + plan->reserve + plan->comm_reserve + plan->graph_reserve;
}

void memory_add_graphs (struct memory_plan *plan, int64_t nodes)
{
    if (plan->apart)
        plan->graph_reserve += nodes * MEMORY_GRAPH_NODE;
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

/* --- the plan --- */

static void plan_experts (struct memory_plan *plan, const struct model *model)
{
    const struct nn *nn = model_nn (model);
    const struct nn_shape *shape = model_planned_shape (model);

    if (nn->config.moe.experts == 0)
        return;
    plan->expert_rows = shape->experts.rows;
    plan->balanced_rows = shape->experts.choices * nn->experts.etp_size;
}

static int plan_activations (struct memory_plan *plan, const struct memory_parts *parts,
                             struct mg_error *err)
{
    struct model *model = parts->model;
    struct model_cost cost = model_cost (model);
    size_t total = model_activation_bytes (model, parts->slots);

    if (total == 0 || total > INT64_MAX)
        return model_activation_error (err);
    plan->forward_cost = cost.forward;
    plan_experts (plan, model);
    plan->again_cost = cost.again;
    plan->num_pools = model_num_pools (model);
    if (!(plan->pool = calloc ((size_t)plan->num_pools + 1, sizeof (*plan->pool))))
        return mg_error_set (err, ENOMEM, "memory plan: out of memory");
    for (int p = 0; p < plan->num_pools; p++) {
        plan->pool[p].slots = parts->slots[p];
        plan->pool[p].bytes = (int64_t)model_pool_bytes (model, p, parts->slots[p]);
        if (plan->pool[p].bytes == 0 && errno != 0)
            return model_activation_error (err);
        plan->bytes[MEMORY_ACTIVATIONS] += plan->pool[p].bytes;
    }
    plan->bytes[MEMORY_CACHES] = (int64_t)model_cache_bytes (model);
    plan->bytes[MEMORY_WORKSPACE] = (int64_t)total - plan->bytes[MEMORY_ACTIVATIONS]
                                    - plan->bytes[MEMORY_CACHES];
    return 0;
}

/* Bytes of buffers, main parameters and optimizer. */
static void plan_state (struct memory_plan *plan, const struct memory_parts *parts)
{
    size_t n;
    const struct param *params = model_params (parts->model, &n);
    const struct optimizer *o = parts->optimizer;

    for (size_t i = 0; i < n; i++)
        plan->elements += params[i].numel;
    plan->padding = buffers_elements (parts->buffers) - plan->elements;
    plan->shards = parts->shards;
    plan->bytes[MEMORY_PARAMETERS] = buffers_bytes (parts->buffers, BUFFERS_PARAMS);
    plan->bytes[MEMORY_GRADIENTS] = buffers_bytes (parts->buffers, BUFFERS_GRADS);
    plan->bytes[MEMORY_MAIN] = main_params_bytes (parts->main);
    if (!o)
        return;
    plan->bytes[MEMORY_MAIN_GRADIENTS] = optimizer_bytes (o, OPTIMIZER_PART_MAIN_GRADS);
    plan->bytes[MEMORY_MOMENTS] = optimizer_bytes (o, OPTIMIZER_PART_MOMENTS);
    plan->bytes[MEMORY_CHECKPOINT] = optimizer_bytes (o, OPTIMIZER_PART_SNAPSHOT);
    plan->bytes[MEMORY_COMMUNICATION] = optimizer_bytes (o, OPTIMIZER_PART_PACKED);
}

int memory_plan (struct memory_plan *plan, const struct memory_parts *parts,
                 struct mg_error *err)
{
    size_t scratch;

    memory_clear (plan);
    if (plan_activations (plan, parts, err) < 0
        || model_scratch_bytes (parts->model, &scratch, err) < 0)
        return -1;
    plan_state (plan, parts);
    plan->apart = device_is_apart (job_device (parts->job));
    if (plan->apart) {
        plan->reserve = parts->reserve;
        plan->communicators = job_connections (parts->job);
        plan->comm_reserve = plan->communicators * parts->comm_reserve;
    }
    plan->bytes[MEMORY_SCRATCH] = (int64_t)scratch;
    plan->bytes[MEMORY_STAGING] = parts->staging + buffers_staging_bytes (parts->buffers)
                                  + model_staging_bytes (parts->model, parts->slots);
    plan->bytes[MEMORY_COMMUNICATION] += (int64_t)job_comm_bytes (parts->job);
    return 0;
}

/* --- does it fit? --- */

/* The changes by which this run would need less memory. */
static void advise (const struct memory_plan *plan, const struct memory_advice *a, char *text,
                    size_t n)
{
    int64_t caches = plan->bytes[MEMORY_CACHES];
    bool state = memory_state (plan) > memory_activations (plan) + caches;

    if (caches > 0) {
        snprintf (text, n, "%smore tensor or pipeline parallelism or more nodes would help",
                  state ? "" : "a smaller --inference-max-requests or "
                               "--inference-max-seq-length, ");
        return;
    }
    snprintf (text, n, "%s%s%s%s%smore tensor or pipeline parallelism or more nodes would help",
              a->async_save ? "no --async-save, " : "",
              state && a->shard ? "--use-distributed-optimizer, " : "",
              !state && plan->forward_cost > 0 && plan->again_cost == 0
                  ? "recomputation (megatron plan memory --fit finds which), " : "",
              !state && a->smaller_batch ? "a smaller --micro-batch-size, " : "",
              !state && a->sequence_parallel ? "--sequence-parallel, "
              : !state && a->bf16            ? "--bf16, "
                                             : "");
}

/* Every rank of a node needs about as much as this one. */
static int check_host (const struct memory_plan *plan, const struct memory_room *room,
                       const struct memory_advice *advice, struct mg_error *err)
{
    const double gib = 1 << 30;
    double need = (double)memory_host (plan);

    if (room->host == 0 || need * room->ranks <= room->host)
        return 0;
    return mg_error_set (err, ENOMEM, "%d x %.2f GiB of pinned host memory are needed by the ranks "
                         "of this node, it has %.2f GiB, %.2f GiB less; %smore nodes would help "
                         "(--no-check-memory: try it)", room->ranks, need / gib, room->host / gib,
                         (need * room->ranks - room->host) / gib,
                         advice->async_save ? "no --async-save, " : "");
}

int memory_check (const struct memory_plan *plan, const struct memory_room *room,
                  const struct memory_advice *advice, struct mg_error *err)
{
    const double gib = 1 << 30;
    int ranks = room->apart ? 1 : room->ranks;
    double need = (double)(memory_total (plan) - (room->apart ? memory_host (plan) : 0));
    struct memory_advice own = *advice;
    char text[300], who[64], others[100] = "";

    if (room->device == 0 || need * ranks <= room->device)
        return room->apart ? check_host (plan, room, advice, err) : 0;
    own.async_save &= !room->apart; // which takes host memory
    advise (plan, &own, text, sizeof (text));
    snprintf (who, sizeof (who), "%d x %.2f GiB are needed by the ranks of this node", ranks,
              need / gib);
    if (room->apart)
        snprintf (who, sizeof (who), "%.2f GiB are needed of the device", need / gib);
    if (room->apart && room->others > 0)
        snprintf (others, sizeof (others), " (%.2f GiB are held by its context, the libraries and "
                  "other programs)", room->others / gib);
    return mg_error_set (err, ENOMEM, "%s (%.2f GiB parameters, gradients and moments, %.2f GiB "
                         "activations and caches%s), it has %.2f GiB%s, %.2f GiB less; %s "
                         "(--no-check-memory: try it)", who, (double)memory_state (plan) / gib,
                         (double)(memory_activations (plan) + plan->bytes[MEMORY_CACHES]) / gib,
                         room->apart ? "" : " each", room->device / gib, others,
                         (need * ranks - room->device) / gib, text);
}
