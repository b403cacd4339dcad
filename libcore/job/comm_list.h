/* comm_list - the data communicators that a rank of a job makes, as a list in the order of
 * creation.
 *
 * The order is the same on all ranks: ranks that are in two groups make the two in one order, so
 * that none waits for the other.  The list follows from the grid and the named groups alone.  So a
 * rank knows it before the job's exchange, and communicator backends can offer ids for it
 * (comm_ops.h).
 */
#ifndef LIBCORE_JOB_COMM_LIST_H
#define LIBCORE_JOB_COMM_LIST_H

#include "libcore/job/handshake.h"
#include "libcore/job/pp_lane.h"
#include "libcore/topo/grid.h"

/* Tags: those of groups are the numbers of their kinds. */
enum {
    COMM_TAG_CONTROL = GROUP_NUM_KINDS, /* not in the list */
    COMM_TAG_PP_BACKWARD,
    COMM_TAG_SHARD,                     /* of dense parameters, then of experts */
    COMM_TAG_INSTANCES = COMM_TAG_SHARD + 2, /* likewise */
    COMM_TAG_CP_INNER = COMM_TAG_INSTANCES + 2,
    COMM_TAG_CP_OUTER,
    COMM_TAG_PP_LANES,
    COMM_NUM_TAGS = COMM_TAG_PP_LANES + PP_LANE_TAGS,
};

/* Members first, first + stride ... of a group, 'size' of them. */
struct comm_item {
    const char *name; /* stays */
    int tag;          /* no two items of a rank have the same */
    int size, rank;   /* members, and this rank's place among them */
    struct group group;
    int first, stride;
    int share;           /* an earlier item of the same members whose connection serves; -1: none */
    struct pp_lane lane; /* of a lane of the pipeline; name NULL: it is none */
};

struct comm_list {
    struct comm_item item[COMM_NUM_TAGS];
    int n;
};

/* Fill in the list of rank 'rank'.  'serial': communicators are (comm_ops.h).  -1, EINVAL and a
 * text if instances or neighbours do not divide their groups.
 */
int comm_list_make (struct comm_list *list, const struct grid *grid, int rank,
                    const struct handshake_groups *groups, bool serial, struct mg_error *err);

/* The rank of the job that is member i of an item. */
int comm_item_member (const struct comm_item *item, int i);

#endif /* LIBCORE_JOB_COMM_LIST_H */
