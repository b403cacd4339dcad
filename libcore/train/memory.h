/* memory - what a rank of a run allocates on its device, and of pinned host memory, planned before
 * it does.
 *
 * The plan asks the modules that allocate: buffers and optimizer, the carving of activations
 * for the slots that the lists of passes need, the communicators, the kernels.  It only adds up
 * their answers.  What it names is all that the library takes of the device before the first step,
 * and it takes no more afterwards; what MPI and other libraries take for themselves is theirs.
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
    MEMORY_MAIN_GRADIENTS, /* as updates read them, where the passes' are not so */
    MEMORY_MAIN,          /* parameters in float32, where the model's are not */
    MEMORY_MOMENTS,
    MEMORY_ACTIVATIONS,   /* slots of all pools */
    MEMORY_WORKSPACE,     /* of the passes, which all slots share */
    MEMORY_SCRATCH,       /* of kernels: of one call at a time, whatever it needs besides its
                             operands; follows from threads, processor, library of products */
    MEMORY_CHECKPOINT,    /* host memory: a copy of what one holds, with --async-save */
    MEMORY_COMMUNICATION, /* scratch of communicators, and gradients packed for a call */
    MEMORY_STAGING,       /* host memory: what goes to the device and comes from it */
    NUM_MEMORY_KINDS
};

/* "parameters", "main parameters" ... */
extern const char *const memory_kind_names[NUM_MEMORY_KINDS];

struct memory_plan {
    int64_t bytes[NUM_MEMORY_KINDS];
    int64_t elements; /* of parameters that the rank holds */
    int64_t padding;  /* elements of their buffers that are nobody's */
    int shards;       /* of the state that a distributed optimizer deals out, 1: none is */
    double forward_cost, again_cost; /* of a microbatch: struct model_cost */
    int64_t expert_rows, balanced_rows; /* rows of a layer's experts of the rank: as many as a round
                                           has room for; those of balanced loads.  0: no experts */
    int num_pools;
    struct memory_pool {
        int slots;
        int64_t bytes; /* of all its slots */
    } *pool; /* [num_pools] */
};

/* All kinds; those in host memory. */
int64_t memory_total (const struct memory_plan *plan);
int64_t memory_host (const struct memory_plan *plan);

/* Parameters, gradients, both main ones, moments; activations and workspace. */
int64_t memory_state (const struct memory_plan *plan);
int64_t memory_activations (const struct memory_plan *plan);

/* Bytes that an element of a parameter, or of padding, takes of the first five kinds: 'whole'
 * on every rank, 'shared' among the shards.
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

/* The modules that allocate, as they are made and not yet bound. */
struct memory_parts {
    struct model *model;
    const int *slots; /* of each pool of the model */
    int64_t staging;  /* bytes of host memory for inputs */
    const struct buffers *buffers;
    const struct main_params *main;
    const struct optimizer *optimizer; /* NULL: there is none */
    const struct job *job;
    int shards; /* as in the plan */
};

/* Fill in the bytes that binding the parts will allocate.  -1 and a text on failure. */
int memory_plan (struct memory_plan *plan, const struct memory_parts *parts,
                 struct mg_error *err);

/* What the run does not do yet, or does and could leave, to need less memory. */
struct memory_advice {
    bool async_save;        /* it could leave --async-save out */
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
    double host;   /* bytes of host memory that are available, as above; only read if apart */
};

/* Does the plan fit?  If not: -1, ENOMEM and a text with what is missing and what would help. */
int memory_check (const struct memory_plan *plan, const struct memory_room *room,
                  const struct memory_advice *advice, struct mg_error *err);

#endif /* LIBCORE_TRAIN_MEMORY_H */
