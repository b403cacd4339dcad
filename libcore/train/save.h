/* save - a run's checkpoints, which are written while the run waits, or by a thread while
 * it trains.
 *
 * With --async-save, the ranks agree on a checkpoint, copy their values into memory that
 * was planned for this, and continue training.  A thread of each rank writes the rank's
 * shard from the copy, and sends no messages.  The all-reduce of an iteration finds out
 * whether all shards are written.  If so, the checkpoint is completed at the end of this
 * iteration.  Until then the earlier checkpoint is the newest.
 */
#ifndef LIBCORE_TRAIN_SAVE_H
#define LIBCORE_TRAIN_SAVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/file/dirlock.h"
#include "libcore/train/accord.h"
#include "libcore/train/report.h"
#include "libcore/train/state.h"
#include "libcore/train/trace.h"
#include "megatron/error.h"

struct save_config {
    const char *dir;             /* NULL: nothing is saved */
    int64_t interval;            /* iterations between checkpoints, 0: only at the end */
    struct checkpoint_keep keep; /* 'last' 0: all checkpoints are kept */
    bool async;                  /* a thread writes checkpoints */
};

/* The objects that saving uses.  The run owns all of them. */
struct save_use {
    const struct save_config *config;
    struct accord *accord;
    struct state *state;
    struct optimizer *optimizer;
    const struct train_progress *progress;
    struct report *report; /* with its timers */
    struct trace *trace;   /* NULL: there is none */
};

/* The last save and the current one.  The caller sets the first three members. */
struct saving {
    struct save_use use;
    struct dirlock *lock; /* lock of the directory, on rank 0 */
    int64_t newest;       /* iteration of the newest checkpoint that this run has found,
                             written or begun in the directory; -1: none */
    struct checkpoint_save *save; /* NULL: nothing */
    int64_t iteration;            /* iteration of the current save */
    bool aside;                   /* 'thread' writes, or has written */
    pthread_t thread;
    double blocked;      /* milliseconds for which the save has blocked the run, if timed */
    double begun, ended; /* times of the thread, by timers_now(); only the thread uses
                          * 'ended' before 'written' is set */
    atomic_bool written; /* this rank's shard is written */
    bool complete;       /* all ranks have agreed that all shards are written */
};

/* True if this rank is still writing its shard.  Local, never blocks. */
bool save_is_writing (const struct saving *s);

/* Complete the current save, if there is one, then save the state after the last
 * iteration.  When this returns, the checkpoint is complete or, with --async-save, begun.
 * Collective.  After a failure the older checkpoints still exist.
 */
int save_checkpoint (struct saving *s, struct mg_error *err);

/* Complete the current save, if there is one.  Waits for this rank's thread, and for the
 * other ranks.  Collective.  Returns the result of the whole save.
 */
int save_finish (struct saving *s, struct mg_error *err);

#endif /* LIBCORE_TRAIN_SAVE_H */
