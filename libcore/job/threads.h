/* threads - the number of compute threads of a rank. */
#ifndef LIBCORE_JOB_THREADS_H
#define LIBCORE_JOB_THREADS_H

#include <sched.h>

#include "megatron/error.h"

/* Returns this process's share of the CPUs of its affinity mask.  Each CPU is divided
 * evenly among the ranks of the node whose masks contain the CPU.  'masks' has the masks
 * of the 'n' ranks of the node; masks[own] is this rank's.  The share is rounded down,
 * and is at least 1.
 */
int threads_share (const cpu_set_t *masks, int n, int own);

/* Returns the value of the environment variable OMP_NUM_THREADS (the first number of a
 * list), or 'otherwise' if the variable is not set.  -1 and a text if the value is no
 * number.
 */
int threads_environment (int otherwise, struct mg_error *err);

#endif /* LIBCORE_JOB_THREADS_H */
