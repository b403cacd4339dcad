/* memory - the plan of the device memory, and of the pinned host memory, that a rank of a
 * run will allocate.
 *
 * The plan asks the modules that allocate: buffers and optimizer, the carving of activations
 * for the slots that the lists of passes need, the communicators, the kernels.  The plan
 * only adds up their answers.  It contains all device memory that the library allocates
 * before the first step; afterwards the library allocates no more.  Memory that MPI and
 * other libraries allocate for themselves is not in the plan.
 */
#ifndef LIBCORE_TRAIN_MEMORY_H
#define LIBCORE_TRAIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/optim/optimizer.h"
#include "megatron/error.h"

enum memory_kind {
    MEMORY_PARAMETERS,
    MEMORY_GRADIENTS,
    MEMORY_MAIN_GRADIENTS, /* gradients in the form that updates read, if passes have
                            * another form */
    MEMORY_MAIN,          /* parameters in float32, if the model's are not */
    MEMORY_MOMENTS,
    MEMORY_ACTIVATIONS,   /* slots of all pools */
    MEMORY_CACHES,        /* keys and values, or latents, that passes which generate keep */
    MEMORY_WORKSPACE,     /* workspace of passes, which all slots share */
    MEMORY_SCRATCH,       /* of kernels: memory besides the operands of one call at a
                             time; depends on threads, processor, library of products */
    MEMORY_CHECKPOINT,    /* host memory: a copy of a checkpoint's contents, with
                           * --async-save */
    MEMORY_COMMUNICATION, /* scratch of communicators, and packed gradients */
    MEMORY_STAGING,       /* host memory: data on its way to the device or from it */
    NUM_MEMORY_KINDS
};

/* "parameters", "main parameters" ... */
extern const char *const memory_kind_names[NUM_MEMORY_KINDS];

struct memory_plan {
    int64_t bytes[NUM_MEMORY_KINDS];
    int communicators; /* communicators that have a connection of their own */
    bool apart;        /* the device has memory of its own */

    /* Bytes of that memory that are part of no kind and of no total: */
    int64_t reserve;       /* of the device's context, the libraries and other programs */
    int64_t comm_reserve;  /* of all communicators */
    int64_t graph_reserve; /* of graphs: memory_add_graphs() */

    int64_t elements; /* elements of the rank's parameters */
    int64_t padding;  /* elements of the buffers that belong to no parameter */
    int shards;       /* shards of a distributed optimizer's state, 1: no distributed
                       * optimizer */
    double forward_cost, again_cost; /* cost of a microbatch: struct model_cost */
    int64_t expert_rows, balanced_rows; /* rows of the rank's experts of a layer: the most
                                           that a round has room for, and the number with
                                           balanced loads.  0: no experts */
    int num_pools;
    struct memory_pool {
        int slots;
        int64_t bytes; /* of all its slots */
    } *pool; /* [num_pools] */
};

/* Bytes of all kinds; bytes of those in host memory. */
int64_t memory_total (const struct memory_plan *plan);
int64_t memory_host (const struct memory_plan *plan);

/* Bytes of the device's memory that the kinds have: without host memory if the device has memory of
 * its own.
 */
int64_t memory_device (const struct memory_plan *plan);

/* Bytes of the device's memory that a run has to find: memory_device() and all reserves. */
int64_t memory_need (const struct memory_plan *plan);

/* Bytes of a device with memory of its own that a plan leaves to a node of a graph.  CUDA does not
 * say how many it takes.  About 10 KB were measured for a kernel: NVIDIA/cccl, pull request 3768.
 */
enum { MEMORY_GRAPH_NODE = 10 << 10 };

/* Reserve memory for graphs of so many nodes. */
void memory_add_graphs (struct memory_plan *plan, int64_t nodes);

/* Bytes of parameters, gradients, main parameters, main gradients and moments; bytes of
 * activations and workspace. */
int64_t memory_state (const struct memory_plan *plan);
int64_t memory_activations (const struct memory_plan *plan);

/* Bytes of the first five kinds for an element of a parameter, or of padding: 'whole'
 * bytes on every rank, and 'shared' bytes that are divided among the shards.
 */
struct memory_each {
    double whole, shared;
    double total; /* whole + shared / shards */
};
struct memory_each memory_each (const struct memory_plan *plan);

/* "7.500 (6 + 12/d, d = 8)". */
enum { MEMORY_EACH_TEXT = 80 };
void memory_each_describe (const struct memory_plan *plan, char text[MEMORY_EACH_TEXT]);

void memory_clear (struct memory_plan *plan);

/* The modules that allocate, before they are bound. */
struct memory_parts {
    struct model *model;
    const int *slots; /* of each pool of the model */
    int64_t staging;  /* bytes of host memory for inputs */
    const struct buffers *buffers;
    const struct main_params *main;
    const struct optimizer *optimizer; /* NULL: there is none */
    const struct job *job;
    int shards; /* as in the plan */
    int64_t reserve; /* of the plan if the job's device has memory of its own */
    int64_t comm_reserve; /* likewise, for each communicator */
};

/* Fill in the bytes that binding the parts will allocate.  -1 and a text on failure. */
int memory_plan (struct memory_plan *plan, const struct memory_parts *parts,
                 struct mg_error *err);

/* Changes by which the run would need less memory. */
struct memory_advice {
    bool async_save;        /* --async-save could be left out */
    bool shard;             /* a distributed optimizer would split the state */
    bool smaller_batch;     /* microbatches could be smaller */
    bool sequence_parallel; /* sequence parallelism is possible */
    bool bf16;              /* 16-bit types are possible */
};

/* Where the plan has to fit. */
struct memory_room {
    int ranks;     /* of the job on this node */
    double device; /* bytes that the device has available, 0: not known, the plan fits */
    bool apart;    /* each rank has a device with memory of its own; false: device memory is host
                      memory, which the ranks of the node share */
    double others; /* bytes of that memory that are taken already: device_describe() */
    double host;   /* bytes of host memory that are available, as above; only read if apart */
};

/* Does the plan fit?  If not: -1, ENOMEM and a text with what is missing and what would help. */
int memory_check (const struct memory_plan *plan, const struct memory_room *room,
                  const struct memory_advice *advice, struct mg_error *err);

#endif /* LIBCORE_TRAIN_MEMORY_H */
