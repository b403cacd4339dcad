/* fault - report the mapped file that cannot be read.
 *
 * Weights, batches, the .idx files of datasets and cached indices are mapped.  If such a file is
 * truncated while it is in use, or its disk or server fails, reading it raises SIGBUS.  The
 * handler finds the file in /proc/self/maps by the address, prints one line that names the
 * command, the rank, the file and what to do, and ends the process with status 1.  If several
 * threads fault at the same time, one of them reports.  A SIGBUS without a file ends the
 * process in the usual way.  The handler calls only what signal-safety(7) allows.
 */
#ifndef CMD_FAULT_H
#define CMD_FAULT_H

/* From now on, report SIGBUS in this way in all threads.  Unless UCX_ERROR_SIGNALS is
 * set, also set it so that UCX does not handle SIGBUS.  Call it before threads are
 * started.
 */
void fault_watch (void);

#endif /* CMD_FAULT_H */
