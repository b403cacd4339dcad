/* passes_private - the members of struct passes, for the files that implement it. */
#ifndef LIBCORE_TRAIN_PASSES_PRIVATE_H
#define LIBCORE_TRAIN_PASSES_PRIVATE_H

#include "libcore/schedule/exec.h"
#include "libcore/train/passes.h"

/* Number of microbatches whose inputs have host memory: the host fills one while the
 * device may still read the other.
 */
enum { PASSES_STAGED = 2 };

/* One step of the batch size. */
struct size {
    int64_t from; /* samples consumed */
    struct batch_size batch;
    struct schedule *list; /* NULL: cannot be run */
    bool own;              /* the list belongs to this step, not to an earlier one */
    struct mg_error why;
};

struct passes {
    struct model *model;
    const struct job *job;
    struct sched_kind kind;
    bool evaluates; /* all lists are of forward passes */
    struct size *size;
    size_t num_sizes;
    int *slots; /* [chunks] of each pool, the most of any list */
    const struct schedule *first; /* the first list that can be run */
    struct schedule *forward;     /* list of an evaluation, NULL: none */
    const struct passes_run *run; /* the current run */
    struct model_mode mode;      /* mode of its passes */
    struct nn_inputs inputs;  /* of all chunks, without memory */
    struct nn_inputs *staged; /* [num_staged] the host's side of the inputs of all chunks */
    int64_t num_staged;
    struct mg_event *taken[PASSES_STAGED]; /* the device has read the inputs in this memory */
    int turn;
    struct timers *timers;
    struct exec *exec;
    int warm;       /* iterations that ran eagerly, before capture */
    bool captured;
    double milliseconds; /* time of the capture */
    struct device_graph *iteration; /* graph of all passes, with GRAPHS_ITERATION */
    struct param_seen *seen;        /* the state of each parameter in this graph */
};

/* Pinned host memory for the inputs of 'n' microbatches, PASSES_STAGED at least: p->staged,
 * p->taken.
 */
int passes_stage (struct passes *p, int64_t n, struct mg_error *err);
void passes_unstage (struct passes *p);

/* Enqueue the copies of a microbatch's inputs into a slot: those that the chunk reads. */
int passes_upload (const struct passes *p, int chunk, int slot, const struct nn_inputs *from,
                   struct mg_error *err);

/* Returns the configuration of the executor without its actions. */
struct exec_config passes_exec_config (const struct passes *p);

/* Call this before the passes of an iteration.  It counts the eager iterations and, after
 * the last of these, captures the graphs once.  From then on p->mode.graphs is set.
 */
int passes_prepare_graphs (struct passes *p, const struct schedule *list, struct mg_error *err);

/* Run all passes of an iteration by the graph of the iteration. */
int passes_replay (struct passes *p, const struct schedule *list, struct mg_error *err);

/* Returns the bytes of host memory that the graph of an iteration adds: those for the
 * inputs of all microbatches but the first PASSES_STAGED.
 */
size_t passes_more_staged (const struct passes *p, int64_t microbatches);

#endif /* LIBCORE_TRAIN_PASSES_PRIVATE_H */
