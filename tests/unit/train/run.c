/* run.c - the parts of a run of one rank */

#include <unistd.h>

#include "tests/tap/tap.h"
#include "tests/unit/train/run.h"

static void read_args (struct run *r, const char *const *more)
{
    const char *argv[40] = { "train", "--num-layers=2", "--hidden-size=8",
                             "--num-attention-heads=2", "--seq-length=4", "--vocab-size=20",
                             "--micro-batch-size=2", "--lr=1e-3", "--train-iters=4",
                             "--data-path=p" };
    struct mg_error err;
    int argc = 0;

    while (argv[argc])
        argc++;
    while (*more)
        argv[argc++] = *more++;
    if (train_args_parse (argc, (char **)argv, &r->args, &err) < 0)
        bail_out ("%s", err.text);
}

void run_create (struct run *r, const char *const *more)
{
    struct run_config *c = &r->config;
    struct train_parts *p = &r->parts;
    struct report_use use;
    struct mg_error err;

    *r = (struct run){ .out = tmpfile () };
    read_args (r, more);
    run_config_init (c, &r->args);
    c->job.threads = 1;
    if (!r->out || grad_scaler_init (&r->progress.scaler, &c->scaler, &err) < 0
        || run_config_geometry (c, &err) < 0 || run_config_model (c, &err) < 0
        || run_config_stages (c, &err) < 0)
        bail_out ("%s", err.text);
    c->job.geometry = c->geometry;
    if (!(r->job = job_create (&c->job, &err))
        || !(r->batches = run_config_batches (c, 1, &err))
        || run_config_lr (c, r->batches, &r->progress.lr, &err) < 0)
        bail_out ("%s", err.text);
    r->accord = (struct accord){ .job = r->job, .out = r->out };
    use = (struct report_use){ &c->report, r->job, &r->accord, &r->memory };
    if (train_build (p, c, r->job, r->batches, 0, &r->memory, &err) < 0
        || train_bind (p, &err) < 0 || main_params_init (p->main, &err) < 0
        || !(r->state = state_create (p->model, p->buffers, p->main, p->optimizer, r->job, &err))
        || report_open (&r->report, &use, &c->tensorboard, &err) < 0
        || report_create (&r->report, p->model, c->model.config.seq_length, NULL, &err) < 0)
        bail_out ("%s", err.text);
}

void run_destroy (struct run *r)
{
    timers_clear (&r->report.timers);
    report_clear (&r->report);
    state_destroy (r->state);
    train_parts_destroy (&r->parts);
    memory_clear (&r->memory);
    num_microbatches_destroy (r->batches);
    job_destroy (r->job);
    run_config_clear (&r->config);
    train_args_clear (&r->args);
    fclose (r->out);
}

const char *run_log (struct run *r)
{
    static char text[1 << 14];
    size_t n;

    fflush (r->out);
    rewind (r->out);
    n = fread (text, 1, sizeof (text) - 1, r->out);
    text[n] = '\0';
    rewind (r->out);
    if (ftruncate (fileno (r->out), 0) < 0)
        bail_out ("the log cannot be emptied");
    return text;
}
