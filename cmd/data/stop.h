/* stop - signals that end a part of "megatron data" that writes files.
 *
 * The part calls data_stop_catch() first, checks data_stopped() between pieces of work,
 * removes its temporary files, and calls data_stop_follow() last.
 */
#ifndef CMD_DATA_STOP_H
#define CMD_DATA_STOP_H

#include <stdbool.h>

/* Catch SIGHUP, SIGINT and SIGTERM, unless they are ignored (nohup), and end a read that waits
 * for input.
 */
void data_stop_catch (void);

/* True once such a signal has come. */
bool data_stopped (void);

/* End the process as the signal would have ended it.  Returns if none has come. */
void data_stop_follow (void);

#endif /* CMD_DATA_STOP_H */
