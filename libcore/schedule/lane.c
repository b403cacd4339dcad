/* lane.c - the ring of pipeline ranks, seen from one of them */

#include <stdio.h>

#include "libcore/schedule/lane.h"

bool sched_lane_receives (enum sched_lane lane)
{
    return lane == SCHED_LANE_RECV_FWD || lane == SCHED_LANE_RECV_BWD;
}

struct sched_link sched_lane_link (enum sched_lane lane, int pp, int rank)
{
    int before = (rank + pp - 1) % pp, next = (rank + 1) % pp;

    switch (lane) {
    case SCHED_LANE_RECV_FWD:
        return (struct sched_link){ false, before, rank };
    case SCHED_LANE_SEND_FWD:
        return (struct sched_link){ false, rank, next };
    case SCHED_LANE_RECV_BWD:
        return (struct sched_link){ true, next, rank };
    default:
        return (struct sched_link){ true, rank, before };
    }
}

const char *sched_link_text (const struct sched_link *link, char text[SCHED_LINK_TEXT])
{
    snprintf (text, SCHED_LINK_TEXT, "lane %s %d to %d",
              link->backward ? "backward" : "forward", link->from, link->to);
    return text;
}

bool sched_comms_share (const struct sched_comms *comms, const struct sched_link *a,
                        const struct sched_link *b)
{
    switch (comms->sharing) {
    case SCHED_COMM_LANE:
        return a->backward == b->backward && a->from == b->from && a->to == b->to;
    case SCHED_COMM_DIRECTION:
        return a->backward == b->backward;
    default:
        return true;
    }
}
