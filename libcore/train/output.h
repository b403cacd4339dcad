/* output - files that a run writes, tried before it begins. */
#ifndef LIBCORE_TRAIN_OUTPUT_H
#define LIBCORE_TRAIN_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "megatron/error.h"

/* Can 'path', which will be written to a temporary name beside it and renamed, be
 * written?  NULL: nothing to write. Leaves nothing behind. -1 and a text that names the
 * argument.
 */
int output_check_file (const char *argument, const char *path, struct mg_error *err);

/* Make the directory where it is missing; can files be made in it? NULL: none wanted. */
int output_make_dir (const char *argument, const char *path, struct mg_error *err);

/* Open for appending, so that what is there stays until output_restart(). */
FILE *output_open (const char *argument, const char *path, struct mg_error *err);

/* Empty the file, unless it is something that cannot be (a pipe, a terminal). */
int output_restart (FILE *file, const char *argument, const char *path,
                    struct mg_error *err);

/* Send on what was printed to 'out': 0, or the errno for which it, or something that was printed
 * before, could not be written.  EIO if that was possible again meanwhile.
 */
int output_error (FILE *out);

#endif /* LIBCORE_TRAIN_OUTPUT_H */
