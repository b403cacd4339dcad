/* embedding.c - vocabulary-parallel word embedding plus learned positions */

#include "libcore/nn/embedding.h"

static struct kern_dropout dropout (const struct nn *nn, const struct embedding *e,
                                    const struct nn_batch *batch, bool training)
{
    return (struct kern_dropout){
        .p = training ? nn->config.hidden_dropout : 0.0,
        .key = e->key,
        .sample = batch->sample,
        .batch = nn->batch,
        .position = nn->position,
    };
}

int embedding_fwd (const struct nn *nn, const struct embedding *e,
                   const struct nn_batch *batch, bool training, void *partial, void *out,
                   struct mg_error *err)
{
    struct kern_embedding_fwd word = {
        .tokens = nn->tokens,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .id = batch->token,
        .first = e->word->offset[0],
        .count = e->word->extent[0],
        .table = e->word->data,
        .out = partial,
    };
    struct kern_position_fwd position = {
        .tokens = nn->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = nn_own_rows (nn, partial),
        .table = e->position->data,
        .count = e->position->extent[0],
        .dropout = dropout (nn, e, batch, training),
        .y = out,
    };

    if (kern_embedding_fwd (nn->kern, &word, nn->compute, err) < 0
        || nn_leave (nn, partial, err) < 0)
        return -1;
    return kern_position_fwd (nn->kern, &position, nn->compute, err);
}

int embedding_bwd (const struct nn *nn, const struct embedding *e,
                   const struct nn_batch *batch, void *dout, struct mg_error *err)
{
    struct kern_position_bwd position = {
        .tokens = nn->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .dy = dout,
        .dropout = dropout (nn, e, batch, true),
        .dx = dout,
        .dtable = e->position->grad,
        .count = e->position->extent[0],
        .grad_dtype = e->position->grad_dtype,
    };
    struct kern_embedding_bwd word = {
        .tokens = nn->tokens,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .id = batch->token,
        .first = e->word->offset[0],
        .count = e->word->extent[0],
        .dtable = e->word->grad,
        .grad_dtype = e->word->grad_dtype,
    };

    if (kern_position_bwd (nn->kern, &position, nn->compute, err) < 0
        || !(word.dout = nn_enter (nn, dout, err)))
        return -1;
    return kern_embedding_bwd (nn->kern, &word, nn->compute, err);
}
