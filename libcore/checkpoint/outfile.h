/* outfile - a file that is written under a name that the user gives.
 *
 * The file is written under another name in the same directory, NAME.tmp-ID, fsynced, and
 * renamed once it is complete: a reader sees the older file or the whole new one.  A rename
 * replaces whatever has the name, so that the name is looked at first:
 *
 *   no such file        the file is made; its directory must be there
 *   regular file        replaced
 *   symbolic link       the link stays, and the file that it leads to is made or replaced; a
 *                       link of another user in a sticky directory (/tmp) is refused
 *   FIFO, character     refused; with OUTFILE_STREAM it is opened as it is and written to,
 *   device              a FIFO only if some process reads it
 *   link of /proc       such as /dev/stdout: it leads to an open file, which has no name that
 *                       could be renamed to.  Treated as a FIFO
 *   directory, block    refused
 *   device, socket
 *
 * Files NAME.tmp-ID that a killed process has left are removed when NAME is written again.
 * A living writer holds a lock (flock) on its file, and such a file stays.
 *
 * All functions return 0 or -1 with errno and a text that names the file as the user did.
 */
#ifndef LIBCORE_CHECKPOINT_OUTFILE_H
#define LIBCORE_CHECKPOINT_OUTFILE_H

#include <stddef.h>
#include <stdio.h>
#include <sys/uio.h>

#include "megatron/error.h"

enum outfile_kind { OUTFILE_WHOLE, OUTFILE_STREAM };

/* One that is being written; all zero is none, which outfile_drop() takes. */
struct outfile {
    char *name; /* as the user gave it */
    char *path; /* the file that it leads to, NULL for a stream */
    char *tmp;  /* its name until it is complete, NULL once there is no such file */
    int fd;     /* to write to, unless 'stream' is */
    FILE *stream;
};

/* Could 'name' be written now?  What is there, its kind, and whether its directory can be
 * written are looked at; nothing is made.
 */
int outfile_check (const char *name, enum outfile_kind kind, struct mg_error *err);

/* Begin to write.  After a failure there is nothing to drop. */
int outfile_create (struct outfile *f, const char *name, enum outfile_kind kind,
                    struct mg_error *err);

/* Write by way of f->stream from here on. */
int outfile_open_stream (struct outfile *f, struct mg_error *err);

/* The text of a failed write, by errno: "cannot write NAME: REASON". Returns -1. */
int outfile_write_failed (const struct outfile *f, struct mg_error *err);

/* All is written: flush and fsync; a stream is closed. */
int outfile_finish (struct outfile *f, struct mg_error *err);

/* Give the finished file its name; that the name lasts is outfile_sync_dir()'s. */
int outfile_publish (struct outfile *f, struct mg_error *err);

/* fsync the directory of the file.  A directory that can be written but not read, or whose
 * file system cannot do so, is left to the system.
 */
int outfile_sync_dir (const struct outfile *f, struct mg_error *err);

/* The last three, and outfile_drop() in any case: 0, or -1 and the old file is there, unless
 * only its directory could not be synced.
 */
int outfile_commit (struct outfile *f, struct mg_error *err);

/* Close and free; a file that was not published is removed.  errno is kept. */
void outfile_drop (struct outfile *f);

/* A whole small file, from several pieces of memory or from one. */
int outfile_replace_parts (const char *name, const struct iovec *parts, int num_parts,
                           struct mg_error *err);
int outfile_replace (const char *name, const void *data, size_t len, struct mg_error *err);

/* Open for appending a file that is read while it is written, made if it is missing: regular,
 * or, with OUTFILE_STREAM, also a character device, or a FIFO that some process reads.
 */
FILE *outfile_append (const char *name, enum outfile_kind kind, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_OUTFILE_H */
