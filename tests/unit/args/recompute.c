/* What the arguments ask to compute again: which arguments Megatron-LM accepts, and which layers it
 * runs again, from the reference data.
 */

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/train/config.h"
#include "tests/tap/tap.h"

/* Arguments as a configuration of Megatron-LM has them. */
static struct train_args args_of (const json_t *config, char *words[8])
{
    const json_t *value, *modules = json_object_get (config, "recompute_modules");
    struct train_args args;
    size_t n = json_array_size (modules);

    train_args_init (&args);
    args.recompute_granularity = json_string_value (json_object_get (config,
                                                                     "recompute_granularity"));
    args.recompute_method = json_string_value (json_object_get (config, "recompute_method"));
    args.split_activations = json_is_true (json_object_get (config,
                                                            "distribute_saved_activations"));
    if ((value = json_object_get (config, "recompute_num_layers")))
        args.recompute_layers = (int)json_integer_value (value);
    args.moe.experts = (int)json_integer_value (json_object_get (config, "num_moe_experts"));
    args.moe.recompute = json_is_true (json_object_get (config, "moe_layer_recompute"));
    for (size_t i = 0; i < n && i < 8; i++)
        words[i] = (char *)json_string_value (json_array_get (modules, i));
    if (modules)
        args.recompute_modules = (struct arg_list){ n > 0 ? words[0] : "", words + 1, (int)n };
    return args;
}

/* Does the configuration ask for what layers here do not have, and no argument is there for? */
static bool is_foreign (const json_t *row)
{
    return json_is_true (json_object_get (row, "mla"));
}

/* Differences that the comments give reasons for. */
static bool is_other (const json_t *config)
{
    const char *method = json_string_value (json_object_get (config, "recompute_method"));
    const char *granularity = json_string_value (json_object_get (config,
                                                                  "recompute_granularity"));

    // Megatron-LM's check of arguments refuses it, behind this table's code
    if (method && granularity && strcmp (granularity, "selective") == 0)
        return true;
    // a rule of the geometry, topo/margs.h
    return json_is_true (json_object_get (config, "sequence_parallel"));
}

static unsigned modules_of (const json_t *list)
{
    unsigned modules = 0;

    for (size_t i = 0; i < json_array_size (list); i++) {
        for (int k = 0; k < RECOMPUTE_NUM_MODULES; k++) {
            if (strcmp (json_string_value (json_array_get (list, i)),
                        recompute_module_names[k]) == 0)
                modules |= RECOMPUTE_BIT (k);
        }
    }
    return modules;
}

static void test_rules (const json_t *table)
{
    int checked = 0, foreign = 0;

    for (size_t i = 0; i < json_array_size (table); i++) {
        const json_t *row = json_array_get (table, i);
        const json_t *config = json_object_get (row, "config");
        bool accepted = json_is_true (json_object_get (row, "ok"));
        char *words[8], *text;
        struct train_args args = args_of (config, words);
        struct recompute r;
        struct mg_error err = { "" };
        int rc;

        if (is_foreign (row) || is_other (config)) {
            foreign++;
            continue;
        }
        text = json_dumps (config, JSON_SORT_KEYS);
        rc = train_recompute (&args, &r, &err);
        ok ((rc == 0) == accepted, "%s: %s", text, rc == 0 ? "accepted" : err.text);
        if (rc == 0 && r.granularity == RECOMPUTE_SELECTIVE)
            is_int (r.modules, modules_of (json_object_get (row, "recompute_modules")),
                    "its modules");
        free (text);
        checked++;
    }
    ok (checked >= 20, "%d configurations, %d are not for these layers", checked, foreign);
}

/* The units of a stage of 'n' layers as JSON lists of layers, and the layers in none. */
static bool same_units (const struct recompute *r, const json_t *stage)
{
    json_t *units = json_array (), *without = json_array ();
    int n = (int)json_integer_value (json_object_get (stage, "layers"));
    bool same;

    for (int i = 0; i < n; i++) {
        struct recompute_unit unit = recompute_unit_of (r, n, i);
        json_t *list = json_array ();

        if (unit.size == 0)
            json_array_append_new (without, json_integer (i));
        else if (i == unit.first) {
            for (int k = 0; k < unit.size; k++)
                json_array_append_new (list, json_integer (i + k));
            json_array_append (units, list);
        }
        json_decref (list);
    }
    same = json_equal (units, json_object_get (stage, "checkpointed_chunks"))
           && json_equal (without, json_object_get (stage, "run_without"));
    json_decref (units);
    json_decref (without);
    return same;
}

static void test_units (const json_t *cases)
{
    for (size_t i = 0; i < json_array_size (cases); i++) {
        const json_t *row = json_array_get (cases, i);
        const json_t *stages = json_object_get (row, "stages");
        const char *method = json_string_value (json_object_get (row, "method"));
        struct recompute r = {
            .granularity = RECOMPUTE_FULL,
            .method = strcmp (method, "block") == 0 ? RECOMPUTE_BLOCK : RECOMPUTE_UNIFORM,
            .num_layers = (int)json_integer_value (json_object_get (row,
                                                                    "recompute_num_layers")),
        };
        bool same = json_array_size (stages) > 0;

        for (size_t s = 0; s < json_array_size (stages); s++)
            same &= same_units (&r, json_array_get (stages, s));
        ok (same, "units of case %zu: %s %d", i, method, r.num_layers);
    }
}

int main (void)
{
    char path[4096];
    json_error_t error;
    json_t *root;

    if (!shared_file (path, sizeof (path), "golden/13_recompute_cp.json"))
        skip_all ("no reference data: %s", path);
    if (!(root = json_load_file (path, 0, &error)))
        bail_out ("%s: %s", path, error.text);
    test_rules (json_object_get (root, "config_table"));
    test_units (json_object_get (root, "full_layers"));
    json_decref (root);
    return done_testing ();
}
