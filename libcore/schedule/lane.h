/* lane - the transfers of a pipeline that keep one order.
 *
 * A lane has the transfers from one pipeline rank to another in one direction: activations
 * (forward) or gradients (backward).  The transfers of a lane run one after the other, in the
 * same order at both ends.  Transfers of different lanes have no order.  A rank has at most four
 * lanes, one for each kind of transfer.
 *
 * A communicator is serial if a rank's operations on it run one after the other in the order of
 * enqueuing, whatever their streams, as NCCL's do.  A receive that is posted ahead then blocks
 * every later operation on the communicator until the receive has met its send.  So with serial
 * communicators each lane needs one of its own, whose members are its two ranks.  If transfers on
 * a communicator may pass each other, as MPI's do, lanes may share it.
 *
 * A device has one queue if a rank's passes and calls run one after the other in the order of
 * enqueuing, whatever their streams and communicators.  CUDA does not promise more: streams
 * share hardware queues, whose number is limited.  Then a receive that is posted ahead blocks
 * everything, and communicators of their own do not help lanes; grouped lists do (schedule.h).
 */
#ifndef LIBCORE_SCHEDULE_LANE_H
#define LIBCORE_SCHEDULE_LANE_H

#include <stdbool.h>
#include <stddef.h>

/* A rank's lanes.  A rank sends forward to the next rank, and backward to the rank before.  The
 * pipeline is a ring.
 */
enum sched_lane {
    SCHED_LANE_RECV_FWD,
    SCHED_LANE_SEND_FWD,
    SCHED_LANE_RECV_BWD,
    SCHED_LANE_SEND_BWD,
    SCHED_NUM_LANES,
    SCHED_NO_LANE = -1 /* the lane of a pass */
};

/* A lane, named by its two ranks: the same at both ends. */
struct sched_link {
    bool backward; /* gradients */
    int from, to;  /* pipeline ranks, equal in a pipeline of one rank */
};

/* Returns the two ranks of a lane of 'rank'.  schedule_has_lane() returns whether a list has
 * transfers on the lane.  sched_lane_receives() is true for the two lanes on which a rank
 * receives.
 */
struct sched_link sched_lane_link (enum sched_lane lane, int pp, int rank);
bool sched_lane_receives (enum sched_lane lane);

/* "lane forward 0 to 1".  Returns text. */
enum { SCHED_LINK_TEXT = 48 };
const char *sched_link_text (const struct sched_link *link, char text[SCHED_LINK_TEXT]);

/* The communicators that carry the lanes of a pipeline. */
enum sched_sharing {
    SCHED_COMM_LANE,      /* one for each lane */
    SCHED_COMM_DIRECTION, /* one of all ranks for activations, one for gradients */
    SCHED_COMM_ONE,       /* one of all ranks */
};

struct sched_comms {
    enum sched_sharing sharing;
    bool serial;
    bool one_queue; /* of the device */
};

/* True if one communicator carries both lanes. */
bool sched_comms_share (const struct sched_comms *comms, const struct sched_link *a,
                        const struct sched_link *b);

#endif /* LIBCORE_SCHEDULE_LANE_H */
