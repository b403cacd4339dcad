/* schedule - a pipeline schedule as a list of steps for one rank.
 *
 * A schedule is decided as data: first the order of the forward and backward passes, then
 * the transfers, waits and buffer slots that this order needs.  The list can be printed,
 * checked (schedule_check) and executed (exec.h) by code that knows nothing of how it was
 * made.  Names are Megatron-LM's: a stage of the pipeline is a rank, a model chunk is one
 * of the parts of the model that a rank holds (one, unless interleaved).
 */
#ifndef LIBCORE_SCHEDULE_SCHEDULE_H
#define LIBCORE_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/schedule/lane.h"
#include "megatron/error.h"

enum sched_op {
    SCHED_RECV_FWD, /* post the receive of the input activation into the slot */
    SCHED_WAIT_FWD, /* wait until it is there */
    SCHED_FWD,      /* forward pass; reads the slot's input, writes its output */
    SCHED_SEND_FWD, /* start sending the slot's output */
    SCHED_SENT_FWD, /* wait until it is sent */
    SCHED_RECV_BWD, /* post the receive of the output's gradient into the slot */
    SCHED_WAIT_BWD,
    SCHED_BWD,      /* backward pass; turns the slot's gradient into the input's */
    SCHED_SEND_BWD, /* start sending the slot's gradient */
    SCHED_SENT_BWD,
    SCHED_NUM_OPS
};

extern const char *const sched_op_names[SCHED_NUM_OPS];

struct sched_step {
    enum sched_op op;
    int microbatch;
    int chunk; /* model chunk of this rank, from 0 */
    int slot;  /* activation slot, of those that the chunk may use */
    int peer;  /* pipeline rank of the other end of a transfer, -1: none */
    enum sched_lane lane; /* of a transfer and of the wait for it */
};

struct sched_shape {
    int pp;           /* pipeline size */
    int rank;         /* pipeline rank */
    int microbatches; /* at least 1 */
    bool forward_only;
};

/* One forward or backward pass of the order that a schedule decides on. */
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
    /* 0, or -1, EINVAL and a text that names the rule which this shape breaks. NULL: it
     * suits every shape.
     */
    int (*check) (const struct sched_kind *kind, const struct sched_shape *shape,
                  struct mg_error *err);
    /* Forward passes that come before the first pair of a forward and a backward pass. */
    int (*warmup) (const struct sched_kind *kind, const struct sched_shape *shape);
    /* New array of *n passes (caller frees), or NULL; also for a shape that check()
     * refuses.
     */
    struct sched_pass *(*order) (const struct sched_kind *kind,
                                 const struct sched_shape *shape, size_t *n,
                                 struct mg_error *err);
};

/* One forward then one backward pass in the steady state (Narayanan et al. 2021); without
 * a pipeline it alternates them.
 */
extern const struct sched_kind sched_1f1b;

/* The same over several model chunks a rank, Megatron-LM's interleaved schedule: groups of
 * 'group' microbatches go through one chunk after the other.  It wants a pipeline of at
 * least 2 ranks, at least 2 chunks, pp <= group <= microbatches, and a last group that is
 * whole or has at least pp microbatches.
 */
struct sched_kind sched_interleaved (int chunks, int group);

/* A rank's list.  Each slot has a buffer for its input, one for its output and one for
 * the output's gradient; the backward pass turns that into the input's gradient in place.
 * Slots come in pools: chunks of one pool use the same slots, with the same three buffers.
 */
struct schedule {
    struct sched_shape shape;
    int chunks;
    int *pool; /* [chunks] the chunk's pool */
    int pools;
    int *slots; /* [pools] activation slots needed */
    struct sched_step *step;
    size_t nsteps; /* steps are numbered from 0 */
};

/* Steps and slots of one rank, every chunk with a pool of its own. NULL and a text on
 * failure.
 */
struct schedule *schedule_create (const struct sched_kind *kind,
                                  const struct sched_shape *shape, struct mg_error *err);

/* The same with pool[c] as the pool of chunk c: numbers from 0, none left out.  A chunk
 * whose output goes to no other rank shares with none.  Chunks that need the same memory
 * should share: one pool for all needs as many slots as passes are in flight, 1 + warmup()
 * at most (interleaved, 2 (pp - rank - 1) + (chunks - 1) group + 1; on the last rank the
 * model's last chunk adds one, where the last group is smaller up to a group); pools of
 * their own need up to three quarters more.
 */
struct schedule *schedule_create_pooled (const struct sched_kind *kind,
                                         const struct sched_shape *shape, const int *pool,
                                         struct mg_error *err);
void schedule_destroy (struct schedule *s);

/* Let pool p have slots[p] slots: more than its list needs, so that lists can share them.
 * -1 and EINVAL if they are fewer.
 */
int schedule_grow_slots (struct schedule *s, const int *slots, struct mg_error *err);

/* Slots of all pools, and the number among them, pool after pool, of a chunk's slot. */
int schedule_num_slots (const struct schedule *s);
int schedule_slot (const struct schedule *s, int chunk, int slot);

/* Pipeline rank that a chunk's input comes from (and its gradient goes to), and that its
 * output goes to (and the output's gradient comes from); -1: none, this is the first (the
 * last) chunk of the model.  Chunk c of rank r is stage c * pp + r of chunks * pp.
 */
int schedule_input_peer (const struct schedule *s, int chunk);
int schedule_output_peer (const struct schedule *s, int chunk);

/* What a step's peer and lane must be. */
int schedule_step_peer (const struct schedule *s, enum sched_op op, int chunk);
enum sched_lane schedule_step_lane (enum sched_op op);

/* True if the chunk has transfers on the lane. */
bool schedule_has_lane (const struct schedule *s, int chunk, enum sched_lane lane);

/* Prove that the lists of all pipeline ranks fit together when 'comms' carry their lanes:
 * every pass happens once and in a legal order, every receive meets the send of the same
 * tensor, no slot or buffer is overwritten while in use, no two waits wait for each other,
 * and every transfer is waited for.
 *
 * The lists are run against each other.  A rank takes its steps in order; posting a
 * transfer takes no time.  The n-th send from one rank to another on a communicator meets
 * the n-th receive there.  The two end together, once both are posted, every earlier
 * transfer of both lanes has ended and, if the communicators are serial, every earlier
 * transfer of the communicator on both ranks.  So a list that passes cannot deadlock on a
 * network without buffers, nor in exec.h, which enforces no other order.
 *
 * 'all' has 'pp' entries, rank r at r.  -1 with EINVAL (EDEADLK for waits) and a text that
 * names the ranks, the steps and the lane.
 */
int schedule_check_comms (struct schedule *const *all, int pp,
                          const struct sched_comms *comms, struct mg_error *err);

/* The same for serial communicators, one for each lane.  What passes is also right where
 * lanes share communicators that are not serial, but for SCHED_COMM_ONE on two ranks with
 * several chunks: activations and gradients then go from the one to the other.
 */
int schedule_check (struct schedule *const *all, int pp, struct mg_error *err);

#endif /* LIBCORE_SCHEDULE_SCHEDULE_H */
