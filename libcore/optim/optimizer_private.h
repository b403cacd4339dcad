/* optimizer_private - an optimizer's parts, for its files. */
#ifndef LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H
#define LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H

#include "libcore/optim/optimizer.h"

/* Memory of a layout's buffers, one behind the other. */
enum {
    MEMORY_PARAM, /* of the model's type */
    MEMORY_GRAD,
    MEMORY_MAIN, /* not with float32 */
    MEMORY_EXP_AVG,
    MEMORY_EXP_AVG_SQ,
    NUM_MEMORIES
};

/* Where a buffer starts in them. */
struct place {
    int64_t whole; /* of parameters and gradients */
    int64_t shard; /* of main parameters and moments: the rank's shards of all buckets, one
                      behind the other */
    size_t bucket; /* of the list of all buckets */
};

/* A bucket of any buffer, and what is under way for it. */
struct sync {
    int buffer, bucket;
    int64_t missing; /* gradients, one for each parameter and microbatch, before it can be
                        reduced; 0: it has been */
    struct mg_event *gathered; /* its parameters have come, if overlapped */
    bool gathering;            /* and nobody has waited for them yet */
};

struct optimizer {
    struct optimizer_config config;
    struct mg_device *device;
    const struct kernels *kern;
    struct mg_stream *stream;
    struct mg_comm *tp, *embd, *world;
    struct mg_comm *dp;        /* ranks with the same parameters; of a sharded optimizer
                                  those of this instance */
    struct mg_comm *instances; /* ranks with the same shard, NULL: this one alone */
    int tp_rank;
    int rank;    /* whose shards are updated */
    bool counts; /* norms of this rank's ranges enter the sum */
    struct param *params;
    size_t n;
    int num_tensors;
    struct layout *layout;
    struct place *place; /* [layout->num_buffers] */
    struct place total;
    enum mg_dtype dtype; /* of the parameters */
    void *memory[NUM_MEMORIES];
    struct optimizer_range *range;
    size_t num_ranges;
    struct sync *sync; /* all buckets: those of the first buffer, of the second ... */
    size_t num_syncs;
    size_t *sync_of;         /* [n] bucket of every parameter */
    struct mg_stream *aside; /* carries collectives that overlap kernels, NULL: none do */
    struct mg_event *computed; /* compute stream -> aside */
    struct mg_event *caught_up; /* aside -> compute stream */
    float *packed; /* gradients of the sequence-parallel parameters, one after another */
    int64_t num_packed;
    double *reduced; /* [num_tensors + OPTIMIZER_MAX_EXTRA + 1] */
    double *zeros;   /* [num_ranges] */
    int64_t num_zeros;
    int64_t steps;
};

/* Element i of a memory of floats, of the parameters. */
float *optimizer_floats (struct optimizer *o, int memory, int64_t i);
void *optimizer_data_at (struct optimizer *o, int64_t i);

/* What is allocated for the collectives, once the layout is there. */
int optimizer_sync_setup (struct optimizer *o, struct mg_error *err);
void optimizer_sync_clear (struct optimizer *o);

/* Every rank's shard of the parameters to all, after an update. */
int optimizer_gather_params (struct optimizer *o, struct mg_error *err);

#endif /* LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H */
