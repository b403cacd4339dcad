/* lane - which transfers of a pipeline keep one order, and between which two ranks.
 *
 * A lane is what one pipeline rank sends to another in one direction: activations
 * (forward) or gradients (backward).  The transfers of a lane run one after the other, in
 * the same order at both ends.  Lanes need no order among each other.  A rank has at most
 * four lanes, one for each kind of transfer.
 *
 * A communicator is serial if a rank's operations on it run one after the other in the
 * order of enqueuing, whatever their streams (NCCL): a receive that is posted ahead then
 * blocks every later operation on the communicator until it has met its send.  So each
 * lane needs a serial communicator of its own, of its two ranks.  Where transfers pass
 * each other (MPI), lanes may share one.
 */
#ifndef LIBCORE_SCHEDULE_LANE_H
#define LIBCORE_SCHEDULE_LANE_H

#include <stdbool.h>
#include <stddef.h>

/* A rank's lanes.  What rank r sends forward is received by the next rank, and what it
 * sends backward by the rank before; the pipeline is a ring.
 */
enum sched_lane {
    SCHED_LANE_RECV_FWD,
    SCHED_LANE_SEND_FWD,
    SCHED_LANE_RECV_BWD,
    SCHED_LANE_SEND_BWD,
    SCHED_NUM_LANES,
    SCHED_NO_LANE = -1 /* of a pass */
};

/* A lane by its two ranks, the same at both ends. */
struct sched_link {
    bool backward; /* gradients */
    int from, to;  /* pipeline ranks, equal in a pipeline of one rank */
};

/* The ranks of a lane of 'rank'.  Whether a list has transfers on the lane is up to its
 * chunks: schedule_has_lane().
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
};

/* True if one communicator carries both lanes. */
bool sched_comms_share (const struct sched_comms *comms, const struct sched_link *a,
                        const struct sched_link *b);

#endif /* LIBCORE_SCHEDULE_LANE_H */
