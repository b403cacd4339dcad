/* layer - a layer as data: its parameters, its tensors, its phases.
 *
 * A layer is made from a specification: a list of parameters, a list of tensors with their life,
 * and a list of phases.  A phase is an operation of a layer (struct layer_op: a norm, a linear
 * layer, ...) whose operands are some of these parameters and tensors.  The operation says what
 * it reads and writes of each operand, forward and backward, whether a device graph may capture
 * it, and where it starts or awaits work on the tensor-parallel stream.  Forward passes run the
 * phases in order, backward passes in reverse.  So the order and number of parameters, the
 * memory of a slot, what is looked at for numbers that are none, and what may be captured
 * follow from the specification (gpt.h has those of a GPT).
 *
 * A model chunk is a list of layers in this sense: embedding, transformer layers, output layer,
 * loss.
 */
#ifndef LIBCORE_NN_LAYER_H
#define LIBCORE_NN_LAYER_H

#include "libcore/nn/check.h"
#include "libcore/nn/nn.h"
#include "libcore/nn/param.h"

enum { LAYER_MAX_PARAMS = 24, LAYER_MAX_TENSORS = 48, LAYER_MAX_PHASES = 32,
       LAYER_MAX_OPERANDS = 12 };

/* How a parameter is split over the tensor-parallel group. */
enum split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLS };

/* Initial values; INIT_SCALED is INIT_NORMAL with the deviation divided by sqrt (2 layers), for
 * what is added to a residual (Radford et al. 2019).
 */
enum init { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_SCALED };

struct layer_param {
    const char *name;  /* behind the prefix of the layer */
    int ndims;
    int64_t global[2]; /* shape of the whole tensor, without padding */
    int64_t padded;    /* rows that are dealt out, if more than global[0]; else 0 */
    enum split split;
    int blocks;        /* equal blocks of rows, each of which is split alone (a gate and what it
                          multiplies), up to PARAM_MAX_RECTS; 0: one; not with 'padded' */
    enum init init;
    bool partial;      /* each tensor-parallel rank uses it for other heads: its gradients are
                          summands */
    int kind;          /* of its initial values: differs from that of any other parameter of a
                          layer, and stays the same when others come or go */
    bool matrix;       /* of a product: may be stored in float8 */
    bool embedding;    /* the word embedding: where it is tied two layers have it, or one has a
                          copy */
};

enum layer_life {
    LIFE_SAVED,    /* kept in the microbatch's slot until the backward pass */
    LIFE_SHARED,   /* one of that name for all layers and slots */
    LIFE_INPUT,    /* the output of the layer before */
    LIFE_OUTPUT,   /* saved, the input of the next layer */
    LIFE_GRADIENT, /* gradient of the output, then of the input: one for a slot */
};

struct layer_tensor {
    const char *name;
    enum layer_life life;
    bool gradient;  /* made by a backward pass */
    bool wide;      /* float32 whatever the model's type: statistics */
    int ndims;
    int64_t shape[TENSOR_MAX_DIMS];
};

struct pass;
struct phase;

/* What an operation does to an operand, forward or backward. */
enum { OPERAND_READ = 1, OPERAND_WRITE = 2, OPERAND_ADD = 4 };

struct layer_operand {
    const char *name;
    bool param;
    unsigned fwd, bwd; /* of a parameter: bwd ADD is to its gradient, READ of its value */
};

/* Of a phase: what it starts on the tensor-parallel stream (fork) and awaits there (join). */
enum {
    PHASE_CAPTURABLE = 1, /* no host wait, no allocation, fixed shapes and addresses */
    PHASE_FORKS_BWD = 2,
    PHASE_JOINS_BWD = 4,
};

struct layer_op {
    const char *name;
    unsigned flags;
    struct layer_operand operand[LAYER_MAX_OPERANDS]; /* up to the first without a name */
    int (*fwd) (const struct pass *pass, const struct phase *phase, struct mg_error *err);
    int (*bwd) (const struct pass *pass, const struct phase *phase, struct mg_error *err);
};

struct phase {
    const char *name;
    const struct layer_op *op;
    int operand[LAYER_MAX_OPERANDS]; /* of the specification's parameters or tensors, as the
                                        operation says; LAYER_NONE: it does without */
    int which; /* tells phases of one operation apart, where that matters: coordinates */
};

/* Indices of parameters and tensors begin with 1. */
enum { LAYER_NONE = 0 };

struct layer_spec {
    const char *name;   /* "layer", "embedding", for texts */
    const char *prefix; /* of names of parameters; "%d" is the number of the layer */
    struct layer_param param[LAYER_MAX_PARAMS + 1];
    int num_params; /* in param[1], ... */
    struct layer_tensor tensor[LAYER_MAX_TENSORS + 1];
    int num_tensors;
    struct phase phase[LAYER_MAX_PHASES];
    int num_phases;
    bool full; /* something did not fit */
};

/* Add a parameter or a tensor: its index. */
int layer_add_param (struct layer_spec *spec, const struct layer_param *param);
int layer_add_tensor (struct layer_spec *spec, const struct layer_tensor *tensor);
void layer_add_phase (struct layer_spec *spec, const struct phase *phase);

/* The tensor of a life of which there is at most one; LAYER_NONE if there is none. */
int layer_find (const struct layer_spec *spec, enum layer_life life);

/* Is the specification whole: does every phase read what was written, forward and backward, and
 * is every saved tensor written?  -1, EINVAL and a text that names layer, phase and tensor.
 */
int layer_spec_check (const struct layer_spec *spec, struct mg_error *err);

/* A layer of this rank. */
struct layer {
    const struct layer_spec *spec;
    int number;    /* of the transformer layer, from 0; -1: another one */
    int step;      /* place in the model: embedding 0, transformer layers from 1, ... */
    struct param *param[LAYER_MAX_PARAMS + 1]; /* by index of the specification */
    size_t first;  /* its own parameters, in registration order, among all of the rank */
    size_t num_own;
};

/* Describe the layer's parameters into p[0], ..., p[spec->num_params - 1] and point the layer at
 * them.  'order' is the place of the first among all of the model.
 */
void layer_describe (struct layer *layer, const struct nn *nn, bool sequence_parallel,
                     struct param *p, int order);

/* One pass over one microbatch. */
struct pass {
    const struct nn *nn;
    const struct nn_shape *shape;
    const struct nn_inputs *in;
    bool training;       /* dropout is on */
    struct check *check; /* look at all that is made; NULL: do not */
    double loss_weight;  /* of this microbatch in the iteration's loss, times the loss scale */
    bool per_token_loss; /* the microbatch counts by its tokens: its loss is their sum */
    double *loss;        /* device memory, three sums that the loss is added to */
    const struct layer *layer; /* set by the model, as is ... */
    struct tensor *tensor;     /* by index of the specification */
};

/* Operands of a phase; NULL where it does without. */
struct tensor *pass_tensor (const struct pass *pass, const struct phase *phase, int operand);
struct param *pass_param (const struct pass *pass, const struct phase *phase, int operand);

/* Address of a tensor operand. */
void *pass_data (const struct pass *pass, const struct phase *phase, int operand);

/* Run all phases. A failure is prefixed with the layer and the phase. */
int layer_fwd (const struct pass *pass, struct mg_error *err);
int layer_bwd (const struct pass *pass, struct mg_error *err);

/* Describe tensor 'i' of a layer, without memory. */
struct tensor layer_tensor_of (const struct nn *nn, const struct layer_spec *spec, int i);

#endif /* LIBCORE_NN_LAYER_H */
