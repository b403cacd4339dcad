/* cleanup - remove unfinished files of a command that a signal ends. */
#ifndef CMD_CLEANUP_H
#define CMD_CLEANUP_H

/* From here on, a SIGHUP, SIGINT or SIGTERM first removes the files that the process is
 * writing (libcore/checkpoint/leftover.h), then ends the process in the usual way.  A
 * signal that is ignored (nohup) stays ignored.  A part of a command that catches these
 * signals itself, as data_stop.h and train/stop.h do, replaces this.
 */
void cleanup_watch (void);

#endif /* CMD_CLEANUP_H */
