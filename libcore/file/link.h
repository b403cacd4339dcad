/* link - symbolic links on the way to what this user writes.
 *
 * Another user who can write in a directory can make a link there that leads to files of this
 * user.  So a link is followed only if this user or root has made it, or if no other user can
 * write in its directory.
 */
#ifndef LIBCORE_FILE_LINK_H
#define LIBCORE_FILE_LINK_H

#include <stdbool.h>

#include "megatron/error.h"

enum { LINK_MAX_FOLLOWED = 40 }; /* for one name, as in the kernel */

/* Returns the directory that 'path' stands in, with its slash: "" for the current directory.  The
 * caller frees it.  NULL if out of memory.
 */
char *link_dir (const char *path);

/* Returns the target of the link at 'path', which the caller frees.  NULL and errno; EINVAL: it is
 * no link; EPERM: it must not be followed.  *is_open is true, and NULL is returned, for a link of
 * /proc: its text is no name, it leads to an open file.
 */
char *link_target (const char *path, bool *is_open);

/* Set the text of a link that must not be followed, on the way to 'name'.  Returns -1, errno is
 * EACCES.
 */
int link_refuse (const char *name, const char *link, struct mg_error *err);

/* Check all links on the way to 'name', including 'name' itself.  Succeeds for a name that does
 * not exist.  Returns 0 or -1 with errno and a text: EACCES if a link must not be followed.
 */
int link_check (const char *name, struct mg_error *err);

#endif /* LIBCORE_FILE_LINK_H */
