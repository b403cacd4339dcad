/* layer - a layer as data: its parameters, its tensors, its phases.
 *
 * A layer is made from a specification: a list of parameters, a list of tensors with their life,
 * and a list of phases.  A phase is an operation of a layer (struct layer_op: a norm, a linear
 * layer, ...) whose operands are some of these parameters and tensors.  The operation says what
 * it reads and writes of each operand, forward and backward, whether a device graph may capture
 * the phase, how many floating-point operations the phase takes, and on which side streams it
 * leaves work or needs earlier work to be done.  Forward passes run the phases in order, backward
 * passes in reverse.  So the specification decides the order and number of parameters, the memory
 * of a slot, the values that are searched for a NaN, the phases that may be captured, and the
 * floating-point operations of a pass.  gpt.h has the specifications of a GPT.
 *
 * A tensor that is not kept for the backward pass (LIFE_RECOMPUTED) is written again by the forward
 * halves of the phases that wrote it.  The specification decides which phases run again and when.
 *
 * A model chunk is a list of layers.  The embedding, each transformer layer, the output layer and
 * the loss are all layers in this sense.
 */
#ifndef LIBCORE_NN_LAYER_H
#define LIBCORE_NN_LAYER_H

#include "libcore/nn/check.h"
#include "libcore/nn/graphs.h"
#include "libcore/nn/inputs.h"
#include "libcore/nn/nn.h"
#include "libcore/nn/param.h"
#include "libcore/nn/recompute.h"

enum { LAYER_MAX_PARAMS = 24, LAYER_MAX_TENSORS = 112, LAYER_MAX_PHASES = 64,
       LAYER_MAX_OPERANDS = 80, LAYER_MAX_PARTS = 3 };

/* How a parameter is split over the tensor-parallel group. */
enum param_split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLS };

/* Initial values.  INIT_EMBEDDING is INIT_NORMAL with the deviation of embeddings.  INIT_SCALED is
 * INIT_NORMAL with the deviation divided by sqrt (2 layers), for
 * weights whose products are added to a residual (Radford et al. 2019).
 */
enum init { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_SCALED, INIT_EMBEDDING };

struct layer_param {
    const char *name;  /* behind the prefix of the layer; with 'experts', %d is the expert */
    bool whole_name;   /* the layer's prefix is not put before the name */
    int ndims;
    int64_t global[2]; /* shape of the whole tensor, without padding; with 'experts', of one */
    int experts;       /* 0; or that many tensors of this shape, one of each expert: this rank's
                          experts' are one behind the other, and 'split' is over the
                          expert-tensor-parallel group */
    int64_t padded;    /* number of rows with padding, if this is above global[0]; else 0 */
    enum param_split split;
    int blocks;        /* equal blocks of rows, each of which is split alone (a gate and what it
                          multiplies); 0: one; not with 'padded' */
    int64_t part[LAYER_MAX_PARTS]; /* rows of each part of a fused parameter: groups of part[0] +
                          part[1] + ... rows follow each other (queries, key and value of some
                          heads; a gate and what it multiplies); zeros: not fused */
    enum init init;
    int repeat;        /* above 1: so many rows in a row have the same initial values */
    bool partial;      /* each tensor-parallel rank uses it for other heads: its gradients are
                          summands */
    int kind;          /* key of its initial values: no two parameters of a layer have the same
                          kind, and the kind stays when other parameters come or go */
    bool matrix;       /* a factor of matrix products, which may be stored in float8 */
    bool product;      /* no matrix, but its gradient is one product all the same */
    bool embedding;    /* the word embedding: if several layers use it, all layers of a rank have
                          one copy */
    bool output;       /* the output layer's weight, if it is not the word embedding: heads share
                          it */
};

enum layer_life {
    LIFE_SAVED,    /* kept in the microbatch's slot until the backward pass */
    LIFE_RECOMPUTED, /* written in the forward pass, and again before the backward pass reads it;
                        all layers at one place of their units (struct layer_unit) share it */
    LIFE_SHARED,   /* one tensor of this name serves all layers and slots */
    LIFE_INPUT,    /* the output of the layer before */
    LIFE_OUTPUT,   /* saved, the input of the next layer */
    LIFE_GRADIENT, /* one for a slot: the gradient of the output, then of the input */
    LIFE_BATCH,    /* the input of the microbatch of this name (inputs.h); no phase writes it */
    LIFE_CACHE,    /* one of the layer, kept from pass to pass, for all slots */
    LIFE_LOSS,     /* the sums of the layer's loss (struct layer_loss), to which passes add */
};

/* Elements of a tensor: of the model's type, or, as statistics are, of one type in every model. */
enum layer_type { LAYER_OF_MODEL, LAYER_FLOAT32, LAYER_FLOAT64, LAYER_INT32, LAYER_INT64 };

struct layer_tensor {
    const char *name;
    enum layer_life life;
    bool gradient;  /* made by a backward pass */
    enum layer_type type;
    unsigned modules; /* RECOMPUTE_BIT() of those that make it */
    bool keep;      /* is never computed again: the forward pass changes what it is made of */
    int ndims;
    int64_t shape[TENSOR_MAX_DIMS]; /* capacity: shape[0] is 'rows' in the planned shape */
    struct nn_extent rows; /* live in a pass; times 0: shape[0] in every pass */
    int parts;      /* of an input: that many parts of this shape, of which the layer reads number
                       layer->mtp; 0: there is one, or the layer reads part 0 */
};

struct pass;
struct phase;
struct layer_spec;
struct layer_graph;

/* What an operation does to an operand, forward or backward.  Scratch is written, and of no use
 * afterwards; it may hold anything.  OPERAND_ASIDE: the work that the phase leaves on a side stream
 * does it too, so that no later phase may get in its way before it is awaited.  OPERAND_RESULT: it
 * is written, or added to if the phase says so (struct phase).  OPERAND_TRAIN: only the gradients
 * of the phase's parameters need this access.
 */
enum { OPERAND_READ = 1, OPERAND_WRITE = 2, OPERAND_ADD = 4, OPERAND_SCRATCH = 8,
       OPERAND_ASIDE = 16, OPERAND_RESULT = 32, OPERAND_TRAIN = 64 };

struct layer_operand {
    const char *name;
    bool param;
    unsigned fwd, bwd; /* for a parameter, bwd ADD is an access to its gradient, and READ
                        * to its value */
};

/* Flags of an operation. */
enum {
    PHASE_CAPTURABLE = 1, /* no host wait, no allocation, fixed shapes and addresses */
};

struct layer_op {
    const char *name;
    unsigned flags;
    /* Side streams (NN_TP_SIDE, ...).  The loop over phases makes the compute stream wait for those
     * of 'awaits' before it runs the phase.  The phase leaves work on those of 'starts', on one at
     * most in each direction; the operation awaits all other work that it starts itself.
     */
    unsigned awaits_fwd, starts_fwd, awaits_bwd, starts_bwd;
    /* Floating-point operations of the forward pass of a phase, over all tensor-parallel ranks, as
     * Megatron-LM counts them: those of products of matrices.  NULL: the operation has none.
     */
    double (*flops) (const struct layer_spec *spec, const struct phase *phase,
                     const struct nn *nn, const struct nn_shape *shape);
    struct layer_operand operand[LAYER_MAX_OPERANDS]; /* entries without a name are not used */
    int (*fwd) (const struct pass *pass, const struct phase *phase, struct mg_error *err);
    /* NULL: the backward pass has nothing to run. */
    int (*bwd) (const struct pass *pass, const struct phase *phase, struct mg_error *err);
};

/* The rows that a norm normalises: those of this rank's hidden states; each head of the fused
 * product 'which'; the first 'norm_cols' columns of a latent.
 */
enum norm_rows { NORM_HIDDEN, NORM_HEADS, NORM_LATENT };

struct phase {
    const char *name;
    const struct layer_op *op;
    int operand[LAYER_MAX_OPERANDS]; /* indices of the specification's parameters or tensors, as
                                        the operation says; LAYER_NONE: no operand */
    int which; /* number of a phase among those of one operation, a coordinate of dropout; of
                  phases about heads: which heads (enum heads) */
    bool adds; /* the phase adds to the operand that is an OPERAND_RESULT */
    bool frozen; /* the backward half computes no gradient of a parameter; it does not run if the
                    phase then has no operand that it writes */
    enum norm_rows norm_rows; /* of a norm: ops.h */
    int64_t norm_cols;        /* of a norm of a latent */
    unsigned scopes; /* GRAPH_BIT() of those that have the phase (graphs.h) */
    bool fixed;      /* all counts are known before, so that the phase can be captured although its
                        operation in general cannot */
};

/* The loss of a layer. */
struct layer_loss {
    const char *name; /* in logs: "lm loss"; "%d" is 1 + the number among the layers for multi-token
                         prediction.  NULL: nothing */
    double factor;    /* factor of the loss in the sum that is minimised */
};

/* Indices of parameters and tensors begin with 1. */
enum { LAYER_NONE = 0 };

struct layer_spec {
    const char *name;   /* "layer", "embedding": for texts */
    const char *prefix; /* prefix of parameter names; "%d" is the number of the layer */
    const char *mtp_prefix; /* prefix if the layer is one for multi-token prediction; "%d" is the
                               number among these */
    struct layer_param param[LAYER_MAX_PARAMS + 1];
    int num_params; /* in param[1], ... */
    struct layer_tensor tensor[LAYER_MAX_TENSORS + 1];
    int num_tensors;
    struct phase phase[LAYER_MAX_PHASES];
    int num_phases;
    bool block;         /* a transformer layer, as recomputation and graphs of layers want it */
    bool router;        /* its layers have a router (router.h) */
    bool forward_only;  /* its passes have no backward half: layer_spec_forward_only() */
    struct layer_loss loss;
    uint64_t again[LAYER_MAX_PHASES]; /* bits: before the backward half of phase i, the forward
                                         halves of these phases run again, in order */
    int graph_begin, graph_end; /* phases from the first on, and before the second, are captured:
                                   layer_spec_capture(); equal: none */
    bool full; /* a parameter, tensor or phase did not fit */
};

/* Add a parameter, a tensor or a phase.  The first two return the index. */
int layer_add_param (struct layer_spec *spec, const struct layer_param *param);
int layer_add_tensor (struct layer_spec *spec, const struct layer_tensor *tensor);
void layer_add_phase (struct layer_spec *spec, const struct phase *phase);

/* Returns the index of the specification's only tensor of a life, or LAYER_NONE if there is none.
 */
int layer_find (const struct layer_spec *spec, enum layer_life life);

/* Checks that every phase reads only tensors that were written before, forward and backward; that
 * every saved tensor is written; that no phase writes an input, or has an operand that the table
 * of its operation lacks; and that work on a side stream is awaited by a later phase of the same
 * direction, before a phase uses a tensor that the work writes, or writes one that the work reads,
 * and before more work is left on that stream.  Fills in spec->again: the fewest phases that write
 * recomputed tensors again before the backward pass reads them.  A phase can run again if the
 * tensors that it reads are as they were in the forward pass.  0, or -1, EINVAL and a text that
 * names layer, phase and tensor.
 */
int layer_spec_check (struct layer_spec *spec, struct mg_error *err);

/* Turn saved tensors that no backward half reads into recomputed ones, whose memory all layers
 * share; but not those that a phase reads that has to run again.  Then check.
 */
int layer_spec_trim (struct layer_spec *spec, struct mg_error *err);

/* Make saved tensors of 'modules' recomputed ones, then check. */
int layer_spec_recompute (struct layer_spec *spec, unsigned modules, struct mg_error *err);

/* Say that there are no backward passes, then check.  Gradients have no rows, and no tensor is kept
 * for a backward pass: saved ones have the life of recomputed ones.
 */
int layer_spec_forward_only (struct layer_spec *spec, struct mg_error *err);

/* Choose the phases that device graphs have: those in one of the scopes (graphs.h).  -1, EINVAL and
 * a text that names the phase if one of them cannot be captured, or if they are not one behind the
 * other.
 */
int layer_spec_capture (struct layer_spec *spec, unsigned scopes, struct mg_error *err);

/* Check that the phases which run again in the captured part of the backward pass can be
 * captured, too.  Call this after the recomputed tensors are chosen.  0; or -1, EINVAL
 * and a text.
 */
int layer_spec_check_capture (const struct layer_spec *spec, struct mg_error *err);

/* The place of a layer among the layers that run forward again together.  Recomputed
 * tensors of layers at the same place of their units share memory, and so do outputs
 * inside of units.
 */
struct layer_unit {
    int size;  /* layers of the unit; 0: the layer is in none */
    int place; /* of the layer, from 0 */
    int split; /* 1 or 2: tensor-parallel ranks keep a part each of its output, which is whole in
                  that one of two buffers; 0: this rank keeps all of it */
};

/* Floating-point operations of the layer's forward pass over a pass of this shape, over all
 * tensor-parallel ranks: those of its phases.
 */
double layer_flops (const struct layer_spec *spec, const struct nn *nn,
                    const struct nn_shape *shape);

/* Returns the elements of a parameter that this rank has. */
int64_t layer_param_count (const struct layer_param *row, const struct nn *nn);

/* Operations of all tokens' product with a weight: a multiplication and its addition for each
 * element of the weight and token.  The padding of a vocabulary counts.
 */
double layer_product_flops (const struct layer_param *weight, const struct nn_shape *shape);

/* What the forward halves of some phases, bits of 'phases', cost this rank: floating-point
 * operations of products and attention, and an estimate for other operations.
 */
double layer_cost (const struct layer_spec *spec, uint64_t phases, const struct nn *nn,
                   const struct nn_shape *shape);

/* A layer of this rank. */
struct layer {
    const struct layer_spec *spec;
    int number;    /* of the transformer layer, from 0; -1: no transformer layer.  Those for
                      multi-token prediction come behind the others */
    int mtp;       /* 0, or 1 + its number among the layers for multi-token prediction: it reads
                      tokens and labels of so many positions later */
    int step;      /* place in the model: embedding 0, transformer layers from 1, ... */
    int loss;      /* 1 + number of the loss that it adds to; 0: none */
    struct param *param[LAYER_MAX_PARAMS + 1]; /* by index of the specification */
    struct layer_unit unit;
    struct nn_exchange exchange; /* of a transformer layer's attention */
    struct router_state *router; /* of a layer with experts (router.h) */
    size_t first;  /* place of its first own parameter among all of the rank */
    size_t num_own; /* number of its own parameters */
    size_t cache;   /* place of its first tensor of life LIFE_CACHE among all of the rank */
    size_t apart;   /* 1 + place of one that is not beside the others; 0: none */
};

/* Describe the layer's parameters in p[0], ..., p[spec->num_params - 1], make the layer point to
 * them, and set its exchange.  'order' is the place of the first one among all parameters of the
 * model.
 */
void layer_describe (struct layer *layer, const struct nn *nn, bool sequence_parallel,
                     struct param *p, int order);

/* Write 'name' with a number in place of its "%d", if it has one. */
void layer_format (const char *name, int number, char *out, size_t size);

/* The name of something of the layer: 'name' behind its prefix, with the number of the layer. */
void layer_name (const struct layer *layer, const char *name, char out[PIECE_NAME_MAX]);

/* One pass over one microbatch. */
struct pass {
    const struct nn *nn;
    const struct nn_shape *shape;
    bool training;       /* dropout is on */
    bool again;          /* phases run forward a second time: what they count was counted */
    bool again_done;     /* of a backward pass: recomputed tensors are there already */
    struct check *check; /* finds the first NaN or infinity (check.h); NULL: none */
    const double *loss_weight; /* device memory: of this microbatch in the iteration's loss, times
                                  the loss scale */
    bool per_token_loss; /* the microbatch's loss is the sum over its tokens, not the mean */
    float *max_logit;    /* device memory: becomes the largest attention logit of the transformer
                            layers, but for those of multi-token prediction; NULL: not wanted */
    uint64_t *asked; /* bits: operands for which the running phase has asked (pass_tensor(), ...).
                        The loops over phases set it; NULL: nobody looks */
    /* The model sets the rest for each layer. */
    const struct layer *layer;
    const double *factored_weight; /* loss_weight times the factor of the layer's loss */
    struct tensor *tensor; /* by index of the specification */
    int64_t *routed; /* host memory of the layer's slot: counts of tokens (dispatch.h) */
    const struct layer_graph *graph; /* does what the captured phases do; NULL: they run */
    void (*replay) (void *arg, int layer, size_t nodes, bool begins); /* model.h */
    void *replay_arg;
};

/* An operand of a phase; NULL if the phase does without it.  It is an error if the table
 * of the operation has no access to the operand in this direction.
 */
struct tensor *pass_tensor (const struct pass *pass, const struct phase *phase, int operand);
struct param *pass_param (const struct pass *pass, const struct phase *phase, int operand);

/* Address of a tensor operand. */
void *pass_data (const struct pass *pass, const struct phase *phase, int operand);

/* Run all phases.  A backward pass also runs phases forward again, whose results 'check' does not
 * look at a second time.  The text of a failure begins with the layer and the phase.
 */
int layer_fwd (const struct pass *pass, struct mg_error *err);
int layer_bwd (const struct pass *pass, struct mg_error *err);

/* Run only the phases from 'begin' on and before 'end'. */
int layer_fwd_phases (const struct pass *pass, int begin, int end, struct mg_error *err);
int layer_bwd_phases (const struct pass *pass, int begin, int end, struct mg_error *err);

/* Returns the number of operands that an operation has room for in a phase. */
int layer_num_operands (const struct layer_op *op);

/* Returns the access of an operation to operand 'i' of a phase, forward or backward; for
 * a parameter in the backward pass, this is 'bwd'.  0 if there is no such operand.
 */
unsigned layer_access (const struct phase *phase, int i, bool backward);

/* Returns true if the phase has a backward half that runs.  If it has none, layer_access() returns
 * 0 for its operands.
 */
bool layer_runs_backward (const struct phase *phase);

/* The name of a layer in texts: "layer 3", "mtp layer 0", "embedding". */
enum { LAYER_TEXT_MAX = 64 };
void layer_text (const struct layer *layer, char text[LAYER_TEXT_MAX]);

/* Returns the passes that use tensor 'i' of a layer: LAYER_FORWARD, LAYER_BACKWARD, both or none.
 * A phase that a backward pass runs forward again is a use by the backward pass.
 */
enum { LAYER_FORWARD = 1, LAYER_BACKWARD = 2 };
unsigned layer_tensor_passes (const struct layer *layer, int i);

/* Returns a bit for each phase whose forward half runs again in a backward pass: that of the layer,
 * or of its unit.
 */
uint64_t layer_again (const struct layer *layer);

/* Returns the live rows of a tensor, of one part of an input, in passes of a shape. */
int64_t layer_live (const struct layer_tensor *row, const struct nn_shape *shape);

/* Returns a description of tensor 'i' of a layer, which has no memory yet.  All rows are live. */
struct tensor layer_tensor_of (const struct nn *nn, const struct layer_spec *spec, int i);

#endif /* LIBCORE_NN_LAYER_H */
