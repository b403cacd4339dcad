/* arrival - which processes of this node have come to a point that all processes pass.
 *
 * The points are the start of the job, and each collective call of its bootstrap.  At each point
 * a process binds a Unix socket in the abstract namespace, named after the job, the launcher's
 * server on this node, the user, the launcher's rank and the point.  The kernel removes the name
 * when the process ends.  Another process of the node connects to the name, sends nothing, and
 * learns the owner's process number and so whether the owner is stopped.
 *
 * A socket counts only if its owner is the user of this process, since any user of the node can
 * bind such a name.  Where another user has bound a name first, the process binds a spare name,
 * which has one more number.
 *
 * Nothing is known about processes of other nodes.
 */
#ifndef LIBCORE_BOOTSTRAP_ARRIVAL_H
#define LIBCORE_BOOTSTRAP_ARRIVAL_H

#include <stdbool.h>

#include "libcore/bootstrap/bootstrap.h"

struct arrival;

/* Record that this process has come to the start of the job.  Returns NULL if no launcher
 * with PMIx started this process, or if the system has no such sockets.  NULL is allowed
 * in all functions.
 */
struct arrival *arrival_create (void);

/* Record that this process has come to the next collective call. */
void arrival_next (struct arrival *a);

/* Append to `err` the node's name and the ranks of this node that are to blame: the ranks that
 * are stopped, the ranks that have ended since the start, and, if `late`, the ranks that have not
 * come.  Returns the number of these ranks.  If the number is 0 and `late` is set, append
 * that all ranks of this node have come, and that a node without such a line is missing
 * as a whole.  Keeps errno.
 */
int arrival_explain (struct arrival *a, const struct bootstrap *b, bool late,
                     struct mg_error *err);

/* Free an arrival.  After arrival_explain(), the names stay until the process ends: other
 * processes of the node look for them at about the same time.  Keeps errno.
 */
void arrival_destroy (struct arrival *a);

#endif /* LIBCORE_BOOTSTRAP_ARRIVAL_H */
