/* threads - how many compute threads a rank should run. */
#ifndef LIBCORE_JOB_THREADS_H
#define LIBCORE_JOB_THREADS_H

#include <sched.h>

#include "megatron/error.h"

/* This process's share of its CPUs: every CPU of the affinity mask is divided among the
 * 'n' ranks of the node whose masks hold it ('masks', this rank's among them at 'own').
 * Rounded down, at least 1.
 */
int threads_share (const cpu_set_t *masks, int n, int own);

/* What the environment's OMP_NUM_THREADS says (the first number of a list), or
 * 'otherwise' where it is not set. -1 and a text if it is no number.
 */
int threads_environment (int otherwise, struct mg_error *err);

#endif /* LIBCORE_JOB_THREADS_H */
