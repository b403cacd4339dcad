/* leftover.c - remove the unfinished files of this process
 *
 * /proc/self/fd has the open files with their present names.  Only functions that a signal handler
 * may call are used (signal-safety(7)), and getdents64(), which is a system call.  A name counts
 * only if it still leads to the open file, and a directory is read through its descriptor: other
 * users may write in the directories around.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/checkpoint/hf_dir.h"
#include "libcore/checkpoint/leftover.h"
#include "libcore/checkpoint/manifest_format.h"
#include "libcore/file/dirlock.h"
#include "libcore/file/durable.h"

/* outfile.c opens names with O_PATH | O_NOFOLLOW. */
enum { BLOCK = 4096, PASSES = 100, HELD = O_PATH | O_DIRECTORY, KIND = HELD | O_NOFOLLOW };

int leftover_hold_dir (const char *path)
{
    return open (path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int leftover_hold_file (int fd)
{
    char link[64];

    snprintf (link, sizeof (link), "/proc/self/fd/%d", fd);
    return open (link, O_PATH | O_CLOEXEC);
}

/* The ID at the end of NAME.tmp-ID, and 'begin' before it. */
static bool is_temporary (const char *path, const char *begin)
{
    const size_t digits = DURABLE_ID_MAX - 1, mark = strlen (".tmp-"), len = strlen (path);
    const char *slash = strrchr (path, '/'), *name = slash ? slash + 1 : path;

    return len > mark + digits && strncmp (path + len - digits - mark, ".tmp-", mark) == 0
           && strspn (path + len - digits, "0123456789abcdef") == digits
           && strncmp (name, begin, strlen (begin)) == 0;
}

static bool is_same (int fd, const char *path)
{
    struct stat a, b;

    return fstat (fd, &a) == 0 && lstat (path, &b) == 0 && a.st_dev == b.st_dev
           && a.st_ino == b.st_ino;
}

/* A file of a checkpoint. */
static bool is_part (const char *name)
{
    return strcmp (name, MANIFEST_NAME) == 0 || strncmp (name, "shard_", 6) == 0;
}

/* Call 'visit' for each name in the directory; how often it returned true. */
static int for_names (int dir, bool (*visit) (int dir, const char *name))
{
    _Alignas (struct dirent64) char block[BLOCK];
    int count = 0;
    ssize_t len;

    while ((len = getdents64 (dir, block, sizeof (block))) > 0) {
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *entry = (struct dirent64 *)(block + at);

            count += visit (dir, entry->d_name);
            at += entry->d_reclen;
        }
    }
    return count;
}

static bool remove_part (int dir, const char *name)
{
    return is_part (name) && unlinkat (dir, name, 0) == 0;
}

/* Other threads of this process may still add files. */
static void remove_held (int held, const char *path)
{
    for (int i = 0; i < PASSES; i++) {
        int dir = openat (held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir < 0)
            return;
        for_names (dir, remove_part);
        close (dir);
        if (rmdir (path) == 0 || errno != ENOTEMPTY)
            return;
    }
}

/* The lock of a directory, which no other process holds. */
static bool is_own_lock (int fd, const char *path)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const char *slash = strrchr (path, '/');

    return strcmp (slash + 1, DIRLOCK_NAME) == 0 && fcntl (fd, F_OFD_GETLK, &whole) == 0
           && whole.l_type == F_UNLCK;
}

/* True if a config.json is in the directory of the file.  The path has room for that name. */
static bool has_config (char path[PATH_MAX])
{
    char *name = strrchr (path, '/') + 1, kept[NAME_MAX + 1];
    struct stat st;
    bool there = true;

    if (strlen (name) < sizeof (kept) && name + sizeof (HF_CONFIG_NAME) <= path + PATH_MAX) {
        strcpy (kept, name);
        strcpy (name, HF_CONFIG_NAME);
        there = lstat (path, &st) == 0 || errno != ENOENT;
        strcpy (name, kept);
    }
    return there;
}

/* The present name of an open file, if it leads to that file. */
static bool name_of (int proc, const char *number, int fd, char path[PATH_MAX])
{
    ssize_t len = readlinkat (proc, number, path, PATH_MAX - 1);

    if (len <= 0 || path[0] != '/') // also "." and ".."
        return false;
    path[len] = '\0';
    return is_same (fd, path);
}

void leftover_remove_file (int held)
{
    char number[64], path[PATH_MAX];
    int saved_errno = errno;

    snprintf (number, sizeof (number), "/proc/self/fd/%d", held);
    if (held >= 0 && name_of (AT_FDCWD, number, held, path) && !has_config (path))
        unlink (path);
    errno = saved_errno;
}

/* One entry of /proc/self/fd. */
static bool remove_open (int proc, const char *number)
{
    char path[PATH_MAX];
    int fd = 0, flags;

    if (*number == '.') // "." and ".."
        return false;
    for (const char *digit = number; *digit; digit++)
        fd = fd * 10 + (*digit - '0');
    flags = fcntl (fd, F_GETFL);
    if (flags < 0 || !name_of (proc, number, fd, path))
        return false;
    if ((flags & HELD) == HELD && is_temporary (path, "iter_"))
        remove_held (fd, path);
    else if (!(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY
             && (is_temporary (path, "") || is_own_lock (fd, path)))
        unlink (path);
    else if ((flags & KIND) == O_PATH && !has_config (path))
        unlink (path);
    else
        return false;
    return true;
}

void leftover_remove_open (void)
{
    int saved_errno = errno;
    int proc = open ("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (proc >= 0) {
        for_names (proc, remove_open);
        close (proc);
    }
    errno = saved_errno;
}
