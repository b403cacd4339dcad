/* durable.c - files that are whole or not there after a crash
 *
 * Each function is one step of writing a file: create, write, fsync and close, rename, fsync of
 * the directory.  Errors name the verb and the path.  A descriptor is closed once, whatever
 * happens.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libcore/file/durable.h"
#include "libcore/file/link.h"

static int fail (struct mg_error *err, const char *verb, const char *path)
{
    return mg_error_set (err, errno, "cannot %s %s: %s", verb, path, strerror (errno));
}

void durable_make_id (char *id)
{
    uint64_t number;

    if (getrandom (&number, sizeof (number), GRND_NONBLOCK) != sizeof (number)) {
        struct timespec now;

        clock_gettime (CLOCK_REALTIME, &now);
        number = ((uint64_t)now.tv_sec << 32) ^ (uint64_t)now.tv_nsec
                 ^ (uint64_t)getpid () << 40;
    }
    snprintf (id, DURABLE_ID_MAX, "%016" PRIx64, number);
}

char *durable_path (struct mg_error *err, const char *fmt, ...)
{
    char *path;
    va_list ap;
    int len;

    va_start (ap, fmt);
    len = vasprintf (&path, fmt, ap);
    va_end (ap);
    if (len < 0) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    return path;
}

int durable_create (const char *path, struct mg_error *err)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    return fd < 0 ? fail (err, "create", path) : fd;
}

int durable_write (int fd, const char *path, const void *data, size_t len,
                   struct mg_error *err)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = write (fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail (err, "write", path);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int durable_close (int fd, const char *path, struct mg_error *err)
{
    int rc = fsync (fd) < 0 ? fail (err, "sync", path) : 0;
    int saved_errno = errno;

    /* Linux frees the descriptor whatever close says; after a good fsync nothing is
     * left that it could lose. */
    close (fd);
    errno = saved_errno;
    return rc;
}

int durable_rename (const char *from, const char *to, struct mg_error *err)
{
    if (rename (from, to) < 0)
        return mg_error_set (err, errno, "cannot rename %s to %s: %s", from, to,
                             strerror (errno));
    return 0;
}

int durable_sync_dir (const char *path, struct mg_error *err)
{
    int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0)
        return fail (err, "open", path);
    /* Some network file systems cannot sync a directory, and say so by EINVAL. */
    if (fsync (fd) < 0 && errno != EINVAL)
        rc = fail (err, "sync", path);
    close (fd);
    return rc;
}

int durable_sync_parent (const char *path, struct mg_error *err)
{
    char *parent, *slash;
    int rc;

    if (!(parent = strdup (path)))
        return mg_error_set (err, ENOMEM, "out of memory");
    slash = strrchr (parent, '/');
    if (!slash)
        rc = durable_sync_dir (".", err);
    else {
        slash[slash == parent] = '\0'; /* "/name" stands in "/" */
        rc = durable_sync_dir (parent, err);
    }
    free (parent);
    return rc;
}

static int make_dir (const char *path, struct mg_error *err)
{
    struct stat st;

    if (mkdir (path, 0777) == 0)
        return durable_sync_parent (path, err);
    if (errno == EEXIST || errno == EISDIR || errno == EROFS || errno == EACCES) {
        int saved_errno = errno;

        bool found = stat (path, &st) == 0;

        if (found && S_ISDIR (st.st_mode))
            return 0;
        if (saved_errno == EEXIST && !found)
            return fail (err, "look at", path);
        errno = found && saved_errno == EEXIST ? ENOTDIR : saved_errno;
    }
    return fail (err, "create directory", path);
}

int durable_make_dirs (const char *path, struct mg_error *err)
{
    char *part;
    int rc = 0;

    if (*path == '\0')
        return mg_error_set (err, EINVAL, "a directory's name is empty");
    if (link_check (path, err) < 0)
        return -1;
    if (!(part = strdup (path)))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (char *p = part + 1; rc == 0; p++) {
        char mark = *p;

        if (mark != '/' && mark != '\0')
            continue;
        *p = '\0';
        if (p[-1] != '/')
            rc = make_dir (part, err);
        *p = mark;
        if (mark == '\0')
            break;
    }
    free (part);
    return rc < 0 ? -1 : link_check (path, err); // another user may have made a link meanwhile
}

ssize_t durable_read_full (int fd, char *data, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = read (fd, data + got, len - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

int durable_read (const char *path, size_t max, char **data, size_t *len,
                  struct mg_error *err)
{
    int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *buf = NULL;
    struct stat st;
    ssize_t got;

    if (fd < 0)
        return fail (err, "open", path);
    if (fstat (fd, &st) < 0) {
        fail (err, "read", path);
        goto error;
    }
    if (!S_ISREG (st.st_mode)) {
        mg_error_set (err, EINVAL, "cannot read %s: not a regular file", path);
        goto error;
    }
    if ((uintmax_t)st.st_size > max) {
        mg_error_set (err, EFBIG, "cannot read %s: %jd bytes, at most %zu are expected",
                      path, (intmax_t)st.st_size, max);
        goto error;
    }
    if (!(buf = malloc ((size_t)st.st_size + 1))) {
        mg_error_set (err, ENOMEM, "cannot read %s: out of memory", path);
        goto error;
    }
    if ((got = durable_read_full (fd, buf, (size_t)st.st_size)) < 0) {
        fail (err, "read", path);
        goto error;
    }
    close (fd);
    buf[got] = '\0';
    *data = buf;
    *len = (size_t)got;
    return 0;
error:
    free (buf);
    close (fd);
    return -1;
}
