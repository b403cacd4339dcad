/* schedule.c - megatron plan schedule: the order of passes of a pipeline
 *
 * Makes the lists of all ranks, grouped and not, and has schedule_check() prove them before the
 * table is printed.  A shape that a run would refuse is refused here with the same text.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/plan/plan.h"
#include "cmd/plan/timeline.h"
#include "libcore/base/parse.h"

/* The most passes of all ranks together, since all of them are held in memory. */
enum { PASSES_MAX = 1 << 20 };

enum { LINE_WIDTH = 79 };

struct schedule_request {
    int pp, vpp, microbatches, group;
    bool forward_only;
    const char *svg;
};

static int set_number (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    struct schedule_request *r = target;
    int *field = &r->group, min = 1;

    switch (option->key[0]) {
    case 'p':
        field = &r->pp;
        break;
    case 'v':
        field = &r->vpp;
        min = 0;
        break;
    case 'm':
        field = &r->microbatches;
        break;
    }
    return parse_int (what, value, min, PASSES_MAX, field, err);
}

static int set_svg (void *target, const struct cmd_option *option, const char *what,
                    const char *value, struct mg_error *err)
{
    (void)option;
    ((struct schedule_request *)target)->svg = value;
    return *value ? 0 : mg_error_set (err, EINVAL, "%s: the value is empty", what);
}

static const struct cmd_option schedule_options[] = {
    { .name = "pp", .alias = "pipeline-model-parallel-size", .arg = "N",
      .help = "pipeline-parallel size, default 1", .key = "p", .set = set_number },
    { .name = "vpp", .alias = "num-virtual-stages-per-pipeline-rank", .arg = "N",
      .help = "virtual stages on each pipeline rank, default none", .key = "v",
      .set = set_number },
    { .name = "num-microbatches", .arg = "N", .help = "microbatches of an iteration",
      .key = "m", .set = set_number, .required = true },
    { .name = "microbatch-group-size",
      .alias = "microbatch-group-size-per-virtual-pipeline-stage", .arg = "N",
      .help = "microbatches that go through a virtual stage before the next, default --pp",
      .key = "g", .set = set_number },
    { .name = "forward-only", .help = "forward passes alone, as in validation",
      .set = cmd_set_flag, .at = offsetof (struct schedule_request, forward_only) },
    { .name = "svg", .arg = "FILE", .help = "also draw the passes in time",
      .set = set_svg },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron plan schedule --num-microbatches N [OPTION...]\n\n"
    "Print the order in which every pipeline rank runs its forward and backward\n"
    "passes: c is a forward, -c a backward pass of virtual stage c, from 1.  One\n"
    "forward, one backward; interleaved if there are virtual stages.\n\n";

static struct sched_shape shape_of (const struct schedule_request *r, int rank)
{
    return (struct sched_shape){ .pp = r->pp, .rank = rank, .microbatches = r->microbatches,
                                 .forward_only = r->forward_only };
}

/* Numbers of one rank's passes between 'separator's, cut at 'width' columns (0: never).
 * Returns -1 and a text if there is no memory.
 */
static int print_order (const struct schedule_request *r, const struct sched_kind *kind, int rank,
                        const char *separator, int width, struct mg_error *err)
{
    struct sched_shape shape = shape_of (r, rank);
    struct sched_pass *pass;
    size_t n;

    if (!(pass = kind->order (kind, &shape, &n, err)))
        return -1;
    for (size_t i = 0, used = 0; i < n; i++) {
        char text[16];
        int chunk = pass[i].backward ? -1 - pass[i].chunk : pass[i].chunk + 1;
        int len = snprintf (text, sizeof (text), "%s%d", i ? separator : "", chunk);

        if (width && used + len > (size_t)width - (i + 1 < n ? 4 : 0)) {
            printf (" ...");
            break;
        }
        used += len;
        fputs (text, stdout);
    }
    free (pass);
    return 0;
}

/* The order is printed even if a run would refuse it; "ok" is then false. */
static int print_json (const struct schedule_request *r, const struct sched_kind *kind,
                       bool legal)
{
    struct mg_error err;

    printf ("{\"order\":[");
    for (int rank = 0; rank < r->pp; rank++) {
        printf ("%s[", rank ? "," : "");
        if (print_order (r, kind, rank, ",", 0, &err) < 0) {
            fprintf (stderr, "megatron: %s\n", err.text);
            return PLAN_IMPOSSIBLE;
        }
        putchar (']');
    }
    printf ("],\"warmup\":[");
    for (int rank = 0; rank < r->pp; rank++) {
        struct sched_shape shape = shape_of (r, rank);

        printf ("%s%d", rank ? "," : "", kind->warmup (kind, &shape));
    }
    printf ("]%s}\n", legal ? "" : ",\"ok\":false");
    return legal ? 0 : PLAN_IMPOSSIBLE;
}

/* One pool for all virtual stages but the model's last, as a run of equal stages has. */
static struct schedule *create_list (const struct schedule_request *r,
                                     const struct sched_kind *kind, int rank,
                                     const struct moments *grouped,
                                     struct mg_error *err)
{
    struct sched_shape shape = shape_of (r, rank);
    int *pool = calloc ((size_t)kind->chunks, sizeof (*pool));
    struct schedule *s;

    if (!pool) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    shape.grouped = grouped != NULL;
    shape.moments = grouped;
    if (rank == r->pp - 1)
        pool[kind->chunks - 1] = kind->chunks > 1;
    s = schedule_create_pooled (kind, &shape, pool, err);
    free (pool);
    return s;
}

static void destroy_lists (struct schedule **all, int pp)
{
    for (int rank = 0; rank < pp && all; rank++)
        schedule_destroy (all[rank]);
    free (all);
}

/* The lists of steps of all ranks, which are proved against each other.  They are grouped if there
 * are moments.
 */
static struct schedule **create_lists (const struct schedule_request *r,
                                       const struct sched_kind *kind,
                                       const struct moments *grouped,
                                       struct mg_error *err)
{
    struct schedule **all = calloc ((size_t)r->pp, sizeof (struct schedule *));

    if (!all) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    for (int rank = 0; rank < r->pp; rank++) {
        if (!(all[rank] = create_list (r, kind, rank, grouped, err)))
            goto error;
    }
    if (schedule_check (all, r->pp, err) < 0)
        goto error;
    return all;
error:
    destroy_lists (all, r->pp);
    return NULL;
}

/* Prove the grouped lists, whose slots are those of the others. */
static int prove_grouped (const struct schedule_request *r, const struct sched_kind *kind,
                          const struct timeline *t, struct mg_error *err)
{
    struct schedule **all = create_lists (r, kind, t->moments, err);

    destroy_lists (all, r->pp);
    return all ? 0 : -1;
}

static int print_text (const struct schedule_request *r, const struct sched_kind *kind,
                       const struct timeline *t, struct mg_error *err)
{
    struct schedule **all;
    int rc = 0;

    if (prove_grouped (r, kind, t, err) < 0 || !(all = create_lists (r, kind, NULL, err)))
        return -1;
    printf ("%s: pp %d", kind->chunks > 1 ? "interleaved 1F1B" : "1F1B", r->pp);
    if (kind->chunks > 1)
        printf (" x vpp %d", kind->chunks);
    printf (", %d microbatch%s", r->microbatches, r->microbatches == 1 ? "" : "es");
    if (kind->chunks > 1)
        printf (" in groups of %d", r->group);
    printf ("%s; proved free of deadlock\nwaiting %.1f%% of the time, if a backward pass "
            "takes "
            "two forward passes\n\n%4s  %7s  %5s  passes\n",
            r->forward_only ? ", forward only" : "", 100 * timeline_bubble (t), "rank",
            "warm-up", "slots");
    for (int rank = 0; rank < r->pp && rc == 0; rank++) {
        struct sched_shape shape = shape_of (r, rank);
        int width = printf ("%4d  %7d  %5d  ", rank, kind->warmup (kind, &shape),
                            schedule_num_slots (all[rank]));

        rc = print_order (r, kind, rank, " ", LINE_WIDTH - width, err);
        putchar ('\n');
    }
    destroy_lists (all, r->pp);
    return rc;
}

static int draw (const struct schedule_request *r, const struct sched_kind *kind,
                 const struct timeline *t, struct mg_error *err)
{
    char title[160];

    if (kind->chunks > 1)
        snprintf (title, sizeof (title),
                  "Interleaved 1F1B: pp %d x vpp %d, %d microbatches in "
                  "groups of %d%s",
                  r->pp, kind->chunks, r->microbatches, r->group,
                  r->forward_only ? ", forward only" : "");
    else
        snprintf (title, sizeof (title), "1F1B: pp %d, %d microbatch%s%s", r->pp,
                  r->microbatches, r->microbatches == 1 ? "" : "es",
                  r->forward_only ? ", forward only" : "");
    return timeline_draw (t, r->svg, title, NULL, err);
}

/* A shape that can be run. */
static int show (const struct schedule_request *r, const struct sched_kind *kind, bool json)
{
    struct sched_shape shape = shape_of (r, 0);
    struct mg_error err = { .text = "" };
    struct timeline *t = NULL;
    int rc = -1;

    if ((!json || r->svg) && !(t = timeline_create (kind, &shape, &err)))
        goto out;
    if (!json && print_text (r, kind, t, &err) < 0)
        goto out;
    if (r->svg && draw (r, kind, t, &err) < 0)
        goto out;
    rc = json ? print_json (r, kind, true) : 0;
out:
    timeline_destroy (t);
    if (rc >= 0)
        return rc;
    fprintf (stderr, "megatron: %s\n", err.text);
    return PLAN_IMPOSSIBLE;
}

/* Check the rules between options. */
static int check_request (void *request, struct mg_error *err)
{
    struct schedule_request *r = request;
    int64_t passes = (int64_t)r->microbatches * (r->vpp > 1 ? r->vpp : 1);

    if (passes > PASSES_MAX / r->pp)
        return mg_error_set (err, ERANGE, "--pp x --vpp x --num-microbatches is over %d",
                             PASSES_MAX);
    if (!r->group)
        r->group = r->pp;
    return 0;
}

int plan_schedule (int argc, char **argv)
{
    struct schedule_request r = { .pp = 1 };
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { schedule_options, &r },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 2, &common.help, check_request, &r };
    struct sched_kind kind;
    struct sched_shape shape;
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    kind = r.vpp > 1 ? sched_interleaved (r.vpp, r.group) : sched_1f1b;
    shape = shape_of (&r, 0);
    if (!kind.check || kind.check (&kind, &shape, &err) == 0)
        return show (&r, &kind, common.json);
    fprintf (stderr, "megatron: %s\n", err.text);
    return common.json && r.pp > 1 ? print_json (&r, &kind, false) : PLAN_IMPOSSIBLE;
}
