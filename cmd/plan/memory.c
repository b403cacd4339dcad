/* memory.c - megatron plan memory: what every rank of a run allocates
 *
 * Each rank is set up as a run would set it up, up to where memory is allocated, with
 * communicators that have a size and nothing behind them.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/memory.h"
#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/infer/task.h"
#include "libcore/train/train.h"

enum { WORLD_MAX = 65536, THREADS_MAX = 4096 };

static int set_number (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    struct plan_memory *r = target;

    if (strcmp (option->key, "threads") == 0)
        return parse_int (what, value, 1, THREADS_MAX, &r->threads, err);
    if (strcmp (option->key, "world") == 0)
        return parse_int (what, value, 1, WORLD_MAX, &r->world, err);
    return parse_int (what, value, 0, WORLD_MAX, &r->rank, err);
}

static int set_choices (void *target, const struct cmd_option *option, const char *what,
                        const char *value, struct mg_error *err)
{
    struct plan_memory *r = target;

    r->choices = true;
    if (strcmp (option->key, "fit") == 0)
        return parse_bytes (what, value, &r->fit, err);
    return 0;
}

/* Numbers of megatron generate. */
static int set_generator (void *target, const struct cmd_option *option, const char *what,
                          const char *value, struct mg_error *err)
{
    struct plan_memory *r = target;

    r->generate = true;
    if (strcmp (option->key, "requests") == 0)
        return cmd_set_int (target, option, what, value, err);
    return (option->arg ? cmd_set_int64 : cmd_set_flag) (target, option, what, value, err);
}

/* The memory of an evaluation does not depend on its task. */
static int set_task (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct plan_memory *r = target;
    enum task_kind task;

    (void)option;
    (void)what;
    r->evaluate = true;
    return task_parse (value, &task, err);
}

#define GENERATOR(field) .at = offsetof (struct plan_memory, generator.field), \
                         .set = set_generator, .key = #field

static const struct cmd_option memory_options[] = {
    { .name = "world-size", .arg = "N", .help = "ranks of the job, default one model's",
      .key = "world", .set = set_number },
    { .name = "rank", .arg = "R", .help = "this rank alone", .key = "rank",
      .set = set_number },
    { .name = "threads", .arg = "N",
      .help = "compute threads of a rank, default as on this machine", .key = "threads",
      .set = set_number },
    { .name = "choices", .help = "compare choices of recomputation instead",
      .key = "choices", .set = set_choices },
    { .name = "fit", .arg = "BYTES",
      .help = "and say which of them fits so many bytes a rank, such as 40G",
      .key = "fit", .set = set_choices },
    { .name = "inference-max-requests", .arg = "N",
      .help = "plan megatron generate: texts that share passes (8)", GENERATOR (requests),
      .min = 1, .max = GENERATOR_REQUESTS_MAX },
    { .name = "inference-max-seq-length", .arg = "N",
      .help = "plan megatron generate: positions of a text (those of the model, 2560 at most)",
      GENERATOR (length), .min = 1, .max = INT32_MAX },
    { .name = "inference-dynamic-batching-max-tokens", .arg = "N",
      .help = "plan megatron generate: rows of a pass (512)", GENERATOR (rows), .min = 1,
      .max = INT32_MAX },
    { .name = "return-log-probs",
      .help = "plan megatron generate with log probabilities of prompts", GENERATOR (scores) },
    { .name = "task", .arg = "TASK", .help = "plan megatron eval, whose memory is the same for "
      "WIKITEXT103, PTB, PERPLEXITY, LAMBADA or HELLASWAG", .key = "task", .set = set_task },
    { .name = NULL },
};

static const char memory_usage[] =
    "Usage: megatron plan memory MODEL-ARGUMENT... [OPTION...]\n\n"
    "Print the bytes that every rank of a run allocates, by kind, without running it.\n"
    "With an option of megatron generate, the run generates; with --task, it is one of\n"
    "megatron eval; else it trains.\n"
    "A MODEL-ARGUMENT is one of megatron train's.\n\n";

/* --- planning --- */

void plan_memory_clear (struct plan_memory_row *row)
{
    memory_clear (&row->plan);
    passes_plan_clear (&row->graphs);
}

/* Copy the plans, with the arrays that they own. */
static int keep (struct plan_memory_row *row, const struct memory_plan *plan,
                 const struct passes_plan *graphs, struct mg_error *err)
{
    row->plan = *plan;
    row->graphs = *graphs;
    row->plan.pool = calloc ((size_t)plan->num_pools + 1, sizeof (*plan->pool));
    row->graphs.chunk = calloc ((size_t)graphs->num_chunks + 1, sizeof (*graphs->chunk));
    if (!row->plan.pool || !row->graphs.chunk)
        return mg_error_set (err, ENOMEM, "out of memory");
    memcpy (row->plan.pool, plan->pool, (size_t)plan->num_pools * sizeof (*plan->pool));
    memcpy (row->graphs.chunk, graphs->chunk,
            (size_t)graphs->num_chunks * sizeof (*graphs->chunk));
    return 0;
}

/* A rank that generates or evaluates. */
static int plan_infer (const struct train_args *args, const struct plan_memory *r, int rank,
                       struct plan_memory_row *row, struct mg_error *err)
{
    const struct infer_config config = { .program = "megatron plan", .scores = r->evaluate,
                                         .generator = r->generator, .errors = stderr };

    row->threads = r->threads;
    return infer_plan (&config, args, rank, r->world, &row->threads, &row->plan, err);
}

static int plan_rank (const struct train_args *args, const struct plan_memory *r, int rank,
                      struct plan_memory_row *row, struct mg_error *err)
{
    struct train *t = train_create (args, "megatron plan", stdout, stderr);
    int rc = -1;

    if (!t)
        return mg_error_set (err, ENOMEM, "out of memory");
    if (train_plan (t, rank, r->world, r->threads, err) == 0) {
        row->threads = train_threads (t);
        rc = keep (row, train_memory (t), train_graphs_planned (t), err);
    }
    train_destroy (t);
    return rc;
}

int plan_memory_ranks (const struct train_args *args, const struct plan_memory *request,
                       int first,
                       int n, struct plan_memory_row *row, struct mg_error *err)
{
    for (int i = 0; i < n; i++) {
        if ((request->generate || request->evaluate ? plan_infer : plan_rank)
                (args, request, first + i, &row[i], err) < 0)
            return -1;
    }
    return 0;
}

/* The fewest ranks that both grids can have. */
static int least_world (const struct geometry *g)
{
    int64_t dense = (int64_t)g->tp * g->cp, expert = (int64_t)geometry_etp (g) * g->ep;
    int64_t world = dense;

    while (world % expert != 0 && world <= WORLD_MAX)
        world += dense;
    return world * g->pp <= WORLD_MAX ? (int)(world * g->pp) : WORLD_MAX;
}

int plan_memory_world (struct plan_memory *r, const struct train_args *args, struct mg_error *err)
{
    struct run_config config;
    const struct geometry *g = &config.geometry;

    run_config_init (&config, args);
    if (run_config_geometry (&config, err) < 0)
        return -1;
    if (r->world == 0)
        r->world = least_world (g);
    if (r->rank >= r->world)
        return mg_error_set (err, EINVAL, "--rank %d is not below the %d ranks", r->rank,
                             r->world);
    return 0;
}

/* --- printing --- */

bool plan_memory_same (const struct plan_memory_row *a, const struct plan_memory_row *b)
{
    return memcmp (a->plan.bytes, b->plan.bytes, sizeof (a->plan.bytes)) == 0
           && a->plan.elements == b->plan.elements && a->plan.padding == b->plan.padding
           && a->plan.communicators == b->plan.communicators
           && a->plan.num_pools == b->plan.num_pools
           && memcmp (a->plan.pool, b->plan.pool,
                      (size_t)a->plan.num_pools * sizeof (*a->plan.pool)) == 0
           && a->graphs.graphs.graphs == b->graphs.graphs.graphs
           && a->graphs.graphs.nodes == b->graphs.graphs.nodes
           && a->graphs.graphs.host_bytes == b->graphs.graphs.host_bytes;
}

static void print_ranks (const struct plan_memory_row *row, int first, int last)
{
    char each[MEMORY_EACH_TEXT];

    memory_each_describe (&row->plan, each);
    printf (last > first ? "ranks %d-%d\n" : "rank %d\n", first, last);
    for (int k = 0; k < NUM_MEMORY_KINDS; k++) {
        printf ("  %-16s %18" PRId64 "\n", memory_kind_names[k], row->plan.bytes[k]);
        for (int p = 0; k == MEMORY_ACTIVATIONS && p < row->plan.num_pools; p++) {
            const struct memory_pool *pool = &row->plan.pool[p];

            printf ("    pool %d: %d slot%s of %" PRId64 "\n", p, pool->slots,
                    pool->slots == 1 ? "" : "s",
                    pool->slots > 0 ? pool->bytes / pool->slots : 0);
        }
    }
    if (row->plan.expert_rows > 0)
        printf ("  rows of experts: %" PRId64 " a round, %.4g x those of balanced loads\n",
                row->plan.expert_rows,
                (double)row->plan.expert_rows / (double)row->plan.balanced_rows);
    printf ("  %-16s %18" PRId64 "  %.2f GiB\n", "total", memory_total (&row->plan),
            (double)memory_total (&row->plan) / (1 << 30));
    if (row->plan.apart)
        printf ("  of the device: %" PRId64 ", and %" PRId64 " in reserve for its context, the "
                "libraries and other programs\n", memory_device (&row->plan), row->plan.reserve);
    if (row->plan.communicators > 0)
        printf ("  communicators: %d, and %" PRId64 " of the device in reserve for them\n",
                row->plan.communicators, row->plan.comm_reserve);
    if (row->graphs.graphs.graphs > 0)
        printf ("  graphs: %" PRId64 " of %" PRId64 " nodes, in %zu bytes of host memory besides\n",
                row->graphs.graphs.graphs, row->graphs.graphs.nodes,
                row->graphs.graphs.host_bytes);
    if (row->plan.graph_reserve > 0)
        printf ("  and %" PRId64 " of the device in reserve for graphs\n", row->plan.graph_reserve);
    if (row->plan.again_cost > 0)
        printf ("  recomputation: %.2f%% of the forward passes\n",
                100 * row->plan.again_cost / row->plan.forward_cost);
    printf ("  bytes per parameter: %s, for %" PRId64 " parameters and %" PRId64
            " elements of padding\n", each, row->plan.elements, row->plan.padding);
}

static void print_text (const struct plan_memory_row *row, int first, int n)
{
    printf ("%d thread%s a rank\n", row->threads, row->threads == 1 ? "" : "s");
    for (int i = 0, next; i < n; i = next) {
        next = i + 1;
        while (next < n && plan_memory_same (&row[i], &row[next]))
            next++;
        print_ranks (&row[i], first + i, first + next - 1);
    }
}

static void print_json_row (const struct plan_memory_row *row, int rank)
{
    struct memory_each each = memory_each (&row->plan);

    printf ("{\"rank\":%d", rank);
    for (int k = 0; k < NUM_MEMORY_KINDS; k++) {
        printf (",\"");
        for (const char *c = memory_kind_names[k]; *c; c++)
            putchar (*c == ' ' ? '_' : *c);
        printf ("\":%" PRId64, row->plan.bytes[k]);
    }
    printf (",\"pools\":[");
    for (int p = 0; p < row->plan.num_pools; p++)
        printf ("%s{\"slots\":%d,\"bytes\":%" PRId64 "}", p ? "," : "", row->plan.pool[p].slots,
                row->plan.pool[p].bytes);
    printf ("],\"total\":%" PRId64 ",\"device\":%" PRId64 ",\"reserve\":%" PRId64
            ",\"communicators\":%d,\"communicator_reserve\":%" PRId64
            ",\"graph_reserve\":%" PRId64 ",\"num_parameters\":%" PRId64 ",\"padding\":%" PRId64
            ",\"bytes_per_parameter\":%.6g,\"bytes_whole\":%.6g,\"bytes_shared\":%.6g"
            ",\"shards\":%d,\"again\":%.6g,\"expert_rows\":%" PRId64
            ",\"balanced_expert_rows\":%" PRId64 ",\"graphs\":%" PRId64
            ",\"graph_nodes\":%" PRId64 ",\"graph_host_bytes\":%zu}",
            memory_total (&row->plan), memory_device (&row->plan), row->plan.reserve,
            row->plan.communicators, row->plan.comm_reserve, row->plan.graph_reserve,
            row->plan.elements, row->plan.padding, each.total, each.whole,
            each.shared, row->plan.shards,
            row->plan.forward_cost > 0 ? row->plan.again_cost / row->plan.forward_cost : 0,
            row->plan.expert_rows, row->plan.balanced_rows, row->graphs.graphs.graphs,
            row->graphs.graphs.nodes, row->graphs.graphs.host_bytes);
}

static void print_json (const struct plan_memory_row *row, int first, int n)
{
    printf ("{\"threads\":%d,\"ranks\":[", row->threads);
    for (int i = 0; i < n; i++) {
        fputs (i ? ",\n" : "\n", stdout);
        print_json_row (&row[i], first + i);
    }
    printf ("]}\n");
}

static int show (void *request, bool json, const struct train_args *args, struct mg_error *err)
{
    struct plan_memory *r = request;
    int first = r->rank >= 0 ? r->rank : 0, n = r->rank >= 0 ? 1 : 0, rc;
    struct plan_memory_row *row;

    r->json = json;
    if (plan_memory_world (r, args, err) < 0)
        return -1;
    if (n == 0)
        n = r->world;
    if (!(row = calloc ((size_t)n, sizeof (*row))))
        return mg_error_set (err, ENOMEM, "out of memory");
    rc = plan_memory_ranks (args, r, first, n, row, err);
    if (rc == 0 && r->choices)
        rc = plan_fit (args, r, first, n, row, err);
    else if (rc == 0 && r->json)
        print_json (row, first, n);
    else if (rc == 0)
        print_text (row, first, n);
    for (int i = 0; i < n; i++)
        plan_memory_clear (&row[i]);
    free (row);
    return rc;
}

int plan_memory_check (const struct train_args *args, struct mg_error *err)
{
    const char *missing = plan_missing_argument (args);

    if (missing && !(args->batches && strcmp (missing, "--seq-length") == 0))
        return mg_error_set (err, EINVAL, "%s of the model is missing", missing);
    if (train_args_check_recompute (args, err) < 0)
        return -1;
    return train_args_check_types (args, err);
}

static int check (const void *request, const struct train_args *args, struct mg_error *err)
{
    const struct plan_memory *r = request;
    const char *missing = plan_missing_argument (args);

    if (!r->generate && !r->evaluate)
        return plan_memory_check (args, err);
    if (r->generate && r->evaluate)
        return mg_error_set (err, EINVAL, "--task is about megatron eval, and another option about "
                             "megatron generate");
    if (r->choices)
        return mg_error_set (err, EINVAL, "--choices and --fit are about runs that train");
    if (missing && strcmp (missing, "--seq-length") != 0)
        return mg_error_set (err, EINVAL, "%s of the model is missing", missing);
    return 0;
}

int plan_memory (int argc, char **argv)
{
    static const struct plan_model_part part = { memory_options, memory_usage, check, show };
    struct plan_memory r = { .rank = -1,
                             .generator = { .requests = INFER_REQUESTS, .rows = INFER_ROWS } };

    return plan_run_model (&part, &r, argc, argv);
}
