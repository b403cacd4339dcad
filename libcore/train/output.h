/* output - files that a run writes, tried before it begins. */
#ifndef LIBCORE_TRAIN_OUTPUT_H
#define LIBCORE_TRAIN_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "libcore/file/dirlock.h"
#include "libcore/file/outfile.h"
#include "megatron/error.h"

/* Files that a run writes besides checkpoints and what report.h has; NULL: not written. */
struct output_config {
    const char *weights;   /* final weights */
    const char *gradients; /* the first iteration's gradients, before clipping */
};

/* Write a member of an object of the metrics file, after others: a number, or null if the value is
 * not finite.
 */
void output_write_real (FILE *file, const char *name, double value);

/* Check that outfile.h could write 'path' as a whole file.  NULL is allowed.  Makes nothing.  -1
 * and a text that names the argument.
 */
int output_check_file (const char *argument, const char *path, struct mg_error *err);

/* Make the directory if it is missing, and check that files can be made in it.  NULL is
 * allowed. */
int output_make_dir (const char *argument, const char *path, struct mg_error *err);

/* Make the directory if it is missing, and take its lock with dirlock_take(): no other
 * run may write checkpoints there until dirlock_release().
 */
struct dirlock *output_lock_dir (const char *argument, const char *path, struct mg_error *err);

/* Open a file for appending with outfile_append(), which decides which files may be
 * opened.  The contents stay until output_restart().
 */
FILE *output_open (const char *argument, const char *path, enum outfile_kind kind,
                   struct mg_error *err);

/* Empty the file, unless it cannot be emptied (a FIFO, a terminal), or is standard output
 * or error.
 */
int output_restart (FILE *file, const char *argument, const char *path,
                    struct mg_error *err);

/* Flush, fsync and close *file, and set it to NULL.  -1 with the reason if anything that was
 * written to it is lost.  Does nothing if *file is NULL.
 */
int output_close (FILE **file, const char *argument, const char *path, struct mg_error *err);

/* Flush 'out'.  Returns 0, or the errno with which this or an earlier write failed.  Returns EIO
 * if the errno of an earlier write is not known any more and 'out' can be written again; an empty
 * line is then written to 'out'.
 */
int output_error (FILE *out);

#endif /* LIBCORE_TRAIN_OUTPUT_H */
