/* grid - the place of a rank in the dense and the expert grid, and its groups.
 *
 * Ranks are logical: 0..world-1 in mixed radix over the axes of the order string, the
 * first axis varying fastest.  There is no table of the world: coordinates cost O(axes),
 * a group O(axes + its size).  Mathematics: Megatron-LM's
 * generate_masked_orthogonal_rank_groups (parallel_state.py); a group is the set of ranks
 * whose coordinates on all axes outside the group's mask are the same.
 */
#ifndef LIBCORE_TOPO_GRID_H
#define LIBCORE_TOPO_GRID_H

#include "libcore/topo/geometry.h"

/* Bit masks of axes. */
#define MG_MASK(axis) (1u << (axis))

/* Every kind of group that the project uses; names as in Megatron-LM. */
enum group_kind {
    GROUP_TP,
    GROUP_CP,
    GROUP_DP,
    GROUP_DP_CP,
    GROUP_PP,
    GROUP_TP_CP,
    GROUP_TP_PP, /* the model-parallel group */
    GROUP_TP_DP,
    GROUP_TP_DP_CP,
    GROUP_EP,        /* expert grid from here ... */
    GROUP_ETP,
    GROUP_TP_EP,     /* etp x ep */
    GROUP_TP_EP_PP,  /* etp x ep x pp */
    GROUP_EDP,       /* ... to here */
    GROUP_EMBD,      /* first and last pipeline stage of a pp group */
    GROUP_POS_EMBD,  /* first pipeline stage only */
    GROUP_WORLD,
    GROUP_NUM_KINDS
};

/* The members of the masked group that belong to the group: all, the first and the last
 * (embd), or the first (pos-embd).
 */
enum group_span { GROUP_SPAN_ALL, GROUP_SPAN_ENDS, GROUP_SPAN_FIRST };

/* One row for each kind: its name on the command line ("dp-cp"), its grid and its mask. */
struct group_kind_info {
    const char *name;
    bool expert;   /* ranks are laid out by the expert grid */
    unsigned mask; /* axes that vary inside the group */
    enum group_span span;
};
extern const struct group_kind_info group_kinds[GROUP_NUM_KINDS];

/* Returns the kind of a name, or -1 with ENOENT. */
int group_kind_by_name (const char *name);

struct grid; /* opaque, immutable */

/* Make both grids of a geometry whose world is known.  NULL and a text: EINVAL if a rule
 * is broken or the world is 0, ENOMEM if there is no memory.
 */
struct grid *grid_create (const struct geometry *g, struct mg_error *err);
void grid_destroy (struct grid *grid);

int grid_world (const struct grid *grid);
const struct geometry *grid_geometry (const struct grid *grid);

/* Size of an axis: dense (expert false) or expert (true: TP is etp, DP is edp). */
int grid_size (const struct grid *grid, bool expert, enum mg_axis axis);

/* Coordinate of 'rank' (0..world-1) on an axis. */
int grid_coord (const struct grid *grid, bool expert, enum mg_axis axis, int rank);

/* Returns the rank at coordinates of the dense grid: one for each axis, and EP must be 0.
 * -1 with EINVAL if a coordinate is outside its axis.
 */
int grid_rank_at (const struct grid *grid, const int coord[MG_NUM_AXES]);

/* One group, in closed form: member i is computed, not stored. */
struct group {
    enum group_kind kind; /* GROUP_NUM_KINDS: the group of a bare mask */
    int size;    /* number of members, at least 1 */
    int index;   /* number of the group among the group_count() groups of its kind, in
                  * Megatron's order */
    int rank;    /* position of the rank whose group this is, -1: the rank is no member */
    int base;    /* first member */
    int ndims;   /* varying axes larger than 1 */
    int dim[MG_NUM_AXES];    /* their sizes, fastest first */
    int stride[MG_NUM_AXES]; /* their strides in logical ranks */
};

/* Number of groups of a kind. */
int grid_group_count (const struct grid *grid, enum group_kind kind);

/* Returns group number 'index' (0..count-1); .rank is -1. */
void grid_group_at (const struct grid *grid, enum group_kind kind, int index,
                    struct group *group);

/* The group of 'kind' on whose axes 'rank' lies. For embd and pos-embd this is the group
 * of its pp group; .rank is -1 if the rank itself is no member.
 */
void grid_group_of (const struct grid *grid, enum group_kind kind, int rank,
                    struct group *group);

/* The same three for any set of axes of one grid: groups are (grid, mask). */
int grid_masked_count (const struct grid *grid, bool expert, unsigned mask);
void grid_masked_at (const struct grid *grid, bool expert, unsigned mask, int index,
                     struct group *group);
void grid_masked_of (const struct grid *grid, bool expert, unsigned mask, int rank,
                     struct group *group);

/* Logical rank of member i (0..size-1). Members come in Megatron's order. */
int group_at (const struct group *group, int i);

#endif /* LIBCORE_TOPO_GRID_H */
