/* durable - after a crash, a file is either complete or absent.
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

/* Write 16 hexadecimal digits into id[DURABLE_ID_MAX], which differ from those of every
 * other save. */
void durable_make_id (char *id);

/* Make a path by printf, such as "PATH.tmp-ID".  The caller frees it.  NULL with a text
 * if out of memory. */
char *durable_path (struct mg_error *err, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Create a file for writing.  The file must not exist.  Returns the descriptor, or -1. */
int durable_create (const char *path, struct mg_error *err);

/* Write all bytes.  'path' is only used in the text of an error. */
int durable_write (int fd, const char *path, const void *data, size_t len,
                   struct mg_error *err);

/* Fsync and close the file.  It is closed in any case. */
int durable_close (int fd, const char *path, struct mg_error *err);

/* Rename a file.  A file that has the new name is replaced. */
int durable_rename (const char *from, const char *to, struct mg_error *err);

/* Fsync a directory: 'path' itself, or the directory that contains 'path'. */
int durable_sync_dir (const char *path, struct mg_error *err);
int durable_sync_parent (const char *path, struct mg_error *err);

/* Create a directory and its missing parents.  An existing directory is no error.  EACCES if
 * another user has made a link on the way (link.h).
 */
int durable_make_dirs (const char *path, struct mg_error *err);

/* Read up to 'len' bytes.  Returns the number of bytes, which is below 'len' only at the
 * end of the file, or -1 with errno. */
ssize_t durable_read_full (int fd, char *data, size_t len);

/* Read a whole regular file of at most 'max' bytes.  The caller frees *data.  EFBIG if
 * the file is larger. */
int durable_read (const char *path, size_t max, char **data, size_t *len,
                  struct mg_error *err);

#endif /* LIBCORE_FILE_DURABLE_H */
