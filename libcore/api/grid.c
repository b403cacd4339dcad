/* grid.c - grids for programs: arguments are checked here
 *
 * A rank, kind or index that does not exist is an error, never a crash.  Public numbers of kinds
 * are translated to the library's, since public numbers never change.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/api/geometry.h"
#include "libcore/api/grid.h"
#include "libcore/base/c_locale.h"

/* The public numbers never change; the library's own may. */
static const enum group_kind kinds[MG_NUM_GROUP_KINDS] = {
    [MG_GROUP_TP] = GROUP_TP,
    [MG_GROUP_CP] = GROUP_CP,
    [MG_GROUP_DP] = GROUP_DP,
    [MG_GROUP_DP_CP] = GROUP_DP_CP,
    [MG_GROUP_PP] = GROUP_PP,
    [MG_GROUP_TP_CP] = GROUP_TP_CP,
    [MG_GROUP_TP_PP] = GROUP_TP_PP,
    [MG_GROUP_TP_DP] = GROUP_TP_DP,
    [MG_GROUP_TP_DP_CP] = GROUP_TP_DP_CP,
    [MG_GROUP_EP] = GROUP_EP,
    [MG_GROUP_ETP] = GROUP_ETP,
    [MG_GROUP_TP_EP] = GROUP_TP_EP,
    [MG_GROUP_TP_EP_PP] = GROUP_TP_EP_PP,
    [MG_GROUP_EDP] = GROUP_EDP,
    [MG_GROUP_EMBD] = GROUP_EMBD,
    [MG_GROUP_POS_EMBD] = GROUP_POS_EMBD,
    [MG_GROUP_WORLD] = GROUP_WORLD,
};

static int fail (int errnum)
{
    errno = errnum;
    return -1;
}

int api_group_kind (enum mg_group_kind kind)
{
    if ((int)kind < 0 || kind >= MG_NUM_GROUP_KINDS)
        return fail (EINVAL);
    return (int)kinds[kind];
}

const char *mg_group_kind_name (enum mg_group_kind kind)
{
    int own = api_group_kind (kind);

    return own < 0 ? "unknown" : group_kinds[own].name;
}

int mg_group_kind_by_name (const char *name)
{
    int own = group_kind_by_name (name);

    for (int kind = 0; own >= 0 && kind < MG_NUM_GROUP_KINDS; kind++) {
        if ((int)kinds[kind] == own)
            return kind;
    }
    return fail (ENOENT);
}

struct mg_grid *mg_grid_create (const struct mg_geometry *geometry, struct mg_error *err)
{
    struct mg_grid *grid;
    locale_t before;

    if (!geometry) {
        mg_error_set (err, EINVAL, "grid: no geometry given");
        return NULL;
    }
    if (!(grid = calloc (1, sizeof (*grid)))) {
        mg_error_set (err, ENOMEM, "grid: out of memory");
        return NULL;
    }
    before = c_locale_enter ();
    grid->own = grid_create (&geometry->sizes, err);
    c_locale_leave (before);
    if (!grid->own) {
        mg_grid_destroy (grid);
        return NULL;
    }
    grid->grid = grid->own;
    return grid;
}

void mg_grid_destroy (struct mg_grid *grid)
{
    int saved_errno = errno;

    if (grid) {
        grid_destroy (grid->own);
        free (grid);
    }
    errno = saved_errno;
}

int mg_grid_world (const struct mg_grid *grid)
{
    return grid_world (grid->grid);
}

int mg_grid_size (const struct mg_grid *grid, enum mg_layout layout, enum mg_axis axis)
{
    if (!api_axis_is_known (layout, axis))
        return -1;
    return grid_size (grid->grid, layout == MG_EXPERT, axis);
}

static bool has_rank (const struct mg_grid *grid, int rank)
{
    return rank >= 0 && rank < grid_world (grid->grid);
}

int mg_grid_coord (const struct mg_grid *grid, enum mg_layout layout, enum mg_axis axis,
                   int rank)
{
    if (!api_axis_is_known (layout, axis))
        return -1;
    if (!has_rank (grid, rank))
        return fail (EINVAL);
    return grid_coord (grid->grid, layout == MG_EXPERT, axis, rank);
}

int mg_grid_rank_at (const struct mg_grid *grid, const int coord[MG_NUM_AXES])
{
    return grid_rank_at (grid->grid, coord);
}

int mg_grid_group_count (const struct mg_grid *grid, enum mg_group_kind kind)
{
    int own = api_group_kind (kind);

    return own < 0 ? -1 : grid_group_count (grid->grid, (enum group_kind)own);
}

int mg_grid_group_size (const struct mg_grid *grid, enum mg_group_kind kind)
{
    int own = api_group_kind (kind);
    struct group group;

    if (own < 0)
        return -1;
    grid_group_at (grid->grid, (enum group_kind)own, 0, &group);
    return group.size;
}

/* The group that a rank is a member of. */
static int find_group (const struct mg_grid *grid, enum mg_group_kind kind, int rank,
                       struct group *group)
{
    int own = api_group_kind (kind);

    if (own < 0)
        return -1;
    if (!has_rank (grid, rank))
        return fail (EINVAL);
    grid_group_of (grid->grid, (enum group_kind)own, rank, group);
    return group->rank < 0 ? fail (ENOENT) : 0;
}

int mg_grid_group_index (const struct mg_grid *grid, enum mg_group_kind kind, int rank)
{
    struct group group;

    return find_group (grid, kind, rank, &group) < 0 ? -1 : group.index;
}

int mg_grid_group_rank (const struct mg_grid *grid, enum mg_group_kind kind, int rank)
{
    struct group group;

    return find_group (grid, kind, rank, &group) < 0 ? -1 : group.rank;
}

int mg_grid_group_member (const struct mg_grid *grid, enum mg_group_kind kind, int index,
                          int i)
{
    int own = api_group_kind (kind);
    struct group group;

    if (own < 0)
        return -1;
    if (index < 0 || index >= grid_group_count (grid->grid, (enum group_kind)own))
        return fail (EINVAL);
    grid_group_at (grid->grid, (enum group_kind)own, index, &group);
    return i < 0 || i >= group.size ? fail (EINVAL) : group_at (&group, i);
}
