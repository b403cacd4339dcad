/* ranks - checks of programs that are run by one rank or by many.
 *
 * Every rank checks, rank 0 prints:
 *
 *     struct job *job = ranks_start (&config);
 *
 *     ranks_check (job, f () == 0, "f works");
 *     return ranks_done (job);
 */
#ifndef TESTS_TAP_RANKS_H
#define TESTS_TAP_RANKS_H

#include <stdbool.h>

#include "libcore/job/job.h"

/* Meet the other ranks, as the bootstrap of 'config'.  Returns how many there are. */
int ranks_meet (struct job_config *config);

/* Make the job of 'config', after ranks_meet() unless that was called.  Where it fails all
 * ranks end with a text.
 */
struct job *ranks_start (struct job_config *config);

/* All ranks call it: a check that passes if it does on all of them, with the text of the
 * lowest one that it fails on.  The same result on every rank.
 */
bool ranks_check (struct job *job, bool pass, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

/* End the job, and print the plan.  Returns main's exit status. */
int ranks_done (struct job *job);

#endif /* TESTS_TAP_RANKS_H */
