/* place_split.c - the group that crosses nodes, and an advice that works */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/place.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static struct grid *make_grid (int world, int tp, int cp, int pp, const char *order)
{
    struct geometry g;
    struct grid *grid;

    geometry_init (&g);
    g.world = world;
    g.tp = tp, g.cp = cp, g.pp = pp;
    strcpy (g.order, order);
    if (!(grid = grid_create (&g, NULL)))
        bail_out ("grid %d %d %d %d %s", world, tp, cp, pp, order);
    return grid;
}

static void test_text (void)
{
    static const char dflt[] = "tp-cp-ep-dp-pp";
    static const struct {
        int world, tp, cp;
        const char *order, *tasks, *first, *last;
        const char *text; /* NULL: no group crosses nodes */
    } cases[] = {
        { 8, 4, 1, dflt, "4(x2)", NULL, NULL, NULL },
        { 8, 1, 1, dflt, "1(x8)", NULL, NULL, NULL },
        { 8, 4, 1, dflt, "7,1", "n0", "n1",
          "1 of 2 tensor-parallel groups lie on several nodes, the first (ranks 4-7) on nodes "
          "n0 and n1; use --ntasks-per-node=4" },
        { 8, 4, 1, dflt, "7,1", NULL, NULL,
          "1 of 2 tensor-parallel groups lie on several nodes, the first (ranks 4-7) on nodes "
          "0 and 1 of the step; use --ntasks-per-node=4" },
        { 12, 4, 1, dflt, "6(x2)", "a", "b",
          "1 of 3 tensor-parallel groups lie on several nodes, the first (ranks 4-7) on nodes "
          "a and b; use -N 3 --ntasks-per-node=4" },
        { 12, 12, 1, dflt, "4(x3)", "a", "c",
          "1 of 1 tensor-parallel groups lie on several nodes, the first (ranks 0-11) on nodes "
          "a to c; use -N 1 --ntasks-per-node=12, or a smaller size" },
        { 8, 2, 4, dflt, "4(x2)", "a", "b",
          "1 of 1 tp x cp groups lie on several nodes, the first (ranks 0-7) on nodes a and b; "
          "use -N 1 --ntasks-per-node=8, or a smaller size" },
        { 8, 2, 1, "dp-tp", "4(x2)", "a", "b",
          "4 of 4 tensor-parallel groups lie on several nodes, the first (ranks 0, 4) on nodes "
          "a and b; use --megatron-order=tp-cp-ep-dp-pp" },
        { 20, 10, 1, "dp-tp", "10(x2)", "a", "b",
          "2 of 2 tensor-parallel groups lie on several nodes, the first (ranks 0, 2, 4, 6, 8, "
          "10, 12, 14, ...) on nodes a and b; use --megatron-order=tp-cp-ep-dp-pp" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct grid *grid = make_grid (cases[i].world, cases[i].tp, cases[i].cp, 1,
                                       cases[i].order);
        struct place_split split;
        char text[400], shorter[20];
        int nnodes, rc;
        int *tasks = place_parse_tasks_per_node (cases[i].tasks, &nnodes, NULL);

        rc = place_find_split (grid, tasks, nnodes, &split);
        is_int (rc, cases[i].text != NULL, "%d ranks, tp %d, cp %d, %s on %s", cases[i].world,
                cases[i].tp, cases[i].cp, cases[i].order, cases[i].tasks);
        if (rc == 1) {
            place_describe_split (grid, nnodes, &split, cases[i].first, cases[i].last, text,
                                  sizeof (text));
            is_str (text, cases[i].text, "in words");
            place_describe_split (grid, nnodes, &split, cases[i].first, cases[i].last, shorter,
                                  sizeof (shorter));
            is_int (strlen (shorter), sizeof (shorter) - 1, "cut where there is no room");
        }
        free (tasks);
        grid_destroy (grid);
    }
}

/* Follow the advice: no group may cross nodes then. */
static void test_advice (void)
{
    int wrong = 0, total = 0;

    for (int tp = 1; tp <= 6; tp++) {
        for (int cp = 1; cp <= 3; cp++) {
            for (int dp = 1; dp <= 8; dp++) {
                for (int nodes = 2; nodes <= 5; nodes++) {
                    int world = tp * cp * dp, tasks[64], n = nodes, each = 0;
                    struct grid *grid = make_grid (world, tp, cp, 1, "tp-cp-ep-dp-pp");
                    struct place_split split;
                    char text[400];
                    const char *at;

                    if (world >= nodes) { // as Slurm's block distribution fills nodes
                        for (int i = 0; i < nodes; i++)
                            tasks[i] = i == 0 ? world - nodes + 1 : 1;
                        if (place_find_split (grid, tasks, nodes, &split) == 1) {
                            total++;
                            place_describe_split (grid, nodes, &split, NULL, NULL, text,
                                                  sizeof (text));
                            if ((at = strstr (text, "use -N ")))
                                sscanf (at, "use -N %d", &n);
                            at = strstr (text, "--ntasks-per-node=");
                            if (!at || sscanf (at, "--ntasks-per-node=%d", &each) != 1
                                || n * each != world || n > 64)
                                wrong++;
                            for (int i = 0; i < n && i < 64; i++)
                                tasks[i] = each;
                            wrong += place_find_split (grid, tasks, n, &split) != 0;
                        }
                    }
                    grid_destroy (grid);
                }
            }
        }
    }
    ok (total > 200, "%d placements with an advice", total);
    is_int (wrong, 0, "each of which works");
}

static void test_badparam (void)
{
    static const int tasks[] = { 4, 5 };
    struct grid *grid = make_grid (8, 2, 1, 1, "tp-cp-ep-dp-pp");
    struct place_split split;

    errno = 0;
    is_int (place_find_split (grid, tasks, 2, &split), -1, "9 tasks, 8 ranks");
    is_int (errno, EINVAL, "errno");
    is_int (place_find_split (grid, NULL, 0, &split), -1, "no nodes");
    grid_destroy (grid);
}

/* Groups of two domains on one node, and of two nodes in one domain. */
static void test_domains (void)
{
    static const struct {
        int tp, size;
        const char *tasks, *text; /* NULL: no group leaves its domain */
    } cases[] = {
        { 4, 4, "8", NULL },
        { 8, 4, "8", "1 of 1 tensor-parallel groups leave the NVLink domains of 4 GPUs, the "
          "first (ranks 0-7)" },
        { 4, 6, "8", "1 of 2 tensor-parallel groups leave the NVLink domains of 6 GPUs, the "
          "first (ranks 4-7)" },
        { 8, 8, "4(x2)", NULL },
        { 8, 4, "4(x2)", "1 of 1 tensor-parallel groups leave the NVLink domains of 4 GPUs, the "
          "first (ranks 0-7)" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct grid *grid = make_grid (8, cases[i].tp, 1, 1, "tp-cp-ep-dp-pp");
        int nnodes, n, *tasks = place_parse_tasks_per_node (cases[i].tasks, &nnodes, NULL);
        int *domains = place_domains (tasks, nnodes, cases[i].size, &n);
        struct place_split split;
        char text[400] = "", shorter[20];
        int rc = place_find_split (grid, domains, n, &split);

        is_int (rc, cases[i].text != NULL, "tp %d on %s in domains of %d", cases[i].tp,
                cases[i].tasks, cases[i].size);
        if (rc == 1) {
            place_describe_domains (grid, &split, cases[i].size, text, sizeof (text));
            is_str (text, cases[i].text ? cases[i].text : "", "text");
            place_describe_domains (grid, &split, cases[i].size, shorter, sizeof (shorter));
            ok (strlen (shorter) == sizeof (shorter) - 1
                && strncmp (shorter, text, sizeof (shorter) - 1) == 0, "its beginning");
        }
        free (tasks);
        free (domains);
        grid_destroy (grid);
    }
}

int main (void)
{
    test_text ();
    test_advice ();
    test_badparam ();
    test_domains ();
    return done_testing ();
}
