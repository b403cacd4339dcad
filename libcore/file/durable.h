/* durable - files that are whole or not there after a crash.
 *
 * A file is written in full and fsynced under a name that no reader looks at, then
 * renamed; the directory is fsynced so that the name survives too.  All functions return
 * 0 or -1 with errno and a text "cannot VERB PATH: REASON".
 */
#ifndef LIBCORE_FILE_DURABLE_H
#define LIBCORE_FILE_DURABLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "megatron/error.h"

enum { DURABLE_ID_MAX = 17 };

/* 16 hexadecimal digits that no other save has, into id[DURABLE_ID_MAX]. */
void durable_make_id (char *id);

/* "PATH.tmp-ID" and the like by printf; NULL with a text if out of memory. Free it. */
char *durable_path (struct mg_error *err, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Create a file that must not exist, for writing; the descriptor, or -1. */
int durable_create (const char *path, struct mg_error *err);

/* Write all of it; 'path' is for the text. */
int durable_write (int fd, const char *path, const void *data, size_t len,
                   struct mg_error *err);

/* fsync and close; closed in any case. */
int durable_close (int fd, const char *path, struct mg_error *err);

/* Rename, replacing what has the new name. */
int durable_rename (const char *from, const char *to, struct mg_error *err);

/* fsync a directory; of 'path' itself, or of the one that 'path' stands in. */
int durable_sync_dir (const char *path, struct mg_error *err);
int durable_sync_parent (const char *path, struct mg_error *err);

/* Create a directory and what is missing above it; fine if it is there. */
int durable_make_dirs (const char *path, struct mg_error *err);

/* Read up to 'len' bytes: how many, fewer only at the end of the file; -1 and errno. */
ssize_t durable_read_full (int fd, char *data, size_t len);

/* Read a whole regular file of at most 'max' bytes: free *data. errno EFBIG beyond. */
int durable_read (const char *path, size_t max, char **data, size_t *len,
                  struct mg_error *err);

#endif /* LIBCORE_FILE_DURABLE_H */
