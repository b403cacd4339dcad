/* passes - the forward and backward passes of an iteration, for every number of
 * microbatches that a run may have.
 *
 * All lists are made at the start, and share their slots and one executor.  So the batch
 * size can change without an allocation.
 */
#ifndef LIBCORE_TRAIN_PASSES_H
#define LIBCORE_TRAIN_PASSES_H

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/optim/num_microbatches.h"
#include "libcore/schedule/schedule.h"
#include "libcore/train/timers.h"

/* Returns the schedule for 'chunks' chunks on each rank.  With several chunks it is
 * interleaved, in groups of 'group' microbatches (0: as many as pipeline ranks).
 */
struct sched_kind passes_kind (int pp, int chunks, int group);

struct passes;

/* Make lists for all sizes of 'batches' that can be run, and remember the other sizes.
 * If 'evaluation' is not 0, also make a list of the forward passes of so many
 * microbatches, which must be possible.  With 'evaluates' the run has no backward passes: all lists
 * are of forward passes, which need fewer slots.  The model and the job must outlive the passes.
 * NULL and a text on failure.
 */
struct passes *passes_create (struct model *model, const struct job *job,
                              const struct num_microbatches *batches, int group,
                              int64_t evaluation, bool evaluates, struct mg_error *err);
void passes_destroy (struct passes *p);

/* Slots that the model must have (model_bind()). */
const int *passes_slots (const struct passes *p);

/* Bytes of pinned host memory that passes_bind() allocates: the inputs of two microbatches or, with
 * a graph of an iteration, of all.
 */
int64_t passes_staging_bytes (const struct passes *p);

/* Make the executor, once the model is bound. 'timers', which must outlive the passes, times
 * those of training.
 */
int passes_bind (struct passes *p, struct timers *timers, struct mg_error *err);

/* Check that every iteration from 'from' to 'to' consumed samples can be run.  -1, EINVAL
 * and the reason for the first one that cannot.
 */
int passes_check (const struct passes *p, int64_t from, int64_t to, struct mg_error *err);

/* Fill all inputs of a list (nn/inputs.h), which are in host memory, for a microbatch of
 * the current iteration.  -1 with EINVAL and a text if the source lacks one of the
 * inputs.
 */
typedef int (*passes_fetch_f) (void *arg, int microbatch, const struct nn_inputs *in,
                               struct mg_error *err);

/* The functions that fill the inputs of passes and read their results, and the model's mode. */
struct passes_run {
    passes_fetch_f fetch;
    void *arg;
    struct model_mode mode;
    /* Called behind each forward pass through the model's last stage, while the slot has its
     * results (model_scores()), before 'fetch' is called again.  NULL: nothing is to be done.
     */
    int (*passed) (void *arg, int microbatch, int slot, struct mg_error *err);
};

/* Run the passes of an iteration of 'num_microbatches' microbatches. */
int passes_train (struct passes *p, const struct passes_run *run, int64_t num_microbatches,
                  struct mg_error *err);

/* Count the graphs (nn/graphs.h) that were captured before the passes of an iteration,
 * and the time of the capture.  False if nothing was captured yet.
 */
bool passes_count_graphs (const struct passes *p, struct model_graphs *sum,
                          double *milliseconds);

/* The graphs that a rank of a run would have. */
struct passes_plan {
    struct graphs config;
    struct model_graphs graphs;
    struct model_graphs single; /* GRAPHS_LAYERS: the same if each chunk used one slot */
    int64_t microbatches;       /* of the largest iteration */
    int64_t nodes, replays;     /* operations that such an iteration runs by replays, and
                                 * the number of replays */
    int num_chunks;
    struct passes_plan_chunk {
        int slots; /* slots that the lists use */
        struct model_captured captured;
    } *chunk; /* [num_chunks] */
};

/* Count graphs without memory, before the model is bound: each kind of pass is captured
 * once, without memory at the captured addresses.  The caller clears the plan, also after
 * a failure.
 */
int passes_plan_graphs (struct passes *p, bool per_token_loss, struct passes_plan *plan,
                        struct mg_error *err);
void passes_plan_clear (struct passes_plan *plan);

/* Run the forward passes of an evaluation. */
int passes_evaluate (struct passes *p, const struct passes_run *run, struct mg_error *err);

#endif /* LIBCORE_TRAIN_PASSES_H */
