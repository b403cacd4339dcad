/* dirlock - one writer of checkpoints in a directory at a time.
 *
 * DIR/.megatron-lock    names the writer: host, process, Slurm job, time
 *
 * A writer holds a lock on the file as long as the writer lives: an open file description lock of
 * fcntl(2), which NFS, Lustre and other network file systems make known to all nodes.  If a process
 * or a node dies, the kernel or the file server releases its lock.  So a file that is left behind
 * keeps nobody out.  The file can be read and written by the users who may write in the directory,
 * and by nobody else; a process that only holds a read lock keeps no writer out.  In two cases the
 * contents of the file decide:
 *
 *   an earlier run of the same Slurm job (with a lower SLURM_RESTART_COUNT) holds the lock:
 *       Slurm has ended that run, and the file server has not noticed.  This process
 *       takes the directory.
 *   the file system has no locks: a writer on this host is alive while its process
 *       exists.  Nothing is known about a writer on another host, and this process takes
 *       the directory.
 *
 * A writer whose directory was taken in this way learns it from dirlock_check().
 */
#ifndef LIBCORE_FILE_DIRLOCK_H
#define LIBCORE_FILE_DIRLOCK_H

#include "megatron/error.h"

#define DIRLOCK_NAME ".megatron-lock"

struct dirlock; /* the lock of a directory that this process has taken */

/* Take the lock of an existing directory.  If another writer holds it, this waits up to
 * three seconds for that writer to end, then returns NULL with EBUSY and a text that
 * names the writer.  NULL with another errno if the file cannot be made or written.
 */
struct dirlock *dirlock_take (const char *dir, struct mg_error *err);

/* Return a line for the user if the directory may have had another writer, else NULL. */
const char *dirlock_note (const struct dirlock *lock);

/* Check, before writing, that this process still holds the directory.  If the lock's file
 * was removed, the function makes it again.  Returns -1 with EBUSY if another writer has
 * taken the directory.  NULL is allowed.
 */
int dirlock_check (struct dirlock *lock, struct mg_error *err);

/* Release the lock and remove its file.  NULL is allowed.  Keeps errno. */
void dirlock_release (struct dirlock *lock);

#endif /* LIBCORE_FILE_DIRLOCK_H */
