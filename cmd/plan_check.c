/* plan_check.c - megatron plan check: every rule that the parallel sizes break */

#include <stdio.h>

#include <jansson.h>

#include "cmd/plan.h"

static void print_help (const struct cmd_option_table *tables, int ntables)
{
    printf ("Usage: megatron plan check [OPTION...]\n\n"
            "Check the parallel sizes: print both grids and succeed, or print every\n"
            "broken rule, one a line, on standard error and fail. Without --world-size,\n"
            "the rules that need it are left out.\n\n");
    cmd_options_help (tables, ntables);
}

static void print_rule (void *arg, const char *rule, const char *text)
{
    (void)arg, (void)rule;
    fprintf (stderr, "megatron: %s\n", text);
}

static void append_rule (void *arg, const char *rule, const char *text)
{
    json_array_append_new (arg, json_pack ("{s:s, s:s}", "rule", rule, "text", text));
}

static int check_text (const struct geometry *g)
{
    if (geometry_check (g, print_rule, NULL))
        return PLAN_IMPOSSIBLE;
    if (g->world)
        printf ("%d ranks: ", g->world);
    plan_print_grids (g);
    if (g->vpp > 1)
        printf (", vpp %d", g->vpp);
    printf (", order %s\n", g->order);
    return 0;
}

static int check_json (const struct geometry *g)
{
    json_t *broken = json_array ();
    int count = geometry_check (g, append_rule, broken);

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
    struct geometry g;
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { plan_geometry_options, &g },
        { plan_common_options, &common },
    };
    struct mg_error err;

    geometry_init (&g);
    if (cmd_options_read (tables, 2, argc, argv, &err) < 0)
        return plan_usage_error (argv[0], &err);
    if (common.help) {
        print_help (tables, 2);
        return 0;
    }
    return common.json ? check_json (&g) : check_text (&g);
}
