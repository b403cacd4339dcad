/* diagnosis - the report that a hub makes when a rank stalls, dies or fails.
 *
 * The report says in a few lines what every rank was doing.  It is made from the states that the
 * ranks sent and from the grid; nothing is read or written here.  A rank that waits says in which
 * call it waits, on which communicator, and the number of the call there.  All members of a
 * communicator make the same calls in the same order.  So the others wait for a member
 * that has made fewer calls, and a member that makes another call under the same number
 * does not match. Ranks with the same line share it: "ranks 0-3,6".
 */
#ifndef LIBCORE_JOB_DIAGNOSIS_H
#define LIBCORE_JOB_DIAGNOSIS_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/comm/recorder.h"
#include "libcore/topo/grid.h"

enum { DIAGNOSIS_HOST_MAX = 64, DIAGNOSIS_WHAT_MAX = 64 };

/* The state that a rank sends.  Both ends are the same program, so the struct is sent as it is. */
struct rank_state {
    char host[DIAGNOSIS_HOST_MAX];
    char activity[DIAGNOSIS_WHAT_MAX]; /* "iteration 12" */
    char wait_text[DIAGNOSIS_WHAT_MAX]; /* what the rank waits for, if that is no recorded call */
    double wait_seconds; /* of waiting or running */
    int32_t waiting, recorded; /* the rank waits for others; its call is in 'wait' */
    int32_t running; /* its host waits for its own device, which no call holds up */
    struct record wait;
    struct record last; /* the last call that has begun; name "": none */
    int32_t num_counts;
    struct record_count count[RECORDER_COMMS];
};

enum rank_fate {
    RANK_SILENT, /* the rank has not answered */
    RANK_ANSWERED,
    RANK_DIED, /* its process ended without a good-bye */
    RANK_LEFT, /* its process said good-bye and ended */
    RANK_UNKNOWN, /* has never connected */
};

struct diagnosis_rank {
    enum rank_fate fate;
    char host[DIAGNOSIS_HOST_MAX]; /* "": unknown */
    struct rank_state state; /* if fate is RANK_ANSWERED */
};

/* Returns the report as a new string, which the caller frees, or NULL if there is no memory.  The
 * first line names the ranks to blame and ends with 'why', which may be empty; the other lines are
 * indented.  'grid' may be NULL: it is not known yet.
 */
char *diagnosis_text (const struct diagnosis_rank *ranks, int size, const struct grid *grid,
                      const char *why);

/* Writes the ranks r with in[r] into 'text': "rank 5", "ranks 0-3,5".  Returns their number. */
int diagnosis_ranks (const bool *in, int size, char *text, size_t max);

#endif /* LIBCORE_JOB_DIAGNOSIS_H */
