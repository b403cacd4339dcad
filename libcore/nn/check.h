/* check - find the first tensor with a NaN or an infinity.
 *
 * A step can run again with the same results, since randomness has coordinates.  In the
 * second run, every tensor is searched as soon as it is made.  Each rank keeps the first
 * place that it finds.  The order of places is that of the computation, so the least
 * place of all ranks is the origin: parameters come before activations, and activations
 * before gradients; inside a pass, the layers of a microbatch come in the order of the
 * pass, whatever rank has them.
 */
#ifndef LIBCORE_NN_CHECK_H
#define LIBCORE_NN_CHECK_H

#include <stdint.h>

#include "libcore/nn/param.h"

enum check_pass {
    CHECK_WEIGHT,   /* parameters before the step */
    CHECK_FORWARD,  /* activations */
    CHECK_BACKWARD, /* gradients of activations, then the gradients that they add to those
                     * of weights */
    CHECK_SUM,      /* gradients of weights, summed over the ranks */
};

enum { CHECK_TEXT_MAX = 200, CHECK_NOWHERE = -1, CHECK_STEPS = 1 << 27 };

struct check {
    const struct kernels *kern;
    struct mg_stream *stream;
    double *sum;    /* device memory: sum of squares of the current tensor ... */
    double *found;  /* ... and pinned host memory for its download */
    int microbatch; /* the current microbatch */
    int64_t first;  /* number of the first place in the order, CHECK_NOWHERE: none so far */
    char text[CHECK_TEXT_MAX]; /* description of the first place */
};

/* The place of a tensor. */
struct check_place {
    enum check_pass pass;
    int step;          /* step of the pass, below CHECK_STEPS; for CHECK_WEIGHT and
                          CHECK_SUM, the number of the tensor */
    int phase;         /* of the layer, in the order of the pass, below 64 */
    const char *where; /* "layer 3: linear_fc1", for the text */
};

/* Begin with nothing found.  Kernels run on 'stream', and the check waits for it.  -1 and
 * a text on failure; check_clear() in any case.
 */
int check_init (struct check *c, const struct kernels *kern, struct mg_stream *stream,
                struct mg_error *err);
void check_clear (struct check *c);

/* Search n elements of 'dtype', of a tensor that texts call 'what' "NAME"; n may be 0.
 * -1 only if the search itself failed. */
int check_tensor (struct check *c, const struct check_place *place, const char *what,
                  const char *name, int64_t n, const void *x, enum mg_dtype dtype,
                  struct mg_error *err);

/* Search elements [from, to) of a parameter's part, which begin at 'x'.  The text names
 * the expert of the first bad element.
 */
int check_param (struct check *c, const struct check_place *place, const char *what,
                 const struct param *p, int64_t from, int64_t to, const void *x,
                 enum mg_dtype dtype, struct mg_error *err);

/* Search the data or the gradients of all parameters. */
int check_params (struct check *c, enum check_pass pass, const struct param *params, size_t n,
                  struct mg_error *err);

#endif /* LIBCORE_NN_CHECK_H */
