/* arrival - which processes of this node have come to the start of the job.
 *
 * A process binds a Unix socket in the abstract namespace, named after the job, the
 * launcher's server on this node, the user and the launcher's rank.  The kernel removes the
 * name when the process ends.  Another process of the node connects to the name, sends
 * nothing, and learns the owner's process number and so whether the owner is stopped.
 */
#ifndef LIBCORE_BOOTSTRAP_ARRIVAL_H
#define LIBCORE_BOOTSTRAP_ARRIVAL_H

#include <stdbool.h>

#include "libcore/bootstrap/bootstrap.h"

/* This process has come.  Returns a descriptor, or -1 where there is no launcher with PMIx, or no
 * such socket.  Close it once the job has started.  If the start fails, leave it open until the
 * process ends: other processes of the node look for it at about the same time.
 */
int arrival_announce (void);

/* Append the node's name to `err`, and the ranks of this node that have not come or are
 * stopped.  Returns false, and appends that all have come, if there is no such rank.
 */
bool arrival_explain (const struct bootstrap *b, struct mg_error *err);

#endif /* LIBCORE_BOOTSTRAP_ARRIVAL_H */
