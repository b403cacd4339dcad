/* check.c - megatron plan check: every rule that sizes and model arguments break
 *
 * Sizes are checked first.  If they keep their rules, the model's arguments are checked on them
 * (topo/geometry.h, topo/margs.h).  All broken rules are reported, not only the first.
 */

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "cmd/plan/plan.h"
#include "libcore/topo/margs.h"

/* The sizes and arguments on the command line. */
struct checked {
    struct geometry geometry;
    struct margs args;
};

static int set_marg (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    enum marg id = 0;

    while (strcmp (margs_table[id].name, option->key) != 0)
        id++;
    return margs_set (target, id, what, value, err);
}

/* True if the argument is a second name of an option that every part of plan has. */
static bool is_geometry_option (const char *name)
{
    for (const struct cmd_option *o = plan_geometry_options; o->name; o++) {
        if (strcmp (o->name, name) == 0 || (o->alias && strcmp (o->alias, name) == 0))
            return true;
    }
    return false;
}

/* The rows of the model's arguments as options, closed by one without a name. */
static void list_margs (struct cmd_option rows[MARG_NUM + 1])
{
    int n = 0;

    for (int id = 0; id < MARG_NUM; id++) {
        const struct arg_info *info = &margs_table[id];
        const char *arg = info->type == ARG_INT ? "N" : "TEXT";

        if (is_geometry_option (info->name))
            continue;
        rows[n++] = (struct cmd_option){
            .name = info->name,
            .arg = info->type == ARG_FLAG ? NULL : arg,
            .help = info->help,
            .key = info->name,
            .set = set_marg,
        };
    }
    rows[n] = (struct cmd_option){ 0 };
}

/* Check the rules of the sizes and, if these hold, the rules of the model. */
static int check_rules (const struct checked *plan, geometry_report_f report, void *arg)
{
    int count = geometry_check (&plan->geometry, report, arg);

    return count ? count : margs_check (&plan->args, &plan->geometry, report, arg);
}

static const char usage[] =
    "Usage: megatron plan check [OPTION...]\n"
    "       megatron plan check [--world-size N] [--json] -- ARGUMENT...\n\n"
    "Check the parallel sizes and what else is given of a model: print both grids\n"
    "and succeed, or print every broken rule, one a line, on standard error and\n"
    "fail. Rules that need what is not given are left out.\n"
    "With --, check the arguments of a run as megatron train would take them, and\n"
    "list by kind those of Megatron-LM that are not there.\n\n";

static void print_rule (void *arg, const char *rule, const char *text)
{
    (void)arg, (void)rule;
    fprintf (stderr, "megatron: %s\n", text);
}

static void append_rule (void *arg, const char *rule, const char *text)
{
    json_array_append_new (arg, json_pack ("{s:s, s:s}", "rule", rule, "text", text));
}

static int check_text (const struct checked *plan)
{
    const struct geometry *g = &plan->geometry;
    struct mg_error note;

    if (check_rules (plan, print_rule, NULL))
        return PLAN_IMPOSSIBLE;
    if (g->world)
        printf ("%d ranks: ", g->world);
    plan_print_grids (g);
    if (g->vpp > 1)
        printf (", vpp %d", g->vpp);
    printf (", order %s\n", g->order);
    if (margs_note_etp (&plan->args, g, &note))
        printf ("note: %s; --etp 1 keeps each expert whole\n", note.text);
    return 0;
}

static int check_json (const struct checked *plan)
{
    const struct geometry *g = &plan->geometry;
    json_t *broken = json_array ();
    int count = check_rules (plan, append_rule, broken);

    printf ("{\"ok\":%s,", count ? "false" : "true");
    if (g->world)
        printf ("\"world_size\":%d,", g->world);
    plan_print_grids_json (g);
    printf (",\"broken\":");
    json_dumpf (broken, stdout, JSON_COMPACT);
    printf ("}\n");
    json_decref (broken);
    return count ? PLAN_IMPOSSIBLE : 0;
}

int plan_check (int argc, char **argv)
{
    struct checked plan;
    struct plan_common common = { 0 };
    struct cmd_option model_options[MARG_NUM + 1];
    const struct cmd_option_table tables[] = {
        { plan_geometry_options, &plan.geometry },
        { model_options, &plan.args },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 3, &common.help, NULL, NULL };
    int own = 1, status;

    while (own < argc && strcmp (argv[own], "--") != 0)
        own++;
    if (own < argc)
        return plan_check_arguments (own, argc, argv);
    geometry_init (&plan.geometry);
    margs_init (&plan.args);
    plan.args.own = true;
    list_margs (model_options);
    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    return common.json ? check_json (&plan) : check_text (&plan);
}
