/* outfile - a file that is written under a name that the user gives.
 *
 * The file is written under another name in the same directory, NAME.tmp-ID.  When it is
 * complete, it is fsynced and renamed.  So a reader sees either the older file or the
 * whole new one.  rename() would replace a link or a device of that name by a plain file.  So these
 * functions first look at the file of that name, and do the following:
 *
 *   no such file        the file is made; its directory must exist
 *   regular file        replaced
 *   symbolic link       the link stays, and the file that it leads to is made or replaced; a
 *                       link that neither this user nor root has made is refused, unless it
 *                       stands in a directory where only these two can write
 *   FIFO, character     refused; with OUTFILE_STREAM it is opened and written to, a FIFO only
 *   device              if some process reads it
 *   link of /proc       such as /dev/stdout: it leads to an open file that rename() could not
 *                       replace, and is treated as a FIFO
 *   directory, block    refused
 *   device, socket
 *
 * Files NAME.tmp-ID that a killed process has left are removed when NAME is written again.
 * A living writer holds a lock (flock) on its file, and such a file stays.
 *
 * All functions return 0 or -1 with errno and a text that names the file as the user did.
 */
#ifndef LIBCORE_FILE_OUTFILE_H
#define LIBCORE_FILE_OUTFILE_H

#include <stddef.h>
#include <stdio.h>
#include <sys/uio.h>

#include "megatron/error.h"

enum outfile_kind { OUTFILE_WHOLE, OUTFILE_STREAM };

/* A file that is being written.  A struct of zeros is no file; outfile_drop() accepts
 * it. */
struct outfile {
    char *name; /* as the user gave it */
    char *path; /* the file that the name leads to, NULL for a stream */
    char *tmp;  /* the file's name until it is complete, NULL if no such file exists */
    int fd;     /* the caller writes to it, unless 'stream' is set */
    FILE *stream;
};

/* Check that 'name' could be written now: look at the file of that name and at the permissions of
 * its directory.  The function makes no file.
 */
int outfile_check (const char *name, enum outfile_kind kind, struct mg_error *err);

/* Check that a file of the name 'output' would not replace the file 'input', or, if
 * 'input' is a directory, a file below it.  Two names are the same if they lead to the
 * same file: by links, by ./, or as hard links.  EINVAL if the names are the same.
 */
int outfile_check_input (const char *output, const char *input, struct mg_error *err);

/* Begin to write.  After a failure, outfile_drop() is not needed. */
int outfile_create (struct outfile *f, const char *name, enum outfile_kind kind,
                    struct mg_error *err);

/* Make f->stream.  From here on the caller writes to f->stream and not to f->fd. */
int outfile_open_stream (struct outfile *f, struct mg_error *err);

/* Set the text of a failed write from errno: "cannot write NAME: REASON".  Returns -1. */
int outfile_write_failed (const struct outfile *f, struct mg_error *err);

/* Flush and fsync a file; flush and close a FIFO or device.  Call this after the last
 * write. */
int outfile_finish (struct outfile *f, struct mg_error *err);

/* Give the finished file its name.  The name survives a power failure after outfile_sync_dir(). */
int outfile_publish (struct outfile *f, struct mg_error *err);

/* Fsync the directory of the file.  Succeeds without an fsync if the directory cannot be
 * read, or if its file system has no fsync of directories.
 */
int outfile_sync_dir (const struct outfile *f, struct mg_error *err);

/* Call the three functions above, then outfile_drop() in any case.  After -1 the old file is still
 * there, unless only the fsync of the directory failed.
 */
int outfile_commit (struct outfile *f, struct mg_error *err);

/* Close and free the file.  A file that was not published is removed.  Keeps errno. */
void outfile_drop (struct outfile *f);

/* Write a whole small file, from several pieces of memory or from one. */
int outfile_replace_parts (const char *name, const struct iovec *parts, int num_parts,
                           struct mg_error *err);
int outfile_replace (const char *name, const void *data, size_t len, struct mg_error *err);

/* Open a file for appending under its own name; a missing file is made.  This is for
 * files that are read while they are written.  The file is regular or, with
 * OUTFILE_STREAM, a character device or a FIFO that some process reads.  Links are
 * followed as above.
 */
FILE *outfile_append (const char *name, enum outfile_kind kind, struct mg_error *err);

#endif /* LIBCORE_FILE_OUTFILE_H */
