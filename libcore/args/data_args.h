/* data_args - a file that names the data of training, validation and test, for
 * --per-split-data-args-path.
 *
 * The file has a JSON object with the keys "train", "valid" and "test".  Each value has
 * the words of --train-data-path or its like: a list of words, in which weights may be
 * numbers, or one string with all words.  null means no data.
 */
#ifndef LIBCORE_ARGS_DATA_ARGS_H
#define LIBCORE_ARGS_DATA_ARGS_H

#include "libcore/data/split.h"
#include "libcore/args/file.h"
#include "megatron/error.h"

enum { DATA_ARGS_MAX = 1 << 24 }; /* bytes of a file */

struct data_args {
    struct args_file *part[SPLIT_NUM_PARTS]; /* the words of each part, without line
                                              * numbers; NULL: none */
};

/* Read a file.  NULL with an errno of open() or read(), EFBIG, EINVAL (the file has no
 * such object; the text has the place) or ENOMEM.  The caller owns the result.
 */
struct data_args *data_args_read (const char *path, struct mg_error *err);

/* Parse 'size' bytes of text. */
struct data_args *data_args_parse (const char *path, const char *text, size_t size,
                                   struct mg_error *err);

/* NULL is allowed; errno is kept. */
void data_args_destroy (struct data_args *data);

#endif /* LIBCORE_ARGS_DATA_ARGS_H */
