/* model_params - which layers a stage has, and the parameters of a whole model.
 *
 * Order of all parameter tensors of the model (param->order): word embedding, position
 * embedding, the layers, final norm, layers for multi-token prediction, output layer if it is not
 * the word embedding.
 */
#ifndef LIBCORE_MODEL_MODEL_PARAMS_H
#define LIBCORE_MODEL_MODEL_PARAMS_H

#include <stdbool.h>

#include "libcore/model/gpt.h"
#include "libcore/nn/layer.h"
#include "libcore/topo/geometry.h"
#include "libcore/topo/stages.h"

/* One global stage of the model. */
struct model_part {
    int first_layer, num_layers;
    int mtp_layers;   /* for multi-token prediction, all of the model or none; only of the last */
    bool first, last; /* has the embedding, has the head */
};

/* What virtual stage 'chunk' of a pipeline rank has. */
struct model_part model_part_at (const struct stages *stages, int rank, int chunk);

/* The layers of a stage, from the bottom to the top: writes up to 'max' of them, and returns how
 * many there are.
 */
struct model_place {
    enum gpt_layer which;
    int number, mtp, step; /* see struct layer */
};
int model_part_layers (const struct model_config *c, const struct model_part *part,
                       struct model_place *places, int max);

/* The specifications of the layers of a model on one rank, [GPT_NUM_LAYERS], for passes over one
 * sequence.  They are large: no function has one on its stack.  Free them.  NULL and a text on
 * failure.
 */
struct layer_spec *model_config_specs (const struct model_config *c, struct mg_error *err);

/* Sizes of a whole model. */
struct model_sizes {
    int tensors;        /* of parameters, tied ones once */
    int first_mtp, mtp_tensors; /* order of the first of layers for multi-token prediction, and
                                   how many tensors these have */
    int64_t parameters; /* without padding, tied ones once */
    double flops;       /* floating-point operations of training on one sequence, on all ranks
                           together, as Megatron-LM's num_floating_point_operations() counts them:
                           the products of the forward pass and, twice as many, of the backward
                           pass, half of the attention scores, nothing that is computed again */
};

/* Set *sizes.  -1 and a text on failure. */
int model_config_sizes (const struct model_config *c, struct model_sizes *sizes,
                        struct mg_error *err);

/* The layers of one rank, while their parameters are described. */
struct model_describer {
    const struct nn *nn;
    bool sequence_parallel;
    const struct layer_spec *spec; /* [GPT_NUM_LAYERS] */
    struct param *first, *next; /* the rank's parameters, the next free record */
    int layers, below;          /* transformer layers, and their parameters in the whole model,
                                   below the layer that was described last */
    struct param *word;         /* the word embedding, if this rank has it */
    size_t copy;                /* 1 + place of its copy, until a layer that uses it is described */
    struct param output;        /* the output layer's weight, until it gets its record */
    struct param *mtp[3][LAYER_MAX_PARAMS + 1]; /* of the first layer for multi-token prediction:
                                                   of its input, transformer layer and head */
};

/* Parameter records that the layers of a stage take while they are described: more than stay if
 * layers share parameters.
 */
size_t model_part_params (const struct layer_spec spec[GPT_NUM_LAYERS], const struct nn *nn,
                          const struct model_part *part);

/* With multi-token prediction, the parameters that layers share: describe the last stage's copy of
 * the word embedding, before the layers of a chunk; describe the weight of the output layer, behind
 * them, and point the 'n' layers at it.
 */
void model_describe_copy (struct model_describer *d, const struct model_part *part, int chunk);
void model_describe_output (struct model_describer *d, const struct model_part *part,
                            struct layer *layers, int n);

/* Describe the parameters of a layer of the rank's chunk number 'chunk' and point the layer at
 * them.  Layers are described in order.
 */
void model_describe_layer (struct model_describer *d, const struct model_place *place,
                           int chunk, struct layer *layer);

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
