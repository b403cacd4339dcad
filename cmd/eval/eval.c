/* eval.c - megatron eval */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cmd/cmd.h"
#include "cmd/inference.h"
#include "cmd/option.h"
#include "libcore/infer/task.h"
#include "libcore/train/timers.h"

static const char usage[]
    = "Usage: megatron eval --load PATH --task TASK --valid-data FILE [OPTION...] [ARGUMENT...]\n"
      "Measure a trained model by a benchmark, on the ranks of a job or on one rank alone.\n"
      "PATH is a checkpoint's directory, a file of weights or a directory of Hugging Face's.\n"
      "Other arguments are those of megatron train about layouts, types, devices and tokenizers,\n"
      "--seq-length, --micro-batch-size and --global-batch-size.\n";

struct eval_options {
    const char *data;
    enum task_kind task;
    int overlap;
    bool strict, add_bos, json;
};

/* One rank's part of an evaluation. */
struct eval {
    struct eval_options options;
    struct inference use;
    struct task task;
    struct scorer_sample *score; /* [task.num_samples] */
};

/* --- options --- */

static int set_task (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    (void)what;
    return task_parse (value, (void *)((char *)target + option->at), err);
}

#define AT(field) .at = offsetof (struct eval, options.field)

static const struct cmd_option options[] = {
    { .name = "task", .arg = "TASK",
      .help = "the benchmark: WIKITEXT103, PTB, PERPLEXITY, LAMBADA or HELLASWAG",
      .set = set_task, AT (task), .required = true },
    { .name = "valid-data", .arg = "FILE", .help = "its text, or its lines of JSON",
      .set = cmd_set_text, AT (data), .required = true },
    { .name = "overlapping-eval", .arg = "N",
      .help = "tokens from one window of a text to the next (the sequence length)",
      .set = cmd_set_int, AT (overlap), .min = 1, .max = INT32_MAX },
    { .name = "strict-lambada", .help = "LAMBADA: predict the whole last word, not its last token",
      .set = cmd_set_flag, AT (strict) },
    { .name = "add-bos", .help = "a text begins with the token that begins or ends a document",
      .set = cmd_set_flag, AT (add_bos) },
    { .name = "json", .help = "print the figures as a line of JSON", .set = cmd_set_flag,
      AT (json) },
    { .name = NULL },
};

/* --- figures --- */

/* The names of figures in the output, in its order. */
static const struct {
    const char *name;
    size_t at;
} rows[] = {
    { "loss", offsetof (struct task_figures, loss) },
    { "ppl", offsetof (struct task_figures, ppl) },
    { "ppl_adjusted", offsetof (struct task_figures, ppl_adjusted) },
    { "ppl_paper", offsetof (struct task_figures, ppl_paper) },
    { "bits_per_byte", offsetof (struct task_figures, bits_per_byte) },
    { "accuracy", offsetof (struct task_figures, accuracy) },
    { "accuracy_norm", offsetof (struct task_figures, accuracy_norm) },
};

static double figure (const struct task_figures *f, size_t row)
{
    return *(const double *)(const void *)((const char *)f + rows[row].at);
}

/* A figure that no double holds is null. */
static int print_json (const char *task, const struct task_figures *f, struct mg_error *err)
{
    json_t *line = json_pack ("{s:s, s:I}", "task", task, "tokens", (json_int_t)f->tokens);
    int rc = line ? 0 : -1;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]) && rc == 0; i++) {
        double value = figure (f, i);

        if (!isnan (value))
            rc = json_object_set_new (line, rows[i].name,
                                      isinf (value) ? json_null () : json_real (value));
    }
    if (rc == 0)
        rc = json_dumpf (line, stdout, JSON_COMPACT | JSON_REAL_PRECISION (17));
    json_decref (line);
    putchar ('\n');
    return rc < 0 ? mg_error_set (err, EIO, "the figures cannot be printed") : 0;
}

static int print_figures (const struct eval *e, const struct task_figures *f,
                          struct mg_error *err)
{
    const char *task = task_name (e->options.task);

    if (job_rank (e->use.infer.session.job) != 0)
        return 0;
    if (e->options.json)
        return print_json (task, f, err);
    printf ("%s: %" PRId64 " tokens", task, f->tokens);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (!isnan (figure (f, i)))
            printf (", %s %.8g", rows[i].name, figure (f, i));
    }
    putchar ('\n');
    return 0;
}

/* --- evaluating --- */

/* Of struct inference_command. */
static int prepare (void *arg, struct mg_error *err)
{
    struct eval *e = arg;
    const struct eval_options *o = &e->options;
    const struct run_config *run = &e->use.infer.config;
    struct task_config config = {
        .kind = o->task,
        .path = o->data,
        .seq_length = run->model.config.seq_length,
        .overlap = o->overlap,
        .strict = o->strict,
        .add_bos = o->add_bos,
        .vocab_size = run->model.config.vocab_size,
    };

    config.bos = e->use.tokens.first;
    if (task_read (&e->task, &config, e->use.tokens.tokenizer, err) < 0)
        return -1;
    e->score = calloc ((size_t)e->task.num_samples, sizeof (*e->score));
    return e->score ? 0 : mg_error_set (err, ENOMEM, "out of memory for %" PRId64 " samples",
                                        e->task.num_samples);
}

static void print_speed (const struct eval *e, double milliseconds)
{
    int64_t tokens = e->task.num_samples * e->task.config.seq_length;

    if (job_rank (e->use.infer.session.job) == 0)
        fprintf (stderr, "%" PRId64 " samples in %.1f s, %.0f tokens/s\n", e->task.num_samples,
                 milliseconds / 1000, milliseconds > 0 ? (double)tokens / milliseconds * 1000 : 0);
}

/* Of struct inference_command. */
static int evaluate (void *arg, struct mg_error *err)
{
    struct eval *e = arg;
    struct task_figures figures;
    double start = timers_now ();

    if (scorer_run (e->use.infer.scorer, &e->task.source, e->score, err) < 0)
        return -1;
    print_speed (e, timers_now () - start);
    task_figures (&e->task, e->score, &figures);
    return print_figures (e, &figures, err);
}

int cmd_eval (int argc, char **argv)
{
    static const struct inference_command command = {
        .program = "megatron eval",
        .usage = usage,
        .options = options,
        .scores = true,
        .bare = true,
        .prepare = prepare,
        .run = evaluate,
    };
    struct eval e = { .score = NULL };
    int status = inference_run (&command, &e.use, &e, argc, argv);

    inference_clear (&e.use);
    task_clear (&e.task);
    free (e.score);
    return status;
}
