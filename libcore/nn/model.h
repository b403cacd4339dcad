/* model - this rank's part of a GPT: its chunks of layers, parameters and activations.
 *
 * Life: model_create() describes the parameters and takes no memory for them; a layout
 * gives every parameter its data and gradient (optim/layout.h); model_bind() plans and
 * allocates the activation slots.  Then passes run, one microbatch in one slot each, in the order
 * that a schedule says: the caller fills the named inputs of a slot and calls model_forward(),
 * and later model_backward().  After model_bind() nothing allocates.
 */
#ifndef LIBCORE_NN_MODEL_H
#define LIBCORE_NN_MODEL_H

#include "libcore/job/job.h"
#include "libcore/nn/config.h"
#include "libcore/nn/nn.h"
#include "libcore/nn/param.h"
#include "libcore/topo/stages.h"

struct model;
struct check;

struct model_spec {
    struct model_config config;
    int micro_batch_size;
    enum mg_dtype dtype;    /* of parameters and activations: float32, bfloat16, float16 */
    bool float8_weights;    /* the matrices of layers are stored in float8 (E4M3) */
    bool sequence_parallel; /* split what is outside tensor-parallel regions by rows */
    const struct stages *stages; /* layers of every stage; a model chunk of this rank is a
                                    virtual stage. Read by model_create(). NULL: dealt out
                                    evenly, one chunk on each rank */
};

struct model *model_create (const struct model_spec *spec, const struct job *job,
                            struct mg_error *err);
void model_destroy (struct model *m);

/* This rank's parameters in registration order. */
struct param *model_params (struct model *m, size_t *n);

/* Number of parameter tensors of the whole model (param->order is below it), and of
 * parameters, tied ones once, without padding.
 */
int model_num_tensors (const struct model *m);
int64_t model_num_parameters (const struct model *m);

/* Floating-point operations of training the whole model on one sequence, as Megatron-LM counts
 * them (model_config_flops()).
 */
double model_flops (const struct model *m);

/* Attention heads of the whole model. */
int model_num_heads (const struct model *m);

/* Write the initial values of all parameters. */
int model_init_params (struct model *m, struct mg_error *err);

/* Chunks, and for each the pool whose slots it uses: those that need the same memory share
 * one (schedule_create_pooled()).  Lives as long as the model.
 */
int model_num_chunks (const struct model *m);
const int *model_pools (const struct model *m);

/* Bytes that activations take with slots[pool] slots, and what all slots share; 0 with
 * errno EOVERFLOW or ENOMEM.  Then those of the slots of one pool alone, where 0 with
 * errno 0 is right for a pool without slots.
 */
size_t model_activation_bytes (struct model *m, const int *slots);
size_t model_pool_bytes (struct model *m, int pool, int slots);

/* The text for either errno: returns -1. */
int model_activation_error (struct mg_error *err);

int model_num_pools (const struct model *m);

/* Scratch that kernels need for passes of this model, by this device's threads, processor and
 * library of products: the calls of one pass through each chunk are asked for theirs, and none
 * is run.  To be asked before model_bind(), and costs nothing the second time.  -1 and a text on
 * failure.
 */
int model_scratch_bytes (struct model *m, size_t *bytes, struct mg_error *err);

/* Allocate activations, and the kernels' scratch (device_reserve_scratch()). */
int model_bind (struct model *m, const int *slots, struct mg_error *err);

/* The inputs of a chunk's slot, to be filled before model_forward(): always the sample indices,
 * and tokens, labels and mask where model_needs_tokens().
 */
const struct nn_inputs *model_inputs (const struct model *m, int chunk, int slot);
bool model_needs_tokens (const struct model *m, int chunk);

/* Boundary tensors of a chunk's slot, [rows, hidden] of the model's type: the input it expects
 * (of the first chunk of the model: not to be filled), its output, its gradient (of the output
 * before model_backward(), of the input after).
 */
void *model_input (const struct model *m, int chunk, int slot);
void *model_output (const struct model *m, int chunk, int slot);
void *model_gradient (const struct model *m, int chunk, int slot);
size_t model_boundary_count (const struct model *m);
enum mg_dtype model_dtype (const struct model *m);

/* Told of the parameters that a pass is about to read, and of those whose gradients it has
 * added to: 'n' of model_params() from 'first' on.  A parameter that a stage uses twice is
 * told of once, where both uses are behind (before) it.  NULL: nobody asks.
 */
struct model_hooks {
    int (*params_needed) (void *arg, size_t first, size_t n, struct mg_error *err);
    int (*grads_ready) (void *arg, size_t first, size_t n, struct mg_error *err);
    void *arg;
};

/* How a pass is taken. */
struct model_mode {
    bool training;       /* dropout is on */
    double loss_weight;  /* of a microbatch in the loss: 1 / number of microbatches, times a loss
                            scale; with per_token_loss the scale alone */
    bool per_token_loss; /* a microbatch's loss is the sum over its tokens, not the mean */
    struct check *check; /* look at all that is made (nn/check.h); NULL: do not */
    struct model_hooks hooks;
};

/* One pass; the last stage adds to the loss sums, the backward pass to the gradients. */
int model_forward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                   struct mg_error *err);
int model_backward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                    struct mg_error *err);

/* The losses of a model, and their names. */
enum model_losses { MODEL_LM_LOSS, MODEL_NUM_LOSSES };
extern const char *const model_loss_names[MODEL_NUM_LOSSES];

/* The three sums of a loss, see kern_xent_loss, since model_clear_losses(); zeros on ranks
 * without the last stage.  Waits for the compute stream.
 */
int model_loss (struct model *m, enum model_losses loss, double sums[3], struct mg_error *err);
int model_clear_losses (struct model *m, struct mg_error *err);

/* True on ranks that hold the last global stage. */
bool model_has_loss (const struct model *m);

struct mg_stream *model_stream (struct model *m);
const struct nn_shape *model_shape (const struct model *m);
const struct nn *model_nn (const struct model *m);

#endif /* LIBCORE_NN_MODEL_H */
