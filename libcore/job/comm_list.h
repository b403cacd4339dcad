/* comm_list - the data communicators that a rank of a job makes, as a list in the order of
 * creation.
 *
 * The order is the same on all ranks: ranks that are in two groups make the two
 * communicators in the same order, so that no two ranks wait for each other.  The list
 * follows from the grid and the named groups alone.  So a rank knows it before the job's
 * exchange, and communicator backends can offer ids for it (comm_ops.h).
 */
#ifndef LIBCORE_JOB_COMM_LIST_H
#define LIBCORE_JOB_COMM_LIST_H

#include "libcore/job/handshake.h"
#include "libcore/job/pp_lane.h"
#include "libcore/topo/grid.h"
#include "megatron/comm.h"

/* Tags.  The tag of a group is the number of its kind. */
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

/* A part of a group: 'size' members, first, first + stride ... */
struct comm_item {
    const char *name; /* stays */
    int tag;          /* no two items of a rank have the same */
    int size, rank;   /* number of members, and this rank's position among them */
    struct group group;
    int first, stride;
    int share;           /* an earlier item of the same members, whose connection this one
                          * uses; -1: none */
    struct pp_lane lane; /* lane of the pipeline; name NULL: the item is no lane */
};

struct comm_list {
    struct comm_item item[COMM_NUM_TAGS];
    int n;
};

/* Fill in the list of rank 'rank'.  'serial' says that communicators are serial
 * (comm_ops.h).  -1, EINVAL and a text if instances or neighbours do not divide their
 * groups.
 */
int comm_list_make (struct comm_list *list, const struct grid *grid, int rank,
                    const struct handshake_groups *groups, bool serial, struct mg_error *err);

/* The calls that a run makes on the connection of item i, as bits 1 << enum mg_comm_call: its own
 * and those of the items that share it.  A program makes any call on groups that runs do not use.
 */
unsigned comm_list_calls (const struct comm_list *list, int i);

/* The transfers of these calls, with kind and peer, and their number: to and from the neighbours of
 * a pipeline or of a ring, the ends of a pipeline among them with 'wraps', or over a lane.
 */
enum { COMM_TRANSFERS_MAX = 4 };
int comm_list_transfers (const struct comm_list *list, int i, bool wraps,
                         struct mg_p2p transfer[COMM_TRANSFERS_MAX]);

/* Returns the rank, in the job, of member i of an item. */
int comm_item_member (const struct comm_item *item, int i);

#endif /* LIBCORE_JOB_COMM_LIST_H */
