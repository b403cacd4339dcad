/* gpt - the layers of a GPT as specifications.
 *
 * Pre-layer-norm transformer layer, its heads and its feed-forward part split over the
 * tensor-parallel group:
 *
 *   residual = input + dropout (proj (attention (qkv (norm (input))))  + bias)
 *   output   = residual + dropout (fc2 (gelu (fc1 (norm (residual)))) + bias)
 *
 * One all-reduce forward and one backward in each of the two halves (the f and g operators
 * of Shoeybi et al. 2019); with sequence parallelism each is an all-gather and a
 * reduce-scatter (Korthikanti et al. 2022), and what is outside them is split by rows.
 *
 * Names and registration order of parameters are those of Megatron-core.
 */
#ifndef LIBCORE_NN_GPT_H
#define LIBCORE_NN_GPT_H

#include "libcore/nn/layer.h"

/* What the model is made of, from the bottom to the top. */
enum gpt_layer { GPT_EMBEDDING, GPT_LAYER, GPT_COPY, GPT_HEAD, GPT_LOSS, GPT_NUM_LAYERS };

/* The specification of a layer, for this rank's sizes and passes of this shape.  GPT_COPY is what
 * a chunk has that has nothing else.  -1 and a text if it is not whole (layer_spec_check()).
 */
int gpt_spec (enum gpt_layer which, const struct nn *nn, const struct nn_shape *shape,
              struct layer_spec *spec, struct mg_error *err);

#endif /* LIBCORE_NN_GPT_H */
