/* output - files that a run writes, tried before it begins. */
#ifndef LIBCORE_TRAIN_OUTPUT_H
#define LIBCORE_TRAIN_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "libcore/checkpoint/dirlock.h"
#include "libcore/checkpoint/outfile.h"
#include "megatron/error.h"

/* Can 'path' be written whole, by way of outfile.h?  NULL: nothing to write.  Leaves nothing
 * behind. -1 and a text that names the argument.
 */
int output_check_file (const char *argument, const char *path, struct mg_error *err);

/* Make the directory where it is missing; can files be made in it? NULL: none wanted. */
int output_make_dir (const char *argument, const char *path, struct mg_error *err);

/* Make the directory, and take it for this run: no other run may write checkpoints there. */
struct dirlock *output_take_dir (const char *argument, const char *path, struct mg_error *err);

/* Open for appending, so that what is there stays until output_restart(); what may be opened
 * is outfile_append()'s.
 */
FILE *output_open (const char *argument, const char *path, enum outfile_kind kind,
                   struct mg_error *err);

/* Empty the file, unless it is one that cannot be emptied (a FIFO, a terminal), or standard
 * output or error.
 */
int output_restart (FILE *file, const char *argument, const char *path,
                    struct mg_error *err);

/* Flush, fsync and close *file, which becomes NULL; NULL already: nothing is done.  -1 with the
 * reason if a write was lost.
 */
int output_close (FILE **file, const char *argument, const char *path, struct mg_error *err);

/* Send on what was printed to 'out': 0, or the errno for which it, or something that was printed
 * before, could not be written.  EIO if that was possible again meanwhile.
 */
int output_error (FILE *out);

#endif /* LIBCORE_TRAIN_OUTPUT_H */
