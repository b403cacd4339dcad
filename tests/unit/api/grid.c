/* grid.c - grids as a program sees them */

#include <errno.h>
#include <string.h>

#include "libcore/topo/grid.h"
#include "megatron/grid.h"
#include "tests/tap/tap.h"

static struct mg_grid *make (int world, int tp, int pp, int ep, int etp)
{
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_grid *grid;
    struct mg_error err = { "" };

    mg_geometry_set_size (g, "world", world, NULL);
    mg_geometry_set_size (g, "tp", tp, NULL);
    mg_geometry_set_size (g, "pp", pp, NULL);
    mg_geometry_set_size (g, "ep", ep, NULL);
    mg_geometry_set_size (g, "etp", etp, NULL);
    if (!(grid = mg_grid_create (g, &err)))
        bail_out ("%s", err.text);
    mg_geometry_destroy (g);
    return grid;
}

/* Public and own names agree, kind by kind. */
static void test_kinds (void)
{
    is_int (MG_NUM_GROUP_KINDS, GROUP_NUM_KINDS, "as many kinds as the library has");
    for (int kind = 0; kind < MG_NUM_GROUP_KINDS; kind++) {
        const char *name = mg_group_kind_name ((enum mg_group_kind)kind);

        is_int (mg_group_kind_by_name (name), kind, "%s by its name", name);
    }
    is_str (mg_group_kind_name (MG_GROUP_TP), "tp", "the first");
    is_str (mg_group_kind_name (MG_GROUP_EDP), "edp", "one of the experts");
    is_str (mg_group_kind_name (MG_GROUP_WORLD), "world", "the last");
    is_str (mg_group_kind_name (MG_NUM_GROUP_KINDS), "unknown", "none");
    errno = 0;
    is_int (mg_group_kind_by_name ("bogus"), -1, "no such name");
    is_int (errno, ENOENT, "says ENOENT");
    is_int (mg_group_kind_by_name (NULL), -1, "no name at all");
}

/* What Megatron-LM documents: 16 ranks, tp 2, pp 4. */
static void test_documented (void)
{
    static const int dp[8][2] = { { 0, 2 }, { 1, 3 }, { 4, 6 }, { 5, 7 },
                                  { 8, 10 }, { 9, 11 }, { 12, 14 }, { 13, 15 } };
    struct mg_grid *grid = make (16, 2, 4, 1, 2);
    int wrong = 0, coord[MG_NUM_AXES] = { 0 };

    is_int (mg_grid_world (grid), 16, "world");
    is_int (mg_grid_size (grid, MG_DENSE, MG_AXIS_DP), 2, "dp");
    is_int (mg_grid_group_count (grid, MG_GROUP_DP), 8, "8 data-parallel groups");
    is_int (mg_grid_group_size (grid, MG_GROUP_DP), 2, "of 2");
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 2; k++)
            wrong += mg_grid_group_member (grid, MG_GROUP_DP, i, k) != dp[i][k];
    }
    is_int (wrong, 0, "their members");
    is_int (mg_grid_group_member (grid, MG_GROUP_PP, 1, 3), 13, "a pipeline's last rank");
    is_int (mg_grid_coord (grid, MG_DENSE, MG_AXIS_PP, 13), 3, "is stage 3");
    is_int (mg_grid_coord (grid, MG_DENSE, MG_AXIS_TP, 13), 1, "tp 1");
    coord[MG_AXIS_PP] = 3;
    coord[MG_AXIS_TP] = 1;
    is_int (mg_grid_rank_at (grid, coord), 12 + 1, "rank at coordinates");
    is_int (mg_grid_group_size (grid, MG_GROUP_EMBD), 2, "embd has two members");
    is_int (mg_grid_group_rank (grid, MG_GROUP_EMBD, 13), 1, "the last stage is one");
    errno = 0;
    is_int (mg_grid_group_rank (grid, MG_GROUP_EMBD, 5), -1, "a middle stage is not");
    is_int (errno, ENOENT, "with ENOENT");
    mg_grid_destroy (grid);
}

/* Every rank is where its group says; every group's members are where they say. */
static void test_round_trip (void)
{
    struct mg_grid *grid = make (24, 2, 3, 4, 1);

    for (int k = 0; k < MG_NUM_GROUP_KINDS; k++) {
        enum mg_group_kind kind = (enum mg_group_kind)k;
        int count = mg_grid_group_count (grid, kind), size = mg_grid_group_size (grid, kind);
        int wrong = 0, members = 0;

        for (int i = 0; i < count; i++) {
            for (int m = 0; m < size; m++) {
                int rank = mg_grid_group_member (grid, kind, i, m);

                wrong += mg_grid_group_index (grid, kind, rank) != i
                         || mg_grid_group_rank (grid, kind, rank) != m;
            }
        }
        for (int rank = 0; rank < 24; rank++)
            members += mg_grid_group_index (grid, kind, rank) >= 0;
        ok (wrong == 0 && members == count * size, "%s: %d groups of %d",
            mg_group_kind_name (kind), count, size);
    }
    mg_grid_destroy (grid);
}

static void test_badparam (void)
{
    struct mg_grid *grid = make (16, 2, 4, 1, 2);
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_error err = { "" };
    int coord[MG_NUM_AXES] = { 2 };

    ok (!mg_grid_create (NULL, &err), "no geometry: %s", err.text);
    ok (!mg_grid_create (g, &err), "no world: %s", err.text);
    is_int (mg_grid_coord (grid, MG_DENSE, MG_AXIS_TP, -1), -1, "rank -1");
    is_int (mg_grid_coord (grid, MG_DENSE, MG_AXIS_TP, 16), -1, "rank 16 of 16");
    is_int (mg_grid_coord (grid, MG_DENSE, MG_NUM_AXES, 0), -1, "no such axis");
    is_int (mg_grid_size (grid, (enum mg_layout)-1, MG_AXIS_TP), -1, "no such layout");
    is_int (mg_grid_rank_at (grid, coord), -1, "a coordinate outside its axis");
    is_int (mg_grid_group_count (grid, MG_NUM_GROUP_KINDS), -1, "no such kind");
    is_int (mg_grid_group_size (grid, (enum mg_group_kind)-1), -1, "nor this one");
    is_int (mg_grid_group_index (grid, MG_GROUP_TP, 16), -1, "no such rank");
    is_int (mg_grid_group_member (grid, MG_GROUP_TP, 8, 0), -1, "no such group");
    is_int (mg_grid_group_member (grid, MG_GROUP_TP, 7, 2), -1, "no such member");
    is_int (mg_grid_group_member (grid, MG_GROUP_TP, 7, 1), 15, "(the last of all)");
    errno = 77;
    mg_grid_destroy (NULL);
    mg_grid_destroy (grid);
    mg_geometry_destroy (g);
    is_int (errno, 77, "destroy takes NULL and keeps errno");
}

int main (void)
{
    test_kinds ();
    test_documented ();
    test_round_trip ();
    test_badparam ();
    return done_testing ();
}
