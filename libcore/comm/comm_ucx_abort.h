/* comm_ucx_abort - a peer dies while this rank reads its memory.
 *
 * UCX reads long messages from the memory of the sender.  If that fails, as it does when the sender
 * has died, UCX prints why and calls abort().  The job ends anyway, but the monitor (job/monitor.h)
 * says which rank has died.  So the communication thread, in abort(), waits until the monitor ends
 * the process; if the monitor does not, abort() goes on.  A program that handles SIGABRT keeps its
 * handler, and does not wait.
 */
#ifndef LIBCORE_COMM_COMM_UCX_ABORT_H
#define LIBCORE_COMM_COMM_UCX_ABORT_H

/* The calling thread is the communication thread.  Any number of times. */
void ucx_abort_waits (void);

/* Between these an abort() of that thread waits.  Pairs may be nested.  The first one also keeps
 * UCX from printing a backtrace, unless UCX_HANDLE_ERRORS is set.
 */
void ucx_abort_begin (void);
void ucx_abort_end (void);

#endif /* LIBCORE_COMM_COMM_UCX_ABORT_H */
