/* check - find where a number that is none (NaN, infinity) appears first.
 *
 * A step that went wrong can be taken again, since randomness has coordinates; then every
 * tensor is looked at when it has been made.  A rank keeps the first place that it sees;
 * places are ordered so that the least of all ranks' is where it began: parameters come
 * before activations, those before gradients; inside a pass a microbatch's layers follow
 * each other as the pass goes through them, whichever rank has them.
 */
#ifndef LIBCORE_NN_CHECK_H
#define LIBCORE_NN_CHECK_H

#include <stdint.h>

#include "libcore/nn/param.h"

enum check_pass {
    CHECK_WEIGHT,   /* parameters before the step */
    CHECK_FORWARD,  /* activations */
    CHECK_BACKWARD, /* gradients of activations, then what they add to those of weights */
    CHECK_SUM,      /* gradients of weights, summed over the ranks */
};

enum { CHECK_TEXT_MAX = 200, CHECK_NOWHERE = -1, CHECK_STEPS = 1 << 27 };

struct check {
    const struct kernels *kern;
    struct mg_stream *stream;
    double *sum;    /* device memory: of the squares of the tensor that is looked at ... */
    double *found;  /* ... and pinned host memory for its download */
    int microbatch; /* that is being worked on */
    int64_t first;  /* order of the first place, CHECK_NOWHERE: none so far */
    char text[CHECK_TEXT_MAX]; /* which that is */
};

/* Where a tensor belongs. */
struct check_place {
    enum check_pass pass;
    int step;          /* of the pass, below CHECK_STEPS: of CHECK_WEIGHT and CHECK_SUM the
                          tensor */
    int phase;         /* of the layer, in the order of the pass, below 64 */
    const char *where; /* "layer 3: linear_fc1", for the text */
};

/* Nothing found yet; kernels work on 'stream', which is waited for.  -1 and a text on failure;
 * check_clear() in any case.
 */
int check_init (struct check *c, const struct kernels *kern, struct mg_stream *stream,
                struct mg_error *err);
void check_clear (struct check *c);

/* Look at n elements of 'dtype' (0: at none) called 'what' "NAME".  -1 only if that failed. */
int check_tensor (struct check *c, const struct check_place *place, const char *what,
                  const char *name, int64_t n, const void *x, enum mg_dtype dtype,
                  struct mg_error *err);

/* The same for elements [from, to) of a parameter's part, which begin at 'x'.  The text names the
 * expert that has the first bad one.
 */
int check_param (struct check *c, const struct check_place *place, const char *what,
                 const struct param *p, int64_t from, int64_t to, const void *x,
                 enum mg_dtype dtype, struct mg_error *err);

/* The same for all parameters' data or gradients. */
int check_params (struct check *c, enum check_pass pass, const struct param *params, size_t n,
                  struct mg_error *err);

#endif /* LIBCORE_NN_CHECK_H */
