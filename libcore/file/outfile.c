/* outfile.c - a file that is written under a name that the user gives
 *
 * outfile_create() decides what the name leads to and opens a new file beside it, or the stream.
 * The file is locked until it has its final name, so that no process removes it as a
 * leftover.  Until the rename, nothing that a reader sees has changed.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/file/durable.h"
#include "libcore/file/link.h"
#include "libcore/file/outfile.h"

enum {
    ID_CHARS = DURABLE_ID_MAX - 1,
    TMP_BASE_MAX = NAME_MAX - 5 - ID_CHARS, /* of a name before ".tmp-ID" */
    CREATE_TRIES = 100,
    INPUT_DEPTH = 2 /* a directory of checkpoints, a checkpoint */
};

/* --- what a name leads to --- */

static bool is_stream (mode_t mode)
{
    return S_ISFIFO (mode) || S_ISCHR (mode);
}

static const char *type_name (mode_t mode)
{
    return S_ISDIR (mode)    ? "a directory"
           : S_ISFIFO (mode) ? "a FIFO"
           : S_ISSOCK (mode) ? "a socket"
           : S_ISCHR (mode)  ? "a character device"
           : S_ISBLK (mode)  ? "a block device"
                             : "no regular file";
}

static const char *base_of (const char *path)
{
    const char *slash = strrchr (path, '/');

    return slash ? slash + 1 : path;
}

/* The target of a name.  A caller that opens 'path' follows no link, unless 'is_open' is
 * set. */
struct target {
    char *path;    /* at the end of all links: no link, or one of /proc */
    bool is_open;  /* 'path' is a link of /proc to an open file */
    bool exists;
    bool stream;   /* a FIFO or a device, or an open file: opened as it is */
};

/* Follow all links. */
static int resolve (const char *name, struct target *t, struct mg_error *err)
{
    char *to;

    t->path = strdup (name);
    for (int i = 0; t->path; i++) {
        if (!(to = link_target (t->path, &t->is_open))) {
            if (t->is_open || errno == ENOENT || errno == EINVAL)
                return 0;
            break;
        }
        free (t->path);
        t->path = to;
        if (i == LINK_MAX_FOLLOWED) {
            errno = ELOOP;
            break;
        }
    }
    if (!t->path)
        return mg_error_set (err, ENOMEM, "%s: out of memory", name);
    if (errno == EPERM)
        return link_refuse (name, t->path, err);
    return mg_error_set (err, errno, "%s: cannot write: %s", name, strerror (errno));
}

/* Check that the file can be written to.  Sets t->exists and t->stream. */
static int check_type (const char *name, enum outfile_kind kind, struct target *t,
                       struct mg_error *err)
{
    struct stat st;

    if ((t->is_open ? stat (t->path, &st) : lstat (t->path, &st)) < 0) {
        if (errno == ENOENT)
            return 0;
        return mg_error_set (err, errno, "%s: cannot write: %s", name, strerror (errno));
    }
    t->exists = true;
    t->stream = kind == OUTFILE_STREAM
                && (is_stream (st.st_mode) || (t->is_open && S_ISREG (st.st_mode)));
    if (t->stream || S_ISREG (st.st_mode))
        return 0;
    return mg_error_set (err, S_ISDIR (st.st_mode) ? EISDIR : EINVAL, "%s: it is %s", name,
                         type_name (st.st_mode));
}

/* Find what a name leads to, and check that it can be written to: free t->path. */
static int find_target (const char *name, enum outfile_kind kind, struct target *t,
                        struct mg_error *err)
{
    *t = (struct target){ .path = NULL };
    if (resolve (name, t, err) == 0 && check_type (name, kind, t, err) == 0)
        return 0;
    free (t->path);
    t->path = NULL;
    return -1;
}

static int check_dir (const char *name, const char *path, struct mg_error *err)
{
    char *dir = link_dir (path);
    int rc;

    if (!dir)
        return mg_error_set (err, ENOMEM, "%s: out of memory", name);
    rc = access (*dir ? dir : ".", W_OK | X_OK);
    free (dir);
    if (rc < 0)
        return mg_error_set (err, errno, "%s: its directory cannot be written: %s", name,
                             strerror (errno));
    if (*base_of (path) == '\0' || strcmp (base_of (path), ".") == 0
        || strcmp (base_of (path), "..") == 0)
        return mg_error_set (err, EISDIR, "%s: it names a directory, want a file", name);
    return 0;
}

/* The same, for a file that is renamed. */
static int look (const char *name, enum outfile_kind kind, struct target *t,
                 struct mg_error *err)
{
    int rc = 0;

    if (find_target (name, kind, t, err) < 0)
        return -1;
    if (t->is_open && !t->stream)
        rc = mg_error_set (err, ELOOP, "%s: it leads to an open file, want the name of one", name);
    else if (!t->stream)
        rc = check_dir (name, t->path, err);
    if (rc == 0)
        return 0;
    free (t->path);
    t->path = NULL;
    return -1;
}

int outfile_check (const char *name, enum outfile_kind kind, struct mg_error *err)
{
    struct target t;
    int rc = look (name, kind, &t, err);

    free (t.path);
    return rc;
}

/* --- inputs --- */

/* True if 'file' is the file 'name' of the directory that is open as 'at', or if 'name' is a
 * directory that has it, at most 'depth' directories down.
 */
static bool is_or_has (int at, const char *name, const struct stat *file, int depth)
{
    struct dirent *found;
    bool same = false;
    struct stat st;
    DIR *d;
    int fd;

    if (fstatat (at, name, &st, 0) < 0)
        return false;
    if (!S_ISDIR (st.st_mode) || depth == 0)
        return st.st_dev == file->st_dev && st.st_ino == file->st_ino;
    if ((fd = openat (at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return false;
    if (!(d = fdopendir (fd))) {
        close (fd);
        return false;
    }
    while (!same && (found = readdir (d))) {
        if (strcmp (found->d_name, ".") != 0 && strcmp (found->d_name, "..") != 0)
            same = is_or_has (fd, found->d_name, file, depth - 1);
    }
    closedir (d);
    return same;
}

int outfile_check_input (const char *output, const char *input, struct mg_error *err)
{
    struct stat st;

    if (stat (output, &st) < 0 || !S_ISREG (st.st_mode)
        || !is_or_has (AT_FDCWD, input, &st, INPUT_DEPTH))
        return 0;
    return mg_error_set (err, EINVAL, "%s: the output would replace the input %s, choose another "
                         "name", output, input);
}

/* --- what killed writers have left --- */

/* True if it is BASE.tmp-ID. */
static bool is_leftover (const char *name, const char *base, size_t len)
{
    return strncmp (name, base, len) == 0 && strncmp (name + len, ".tmp-", 5) == 0
           && strlen (name + len + 5) == ID_CHARS
           && strspn (name + len + 5, "0123456789abcdef") == ID_CHARS;
}

/* Remove a regular file of this user's that nobody has locked.  Where locks do not work it
 * stays.
 */
static void remove_leftover (int dir, const char *name)
{
    int fd = openat (dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return;
    if (fstat (fd, &st) == 0 && S_ISREG (st.st_mode) && st.st_uid == geteuid ()
        && flock (fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat (dir, name, 0);
    close (fd);
}

static void remove_leftovers (const char *path, size_t base_len)
{
    char *dir = link_dir (path);
    struct dirent *found;
    DIR *d;

    if (!dir)
        return;
    if ((d = opendir (*dir ? dir : "."))) {
        while ((found = readdir (d))) {
            if (is_leftover (found->d_name, base_of (path), base_len))
                remove_leftover (dirfd (d), found->d_name);
        }
        closedir (d);
    }
    free (dir);
}

/* --- writing --- */

/* True if the file still has its name.  Another process may have removed it as a leftover
 * before the lock.
 */
static bool is_there (int fd)
{
    struct stat st;

    return fstat (fd, &st) < 0 || st.st_nlink > 0; // a file whose state is unknown is kept
}

/* Give the new file the permissions of the file that it replaces. */
static void keep_mode (const struct outfile *f)
{
    struct stat st;

    if (lstat (f->path, &st) == 0 && S_ISREG (st.st_mode)
        && fchmod (f->fd, st.st_mode & 0777) < 0)
        errno = 0; // some file systems have no modes
}

/* A new file beside f->path, locked where the file system can. */
static int create_tmp (struct outfile *f, struct mg_error *err)
{
    const char *base = base_of (f->path);
    const int dir_len = (int)(base - f->path);
    size_t len = strlen (base);
    char id[DURABLE_ID_MAX];

    if (len > TMP_BASE_MAX)
        len = TMP_BASE_MAX;
    remove_leftovers (f->path, len);
    for (int i = 0; i < CREATE_TRIES; i++) {
        durable_make_id (id);
        free (f->tmp);
        if (asprintf (&f->tmp, "%.*s%.*s.tmp-%s", dir_len, f->path, (int)len, base, id) < 0) {
            f->tmp = NULL;
            return mg_error_set (err, ENOMEM, "%s: out of memory", f->name);
        }
        f->fd = open (f->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno == EEXIST)
            continue;
        if (f->fd < 0)
            break;
        if ((flock (f->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            && is_there (f->fd)) {
            keep_mode (f);
            return 0;
        }
        close (f->fd);
        f->fd = -1;
        errno = EEXIST;
    }
    mg_error_set (err, errno, "%s: cannot create: %s", f->name, strerror (errno));
    free (f->tmp); /* there is no such file, or it is not ours */
    f->tmp = NULL;
    return -1;
}

/* Open what a name leads to, and make it if it is missing.  A link that another user has put in its
 * place is not followed.  A FIFO that no process reads is an error: open() does not wait for a
 * reader.
 */
static int open_target (const char *name, const struct target *t, struct mg_error *err)
{
    /* O_CREAT only where it is needed: the kernel forbids it for FIFOs of others in /tmp. */
    int flags = (t->exists ? 0 : O_CREAT) | (t->is_open ? 0 : O_NOFOLLOW);
    int fd = open (t->path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);

    if (fd < 0 && errno == ENXIO)
        return mg_error_set (err, ENXIO, "%s: no process reads it", name);
    if (fd < 0)
        return mg_error_set (err, errno, "%s: cannot open: %s", name, strerror (errno));
    if (fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) & ~O_NONBLOCK) < 0) {
        mg_error_set (err, errno, "%s: cannot open: %s", name, strerror (errno));
        close (fd);
        return -1;
    }
    return fd;
}

int outfile_create (struct outfile *f, const char *name, enum outfile_kind kind,
                    struct mg_error *err)
{
    struct target t = { .path = NULL };
    int rc;

    *f = (struct outfile){ .fd = -1 };
    if (!(f->name = strdup (name))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", name);
        goto error;
    }
    if (look (name, kind, &t, err) < 0)
        goto error;
    if (t.stream) {
        rc = f->fd = open_target (name, &t, err);
        free (t.path);
    }
    else {
        f->path = t.path;
        rc = create_tmp (f, err);
    }
    if (rc < 0)
        goto error;
    return 0;
error:
    outfile_drop (f);
    return -1;
}

int outfile_open_stream (struct outfile *f, struct mg_error *err)
{
    if (!(f->stream = fdopen (f->fd, "w")))
        return outfile_write_failed (f, err);
    f->fd = -1;
    return 0;
}

int outfile_write_failed (const struct outfile *f, struct mg_error *err)
{
    return mg_error_set (err, errno, "cannot write %s: %s", f->name, strerror (errno));
}

/* A file stays open, and so locked, until it has its name: an fsync that succeeds leaves
 * nothing that a close could lose.
 */
int outfile_finish (struct outfile *f, struct mg_error *err)
{
    if (f->stream && fflush (f->stream) != 0)
        return outfile_write_failed (f, err);
    if (f->stream && ferror (f->stream)) {
        errno = EIO; /* an earlier write, whose reason nobody has kept */
        return outfile_write_failed (f, err);
    }
    if (f->path)
        return fsync (f->stream ? fileno (f->stream) : f->fd) == 0
                   ? 0
                   : outfile_write_failed (f, err);
    if (f->stream ? fclose (f->stream) != 0 : close (f->fd) < 0) {
        f->stream = NULL;
        f->fd = -1;
        return outfile_write_failed (f, err);
    }
    f->stream = NULL;
    f->fd = -1;
    return 0;
}

int outfile_publish (struct outfile *f, struct mg_error *err)
{
    if (!f->path)
        return 0;
    if (rename (f->tmp, f->path) < 0)
        return mg_error_set (err, errno, "cannot rename %s to %s: %s", f->tmp, f->path,
                             strerror (errno));
    free (f->tmp);
    f->tmp = NULL;
    return 0;
}

int outfile_sync_dir (const struct outfile *f, struct mg_error *err)
{
    if (!f->path || durable_sync_parent (f->path, err) == 0 || errno == EACCES)
        return 0;
    return -1;
}

int outfile_commit (struct outfile *f, struct mg_error *err)
{
    int rc = -1;

    if (outfile_finish (f, err) == 0 && outfile_publish (f, err) == 0)
        rc = outfile_sync_dir (f, err);
    outfile_drop (f);
    return rc;
}

void outfile_drop (struct outfile *f)
{
    int saved_errno = errno;

    if (f->name) {
        if (f->tmp)
            unlink (f->tmp);
        if (f->stream)
            fclose (f->stream);
        else if (f->fd >= 0)
            close (f->fd);
        free (f->name);
        free (f->path);
        free (f->tmp);
    }
    *f = (struct outfile){ .name = NULL };
    errno = saved_errno;
}

int outfile_replace_parts (const char *name, const struct iovec *parts, int num_parts,
                           struct mg_error *err)
{
    struct outfile f;
    int rc = 0;

    if (outfile_create (&f, name, OUTFILE_WHOLE, err) < 0)
        return -1;
    for (int i = 0; rc == 0 && i < num_parts; i++)
        rc = durable_write (f.fd, name, parts[i].iov_base, parts[i].iov_len, err);
    if (rc == 0)
        return outfile_commit (&f, err);
    outfile_drop (&f);
    return -1;
}

int outfile_replace (const char *name, const void *data, size_t len, struct mg_error *err)
{
    const struct iovec whole = { (void *)data, len };

    return outfile_replace_parts (name, &whole, 1, err);
}

FILE *outfile_append (const char *name, enum outfile_kind kind, struct mg_error *err)
{
    FILE *file = NULL;
    struct target t;
    int fd;

    if (find_target (name, kind, &t, err) < 0)
        return NULL;
    fd = open_target (name, &t, err);
    if (fd >= 0 && !(file = fdopen (fd, "a"))) {
        mg_error_set (err, errno, "%s: cannot open: %s", name, strerror (errno));
        close (fd);
    }
    free (t.path);
    return file;
}
