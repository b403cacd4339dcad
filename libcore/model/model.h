/* model - this rank's part of a GPT: its chunks of layers, parameters and activations.
 *
 * model_create() describes the parameters and allocates no memory for them.  Buffers then give
 * every parameter its data and gradient (optim/buffers.h), and model_bind() allocates the
 * activation slots.  After that nothing allocates.  model_begin() comes before the passes of an
 * iteration.  Passes run in the order of a schedule, each for one microbatch in one slot: the
 * caller fills the named inputs of the slot, calls model_forward() and, later, model_backward().
 */
#ifndef LIBCORE_MODEL_MODEL_H
#define LIBCORE_MODEL_MODEL_H

#include "libcore/device/tape.h"
#include "libcore/job/job.h"
#include "libcore/nn/config.h"
#include "libcore/nn/graphs.h"
#include "libcore/nn/inputs.h"
#include "libcore/nn/nn.h"
#include "libcore/nn/param.h"
#include "libcore/nn/recompute.h"
#include "libcore/topo/context.h"
#include "libcore/topo/stages.h"

struct model;
struct check;

/* The kinds of passes that a model is made for.  Each has a shape of its own (struct nn_shape), and
 * the model has memory for the largest counts of all.
 */
enum model_passes { MODEL_TRAINING, MODEL_EVALUATION, MODEL_NUM_PASSES };

struct model_spec {
    struct model_config config;
    int micro_batch_size;
    /* Micro batch and sequence length of passes that evaluate. 0: those of passes that train, whose
     * length is config.seq_length.
     */
    int eval_micro_batch_size, eval_seq_length;
    /* Keys and values of so many positions of so many sequences are kept from pass to pass, and a
     * pass continues sequences (model_continue()); zeros: none.  Such a model has no backward
     * passes and no losses.
     */
    struct {
        int sequences, length;
        int rows, wanted; /* of a pass, and those of them that the head takes, at most */
    } cache;
    enum mg_dtype dtype;    /* of parameters and activations: float32, bfloat16, float16 */
    bool float8_weights;    /* the matrices of layers are stored in float8 (E4M3) */
    bool sequence_parallel; /* tensors outside tensor-parallel regions are split by rows */
    bool max_logit;         /* attention computes its largest logit (model_max_logit()) */
    struct context_config context; /* exchanges of context-parallel ranks; with levels, the job's
                                      configuration has them, too */
    struct recompute recompute; /* the recomputation of backward passes */
    struct graphs graphs;       /* the capture into device graphs */
    const struct stages *stages; /* layers of every stage; a model chunk of this rank is a
                                    virtual stage. Only read by model_create(). NULL: the layers
                                    are dealt out evenly, one chunk on each rank */
};

struct model *model_create (const struct model_spec *spec, const struct job *job,
                            struct mg_error *err);
void model_destroy (struct model *m);

/* This rank's parameters in registration order. */
struct param *model_params (struct model *m, size_t *n);

/* Sizes of the whole model; param->order is below 'tensors'. */
const struct model_sizes *model_sizes_of (const struct model *m);

/* What a microbatch costs this rank (layer_cost()): its forward passes, and what its backward
 * passes compute again.
 */
struct model_cost {
    double forward, again;
};
struct model_cost model_cost (const struct model *m);

/* The configuration that the model was made with. */
const struct model_config *model_config_of (const struct model *m);

/* Write the initial values of all parameters. */
int model_init_params (struct model *m, struct mg_error *err);

/* The number of chunks; for each chunk, the pool whose slots it uses.  Chunks that need the same
 * memory share a pool (schedule_create_pooled()).  The array lives as long as the model.
 */
int model_num_chunks (const struct model *m);
const int *model_pools (const struct model *m);

/* The bytes of activations with slots[pool] slots in each pool, including what all slots share; 0
 * with errno EOVERFLOW or ENOMEM on failure.  model_pool_bytes() returns the bytes of the slots
 * of one pool; it sets errno to 0 if the result 0 is no failure, as for a pool without slots.
 */
size_t model_activation_bytes (struct model *m, const int *slots);
size_t model_pool_bytes (struct model *m, int pool, int slots);

/* Set the text for either errno.  Returns -1. */
int model_activation_error (struct mg_error *err);

int model_num_pools (const struct model *m);

/* *bytes = the scratch memory that kernels need for the passes of this model.  It depends on the
 * device's threads and processor and on the library of matrix products.  This function plans one
 * pass of each kind through each chunk.  Call it before model_bind(); a second call returns the
 * same bytes at once.  -1 and a text on failure.
 */
int model_scratch_bytes (struct model *m, size_t *bytes, struct mg_error *err);

/* Allocate activations, and the kernels' scratch (stream_reserve_scratch()). */
int model_bind (struct model *m, const int *slots, struct mg_error *err);

/* Bytes of pinned host memory that model_bind() allocates and keeps. */
int64_t model_staging_bytes (const struct model *m, const int *slots);

/* The inputs that the layers of a chunk read (nn/inputs.h), without memory, as planned; those of a
 * slot for a pass of a shape (NULL: that of training), which the caller fills before
 * model_forward().
 */
const struct nn_inputs *model_reads (const struct model *m, int chunk);
struct nn_inputs model_inputs (const struct model *m, const struct nn_shape *shape, int chunk,
                               int slot);

/* Boundary tensors of a chunk's slot, [rows, hidden] of the model's type: its input, its output
 * and its gradient.  The caller does not fill the input of the model's first chunk.  The gradient
 * is that of the output before model_backward(), and that of the input after it.
 */
void *model_input (const struct model *m, int chunk, int slot);
void *model_output (const struct model *m, int chunk, int slot);
void *model_gradient (const struct model *m, int chunk, int slot);
size_t model_boundary_count (const struct model *m, const struct nn_shape *shape);
enum mg_dtype model_dtype (const struct model *m);

/* Functions that a pass calls; each may be NULL.  A pass calls params_needed() before it reads
 * parameters, and grads_ready() after it has added to their gradients.  The parameters are 'n' of
 * model_params(), from 'first' on.  A parameter that a stage uses twice is named once: before the
 * first use to params_needed(), after the last one to grads_ready().
 */
struct model_hooks {
    int (*params_needed) (void *arg, size_t first, size_t n, struct mg_error *err);
    int (*grads_ready) (void *arg, size_t first, size_t n, struct mg_error *err);
    void *arg;
};

/* The mode of a pass. */
struct model_mode {
    const struct nn_shape *shape; /* of the passes: model_shape(), or model_continue(); NULL: that
                                     of training */
    bool training;       /* dropout is on */
    double loss_weight;  /* of a microbatch in the loss: the loss scale / number of microbatches;
                            with per_token_loss the loss scale alone.  Read by model_begin() */
    bool per_token_loss; /* a microbatch's loss is the sum over its tokens, not the mean */
    struct check *check; /* finds the first NaN or infinity (nn/check.h); NULL: none */
    struct model_hooks hooks;
    bool graphs;         /* passes replay the graphs that there are (model_capture()) */
    /* Called before and after a replay of a transformer layer's graph.  May be NULL. */
    void (*replay) (void *arg, int layer, size_t nodes, bool begins);
    void *replay_arg;
};

/* Copy host values that passes read to the device: the weight of the loss, and the scales
 * of weights in float8.  Call it before the passes of an iteration or of an evaluation,
 * after parameters have changed.  Passes read these values only on the device, so a
 * recorded pass is right in every iteration.
 */
int model_begin (struct model *m, const struct model_mode *mode, struct mg_error *err);

/* One pass.  A forward pass of the last stage adds to the loss sums, a backward pass adds to the
 * gradients.  A shape that does not fit is refused, -1, before the slot changes.
 */
int model_forward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                   struct mg_error *err);
int model_backward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                    struct mg_error *err);

/* Run the hooks of a pass through the chunk, and count a forward pass in routers; enqueue no pass.
 * For a graph that repeats whole passes.
 */
int model_host_part (struct model *m, const struct model_mode *mode, int chunk, bool backward,
                     struct mg_error *err);

/* Returns the graphs with which the model was made. */
const struct graphs *model_graphs_of (const struct model *m);

/* Capture the graphs of passes in one direction through a chunk, in a slot: one for each
 * transformer layer that has phases in the scopes (GRAPHS_LAYERS).  Nothing runs.  The mode is
 * that of the passes, whose shape must fit the model.  Gradients must be added to
 * (buffers_zero_grad()).  A second call for the same graphs changes nothing.  On failure the
 * model has no graphs at all, and the text names layer, phase and operation.
 */
int model_capture (struct model *m, const struct model_mode *mode, int chunk, int slot,
                   bool backward, struct mg_error *err);
void model_drop_graphs (struct model *m);

/* The graphs that a model has, or would have.  Bytes of activations lie in slots that
 * exist with and without graphs; host_bytes and device_bytes are the memory that graphs add.
 */
struct model_graphs {
    int64_t graphs, nodes;
    int64_t layers; /* of this rank that have graphs */
    size_t static_input_bytes, intermediate_bytes, handover_bytes; /* layer_graph.h */
    size_t host_bytes;
    size_t device_bytes; /* as measured; a plan has 0 */
};
void model_count_graphs (const struct model *m, struct model_graphs *sum);

/* The same without memory: uses[chunk] is the number of slots that a chunk uses.  Call it before
 * model_bind().
 */
int model_plan_graphs (struct model *m, const int *uses, struct model_graphs *sum,
                       struct mg_error *err);

/* Layers of a chunk that have graphs, or would have; the part of the floating-point operations of a
 * forward pass (layer_cost()) that are in graphs.
 */
struct model_captured {
    int layers;
    double share; /* 0 to 1 */
};
struct model_captured model_captured (const struct model *m, int chunk);

/* Plan passes: describe one slot in each pool, whose tensors have no memory, and record what this
 * thread enqueues on 'tape' (device/tape.h), which is empty.  A layer of experts then has one
 * further round.  model_end_plan() stops both, also after a failure; what is on the tape stays.
 * Before model_bind().  -1 and a text on failure.
 */
int model_begin_plan (struct model *m, struct tape *tape, struct mg_error *err);
void model_end_plan (struct model *m, struct tape *tape);

/* The losses of the whole model, *n of them, in the order of its layers.  The first is the main
 * one.  Training minimises the sum of all losses, each times its factor.
 */
enum { MODEL_LOSS_NAME = 32 };
struct model_loss {
    char name[MODEL_LOSS_NAME]; /* in logs, as Megatron-LM's: "lm loss", "mtp_1 loss" */
    double factor;
};
const struct model_loss *model_losses (const struct model *m, int *n);

int model_clear_losses (struct model *m, struct mg_error *err);

/* Enqueue the download of losses and of the largest attention logit; and the same with a wait of
 * the host for the compute stream.  After a wait, the two functions below return what was
 * downloaded.
 */
int model_download_losses (struct model *m, struct mg_error *err);
int model_fetch_losses (struct model *m, struct mg_error *err);

/* The three sums of loss number 'loss' (struct kern_xent_loss), without its factor, over the passes
 * since model_clear_losses(); zeros on ranks without the last stage.  All but the main loss are
 * always means over the tokens of a microbatch.
 */
void model_loss (const struct model *m, int loss, double sums[3]);

/* The largest attention logit, scale q k, that a query of this rank has seen in the passes
 * since model_clear_losses(), or 0 if that is larger, as Megatron-LM's max_attention_logit; layers
 * for multi-token prediction do not count.  -1 where spec.max_logit was not set.
 */
double model_max_logit (const struct model *m);

/* The routers of this rank's layers with experts (router.h), *n of them. */
struct router_state;
struct router_state *model_routers (struct model *m, int *n);

/* Before and after the passes of an iteration.  model_update_routers() enqueues the
 * change of the routers' state by the counts of the passes.  Collective over the ranks of
 * a pipeline stage.  After a wait of the host, model_read_routers() fills stats[layer]
 * for the layers of this rank; 'stats' is an array over all layers.
 */
struct router_stats;
int model_clear_routers (struct model *m, struct mg_error *err);
int model_update_routers (struct model *m, struct mg_error *err);
void model_read_routers (const struct model *m, struct router_stats *stats);

/* Enqueue a copy of the routers' state into host memory (router_copy()). */
int model_copy_routers (struct model *m, struct mg_error *err);

/* True on ranks that hold the last global stage. */
bool model_has_loss (const struct model *m);

struct mg_stream *model_stream (struct model *m);

/* Set the shape of a pass of a model with caches over rows of 'n' sequences, which outlive the
 * pass; the head takes 'wanted' rows.  -1, EINVAL and a text if that is more than is planned.
 */
int model_continue (const struct model *m, const struct nn_sequence *sequence, int n,
                    int64_t wanted, struct nn_shape *shape, struct mg_error *err);

/* The logits of the rows that the head took in the last pass through slot 0 of a model with caches:
 * [wanted][nn.local_vocab] float32, in device memory.  NULL on ranks without the last stage.
 */
const struct tensor *model_logits (const struct model *m);

/* What the last forward pass through a slot of the last chunk found out about each label, in device
 * memory: the rows have the order of the input "labels".  Sums and maxima are over all
 * tensor-parallel ranks, logits are this rank's columns (kern_xent_max, kern_xent_sum).  The loss
 * of a label is log (sum) - target; no logit is above the label's if target is 0.
 */
struct model_scores {
    int64_t tokens;            /* rows */
    const float *sum, *target; /* [tokens] each, one behind the other */
    const float *max;          /* [tokens] */
    const float *logits;       /* [tokens][nn.local_vocab] */
};

/* For a pass of a shape (NULL: that of training) of a model without caches and without layers for
 * multi-token prediction, on a rank that holds the last stage.
 */
struct model_scores model_scores (const struct model *m, const struct nn_shape *shape, int slot);

/* Bytes of all caches of this rank, which model_activation_bytes() counts, too. */
size_t model_cache_bytes (const struct model *m);

/* The shape of passes of a kind; the planned one, which has the largest counts of all kinds. */
const struct nn_shape *model_shape (const struct model *m, enum model_passes kind);
const struct nn_shape *model_planned_shape (const struct model *m);
const struct nn *model_nn (const struct model *m);

#endif /* LIBCORE_MODEL_MODEL_H */
