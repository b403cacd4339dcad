/* model_graphs.c - the graphs of a model's layers
 *
 * A capture records calls and runs none of them, so it may come at any time between two passes and
 * leaves nothing behind but the graph.
 */

#include <stdlib.h>

#include "libcore/model/model_private.h"
#include "libcore/nn/layer_graph.h"

enum { DIRECTIONS = 2 };

static bool has_graph (const struct layer *layer)
{
    return layer->spec->graph_end > layer->spec->graph_begin;
}

static struct layer_graph **place_of (const struct chunk *c, int slot, int l, bool backward)
{
    return &c->graph[((size_t)slot * (size_t)c->num_layers + (size_t)l) * DIRECTIONS + backward];
}

struct layer_graph *model_graph (const struct model *m, int chunk, int slot, int l, bool backward)
{
    const struct chunk *c = &m->chunk[chunk];

    return c->graph ? *place_of (c, slot, l, backward) : NULL;
}

const struct graphs *model_graphs_of (const struct model *m)
{
    return &m->spec.graphs;
}

static size_t num_graphs (const struct model *m, int chunk)
{
    const struct chunk *c = &m->chunk[chunk];

    return (size_t)m->pool[m->pool_of[chunk]].num_slots * (size_t)c->num_layers * DIRECTIONS;
}

void model_drop_graphs (struct model *m)
{
    for (int i = 0; i < m->num_chunks && m->chunk; i++) {
        struct chunk *c = &m->chunk[i];

        for (size_t k = 0; c->graph && k < num_graphs (m, i); k++)
            layer_graph_destroy (c->graph[k]);
        free (c->graph);
        c->graph = NULL;
    }
}

static struct layer_graph *capture (struct model *m, const struct model_mode *mode, int chunk,
                                    int slot, int l, bool backward, struct mg_error *err)
{
    struct pass pass = model_start (m, mode);

    model_shape_slot (m, pass.shape, chunk, slot);
    model_point (m, &pass, chunk, slot, l);
    pass.training = true;
    pass.check = NULL;
    return layer_graph_create (&pass, backward, err);
}

int model_capture (struct model *m, const struct model_mode *mode, int chunk, int slot,
                   bool backward, struct mg_error *err)
{
    struct chunk *c = &m->chunk[chunk];

    if (model_check_shape (m, model_start (m, mode).shape, err) < 0)
        goto error;
    if (!c->graph
        && !(c->graph = model_allocate (num_graphs (m, chunk), sizeof (*c->graph), err)))
        goto error;
    for (int i = 0; i < c->num_layers; i++) {
        int l = backward ? c->num_layers - 1 - i : i;
        struct layer_graph **graph = place_of (c, slot, l, backward);

        if (*graph || !has_graph (&c->layer[l]))
            continue;
        if (!(*graph = capture (m, mode, chunk, slot, l, backward, err)))
            goto error;
    }
    return 0;
error:
    model_drop_graphs (m);
    return -1;
}

/* --- how many there are, and how large --- */

/* Add the memory of a layer's graphs in 'slots' slots. */
static void add_memory (const struct model *m, const struct layer *layer, int slots,
                        struct model_graphs *sum, size_t *shared)
{
    const struct layer_graph_memory memory = layer_graph_memory (layer->spec, &m->nn);

    sum->layers++;
    sum->static_input_bytes += (size_t)slots * memory.input;
    sum->intermediate_bytes += (size_t)slots * memory.intermediate;
    sum->handover_bytes += (size_t)slots * memory.handover;
    *shared = memory.shared > *shared ? memory.shared : *shared;
}

static void add_graph (const struct layer_graph *graph, int times, struct model_graphs *sum)
{
    if (!graph)
        return;
    sum->graphs += times;
    sum->nodes += times * (int64_t)layer_graph_nodes (graph);
    sum->host_bytes += (size_t)times * layer_graph_bytes (graph);
    sum->device_bytes += (size_t)times * layer_graph_device_bytes (graph);
}

void model_count_graphs (const struct model *m, struct model_graphs *sum)
{
    size_t shared = 0;

    *sum = (struct model_graphs){ 0 };
    for (int i = 0; i < m->num_chunks; i++) {
        const struct chunk *c = &m->chunk[i];
        int slots = c->graph ? m->pool[m->pool_of[i]].num_slots : 0;

        for (int l = 0; l < c->num_layers; l++) {
            int used = 0;

            for (int slot = 0; slot < slots; slot++) {
                used += *place_of (c, slot, l, false) != NULL;
                add_graph (*place_of (c, slot, l, false), 1, sum);
                add_graph (*place_of (c, slot, l, true), 1, sum);
            }
            if (used > 0)
                add_memory (m, &c->layer[l], used, sum, &shared);
        }
    }
    sum->handover_bytes += shared;
}

/* The phases of a layer that are captured, as bits. */
static uint64_t captured_phases (const struct layer_spec *spec)
{
    uint64_t phases = 0;

    for (int i = spec->graph_begin; i < spec->graph_end; i++)
        phases |= UINT64_C (1) << i;
    return phases;
}

struct model_captured model_captured (const struct model *m, int chunk)
{
    const struct chunk *c = &m->chunk[chunk];
    struct model_captured captured = { 0 };
    double all = 0, part = 0;

    for (int l = 0; l < c->num_layers; l++) {
        const struct layer_spec *spec = c->layer[l].spec;

        captured.layers += has_graph (&c->layer[l]);
        all += layer_cost (spec, UINT64_MAX, &m->nn, &m->shape[MODEL_TRAINING]);
        part += layer_cost (spec, captured_phases (spec), &m->nn, &m->shape[MODEL_TRAINING]);
    }
    if (m->spec.graphs.impl == GRAPHS_ITERATION)
        captured.share = 1;
    else if (all > 0)
        captured.share = part / all;
    return captured;
}

static int plan_layer (struct model *m, int chunk, int l, int uses, struct model_graphs *sum,
                       struct mg_error *err)
{
    const struct model_mode mode = { .training = true };

    for (int backward = 0; backward < DIRECTIONS; backward++) {
        struct layer_graph *graph = capture (m, &mode, chunk, 0, l, backward, err);

        if (!graph)
            return -1;
        add_graph (graph, uses, sum);
        layer_graph_destroy (graph);
    }
    return 0;
}

int model_plan_graphs (struct model *m, const int *uses, struct model_graphs *sum,
                       struct mg_error *err)
{
    struct tape tape = { .num_collectives = 0 };
    size_t shared = 0;
    int rc;

    *sum = (struct model_graphs){ 0 };
    rc = model_begin_plan (m, &tape, err);
    for (int i = 0; i < m->num_chunks && rc == 0; i++) {
        for (int l = 0; l < m->chunk[i].num_layers && rc == 0; l++) {
            const struct layer *layer = &m->chunk[i].layer[l];

            if (!has_graph (layer) || uses[i] == 0)
                continue;
            add_memory (m, layer, uses[i], sum, &shared);
            rc = plan_layer (m, i, l, uses[i], sum, err);
        }
    }
    model_end_plan (m, &tape);
    tape_clear (&tape);
    sum->handover_bytes += shared;
    return rc;
}
