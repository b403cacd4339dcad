/* output.c - files that a run writes
 *
 * Files are tried before the run begins, so that a wrong name costs no computing.  A resumed run
 * adds to a file; a new run starts it again.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/file/durable.h"
#include "libcore/file/outfile.h"
#include "libcore/train/output.h"

void output_write_real (FILE *file, const char *name, double value)
{
    if (isfinite (value))
        fprintf (file, ", \"%s\": %.9g", name, value);
    else
        fprintf (file, ", \"%s\": null", name);
}

int output_check_file (const char *argument, const char *path, struct mg_error *err)
{
    if (path && outfile_check (path, OUTFILE_WHOLE, err) < 0)
        return mg_error_set (err, errno, "%s %s", argument, err ? err->text : "");
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

struct dirlock *output_lock_dir (const char *argument, const char *path, struct mg_error *err)
{
    struct dirlock *lock = NULL;

    if (output_make_dir (argument, path, err) == 0 && !(lock = dirlock_take (path, err)))
        mg_error_set (err, errno, "%s %s", argument, err ? err->text : "");
    return lock;
}

FILE *output_open (const char *argument, const char *path, enum outfile_kind kind,
                   struct mg_error *err)
{
    FILE *file = outfile_append (path, kind, err);

    if (!file)
        mg_error_set (err, errno, "%s %s", argument, err ? err->text : "");
    return file;
}

/* True for standard output and standard error. */
static bool is_standard (const struct stat *st)
{
    struct stat other;

    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fstat (fd, &other) == 0 && other.st_dev == st->st_dev
            && other.st_ino == st->st_ino)
            return true;
    }
    return false;
}

int output_restart (FILE *file, const char *argument, const char *path,
                    struct mg_error *err)
{
    struct stat st;

    if (fstat (fileno (file), &st) == 0 && (!S_ISREG (st.st_mode) || is_standard (&st)))
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
    /* A line-buffered stream has lost the errno of its failure: write once more. */
    if (errno == 0 && write (fileno (out), "\n", 1) >= 0)
        errno = EIO;
    return errno;
}

int output_close (FILE **file, const char *argument, const char *path, struct mg_error *err)
{
    struct stat st;
    FILE *f = *file;
    int errnum;

    if (!f)
        return 0;
    *file = NULL;
    errnum = output_error (f);
    if (errnum == 0 && fstat (fileno (f), &st) == 0 && S_ISREG (st.st_mode)
        && fsync (fileno (f)) < 0)
        errnum = errno;
    if (fclose (f) != 0 && errnum == 0)
        errnum = errno;
    if (errnum != 0)
        return mg_error_set (err, errnum, "%s %s: it cannot be written: %s", argument, path,
                             strerror (errnum));
    return 0;
}
