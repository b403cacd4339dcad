/* dirlock - one writer of checkpoints in a directory at a time.
 *
 * DIR/.megatron-lock    names the writer: host, process, Slurm job, time
 *
 * A writer holds a lock on the file (an open file description lock of fcntl(2), which NFS,
 * Lustre and other network file systems carry to all nodes) as long as the writer lives: the
 * kernel, or the file server, releases the lock of a process or node that has died.  So a file
 * that is left behind keeps nobody out.  Two cases are decided by what the file says:
 *
 *   the lock is held by an earlier life of the same Slurm job (a lower SLURM_RESTART_COUNT):
 *       Slurm has ended that life, and the file server has not noticed.  The lock is taken.
 *   the file system has no locks: a writer on this host counts as alive while the process
 *       is there; a writer on another host cannot be asked, and the directory is taken
 *
 * A writer who has lost the directory in such a way finds out by dirlock_check().
 */
#ifndef LIBCORE_CHECKPOINT_DIRLOCK_H
#define LIBCORE_CHECKPOINT_DIRLOCK_H

#include "megatron/error.h"

struct dirlock; /* held by this process */

/* Take a directory that is there.  NULL with EBUSY and a text that names the writer if one
 * lives; a writer that is just ending is waited for, for seconds.
 */
struct dirlock *dirlock_take (const char *dir, struct mg_error *err);

/* What the user should know of how the directory was taken; NULL: nothing. */
const char *dirlock_note (const struct dirlock *lock);

/* Before writing: does this process still hold the directory?  A file that somebody has
 * removed is made again.  EBUSY if another writer has taken the directory.  NULL is allowed.
 */
int dirlock_check (struct dirlock *lock, struct mg_error *err);

/* Give the directory back and remove the file; NULL is allowed; errno is kept. */
void dirlock_release (struct dirlock *lock);

#endif /* LIBCORE_CHECKPOINT_DIRLOCK_H */
