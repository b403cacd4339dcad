/* loss_scale.c - megatron plan loss-scale: a loss scale through overflows
 *
 * The arguments are rows of megatron train's table.  The factors are not: megatron train has no
 * arguments for them.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/train/config.h"

static const char *const names[]
    = { "loss-scale", "initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis" };
enum { NUM_NAMES = sizeof (names) / sizeof (names[0]) };

struct loss_scale_request {
    struct train_args args;
    double growth, backoff;
    const char *found_inf; /* NULL: not given */
};

static int set_growth (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    (void)option;
    return parse_double (what, value, 1, 1e30, &((struct loss_scale_request *)target)->growth, err);
}

static int set_backoff (void *target, const struct cmd_option *option, const char *what,
                        const char *value, struct mg_error *err)
{
    (void)option;
    return parse_double (what, value, 0, 1, &((struct loss_scale_request *)target)->backoff, err);
}

/* A function that is called for 'count' equal iterations. */
typedef void (*series_f) (void *arg, bool overflow, int64_t count);

/* Walk "0,1,0*1000": words between commas, a 1 for an overflow, each perhaps with how often. */
static int walk_series (const char *text, series_f each, void *arg, struct mg_error *err)
{
    const char *const what = "--found-inf";

    for (;; text++) {
        size_t n = strcspn (text, ",");
        char word[PLAN_WORD], *star;
        int64_t count = 1;
        int overflow;

        if (plan_list_word (what, text, n, word, err) < 0)
            return -1;
        if ((star = strchr (word, '*')))
            *star = '\0';
        if (parse_int (what, word, 0, 1, &overflow, err) < 0
            || (star && parse_int64 (what, star + 1, 1, 1000000000, &count, err) < 0))
            return -1;
        if (each)
            each (arg, overflow != 0, count);
        text += n;
        if (*text == '\0')
            return 0;
    }
}

static int set_series (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    (void)option, (void)what;
    ((struct loss_scale_request *)target)->found_inf = value;
    return walk_series (value, NULL, NULL, err);
}

static const struct cmd_option own_options[] = {
    { .name = "found-inf", .arg = "N[*TIMES][,...]", .set = set_series, .required = true,
      .help = "1: an iteration whose gradients overflow, 0: a good one" },
    { .name = "growth-factor", .arg = "X", .set = set_growth,
      .help = "that the scale grows by (default 2, that of a run)" },
    { .name = "backoff-factor", .arg = "X", .set = set_backoff,
      .help = "that it backs off by (default 0.5, that of a run)" },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron plan loss-scale --found-inf N[*TIMES][,...] [OPTION...]\n\n"
    "Print the loss scale of a float16 run before the first of these iterations and\n"
    "after each.\n\n";

/* Where the table is. */
struct table {
    struct grad_scaler scaler;
    int64_t iteration;
    bool json;
};

static void print_row (const struct table *t, const char *found)
{
    const struct grad_scaler *s = &t->scaler;
    char scale[32], inverse[32];

    plan_shortest (s->scale, scale);
    plan_shortest (grad_scaler_inverse (s), inverse);
    if (t->json)
        printf ("%s[%s,%s,%" PRId64 ",%" PRId64 "]", t->iteration > 0 ? "," : "[", scale,
                inverse, s->growth_tracker, s->hysteresis_tracker);
    else
        printf ("%10" PRId64 "  %9s  %22s  %22s  %15" PRId64 "  %14" PRId64 "\n", t->iteration,
                found, scale, inverse, s->growth_tracker, s->hysteresis_tracker);
}

static void print_rows (void *arg, bool overflow, int64_t count)
{
    struct table *t = arg;

    while (count-- > 0) {
        grad_scaler_update (&t->scaler, overflow);
        t->iteration++;
        print_row (t, overflow ? "inf" : "finite");
    }
}

static int show (struct loss_scale_request *r, bool json)
{
    struct grad_scaler_config config;
    struct run_config run;
    struct table table = { .json = json };
    struct mg_error err;

    r->args.fp16 = true;
    run_config_init (&run, &r->args);
    config = run.scaler;
    config.growth = r->growth;
    config.backoff = r->backoff;
    if (grad_scaler_init (&table.scaler, &config, &err) < 0) {
        fprintf (stderr, "megatron: %s\n", err.text);
        return PLAN_IMPOSSIBLE;
    }
    if (!json)
        printf ("%10s  %9s  %22s  %22s  %15s  %14s\n", "iteration", "gradients", "loss scale",
                "inverse", "good iterations", "overflows left");
    print_row (&table, "");
    walk_series (r->found_inf, print_rows, &table, NULL); // which has been read before
    if (json)
        printf ("]\n");
    return 0;
}

int plan_loss_scale (int argc, char **argv)
{
    struct cmd_option arguments[NUM_NAMES + 1] = { { .name = NULL } };
    struct loss_scale_request r = { .growth = 2, .backoff = 0.5 };
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { own_options, &r },
        { arguments, &r.args },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 3, &common.help, NULL, NULL };
    int status;

    for (int i = 0; i < NUM_NAMES; i++)
        arguments[i] = plan_train_option (names[i], NULL);
    train_args_init (&r.args);
    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    return show (&r, common.json);
}
