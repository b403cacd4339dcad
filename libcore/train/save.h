/* save - a run's checkpoints: written before it goes on, or by a thread while it does.
 *
 * With --async-save the ranks agree on a checkpoint, copy what they own into memory that was
 * planned for it, and go on; a thread of each rank writes its shard from the copy, without a
 * message.  Once all have, which they learn in the all-reduce of an iteration, the checkpoint
 * is completed at that iteration's end.  Until then the one before is the newest.
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
    bool async;                  /* written by a thread */
};

/* What saving uses.  All of it belongs to the run. */
struct save_use {
    const struct save_config *config;
    struct accord *accord;
    struct state *state;
    struct optimizer *optimizer;
    const struct train_progress *progress;
    struct report *report; /* and its timers */
    struct trace *trace;   /* NULL: there is none */
};

/* What was saved and what is under way.  The caller sets the first three. */
struct saving {
    struct save_use use;
    struct dirlock *lock; /* of the directory, rank 0's */
    int64_t newest;       /* iteration of the newest checkpoint that is in the directory or is being
                             written there, as far as this run knows; -1: none */
    struct checkpoint_save *save; /* NULL: nothing */
    int64_t iteration;            /* that it is of */
    bool aside;                   /* 'thread' writes, or has written */
    pthread_t thread;
    double blocked;      /* milliseconds that it has kept the run from going on, if timed */
    double begun, ended; /* of the thread, by timers_now(); 'ended' is its until 'written' */
    atomic_bool written; /* this rank's shard */
    bool complete;       /* all ranks' shards, as they have agreed */
};

/* Is there something that this rank still writes?  Local, never blocks. */
bool save_is_writing (const struct saving *s);

/* Save as of the iterations done so far, after what is under way: complete when this returns,
 * with --async-save under way.  Collective; after a failure the older checkpoints are there.
 */
int save_checkpoint (struct saving *s, struct mg_error *err);

/* Complete what is under way, if there is anything: waits for this rank's thread, and for the
 * other ranks.  Collective.  The result is that of the whole save.
 */
int save_finish (struct saving *s, struct mg_error *err);

#endif /* LIBCORE_TRAIN_SAVE_H */
