/* layer_graph.c - capture, comparison, replay */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/graph.h"
#include "libcore/nn/layer_graph.h"

/* A tensor of the specification. */
struct seen_tensor {
    int index;
    int phase; /* the first that uses it */
    int run;   /* so many tensors from here on have indices that follow each other */
};

/* A parameter, and what it was. */
struct seen_param {
    struct param *param;
    int phase;
    struct param_seen was;
};

struct layer_graph {
    struct device_graph *graph;
    const struct layer *layer;
    bool backward;
    bool training;
    int num_tensors, num_params;
    struct seen_tensor tensor[LAYER_MAX_TENSORS]; /* in ascending order of indices ... */
    struct tensor was[LAYER_MAX_TENSORS];         /* ... and what each was */
    struct seen_param param[LAYER_MAX_PARAMS];
};

/* --- what the calls are made of --- */

static void record_param (struct layer_graph *g, struct param *p, int phase)
{
    for (int i = 0; i < g->num_params; i++) {
        if (g->param[i].param == p)
            return;
    }
    g->param[g->num_params++] = (struct seen_param){ p, phase, param_record (p) };
}

/* The parameters and tensors of a phase.  first[index] is the first phase that uses a tensor, -1:
 * none does.
 */
static void record_phase (struct layer_graph *g, const struct pass *pass, int phase, int *first)
{
    const struct phase *p = &pass->layer->spec->phase[phase];

    for (int i = 0; i < LAYER_MAX_OPERANDS; i++) {
        if (!layer_access (p, i, false) && !layer_access (p, i, true))
            continue;
        if (p->op->operand[i].param)
            record_param (g, pass_param (pass, p, i), phase);
        else if (first[p->operand[i]] < 0)
            first[p->operand[i]] = phase;
    }
}

/* A graph of backward halves also has the forward halves that run again before them. */
static void record_phases (struct layer_graph *g, const struct pass *pass, int *first)
{
    const struct layer_spec *spec = pass->layer->spec;
    uint64_t again = 0;

    for (int i = spec->graph_begin; i < spec->graph_end; i++) {
        record_phase (g, pass, i, first);
        again |= g->backward ? spec->again[i] : 0;
    }
    for (int i = 0; i < spec->num_phases; i++) {
        if (again & UINT64_C (1) << i)
            record_phase (g, pass, i, first);
    }
}

static void see (struct layer_graph *g, const struct pass *pass)
{
    int first[LAYER_MAX_TENSORS + 1];

    for (int i = 0; i <= LAYER_MAX_TENSORS; i++)
        first[i] = -1;
    record_phases (g, pass, first);
    for (int i = 1; i <= pass->layer->spec->num_tensors; i++) {
        if (first[i] < 0)
            continue;
        g->tensor[g->num_tensors] = (struct seen_tensor){ i, first[i], 1 };
        memcpy (&g->was[g->num_tensors++], &pass->tensor[i], sizeof (*g->was));
    }
    for (int i = g->num_tensors - 1; i-- > 0;) {
        if (g->tensor[i].index + 1 == g->tensor[i + 1].index)
            g->tensor[i].run += g->tensor[i + 1].run;
    }
}

/* --- capture --- */

static int capture (struct layer_graph *g, const struct pass *pass, struct mg_error *err)
{
    const struct layer_spec *spec = pass->layer->spec;
    int rc;

    if (nn_await (pass->nn, NN_ALL_SIDES, err) < 0 || graph_begin (pass->nn->compute, err) < 0)
        return -1;
    rc = g->backward ? layer_bwd_phases (pass, spec->graph_begin, spec->graph_end, err)
                     : layer_fwd_phases (pass, spec->graph_begin, spec->graph_end, err);
    g->graph = graph_finish (rc, err);
    if (!g->graph)
        nn_forget_sides (pass->nn);
    return g->graph ? 0 : -1;
}

struct layer_graph *layer_graph_create (const struct pass *pass, bool backward,
                                        struct mg_error *err)
{
    struct layer_graph *g = calloc (1, sizeof (*g));

    if (!g) {
        mg_error_set (err, ENOMEM, "graph of a layer: out of memory");
        return NULL;
    }
    g->layer = pass->layer;
    g->backward = backward;
    g->training = pass->training;
    if (capture (g, pass, err) < 0) {
        layer_graph_destroy (g);
        return NULL;
    }
    see (g, pass);
    return g;
}

void layer_graph_destroy (struct layer_graph *g)
{
    if (g) {
        int saved_errno = errno;
        graph_destroy (g->graph);
        free (g);
        errno = saved_errno;
    }
}

size_t layer_graph_nodes (const struct layer_graph *g)
{
    return graph_nodes (g->graph);
}

size_t layer_graph_bytes (const struct layer_graph *g)
{
    return sizeof (*g) + graph_bytes (g->graph);
}

size_t layer_graph_device_bytes (const struct layer_graph *g)
{
    return graph_device_bytes (g->graph);
}

/* --- replay --- */

static int changed (const struct layer_graph *g, int phase, const char *name, const char *what,
                    struct mg_error *err)
{
    char text[LAYER_TEXT_MAX];

    layer_text (g->layer, text);
    return mg_error_set (err, EPERM, "%s: %s: %s: %s is not as it was when the graph was captured",
                         text, g->layer->spec->phase[phase].name, name, what);
}

static int compare_tensor (const struct layer_graph *g, int i, const struct pass *pass,
                           struct mg_error *err)
{
    const struct seen_tensor *seen = &g->tensor[i];
    const struct tensor *t = &pass->tensor[seen->index], *was = &g->was[i];
    const char *name = g->layer->spec->tensor[seen->index].name;

    if (t->data != was->data)
        return changed (g, seen->phase, name, "its address", err);
    if (t->shape[0] != was->shape[0] || t->live != was->live)
        return changed (g, seen->phase, name, "its number of rows", err);
    return 0;
}

static int compare (const struct layer_graph *g, const struct pass *pass, struct mg_error *err)
{
    for (int i = 0; i < g->num_tensors; i++) {
        if (compare_tensor (g, i, pass, err) < 0)
            return -1;
    }
    for (int i = 0; i < g->num_params; i++) {
        const struct seen_param *seen = &g->param[i];
        const char *what = param_difference (seen->param, &seen->was);

        if (what)
            return changed (g, seen->phase, seen->param->name, what, err);
    }
    if (pass->layer != g->layer || pass->training != g->training)
        return changed (g, g->layer->spec->graph_begin, "the pass", "its mode", err);
    return 0;
}

/* True if nothing has changed.  The comparison of whole runs of tensors is fast, and compare()
 * finds what differs.
 */
static bool is_same (const struct layer_graph *g, const struct pass *pass)
{
    uintptr_t differ = 0;

    if (pass->layer != g->layer || pass->training != g->training)
        return false;
    for (int i = 0; i < g->num_tensors; i += g->tensor[i].run) {
        if (memcmp (&pass->tensor[g->tensor[i].index], &g->was[i],
                    (size_t)g->tensor[i].run * sizeof (*g->was)) != 0)
            return false;
    }
    for (int i = 0; i < g->num_params; i++)
        differ |= param_differs (g->param[i].param, &g->param[i].was);
    return differ == 0;
}

static int replay (const struct layer_graph *g, struct mg_error *err)
{
    char text[LAYER_TEXT_MAX];

    if (graph_replay (g->graph, err) == 0)
        return 0;
    layer_text (g->layer, text);
    return mg_error_prefix (err, "%s: replay of its %s graph", text,
                            g->backward ? "backward" : "forward");
}

int layer_graph_replay (const struct layer_graph *g, const struct pass *pass,
                        struct mg_error *err)
{
    int rc;

    if ((!is_same (g, pass) && compare (g, pass, err) < 0)
        || nn_await (pass->nn, NN_ALL_SIDES, err) < 0)
        return -1;
    if (pass->replay)
        pass->replay (pass->replay_arg, g->layer->number, layer_graph_nodes (g), true);
    rc = replay (g, err);
    if (pass->replay)
        pass->replay (pass->replay_arg, g->layer->number, layer_graph_nodes (g), false);
    return rc;
}

/* --- memory --- */

/* The uses of a tensor by graphs and by eager phases, as bits. */
enum { GRAPH_READS = 1, GRAPH_WRITES = 2, EAGER_READS = 4, READ_BEFORE_WRITTEN = 8 };

static unsigned users_of (const struct layer_spec *spec, int t)
{
    unsigned users = 0;

    for (int p = 0; p < spec->num_phases; p++) {
        const struct phase *phase = &spec->phase[p];
        bool captured = p >= spec->graph_begin && p < spec->graph_end;

        for (int i = 0; i < LAYER_MAX_OPERANDS; i++) {
            unsigned fwd = layer_access (phase, i, false), bwd = layer_access (phase, i, true);

            if (phase->op->operand[i].param || phase->operand[i] != t)
                continue;
            if (!captured) {
                users |= (fwd | bwd) & OPERAND_READ ? EAGER_READS : 0u;
                continue;
            }
            if ((fwd & OPERAND_READ) && !(users & GRAPH_WRITES))
                users |= READ_BEFORE_WRITTEN;
            users |= (fwd | bwd) & OPERAND_READ ? GRAPH_READS : 0u;
            users |= fwd & OPERAND_WRITE ? GRAPH_WRITES : 0u;
        }
    }
    return users;
}

struct layer_graph_memory layer_graph_memory (const struct layer_spec *spec, const struct nn *nn)
{
    struct layer_graph_memory m = { 0 };

    for (int t = 1; t <= spec->num_tensors; t++) {
        const struct tensor tensor = layer_tensor_of (nn, spec, t);
        size_t bytes = (size_t)tensor_capacity (&tensor) * mg_dtype_size (tensor.dtype);
        enum layer_life life = spec->tensor[t].life;
        unsigned users = users_of (spec, t);

        if (spec->graph_begin == spec->graph_end || life == LIFE_GRADIENT || life == LIFE_BATCH
            || life == LIFE_LOSS)
            continue;
        if (life == LIFE_SHARED || life == LIFE_RECOMPUTED)
            m.shared += (users & GRAPH_WRITES) && (users & EAGER_READS) ? bytes : 0;
        else if (users & READ_BEFORE_WRITTEN)
            m.input += bytes;
        else if ((users & GRAPH_WRITES) && (users & EAGER_READS))
            m.handover += bytes;
        else if (users & GRAPH_WRITES)
            m.intermediate += bytes;
    }
    return m;
}
