/* schedule - a pipeline schedule as a list of steps for one rank.
 *
 * A schedule is data.  Its kind decides the order of the forward and backward passes; the
 * transfers, waits and buffer slots follow from this order.  The list can be printed, checked
 * (schedule_check) and executed (exec.h) by code that does not depend on the kind.  Names are
 * Megatron-LM's: a stage of the pipeline is a rank, and a model chunk is one of the parts of the
 * model that a rank holds (only one, unless the schedule is interleaved).
 */
#ifndef LIBCORE_SCHEDULE_SCHEDULE_H
#define LIBCORE_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/schedule/lane.h"
#include "megatron/error.h"

enum sched_op {
    SCHED_RECV_FWD, /* post the receive of the input activation into the slot */
    SCHED_WAIT_FWD, /* wait until the activation has arrived */
    SCHED_FWD,      /* forward pass; reads the slot's input, writes its output */
    SCHED_SEND_FWD, /* start sending the slot's output */
    SCHED_SENT_FWD, /* wait until the output is sent */
    SCHED_RECV_BWD, /* post the receive of the output's gradient into the slot */
    SCHED_WAIT_BWD, /* wait until the gradient has arrived */
    SCHED_BWD,      /* backward pass; turns the slot's gradient into the input's */
    SCHED_SEND_BWD, /* start sending the slot's gradient */
    SCHED_SENT_BWD, /* wait until the gradient is sent */
    SCHED_NUM_OPS
};

extern const char *const sched_op_names[SCHED_NUM_OPS];

struct sched_step {
    enum sched_op op;
    int microbatch;
    int chunk; /* model chunk of this rank, from 0 */
    int slot;  /* activation slot, of those that the chunk may use */
    int peer;  /* pipeline rank of the other end of a transfer, -1: none */
    enum sched_lane lane; /* of a transfer, and of the wait for a transfer */
    bool joins; /* a transfer of the same call as the step before; see sched_shape.grouped */
};

struct sched_shape {
    int pp;           /* pipeline size */
    int rank;         /* pipeline rank */
    int microbatches; /* at least 1 */
    bool forward_only;
    /* The transfers between two passes are one call, a list of sends and receives that start
     * together (mg_comm_p2p()), and all calls are on one communicator of the pipeline.  The calls
     * of a grouped list end even if each rank runs its passes and calls one at a time
     * (sched_comms.one_queue).  If the list is not grouped, each transfer is a call of its own.
     */
    bool grouped;
    /* The moments of this shape (moments.h), for a grouped list.  They are lent until the list is
     * made.  NULL: each list makes its own, which takes the time of all ranks' passes.
     */
    const struct moments *moments;
};

/* One forward or backward pass in the order of a schedule. */
struct sched_pass {
    bool backward;
    int microbatch;
    int chunk;
};

/* A schedule kind makes the order of passes of one rank. */
struct sched_kind {
    const char *name;
    int chunks; /* model chunks a rank */
    int group;  /* interleaved: microbatches that go through one chunk before the next
                   chunk has its turn */
    /* Returns 0, or -1, EINVAL and a text that names the rule which this shape breaks.  NULL:
     * the kind suits every shape.
     */
    int (*check) (const struct sched_kind *kind, const struct sched_shape *shape,
                  struct mg_error *err);
    /* Returns the number of forward passes before the first pair of a forward and a backward
     * pass.
     */
    int (*warmup) (const struct sched_kind *kind, const struct sched_shape *shape);
    /* Returns a new array of *n passes, which the caller frees, or NULL.  It may be called for a
     * shape that check() refuses.
     */
    struct sched_pass *(*order) (const struct sched_kind *kind,
                                 const struct sched_shape *shape, size_t *n,
                                 struct mg_error *err);
};

/* 1F1B (Narayanan et al. 2021): in the steady state, one forward pass and then one backward pass.
 * Without a pipeline there is only the steady state.
 */
extern const struct sched_kind sched_1f1b;

/* Megatron-LM's interleaved schedule: 1F1B over several model chunks of each rank.  Groups of
 * 'group' microbatches go through one chunk after the other.  The pipeline has at least 2 ranks,
 * and each rank at least 2 chunks; pp <= group <= microbatches; the last group is whole or has at
 * least pp microbatches.
 */
struct sched_kind sched_interleaved (int chunks, int group);

/* A rank's list.  Each slot has three buffers: for its input, for its output, and for the output's
 * gradient, which the backward pass replaces by the input's gradient.  Slots come in pools.  Chunks
 * of one pool use the same slots, with the same three buffers.
 */
struct schedule {
    struct sched_shape shape;
    int chunks;
    int *pool; /* [chunks] the chunk's pool */
    int pools;
    int *slots; /* [pools] activation slots needed */
    int most_slots; /* the largest number of slots that the list needs of one pool */
    bool *uses;     /* [chunks][most_slots] see schedule_uses_slot() */
    struct sched_step *step;
    size_t nsteps; /* steps are numbered from 0 */
};

/* Make the steps and slots of one rank; every chunk has a pool of its own.  NULL and a text on
 * failure.
 */
struct schedule *schedule_create (const struct sched_kind *kind,
                                  const struct sched_shape *shape, struct mg_error *err);

/* The same with pool[c] as the pool of chunk c.  Pools have numbers from 0 on, and none is left
 * out. A chunk whose output goes to no other rank must have a pool of its own.
 *
 * Chunks that need the same memory should share a pool.  One pool for all chunks needs as many
 * slots as passes are in flight: 1 + warmup() at most.  For the interleaved schedule that is 2
 * (pp - rank - 1) + (chunks - 1) group + 1; on the last rank the pool of the model's last chunk
 * adds one slot, or up to 'group' slots if the last group is smaller.  Pools for each chunk need
 * up to three quarters more slots.
 */
struct schedule *schedule_create_pooled (const struct sched_kind *kind,
                                         const struct sched_shape *shape, const int *pool,
                                         struct mg_error *err);
void schedule_destroy (struct schedule *s);

/* Give pool p slots[p] slots, which may be more than the list needs, so that several lists can use
 * the same slots.  -1 and EINVAL if slots[p] is less than the list needs.
 */
int schedule_grow_slots (struct schedule *s, const int *slots, struct mg_error *err);

/* The number of slots of all pools.  The number of a chunk's slot among the slots of all
 * pools, which are counted pool after pool. */
int schedule_num_slots (const struct schedule *s);
int schedule_slot (const struct schedule *s, int chunk, int slot);

/* schedule_uses_slot() is true if a forward pass of the chunk uses the slot.  The other
 * function returns the number of these slots.  A caller that prepares something for each
 * slot of a chunk, such as a device graph, needs as many as the chunk uses slots.
 * schedule_grow_slots() does not change them.
 *
 * In a list with backward passes, a chunk that has a pool of its own uses all slots of the pool.
 * These are as many as the chunk has microbatches in flight, so that no list has fewer.  A chunk
 * that shares its pool takes a slot that it has used before, if one is free.  If all chunks share
 * one pool, only one slot is free when a pass between warm-up and end needs one.  If microbatches
 * are many, each chunk then comes to use almost all slots.  A second pool, for the first chunk
 * alone, leaves a choice; it takes more slots.
 *
 * In a list of forward passes alone, the slots take turns.
 */
bool schedule_uses_slot (const struct schedule *s, int chunk, int slot);
int schedule_slots_used (const struct schedule *s, int chunk);

/* The pipeline rank that sends a chunk's input and receives the input's gradient, -1 for the first
 * chunk of the model.  The pipeline rank that receives the chunk's output and sends the output's
 * gradient, -1 for the last chunk of the model.  Chunk c of rank r is stage c * pp + r of
 * chunks * pp.
 */
int schedule_input_peer (const struct schedule *s, int chunk);
int schedule_output_peer (const struct schedule *s, int chunk);

/* Return the peer, and the lane, that a step must have. */
int schedule_step_peer (const struct schedule *s, enum sched_op op, int chunk);
enum sched_lane schedule_step_lane (enum sched_op op);

/* True if the chunk has transfers on the lane. */
bool schedule_has_lane (const struct schedule *s, int chunk, enum sched_lane lane);

/* Prove that the lists of all pipeline ranks fit together when 'comms' carry their lanes:
 * every pass happens once and in a legal order, every receive meets the send of the same
 * tensor, no slot or buffer is overwritten while in use, no two waits wait for each other,
 * and every transfer is waited for.
 *
 * The check runs the lists against each other.  A rank takes its steps in order; posting a transfer
 * takes no time.  The n-th send from one rank to another on a communicator meets the n-th receive
 * there.  The two transfers end together when both are posted and every earlier transfer of their
 * lane has ended on both ranks.  If the communicators are serial, every earlier call of the
 * communicator must also have ended on both ranks; the calls of grouped lists are always serial.
 * A call ends when all of its transfers have ended, and a wait for one of them is a wait for the
 * call.  In one queue, a step that does not join the call before it is taken when that call has
 * ended.  So lists that pass cannot deadlock on a network without buffers, nor in exec.h, which
 * enforces no other order.
 *
 * 'all' has 'pp' entries: all[r] is the list of rank r.  -1 with EINVAL (EDEADLK for waits) and a
 * text that names the ranks, the steps and the lane.
 */
int schedule_check_comms (struct schedule *const *all, int pp,
                          const struct sched_comms *comms, struct mg_error *err);

/* The same for the communicators that a run has.  Grouped lists are checked in one queue, with one
 * communicator.  Other lists are checked with serial communicators, one for each lane.  Such lists
 * are also right if lanes share communicators that are not serial.  The exception is SCHED_COMM_ONE
 * on two ranks with several chunks: there, activations and gradients both go from one rank to the
 * other on one communicator.
 */
int schedule_check (struct schedule *const *all, int pp, struct mg_error *err);

#endif /* LIBCORE_SCHEDULE_SCHEDULE_H */
