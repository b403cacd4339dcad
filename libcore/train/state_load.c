/* state_load.c - weights and checkpoints that a run begins with
 *
 * Values that are not plain float32 memory are loaded into host memory first and stored from
 * there.  All ranks load, or none does: every step's result is agreed on.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "libcore/checkpoint/hf_dir.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/comm/exchange.h"
#include "libcore/train/state_private.h"
#include "libcore/train/upcycle.h"

static int read_value (const struct kept *k, int64_t n, float *out, struct mg_error *err)
{
    if (k->value == OPTIMIZER_MAIN_PARAM)
        return main_params_read (k->state->main, k->range, 0, n, out, err);
    return optimizer_read (k->state->optimizer, k->range, k->value, 0, n, out, err);
}

static int write_value (const struct kept *k, const float *in, struct mg_error *err)
{
    if (k->value == OPTIMIZER_MAIN_PARAM)
        return main_params_write (k->state->main, k->range, in, err);
    return optimizer_write (k->state->optimizer, k->range, k->value, in, err);
}

int state_stage (struct list *list, struct mg_error *err)
{
    float *whole = NULL;

    for (size_t i = 0; i < list->n; i++) {
        const struct kept *k = list->piece[i].source;
        const struct buffers_range *r;
        int64_t n;

        if (!k || k->plain)
            continue;
        r = buffers_range_at (k->state->buffers, k->range);
        n = r->to - r->from;
        if (k->first == 0) {
            if (!(whole = malloc ((size_t)n * sizeof (float))))
                return mg_error_set (err, ENOMEM, "out of memory for %s", list->piece[i].name);
            list->piece[i].data = whole;
            if (read_value (k, n, whole, err) < 0)
                return -1;
        }
        list->piece[i].data = whole + k->first;
    }
    return 0;
}

int state_unstage (struct list *list, int rc, struct mg_error *err)
{
    int saved_errno = errno;

    for (size_t i = 0; i < list->n; i++) {
        const struct kept *k = list->piece[i].source;

        if (!k || k->plain)
            continue;
        if (k->first == 0) {
            if (rc == 0
                && write_value (k, list->piece[i].data, err) < 0) {
                rc = -1;
                saved_errno = errno;
            }
            free (list->piece[i].data);
        }
        list->piece[i].data = NULL;
    }
    errno = saved_errno;
    return rc;
}

/* From a file of our names. */
static int read_file (struct state *s, const char *path, struct mg_error *err)
{
    struct safetensors *file = safetensors_open (path, err);
    int rc;

    if (!file)
        return -1;
    rc = safetensors_load (file, s->weight.piece, s->weight.n, err);
    safetensors_close (file);
    return rc;
}

/* From a directory of Hugging Face's. */
static int read_hf (struct state *s, const char *path, struct mg_error *err)
{
    const struct model_config dense = upcycle_dense (s->config);
    const struct model_config *c = s->config->moe.upcycling_granularity > 0 ? &dense : s->config;
    struct weights_conversion conversion;
    struct hf_dir dir;
    struct weights w;
    int rc;

    if (hf_dir_open (&dir, path, err) < 0)
        return -1;
    w = hf_dir_weights (&dir);
    if ((rc = weights_import (&w, c, MG_FLOAT32, &conversion, err)) == 0) {
        rc = weights_fill (&conversion, s->weight.piece, s->weight.n, err);
        weights_clear (&conversion);
    }
    hf_dir_close (&dir);
    return rc < 0 ? mg_error_prefix (err, "%s", path) : 0;
}

/* The part of the load that this rank does alone. */
static int read_weights (struct state *s, const char *path, struct mg_error *err)
{
    bool upcycles = s->config->moe.upcycling_granularity > 0;
    int rc = state_stage (&s->weight, err), hf = 0;
    struct upcycle u;

    if (rc == 0 && upcycles)
        rc = upcycle_begin (&u, s->config, s->weight.piece, s->weight.n, err);
    else
        upcycles = false;
    if (rc == 0 && (hf = hf_dir_probe (path, err)) < 0)
        rc = -1;
    if (rc == 0)
        rc = hf ? read_hf (s, path, err) : read_file (s, path, err);
    if (upcycles)
        rc = upcycle_end (&u, s->weight.piece, s->weight.n, rc, err);
    return state_unstage (&s->weight, rc, err);
}

int state_make_params (struct state *s, struct mg_error *err)
{
    int rc = main_params_to_model (s->main, err);

    return exchange_agree (job_control (s->job), rc, err);
}

int state_load_weights (struct state *s, const char *path, struct mg_error *err)
{
    if (exchange_agree (job_control (s->job), read_weights (s, path, err), err) < 0)
        return -1;
    return state_make_params (s, err);
}

/* Rank 0's view of the directory counts for all, so that all do the same. */
static int agree_on_latest (struct state *s, const char *dir, int64_t *iteration,
                            struct mg_error *passed, struct mg_error *err)
{
    *iteration = -1;
    passed->text[0] = '\0';
    if (job_rank (s->job) == 0) {
        *iteration = checkpoint_latest (dir, err);
        if (*iteration < 0 && errno != ENOENT)
            *iteration = -2;
        else if (*iteration >= 0)
            *passed = *err;
    }
    if (mg_comm_broadcast (job_control (s->job), iteration, 1, MG_INT64, 0, NULL,
                           err) < 0)
        return -1;
    if (*iteration == -2)
        return job_rank (s->job) == 0
                   ? -1
                   : mg_error_set (err, EIO, "%s: rank 0 cannot read it", dir);
    return 0;
}

/* Read tensors to their places, on all ranks or on none. */
static int read_tensors (struct state *s, const struct state_source *from, int64_t iteration,
                         struct mg_error *err)
{
    /* A run that does not train has no moments; one that does may have none on this rank. */
    const bool whole = !from->weights_only && !from->no_optimizer
                       && s->optimizer;
    struct mg_comm *comm = job_control (s->job);
    struct list list = { s->loaded.piece, whole ? s->loaded.n : s->loaded_params };
    const char *all_of = whole ? "" : "model.";
    int rc = exchange_agree (comm, state_stage (&list, err), err);
    struct upcycle u = { .before = NULL };

    if (rc == 0 && from->upcycle)
        rc = exchange_agree (comm, upcycle_begin (&u, s->config, list.piece, list.n, err), err);
    if (rc == 0)
        rc = checkpoint_load (from->dir, iteration, NULL, list.piece, list.n, all_of,
                              from->no_mtp ? "model.mtp." : NULL, comm, err);
    if (from->upcycle)
        rc = exchange_agree (comm, upcycle_end (&u, list.piece, list.n, rc, err), err);
    if (rc < 0) /* on all ranks */
        return state_unstage (&list, rc, err);
    if (exchange_agree (comm, state_unstage (&list, 0, err), err) < 0)
        return -1;
    return state_make_params (s, err);
}

/* The schedule that a checkpoint was made with; those of other versions may not tell. */
static int resume_schedule (const struct checkpoint_value *values, enum lr_prefer prefer,
                            struct lr_config *lr, struct mg_error *err)
{
    struct lr_config saved = {
        .max = values[VALUE_LR].real,
        .min = values[VALUE_MIN_LR].real,
        .warmup = values[VALUE_WARMUP].real,
        .decay = values[VALUE_DECAY].integer,
        .wd_start = values[VALUE_WD_START].real,
        .wd_end = values[VALUE_WD_END].real,
        .wd_incr = values[VALUE_WD_INCR].integer,
        .decoupled = values[VALUE_DECOUPLED_LR].real >= 0, // below 0: it had none
        .decoupled_max = values[VALUE_DECOUPLED_LR].real,
        .decoupled_min = values[VALUE_DECOUPLED_MIN_LR].real,
    };
    const char *style = values[VALUE_STYLE].text, *wd_style = values[VALUE_WD_STYLE].text;

    if (prefer == LR_PREFER_OWN || style[0] == '\0' || wd_style[0] == '\0')
        return 0;
    if (lr_style_parse ("lr_decay_style", style, &saved.style, err) < 0
        || wd_style_parse ("weight_decay_incr_style", wd_style, &saved.wd_style, err) < 0)
        return -1;
    return lr_resume (lr, &saved, prefer, err);
}

/* The progress of the run, and the state of its optimizer besides moments. */
static int take_values (const struct state_source *from, const struct checkpoint_value *values,
                        struct train_progress *p, struct mg_error *err)
{
    struct mg_error why;

    p->iteration = values[VALUE_ITERATION].integer;
    p->consumed_samples = values[VALUE_SAMPLES].integer;
    p->consumed_valid_samples = values[VALUE_VALID_SAMPLES].integer;
    p->skipped_samples = values[VALUE_SKIPPED_SAMPLES].integer;
    if (from->no_optimizer || from->prefer == LR_PREFER_OWN)
        p->skipped_samples = from->no_optimizer ? p->consumed_samples : 0;
    if (from->no_optimizer)
        return 0;
    if (resume_schedule (values, from->prefer, &p->lr, &why) < 0)
        return mg_error_set (err, EINVAL, "it was made with another schedule%s: %s",
                             from->prefer == LR_PREFER_SAVED
                                 ? ", which does not fit the arguments"
                                 : " (--override-opt-param-scheduler takes the arguments', "
                                   "--use-checkpoint-opt-param-scheduler the checkpoint's)",
                             why.text);
    return values[VALUE_LOSS_SCALE].real > 0 /* 0: the run had no dynamic one */
               ? grad_scaler_restore (&p->scaler, values[VALUE_LOSS_SCALE].real,
                                      values[VALUE_GROWTH].integer,
                                      values[VALUE_HYSTERESIS].integer, err)
               : 0;
}

/* Read what there is besides tensors, and what is to be done with it; on all ranks alike. */
static int read_values (struct state *s, const struct state_source *from, int64_t iteration,
                        struct checkpoint_value *values, struct train_progress *progress,
                        struct mg_error *err)
{
    state_name_values (values, NUM_LOADED);
    values[VALUE_HEADS].integer = s->heads;
    values[VALUE_DECOUPLED_LR].real = -1;
    if (checkpoint_load (from->dir, iteration, values, NULL, 0, NULL, NULL,
                         job_control (s->job), err) < 0)
        return -1;
    if (values[VALUE_HEADS].integer != s->heads)
        mg_error_set (err, EINVAL, "it is of a model with %" PRId64 " attention heads, want "
                      "%d", values[VALUE_HEADS].integer, s->heads);
    else if (from->weights_only || take_values (from, values, progress, err) == 0)
        return 0;
    return mg_error_prefix (err, "checkpoint %" PRId64 " in %s", iteration, from->dir);
}

int state_load (struct state *s, const struct state_source *from,
                struct train_progress *progress, struct state_found *found,
                struct mg_error *err)
{
    struct checkpoint_value values[NUM_LOADED + 1] = { 0 };
    struct train_progress after = *progress;

    *found = (struct state_found){ .iteration = from->iteration };
    if (from->iteration < 0
        && agree_on_latest (s, from->dir, &found->iteration, &found->passed, err) < 0)
        return -1;
    if (found->iteration < 0)
        return 0;
    if (read_values (s, from, found->iteration, values, &after, err) < 0
        || read_tensors (s, from, found->iteration, err) < 0)
        return -1;
    *progress = after;
    if (s->optimizer && !from->weights_only && !from->no_optimizer)
        optimizer_set_steps (s->optimizer, values[VALUE_STEPS].integer);
    return 1;
}
