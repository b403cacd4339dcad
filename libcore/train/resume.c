/* resume.c - what a run begins with
 *
 * Rank 0 looks at directories, and all ranks act on what it found, since file systems may show
 * them differently.  What is loaded must fit the arguments before training goes on.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "libcore/train/output.h"
#include "libcore/train/tensorboard.h"
#include "libcore/train/train_private.h"

/* Can what is left of the run be run, and are there samples for it?  After a checkpoint
 * whose past had other batch sizes it is not what was planned.
 */
static int check_rest (struct train *t, struct mg_error *err)
{
    int64_t from = t->progress.consumed_samples, to;

    if (t->progress.iteration >= t->train_iters)
        return 0;
    to = num_microbatches_after (t->batches, from, t->train_iters - t->progress.iteration);
    if (passes_check (t->passes, from, to, err) < 0) {
        t->misused = true;
        return -1;
    }
    if (to > t->source->num_samples)
        return mg_error_set (err, ENODATA, "%" PRId64 " samples are consumed, %" PRId64
                             " will be by iteration %" PRId64 ", but the training data is laid "
                             "out for %" PRId64 ": the checkpoint is of a run with larger batches",
                             from, to, t->train_iters, t->source->num_samples);
    return 0;
}

static enum lr_prefer preferred (const struct train_args *args)
{
    if (args->override_schedule || args->skip_train) // the one without training has none
        return LR_PREFER_OWN;
    return args->checkpoint_schedule ? LR_PREFER_SAVED : LR_WANT_SAME;
}

/* True if --load and --save name the same directory. */
static bool same_directory (const struct train_args *args)
{
    struct stat a, b;

    if (!args->load || !args->save)
        return false;
    return strcmp (args->load, args->save) == 0
           || (stat (args->load, &a) == 0 && stat (args->save, &b) == 0
               && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* No checkpoint was found in 'dir'.  A run may begin without one if --load names the directory
 * in which the run itself saves; another directory without a checkpoint is a mistake.  Only
 * rank 0 looks, since file systems may differ between nodes.
 */
static int check_beginning (const struct train *t, const char *dir, struct mg_error *err)
{
    const struct train_args *args = &t->args;
    struct stat st;
    bool there;

    if (job_rank (t->job) != 0)
        return 0;
    if (args->pretrained || args->exit_on_missing)
        return mg_error_set (err, ENOENT, "%s: there is no checkpoint", dir);
    if (same_directory (args))
        return 0;
    there = stat (dir, &st) == 0;
    if (args->save)
        return mg_error_set (err, ENOENT, "--load %s: there is no %s; correct the name, or, to "
                             "start from the beginning, leave --load out or give it the "
                             "directory of --save, %s", dir,
                             there ? "checkpoint in this directory" : "such directory",
                             args->save);
    return mg_error_set (err, ENOENT, "--load %s: there is no %s; correct the name, or, to %s, "
                         "leave --load out", dir,
                         there ? "checkpoint in this directory" : "such directory",
                         args->skip_train ? "evaluate the weights that a run begins with"
                                          : "start from the beginning");
}

/* Load from 'dir': 1, or 0 if there is no checkpoint, or -1; all ranks alike. */
static int load_from (struct train *t, const char *dir, bool weights_only, int64_t iteration,
                      struct mg_error *err)
{
    const struct state_request request = {
        .dir = dir,
        .iteration = iteration,
        .weights_only = weights_only,
        .no_optimizer = t->args.no_load_optim,
        .prefer = preferred (&t->args),
    };
    struct state_found found;
    int rc = state_load (t->state, &request, &t->progress, &found, err);

    if (train_common (t, rc) < 0)
        return -1;
    if (job_rank (t->job) != 0)
        return rc;
    if (found.passed.text[0])
        fprintf (t->out, "a checkpoint is passed over: %s\n", found.passed.text);
    if (rc == 0) {
        if (t->args.pretrained)
            fprintf (t->out, "no checkpoint in %s\n", dir);
    }
    else if (weights_only)
        fprintf (t->out, "beginning with the weights of iteration %" PRId64 " in %s\n",
                 found.iteration, dir);
    else
        fprintf (t->out, "going on from iteration %" PRId64 " in %s%s\n", found.iteration, dir,
                 request.no_optimizer ? " without the optimizer's state" : "");
    return rc;
}

/* Load what the arguments name. 1: the run goes on, 0: it begins, -1: error. */
static int load (struct train *t, struct mg_error *err)
{
    const struct train_args *args = &t->args;
    int64_t iteration = args->ckpt_step != TRAIN_UNSET ? args->ckpt_step : -1;
    const char *dir = args->load;
    int rc = 0;

    if (dir)
        rc = load_from (t, dir, args->finetune, iteration, err);
    if (rc != 0)
        return rc > 0 && args->finetune ? 0 : rc;
    if (args->pretrained) {
        dir = args->pretrained;
        rc = load_from (t, dir, true, -1, err);
    }
    if (rc != 0 || !dir)
        return rc < 0 ? -1 : 0;
    if (train_agree (t, check_beginning (t, dir, err), err) < 0)
        return -1;
    if (job_rank (t->job) == 0)
        fprintf (t->out, "no checkpoint in %s: starting from the beginning\n", dir);
    return 0;
}

/* A checkpoint was loaded.  If it lies in the directory of --save, a run that has nothing left
 * to train need not save it again.  Rank 0 decides for all ranks.
 */
static int note_saved (struct train *t, struct mg_error *err)
{
    int64_t same = job_rank (t->job) != 0 || same_directory (&t->args);

    if (mg_comm_all_reduce (job_control (t->job), &same, 1, MG_INT64, MG_MIN, NULL,
                            err) < 0)
        return -1;
    if (same)
        t->saved_iteration = t->progress.iteration;
    return 0;
}

/* The metrics of a run that is resumed go on; those of a new one stand alone. */
int train_resume (struct train *t, struct mg_error *err)
{
    int rc = load (t, err);

    if (rc < 0)
        return -1;
    if (rc > 0 && note_saved (t, err) < 0)
        return -1;
    if (t->metrics && rc == 0)
        rc = output_restart (t->metrics, "--metrics-file", t->args.metrics_file, err);
    if (rc >= 0)
        rc = check_rest (t, err);
    if (rc >= 0)
        rc = train_check_output (t, err);
    if (rc >= 0)
        rc = tensorboard_begin (t, err);
    return train_agree (t, rc < 0 ? -1 : 0, err);
}
