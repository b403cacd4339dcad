/* model_params - which layers a stage has, and the parameters outside the layers.
 *
 * Order of all parameter tensors of the model (param->order): word embedding, position
 * embedding, the layers, final norm, output layer if it is not the word embedding.
 */
#ifndef LIBCORE_NN_MODEL_PARAMS_H
#define LIBCORE_NN_MODEL_PARAMS_H

#include <stdbool.h>

#include "libcore/nn/block.h"
#include "libcore/nn/embedding.h"
#include "libcore/nn/head.h"
#include "libcore/topo/stages.h"

/* One global stage of the model. */
struct model_part {
    int first_layer, num_layers;
    bool first, last; /* has the embedding, has the head */
};

/* What virtual stage 'chunk' of a pipeline rank has. */
struct model_part model_part_at (const struct stages *stages, int rank, int chunk);

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
 * a copy of its own, kept equal by the embedding group; one that is used twice on this rank is
 * not shared.
 */
struct param *model_describe_head (const struct nn *nn, struct param *p, struct param *word,
                                   struct head *h);

/* What is pointed at a chunk's parameters. */
struct model_places {
    struct block *block; /* [part->num_layers] */
    struct embedding *embedding; /* the rank's: set where the chunk has it */
    struct head *head;
};

/* Describe the parameters of the rank's chunk number 'chunk' from *p on: the next free
 * record.  Chunks are described in ascending order.
 */
struct param *model_describe_part (const struct nn *nn, const struct model_part *part,
                                   int chunk, struct param *p, struct model_places *places);

/* The *n parameters that pipeline rank 'rank' has in the first of 'tp' tensor-parallel
 * ranks, without a job: names, shapes and marks as model_create() gives them, with neither
 * data nor initial values.  Types are float32, but for the storage of the matrices of layers
 * with 'float8_weights'.  Free them.  The configuration is valid.  NULL and a text on failure.
 */
struct param *model_stage_params (const struct model_config *c, int tp, bool float8_weights,
                                  const struct stages *stages, int rank, size_t *n,
                                  struct mg_error *err);

#endif /* LIBCORE_NN_MODEL_PARAMS_H */
