/* head - final norm, output layer and cross entropy at the top of the model.
 *
 * Every rank of the tensor-parallel group makes the logits of its part of the vocabulary;
 * only a maximum and two sums a token are reduced, logits are never gathered (Shoeybi et
 * al. 2019, section 3).
 */
#ifndef LIBCORE_NN_HEAD_H
#define LIBCORE_NN_HEAD_H

#include "libcore/nn/norm.h"
#include "libcore/tensor/arena.h"

struct head {
    struct norm norm;
    struct linear output; /* [local_vocab, hidden], no bias; the word embedding if tied */
};

/* What the head keeps for one slot. */
struct head_acts {
    void *norm;    /* [rows, hidden] */
    float *stat;   /* [2, rows] */
    float *logits; /* [tokens, local_vocab], turned into its gradient in place, of the
                      model's type: see kern_xent_bwd */
    float *max;    /* [tokens] */
    float *sums;   /* [2, tokens]: sums of exponentials, then shifted target logits */
    float *scale;  /* [tokens] */
};

/* The loss of one microbatch, summed over microbatches: see kern_xent_loss. */
struct head_loss {
    double weight; /* of this microbatch in the iteration's loss, times the loss scale */
    double *out;   /* device memory, 3 doubles, added to */
    bool per_token; /* the microbatch counts by its tokens: its loss is their sum */
};

void head_carve (const struct nn *nn, struct arena *a, struct head_acts *acts);

int head_fwd (const struct nn *nn, const struct head *h, const struct nn_batch *batch,
              const void *x, struct head_acts *acts, const struct head_loss *loss,
              struct mg_error *err);

/* dx[rows, hidden] = gradient of x; 'partial' is scratch of [tokens, hidden]. */
int head_bwd (const struct nn *nn, const struct head *h, const struct nn_batch *batch,
              const void *x, struct head_acts *acts, void *partial, void *dx,
              struct mg_error *err);

#endif /* LIBCORE_NN_HEAD_H */
