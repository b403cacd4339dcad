/* check_args.c - megatron plan check -- ARGUMENT...: the arguments of a run, as the run would
 * take them
 *
 * Arguments of Megatron-LM that are not there are listed by kind.  The others are checked as a run
 * checks them before it allocates memory: what a run would say comes first.  Then follow the other
 * rules of sizes and models that are broken.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "cmd/plan/memory.h"
#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/args/heard.h"
#include "libcore/train/data.h"
#include "libcore/train/train.h"

static int set_world (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    (void)option;
    return parse_int (what, value, 1, 1 << 16, &((struct plan_memory *)target)->world, err);
}

static const struct cmd_option own_options[] = {
    { .name = "world-size", .arg = "N", .help = "ranks of the job, default one model's",
      .key = "world", .set = set_world },
    { .name = NULL },
};

/* The results of the checks. */
struct findings {
    struct plan_memory request;
    struct train_args args;
    struct geometry geometry;
    struct mg_error first; /* what a run would say; "": nothing */
    json_t *broken;        /* rules, as JSON; NULL: they go to standard error */
    int count;             /* of them */
};

static void report (void *arg, const char *rule, const char *text)
{
    struct findings *f = arg;

    f->count++;
    if (f->broken)
        json_array_append_new (f->broken, json_pack ("{s:s, s:s}", "rule", rule, "text", text));
    else
        fprintf (stderr, "megatron: %s\n", text);
}

/* A rule whose text differs from the run's message, which is reported before. */
static void report_other (void *arg, const char *rule, const char *text)
{
    const struct findings *f = arg;

    if (strcmp (text, f->first.text) != 0)
        report (arg, rule, text);
}

/* A rule whose text is the run's message. */
static void report_first (void *arg, const char *rule, const char *text)
{
    const struct findings *f = arg;

    if (f->count == 0 && strcmp (text, f->first.text) == 0)
        report (arg, rule, text);
}

/* Learning rates, which no plan of memory needs. */
static int check_lr (const struct findings *f, struct mg_error *err)
{
    struct num_microbatches *batches;
    struct run_config c;
    struct lr_config lr;
    int rc;

    if (f->args.lr < 0 || f->args.skip_train
        || (f->args.train_iters == TRAIN_UNSET && f->args.train_samples == TRAIN_UNSET))
        return 0;
    run_config_init (&c, &f->args);
    if (run_config_geometry (&c, err) < 0)
        return -1;
    c.geometry.world = f->request.world;
    if (!(batches = run_config_batches (&c, geometry_dp (&c.geometry), err)))
        return -1;
    rc = run_config_lr (&c, batches, &lr, err);
    num_microbatches_destroy (batches);
    return rc;
}

/* Tokens that the data would be asked for. */
static int check_tokens (const struct findings *f, struct mg_error *err)
{
    struct run_config c;

    run_config_init (&c, &f->args);
    return train_edit_check_tokens (&c.data, err);
}

/* Check arguments against each other, as rank 0 of a run does and in the same order. */
static int check_run (const struct findings *f, struct mg_error *err)
{
    struct train *t;
    int rc;

    if (!(t = train_create (&f->args, "megatron plan", stdout, stderr)))
        return mg_error_set (err, ENOMEM, "out of memory");
    rc = train_plan (t, 0, f->request.world, 1, err);
    train_destroy (t);
    return rc < 0 || check_lr (f, err) < 0 ? -1 : check_tokens (f, err);
}

/* Rules of models are of no use for a number of ranks that cannot be. */
static void check_sizes (struct findings *f, const struct margs *margs, geometry_report_f tell)
{
    struct geometry g = f->geometry;

    if (geometry_check (&g, tell, f) > 0)
        g.world = 0;
    if (geometry_check (&g, NULL, NULL) == 0)
        margs_check (margs, &g, tell, f);
}

/* Report all that is wrong with arguments that are there. */
static void check_rules (struct findings *f)
{
    const char *missing = plan_missing_argument (&f->args);
    struct mg_error err = { "" };
    struct run_config c;
    bool together;

    if (missing) {
        mg_error_set (&err, EINVAL, "%s is required", missing);
        report (f, "required", err.text);
        return;
    }
    together = train_args_check_together (&f->args, &f->first) == 0;
    run_config_init (&c, &f->args);
    if (run_config_geometry (&c, &err) < 0 || plan_memory_world (&f->request, &f->args, &err) < 0) {
        if (!together)
            report (f, "run", f->first.text);
        report (f, "geometry", err.text);
        return;
    }
    c.geometry.world = f->request.world;
    f->geometry = c.geometry;
    if (together && check_run (f, &f->first) == 0)
        return;
    check_sizes (f, &c.margs, report_first);
    if (f->count == 0)
        report (f, "run", f->first.text);
    check_sizes (f, &c.margs, report_other);
}

/* --- printing --- */

static const struct {
    enum args_other_kind kind;
    const char *title, *key;
} kinds[] = {
    { OTHER_NEEDLESS, "change nothing here:", "needless" },
    { OTHER_ELSEWHERE, "only add output, speed or saved memory elsewhere:", "elsewhere" },
    { OTHER_ABSENT, "refused, since they would change the model or the training:", "refused" },
    { OTHER_INSTEAD, "refused, since there is another argument:", "instead" },
    { OTHER_LAUNCHER, "refused, since they are options of the launcher:", "launcher" },
    { OTHER_UNKNOWN, "refused, since nobody knows them:", "unknown" },
};
enum { NUM_KINDS = sizeof (kinds) / sizeof (kinds[0]) };

/* Print the notes that follow from the complete model, as a run does. */
static void print_notes (struct run_config *c)
{
    if (run_config_geometry (c, NULL) == 0 && run_config_tokenizer (c, NULL) == 0
        && run_config_model (c, NULL) == 0)
        run_config_print_notes (c, stdout);
}

static void print_text (const struct findings *f)
{
    struct run_config c;

    for (int i = 0; i < NUM_KINDS; i++)
        args_others_list (&f->args.others, kinds[i].kind, kinds[i].title, stdout);
    if (f->count > 0 || f->geometry.world == 0)
        return;
    run_config_init (&c, &f->args);
    c.geometry = f->geometry;
    args_heard_print (&f->args, &f->geometry, stdout);
    print_notes (&c);
    printf ("%d rank%s: ", f->geometry.world, f->geometry.world == 1 ? "" : "s");
    plan_print_grids (&f->geometry);
    printf (", order %s\n", f->geometry.order);
}

/* The arguments of a kind, with what the table says of them. */
static json_t *kind_json (const struct args_others *others, enum args_other_kind kind)
{
    json_t *list = json_array ();

    for (size_t i = 0; i < others->n; i++) {
        const struct args_given *g = &others->given[i];
        json_t *one;

        if (g->kind != kind)
            continue;
        one = json_pack ("{s:s%}", "name", g->name, g->name_len);
        if (g->value)
            json_object_set_new (one, "value", json_string (g->value));
        if (g->row && g->row->text)
            json_object_set_new (one, "text", json_string (g->row->text));
        json_array_append_new (list, one);
    }
    return list;
}

static void print_json (const struct findings *f, bool ok)
{
    json_t *arguments = json_object ();

    for (int i = 0; i < NUM_KINDS; i++)
        json_object_set_new (arguments, kinds[i].key, kind_json (&f->args.others, kinds[i].kind));
    printf ("{\"ok\":%s,", ok ? "true" : "false");
    if (f->count == 0 && f->geometry.world > 0) {
        printf ("\"world_size\":%d,", f->geometry.world);
        plan_print_grids_json (&f->geometry);
        putchar (',');
    }
    printf ("\"arguments\":");
    json_dumpf (arguments, stdout, JSON_COMPACT);
    printf (",\"broken\":");
    json_dumpf (f->broken, stdout, JSON_COMPACT);
    printf ("}\n");
    json_decref (arguments);
}

static int check (struct findings *f, bool json, int argc, char **argv)
{
    struct mg_error err = { "" };
    bool refused;

    if (train_args_read_all (argc, argv, &f->args, &err) < 0)
        return plan_refuse ("check", &f->args, &err);
    refused = args_others_check (&f->args.others, f->args.strict, &err) < 0;
    f->broken = json ? json_array () : NULL;
    if (!refused) // the rules cannot be checked on a part of a model
        check_rules (f);
    if (json)
        print_json (f, !refused && f->count == 0);
    else
        print_text (f);
    json_decref (f->broken);
    fflush (stdout);
    if (refused)
        return plan_refuse ("check", &f->args, &err);
    return f->count > 0 ? PLAN_IMPOSSIBLE : 0;
}

static const char usage[] = "Usage: megatron plan check [OPTION...] -- ARGUMENT...\n\n";

int plan_check_arguments (int own, int argc, char **argv)
{
    struct findings f = { .args = { .files = NULL } };
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { own_options, &f.request },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 2, &common.help, NULL, NULL };
    int status;

    status = cmd_part_read (&syntax, own, argv);
    if (status != CMD_GO)
        return status;
    status = check (&f, common.json, argc - own, argv + own);
    train_args_clear (&f.args);
    return status;
}
