/* tensorboard.c - tags and values of event files
 *
 * Tags and steps are those of Megatron-LM, so that its users find their curves.  Only the last
 * rank writes.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libcore/train/events.h"
#include "libcore/train/output.h"
#include "libcore/train/report.h"
#include "libcore/train/tensorboard.h"

enum { MAX_TAG = 64 };

int tensorboard_check (const struct tensorboard_config *config, struct mg_error *err)
{
    if (config->dir && events_check (err) < 0)
        return mg_error_prefix (err, "--tensorboard-dir");
    return 0;
}

static bool is_writer (const struct tensorboard *tb)
{
    return job_rank (tb->job) == job_world (tb->job) - 1;
}

int tensorboard_init (struct tensorboard *tb, const struct tensorboard_config *config,
                      const struct job *job, struct mg_error *err)
{
    tb->config = config;
    tb->job = job;
    return is_writer (tb) ? output_make_dir ("--tensorboard-dir", config->dir, err) : 0;
}

void tensorboard_clear (struct tensorboard *tb)
{
    events_destroy (tb->events);
    tb->events = NULL;
}

/* --- arguments --- */

/* The value of an argument as Megatron-LM's parser reads it and Python prints it. */
static void describe (const struct train_arg *row, const struct train_args *args, char *text,
                      size_t n)
{
    const void *field = (const char *)args + row->offset;
    const struct arg_list *list = field;
    const int64_t *numbers = field;
    size_t len = 0;

    snprintf (text, n, "None");
    switch (row->info->type) {
    case ARG_INT:
        if (*(const int *)field != TRAIN_UNSET)
            snprintf (text, n, "%d", *(const int *)field);
        break;
    case ARG_INT64:
        if (*numbers != TRAIN_UNSET)
            snprintf (text, n, "%" PRId64, *numbers);
        break;
    case ARG_REAL:
        if (*(const double *)field != TRAIN_UNSET)
            snprintf (text, n, "%.9g", *(const double *)field);
        break;
    case ARG_TEXT:
        if (*(const char *const *)field)
            snprintf (text, n, "%s", *(const char *const *)field);
        break;
    case ARG_FLAG:
        snprintf (text, n, "%s", *(const bool *)field ? "True" : "False");
        break;
    case ARG_LIST:
        for (int i = 0; i < list->count && len < n; i++)
            len += (size_t)snprintf (text + len, n - len, "%s%s", i > 0 ? " " : "",
                                     arg_list_word (list, i));
        break;
    case ARG_TRIPLE:
        if (numbers[0] > 0)
            snprintf (text, n, "%" PRId64 " %" PRId64 " %" PRId64, numbers[0], numbers[1],
                      numbers[2]);
        break;
    }
}

static int add_arguments (struct tensorboard *tb, const struct train_args *args,
                          int64_t iteration, struct mg_error *err)
{
    char text[4096], tag[MAX_TAG];

    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];

        snprintf (tag, sizeof (tag), "%s", row->info->name);
        for (char *dash = tag; (dash = strchr (dash, '-'));)
            *dash = '_';
        describe (row, args, text, sizeof (text));
        if (events_add_text (tb->events, tag, text, iteration, err) < 0)
            return -1;
    }
    return events_flush (tb->events, err);
}

int tensorboard_begin (struct tensorboard *tb, const struct train_args *args, int64_t iteration,
                       struct mg_error *err)
{
    const char *dir = tb->config->dir;

    if (!dir || !is_writer (tb))
        return 0;
    if (!(tb->events = events_create (dir, err)))
        return mg_error_prefix (err, "--tensorboard-dir");
    return add_arguments (tb, args, iteration, err);
}

/* --- values --- */

/* A value by the number of the iteration, and the same by the number of samples. */
static int add_both (struct tensorboard *tb, const char *tag, double value, int64_t iteration,
                     int64_t samples, struct mg_error *err)
{
    char by_samples[MAX_TAG];

    snprintf (by_samples, sizeof (by_samples), "%s vs samples", tag);
    if (events_add (tb->events, tag, value, iteration, err) < 0
        || events_add (tb->events, by_samples, value, samples, err) < 0)
        return -1;
    return 0;
}

/* The memory of this rank, as Megatron-LM writes it.  Nothing is freed before the end of a run, so
 * the memory that is allocated is also the most that was allocated.
 */
static int add_memory (struct tensorboard *tb, int64_t iteration, struct mg_error *err)
{
    double allocated = report_allocated (tb->job);
    const struct {
        const char *tag;
        double bytes;
    } rows[] = {
        { "mem-reserved-bytes", report_resident () },
        { "mem-allocated-bytes", allocated },
        { "mem-max-allocated-bytes", allocated },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (events_add (tb->events, rows[i].tag, rows[i].bytes, iteration, err) < 0)
            return -1;
    }
    return 0;
}

/* A loss of each layer with experts. */
static int add_layers (struct tensorboard *tb, const struct metrics *m, int loss,
                       struct mg_error *err)
{
    const struct routing *r = m->routing;
    char tag[MAX_TAG];

    for (int l = 0; l < r->num_layers; l++) {
        if (!routing_has_layer (r, l))
            continue;
        snprintf (tag, sizeof (tag), "moe/%s_layer_%d", routing_loss_names[loss], l);
        if (events_add (tb->events, tag, r->stats[l].loss[loss], m->iteration, err) < 0)
            return -1;
    }
    return 0;
}

static int add_routing (struct tensorboard *tb, const struct metrics *m, struct mg_error *err)
{
    for (int i = 0; m->routing && i < ROUTER_NUM_LOSSES; i++) {
        if (!m->routing->has[i])
            continue;
        if (events_add (tb->events, routing_loss_names[i], m->routing->loss[i], m->iteration, err)
                < 0
            || (tb->config->layers && add_layers (tb, m, i, err) < 0))
            return -1;
    }
    return 0;
}

/* The losses beside the main one. */
static int add_losses (struct tensorboard *tb, const struct metrics *m, struct mg_error *err)
{
    for (int k = 0; m->losses && k < m->losses->n; k++) {
        if (add_both (tb, m->losses->row[k].name, m->losses->now[k], m->iteration,
                      m->consumed_samples, err) < 0)
            return -1;
    }
    return 0;
}

static int add_iteration (struct tensorboard *tb, const struct metrics *m, struct mg_error *err)
{
    const struct tensorboard_config *c = tb->config;
    const struct {
        const char *tag;
        bool wanted;
        double value;
    } rows[] = {
        { "learning-rate", c->learning_rate, m->learning_rate },
        { "batch-size", true, (double)m->global_batch_size },
        { "lm loss", true, m->lm_loss },
        { "loss-scale", c->loss_scale, m->loss_scale },
        { "world-size", c->world_size, job_world (tb->job) },
        { "grad-norm", !m->skipped, m->grad_norm },
        { "num-zeros", !m->skipped && m->num_zeros >= 0, (double)m->num_zeros },
        { "params-norm", m->params_norm >= 0, m->params_norm },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (rows[i].wanted
            && add_both (tb, rows[i].tag, rows[i].value, m->iteration, m->consumed_samples,
                         err) < 0)
            return -1;
    }
    if (add_routing (tb, m, err) < 0 || add_losses (tb, m, err) < 0)
        return -1;
    if (m->has_max_logit
        && events_add (tb->events, "max_attention_logit", m->max_logit, m->iteration, err) < 0)
        return -1;
    return c->memory ? add_memory (tb, m->iteration, err) : 0;
}

int tensorboard_iteration (struct tensorboard *tb, const struct metrics *m, struct mg_error *err)
{
    if (!tb->events)
        return 0;
    if (m->iteration % tb->config->interval == 0
        && add_iteration (tb, m, err) < 0)
        return -1;
    return events_flush (tb->events, err);
}

int tensorboard_line (struct tensorboard *tb, const struct metrics *m, bool first,
                      struct mg_error *err)
{
    if (!tb->events || !tb->config->timers)
        return 0;
    if (!first
        && events_add (tb->events, "iteration-time", m->mean_milliseconds / 1e3, m->iteration,
                       err) < 0)
        return -1;
    if (!tb->config->throughput)
        return 0;
    return events_add (tb->events, "throughput", m->mean.tflops, m->iteration, err);
}

int tensorboard_timers (struct tensorboard *tb, const double *times, int64_t iterations,
                        int64_t iteration, struct mg_error *err)
{
    char tag[MAX_TAG];

    if (!tb->events || !tb->config->timers)
        return 0;
    for (int i = 0; i < NUM_TIMERS; i++) {
        double longest = timers_longest (times, job_world (tb->job), (enum timer)i);

        if (longest == 0)
            continue;
        snprintf (tag, sizeof (tag), "%s-time", timer_name ((enum timer)i));
        if (events_add (tb->events, tag, longest / (double)iterations, iteration, err) < 0)
            return -1;
    }
    return 0;
}

/* Megatron-LM writes the loss of the test set under the name of the validation set, at the same
 * step.  Here the test set has its own name.
 */
int tensorboard_evaluation (struct tensorboard *tb, const struct metrics_evaluation *m,
                            struct mg_error *err)
{
    char tag[MAX_TAG];

    if (!tb->events)
        return 0;
    snprintf (tag, sizeof (tag), "lm loss %s", m->part);
    if (add_both (tb, tag, m->lm_loss, m->iteration, m->consumed_samples, err) < 0)
        return -1;
    snprintf (tag, sizeof (tag), "lm loss %s ppl", m->part);
    if (tb->config->validation_ppl
        && add_both (tb, tag, metrics_perplexity (m->lm_loss), m->iteration,
                     m->consumed_samples, err) < 0)
        return -1;
    return events_flush (tb->events, err);
}
