/* data_args - a file that names the data of training, validation and test, for
 * --per-split-data-args-path.
 *
 * A JSON object with the keys "train", "valid" and "test".  Each value is what
 * --train-data-path ... take: a list of words (weights may be numbers), or all words in one string;
 * null names none.
 */
#ifndef LIBCORE_ARGS_DATA_ARGS_H
#define LIBCORE_ARGS_DATA_ARGS_H

#include "libcore/data/split.h"
#include "libcore/args/file.h"
#include "megatron/error.h"

enum { DATA_ARGS_MAX = 1 << 24 }; /* bytes of a file */

struct data_args {
    struct args_file *part[SPLIT_NUM_PARTS]; /* the words of each, without lines; NULL: none */
};

/* Read such a file.  NULL with an errno of open() or read(), EFBIG, EINVAL (no such object: the
 * text says where) or ENOMEM.  The caller owns the result.
 */
struct data_args *data_args_read (const char *path, struct mg_error *err);

/* The same of 'size' bytes of text. */
struct data_args *data_args_parse (const char *path, const char *text, size_t size,
                                   struct mg_error *err);

/* NULL is allowed; errno is kept. */
void data_args_destroy (struct data_args *data);

#endif /* LIBCORE_ARGS_DATA_ARGS_H */
