/* block - one transformer layer as a list of phases.
 *
 * Pre-layer-norm GPT block, its heads and its MLP split over the tensor-parallel group:
 *
 *   residual = input + dropout (proj (attention (qkv (norm1 (input))))  + bias)
 *   output   = residual + dropout (fc2 (gelu (fc1 (norm2 (residual)))) + bias)
 *
 * One all-reduce forward and one backward in each of the two halves (the f and g operators
 * of Shoeybi et al. 2019); with sequence parallelism each is an all-gather and a
 * reduce-scatter (Korthikanti et al. 2022), and what is outside them is split by rows.  What
 * runs is data: block_phases[] in order forward, and in reverse backward.  A phase names
 * the tensors it reads and writes and whether a device graph may capture it, so that
 * memory, checking and capture are decided from the table.
 */
#ifndef LIBCORE_NN_BLOCK_H
#define LIBCORE_NN_BLOCK_H

#include "libcore/nn/linear.h"
#include "libcore/tensor/arena.h"

/* Tensors of the forward pass, per layer. */
enum block_act {
    ACT_INPUT,   /* [rows, hidden]; the previous layer's ACT_OUTPUT */
    ACT_NORM1,   /* [rows, hidden] */
    ACT_STAT1,   /* [2, rows] mean and 1 / deviation */
    ACT_QKV,     /* [tokens, heads, q k v, head_dim] */
    ACT_LSE,     /* [batch, heads, seq] */
    ACT_CONTEXT, /* [tokens, heads * head_dim] */
    ACT_RESIDUAL,
    ACT_NORM2,
    ACT_STAT2,
    ACT_FC1,  /* [tokens, ffn] before GeLU */
    ACT_GELU, /* [tokens, ffn] */
    ACT_OUTPUT,
    ACT_BRANCH, /* [tokens, hidden] what a half adds to the residual, first as summands */
    BLOCK_NUM_ACTS
};

/* Tensors of the backward pass, shared by all layers. */
enum block_grad {
    GRAD_HIDDEN,  /* gradient of the output, then of the residual, then of the input */
    GRAD_BRANCH,  /* [rows, hidden] */
    GRAD_NORM,    /* [tokens, hidden] gradient of a norm's output, first as summands */
    GRAD_FFN,     /* [tokens, ffn] */
    GRAD_QKV,     /* as ACT_QKV */
    GRAD_CONTEXT, /* as ACT_CONTEXT */
    BLOCK_NUM_GRADS
};

enum block_life {
    LIFE_SAVED,    /* kept in the microbatch's slot until the backward pass */
    LIFE_SHARED,   /* one for all layers and slots */
    LIFE_EXTERNAL, /* belongs to somebody else: the chain of layer outputs */
};

struct block_tensor {
    const char *name;
    enum block_life life;
    bool wide; /* float32 whatever the model's type: statistics */
    int64_t (*count) (const struct nn *nn); /* elements on this rank */
};
extern const struct block_tensor block_acts[BLOCK_NUM_ACTS];
extern const struct block_tensor block_grads[BLOCK_NUM_GRADS];

enum { BLOCK_NUM_PARAMS = 12 };

struct block {
    int layer; /* global, from 0 */
    struct param *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;
    struct linear qkv, proj, fc1, fc2; /* proj and fc2 without bias: it is added later */
    struct param *proj_bias, *fc2_bias;
    uint64_t *attention_key; /* [local heads], device memory */
    uint64_t hidden_key[2];  /* after attention, after the MLP */
};

/* One pass of one layer over one microbatch. */
struct block_run {
    const struct nn *nn;
    const struct block *block;
    const struct nn_batch *batch;
    void **act;   /* [BLOCK_NUM_ACTS] */
    void **grad;  /* [BLOCK_NUM_GRADS]; NULL in a forward pass */
    bool training; /* dropout is on */
};

#define ACT_BIT(a) (1u << (a))

enum { PHASE_CAPTURABLE = 1 }; /* no host wait, no allocation, fixed shapes and addresses */

struct block_phase {
    const char *name;
    unsigned flags;
    unsigned reads, writes; /* of block_act, forward pass */
    int (*fwd) (const struct block_run *run, struct mg_error *err); /* NULL: nothing */
    int (*bwd) (const struct block_run *run, struct mg_error *err); /* NULL: nothing */
};
extern const struct block_phase block_phases[];
extern const size_t block_num_phases;

/* Describe the layer's BLOCK_NUM_PARAMS parameters into 'p' (their order in the model
 * starts at 'order') and point 'b' at them.
 */
void block_init (struct block *b, const struct nn *nn, int layer, struct param *p, int order);

/* What a layer that runs has besides parameters, of device memory; block_clear() gives it back,
 * also after a failure, and takes a zeroed block.
 */
int block_make_keys (struct block *b, const struct nn *nn, struct mg_error *err);
void block_clear (struct block *b, struct mg_device *device);

/* Run all phases. A failure is prefixed with the layer and the phase. */
int block_fwd (const struct block_run *run, struct mg_error *err);
int block_bwd (const struct block_run *run, struct mg_error *err);

/* Take what a layer saves for one slot (LIFE_SAVED) into act[], leaving the rest. */
void block_carve_saved (const struct nn *nn, struct arena *a, void **act);

/* Take what all layers share: LIFE_SHARED tensors into act[] and grad[]. */
void block_carve_shared (const struct nn *nn, struct arena *a, void **act, void **grad);

#endif /* LIBCORE_NN_BLOCK_H */
