/* save.c - a run's checkpoints
 *
 * One checkpoint is written at a time.  With --async-save the thread touches only the copy and
 * files, and calls no collective.  A checkpoint counts as saved once all ranks have written and
 * it has its name.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "libcore/base/flush.h"
#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/dirlock.h"
#include "libcore/train/train_private.h"

/* Remove checkpoints that are not to be kept, now that a newer one is complete.  Where that
 * fails disk space is lost, not the run.
 */
static void prune (struct train *t)
{
    const struct train_args *args = &t->args;
    struct checkpoint_keep keep = {
        .last = args->keep_last != TRAIN_UNSET ? args->keep_last : 1,
        .every = args->save_retain_interval != TRAIN_UNSET ? args->save_retain_interval : 0,
    };
    struct mg_error err = { "" };

    if (args->keep_last == TRAIN_UNSET && args->save_retain_interval == TRAIN_UNSET)
        return;
    if (checkpoint_prune (args->save, &keep, &err) < 0)
        fprintf (t->out, "old checkpoints stay: %s\n", err.text);
}

static void *write_shard (void *arg)
{
    struct saving *s = arg;
    uint64_t mode = flush_begin (); // as in the thread that computes

    checkpoint_save_write (s->save);
    s->ended = timers_now ();
    atomic_store (&s->written, true);
    flush_end (mode);
    return NULL;
}

/* The thread; where there can be none, this one does its work. */
static void start_writing (struct train *t)
{
    struct saving *s = &t->saving;

    s->begun = timers_now ();
    s->aside = t->args.async_save && pthread_create (&s->thread, NULL, write_shard, s) == 0;
    if (!s->aside)
        write_shard (s);
    else if (job_rank (t->job) == 0) {
        fprintf (t->out, "saving checkpoint of iteration %" PRId64 " to %s\n",
                 s->iteration, t->args.save);
        fflush (t->out);
    }
}

static int begin (struct train *t, struct mg_error *err)
{
    struct saving *s = &t->saving;

    s->iteration = t->progress.iteration;
    s->complete = false;
    if (train_agree (t, dirlock_check (t->lock, err), err) < 0)
        return -1;
    atomic_store (&s->written, false);
    s->save = state_save_begin (t->state, t->args.save, &t->progress, t->args.async_save, err);
    if (train_common (t, s->save ? 0 : -1) < 0)
        return -1;
    if (t->args.async_save && optimizer_take_snapshot (t->optimizer, err) < 0)
        return -1;
    start_writing (t);
    return 0;
}

/* Around what the run waits for. */
static void wait_begins (struct train *t)
{
    timers_start (&t->report.timers, TIMER_SAVE_CHECKPOINT);
}

static void wait_ends (struct train *t)
{
    double *sum = &t->report.timers.sum[TIMER_SAVE_CHECKPOINT];

    timers_stop (&t->report.timers, TIMER_SAVE_CHECKPOINT);
    t->saving.blocked += *sum;
    *sum = 0; /* no part of an iteration */
}

bool save_is_writing (struct train *t)
{
    return t->saving.save && !atomic_load (&t->saving.written);
}

int save_checkpoint (struct train *t, struct mg_error *err)
{
    int rc;

    if (save_finish (t, err) < 0)
        return -1;
    job_activity (t->job, "saving iteration", t->progress.iteration);
    t->saving.blocked = 0;
    wait_begins (t);
    rc = begin (t, err);
    wait_ends (t);
    if (rc < 0)
        return -1;
    return t->args.async_save ? 0 : save_finish (t, err);
}

static int complete (struct train *t, struct mg_error *err)
{
    struct saving *s = &t->saving;
    int rc;

    if (s->aside) {
        pthread_join (s->thread, NULL);
        trace_written (t->trace, s->iteration, s->begun, s->ended);
    }
    rc = checkpoint_save_finish (s->save, err);
    s->save = NULL;
    if (train_common (t, rc) < 0)
        return -1;
    if (job_rank (t->job) == 0) {
        fprintf (t->out, "saved checkpoint of iteration %" PRId64 " to %s\n", s->iteration,
                 t->args.save);
        prune (t);
        fflush (t->out);
    }
    return 0;
}

int save_finish (struct train *t, struct mg_error *err)
{
    int rc;

    if (!t->saving.save)
        return 0;
    job_activity (t->job, "completing the checkpoint of iteration", t->saving.iteration);
    wait_begins (t);
    rc = complete (t, err);
    wait_ends (t);
    return rc < 0 ? -1 : report_save (t, t->saving.blocked, err);
}
