/* place.c - tasks per node, node-major ranks, groups that cross nodes */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/place.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static void test_parse (void)
{
    static const struct {
        const char *text;
        int errnum;
        const char *tasks; /* what came out, joined by blanks */
    } cases[] = {
        { "1", 0, "1" },
        { "4(x2),3", 0, "4 4 3" },
        { "11,1", 0, "11 1" },
        { "3,1(x3)", 0, "3 1 1 1" },
        { "2(x1)", 0, "2" },
        { "2(x3),4(x2),1", 0, "2 2 2 4 4 1" },
        { "16777216", 0, "16777216" },
        { "16777215,1", 0, "16777215 1" },
        { "16777217", ERANGE, NULL },
        { "16777216,1", ERANGE, NULL },
        { "2(x8388609)", ERANGE, NULL },
        { "1(x99999999999999999999)", ERANGE, NULL },
        { "99999999999999999999", ERANGE, NULL },
        { "0", ERANGE, NULL },
        { "4,0", ERANGE, NULL },
        { "4(x0)", ERANGE, NULL },
        { "", EINVAL, NULL },
        { NULL, EINVAL, NULL },
        { ",", EINVAL, NULL },
        { "4,", EINVAL, NULL },
        { "4,,4", EINVAL, NULL },
        { "4(x2", EINVAL, NULL },
        { "4(x)", EINVAL, NULL },
        { "4(2)", EINVAL, NULL },
        { "4(x2)3", EINVAL, NULL },
        { "4x2", EINVAL, NULL },
        { "-4", EINVAL, NULL },
        { " 4", EINVAL, NULL },
        { "four", EINVAL, NULL },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const char *shown = cases[i].text ? cases[i].text : "(null)";
        struct mg_error err = { .text = "" };
        char text[200] = "";
        int n = -1;
        int *tasks;

        errno = 0;
        tasks = place_parse_tasks_per_node (cases[i].text, &n, &err);
        for (int k = 0; tasks && k < n; k++)
            sprintf (text + strlen (text), "%s%d", k ? " " : "", tasks[k]);
        is_str (tasks ? text : NULL, cases[i].tasks, "\"%s\"", shown);
        if (!tasks) {
            is_int (errno, cases[i].errnum, "errno");
            ok (strstr (err.text, "tasks per node") != NULL, "says: %s", err.text);
            is_int (n, -1, "the count is left alone");
        }
        free (tasks);
    }
}

static void test_ranks (void)
{
    static const int tasks[] = { 4, 1, 3 };
    int rank = 0, wrong = 0;

    for (int node = 0; node < 3; node++) {
        for (int local = 0; local < tasks[node]; local++, rank++) {
            wrong += place_logical_rank (tasks, 3, node, local) != rank;
            wrong += place_node_of (tasks, 3, rank) != node;
        }
    }
    is_int (wrong, 0, "ranks and nodes of all 8 tasks");
    is_int (place_logical_rank (tasks, 3, 1, 1), -1, "no such task on the node");
    is_int (errno, EINVAL, "errno");
    is_int (place_logical_rank (tasks, 3, 3, 0), -1, "no such node");
    is_int (place_logical_rank (tasks, 3, -1, 0), -1, "a negative node");
    is_int (place_logical_rank (tasks, 3, 0, -1), -1, "a negative task");
    errno = 0;
    is_int (place_node_of (tasks, 3, 8), -1, "no such rank");
    is_int (errno, EINVAL, "errno");
    is_int (place_node_of (tasks, 3, -1), -1, "a negative rank");
    is_int (place_node_of (tasks, 0, 0), -1, "no nodes");
}

/* Member by member, against the closed form. */
static int count_split (const struct grid *grid, enum group_kind kind, const int *tasks,
                        int nnodes, int *first)
{
    int split = 0;

    *first = -1;
    for (int i = 0; i < grid_group_count (grid, kind); i++) {
        struct group group;
        bool crosses = false;

        grid_group_at (grid, kind, i, &group);
        for (int m = 1; m < group.size; m++)
            crosses |= place_node_of (tasks, nnodes, group_at (&group, m))
                       != place_node_of (tasks, nnodes, group_at (&group, 0));
        if (crosses && *first < 0)
            *first = i;
        split += crosses;
    }
    return split;
}

static void test_split (void)
{
    static const char *const placements[] = { "24", "12(x2)", "8(x3)", "4(x6)", "1(x24)",
                                              "23,1", "1,23", "5(x4),4", "7,3,6,8" };
    static const char *const orders[] = { "tp-cp-ep-dp-pp", "dp-tp-cp-ep-pp",
                                          "pp-cp-ep-tp-dp" };
    int wrong = 0, total = 0;

    for (size_t p = 0; p < COUNT (placements); p++) {
        int nnodes;
        int *tasks = place_parse_tasks_per_node (placements[p], &nnodes, NULL);

        for (size_t o = 0; o < COUNT (orders); o++) {
            struct geometry g;
            struct grid *grid;

            geometry_init (&g);
            g.world = 24;
            g.tp = 3, g.cp = 2, g.pp = 2, g.etp = 3, g.ep = 2;
            strcpy (g.order, orders[o]);
            if (!(grid = grid_create (&g, NULL)))
                bail_out ("grid for %s", orders[o]);
            for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
                int first, want_first;
                int want = count_split (grid, kind, tasks, nnodes, &want_first);

                wrong += place_count_split (grid, kind, tasks, nnodes, &first) != want;
                wrong += first != want_first;
                total += want;
            }
            grid_destroy (grid);
        }
        free (tasks);
    }
    ok (total > 100, "%d groups cross nodes", total);
    is_int (wrong, 0, "and all are found, and the first of each kind");
}

static void test_split_badparam (void)
{
    static const int tasks[] = { 4, 5 };
    struct geometry g;
    struct grid *grid;
    int first = 7;

    geometry_init (&g);
    g.world = 8;
    g.tp = 8;
    grid = grid_create (&g, NULL);
    errno = 0;
    is_int (place_count_split (grid, GROUP_TP, tasks, 2, &first), -1, "9 tasks, 8 ranks");
    is_int (errno, EINVAL, "errno");
    is_int (place_count_split (grid, GROUP_TP, tasks, 1, NULL), -1, "4 tasks, 8 ranks");
    is_int (place_count_split (grid, GROUP_TP, NULL, 0, NULL), -1, "no nodes");
    grid_destroy (grid);
}

static const struct {
    const char *tasks; /* as Slurm writes them */
    int size;
    const char *domains;
} domain_rows[] = {
    { "8", 8, "8" }, { "8", 4, "4 4" }, { "8", 3, "3 3 2" }, { "8", 72, "8" },
    { "8(x2)", 4, "4 4 4 4" }, { "8,4", 4, "4 4 4" }, { "8,2", 4, "4 4 2" },
    { "4(x2)", 8, "8" }, { "4(x4)", 8, "8 8" }, { "4(x3)", 8, "8 4" },
    { "3(x3)", 8, "6 3" }, { "4,4,1", 8, "8 1" }, { "1", 1, "1" }, { "2(x3)", 1, "1 1 1 1 1 1" },
    { "3,1,1", 2, "2 1 1 1" },
};

static void test_domains (void)
{
    int zero[] = { 4, 0 }, four[] = { 4 }, n;

    for (size_t i = 0; i < sizeof (domain_rows) / sizeof (domain_rows[0]); i++) {
        char text[80] = "";
        int nnodes, *tasks = place_parse_tasks_per_node (domain_rows[i].tasks, &nnodes, NULL);
        int *domains = place_domains (tasks, nnodes, domain_rows[i].size, &n);

        for (int k = 0; domains && k < n; k++)
            snprintf (text + strlen (text), sizeof (text) - strlen (text), "%s%d", k ? " " : "",
                      domains[k]);
        is_str (text, domain_rows[i].domains, "%s tasks in domains of %d", domain_rows[i].tasks,
                domain_rows[i].size);
        free (tasks);
        free (domains);
    }
    errno = 0;
    ok (!place_domains (zero, 2, 4, &n) && errno == EINVAL && n == 0, "a node without tasks");
    errno = 0;
    ok (!place_domains (four, 1, 0, &n) && errno == EINVAL, "domains of nothing");
}

int main (void)
{
    test_parse ();
    test_ranks ();
    test_split ();
    test_split_badparam ();
    test_domains ();
    return done_testing ();
}
