/* model_private - the members of a model, for the files that implement it. */
#ifndef LIBCORE_MODEL_MODEL_PRIVATE_H
#define LIBCORE_MODEL_MODEL_PRIVATE_H

#include "libcore/model/model.h"
#include "libcore/model/model_params.h"
#include "libcore/ops/router.h"

/* The memory of a microbatch. */
struct slot {
    struct nn_shape live; /* counts of live rows in 'tensor' */
    struct nn_inputs in; /* of all chunks of the pool */
    struct tensor input, gradient;
    int64_t *routed; /* host memory: [layers of the largest chunk][nn.experts.routed]; NULL: none */
    struct tensor *tensor; /* of all layers of all chunks of the pool, see chunk->tensor; the one
                              before a layer's first is this rank's part of a split output */
};

/* A tensor that all layers and slots share, by name. */
struct shared_tensor {
    const char *name;
    bool gradient;
    struct tensor tensor;
    unsigned passes; /* the kinds of passes that use it: layer_tensor_passes() of all layers */
};

enum { MAX_SHARED = 192 };

/* Shared tensors of layers at one place of their units; those of layers in no unit, and
 * those that are not used between layers, are in set 0.
 */
struct shared_set {
    struct shared_tensor tensor[MAX_SHARED];
    int num_tensors;
};

/* Memory that all layers and slots share. */
struct shared {
    struct shared_set *set;
    int num_sets;
    bool split;             /* some outputs are split ... */
    struct tensor whole[2]; /* ... and whole here: [tp][a rank's part] */
    struct tensor summands;               /* see struct nn_experts */
    struct tensor ring;                   /* see struct nn_cache */
    struct tensor positions[MODEL_NUM_PASSES]; /* see struct nn_shape; those of passes that share */
    struct tensor angles[MODEL_NUM_PASSES];    /* the tables of others are empty */
    struct tensor values;   /* of an iteration, float64: the weight of each loss, then the scales
                               of weights in float8, which are float32 */
    struct tensor loss;     /* [losses][3] float64 */
    struct tensor max_logit; /* [1] float32; empty: not wanted */
};

/* Slots for chunks that need the same memory. */
struct slot_pool {
    size_t bytes; /* of a chunk's slot without inputs */
    struct nn_inputs in; /* of all chunks; not bound */
    struct slot *slot;
    int num_slots;
    size_t num_tensors; /* of a slot: of all chunks */
};

struct chunk {
    struct model_part part;
    struct nn_inputs in; /* that its layers read; not bound */
    struct layer *layer; /* [num_layers] */
    int num_layers;
    size_t *tensor;      /* [num_layers] of a slot's tensors, the layer's one before the first */
    int first_layer;     /* place of the first transformer layer in 'layer' */
    int output;          /* layer whose output the next stage gets; -1: the input */
    struct layer_graph **graph; /* [slots of the pool][num_layers][forward, backward]; NULL: none */
};

struct model {
    struct model_spec spec;
    struct model_sizes sizes; /* of the whole model */
    struct mg_device *device;
    struct nn nn;
    struct nn_shape shape[MODEL_NUM_PASSES];
    struct nn_shape planned; /* of all of them; specifications are made for it */
    struct model_list list;
    struct layer_spec *again_spec; /* as list.spec, of transformer layers in units (recompute.h) */
    struct model_loss *loss_row;   /* [list.num_losses] */
    struct router_state *router; /* [num_routers] of this rank's layers with experts */
    int num_routers;
    int num_chunks, num_pools;
    struct chunk *chunk;
    struct slot_pool *pool;  /* [num_pools] */
    struct tensor *cache;    /* [num_caches] tensors of life LIFE_CACHE, layer after layer */
    size_t num_caches;
    int *pool_of;       /* [num_chunks] */
    struct param *param;
    size_t num_params;
    struct shared shared;
    void *memory; /* the memory that model_bind() has divided */
    int64_t *routed;  /* host memory of all slots */
    int64_t *planned_counts; /* while passes are planned: 'routed' of their slots */
    double *values;           /* host memory: the source of shared.values */
    double *results;          /* host memory: the downloads of shared.loss and
                               * shared.max_logit */
    char *routers_host;       /* host memory of all routers */
    struct mg_event *brought; /* the device has read 'values' */
    size_t scratch; /* bytes, 0: not known yet */
};

/* calloc() of at least one byte, since a stage may have no layers, and a rank no
 * parameters. 'err' may be NULL.
 */
void *model_allocate (size_t n, size_t size, struct mg_error *err);

/* Elements that a tensor-parallel rank keeps of a split output in passes of a shape. */
int64_t model_split_count (const struct model *m, const struct nn_shape *shape);

/* 0 if the model takes passes of this shape; else -1 and a text that says what does not fit. */
int model_check_shape (const struct model *m, const struct nn_shape *shape, struct mg_error *err);

/* Before a pass of this shape, which fits, through a slot: give the tensors of its layers the live
 * rows, and the places of parts of inputs, that they have in such passes.
 */
void model_shape_slot (struct model *m, const struct nn_shape *shape, int chunk, int slot);

/* The kind whose tables of positions and angles passes of a kind use. */
enum model_passes model_tables (const struct model *m, enum model_passes kind);

/* Find the chunks that share slots, and the memory that all chunks share.  Call this when
 * the chunks have their layers. */
int model_plan_pools (struct model *m, struct mg_error *err);

/* model_start() makes a pass without a layer.  The second function sets its layer to
 * layer 'l' of a chunk in a slot. */
struct pass model_start (const struct model *m, const struct model_mode *mode);
void model_point (const struct model *m, struct pass *pass, int chunk, int slot, int l);

/* The graph of a layer's pass, NULL: there is none. */
struct layer_graph *model_graph (const struct model *m, int chunk, int slot, int l, bool backward);

/* Remove the slots of a pool.  The model owns their memory, which stays. */
void model_clear_slots (struct slot_pool *pool);

#endif /* LIBCORE_MODEL_MODEL_PRIVATE_H */
