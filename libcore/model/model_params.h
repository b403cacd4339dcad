/* model_params - the layers of a stage, and the parameters of a rank. */
#ifndef LIBCORE_MODEL_MODEL_PARAMS_H
#define LIBCORE_MODEL_MODEL_PARAMS_H

#include <stdbool.h>

#include "libcore/model/model_list.h"
#include "libcore/topo/geometry.h"
#include "libcore/topo/stages.h"

/* One global stage of the model. */
struct model_part {
    int first_layer, num_layers;
    int mtp_layers;   /* for multi-token prediction, all of the model or none; only of the last */
    bool first, last; /* has the embedding, has the head */
};

/* Returns the part of the model in virtual stage 'chunk' of a pipeline rank. */
struct model_part model_part_at (const struct stages *stages, int rank, int chunk);

/* Returns the layers of a stage, *n of them, which follow each other in the list. */
const struct model_place *model_part_layers (const struct model_list *l,
                                             const struct model_part *part, int *n);

/* The layers of one rank, while their parameters are described. */
struct model_describer {
    const struct nn *nn;
    bool sequence_parallel;
    const struct model_list *list;
    struct param *first, *next; /* the rank's parameters, the next free record */
    struct param *word;         /* the word embedding, if this rank has it */
    size_t copy;                /* 1 + place of its copy, until a layer that uses it is described */
    struct param output;        /* the output layer's weight, until it gets its record */
};

/* Returns the number of parameter records that the layers of a stage need while they are
 * described.  If layers share parameters, fewer records stay.
 */
size_t model_part_params (const struct model_list *l, const struct model_part *part);

/* Describe the parameters of all layers of a stage, the rank's chunk number 'chunk', in
 * layers[0], ..., and point the layers at them.  Chunks are described in order.
 */
void model_describe_part (struct model_describer *d, const struct model_part *part, int chunk,
                          struct layer *layers);

/* The *n parameters that pipeline rank 'rank' has in the first of the tensor-parallel and of the
 * expert-parallel ranks of a geometry, without a job: names, shapes and marks as model_create()
 * gives them, with neither data nor initial values.  Types are float32, but for the storage of the
 * matrices of layers with 'float8_weights'.  Free them.  The configuration is valid.  NULL and a
 * text on failure.
 */
struct param *model_stage_params (const struct model_config *c, const struct geometry *g,
                                  bool float8_weights, const struct stages *stages, int rank,
                                  size_t *n, struct mg_error *err);

#endif /* LIBCORE_MODEL_MODEL_PARAMS_H */
