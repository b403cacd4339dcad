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

/* This process has come to the start.  NULL: there is no launcher with PMIx, or there are no such
 * sockets.  All functions take NULL.
 */
struct arrival *arrival_create (void);

/* This process has come to the next collective call. */
void arrival_next (struct arrival *a);

/* Append to `err` the node's name and the ranks of this node that are to blame: the ranks that
 * are stopped, the ranks that have ended since the start, and, if `late`, the ranks that have not
 * come.  Returns how many.  If there is none and `late`, append that all ranks of this node have
 * come, and how a node is found that is missing as a whole: it has no such line.  Keeps errno.
 */
int arrival_explain (struct arrival *a, const struct bootstrap *b, bool late,
                     struct mg_error *err);

/* Free it.  After arrival_explain(), the names stay until the process ends: other processes of the
 * node look for them at about the same time.  Keeps errno.
 */
void arrival_destroy (struct arrival *a);

#endif /* LIBCORE_BOOTSTRAP_ARRIVAL_H */
