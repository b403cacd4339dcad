/* sampling - the next token of a text, out of the logits of a model.
 *
 * Everything is computed in double precision over the true vocabulary; a caller leaves columns of
 * padding out.  A draw is a function of its coordinates (base/rng.h), so it does not depend on the
 * ranks of a job or on the requests that share a pass.
 */
#ifndef LIBCORE_INFER_SAMPLING_H
#define LIBCORE_INFER_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/dtype.h"
#include "megatron/error.h"

/* Two results of a model that computes in 'dtype' are near if they are closer than this: rounding
 * could exchange them.  1e-5 for float32.  For 16-bit types 16 times the largest relative error of
 * a rounding: 2^-7 for float16, 2^-4 for bfloat16.
 */
double sampling_near (enum mg_dtype dtype);

struct sampling {
    double temperature; /* logits are divided by it; 0: the largest logit is taken */
    int64_t top_k;      /* tokens at most, and those whose logits equal the last one's; 0: all.  1
                           takes the largest logit, whatever the temperature is */
    double top_p;       /* tokens from the most probable on, until their sum exceeds this; 0: all */
};

/* Check the ranges: temperature 0 or more, top_k 0 to n, top_p 0 to 1.  -1, EINVAL and a text that
 * names the value if not.
 */
int sampling_check (const struct sampling *s, int64_t n, struct mg_error *err);

/* The probabilities with which tokens are drawn: temperature, then top_k, then top_p among the
 * tokens that top_k keeps.  Equal logits have the order of their ids.  'order' [n] is memory for
 * the call.  With temperature 0, or top_k 1, the token of sampling_largest() has probability 1.
 */
void sampling_probabilities (const struct sampling *s, const float *logits, int64_t n,
                             double *probabilities, int32_t *order);

/* Coordinates of a draw. */
struct sampling_draw {
    uint64_t seed;    /* of the run or of the request */
    uint64_t request; /* its number */
    uint64_t choice;  /* number of the text among several of a request */
    int64_t position; /* of the token in its sequence, the prompt included */
};

/* A number in [0, 1). */
double sampling_uniform (const struct sampling_draw *draw);

/* The token in whose part of [0, 1) the number 'u' is.  Parts have the order of ids.  *near is true
 * if u is less than 'margin' (sampling_near()) from the part of another token.
 */
int32_t sampling_choose (const double *probabilities, int64_t n, double u, double margin,
                         bool *near);

/* The token with the largest logit, the lowest id among equals.  *near is true if another logit is
 * less than 'margin' (sampling_near()) below.
 */
int32_t sampling_largest (const float *logits, int64_t n, double margin, bool *near);

/* The logarithm of the sum of exp (logit); the log probability of token i is logits[i] less this.
 */
double sampling_log_sum (const float *logits, int64_t n);

/* The 'top' largest logits, largest first, equal ones in the order of ids. */
void sampling_top (const float *logits, int64_t n, int32_t *ids, int top);

#endif /* LIBCORE_INFER_SAMPLING_H */
