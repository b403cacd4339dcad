/* Checkpoints of a run of one rank, and what a run begins with. */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "libcore/train/save.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/train/run.h"

/* "--NAME=DIR", good until the end. */
static const char *argument (char text[], size_t n, const char *name, const char *dir)
{
    snprintf (text, n, "--%s=%s", name, dir);
    return text;
}

static void prepare (struct saving *s, struct run *r)
{
    *s = (struct saving){
        .use = { &r->config.save, &r->accord, r->state, r->parts.optimizer, &r->progress,
                 &r->report, NULL },
        .newest = -1,
    };
}

static void test_save (const char *save, bool async)
{
    const char *const more[] = { save, "--keep-last-n-checkpoints=2",
                                 async ? "--async-save" : "--bf16", NULL };
    struct mg_error err = { "" };
    struct saving s;
    struct run r;
    char want[200];

    run_create (&r, more);
    prepare (&s, &r);
    is_int (save_finish (&s, &err), 0, "there is nothing to finish");
    for (int i = 1; i <= 3; i++) {
        r.progress.iteration = i;
        r.progress.consumed_samples = 2 * i;
        is_int (save_checkpoint (&s, &err), 0, "iteration %d is saved %s", i, err.text);
        is_int (s.newest, i, "and noted");
        ok ((s.save != NULL) == async, "is it still under way?");
    }
    is_int (save_finish (&s, &err), 0, "all is finished");
    ok (!s.save && !save_is_writing (&s), "and nothing is under way");
    snprintf (want, sizeof (want), "saved checkpoint of iteration 3 to %s\n", r.config.save.dir);
    ok (strstr (run_log (&r), want), "%s", want);
    is_int (checkpoint_latest (r.config.save.dir, &err), 3, "the newest checkpoint");
    run_destroy (&r);
}

/* Begin as the arguments say; returns what resume_load() does. */
static int resume (const char *const *more, int64_t iteration, bool saved, const char *text)
{
    struct mg_error err = { "" };
    bool found = !saved, upcycled = true;
    const char *log;
    struct run r;
    int rc;

    run_create (&r, more);
    rc = resume_load (&r.config.resume, &r.accord, r.state, &r.progress, &found,
                      &upcycled, &err);
    log = run_log (&r);
    ok (rc < 0 || found == saved, "is it the directory of --save?");
    ok (rc < 0 || !upcycled, "nothing was made of a dense model");
    is_int (r.progress.iteration, iteration, "iterations that are done");
    ok (strstr (rc < 0 ? err.text : log, text), "%s%s", log, err.text);
    ok (r.accord.common_error == (rc < 0), "all ranks fail alike, or none");
    run_destroy (&r);
    return rc;
}

static void test_resume (const char *dir)
{
    char load[300], save[300], fresh[300], empty[300], pretrained[300];
    const char *const go_on[] = { argument (load, sizeof (load), "load", dir), "--bf16", NULL };
    const char *const same[] = { load, argument (save, sizeof (save), "save", dir), NULL };
    const char *const step[] = { load, "--ckpt-step=2", NULL };
    const char *const tune[] = { load, "--finetune", NULL };
    const char *const none[]
        = { argument (empty, sizeof (empty), "load", scratch_path ("none")), NULL };
    const char *const strict[] = { save, empty, "--exit-on-missing-checkpoint", NULL };
    const char *const other[] = { empty, argument (pretrained, sizeof (pretrained),
                                                   "pretrained-checkpoint", dir), NULL };
    const char *const begun[] = { argument (fresh, sizeof (fresh), "load", scratch_path ("fresh")),
                                  save, NULL };
    const char *const unsaved[] = { fresh, NULL };
    const char *const nothing[] = { NULL };

    if (mkdir (scratch_path ("fresh"), 0777) < 0)
        bail_out ("no directory: %s", strerror (errno));

    is_int (resume (go_on, 3, false, "going on from iteration 3"), 1, "a run goes on");
    is_int (resume (same, 3, true, "going on from iteration 3"), 1, "where it is saved");
    is_int (resume (step, 2, false, "going on from iteration 2"), 1, "from an older one");
    is_int (resume (tune, 0, false, "beginning with the weights of iteration 3"), 0, "weights");
    is_int (resume (none, 0, false, "there is no such directory"), -1, "none is a mistake");
    is_int (resume (strict, 0, false, "there is no checkpoint"), -1, "and where it must be");
    is_int (resume (other, 0, false, "beginning with the weights of iteration 3"), 0,
            "another checkpoint in its place");
    is_int (resume (begun, 0, false, "fresh: starting from the beginning"), 0,
            "an empty directory is a beginning");
    is_int (resume (unsaved, 0, false, "there is no checkpoint in this directory"), -1,
            "but not where nothing is saved");
    is_int (resume (nothing, 0, false, ""), 0, "nothing is loaded");
}

int main (void)
{
    char save[300], async[300];

    scratch_create ();
    test_save (argument (save, sizeof (save), "save", scratch_path ("ckpt")), false);
    test_save (argument (async, sizeof (async), "save", scratch_path ("async")), true);
    test_resume (scratch_path ("ckpt"));
    return done_testing ();
}
