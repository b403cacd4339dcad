/* split - divide documents into those for training, for validation and for test.
 *
 * A split is up to three weights for train, valid and test, in this order ("969,30,1";
 * missing ones are 0).  With the cumulated and normalised weights x0 = 0 <= x1 <= x2 <=
 * x3 = 1, part k of n documents is [round (xk n), round (xk+1 n)), halves rounded to even
 * as Python's round() does: the rule of Megatron-LM's --split.
 */
#ifndef LIBCORE_DATA_SPLIT_H
#define LIBCORE_DATA_SPLIT_H

#include <stdint.h>

#include "megatron/error.h"

enum split_part { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLIT_NUM_PARTS };

struct split {
    double bound[SPLIT_NUM_PARTS + 1]; /* cumulated shares, bound[0] is 0 */
};

/* "train", "valid", "test". */
const char *split_part_name (enum split_part part);

/* Part by name; -1 with errno EINVAL and a text that lists the names. */
int split_part_by_name (const char *name, enum split_part *part, struct mg_error *err);

/* Parse one to three weights (digits and a decimal point).  A separator is one of ",",
 * "/", ";" and ":", with or without blanks around it, or blanks alone.  -1 with errno
 * EINVAL if there are no weights or more than three, if there is a sign or any other
 * character, or if all weights are 0. */
int split_parse (const char *text, struct split *split, struct mg_error *err);

/* Documents [*begin, *end) of 'count' that belong to 'part'; may be empty. */
void split_range (const struct split *split, enum split_part part, int64_t count,
                  int64_t *begin, int64_t *end);

/* Find the documents of 'part' by a user's text.  An empty part is an error, too
 * (ENODATA), since it has no samples. 'text' NULL means all documents, whatever the
 * part. */
int split_documents (const char *text, enum split_part part, int64_t count,
                     int64_t *begin, int64_t *end, struct mg_error *err);

#endif /* LIBCORE_DATA_SPLIT_H */
