/* The coordinates of ranks in the grids of a geometry, and the members of groups.
 *
 * Ranks are logical, 0 to world - 1: their coordinates on the axes are the digits of a
 * mixed-radix number, in which the first axis of the order varies fastest.  A group of
 * some axes is the set of ranks whose coordinates on all other axes are the same; groups
 * and their members come in the order of Megatron-LM's parallel_state.py.  A grid has no
 * table of all ranks: a call computes a coordinate or a member with one division for each
 * axis.
 *
 * A grid never changes, so any number of threads may use a grid.  No call blocks.  For a
 * rank, kind or index that does not exist, a call returns -1 with EINVAL.
 */
#ifndef MEGATRON_GRID_H
#define MEGATRON_GRID_H

#include "megatron/error.h"
#include "megatron/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every kind of group; their names are those of "megatron plan groups --kind". */
enum mg_group_kind {
    MG_GROUP_TP,       /* "tp" */
    MG_GROUP_CP,       /* "cp" */
    MG_GROUP_DP,       /* "dp" */
    MG_GROUP_DP_CP,    /* "dp-cp": gradients of dense layers are reduced over this
                        * group */
    MG_GROUP_PP,       /* "pp" */
    MG_GROUP_TP_CP,    /* "tp-cp" */
    MG_GROUP_TP_PP,    /* "tp-pp": the model-parallel group */
    MG_GROUP_TP_DP,    /* "tp-dp" */
    MG_GROUP_TP_DP_CP, /* "tp-dp-cp" */
    MG_GROUP_EP,       /* "ep"; the kinds from here to "edp" are in the grid of the
                        * experts */
    MG_GROUP_ETP,      /* "etp" */
    MG_GROUP_TP_EP,    /* "tp-ep": etp x ep */
    MG_GROUP_TP_EP_PP, /* "tp-ep-pp": etp x ep x pp */
    MG_GROUP_EDP,      /* "edp": gradients of experts are reduced over this group */
    MG_GROUP_EMBD,     /* "embd": first and last rank of a pipeline */
    MG_GROUP_POS_EMBD, /* "pos-embd": first rank of a pipeline */
    MG_GROUP_WORLD,    /* "world": all ranks */
    MG_NUM_GROUP_KINDS
};

/* mg_group_kind_name() returns the name of a kind, "unknown" for a value outside the
 * enum.  The other function returns the kind of a name, or -1 and ENOENT.
 */
const char *mg_group_kind_name (enum mg_group_kind kind);
int mg_group_kind_by_name (const char *name);

struct mg_grid;

/* Make the grids of a geometry whose world is set.  The geometry is copied.  The caller
 * owns the grid.  NULL and a text: EINVAL if a rule is broken, ENOMEM.
 */
struct mg_grid *mg_grid_create (const struct mg_geometry *geometry, struct mg_error *err);

/* Free a grid, but never the grid of a job.  NULL is allowed.  Keeps errno. */
void mg_grid_destroy (struct mg_grid *grid);

/* Number of ranks. */
int mg_grid_world (const struct mg_grid *grid);

/* Size of an axis. */
int mg_grid_size (const struct mg_grid *grid, enum mg_layout layout, enum mg_axis axis);

/* Coordinate of a rank on an axis, from 0. */
int mg_grid_coord (const struct mg_grid *grid, enum mg_layout layout, enum mg_axis axis,
                   int rank);

/* Return the rank at a place of the dense grid.  'coord' has one coordinate for each
 * axis; coord[MG_AXIS_EP] is 0. */
int mg_grid_rank_at (const struct mg_grid *grid, const int coord[MG_NUM_AXES]);

/* The number of groups of a kind, and the number of members of each. */
int mg_grid_group_count (const struct mg_grid *grid, enum mg_group_kind kind);
int mg_grid_group_size (const struct mg_grid *grid, enum mg_group_kind kind);

/* The number of the group that a rank belongs to, and the rank's position in this group.
 * -1 and ENOENT if the rank is in no group of the kind: a middle stage is in no "embd"
 * group.
 */
int mg_grid_group_index (const struct mg_grid *grid, enum mg_group_kind kind, int rank);
int mg_grid_group_rank (const struct mg_grid *grid, enum mg_group_kind kind, int rank);

/* The rank of member 'i' (0 to size - 1) of group number 'index' (0 to count - 1). */
int mg_grid_group_member (const struct mg_grid *grid, enum mg_group_kind kind, int index,
                          int i);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_GRID_H */
