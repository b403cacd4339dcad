/* link.c - symbolic links on the way to what this user writes */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "libcore/file/link.h"

enum { OVERFLOW_UID = 65534 }; /* the owner of files whose owner has no number here */

char *link_dir (const char *path)
{
    const char *slash = strrchr (path, '/');

    return strndup (path, slash ? (size_t)(slash - path) + 1 : 0);
}

/* True if a file's owner is root, or may be.  In a user namespace, root outside may have no number:
 * root then shows as OVERFLOW_UID, as all others without a number do (user_namespaces(7)).
 */
static bool may_be_root (uid_t owner)
{
    unsigned inside = 0, outside = 0;
    FILE *map;

    if (owner != OVERFLOW_UID || !(map = fopen ("/proc/self/uid_map", "re")))
        return owner == 0;
    if (fscanf (map, "%u %u", &inside, &outside) != 2)
        inside = outside = 0;
    fclose (map);
    return inside != 0 || outside != 0; // else root has its number
}

/* True if the link at 'path' in 'dir' may be followed: if this user or root has made it,
 * or if no other user can write in the directory.  The kernel has a similar rule for
 * directories like /tmp (protected_symlinks in proc(5)), but another user could make the
 * link just after the kernel has looked.
 */
static bool may_follow (const struct stat *link, const char *dir)
{
    const mode_t others = S_IWGRP | S_IWOTH;
    struct stat st;

    if (link->st_uid == geteuid () || link->st_uid == 0)
        return true;
    return stat (dir, &st) == 0 && !(st.st_mode & others)
           && (st.st_uid == geteuid () || may_be_root (st.st_uid));
}

/* The text of the link at 'path', which stands in 'dir', into 'text'.  -1 and errno; EINVAL: it
 * is no link; EPERM: it may not be followed.
 */
static int read_text (const char *path, const char *dir, char text[PATH_MAX])
{
    int fd = open (path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    ssize_t len = -1;
    struct stat st;

    if (fd < 0)
        return -1;
    if (fstat (fd, &st) < 0 || !S_ISLNK (st.st_mode))
        errno = EINVAL;
    else if (!may_follow (&st, dir))
        errno = EPERM;
    else if ((len = readlinkat (fd, "", text, PATH_MAX - 1)) >= 0)
        text[len] = '\0';
    close (fd); // which keeps errno: nothing was written
    return len < 0 ? -1 : 0;
}

char *link_target (const char *path, bool *is_open)
{
    char text[PATH_MAX], *dir = link_dir (path), *to = NULL;
    struct statfs fs;

    if (!dir) {
        errno = ENOMEM;
        return NULL;
    }
    if (read_text (path, *dir ? dir : ".", text) < 0)
        ; // errno says why
    else if (statfs (*dir ? dir : ".", &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC)
        *is_open = true;
    else if (text[0] == '/')
        to = strdup (text);
    else if (asprintf (&to, "%s%s", dir, text) < 0)
        to = NULL;
    free (dir);
    return to;
}

int link_refuse (const char *name, const char *link, struct mg_error *err)
{
    return mg_error_set (err, EACCES, "%s: cannot write: another user has made the link %s; only "
                         "links that this user or root has made are followed there", name, link);
}

/* --- all components of a name --- */

/* A name that is checked. */
struct way {
    const char *name;
    int links; /* that were followed */
    struct mg_error *err;
};

static int check_link (struct way *way, const char *path);

/* Check the components of 'path' behind its first 'from' bytes, in their order. */
static int check_components (struct way *way, const char *path, size_t from)
{
    size_t end = from;
    int rc = 0;

    while (rc == 0 && path[end]) {
        char *part;

        end += strspn (path + end, "/");
        end += strcspn (path + end, "/");
        if (!(part = strndup (path, end)))
            return mg_error_set (way->err, ENOMEM, "%s: out of memory", way->name);
        rc = check_link (way, part);
        free (part);
    }
    return rc;
}

/* Check 'path', whose directory was checked, and all that it leads through if it is a link.  What
 * cannot be looked at, and a loop, is an error of the call that uses the name.
 */
static int check_link (struct way *way, const char *path)
{
    bool is_open = false;
    char *to = link_target (path, &is_open);
    size_t from = 0;
    int rc = 0;

    if (!to && !is_open && errno == EPERM)
        return link_refuse (way->name, path, way->err);
    if (!to && !is_open && errno == ENOMEM)
        return mg_error_set (way->err, ENOMEM, "%s: out of memory", way->name);
    if (to && way->links++ < LINK_MAX_FOLLOWED) {
        if (*to != '/' && strrchr (path, '/'))
            from = (size_t)(strrchr (path, '/') - path) + 1;
        rc = check_components (way, to, from);
    }
    free (to);
    return rc;
}

int link_check (const char *name, struct mg_error *err)
{
    struct way way = { .name = name, .err = err };

    return check_components (&way, name, 0);
}
