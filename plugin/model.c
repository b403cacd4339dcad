/* model.c - the kind of a program, and the rules that its arguments break */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "libcore/topo/margs.h"
#include "libcore/topo/order.h"
#include "libcore/topo/rule.h"
#include "plugin/model.h"

/* Subcommands of megatron that run no model. */
static const char *const no_model[] = { "data", "doctor", "plan", "--help", "--version" };

static bool is_megatron (const char *program)
{
    const char *slash = strrchr (program, '/');

    return strcmp (slash ? slash + 1 : program, "megatron") == 0;
}

static bool runs_no_model (const char *word)
{
    for (size_t i = 0; i < sizeof (no_model) / sizeof (no_model[0]); i++) {
        if (strcmp (word, no_model[i]) == 0)
            return true;
    }
    return false;
}

bool model_on_cpu (int argc, char *const *argv)
{
    static const char name[] = "--device";
    const char *device = "";

    for (int i = 1; i < argc; i++) {
        if (strcmp (argv[i], name) == 0 && i + 1 < argc)
            device = argv[i + 1];
        else if (strncmp (argv[i], name, strlen (name)) == 0 && argv[i][strlen (name)] == '=')
            device = argv[i] + strlen (name) + 1;
    }
    return strcmp (device, "cpu") == 0 || strncmp (device, "cpu:", 4) == 0;
}

enum model_verdict model_check (const struct geometry *g, int argc, char *const *argv,
                                struct mg_error *text)
{
    const struct margs_job job = { .fixed = ~0u }; // the plugin gives all sizes to its tasks
    struct geometry merged = *g;
    struct mg_error first = { .text = "" };
    char more[40] = "";
    struct margs args;
    int count;

    if (argc < 1 || (is_megatron (argv[0]) && argc > 1 && runs_no_model (argv[1])))
        return MODEL_FITS;
    margs_init (&args);
    args.own = is_megatron (argv[0]);
    margs_scan (&args, argc - 1, argv + 1);
    count = margs_merge (&args, &merged, &job, rule_keep_first, &first);
    count += geometry_check (&merged, rule_keep_first, &first);
    if (count == 0)
        count = margs_check (&args, &merged, rule_keep_first, &first);
    if (count == 0)
        return margs_note_etp (&args, &merged, text) ? MODEL_NOTES : MODEL_FITS;
    if (count > 1)
        snprintf (more, sizeof (more), " (and %d more)", count - 1);
    mg_error_set (text, EINVAL, "%.360s%s", first.text, more);
    // a layout comes from the user and may hold anything
    order_copy_printable (text->text, text->text, sizeof (text->text));
    return is_megatron (argv[0]) || args.parallel ? MODEL_FAILS : MODEL_WARNS;
}
