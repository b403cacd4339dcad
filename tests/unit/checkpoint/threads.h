/* threads - ranks as threads of the test, with a communicator made of shared memory.
 *
 * Defines of the mg_comm functions what checkpoints need, so that saving and loading by
 * several ranks can be tested, and run under a sanitizer, without a launcher.
 */
#ifndef TESTS_UNIT_CHECKPOINT_THREADS_H
#define TESTS_UNIT_CHECKPOINT_THREADS_H

#include "megatron/comm.h"

/* Run f (comm, arg) on 'size' ranks (1 to 16), wait for all; it must make no checks. */
void threads_run (int size, void (*f) (struct mg_comm *comm, void *arg), void *arg);

#endif /* TESTS_UNIT_CHECKPOINT_THREADS_H */
