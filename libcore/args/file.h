/* file - arguments from a file, as words like those of a command line.
 *
 * Words are separated by white space, also by ends of lines; # at the start of a word begins
 * a comment that goes to the end of the line.  'single quotes' keep all characters
 * between them.  "double quotes" do the same, but \" and \\ in them stand for " and \.  A
 * quote ends on its line.  Outside of quotes, a backslash keeps the next character, and a
 * backslash at the end of a line joins the line and the next one.  Nothing is expanded.
 */
#ifndef LIBCORE_ARGS_FILE_H
#define LIBCORE_ARGS_FILE_H

#include <stddef.h>

#include "megatron/error.h"

enum { ARGS_FILE_MAX = 1 << 20 }; /* bytes */

struct args_file {
    char *path;
    char *text;  /* the memory that the words point into */
    char **word; /* [count], then NULL */
    int *line;   /* [count] the line in which each word begins, from 1 */
    int count;
    struct args_file *next; /* link for a caller with several files; not freed with this one */
};

/* Read a file, or a pipe to its end.  NULL with an errno of open() or read(), EFBIG (more
 * than ARGS_FILE_MAX bytes), EINVAL (a quote that is not closed, a zero byte) or ENOMEM, and
 * a text that names the path and the line.
 */
struct args_file *args_file_read (const char *path, struct mg_error *err);

/* Parse 'size' bytes of text, which are copied. */
struct args_file *args_file_parse (const char *path, const char *text, size_t size,
                                   struct mg_error *err);

/* Read the bytes of a file, or of a pipe to its end.  At most 'max' + 1 bytes are read: a
 * *size above 'max' means that there is more.  NULL with an errno of open() or read() or
 * ENOMEM, and a text that names the path.  The caller frees the result.
 */
char *args_file_bytes (const char *path, size_t max, size_t *size, struct mg_error *err);

/* NULL is allowed. */
void args_file_destroy (struct args_file *file);

#endif /* LIBCORE_ARGS_FILE_H */
