/* waiting - how compute threads wait for each other.
 *
 * Between two parts of a computation OpenMP's threads wait for each other.  GNU's OpenMP (libgomp)
 * lets a thread spin for some milliseconds before the thread sleeps.  If other processes want the
 * CPUs, a spinning thread keeps a CPU from a thread that still has work, and a step takes several
 * times as long.  So this program lets threads spin for some 20 microseconds, which is
 * about the cost of waking a thread, and then sleep.
 */
#ifndef CMD_WAITING_H
#define CMD_WAITING_H

/* Set GOMP_SPINCOUNT and start the program anew, in the same process: libgomp reads its variables
 * when it is loaded.  Nothing is done if the environment has OMP_WAIT_POLICY or GOMP_SPINCOUNT, or
 * OMP_NUM_THREADS=1 (a single thread never waits).  If the program cannot be started
 * anew, this returns, and threads wait with libgomp's defaults.  `argv` is main's.  Call
 * this before anything else that takes time or leaves a trace.
 */
void waiting_choose (char **argv);

#endif /* CMD_WAITING_H */
