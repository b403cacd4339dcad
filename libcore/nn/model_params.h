/* model_params - which layers a stage has, and the parameters outside the layers.
 *
 * Order of all parameter tensors of the model (param->order): word embedding, position
 * embedding, the layers, final norm, output layer if it is not the word embedding.
 */
#ifndef LIBCORE_NN_MODEL_PARAMS_H
#define LIBCORE_NN_MODEL_PARAMS_H

#include <stdbool.h>

#include "libcore/nn/embedding.h"
#include "libcore/nn/head.h"

/* One global stage of the model. */
struct model_part {
    int first_layer, num_layers;
    bool first, last; /* has the embedding, has the head */
};

/* Parameter tensors of a stage. */
size_t model_part_params (const struct model_config *c, const struct model_part *part,
                          int pp);

/* Tensors and true parameters of the whole model, tied ones once. */
int model_config_tensors (const struct model_config *c);
int64_t model_config_parameters (const struct model_config *c);

/* Order of a layer's first parameter. */
int model_layer_order (int layer);

/* Describe parameters from *p on, point at them, return the next free record. */
struct param *model_describe_embedding (const struct nn *nn, struct param *p,
                                        struct embedding *e);

/* 'word' is the word embedding if this rank has it, else NULL: a tied output layer then is
 * a copy of its own, kept equal by the embedding group.
 */
struct param *model_describe_head (const struct nn *nn, struct param *p, struct param *word,
                                   struct head *h);

#endif /* LIBCORE_NN_MODEL_PARAMS_H */
