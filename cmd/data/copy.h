/* copy - copy documents of datasets into other datasets, with progress on a terminal.
 *
 * One object counts the bytes of a whole command, which may write several datasets.
 */
#ifndef CMD_DATA_COPY_H
#define CMD_DATA_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/progress.h"
#include "libcore/data/indexed.h"
#include "megatron/error.h"

struct data_copy {
    struct progress progress;
    int64_t done; /* bytes */
};

/* Copy a range into the builder.  EINTR once data_stopped(); errors of indexed_builder_copy(). */
int data_copy_range (struct data_copy *c, struct indexed_builder *b, const struct indexed *ix,
                     const struct indexed_range *range, struct mg_error *err);

/* Write the dataset 'prefix', whose documents copy() adds to the builder with data_copy_range().
 * On failure, -1 and a text, there is no dataset of that name, or the one that was there before.
 */
int data_copy_write (struct data_copy *c, const char *prefix, enum indexed_dtype dtype,
                     int (*copy) (void *arg, struct data_copy *c, struct indexed_builder *b,
                                  struct mg_error *err),
                     void *arg, struct mg_error *err);

/* Print the line about a dataset that is written. */
void data_copy_print (const char *prefix, size_t documents, int64_t tokens,
                      enum indexed_dtype dtype);

/* Fail with EINVAL if the files PREFIX.bin and PREFIX.idx would replace the file 'input', or one
 * in the directory 'input'.
 */
int data_check_output (const char *prefix, const char *input, struct mg_error *err);

/* Fail with EINVAL if the dataset 'output' has a file of the dataset 'input', which the command
 * would replace while it reads it.
 */
int data_copy_check_output (const char *output, const char *input, struct mg_error *err);

#endif /* CMD_DATA_COPY_H */
