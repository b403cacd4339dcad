/* pp_lane - the communicators of two ranks that carry the lanes of a pipeline.
 *
 * A lane is what one pipeline rank sends to another in one direction, activations or
 * gradients.  Where communicators are serial (comm_net_serial()), each lane has one of its
 * own: in a communicator that several lanes share, a receive that is posted ahead would
 * hold up a send.
 *
 * A link joins two ranks, and has a lane in each direction: links 0 to pp - 2 join
 * neighbours, and with virtual stages one more joins the last rank to the first.  Links
 * with a rank in common are made one after the other in the same order on all ranks: even
 * ones, odd ones, then the last to the first.  So creation, which blocks until both ranks
 * have come, takes three links' time at most, and cannot deadlock.
 */
#ifndef LIBCORE_JOB_PP_LANE_H
#define LIBCORE_JOB_PP_LANE_H

#include <stdbool.h>

/* Lanes of one rank at most, and different tags. */
enum { PP_LANES_MAX = 4, PP_LANE_TAGS = 6 };

struct pp_lane {
    const char *name; /* as this rank sees the lane: "pp-fwd-in", "pp-fwd-out" ... */
    bool backward;    /* of gradients */
    int from, to;     /* pipeline ranks */
    int tag;          /* 0 to PP_LANE_TAGS - 1, different for lanes with a rank in common */
};

/* The lanes of pipeline rank 'rank' in the order of their creation; returns how many there
 * are, 0 if pp is 1.  'virtual_stages': the last rank sends activations to the first.
 */
int pp_lane_list (int pp, int rank, bool virtual_stages,
                  struct pp_lane list[PP_LANES_MAX]);

/* The pipeline rank at the other end of the lane that pipeline rank 'rank' calls 'name';
 * -1: no lane has this name.
 */
int pp_lane_peer (const char *name, int pp, int rank);

#endif /* LIBCORE_JOB_PP_LANE_H */
