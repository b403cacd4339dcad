/* plan.c - megatron plan: the table of its parts, and what they have in common
 *
 * Finds the part by its name and runs it.  The options that parts share, and the lines about
 * grids that several parts print, are here.
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/plan/plan.h"
#include "libcore/train/config.h"

/* In the order of --help, closed by a row without a name. */
static const struct cmd_part parts[] = {
    { "buffers", "where parameters and gradients lie, and who owns them", plan_buffers },
    { "check", "every rule that the parallel sizes break", plan_check },
    { "graphs", "what device graphs of passes a run captures", plan_graphs },
    { "groups", "who shares a group with whom", plan_groups },
    { "layers", "which layers every pipeline stage holds", plan_layers },
    { "loss-scale", "loss scale of float16 through overflows", plan_loss_scale },
    { "lr", "learning rate and weight decay over the run", plan_lr },
    { "memory", "what every rank of a run allocates", plan_memory },
    { "moe", "what experts send within and between nodes", plan_moe },
    { "schedule", "the order of forward and backward passes", plan_schedule },
    { NULL, NULL, NULL },
};

static int set_size (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    return geometry_set (target, option->key, what, value, err);
}

/* Megatron-LM's one switch for another order. */
static int set_mapping (void *target, const struct cmd_option *option, const char *what,
                        const char *value, struct mg_error *err)
{
    (void)value;
    return geometry_set (target, option->key, what, "tp-cp-ep-pp-dp", err);
}

const struct cmd_option plan_geometry_options[] = {
    { .name = "world-size", .arg = "N", .help = "number of ranks (tasks)", .key = "world",
      .set = set_size },
    { .name = "tp", .alias = "tensor-model-parallel-size", .arg = "N",
      .help = "tensor-parallel size, default 1", .key = "tp", .set = set_size },
    { .name = "cp", .alias = "context-parallel-size", .arg = "N",
      .help = "context-parallel size, default 1", .key = "cp", .set = set_size },
    { .name = "pp", .alias = "pipeline-model-parallel-size", .arg = "N",
      .help = "pipeline-parallel size, default 1", .key = "pp", .set = set_size },
    { .name = "ep", .alias = "expert-model-parallel-size", .arg = "N",
      .help = "expert-parallel size, default 1", .key = "ep", .set = set_size },
    { .name = "etp", .alias = "expert-tensor-parallel-size", .arg = "N",
      .help = "tensor-parallel size of experts, default that of --tp", .key = "etp",
      .set = set_size },
    { .name = "vpp", .alias = "num-virtual-stages-per-pipeline-rank", .arg = "N",
      .help = "virtual stages on each pipeline rank, default none", .key = "vpp",
      .set = set_size },
    { .name = "order", .arg = "ORDER",
      .help = "axes, fastest first, default tp-cp-ep-dp-pp", .key = "order",
      .set = set_size },
    { .name = "use-tp-pp-dp-mapping", .help = "the same as --order tp-cp-ep-pp-dp",
      .key = "order", .set = set_mapping },
    { .name = NULL },
};

const struct cmd_option plan_common_options[] = {
    { .name = "json", .help = "print JSON", .set = cmd_set_flag,
      .at = offsetof (struct plan_common, json) },
    { .name = "help", .help = "print this help", .set = cmd_set_flag,
      .at = offsetof (struct plan_common, help) },
    { .name = NULL },
};

static int set_train_argument (void *target, const struct cmd_option *option,
                               const char *what, const char *value, struct mg_error *err)
{
    (void)what;
    return train_arg_set (train_arg_find (option->name), value, target, err);
}

struct cmd_option plan_train_option (const char *name, const char *help)
{
    const struct train_arg *row = train_arg_find (name);

    return (struct cmd_option){
        .name = row->info->name,
        .arg = row->info->meta,
        .help = help ? help : row->info->help,
        .set = set_train_argument,
    };
}

int plan_list_word (const char *what, const char *text, size_t n, char word[PLAN_WORD],
                    struct mg_error *err)
{
    if (n >= PLAN_WORD)
        return mg_error_set (err, EINVAL, "%s: \"%.*s...\" is too long for a number", what,
                             PLAN_WORD, text);
    memcpy (word, text, n);
    word[n] = '\0';
    return 0;
}

void plan_shortest (double value, char text[32])
{
    if (isinf (value)) { // a float32 that grew too far; JSON has none
        snprintf (text, 32, "\"inf\"");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf (text, 32, "%.*g", digits, value);
        if (strtod (text, NULL) == value)
            break;
    }
}

int plan_usage_error (const char *part, const struct mg_error *err)
{
    return cmd_part_usage ("plan", part, err->text);
}

/* The axes of a grid in the order in which people name them. */
static const struct grid_axis {
    bool expert;
    enum mg_axis axis;
    const char *name;
} grid_axes[] = {
    { false, MG_AXIS_TP, "tp" },  { false, MG_AXIS_CP, "cp" },
    { false, MG_AXIS_DP, "dp" },  { false, MG_AXIS_PP, "pp" },
    { true, MG_AXIS_TP, "etp" },  { true, MG_AXIS_EP, "ep" },
    { true, MG_AXIS_DP, "edp" },  { true, MG_AXIS_PP, "pp" },
};
enum { NUM_GRID_AXES = sizeof (grid_axes) / sizeof (grid_axes[0]) };

void plan_print_grids (const struct geometry *g)
{
    for (int i = 0; i < NUM_GRID_AXES; i++) {
        const struct grid_axis *a = &grid_axes[i];
        int size = geometry_axis_size (g, a->expert, a->axis);

        if (i > 0 && a->expert == grid_axes[i - 1].expert)
            printf (" x ");
        else
            printf ("%s", a->expert ? ", expert " : "dense ");
        printf ("%s ", a->name);
        if (size)
            printf ("%d", size);
        else
            putchar ('?');
    }
}

void plan_print_grids_json (const struct geometry *g)
{
    for (int i = 0; i < NUM_GRID_AXES; i++) {
        const struct grid_axis *a = &grid_axes[i];
        int size = geometry_axis_size (g, a->expert, a->axis);

        if (i > 0 && a->expert == grid_axes[i - 1].expert)
            putchar (',');
        else
            printf ("%s", a->expert ? "},\"expert\":{" : "\"dense\":{");
        printf ("\"%s\":", a->name);
        if (size)
            printf ("%d", size);
        else
            printf ("null");
    }
    putchar ('}');
}

/* Part the words into this command's own and the model's, argv[0] stays with both. */
void plan_part_words (const struct cmd_option *options, int argc, char **argv, int *num_own,
                      char **own, int *num_rest, char **rest)
{
    const struct cmd_option_table tables[] = { { options, NULL },
                                               { plan_common_options, NULL } };
    bool mine = false;
    void *target;

    own[(*num_own)++] = rest[(*num_rest)++] = argv[0];
    for (int i = 1; i < argc; i++) {
        if (strncmp (argv[i], "--", 2) == 0)
            mine = cmd_options_find (tables, 2, argv[i], &target) != NULL;
        if (mine)
            own[(*num_own)++] = argv[i];
        else
            rest[(*num_rest)++] = argv[i];
    }
}

/* Read the model's arguments, and show the part. */
static int run_model (const struct plan_model_part *part, void *request, bool json, int argc,
                      char **argv)
{
    struct train_args args = { .files = NULL };
    struct mg_error err = { .text = "" };
    int status = 0;

    if (train_args_read (argc, argv, &args, &err) < 0 || part->check (request, &args, &err) < 0)
        status = plan_refuse (argv[0], &args, &err);
    else if (part->show (request, json, &args, &err) < 0) {
        fprintf (stderr, "megatron: %s\n", err.text);
        status = PLAN_IMPOSSIBLE;
    }
    train_args_clear (&args);
    return status;
}

int plan_run_model (const struct plan_model_part *part, void *request, int argc, char **argv)
{
    char **words = calloc (2 * (size_t)argc + 2, sizeof (*words)), **rest = words + argc + 1;
    int num_own = 0, num_rest = 0, status = 0;
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { part->options, request },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", part->usage, tables, 2, &common.help, NULL, NULL };

    if (!words) {
        fprintf (stderr, "megatron: out of memory\n");
        return PLAN_IMPOSSIBLE;
    }
    plan_part_words (part->options, argc, argv, &num_own, words, &num_rest, rest);
    status = cmd_part_read (&syntax, num_own, words);
    if (status == CMD_GO)
        status = run_model (part, request, common.json, num_rest, rest);
    free (words);
    return status;
}

int plan_refuse (const char *part, const struct train_args *args, const struct mg_error *err)
{
    return cmd_part_usage ("plan", part, args->others.refusal ? args->others.refusal : err->text);
}

/* Returns the first missing argument of those that every model needs; NULL: none is missing. */
const char *plan_missing_argument (const struct train_args *args)
{
    if (args->num_layers == TRAIN_UNSET)
        return "--num-layers";
    if (args->hidden_size == TRAIN_UNSET)
        return "--hidden-size";
    if (args->num_heads == TRAIN_UNSET)
        return "--num-attention-heads";
    if (args->seq_length == TRAIN_UNSET)
        return "--seq-length";
    if (args->vocab_size == TRAIN_UNSET && args->padded_vocab_size == TRAIN_UNSET
        && !args->tokenizer)
        return "--vocab-size";
    return NULL;
}

int cmd_plan (int argc, char **argv)
{
    static const char purpose[] = "Show what a job would do, without running it.";

    return cmd_part_run ("plan", purpose, parts, argc, argv);
}
