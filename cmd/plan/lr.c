/* lr.c - megatron plan lr: learning rate and weight decay at given steps
 *
 * The arguments are rows of megatron train's table: same names, ranges and defaults.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/train/config.h"

/* The arguments of megatron train that matter, in the order of --help.  Some have a help of their
 * own, where that of megatron train would be wrong.
 */
static const struct {
    const char *name;
    const char *help; /* NULL: the table's */
} names[] = {
    { "lr", NULL },
    { "min-lr", NULL },
    { "lr-decay-style", NULL },
    { "lr-decay-iters", NULL },
    { "lr-decay-samples", NULL },
    { "lr-warmup-iters", NULL },
    { "lr-warmup-samples", NULL },
    { "lr-warmup-fraction", NULL },
    { "lr-warmup-init", NULL },
    { "lr-wsd-decay-style", NULL },
    { "lr-wsd-decay-iters", NULL },
    { "lr-wsd-decay-samples", NULL },
    { "weight-decay", NULL },
    { "start-weight-decay", NULL },
    { "end-weight-decay", NULL },
    { "weight-decay-incr-style", NULL },
    { "train-iters", "iterations of the run" },
    { "train-samples", "samples of the run, in place of --train-iters" },
    { "global-batch-size", "samples of an iteration (default 1)" },
    { "step-batch-size-schedule", "batch size N from T samples on: \"0:16 1M:32\"" },
    { "seq-length", "tokens of a sample: T is in tokens then" },
};
enum { NUM_NAMES = sizeof (names) / sizeof (names[0]) };

struct lr_request {
    struct train_args args;
    int64_t *step;
    size_t num_steps;
};

/* Append "0,10,20". */
static int set_steps (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct lr_request *r = target;

    (void)option;
    for (;;) {
        size_t n = strcspn (value, ",");
        int64_t *grown = realloc (r->step, (r->num_steps + 1) * sizeof (*grown));
        char number[PLAN_WORD];

        if (!grown)
            return mg_error_set (err, ENOMEM, "%s: out of memory", what);
        r->step = grown;
        if (plan_list_word (what, value, n, number, err) < 0
            || parse_int64 (what, number, 0, INT64_C (1000000000000000),
                            &r->step[r->num_steps], err)
                   < 0)
            return -1;
        r->num_steps++;
        if (value[n] == '\0')
            return 0;
        value += n + 1;
    }
}

static const struct cmd_option own_options[] = {
    { .name = "steps", .arg = "N[,N...]", .set = set_steps, .required = true,
      .help = "iterations, or samples with --train-samples; may be repeated" },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron plan lr --steps N[,N...] --lr X --train-iters N [OPTION...]\n\n"
    "Print the learning rate and the weight decay that megatron train uses after so\n"
    "many iterations.  Without a batch size an iteration is one sample.\n\n";

static void print_rows (const struct lr_request *r, const struct lr_config *lr,
                        const struct num_microbatches *batches, bool json)
{
    bool samples = r->args.train_samples != TRAIN_UNSET;

    if (!json)
        printf ("%12s  %22s  %22s\n", samples ? "samples" : "iterations", "learning rate",
                "weight decay");
    for (size_t i = 0; i < r->num_steps; i++) {
        long long step = (long long)r->step[i];
        int64_t at = samples ? step : num_microbatches_samples (batches, step);
        char rate[32], decay[32];

        plan_shortest (lr_at (lr, at), rate);
        plan_shortest (lr_weight_decay_at (lr, at), decay);
        if (json)
            printf ("%c[%lld,%s,%s]", i ? ',' : '[', step, rate, decay);
        else
            printf ("%12lld  %22s  %22s\n", step, rate, decay);
    }
    if (json)
        printf ("]\n");
}

/* Check that the arguments are enough, and complete them. */
static int check_request (void *request, struct mg_error *err)
{
    struct train_args *args = &((struct lr_request *)request)->args;

    if (args->lr < 0)
        return mg_error_set (err, EINVAL, "--lr is missing");
    if (args->train_iters == TRAIN_UNSET && args->train_samples == TRAIN_UNSET) {
        args->train_iters = args->lr_decay_iters;
        args->train_samples = args->lr_decay_samples;
    }
    if (args->train_iters == TRAIN_UNSET && args->train_samples == TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--train-iters or --train-samples is missing");
    return 0;
}

static int show (struct lr_request *r, bool json)
{
    struct num_microbatches *batches;
    struct run_config config;
    struct lr_config lr;
    struct mg_error err;
    int rc = -1;

    run_config_init (&config, &r->args);
    if ((batches = run_config_batches (&config, 1, &err)))
        rc = run_config_lr (&config, batches, &lr, &err);
    if (rc == 0)
        print_rows (r, &lr, batches, json);
    else
        fprintf (stderr, "megatron: %s\n", err.text);
    num_microbatches_destroy (batches);
    return rc == 0 ? 0 : PLAN_IMPOSSIBLE;
}

int plan_lr (int argc, char **argv)
{
    struct cmd_option arguments[NUM_NAMES + 1] = { { .name = NULL } };
    struct lr_request r = { .num_steps = 0 };
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { own_options, &r },
        { arguments, &r.args },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 3, &common.help, check_request, &r };
    int status;

    for (int i = 0; i < NUM_NAMES; i++)
        arguments[i] = plan_train_option (names[i].name, names[i].help);
    train_args_init (&r.args);
    status = cmd_part_read (&syntax, argc, argv);
    if (status == CMD_GO)
        status = show (&r, common.json);
    free (r.step);
    return status;
}
