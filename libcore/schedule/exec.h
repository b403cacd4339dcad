/* exec - run a schedule's list of steps.
 *
 * The executor knows streams, events and transfers, not models: the passes are callbacks.
 * Each lane (lane.h) has a comm stream of its own, and a communicator of its own where
 * communicators are serial, so that a receive that is posted early never blocks a send.  The lanes
 * of grouped lists share one comm stream and one communicator of all ranks of the pipeline.
 */
#ifndef LIBCORE_SCHEDULE_EXEC_H
#define LIBCORE_SCHEDULE_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/schedule/schedule.h"
#include "megatron/comm.h"
#include "megatron/dtype.h"
#include "megatron/error.h"
#include "megatron/stream.h"

enum sched_buffer {
    SCHED_INPUT,    /* received activation, input of the chunk */
    SCHED_OUTPUT,   /* output of the chunk */
    SCHED_GRADIENT, /* gradient of the output, after the backward pass of the input */
    SCHED_NUM_BUFFERS
};

struct sched_actions {
    /* Enqueue the pass of the step's microbatch, chunk and slot on the compute stream.
     * Called in the order of the list; -1 with a text ends the run.  'backward' may be
     * NULL if the schedule is forward_only.
     */
    int (*forward) (void *arg, const struct sched_step *step, struct mg_error *err);
    int (*backward) (void *arg, const struct sched_step *step, struct mg_error *err);

    /* Address of a slot's buffer, at least 'count' elements; it stays the same as long as
     * the executor lives, and is the same for all chunks of a pool.  Only exec_create()
     * calls this, and only for buffers that are sent or received: not for the input of
     * the first stage, nor for the output of the last stage, nor for gradients that are
     * not transferred.
     */
    void *(*buffer) (void *arg, enum sched_buffer which, int chunk, int slot);

    /* Called before (begin) and after each step is enqueued.  May be NULL. */
    void (*trace) (void *arg, const struct sched_step *step, bool begin);

    void *arg;
};

struct exec_config {
    const struct schedule *schedule; /* must outlive the executor */
    struct mg_device *device;
    struct mg_stream *compute; /* the stream that the passes are enqueued on */

    /* The communicator of each lane.  It is the lane's own, of the lane's two ranks, or one
     * of all ranks of the pipeline that lanes share; its members are in the order of their
     * pipeline ranks.  Lanes may share what schedule_check_comms() says they may.  An entry
     * is not used if no chunk of the list has the lane.  In a grouped list, all entries are
     * the same communicator, of all ranks.
     */
    struct mg_comm *lane[SCHED_NUM_LANES];
    size_t count; /* elements of the tensor between two stages, see exec_set_count() */
    enum mg_dtype dtype;
    struct sched_actions actions;
};

struct exec;

/* Create streams and events and look up the buffers. NULL and a text on failure. */
struct exec *exec_create (const struct exec_config *config, struct mg_error *err);

/* Wait for the enqueued work, of which errors are dropped; then free the executor.  NULL
 * is allowed. */
void exec_destroy (struct exec *exec);

/* Run the list once: one iteration.  Allocates nothing.  What is enqueued on the compute
 * stream afterwards runs after every pass and transfer of the list; on the CPU device all
 * is done on return.  On failure the text names the rank and the step.  Transfers may
 * then be unmatched, and exec_destroy() is the only legal call on the executor.
 *
 * While the calling thread captures (device/graph.h), the whole list becomes a part of the graph.
 * After the capture, and after each replay, call exec_follow().
 */
int exec_run (struct exec *exec, struct mg_error *err);

/* Run another list of the rank, for example with fewer microbatches.  The list must have
 * the chunks, pools and slots of the schedule that the executor was made for
 * (schedule_grow_slots()), and no backward passes if that schedule has none.  Both lists are
 * grouped, or neither is.
 */
int exec_run_list (struct exec *exec, const struct schedule *list, struct mg_error *err);

/* The lists that are run from now on have so many elements between two stages. */
void exec_set_count (struct exec *exec, size_t count);

/* Let the next list follow all work that is now on the compute stream, instead of the last list. */
void exec_follow (struct exec *exec);

#endif /* LIBCORE_SCHEDULE_EXEC_H */
