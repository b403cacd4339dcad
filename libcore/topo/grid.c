/* grid.c - two mixed-radix numberings of the same ranks, and groups in closed form
 *
 * rank = sum over the axes of coordinate x stride, where a stride is the product of the
 * sizes of all faster axes.  The members of a group vary the axes of its mask; its index
 * is the mixed-radix number of the other coordinates.
 */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/grid.h"

#define ALL_AXES (MG_MASK (MG_NUM_AXES) - 1)
#define TP MG_MASK (MG_AXIS_TP)
#define CP MG_MASK (MG_AXIS_CP)
#define EP MG_MASK (MG_AXIS_EP)
#define DP MG_MASK (MG_AXIS_DP)
#define PP MG_MASK (MG_AXIS_PP)

const struct group_kind_info group_kinds[GROUP_NUM_KINDS] = {
    [GROUP_TP] = { "tp", false, TP, GROUP_SPAN_ALL },
    [GROUP_CP] = { "cp", false, CP, GROUP_SPAN_ALL },
    [GROUP_DP] = { "dp", false, DP, GROUP_SPAN_ALL },
    [GROUP_DP_CP] = { "dp-cp", false, DP | CP, GROUP_SPAN_ALL },
    [GROUP_PP] = { "pp", false, PP, GROUP_SPAN_ALL },
    [GROUP_TP_CP] = { "tp-cp", false, TP | CP, GROUP_SPAN_ALL },
    [GROUP_TP_PP] = { "tp-pp", false, TP | PP, GROUP_SPAN_ALL },
    [GROUP_TP_DP] = { "tp-dp", false, TP | DP, GROUP_SPAN_ALL },
    [GROUP_TP_DP_CP] = { "tp-dp-cp", false, TP | DP | CP, GROUP_SPAN_ALL },
    [GROUP_EP] = { "ep", true, EP, GROUP_SPAN_ALL },
    [GROUP_ETP] = { "etp", true, TP, GROUP_SPAN_ALL },
    [GROUP_TP_EP] = { "tp-ep", true, TP | EP, GROUP_SPAN_ALL },
    [GROUP_TP_EP_PP] = { "tp-ep-pp", true, TP | EP | PP, GROUP_SPAN_ALL },
    [GROUP_EDP] = { "edp", true, DP, GROUP_SPAN_ALL },
    [GROUP_EMBD] = { "embd", false, PP, GROUP_SPAN_ENDS },
    [GROUP_POS_EMBD] = { "pos-embd", false, PP, GROUP_SPAN_FIRST },
    [GROUP_WORLD] = { "world", false, ALL_AXES, GROUP_SPAN_ALL },
};

/* One numbering of the ranks. */
struct numbering {
    int size[MG_NUM_AXES];
    int stride[MG_NUM_AXES];
};

struct grid {
    struct geometry geometry;
    enum mg_axis order[MG_NUM_AXES]; /* fastest first, the same for both */
    struct numbering layout[2];         /* dense, expert */
};

int group_kind_by_name (const char *name)
{
    for (int kind = 0; name && kind < GROUP_NUM_KINDS; kind++) {
        if (strcmp (group_kinds[kind].name, name) == 0)
            return kind;
    }
    errno = ENOENT;
    return -1;
}

void grid_destroy (struct grid *grid)
{
    int saved_errno = errno;

    free (grid);
    errno = saved_errno;
}

static void init_layout (struct grid *grid, bool expert)
{
    struct numbering *layout = &grid->layout[expert];
    int stride = 1;

    for (int i = 0; i < MG_NUM_AXES; i++) {
        enum mg_axis axis = grid->order[i];

        layout->size[axis] = geometry_axis_size (&grid->geometry, expert, axis);
        layout->stride[axis] = stride;
        stride *= layout->size[axis];
    }
    assert (stride == grid->geometry.world);
}

struct grid *grid_create (const struct geometry *g, struct mg_error *err)
{
    struct grid *grid;

    if (g->world == 0) {
        mg_error_set (err, EINVAL, "the number of ranks is not known");
        return NULL;
    }
    if (geometry_validate (g, err) < 0)
        return NULL;
    if (!(grid = calloc (1, sizeof (*grid)))) {
        mg_error_set (err, ENOMEM, "grid: out of memory");
        return NULL;
    }
    grid->geometry = *g;
    if (geometry_order (g, grid->order, err) < 0)
        goto error;
    init_layout (grid, false);
    init_layout (grid, true);
    return grid;
error:
    grid_destroy (grid);
    return NULL;
}

int grid_world (const struct grid *grid)
{
    return grid->geometry.world;
}

const struct geometry *grid_geometry (const struct grid *grid)
{
    return &grid->geometry;
}

int grid_size (const struct grid *grid, bool expert, enum mg_axis axis)
{
    return grid->layout[expert].size[axis];
}

int grid_coord (const struct grid *grid, bool expert, enum mg_axis axis, int rank)
{
    const struct numbering *layout = &grid->layout[expert];

    assert (rank >= 0 && rank < grid->geometry.world);
    return rank / layout->stride[axis] % layout->size[axis];
}

int grid_rank_at (const struct grid *grid, const int coord[MG_NUM_AXES])
{
    const struct numbering *layout = &grid->layout[0];
    int rank = 0;

    for (int axis = 0; axis < MG_NUM_AXES; axis++) {
        if (coord[axis] < 0 || coord[axis] >= layout->size[axis]) {
            errno = EINVAL;
            return -1;
        }
        rank += coord[axis] * layout->stride[axis];
    }
    return rank;
}

int grid_masked_count (const struct grid *grid, bool expert, unsigned mask)
{
    int count = grid->geometry.world;

    for (int axis = 0; axis < MG_NUM_AXES; axis++) {
        if (mask & MG_MASK (axis))
            count /= grid->layout[expert].size[axis];
    }
    return count;
}

/* The varying axes of a group, those of size 1 left out: they move nothing. */
static void set_dims (const struct grid *grid, bool expert, unsigned mask,
                      struct group *group)
{
    const struct numbering *layout = &grid->layout[expert];

    group->ndims = 0;
    group->size = 1;
    for (int i = 0; i < MG_NUM_AXES; i++) {
        enum mg_axis axis = grid->order[i];

        if ((mask & MG_MASK (axis)) && layout->size[axis] > 1) {
            group->dim[group->ndims] = layout->size[axis];
            group->stride[group->ndims++] = layout->stride[axis];
            group->size *= layout->size[axis];
        }
    }
}

void grid_masked_at (const struct grid *grid, bool expert, unsigned mask, int index,
                     struct group *group)
{
    const struct numbering *layout = &grid->layout[expert];
    int rest = index;

    assert (index >= 0 && index < grid_masked_count (grid, expert, mask));
    memset (group, 0, sizeof (*group));
    group->kind = GROUP_NUM_KINDS;
    group->index = index;
    group->rank = -1;
    set_dims (grid, expert, mask, group);
    for (int i = 0; i < MG_NUM_AXES; i++) {
        enum mg_axis axis = grid->order[i];

        if (!(mask & MG_MASK (axis))) {
            group->base += rest % layout->size[axis] * layout->stride[axis];
            rest /= layout->size[axis];
        }
    }
}

void grid_masked_of (const struct grid *grid, bool expert, unsigned mask, int rank,
                     struct group *group)
{
    const struct numbering *layout = &grid->layout[expert];
    int scale[2] = { 1, 1 }; // of the index, of the position
    int number[2] = { 0, 0 };

    memset (group, 0, sizeof (*group));
    group->kind = GROUP_NUM_KINDS;
    set_dims (grid, expert, mask, group);
    for (int i = 0; i < MG_NUM_AXES; i++) {
        enum mg_axis axis = grid->order[i];
        bool inside = mask & MG_MASK (axis);
        int coord = grid_coord (grid, expert, axis, rank);

        number[inside] += coord * scale[inside];
        scale[inside] *= layout->size[axis];
        if (!inside)
            group->base += coord * layout->stride[axis];
    }
    group->index = number[0];
    group->rank = number[1];
}

/* Make a pipeline group the group of its ends, or of its first member. */
static void cut_span (const struct group_kind_info *info, struct group *group)
{
    int stages = group->size;

    if (info->span == GROUP_SPAN_ALL || stages == 1)
        return;
    if (info->span == GROUP_SPAN_ENDS) {
        group->size = 2;
        group->dim[0] = 2;
        group->stride[0] *= stages - 1;
        if (group->rank == stages - 1)
            group->rank = 1;
        else if (group->rank > 0)
            group->rank = -1;
    } else {
        group->size = 1;
        group->ndims = 0;
        if (group->rank > 0)
            group->rank = -1;
    }
}

int grid_group_count (const struct grid *grid, enum group_kind kind)
{
    return grid_masked_count (grid, group_kinds[kind].expert, group_kinds[kind].mask);
}

void grid_group_at (const struct grid *grid, enum group_kind kind, int index,
                    struct group *group)
{
    const struct group_kind_info *info = &group_kinds[kind];

    grid_masked_at (grid, info->expert, info->mask, index, group);
    group->kind = kind;
    cut_span (info, group);
}

void grid_group_of (const struct grid *grid, enum group_kind kind, int rank,
                    struct group *group)
{
    const struct group_kind_info *info = &group_kinds[kind];

    grid_masked_of (grid, info->expert, info->mask, rank, group);
    group->kind = kind;
    cut_span (info, group);
}

int group_at (const struct group *group, int i)
{
    int rank = group->base;

    assert (i >= 0 && i < group->size);
    for (int d = 0; d < group->ndims; d++) {
        rank += i % group->dim[d] * group->stride[d];
        i /= group->dim[d];
    }
    return rank;
}
