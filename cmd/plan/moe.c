/* moe.c - megatron plan moe: the bytes that layers of experts send within and between nodes
 *
 * The arguments of a run become its configuration; nn/moe_traffic.h counts.  This file reads, and
 * makes the load of the configuration.
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/moe.h"
#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/train/config.h"
#include "megatron/dtype.h"

enum { WORLD_MAX = 65536 };

struct moe_request {
    int world, ranks_per_node; /* 0: not given */
    double imbalance;
};

static int set_number (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    struct moe_request *r = target;

    if (strcmp (option->key, "imbalance") == 0)
        return parse_double (what, value, 1, GEOMETRY_SIZE_MAX, &r->imbalance, err);
    return parse_int (what, value, 1, WORLD_MAX,
                      strcmp (option->key, "world") == 0 ? &r->world : &r->ranks_per_node, err);
}

static const struct cmd_option moe_options[] = {
    { .name = "world-size", .arg = "N", .help = "ranks of the job", .key = "world",
      .set = set_number },
    { .name = "ranks-per-node", .alias = "ntasks-per-node", .arg = "N",
      .help = "ranks of each node", .key = "node", .set = set_number },
    { .name = "imbalance", .arg = "X",
      .help = "largest over mean load of an expert, default 1", .key = "imbalance",
      .set = set_number },
    { .name = NULL },
};

static const char moe_usage[] =
    "Usage: megatron plan moe MODEL-ARGUMENT... --world-size N --ranks-per-node N\n"
    "       [OPTION...]\n\n"
    "Print the bytes that the layers of experts of a model send within nodes and between\n"
    "nodes, for each dispatcher.\n"
    "A MODEL-ARGUMENT is one of megatron train's.\n\n";

/* --- the load --- */

static int64_t tokens_of_rank (const struct run_config *c)
{
    const struct geometry *g = &c->geometry;
    int64_t tokens = (int64_t)c->model.micro_batch_size * c->model.config.seq_length / g->cp;

    return g->tp > 1 && c->model.sequence_parallel ? tokens / g->tp : tokens;
}

static struct moe_load load_of (const struct run_config *c, double imbalance)
{
    const struct model_moe *moe = &c->model.config.moe;
    int row = moe->latent ? moe->latent : c->model.config.hidden_size;
    struct moe_load load = {
        .experts = moe->experts,
        .topk = moe->topk,
        .tokens = tokens_of_rank (c),
        .row_bytes = (int64_t)row * (int64_t)mg_dtype_size (c->model.dtype),
        .imbalance = imbalance,
        .pad = moe->pad_to_capacity,
    };

    if (moe->capacity_factor > 0)
        load.capacity = (int64_t)ceil (moe->capacity_factor * (double)load.tokens * load.topk
                                       / load.experts);
    return load;
}

/* Layers with experts of each pipeline rank.  A layer for multi-token prediction is made as the
 * last layer is.
 */
static void count_layers (const struct run_config *c, int64_t *layers)
{
    const struct model_config *model = &c->model.config;
    bool mtp_experts = moe_layer (&model->moe, model->num_layers - 1);
    const struct stages *s = c->stages;

    for (int p = 0; p < s->pp; p++) {
        layers[p] = 0;
        for (int v = 0; v < s->vpp; v++) {
            const struct stage *stage = stages_at (s, p, v);

            for (int i = 0; i < stage->num_layers; i++)
                layers[p] += moe_layer (&model->moe, stage->offset + i);
            layers[p] += mtp_experts ? stage->mtp_layers : 0;
        }
    }
}

/* Count the microbatches of an iteration: of the last one if batches grow. */
static int count_microbatches (const struct run_config *c, int64_t *n, struct mg_error *err)
{
    struct num_microbatches *batches
        = run_config_batches (c, geometry_dp (&c->geometry), err);
    struct batch_size size;
    int rc;

    if (!batches)
        return -1;
    num_microbatches_at (
        batches, num_microbatches_from (batches, num_microbatches_count (batches) - 1), &size);
    rc = num_microbatches_check (batches, &size, err);
    *n = size.num_microbatches;
    num_microbatches_destroy (batches);
    return rc;
}

/* Set the rows of a round and the number of rounds. */
static void count_rounds (struct plan_moe *m, const struct model_moe *moe)
{
    int64_t most = m->traffic.most_rows;

    if (moe->capacity_factor > 0)
        return;
    m->factor = moe->rank_capacity_factor > 0 ? moe->rank_capacity_factor : 2;
    m->bound = moe_load_bound (&m->load, m->factor, grid_size (m->grid, true, MG_AXIS_TP));
    m->rounds = m->bound > 0 && most > 0 ? (most + m->bound - 1) / m->bound : 1;
}

static int count_traffic (struct plan_moe *m, const struct run_config *c, struct mg_error *err)
{
    int64_t *layers = calloc ((size_t)c->stages->pp, sizeof (*layers)), n;
    int rc = -1;

    if (!layers)
        return mg_error_set (err, ENOMEM, "out of memory");
    if (count_microbatches (c, &n, err) == 0) {
        count_layers (c, layers);
        m->num_microbatches = n;
        for (int p = 0; p < c->stages->pp; p++) {
            m->num_layers += layers[p];
            layers[p] *= n;
        }
        rc = moe_traffic_count (&m->load, m->grid, m->ranks_per_node, layers, &m->traffic, err);
    }
    free (layers);
    return rc;
}

/* --- the model --- */

static int read_model (struct run_config *c, int world, struct mg_error *err)
{
    if (run_config_geometry (c, err) < 0)
        return -1;
    c->geometry.world = world;
    if (run_config_tokenizer (c, err) < 0 || run_config_check_rules (c, err) < 0
        || run_config_model (c, err) < 0 || run_config_stages (c, err) < 0
        || geometry_validate (&c->geometry, err) < 0 || run_config_check_model (c, err) < 0)
        return -1;
    if (!c->model.config.moe.experts)
        return mg_error_set (err, EINVAL, "the model has no experts: --num-experts is missing");
    return 0;
}

static int show (void *request, bool json, const struct train_args *args, struct mg_error *err)
{
    const struct moe_request *r = request;
    struct plan_moe m = { .ranks_per_node = r->ranks_per_node };
    struct grid *grid = NULL;
    struct run_config c;
    int rc = -1;

    run_config_init (&c, args);
    if (read_model (&c, r->world, err) == 0 && (grid = grid_create (&c.geometry, err))) {
        m.grid = grid;
        m.load = load_of (&c, r->imbalance);
        m.dispatch = c.model.config.moe.dispatch;
        rc = count_traffic (&m, &c, err);
    }
    if (rc == 0) {
        count_rounds (&m, &c.model.config.moe);
        plan_moe_advise (&m);
        if (json)
            plan_moe_print_json (&m);
        else
            plan_moe_print (&m);
    }
    grid_destroy (grid);
    run_config_clear (&c);
    return rc;
}

/* --- the command line --- */

static int check (const void *request, const struct train_args *args, struct mg_error *err)
{
    const char *missing = plan_missing_argument (args);
    const struct moe_request *r = request;

    if (!r->world)
        return mg_error_set (err, EINVAL, "--world-size is missing");
    if (!r->ranks_per_node)
        return mg_error_set (err, EINVAL, "--ranks-per-node is missing");
    return missing ? mg_error_set (err, EINVAL, "%s of the model is missing", missing) : 0;
}

int plan_moe (int argc, char **argv)
{
    static const struct plan_model_part part = { moe_options, moe_usage, check, show };
    struct moe_request r = { .imbalance = 1 };

    return plan_run_model (&part, &r, argc, argv);
}
