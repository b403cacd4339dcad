/* model_list - a model as a list of its layers, from the bottom to the top.
 *
 * A family of models is the makers of its specifications and a function that lists the layers of
 * a model.  Orders and counts of parameters, floating-point operations, names, losses and
 * the parts of a stage are running sums over the list.  So a second family is its makers
 * and its list, and no other code depends on the layers of a model.
 *
 * Order of all parameter tensors of a model (param->order): that of the layers.  The word embedding
 * is one of the first layer.  The weight of the output layer, if several heads share it,
 * comes after all others.  The tensors of all experts of a layer count as one.
 */
#ifndef LIBCORE_MODEL_MODEL_LIST_H
#define LIBCORE_MODEL_MODEL_LIST_H

#include "libcore/nn/layer.h"

/* A layer in the list. */
struct model_place {
    int spec;        /* number of its specification */
    int number, mtp; /* see struct layer.  Transformer layers follow each other, but for those for
                        multi-token prediction, which are at the end of the list */
    int same;        /* 1 + place of an earlier layer that it repeats: it has the parameters of that
                        layer and none of its own; 0: none */
    /* Set by model_list_create(): */
    int step;  /* place in the list */
    int order; /* number of its first parameter in the order of all parameters */
    int loss;  /* 1 + number of the loss that it adds to; 0: none */
};

struct model_family {
    const char *name;
    int num_specs;
    int copy; /* specification of the copying layer, for a chunk without other layers */
    /* Writes the layers of a model, which are all zero before, or none if 'place' is NULL; returns
     * how many layers the model has.
     */
    int (*list) (const struct nn *nn, struct model_place *place);
    /* Makes specification 'which' for this rank's sizes and passes of this shape.  -1 and a text if
     * it is not whole (layer_spec_check()).
     */
    int (*specify) (int which, const struct nn *nn, const struct nn_shape *shape,
                    struct layer_spec *spec, struct mg_error *err);
};

/* The family of a configuration. */
const struct model_family *model_family (const struct model_config *c);

struct model_list {
    const struct model_family *family;
    struct layer_spec *spec;   /* [num_specs]; those that the model does not have are empty */
    struct model_place *place; /* [n], then one that copies */
    int n;
    int first_layer;           /* place of transformer layer 0 */
    int num_words, num_outputs; /* layers that use the word embedding, the output layer's weight */
    int num_losses;
    int num_tensors;           /* of parameters */
};

/* Make the list of a model of a family and its specifications, for this rank's sizes and passes of
 * this shape.  -1 and a text on failure; the list is to be cleared then, too.
 */
int model_list_create (struct model_list *l, const struct model_family *family, const struct nn *nn,
                       const struct nn_shape *shape, struct mg_error *err);
void model_list_clear (struct model_list *l);

/* Returns the part of a rank that descriptions need, for one sequence. */
struct nn model_describing_nn (const struct model_config *c, int tp, int ep, int etp,
                               bool float8_weights);
struct nn_shape model_describing_shape (const struct model_config *c);

/* The same for a whole model that one rank has, and passes over one sequence. */
int model_list_describe (struct model_list *l, const struct model_config *c, struct mg_error *err);

/* Parameters that a layer has and no other layer before it. */
int model_own_params (const struct model_list *l, const struct model_place *place);

/* Set *sizes.  -1 and a text on failure. */
int model_config_sizes (const struct model_config *c, struct model_sizes *sizes,
                        struct mg_error *err);

#endif /* LIBCORE_MODEL_MODEL_LIST_H */
