/* output.c - files that a run writes */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/checkpoint/durable.h"
#include "libcore/train/output.h"

int output_check_file (const char *argument, const char *path, struct mg_error *err)
{
    const char *slash = path ? strrchr (path, '/') : NULL;
    struct stat st;
    char *dir;
    int rc;

    if (!path)
        return 0;
    if (stat (path, &st) == 0 && S_ISDIR (st.st_mode))
        return mg_error_set (err, EISDIR, "%s %s: it is a directory", argument, path);
    if (!(dir = slash ? strndup (path, (size_t)(slash - path) + 1) : strdup (".")))
        return mg_error_set (err, ENOMEM, "%s: out of memory", argument);
    rc = access (dir, W_OK | X_OK);
    free (dir);
    if (rc < 0)
        return mg_error_set (err, errno, "%s %s: its directory cannot be written: %s", argument,
                             path, strerror (errno));
    return 0;
}

int output_make_dir (const char *argument, const char *path, struct mg_error *err)
{
    if (!path)
        return 0;
    if (durable_make_dirs (path, err) < 0)
        return mg_error_prefix (err, "%s", argument);
    if (access (path, W_OK | X_OK) < 0)
        return mg_error_set (err, errno, "%s %s: it cannot be written: %s", argument, path,
                             strerror (errno));
    return 0;
}

FILE *output_open (const char *argument, const char *path, struct mg_error *err)
{
    FILE *file = fopen (path, "ae");

    if (!file)
        mg_error_set (err, errno, "%s %s: cannot open: %s", argument, path,
                      strerror (errno));
    return file;
}

int output_restart (FILE *file, const char *argument, const char *path,
                    struct mg_error *err)
{
    struct stat st;

    if (fstat (fileno (file), &st) == 0 && !S_ISREG (st.st_mode))
        return 0;
    if (ftruncate (fileno (file), 0) < 0)
        return mg_error_set (err, errno, "%s %s: cannot empty it: %s", argument, path,
                             strerror (errno));
    return 0;
}

int output_error (FILE *out)
{
    errno = 0;
    if (fflush (out) == 0 && !ferror (out))
        return 0;
    /* A stream that flushes itself at each line has forgotten why: try once more. */
    if (errno == 0 && write (fileno (out), "\n", 1) >= 0)
        errno = EIO;
    return errno;
}
