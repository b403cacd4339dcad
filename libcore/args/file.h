/* file - arguments from a file: words, as on a command line.
 *
 * Words are separated by white space, also by ends of lines; # at the start of a word begins
 * a comment that goes to the end of the line.  'single quotes' keep all between them,
 * "double quotes" too, but \" and \\ in them stand for " and \; a quote ends on its line.
 * Elsewhere a backslash keeps the character behind it, and goes together with an end of line:
 * the line goes on.  Nothing is expanded.
 */
#ifndef LIBCORE_ARGS_FILE_H
#define LIBCORE_ARGS_FILE_H

#include <stddef.h>

#include "megatron/error.h"

enum { ARGS_FILE_MAX = 1 << 20 }; /* bytes */

struct args_file {
    char *path;
    char *text;  /* what the words point into */
    char **word; /* [count], then NULL */
    int *line;   /* [count] where each begins, from 1 */
    int count;
    struct args_file *next; /* for whoever has several; not freed with this one */
};

/* Read a file, or a pipe to its end.  NULL with an errno of open() or read(), EFBIG (more
 * than ARGS_FILE_MAX bytes), EINVAL (a quote that is not closed, a zero byte) or ENOMEM, and
 * a text that names the path and the line.
 */
struct args_file *args_file_read (const char *path, struct mg_error *err);

/* The same of 'size' bytes of text that are copied. */
struct args_file *args_file_parse (const char *path, const char *text, size_t size,
                                   struct mg_error *err);

/* The bytes of a file, or of a pipe to its end, at most 'max': more than 'max' are cut after one
 * more.  NULL with an errno of open() or read() or ENOMEM, and a text that names the path.  The
 * caller frees the result.
 */
char *args_file_bytes (const char *path, size_t max, size_t *size, struct mg_error *err);

/* NULL is allowed. */
void args_file_destroy (struct args_file *file);

#endif /* LIBCORE_ARGS_FILE_H */
