/* model_private - a model's parts, for its files. */
#ifndef LIBCORE_NN_MODEL_PRIVATE_H
#define LIBCORE_NN_MODEL_PRIVATE_H

#include "libcore/nn/block.h"
#include "libcore/nn/embedding.h"
#include "libcore/nn/head.h"
#include "libcore/nn/model.h"
#include "libcore/nn/model_params.h"

struct slot {
    void **act; /* [num_layers][BLOCK_NUM_ACTS] */
    void *input, *output, *gradient;
    struct head_acts head;
    struct nn_batch batch;
    int microbatch; /* that went forward in it */
};

/* What all layers and slots share. */
struct shared {
    void *act[BLOCK_NUM_ACTS];
    void *grad[BLOCK_NUM_GRADS];
    void *gathered, *weight; /* see struct nn */
    double *loss; /* three sums, see kern_xent_loss */
};

/* Slots for chunks with the same number of layers; the one with the head has its own. */
struct pool {
    int num_layers;
    bool tokens; /* a chunk has the embedding or the head, and so needs the tokens */
    bool head;
    struct slot *slot;
    int num_slots;
};

struct chunk {
    struct model_part part;
    size_t first, embedding, head; /* its first parameter; parameters of its ends */
    struct block *block; /* [part.num_layers] */
    struct pool *pool;
};

struct model {
    struct model_spec spec;
    struct mg_device *device;
    struct nn nn;
    int num_chunks, num_pools;
    struct chunk *chunk;
    struct pool *pool;  /* [num_pools] */
    int *pool_of;       /* [num_chunks] */
    struct param *param;
    size_t num_params;
    struct embedding embedding;
    struct head head;
    struct shared shared;
    void *memory; /* everything that model_bind() carved */
    int32_t *position; /* device memory: of this rank's rows, NULL: of all */
    size_t scratch; /* bytes, 0: not known yet */
    struct nn_batch staged; /* host memory of the next batch on its way to a slot ... */
    struct mg_event *taken; /* ... and when it has come there */
    model_fetch_f fetch;
    void *fetch_arg;
    double weight;
    struct model_hooks hooks;
};

/* calloc() that never asks for nothing: a stage may have no layers, a rank no parameters.
 * 'err' may be NULL.
 */
void *model_allocate (size_t n, size_t size, struct mg_error *err);

/* Forget the slots of a pool; the memory that they describe is the model's. */
void model_clear_pool (struct pool *pool);

#endif /* LIBCORE_NN_MODEL_PRIVATE_H */
