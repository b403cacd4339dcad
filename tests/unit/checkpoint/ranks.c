/* ranks.c - save and load over the library's own communicators
 *
 *     ranks.t                   one rank, in a directory of its own
 *     ranks.t save DIR CUT      as many ranks as were started; CUT as in model.h
 *     ranks.t load DIR CUT
 *     ranks.t weights FILE CUT
 *
 * Several ranks say on standard error what went wrong, and exit with 1.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/job/job.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"
#include "tests/unit/checkpoint/scratch.h"

enum { ITERATION = 7, SEED = 3 };

static int save (const char *dir, const struct model *m, struct mg_comm *comm,
                 struct mg_error *err)
{
    struct checkpoint_value values[] = {
        { "rate", CHECKPOINT_REAL, .real = 0.1 },
        { .name = NULL },
    };

    return checkpoint_save (dir, ITERATION, values, m->pieces, m->n, comm, err);
}

static int load (const char *dir, const struct model *m, struct mg_comm *comm,
                 struct mg_error *err)
{
    struct checkpoint_value values[] = {
        { "rate", CHECKPOINT_REAL, .real = 0 },
        { .name = NULL },
    };

    if (checkpoint_latest (dir, err) != ITERATION
        || checkpoint_load (dir, ITERATION, values, m->pieces, m->n, "", NULL, comm, err) < 0)
        return -1;
    if (values[0].real != 0.1 || model_check (m, SEED) != 0)
        return mg_error_set (err, EILSEQ, "it is not what was saved");
    return 0;
}

static int weights (const char *path, const struct model *m, struct mg_comm *comm,
                    struct mg_error *err)
{
    return safetensors_save (path, m->pieces, m->n, comm, err);
}

static const struct {
    const char *name;
    int (*run) (const char *path, const struct model *m, struct mg_comm *comm,
                struct mg_error *err);
    bool fill;
} modes[] = {
    { "save", save, true },
    { "load", load, false },
    { "weights", weights, true },
};

static int run (struct job *job, const char *mode, const char *path, int cut,
                struct mg_error *err)
{
    struct mg_comm *comm = job_control (job);
    struct model m;
    int rc = -1;

    mg_error_set (err, EINVAL, "no mode %s", mode);
    model_create (&m, model_small, model_small_count, (enum model_cut)cut, job_rank (job),
                  job_world (job));
    for (size_t i = 0; i < sizeof (modes) / sizeof (modes[0]); i++) {
        if (strcmp (mode, modes[i].name) != 0)
            continue;
        if (modes[i].fill)
            model_fill (&m, SEED);
        rc = modes[i].run (path, &m, comm, err);
    }
    model_destroy (&m);
    return rc;
}

static void one_rank (struct job *job)
{
    struct mg_error err = { .text = "" };
    size_t len;
    void *file;

    scratch_create ();
    is_int (run (job, "load", scratch_path ("ckpt"), MODEL_WHOLE, &err), -1, "refused: %s",
            err.text);
    is_int (run (job, "save", scratch_path ("ckpt"), MODEL_ROWS, &err), 0, "saved");
    is_int (run (job, "load", scratch_path ("ckpt"), MODEL_WHOLE, &err), 0, "loaded");
    is_int (run (job, "weights", scratch_path ("weights"), MODEL_COLS, &err), 0, "weights");
    file = scratch_read (scratch_path ("weights"), &len);
    ok (len > 600, "are there");
    free (file);
    is_int (run (job, "weights", scratch_path ("no/weights"), MODEL_COLS, &err), -1,
            "refused: %s", err.text);
}

int main (int argc, char **argv)
{
    struct job_config config = { .timeout = 300, .threads = 1 };
    struct mg_error err = { .text = "" };
    struct job *job;
    int rc = 0;

    setvbuf (stderr, NULL, _IOLBF, BUFSIZ); // a line of one rank is one write
    geometry_init (&config.geometry);
    if (!(job = job_create (&config, &err)))
        bail_out ("%s", err.text);
    if (argc == 4)
        rc = run (job, argv[1], argv[2], atoi (argv[3]), &err);
    else
        one_rank (job);
    if (rc < 0)
        fprintf (stderr, "rank %d: %s\n", job_rank (job), err.text);
    job_destroy (job);
    return argc == 4 ? rc < 0 : done_testing ();
}
