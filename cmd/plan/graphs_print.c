/* graphs_print.c - the graphs of a run as text and JSON */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/plan/graphs.h"

int64_t plan_graphs_peer (const struct passes_plan *plan, int pp)
{
    if (plan->config.impl == GRAPHS_ITERATION)
        return 1;
    return plan->single.graphs * (pp > 1 ? plan->microbatches : 1);
}

/* The operations that the host no longer starts one by one. */
static int64_t saved_launches (const struct passes_plan *plan)
{
    return plan->nodes - plan->replays;
}

static const char *impl_name (const struct passes_plan *plan)
{
    static const char *const names[] = {
        [GRAPHS_NONE] = "none",
        [GRAPHS_LAYERS] = "local",
        [GRAPHS_ITERATION] = "full_iteration",
    };

    return names[plan->config.impl];
}

/* BEFORE name AFTER for each scope, with separators. */
static void print_scopes (const struct passes_plan *plan, const char *quote,
                          const char *separator)
{
    const char *comma = "";

    for (int i = 0; i < GRAPH_NUM_SCOPES; i++) {
        if (plan->config.impl != GRAPHS_LAYERS || !(plan->config.scopes & GRAPH_BIT (i)))
            continue;
        printf ("%s%s%s%s", comma, quote, graph_scope_names[i], quote);
        comma = separator;
    }
}

/* --- JSON --- */

static void print_json_row (const struct passes_plan *plan, int rank, int pp)
{
    const struct model_graphs *g = &plan->graphs;

    printf ("{\"rank\":%d,\"graphs\":%" PRId64 ",\"nodes\":%" PRId64
            ",\"static_input_bytes\":%zu,\"intermediate_bytes\":%zu,\"handover_bytes\":%zu"
            ",\"peer_graphs\":%" PRId64 ",\"layers\":%" PRId64 ",\"microbatches\":%" PRId64
            ",\"replayed_nodes\":%" PRId64 ",\"replays\":%" PRId64 ",\"saved_launches\":%" PRId64
            ",\"host_bytes\":%zu,\"chunks\":[",
            rank, g->graphs, g->nodes, g->static_input_bytes, g->intermediate_bytes,
            g->handover_bytes, plan_graphs_peer (plan, pp), g->layers, plan->microbatches,
            plan->nodes, plan->replays, saved_launches (plan), g->host_bytes);
    for (int c = 0; c < plan->num_chunks; c++)
        printf ("%s{\"layers\":%d,\"slots\":%d,\"captured\":%.4f}", c ? "," : "",
                plan->chunk[c].captured.layers, plan->chunk[c].slots,
                plan->chunk[c].captured.share);
    printf ("]}");
}

void plan_graphs_print_json (const struct plan_graphs *g)
{
    const struct passes_plan *any = &g->row[0].graphs;

    printf ("{\"impl\":\"%s\",\"modules\":[", impl_name (any));
    print_scopes (any, "\"", ",");
    printf ("],\"warmup_steps\":%d,\"ranks\":[", any->config.warmup_steps);
    for (int i = 0; i < g->n; i++) {
        fputs (i ? ",\n" : "\n", stdout);
        print_json_row (&g->row[i].graphs, g->first + i, g->pp);
    }
    printf ("]}\n");
}

/* --- text --- */

static void print_number (const char *name, int64_t value, const char *note)
{
    printf ("  %-28s %14" PRId64 "%s%s\n", name, value, *note ? "  " : "", note);
}

/* Layers and slots of each chunk: "2 x 3 + 2 x 1". */
static void print_chunks (const struct passes_plan *plan)
{
    printf ("  layers x slots               ");
    for (int c = 0; c < plan->num_chunks; c++)
        printf ("%s%d x %d", c ? " + " : "", plan->chunk[c].captured.layers,
                plan->chunk[c].slots);
    if (plan->num_chunks > 1)
        printf (", by virtual stage");
    putchar ('\n');
}

static void print_rank (const struct passes_plan *plan, int first, int last, int pp)
{
    const struct model_graphs *g = &plan->graphs;
    bool layers = plan->config.impl == GRAPHS_LAYERS;

    printf (last > first ? "\nranks %d-%d\n" : "\nrank %d\n", first, last);
    if (layers)
        print_chunks (plan);
    print_number ("graphs", g->graphs, "");
    print_number ("nodes", g->nodes, "");
    if (layers) {
        print_number ("static inputs", (int64_t)g->static_input_bytes, "bytes");
        print_number ("intermediates", (int64_t)g->intermediate_bytes, "bytes");
        print_number ("hand-over to eager phases", (int64_t)g->handover_bytes, "bytes");
    }
    print_number ("graphs themselves", (int64_t)g->host_bytes, "bytes of host memory");
    print_number ("launches an iteration saves", saved_launches (plan), "");
    print_number ("graphs of Megatron-LM", plan_graphs_peer (plan, pp), "");
}

static bool same (const struct passes_plan *a, const struct passes_plan *b)
{
    bool equal = a->graphs.graphs == b->graphs.graphs && a->graphs.nodes == b->graphs.nodes
                 && a->graphs.static_input_bytes == b->graphs.static_input_bytes
                 && a->graphs.intermediate_bytes == b->graphs.intermediate_bytes
                 && a->graphs.handover_bytes == b->graphs.handover_bytes
                 && a->graphs.host_bytes == b->graphs.host_bytes && a->nodes == b->nodes;

    for (int c = 0; c < a->num_chunks && equal; c++)
        equal = a->chunk[c].slots == b->chunk[c].slots
                && a->chunk[c].captured.layers == b->chunk[c].captured.layers;
    return equal;
}

/* A line of the table: how something grows, and what it is in this run, without a pipeline and
 * with one.
 */
static void print_growth (const char *name, const char *plain, int64_t plain_value,
                          const char *piped, int64_t piped_value, int pp)
{
    printf ("%-22s %-12s %13" PRId64 "  %-26s ", name, plain, plain_value, piped);
    if (pp > 1)
        printf ("%13" PRId64 "\n", piped_value);
    else
        printf ("%13s\n", "-");
}

/* The rank of the pipeline that has the most graphs. */
static int largest_stage (const struct plan_graphs *g)
{
    int most = 0;

    for (int i = 1; i < g->pp; i++) {
        if (g->stage[i].graphs.graphs.graphs > g->stage[most].graphs.graphs.graphs)
            most = i;
    }
    return most;
}

/* Without a pipeline, one rank has the layers of all stages, and one slot. */
static void print_table (const struct plan_graphs *g)
{
    const struct passes_plan *one = &g->stage[largest_stage (g)].graphs;
    struct model_graphs all = { 0 };

    for (int i = 0; i < g->pp; i++) {
        const struct model_graphs *s = &g->stage[i].graphs.single;

        all.graphs += s->graphs;
        all.static_input_bytes += s->static_input_bytes;
        all.intermediate_bytes += s->intermediate_bytes;
    }
    printf ("\n%-22s %-26s  ", "grow with", "without a pipeline");
    if (g->pp > 1)
        printf ("with one: the pipeline's rank %d\n", largest_stage (g));
    else
        printf ("with one\n");
    print_growth ("graphs", "2 x layers", all.graphs, "2 x layers x slots",
                  one->graphs.graphs, g->pp);
    print_growth ("static inputs", "layers", (int64_t)all.static_input_bytes, "layers x slots",
                  (int64_t)one->graphs.static_input_bytes, g->pp);
    print_growth ("intermediates", "layers", (int64_t)all.intermediate_bytes, "layers x slots",
                  (int64_t)one->graphs.intermediate_bytes, g->pp);
    print_growth ("graphs of Megatron-LM", "2 x layers", all.graphs, "2 x layers x microbatches",
                  plan_graphs_peer (one, g->pp), g->pp);
    printf ("slots follow from the pipeline's size and virtual stages: once microbatches are many, "
            "more of\nthem need no more slots\n");
}

void plan_graphs_print (const struct plan_graphs *g)
{
    const struct passes_plan *any = &g->row[0].graphs;

    if (any->config.impl == GRAPHS_NONE) {
        printf ("nothing is captured: --cuda-graph-impl local captures layers, full_iteration "
                "all passes of an iteration\n");
        return;
    }
    printf ("--cuda-graph-impl %s", impl_name (any));
    if (any->config.impl == GRAPHS_LAYERS)
        printf (": ");
    print_scopes (any, "", ", ");
    printf ("; captured after %d iteration%s\n", any->config.warmup_steps,
            any->config.warmup_steps == 1 ? "" : "s");
    printf ("%" PRId64 " microbatch%s an iteration, pp %d\n", any->microbatches,
            any->microbatches == 1 ? "" : "es", g->pp);
    for (int i = 0, next; i < g->n; i = next) {
        next = i + 1;
        while (next < g->n && same (&g->row[i].graphs, &g->row[next].graphs))
            next++;
        print_rank (&g->row[i].graphs, g->first + i, g->first + next - 1, g->pp);
    }
    if (any->config.impl == GRAPHS_LAYERS)
        print_table (g);
}
