/* state.c - weights and checkpoints of a run */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/train/state.h"

struct state {
    const struct job *job;
    struct optimizer *optimizer;
    struct piece *weight;   /* [n] named as the parameters */
    struct piece *gradient; /* [n] the same names */
    struct piece *all;      /* [3 n] parameters and both moments */
    size_t n;
};

/* Values of the manifest, by place. */
enum { VALUE_ITERATION, VALUE_SAMPLES, VALUE_VALID_SAMPLES, VALUE_STEPS, NUM_VALUES };

struct state *state_create (struct model *model, struct optimizer *optimizer,
                            const struct job *job, struct mg_error *err)
{
    struct param *params;
    struct state *s;
    bool writer = mg_comm_rank (job_comm (job, GROUP_DP_CP)) == 0;
    int tp_rank = mg_comm_rank (job_comm (job, GROUP_TP));

    if (!(s = calloc (1, sizeof (*s))))
        goto nomem;
    s->job = job;
    s->optimizer = optimizer;
    params = model_params (model, &s->n);
    s->weight = calloc (s->n + 1, sizeof (*s->weight));
    s->gradient = calloc (s->n + 1, sizeof (*s->gradient));
    s->all = calloc (3 * s->n + 1, sizeof (*s->all));
    if (!s->weight || !s->gradient || !s->all)
        goto nomem;
    for (size_t i = 0; i < s->n; i++) {
        const struct param *p = &params[i];

        param_piece (p, "", p->data, writer, tp_rank, &s->weight[i]);
        param_piece (p, "", p->grad, writer, tp_rank, &s->gradient[i]);
        param_piece (p, "model.", p->data, writer, tp_rank, &s->all[3 * i]);
        param_piece (p, "optimizer.exp_avg.", optimizer_exp_avg (optimizer, i), writer,
                     tp_rank, &s->all[3 * i + 1]);
        param_piece (p, "optimizer.exp_avg_sq.", optimizer_exp_avg_sq (optimizer, i),
                     writer, tp_rank, &s->all[3 * i + 2]);
    }
    return s;
nomem:
    mg_error_set (err, ENOMEM, "checkpoint state: out of memory");
    state_destroy (s);
    return NULL;
}

void state_destroy (struct state *s)
{
    int saved_errno = errno;

    if (s) {
        free (s->weight);
        free (s->gradient);
        free (s->all);
        free (s);
    }
    errno = saved_errno;
}

int state_load_weights (struct state *s, const char *path, struct mg_error *err)
{
    struct safetensors *file = safetensors_open (path, err);
    int rc;

    if (!file)
        return -1;
    rc = safetensors_load (file, s->weight, s->n, err);
    safetensors_close (file);
    return rc;
}

int state_save_weights (struct state *s, const char *path, struct mg_error *err)
{
    return safetensors_save (path, s->weight, s->n, job_comm (s->job, GROUP_WORLD), err);
}

int state_save_gradients (struct state *s, const char *path, struct mg_error *err)
{
    return safetensors_save (path, s->gradient, s->n, job_comm (s->job, GROUP_WORLD), err);
}

int state_save (struct state *s, const char *dir, const struct train_progress *progress,
                struct mg_error *err)
{
    struct checkpoint_value values[NUM_VALUES + 1] = {
        [VALUE_ITERATION] = { .name = "iteration", .integer = progress->iteration },
        [VALUE_SAMPLES] = { .name = "consumed_samples",
                            .integer = progress->consumed_samples },
        [VALUE_VALID_SAMPLES] = { .name = "consumed_valid_samples",
                                  .integer = progress->consumed_valid_samples },
        [VALUE_STEPS] = { .name = "optimizer_steps",
                          .integer = optimizer_steps (s->optimizer) },
    };

    return checkpoint_save (dir, progress->iteration, values, s->all, 3 * s->n,
                            job_comm (s->job, GROUP_WORLD), err);
}

/* Rank 0's view of the directory counts for all, so that all do the same. */
static int agree_on_latest (struct state *s, const char *dir, int64_t *iteration,
                            struct mg_error *err)
{
    *iteration = -1;
    if (job_rank (s->job) == 0) {
        *iteration = checkpoint_latest (dir, err);
        if (*iteration < 0 && errno != ENOENT)
            *iteration = -2;
    }
    if (mg_comm_broadcast (job_comm (s->job, GROUP_WORLD), iteration, 1, MG_INT64, 0, NULL,
                           err) < 0)
        return -1;
    if (*iteration == -2)
        return job_rank (s->job) == 0
                   ? -1
                   : mg_error_set (err, EIO, "%s: rank 0 cannot read it", dir);
    return 0;
}

int state_load (struct state *s, const char *dir, struct train_progress *progress,
                struct mg_error *err)
{
    struct checkpoint_value values[NUM_VALUES + 1] = {
        [VALUE_ITERATION] = { .name = "iteration" },
        [VALUE_SAMPLES] = { .name = "consumed_samples" },
        [VALUE_VALID_SAMPLES] = { .name = "consumed_valid_samples" },
        [VALUE_STEPS] = { .name = "optimizer_steps" },
    };
    int64_t iteration;

    if (agree_on_latest (s, dir, &iteration, err) < 0)
        return -1;
    if (iteration < 0)
        return 0;
    if (checkpoint_load (dir, iteration, values, s->all, 3 * s->n,
                         job_comm (s->job, GROUP_WORLD), err) < 0)
        return -1;
    progress->iteration = values[VALUE_ITERATION].integer;
    progress->consumed_samples = values[VALUE_SAMPLES].integer;
    progress->consumed_valid_samples = values[VALUE_VALID_SAMPLES].integer;
    optimizer_set_steps (s->optimizer, values[VALUE_STEPS].integer);
    return 1;
}
