/* pp_lane - the communicators of two ranks that carry the lanes of a pipeline.
 *
 * A lane is what one pipeline rank sends to another in one direction, activations or
 * gradients.  If communicators are serial (comm_net_serial()), each lane has a
 * communicator of its own: on a serial communicator of several lanes, a receive that is
 * posted ahead would block a send.
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

/* The most lanes of one rank, and the number of different tags. */
enum { PP_LANES_MAX = 4, PP_LANE_TAGS = 6 };

struct pp_lane {
    const char *name; /* the lane's name on this rank: "pp-fwd-in", "pp-fwd-out" ... */
    bool backward;    /* the lane carries gradients */
    int from, to;     /* pipeline ranks */
    int tag;          /* 0 to PP_LANE_TAGS - 1, different for lanes with a rank in common */
};

/* Write the lanes of pipeline rank 'rank' in the order of their creation.  Returns their
 * number, 0 if pp is 1.  With 'virtual_stages', the last rank also sends activations to
 * the first.
 */
int pp_lane_list (int pp, int rank, bool virtual_stages,
                  struct pp_lane list[PP_LANES_MAX]);

/* Returns the pipeline rank at the other end of the lane that has the name 'name' on
 * pipeline rank 'rank', or -1 if no lane has this name.
 */
int pp_lane_peer (const char *name, int pp, int rank);

#endif /* LIBCORE_JOB_PP_LANE_H */
