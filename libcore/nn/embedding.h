/* embedding - word and position embeddings at the bottom of the model.
 *
 * The vocabulary is split by rows over the tensor-parallel group: a rank looks up what it
 * has, an all-reduce adds the shards up (Shoeybi et al. 2019, section 3).
 */
#ifndef LIBCORE_NN_EMBEDDING_H
#define LIBCORE_NN_EMBEDDING_H

#include "libcore/nn/nn.h"
#include "libcore/nn/param.h"

struct embedding {
    struct param *word;     /* [local_vocab, hidden] */
    struct param *position; /* [max_positions, hidden] */
    uint64_t key;           /* of the dropout */
};

/* out[rows, hidden] = dropout (word[token] + position); 'partial' is scratch of [tokens,
 * hidden].
 */
int embedding_fwd (const struct nn *nn, const struct embedding *e,
                   const struct nn_batch *batch, bool training, void *partial, void *out,
                   struct mg_error *err);

/* Adds to both gradients; 'dout' [rows, hidden] is overwritten. */
int embedding_bwd (const struct nn *nn, const struct embedding *e,
                   const struct nn_batch *batch, void *dout, struct mg_error *err);

#endif /* LIBCORE_NN_EMBEDDING_H */
