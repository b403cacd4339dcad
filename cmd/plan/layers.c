/* layers.c - megatron plan layers: which layers every stage of the pipeline holds
 *
 * The options have Megatron-LM's names, and topo/stages.h deals the layers out and checks the
 * rules.  This file only reads and prints.
 */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/topo/stages.h"

static const struct field {
    const char *key;
    size_t offset;
    int min;
} fields[] = {
    { "num-layers", offsetof (struct stages_config, num_layers), 1 },
    { "pp", offsetof (struct stages_config, pp), 1 },
    { "vpp", offsetof (struct stages_config, vpp), 0 },
    { "per-vpp", offsetof (struct stages_config, layers_per_vpp), 1 },
    { "first", offsetof (struct stages_config, first), 1 },
    { "last", offsetof (struct stages_config, last), 1 },
    { "mtp", offsetof (struct stages_config, mtp_layers), 0 },
};

static int set_number (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    const struct field *f = fields;

    while (strcmp (f->key, option->key) != 0)
        f++;
    return parse_int (what, value, f->min, GEOMETRY_SIZE_MAX,
                      (int *)((char *)target + f->offset), err);
}

static int set_flag (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct stages_config *c = target;

    (void)what, (void)value, (void)err;
    if (strcmp (option->key, "embedding") == 0)
        c->with_embedding = true;
    else
        c->with_loss = true;
    return 0;
}

static const struct cmd_option layer_options[] = {
    { .name = "num-layers", .arg = "N", .help = "transformer layers of the model",
      .key = "num-layers", .set = set_number, .required = true },
    { .name = "pp", .alias = "pipeline-model-parallel-size", .arg = "N",
      .help = "pipeline-parallel size, default 1", .key = "pp", .set = set_number },
    { .name = "vpp", .alias = "num-virtual-stages-per-pipeline-rank", .arg = "N",
      .help = "virtual stages on each pipeline rank, default none", .key = "vpp",
      .set = set_number },
    { .name = "num-layers-per-virtual-pipeline-stage", .arg = "N",
      .help = "layers of a virtual stage, in place of their number", .key = "per-vpp",
      .set = set_number },
    { .name = "decoder-first-pipeline-num-layers", .arg = "N",
      .help = "layers of the first rank", .key = "first", .set = set_number },
    { .name = "decoder-last-pipeline-num-layers", .arg = "N",
      .help = "layers of the last rank", .key = "last", .set = set_number },
    { .name = "account-for-embedding-in-pipeline-split",
      .help = "the embedding takes the place of a layer", .key = "embedding",
      .set = set_flag },
    { .name = "account-for-loss-in-pipeline-split", .help = "so does the loss",
      .key = "loss", .set = set_flag },
    { .name = "pipeline-model-parallel-layout", .arg = "LAYOUT",
      .help = "stage by stage: Et*3|(tt|)*5L", .key = "layout", .set = cmd_set_text,
      .at = offsetof (struct stages_config, layout) },
    { .name = "mtp-num-layers", .arg = "N",
      .help = "layers for multi-token prediction, m of a layout", .key = "mtp",
      .set = set_number },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron plan layers --num-layers N [OPTION...]\n\n"
    "Print the layers that every virtual stage of every pipeline rank holds.\n\n";

static void print_json (const struct stages *s)
{
    putchar ('[');
    for (int r = 0; r < s->pp; r++) {
        for (int v = 0; v < s->vpp; v++) {
            const struct stage *stage = stages_at (s, r, v);

            printf ("%s{\"pp_rank\":%d,\"vp_stage\":%d,\"offset\":%d,\"num_layers\":%d}",
                    r || v ? "," : "", r, v, stage->offset, stage->num_layers);
        }
    }
    printf ("]\n");
}

/* Print what a stage has besides its layers. */
static void print_rest (const struct stages *s, int r, int v)
{
    const struct stage *stage = stages_at (s, r, v);

    if (r == 0 && v == 0)
        printf ("  embedding");
    if (stage->mtp_layers)
        printf ("  %d for multi-token prediction", stage->mtp_layers);
    if (r == s->pp - 1 && v == s->vpp - 1)
        printf ("  loss");
    putchar ('\n');
}

static void print_text (const struct stages *s)
{
    printf ("%7s  %8s  %6s  %6s\n", "pp_rank", "vp_stage", "offset", "layers");
    for (int r = 0; r < s->pp; r++) {
        for (int v = 0; v < s->vpp; v++) {
            const struct stage *stage = stages_at (s, r, v);

            printf ("%7d  %8d  %6d  %6d", r, v, stage->offset, stage->num_layers);
            print_rest (s, r, v);
        }
    }
}

/* Check the rules between options. */
static int check_config (void *config, struct mg_error *err)
{
    const struct stages_config *c = config;

    if (c->vpp && c->layers_per_vpp)
        return mg_error_set (err, EINVAL,
                             "--vpp and --num-layers-per-virtual-pipeline-stage "
                             "exclude each other");
    return 0;
}

int plan_layers (int argc, char **argv)
{
    struct stages_config config = { .pp = 1 };
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { layer_options, &config },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 2, &common.help, check_config,
                                       &config };
    struct stages *stages;
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (!(stages = stages_create (&config, &err))) {
        fprintf (stderr, "megatron: %s\n", err.text);
        return PLAN_IMPOSSIBLE;
    }
    if (common.json)
        print_json (stages);
    else
        print_text (stages);
    stages_destroy (stages);
    return 0;
}
