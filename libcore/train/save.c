/* save.c - a run's checkpoints
 *
 * One checkpoint is written at a time.  With --async-save the thread touches only the copy and
 * files, and calls no collective.  A checkpoint counts as saved when all ranks have
 * written their shards and it has its final name.
 *
 * Invariant: 'save' is there from begin() to complete(), and 'thread' from start_writing() to
 * complete() where 'aside' is set.  The thread touches the checkpoint, 'ended' and 'written' only.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "libcore/base/flush.h"
#include "libcore/base/thread.h"
#include "libcore/train/save.h"

/* Remove checkpoints that are not to be kept, now that a newer one is complete.  A
 * failure only costs disk space, and does not end the run.
 */
static void prune (const struct save_use *u)
{
    struct mg_error err = { "" };

    if (u->config->keep.last == 0)
        return;
    if (checkpoint_prune (u->config->dir, &u->config->keep, &err) < 0)
        fprintf (u->accord->out, "old checkpoints stay: %s\n", err.text);
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

/* Start the thread.  If that fails, this thread does the work. */
static void start_writing (struct saving *s)
{
    const struct save_use *u = &s->use;

    s->begun = timers_now ();
    s->aside = u->config->async && thread_create (&s->thread, write_shard, s) == 0;
    if (!s->aside)
        write_shard (s);
    else if (job_rank (u->accord->job) == 0) {
        fprintf (u->accord->out, "saving checkpoint of iteration %" PRId64 " to %s\n",
                 s->iteration, u->config->dir);
        fflush (u->accord->out);
    }
}

static int begin (struct saving *s, struct mg_error *err)
{
    const struct save_use *u = &s->use;
    bool async = u->config->async;

    s->iteration = u->progress->iteration;
    s->complete = false;
    if (accord_agree (u->accord, dirlock_check (s->lock, err), err) < 0)
        return -1;
    atomic_store (&s->written, false);
    s->save = state_save_begin (u->state, u->config->dir, u->progress, async, err);
    if (accord_common (u->accord, s->save ? 0 : -1) < 0)
        return -1;
    if (async && state_take_snapshot (u->state, err) < 0)
        return -1;
    start_writing (s);
    return 0;
}

/* Measures a part of a save for which the run waits. */
static void wait_begins (struct saving *s)
{
    timers_start (&s->use.report->timers, TIMER_SAVE_CHECKPOINT);
}

static void wait_ends (struct saving *s)
{
    struct timers *timers = &s->use.report->timers;
    double *sum = &timers->sum[TIMER_SAVE_CHECKPOINT];

    timers_stop (timers, TIMER_SAVE_CHECKPOINT);
    s->blocked += *sum;
    *sum = 0; /* no part of an iteration */
}

bool save_is_writing (const struct saving *s)
{
    return s->save && !atomic_load (&s->written);
}

int save_checkpoint (struct saving *s, struct mg_error *err)
{
    const struct save_use *u = &s->use;
    int rc;

    if (save_finish (s, err) < 0)
        return -1;
    s->newest = u->progress->iteration;
    job_activity (u->accord->job, "saving iteration", u->progress->iteration);
    s->blocked = 0;
    wait_begins (s);
    rc = begin (s, err);
    wait_ends (s);
    if (rc < 0)
        return -1;
    return u->config->async ? 0 : save_finish (s, err);
}

static int complete (struct saving *s, struct mg_error *err)
{
    const struct save_use *u = &s->use;
    FILE *out = u->accord->out;
    int rc;

    if (s->aside) {
        pthread_join (s->thread, NULL);
        trace_written (u->trace, s->iteration, s->begun, s->ended);
    }
    rc = checkpoint_save_finish (s->save, err);
    s->save = NULL;
    if (accord_common (u->accord, rc) < 0)
        return -1;
    if (job_rank (u->accord->job) == 0) {
        fprintf (out, "saved checkpoint of iteration %" PRId64 " to %s\n", s->iteration,
                 u->config->dir);
        prune (u);
        fflush (out);
    }
    return 0;
}

int save_finish (struct saving *s, struct mg_error *err)
{
    const struct save_use *u = &s->use;
    int rc;

    if (!s->save)
        return 0;
    job_activity (u->accord->job, "completing the checkpoint of iteration", s->iteration);
    wait_begins (s);
    rc = complete (s, err);
    wait_ends (s);
    return rc < 0 ? -1 : report_save (u->report, s->blocked, err);
}
