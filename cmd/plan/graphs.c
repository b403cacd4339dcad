/* graphs.c - megatron plan graphs: what a run captures into device graphs
 *
 * Ranks are planned as "megatron plan memory" plans them.  Besides the ranks that were asked for,
 * all of one pipeline are planned, for the table and the picture.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/graphs.h"
#include "cmd/plan/plan.h"
#include "cmd/plan/timeline.h"
#include "libcore/base/parse.h"
#include "libcore/topo/grid.h"
#include "libcore/train/config.h"

enum {
    WORLD_MAX = 65536,
    PASSES_MAX = 1 << 20, /* in a picture */
};

struct graphs_request {
    struct plan_memory ranks;
    const char *svg;
};

static int set_number (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    struct graphs_request *r = target;

    if (strcmp (option->key, "world") == 0)
        return parse_int (what, value, 1, WORLD_MAX, &r->ranks.world, err);
    return parse_int (what, value, 0, WORLD_MAX, &r->ranks.rank, err);
}

static int set_svg (void *target, const struct cmd_option *option, const char *what,
                    const char *value, struct mg_error *err)
{
    (void)option;
    ((struct graphs_request *)target)->svg = value;
    return *value ? 0 : mg_error_set (err, EINVAL, "%s: the value is empty", what);
}

static const struct cmd_option graphs_options[] = {
    { .name = "world-size", .arg = "N", .help = "ranks of the job, default one model's",
      .key = "world", .set = set_number },
    { .name = "rank", .arg = "R", .help = "this rank alone", .key = "rank",
      .set = set_number },
    { .name = "svg", .arg = "FILE",
      .help = "also draw the passes in time, parted into captured and eager",
      .set = set_svg },
    { .name = NULL },
};

static const char graphs_usage[] =
    "Usage: megatron plan graphs MODEL-ARGUMENT... [OPTION...]\n\n"
    "Print what device graphs every rank of a run captures, how large they are, and how\n"
    "they grow, without running it.\n"
    "A MODEL-ARGUMENT is one of megatron train's; --cuda-graph-impl says what is\n"
    "captured.\n\n";

/* --- planning --- */

/* The pipeline of g->first, and the rows of its ranks if they are asked for.  *microbatch_group:
 * microbatches of a group, 0: as many as ranks.
 */
static int plan_pipeline (const struct train_args *args, const struct plan_memory *r,
                          struct plan_graphs *g, struct plan_memory_row **stage,
                          int *microbatch_group, struct mg_error *err)
{
    struct run_config c;
    struct grid *grid = NULL;
    struct group group;
    int rc = -1;

    run_config_init (&c, args);
    *microbatch_group = c.microbatch_group;
    if (run_config_geometry (&c, err) == 0) {
        c.geometry.world = r->world;
        grid = grid_create (&c.geometry, err);
    }
    if (grid) {
        grid_group_of (grid, GROUP_PP, g->first, &group);
        g->pp = group.size;
        rc = 0;
        if (stage && !(*stage = calloc ((size_t)g->pp, sizeof (**stage))))
            rc = mg_error_set (err, ENOMEM, "out of memory");
        for (int i = 0; i < g->pp && stage && rc == 0; i++)
            rc = plan_memory_ranks (args, r, group_at (&group, i), 1, &(*stage)[i], err);
    }
    grid_destroy (grid);
    run_config_clear (&c);
    return rc;
}

static void clear_rows (struct plan_memory_row *row, int n)
{
    for (int i = 0; i < n && row; i++)
        plan_memory_clear (&row[i]);
    free (row);
}

/* --- the picture --- */

static int draw_timeline (const struct plan_graphs *g, int group, const char *path,
                          const double *captured, struct mg_error *err)
{
    const struct passes_plan *plan = &g->stage[0].graphs;
    struct sched_kind kind = passes_kind (g->pp, plan->num_chunks, group);
    const struct sched_shape shape = { .pp = g->pp, .microbatches = (int)plan->microbatches };
    struct timeline *t = timeline_create (&kind, &shape, err);
    char title[160], vpp[40] = "";
    int rc;

    if (!t)
        return -1;
    if (plan->num_chunks > 1)
        snprintf (vpp, sizeof (vpp), " x vpp %d", plan->num_chunks);
    snprintf (title, sizeof (title), "Passes in device graphs: pp %d%s, %d microbatch%s", g->pp,
              vpp, shape.microbatches, shape.microbatches == 1 ? "" : "es");
    rc = timeline_draw (t, path, title, captured, err);
    timeline_destroy (t);
    return rc;
}

static int draw (const struct plan_graphs *g, int group, const char *path, struct mg_error *err)
{
    const struct passes_plan *plan = &g->stage[0].graphs;
    int chunks = plan->num_chunks, rc;
    double *captured;

    if (plan->microbatches > PASSES_MAX / g->pp / chunks)
        return mg_error_set (err, ERANGE, "--svg: more than %d passes are not drawn", PASSES_MAX);
    if (!(captured = calloc ((size_t)g->pp * (size_t)chunks, sizeof (*captured))))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (int i = 0; i < g->pp * chunks; i++)
        captured[i] = g->stage[i / chunks].graphs.chunk[i % chunks].captured.share;
    rc = draw_timeline (g, group, path, captured, err);
    free (captured);
    return rc;
}

/* --- the command --- */

static int show (void *request, bool json, const struct train_args *args, struct mg_error *err)
{
    struct graphs_request *r = request;
    struct plan_graphs g = { .n = 1 };
    struct plan_memory_row *row = NULL, *stage = NULL;
    int rc = plan_memory_world (&r->ranks, args, err), group = 0;

    if (rc < 0)
        return -1;
    g.first = r->ranks.rank >= 0 ? r->ranks.rank : 0;
    g.n = r->ranks.rank >= 0 ? 1 : r->ranks.world;
    if (!(row = calloc ((size_t)g.n, sizeof (*row))))
        return mg_error_set (err, ENOMEM, "out of memory");
    rc = plan_memory_ranks (args, &r->ranks, g.first, g.n, row, err);
    if (rc == 0)
        rc = plan_pipeline (args, &r->ranks, &g, json && !r->svg ? NULL : &stage, &group, err);
    g.row = row;
    g.stage = stage;
    if (rc == 0 && r->svg)
        rc = draw (&g, group, r->svg, err);
    if (rc == 0 && json)
        plan_graphs_print_json (&g);
    else if (rc == 0)
        plan_graphs_print (&g);
    clear_rows (stage, g.pp);
    clear_rows (row, g.n);
    return rc;
}

static int check (const void *request, const struct train_args *args, struct mg_error *err)
{
    (void)request;
    return plan_memory_check (args, err);
}

int plan_graphs (int argc, char **argv)
{
    static const struct plan_model_part part = { graphs_options, graphs_usage, check, show };
    struct graphs_request r = { .ranks = { .rank = -1 } };

    return plan_run_model (&part, &r, argc, argv);
}
