/* resume.c - load the state with which a run begins
 *
 * Rank 0 reads the names in directories, and all ranks use its result, since file systems
 * may differ between nodes.  The loaded state must fit the arguments before training
 * continues.
 */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "libcore/train/resume.h"

/* True if --load and --save name the same directory. */
static bool same_directory (const struct resume_config *c)
{
    const char *load = c->load.dir, *save = c->save;
    struct stat a, b;

    if (!load || !save)
        return false;
    return strcmp (load, save) == 0
           || (stat (load, &a) == 0 && stat (save, &b) == 0
               && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* True if 'dir' is an empty directory, as scripts make it before a run. */
static bool is_empty (const char *dir)
{
    DIR *stream = opendir (dir);
    struct dirent *entry;
    bool empty = stream != NULL;

    while (stream && (entry = readdir (stream)))
        empty &= strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0;
    if (stream)
        closedir (stream);
    return empty;
}

/* No checkpoint was found in 'dir'.  A run that saves may begin without one if --load names the
 * directory in which it saves itself, or one that is empty; another directory without a checkpoint
 * is a mistake.  Only rank 0 looks, since file systems may differ between nodes.
 */
static int check_beginning (const struct resume_config *c, const struct accord *accord,
                            const char *dir, struct mg_error *err)
{
    struct stat st;
    bool there;

    if (job_rank (accord->job) != 0)
        return 0;
    if (c->pretrained.dir || c->must_exist)
        return mg_error_set (err, ENOENT, "--%s %s: there is no checkpoint",
                             c->pretrained.dir ? "pretrained-checkpoint" : "load", dir);
    if (same_directory (c) || (c->save && !c->skip_train && is_empty (dir)))
        return 0;
    there = stat (dir, &st) == 0;
    if (c->save)
        return mg_error_set (err, ENOENT, "--load %s: there is no %s; correct the name, or, to "
                             "start from the beginning, leave --load out or give it the "
                             "directory of --save, %s", dir,
                             there ? "checkpoint in this directory" : "such directory",
                             c->save);
    return mg_error_set (err, ENOENT, "--load %s: there is no %s; correct the name, or, to %s, "
                         "leave --load out", dir,
                         there ? "checkpoint in this directory" : "such directory",
                         c->skip_train ? "evaluate the weights that a run begins with"
                                       : "start from the beginning");
}

/* Load 'from' a directory: 1, or 0 if there is no checkpoint, or -1; all ranks alike. */
static int load_from (const struct resume_config *c, const struct state_source *from,
                      struct accord *accord, struct state *state,
                      struct train_progress *progress, struct mg_error *err)
{
    struct state_found found;
    int rc = state_load (state, from, progress, &found, err);

    if (accord_common (accord, rc) < 0)
        return -1;
    if (job_rank (accord->job) != 0)
        return rc;
    if (found.passed.text[0])
        fprintf (accord->out, "a checkpoint is passed over: %s\n", found.passed.text);
    if (rc == 0) {
        if (c->pretrained.dir)
            fprintf (accord->out, "no checkpoint in %s\n", from->dir);
    }
    else if (from->weights_only)
        fprintf (accord->out, "beginning with the weights of iteration %" PRId64 " in %s\n",
                 found.iteration, from->dir);
    else
        fprintf (accord->out, "going on from iteration %" PRId64 " in %s%s\n", found.iteration,
                 from->dir, from->no_optimizer ? " without the optimizer's state" : "");
    return rc;
}

/* True if --load names a dense model from which the run begins.  Rank 0 decides for all. */
static int decide_upcycle (const struct resume_config *c, const struct accord *accord,
                           struct state_source *from, struct mg_error *err)
{
    int64_t differs = c->upcycle && !same_directory (c);

    if (c->upcycle
        && mg_comm_broadcast (job_control (accord->job), &differs, 1, MG_INT64, 0, NULL, err) < 0)
        return -1;
    from->upcycle = differs;
    from->weights_only |= from->upcycle;
    return 0;
}

/* 1: the run goes on, 0: it begins, -1: error. */
static int load (const struct resume_config *c, struct accord *accord, struct state *state,
                 struct train_progress *progress, bool *upcycled, struct mg_error *err)
{
    struct state_source first = c->load, pretrained = c->pretrained;
    const char *dir = c->load.dir;
    int rc = 0;

    if (decide_upcycle (c, accord, &first, err) < 0)
        return -1;
    if (dir)
        rc = load_from (c, &first, accord, state, progress, err);
    *upcycled = rc > 0 && first.upcycle;
    if (rc != 0)
        return rc > 0 && first.weights_only ? 0 : rc;
    if (c->pretrained.dir) {
        dir = c->pretrained.dir;
        pretrained.upcycle = c->upcycle;
        rc = load_from (c, &pretrained, accord, state, progress, err);
        *upcycled = rc > 0 && c->upcycle;
    }
    if (rc != 0 || !dir)
        return rc < 0 ? -1 : 0;
    if (accord_agree (accord, check_beginning (c, accord, dir, err), err) < 0)
        return -1;
    if (job_rank (accord->job) == 0)
        fprintf (accord->out, "no checkpoint in %s: starting from the beginning\n", dir);
    return 0;
}

int resume_load (const struct resume_config *c, struct accord *accord, struct state *state,
                 struct train_progress *progress, bool *saved, bool *upcycled,
                 struct mg_error *err)
{
    int64_t same;
    int rc = load (c, accord, state, progress, upcycled, err);

    *saved = false;
    *upcycled |= rc == 0 && c->upcycle && c->weights;
    if (rc <= 0)
        return rc;
    same = job_rank (accord->job) != 0 || same_directory (c); // rank 0 decides for all ranks
    if (mg_comm_all_reduce (job_control (accord->job), &same, 1, MG_INT64, MG_MIN, NULL, err) < 0)
        return -1;
    *saved = same;
    return 1;
}
