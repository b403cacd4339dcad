/* groups.c - megatron plan groups: the members of groups
 *
 * Groups are computed while they are printed: a world of a million ranks needs no memory,
 * and one rank's groups no time.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/plan/crossing.h"
#include "cmd/plan/placement.h"
#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/topo/grid.h"

/* The most members of a group that are printed, and the widths of a list of groups. */
enum { MOST_MEMBERS = 8, LIST_WIDTH = 38, LIST_WIDTH_NODES = 29 };

struct groups_request {
    struct geometry geometry;
    bool kinds_given;
    bool kind[GROUP_NUM_KINDS];
    bool rank_given;
    int rank;
    const char *svg;
    int tasks_per_node; /* 0: not given */
};

/* Kinds that are only printed if they are named: scripts know the set of the others. */
static bool on_request_only (enum group_kind kind)
{
    return kind == GROUP_ETP || kind == GROUP_WORLD;
}

static int set_kind (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct groups_request *request = target;

    (void)option;
    for (const char *p = value;; p++) {
        char name[16];
        size_t n = strcspn (p, ",");
        int kind;

        snprintf (name, sizeof (name), "%.*s", (int)n, p);
        kind = n < sizeof (name) ? group_kind_by_name (name) : -1;
        if (kind < 0)
            return mg_error_set (err, EINVAL, "%s: \"%.*s\" is not a kind of group, "
                                 "want tp, cp, dp, dp-cp, pp, tp-cp, tp-pp, tp-dp, "
                                 "tp-dp-cp, ep, etp, tp-ep, tp-ep-pp, edp, embd, "
                                 "pos-embd or world", what, n < 40 ? (int)n : 40, p);
        request->kind[kind] = true;
        p += n;
        if (*p == '\0')
            break;
    }
    request->kinds_given = true;
    return 0;
}

static int set_rank (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct groups_request *request = target;

    (void)option;
    request->rank_given = true;
    return parse_int (what, value, 0, GEOMETRY_SIZE_MAX - 1, &request->rank, err);
}

static int set_svg (void *target, const struct cmd_option *option, const char *what,
                    const char *value, struct mg_error *err)
{
    (void)option;
    ((struct groups_request *)target)->svg = value;
    return *value ? 0 : mg_error_set (err, EINVAL, "%s: the value is empty", what);
}

static const struct cmd_option group_options[] = {
    { .name = "kind", .arg = "KIND[,KIND...]",
      .help = "only these kinds of group, may be repeated", .set = set_kind },
    { .name = "rank", .arg = "R", .help = "only the groups of this rank",
      .set = set_rank },
    { .name = "svg", .arg = "FILE",
      .help = "also draw where every rank stands in both grids", .set = set_svg },
    { .name = "ntasks-per-node", .alias = "ranks-per-node", .arg = "N",
      .help = "say which groups lie on several nodes; with --svg, draw the nodes",
      .set = cmd_set_int, .at = offsetof (struct groups_request, tasks_per_node), .min = 1,
      .max = GEOMETRY_SIZE_MAX },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron plan groups --world-size N [OPTION...]\n\n"
    "Print which ranks share a group, for every kind of group or for those\n"
    "asked for.  Kinds: tp cp dp dp-cp pp tp-cp tp-pp tp-dp tp-dp-cp ep etp tp-ep "
    "tp-ep-pp edp embd pos-embd world\n"
    "(etp and world only if asked for)\n\n";

/* Members between 'separator's; with 'most' > 0, a longer list is cut before its last
 * member.  Returns the number of characters.
 */
static int print_members (const struct group *group, const char *separator, int most)
{
    int width = 0;

    for (int i = 0; i < group->size; i++) {
        if (most && group->size > most && i == most - 1) {
            width += printf ("%s...", separator);
            i = group->size - 1;
        }
        width += printf ("%s%d", i ? separator : "", group_at (group, i));
    }
    return width;
}

/* The group of the rank; an empty list if the rank is no member. */
static void print_json_list (const struct group *group, bool member)
{
    putchar ('[');
    if (member)
        print_members (group, ",", 0);
    putchar (']');
}

static void print_json_kind (const struct grid *grid, enum group_kind kind,
                             const struct groups_request *request)
{
    struct group group;

    if (request->rank_given) {
        grid_group_of (grid, kind, request->rank, &group);
        print_json_list (&group, group.rank >= 0);
        return;
    }
    putchar ('[');
    for (int i = 0; i < grid_group_count (grid, kind); i++) {
        grid_group_at (grid, kind, i, &group);
        if (i)
            putchar (',');
        print_json_list (&group, true);
    }
    putchar (']');
}

/* Print the rank's coordinates on every axis: BEFORE name AFTER number SEPARATOR ... */
static void print_coords (const struct grid *grid, int rank, const char *separator,
                          const char *before, const char *after)
{
    static const struct {
        bool expert;
        enum mg_axis axis;
        const char *name;
    } coords[] = {
        { false, MG_AXIS_TP, "tp" },  { false, MG_AXIS_CP, "cp" },
        { false, MG_AXIS_DP, "dp" },  { false, MG_AXIS_PP, "pp" },
        { true, MG_AXIS_TP, "etp" },  { true, MG_AXIS_EP, "ep" },
        { true, MG_AXIS_DP, "edp" },
    };

    for (size_t i = 0; i < sizeof (coords) / sizeof (coords[0]); i++)
        printf ("%s%s%s%s%d", i ? separator : "", before, coords[i].name, after,
                grid_coord (grid, coords[i].expert, coords[i].axis, rank));
}

/* Print the number of groups of each kind that lie on several nodes, or the nodes of the groups of
 * one rank.
 */
static void print_json_nodes (const struct grid *grid, const struct groups_request *request)
{
    const char *comma = "";
    int first;

    printf (",\"%s\":{", request->rank_given ? "nodes" : "split");
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        struct group group;

        if (!request->kind[kind])
            continue;
        printf ("%s\"%s\":", comma, group_kinds[kind].name);
        comma = ",";
        if (!request->rank_given) {
            printf ("%d", crossing_count (grid, kind, request->tasks_per_node, &first));
            continue;
        }
        grid_group_of (grid, kind, request->rank, &group);
        putchar ('[');
        for (int i = 0, last = -1; group.rank >= 0 && i < group.size; i++) {
            int node = group_at (&group, i) / request->tasks_per_node;

            if (node != last)
                printf ("%s%d", last >= 0 ? "," : "", node);
            last = node;
        }
        putchar (']');
    }
    putchar ('}');
}

static void print_json (const struct grid *grid, const struct groups_request *request)
{
    const char *comma = "";

    printf ("{\"world_size\":%d,", grid_world (grid));
    if (request->tasks_per_node)
        printf ("\"ntasks_per_node\":%d,", request->tasks_per_node);
    if (request->rank_given) {
        printf ("\"rank\":%d,\"coords\":{", request->rank);
        print_coords (grid, request->rank, ",", "\"", "\":");
        printf ("},");
    }
    printf ("\"groups\":{");
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        if (request->kind[kind]) {
            printf ("%s\"%s\":", comma, group_kinds[kind].name);
            print_json_kind (grid, kind, request);
            comma = ",";
        }
    }
    putchar ('}');
    if (request->tasks_per_node)
        print_json_nodes (grid, request);
    printf ("}\n");
}

/* Print the nodes of a group, after its members. */
static void print_nodes (const struct group *group, const struct groups_request *request)
{
    char nodes[60];

    if (request->tasks_per_node) {
        crossing_nodes (group, request->tasks_per_node, nodes, sizeof (nodes));
        printf (" (%s)", nodes);
    }
    putchar ('\n');
}

/* One rank: a line a kind. */
static void print_rank (const struct grid *grid, const struct groups_request *request)
{
    printf ("rank %d: ", request->rank);
    print_coords (grid, request->rank, ", ", "", " ");
    printf ("\n\n%-9s %8s %8s %8s  %s\n", "kind", "group", "size", "position", "ranks");
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        struct group group;

        if (!request->kind[kind])
            continue;
        grid_group_of (grid, kind, request->rank, &group);
        printf ("%-9s %8d %8d ", group_kinds[kind].name, group.index, group.size);
        if (group.rank < 0) {
            printf ("%8s  not a member\n", "-");
            continue;
        }
        printf ("%8d  ", group.rank);
        print_members (&group, " ", request->kinds_given ? 0 : MOST_MEMBERS);
        print_nodes (&group, request);
    }
}

/* Print the groups of a kind until a terminal's line is full. */
static void print_first_groups (const struct grid *grid, enum group_kind kind, int list_width)
{
    int count = grid_group_count (grid, kind);

    for (int i = 0, width = 0; i < count; i++) {
        struct group group;

        if (width > list_width) {
            printf (" ...");
            return;
        }
        grid_group_at (grid, kind, i, &group);
        width += printf ("%s[", i ? " " : "");
        width += print_members (&group, " ", MOST_MEMBERS);
        width += printf ("]");
    }
}

/* Print how the groups of experts lie on the nodes. */
static void print_expert_groups (const struct grid *grid, const struct groups_request *request)
{
    static const enum group_kind kinds[] = { GROUP_ETP, GROUP_EP, GROUP_TP_EP };
    char text[CROSSING_TEXT];

    putchar ('\n');
    for (size_t i = 0; i < sizeof (kinds) / sizeof (kinds[0]); i++) {
        crossing_describe (grid, kinds[i], request->tasks_per_node, text);
        printf ("%s\n", text);
    }
}

/* Every kind in one line: how many groups, how large, how many of them lie on several nodes, and
 * the first few.
 */
static void print_table (const struct grid *grid, const struct groups_request *request)
{
    bool nodes = request->tasks_per_node;
    int first;

    printf ("\n%-9s %8s %8s%s  %s\n", "kind", "groups", "size", nodes ? "    split" : "", "ranks");
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        struct group group;

        if (!request->kind[kind])
            continue;
        grid_group_at (grid, kind, 0, &group);
        printf ("%-9s %8d %8d", group_kinds[kind].name, grid_group_count (grid, kind),
                group.size);
        if (nodes)
            printf (" %8d", crossing_count (grid, kind, request->tasks_per_node, &first));
        printf ("  ");
        print_first_groups (grid, kind, nodes ? LIST_WIDTH_NODES : LIST_WIDTH);
        putchar ('\n');
    }
    if (nodes)
        print_expert_groups (grid, request);
}

/* Every group on a line of its own. */
static void print_list (const struct grid *grid, const struct groups_request *request)
{
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        for (int i = 0; request->kind[kind] && i < grid_group_count (grid, kind); i++) {
            struct group group;

            grid_group_at (grid, kind, i, &group);
            printf ("%s %d: ", group_kinds[kind].name, i);
            print_members (&group, " ", 0);
            print_nodes (&group, request);
        }
    }
}

static void print_text (const struct grid *grid, const struct groups_request *request)
{
    if (request->kinds_given && !request->rank_given) {
        print_list (grid, request);
        return;
    }
    printf ("%d ranks: ", grid_world (grid));
    plan_print_grids (grid_geometry (grid));
    putchar ('\n');
    if (request->rank_given)
        print_rank (grid, request);
    else
        print_table (grid, request);
}

/* Select every kind if none was asked for. */
static void default_kinds (struct groups_request *request)
{
    for (int kind = 0; kind < GROUP_NUM_KINDS && !request->kinds_given; kind++)
        request->kind[kind] = !on_request_only (kind);
}

/* Check the rules between options. */
static int check_request (void *request, struct mg_error *err)
{
    const struct groups_request *r = request;

    if (!r->geometry.world)
        return mg_error_set (err, EINVAL, "--world-size is missing");
    if (r->rank_given && r->rank >= r->geometry.world)
        return mg_error_set (err, ERANGE, "--rank: %d is out of range, want 0 to %d", r->rank,
                             r->geometry.world - 1);
    return 0;
}

int plan_groups (int argc, char **argv)
{
    struct groups_request request = { 0 };
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { plan_geometry_options, &request.geometry },
        { group_options, &request },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 3, &common.help, check_request,
                                       &request };
    struct grid *grid;
    struct mg_error err;
    int status;

    geometry_init (&request.geometry);
    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (!(grid = grid_create (&request.geometry, &err))) {
        fprintf (stderr, "megatron: %s\n", err.text);
        return PLAN_IMPOSSIBLE;
    }
    if (request.svg && placement_draw (grid, request.tasks_per_node, request.svg, &err) < 0) {
        fprintf (stderr, "megatron: %s\n", err.text);
        grid_destroy (grid);
        return PLAN_IMPOSSIBLE;
    }
    default_kinds (&request);
    if (common.json)
        print_json (grid, &request);
    else
        print_text (grid, &request);
    grid_destroy (grid);
    return 0;
}
