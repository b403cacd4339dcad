/* waiting - how compute threads wait for each other.
 *
 * Between two parts of a computation OpenMP's threads wait until all are there.  GNU's
 * (libgomp) look for up to some milliseconds before they sleep.  Where other processes want the
 * CPUs, that is time in which a thread that is waited for does not run: a step takes several
 * times as long.  So threads look for some 20 microseconds, about what waking one costs, and
 * then sleep.
 */
#ifndef CMD_WAITING_H
#define CMD_WAITING_H

/* Have threads wait so, where the environment says nothing of it (OMP_WAIT_POLICY,
 * GOMP_SPINCOUNT, and OMP_NUM_THREADS=1: nobody waits).  libgomp reads its variables when it is
 * loaded, so this starts the program anew, with GOMP_SPINCOUNT set: call it before anything
 * else, with main's argv.  Where that cannot be done, threads wait as libgomp has them wait.
 */
void waiting_choose (char **argv);

#endif /* CMD_WAITING_H */
