/* model_pass.c - a microbatch's way through a chunk, forward and backward */

#include "libcore/nn/model_private.h"

static struct slot *slot_of (const struct model *m, int chunk, int slot)
{
    return &m->pool[m->pool_of[chunk]].slot[slot];
}

const struct nn_inputs *model_inputs (const struct model *m, int chunk, int slot)
{
    return &slot_of (m, chunk, slot)->in;
}

bool model_needs_tokens (const struct model *m, int chunk)
{
    return m->chunk[chunk].part.first || m->chunk[chunk].part.last;
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

/* Tell a hook, if there is one, of a layer's parameters. */
static int tell (const struct layer *layer, const struct model_hooks *hooks,
                 int (*hook) (void *arg, size_t first, size_t n, struct mg_error *err),
                 struct mg_error *err)
{
    return hook ? hook (hooks->arg, layer->first, layer->num_own, err) : 0;
}

static struct pass start (const struct model *m, const struct model_mode *mode,
                          const struct slot *s)
{
    return (struct pass){
        .nn = &m->nn,
        .shape = &m->shape,
        .in = &s->in,
        .training = mode->training,
        .check = mode->check,
        .loss_weight = mode->loss_weight,
        .per_token_loss = mode->per_token_loss,
        .loss = m->shared.loss.data,
    };
}

int model_forward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                   struct mg_error *err)
{
    const struct chunk *c = &m->chunk[chunk];
    struct slot *s = slot_of (m, chunk, slot);
    struct pass pass = start (m, mode, s);

    for (int l = 0; l < c->num_layers; l++) {
        pass.layer = &c->layer[l];
        pass.tensor = s->tensor + c->tensor[l];
        if (tell (pass.layer, &mode->hooks, mode->hooks.params_needed, err) < 0
            || layer_fwd (&pass, err) < 0)
            return -1;
    }
    return 0;
}

int model_backward (struct model *m, const struct model_mode *mode, int chunk, int slot,
                    struct mg_error *err)
{
    const struct chunk *c = &m->chunk[chunk];
    struct slot *s = slot_of (m, chunk, slot);
    struct pass pass = start (m, mode, s);

    pass.training = true;
    for (int l = c->num_layers; l-- > 0;) {
        pass.layer = &c->layer[l];
        pass.tensor = s->tensor + c->tensor[l];
        if (layer_bwd (&pass, err) < 0
            || tell (pass.layer, &mode->hooks, mode->hooks.grads_ready, err) < 0)
            return -1;
    }
    return 0;
}
