/* model_pass.c - a microbatch's way through a chunk, forward and backward */

#include <errno.h>
#include <string.h>

#include "libcore/device/graph.h"
#include "libcore/model/model_private.h"

static struct slot *slot_of (const struct model *m, int chunk, int slot)
{
    return &m->pool[m->pool_of[chunk]].slot[slot];
}

const struct nn_inputs *model_reads (const struct model *m, int chunk)
{
    return &m->chunk[chunk].in;
}

/* The shape of a pass. */
static const struct nn_shape *shape_of (const struct model *m, const struct nn_shape *shape)
{
    return shape ? shape : &m->shape[MODEL_TRAINING];
}

struct nn_inputs model_inputs (const struct model *m, const struct nn_shape *shape, int chunk,
                               int slot)
{
    struct nn_inputs in = nn_inputs_of (&slot_of (m, chunk, slot)->in, &m->chunk[chunk].in);

    nn_inputs_shape (&in, shape_of (m, shape));
    return in;
}

void *model_input (const struct model *m, int chunk, int slot)
{
    return slot_of (m, chunk, slot)->input.data;
}

void *model_output (const struct model *m, int chunk, int slot)
{
    const struct chunk *c = &m->chunk[chunk];
    const struct slot *s = slot_of (m, chunk, slot);

    if (c->output < 0)
        return s->input.data;
    return s->tensor[c->tensor[c->output]
                     + (size_t)layer_find (c->layer[c->output].spec, LIFE_OUTPUT)].data;
}

void *model_gradient (const struct model *m, int chunk, int slot)
{
    return slot_of (m, chunk, slot)->gradient.data;
}

/* A tensor of the model's last layer in a slot; NULL: this rank does not have it. */
static const struct tensor *head_tensor (const struct model *m, int slot, const char *name)
{
    int chunk = m->num_chunks - 1;
    const struct chunk *c = &m->chunk[chunk];
    const struct layer_spec *spec = c->layer[c->num_layers - 1].spec;

    for (int i = 1; model_has_loss (m) && i <= spec->num_tensors; i++) {
        if (strcmp (spec->tensor[i].name, name) == 0)
            return &slot_of (m, chunk, slot)->tensor[c->tensor[c->num_layers - 1] + (size_t)i];
    }
    return NULL;
}

const struct tensor *model_logits (const struct model *m)
{
    return head_tensor (m, 0, "logits");
}

struct model_scores model_scores (const struct model *m, const struct nn_shape *shape, int slot)
{
    const struct tensor *sums = head_tensor (m, slot, "softmax sums");
    struct model_scores s = {
        .tokens = shape_of (m, shape)->tokens,
        .sum = tensor_at (sums, 0),
        .max = head_tensor (m, slot, "softmax maxima")->data,
        .logits = head_tensor (m, slot, "logits")->data,
    };

    s.target = s.sum + s.tokens;
    return s;
}

/* Call the hook, if there is one, for a layer's parameters. */
static int call_hook (const struct layer *layer, const struct model_hooks *hooks,
                      int (*hook) (void *arg, size_t first, size_t n, struct mg_error *err),
                      struct mg_error *err)
{
    if (!hook)
        return 0;
    if (layer->apart > 0 && hook (hooks->arg, layer->apart - 1, 1, err) < 0)
        return -1;
    return hook (hooks->arg, layer->first, layer->num_own, err);
}

struct pass model_start (const struct model *m, const struct model_mode *mode)
{
    return (struct pass){
        .nn = &m->nn,
        .shape = shape_of (m, mode->shape),
        .training = mode->training,
        .check = mode->check,
        .loss_weight = tensor_at (&m->shared.values, 0),
        .per_token_loss = mode->per_token_loss,
        .replay = mode->replay,
        .replay_arg = mode->replay_arg,
        .max_logit = m->shared.max_logit.data,
    };
}

/* Set the live rows of all tensors of a chunk's layers. */
static void shape_chunk (const struct nn_shape *shape, const struct chunk *c, struct slot *s)
{
    for (int l = 0; l < c->num_layers; l++) {
        const struct layer *layer = &c->layer[l];
        struct tensor *own = s->tensor + c->tensor[l];

        for (int i = 1; i <= layer->spec->num_tensors; i++) {
            const struct layer_tensor *row = &layer->spec->tensor[i];
            const struct nn_input *in;

            own[i].live = layer_live (row, shape);
            if (row->life != LIFE_BATCH || row->parts == 0)
                continue;
            in = nn_inputs_find (&s->in, row->name);
            if (in->tensor.data)
                own[i].data = tensor_at (&in->tensor, layer->mtp * own[i].live);
        }
    }
}

void model_shape_slot (struct model *m, const struct nn_shape *shape, int chunk, int slot)
{
    struct slot *s = slot_of (m, chunk, slot);

    if (nn_same_counts (&s->live, shape))
        return;
    for (int c = 0; c < m->num_chunks; c++) {
        if (m->pool_of[c] == m->pool_of[chunk])
            shape_chunk (shape, &m->chunk[c], s);
    }
    s->live = *shape;
}

void model_point (const struct model *m, struct pass *pass, int chunk, int slot, int l)
{
    const struct chunk *c = &m->chunk[chunk];
    const struct slot *s = slot_of (m, chunk, slot);

    pass->layer = &c->layer[l];
    pass->factored_weight = pass->layer->loss > 0
                                ? tensor_at (&m->shared.values, pass->layer->loss - 1) : NULL;
    pass->tensor = s->tensor + c->tensor[l];
    pass->routed = s->routed ? s->routed + (size_t)(l * pass->nn->experts.routed) : NULL;
}

/* A pass through a chunk. */
struct way {
    struct model *m;
    const struct model_mode *mode;
    int chunk, slot;
    const struct chunk *c;
    const struct slot *s;
    struct pass pass;
};

int model_check_shape (const struct model *m, const struct nn_shape *shape, struct mg_error *err)
{
    return nn_fits (&m->planned, shape, err) < 0 ? -1 : nn_check_sequences (&m->nn, shape, err);
}

/* A pass that is refused leaves the slot as it was. */
static int way_init (struct way *w, struct model *m, const struct model_mode *mode, int chunk,
                     int slot, struct mg_error *err)
{
    const struct nn_shape *shape = shape_of (m, mode->shape);

    if (model_check_shape (m, shape, err) < 0)
        return -1;
    model_shape_slot (m, shape, chunk, slot);
    *w = (struct way){
        .m = m, .mode = mode, .chunk = chunk, .slot = slot,
        .c = &m->chunk[chunk],
        .s = slot_of (m, chunk, slot),
        .pass = model_start (m, mode),
    };
    return 0;
}

/* Point a pass at layer 'l', whose parameters are about to be read. */
static int enter (struct way *w, int l, bool backward, struct mg_error *err)
{
    bool graphs = w->mode->graphs && !w->mode->check && !w->pass.again
                  && nn_same_counts (w->pass.shape, &w->m->shape[MODEL_TRAINING]);

    model_point (w->m, &w->pass, w->chunk, w->slot, l);
    w->pass.graph = graphs ? model_graph (w->m, w->chunk, w->slot, l, backward) : NULL;
    return call_hook (w->pass.layer, &w->mode->hooks, w->mode->hooks.params_needed, err);
}

/* --- outputs of which each tensor-parallel rank keeps a part --- */

/* Keep this rank's part of a layer's output. */
static int split_output (const struct model *m, const struct pass *pass, struct mg_error *err)
{
    const struct tensor *whole = &m->shared.whole[pass->layer->unit.split - 1];
    const struct kern_cast cast = {
        .n = model_split_count (m, pass->shape),
        .scale = 1,
        .x = tensor_at (whole, m->nn.tp_rank * model_split_count (m, pass->shape)),
        .from = m->nn.dtype,
        .y = tensor_at (&pass->tensor[LAYER_NONE], 0),
        .to = m->nn.dtype,
    };

    return kern_cast (m->nn.kern, &cast, m->nn.compute, err);
}

/* Bring the parts of layer 'l' of a chunk together. */
static int gather_output (const struct way *w, int l, struct mg_error *err)
{
    const struct layer_unit *unit = &w->c->layer[l].unit;
    const struct model *m = w->m;
    int64_t n = model_split_count (m, w->pass.shape);

    if (unit->split == 0)
        return 0;
    return mg_comm_all_gather (m->nn.tp, w->s->tensor[w->c->tensor[l]].data,
                               m->shared.whole[unit->split - 1].data, (size_t)n, m->nn.dtype,
                               m->nn.compute, err);
}

/* --- passes --- */

int model_begin (struct model *m, const struct model_mode *mode, struct mg_error *err)
{
    const struct tensor *to = &m->shared.values;
    float *scale = (float *)(m->values + m->list.num_losses);
    size_t size = (size_t)tensor_count (to) * sizeof (*m->values);

    if (mg_event_synchronize (m->brought, err) < 0)
        return -1;
    for (int i = 0; i < m->list.num_losses; i++)
        m->values[i] = mode->loss_weight * m->loss_row[i].factor;
    for (size_t i = 0; i < m->num_params; i++) {
        if (m->param[i].scale_at)
            *scale++ = m->param[i].scale;
    }
    if (device_upload (m->nn.compute, tensor_at (to, 0), m->values, size, err) < 0)
        return -1;
    mg_event_record (m->brought, m->nn.compute);
    return 0;
}

/* Count a forward pass in the routers of a chunk. */
static void count_routed (const struct chunk *c)
{
    for (int l = 0; l < c->num_layers; l++) {
        if (c->layer[l].router)
            c->layer[l].router->passes++;
    }
}

int model_forward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                   struct mg_error *err)
{
    struct way w;

    if (way_init (&w, m, mode, chunk, slot, err) < 0)
        return -1;
    for (int l = 0; l < w.c->num_layers; l++) {
        if (enter (&w, l, false, err) < 0 || layer_fwd (&w.pass, err) < 0)
            return -1;
        if (w.pass.layer->unit.split > 0 && split_output (m, &w.pass, err) < 0)
            return -1;
    }
    if (mode->training && !graph_capturing ())
        count_routed (w.c);
    return 0;
}

/* Before the backward pass of a unit's last layer 'l': bring its input back, and run its other
 * layers forward again.  Layer 'l' itself runs again as its backward pass needs it.
 */
static int unit_again (struct way *w, int l, struct mg_error *err)
{
    int first = l + 1 - w->c->layer[l].unit.size;

    if (first > 0 && gather_output (w, first - 1, err) < 0)
        return -1;
    w->pass.check = NULL; // the same was looked at before
    w->pass.again = true;
    for (int i = first; i < l; i++) {
        if (enter (w, i, false, err) < 0 || layer_fwd (&w->pass, err) < 0)
            return -1;
    }
    return 0;
}

int model_backward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                    struct mg_error *err)
{
    struct way w;

    if (m->nn.cache.length > 0)
        return mg_error_set (err, EPERM, "a model with caches has no backward passes");
    if (way_init (&w, m, mode, chunk, slot, err) < 0)
        return -1;
    w.pass.training = true;
    for (int l = w.c->num_layers; l-- > 0;) {
        const struct layer_unit *unit = &w.c->layer[l].unit;
        bool last = unit->place + 1 == unit->size;

        if (last && unit_again (&w, l, err) < 0)
            return -1;
        w.pass.check = mode->check;
        w.pass.again = false;
        w.pass.again_done = unit->size > 0 && !last;
        if (enter (&w, l, true, err) < 0 || layer_bwd (&w.pass, err) < 0
            || call_hook (w.pass.layer, &mode->hooks, mode->hooks.grads_ready, err) < 0)
            return -1;
    }
    return 0;
}

int model_host_part (struct model *m, const struct model_mode *mode, int chunk, bool backward,
                     struct mg_error *err)
{
    const struct model_hooks *hooks = &mode->hooks;
    const struct chunk *c = &m->chunk[chunk];

    if (mode->training && !backward)
        count_routed (c);
    for (int l = 0; l < c->num_layers; l++) {
        const struct layer *layer = &c->layer[backward ? c->num_layers - 1 - l : l];

        if (call_hook (layer, hooks, backward ? hooks->grads_ready : hooks->params_needed, err) < 0)
            return -1;
    }
    return 0;
}
