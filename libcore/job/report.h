/* report - what every rank was doing when one stalled, died or failed, in few lines.
 *
 * Pure: from the ranks' own words and the grid.  A rank that waits says in which call on
 * which communicator, with the number that the call has there; since all members make the
 * same calls in the same order, a member that has made fewer is the one that is waited
 * for, and one that makes another call under the same number does not match.  Ranks that
 * say the same are told in one line: "ranks 0-3,6".
 */
#ifndef LIBCORE_JOB_REPORT_H
#define LIBCORE_JOB_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/comm/recorder.h"
#include "libcore/topo/grid.h"

enum { REPORT_HOST_MAX = 64, REPORT_WHAT_MAX = 64 };

/* What a rank says of itself; sent as it is between processes of one program. */
struct rank_state {
    char host[REPORT_HOST_MAX];
    char activity[REPORT_WHAT_MAX]; /* "iteration 12" */
    char wait_text[REPORT_WHAT_MAX]; /* what it waits for, where that is no recorded call */
    double wait_seconds;
    int32_t waiting, recorded; /* does it wait; is that 'wait' */
    struct record wait;
    struct record last; /* the last call but that, name "": none */
    int32_t num_counts;
    struct record_count count[RECORDER_COMMS];
};

enum rank_fate {
    RANK_SILENT, /* it has not answered */
    RANK_ANSWERED,
    RANK_DIED, /* its process has ended without a word */
    RANK_LEFT, /* it has ended well */
    RANK_UNKNOWN, /* it was never heard of */
};

struct report_rank {
    enum rank_fate fate;
    char host[REPORT_HOST_MAX]; /* "": unknown */
    struct rank_state state; /* if it has answered */
};

/* Text of a new string, to be freed; several lines, the first without indentation: 'why'
 * (may be empty) and who is to blame.  'grid' NULL: not known yet.  NULL if out of memory.
 */
char *report_text (const struct report_rank *ranks, int size, const struct grid *grid,
                   const char *why);

/* "rank 5", "ranks 0-3,5": the ranks of in[], into text. Returns how many. */
int report_ranks (const bool *in, int size, char *text, size_t max);

#endif /* LIBCORE_JOB_REPORT_H */
