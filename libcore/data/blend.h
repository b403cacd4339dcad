/* blend - several datasets, drawn from by weights.
 *
 * A blend is written as Megatron-LM's --data-path takes it: weights and prefixes in turn,
 * "30 a 70 b", or prefixes alone, "a b c".  If the number of words is even and every
 * other word is a number, the words are weights and prefixes; otherwise all words are
 * prefixes.
 */
#ifndef LIBCORE_DATA_BLEND_H
#define LIBCORE_DATA_BLEND_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum { BLEND_MAX = 32766 }; /* datasets: Megatron-LM counts them in 16 bits */

/* Each dataset gets this part more samples than its weight asks for: Megatron-LM's
 * mid_level_dataset_surplus. */
#define BLEND_SURPLUS 0.005

struct blend {
    size_t count;    /* at least 1 */
    char **prefixes; /* without blanks before and after */
    double *weights; /* as written, each more than 0; NULL: none */
};

/* Read a blend from words. 0, or -1 with errno EINVAL (no words, a weight among prefixes
 * or the other way round, a weight that is not more than 0, too many), ENOMEM, and
 * '*blend' all zero. */
int blend_parse (const char *const *words, size_t n, struct blend *blend,
                 struct mg_error *err);

/* Free what it holds; all zero is allowed; errno is kept. */
void blend_clear (struct blend *blend);

/* Divide the weights by their sum.  The sum is formed in NumPy's order (pairwise, by
 * eights), since its last bit can decide which dataset comes next. */
void blend_normalize (double *weights, size_t n);

/* Returns the samples of a dataset whose weight is a part (0 to 1) of a blend of 'size'
 * samples: ceil (ceil (size x weight) (1 + surplus)).  -1, errno ERANGE if that is over
 * 2^53. */
int64_t blend_share (int64_t size, double weight, double surplus, struct mg_error *err);

#endif /* LIBCORE_DATA_BLEND_H */
