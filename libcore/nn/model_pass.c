/* model_pass.c - a microbatch's way through a chunk, forward and backward */

#include <string.h>

#include "libcore/nn/check.h"
#include "libcore/nn/model_private.h"

void model_set_input (struct model *m, model_fetch_f fetch, void *arg, double weight)
{
    m->fetch = fetch;
    m->fetch_arg = arg;
    m->weight = weight;
}

void *model_input (struct model *m, int chunk, int slot)
{
    return m->chunk[chunk].pool->slot[slot].input;
}

void *model_output (struct model *m, int chunk, int slot)
{
    return m->chunk[chunk].pool->slot[slot].output;
}

void *model_gradient (struct model *m, int chunk, int slot)
{
    return m->chunk[chunk].pool->slot[slot].gradient;
}

void model_set_check (struct model *m, struct check *check)
{
    m->nn.check = check;
}

/* Look at what was made outside the layers, by the embedding ... */
static int check_embedding (struct model *m, bool forward, const void *x,
                            struct mg_error *err)
{
    const struct nn *nn = &m->nn;
    const struct param *own[] = { m->embedding.word, m->embedding.position };
    const struct check_place place = {
        .pass = forward ? CHECK_FORWARD : CHECK_BACKWARD,
        .step = forward ? 0 : nn->config.num_layers + 1,
        .where = "embedding",
    };

    if (!nn->check)
        return 0;
    if (forward)
        return check_tensor (nn->check, &place, "activation", "output", nn->rows * nn->hidden,
                             x, nn->dtype, err);
    for (int i = 0; i < 2; i++)
        if (check_tensor (nn->check, &place, "gradient of", own[i]->name, own[i]->numel,
                          own[i]->grad, own[i]->grad_dtype, err) < 0)
            return -1;
    return 0;
}

/* Rows of 16-bit elements lie apart, with what is left of the logits between them. */
static int check_logits (const struct nn *nn, const struct check_place *place,
                         const char *what, enum mg_dtype dtype, const float *logits,
                         struct mg_error *err)
{
    int64_t cols = nn->local_vocab;

    if (dtype == MG_FLOAT32)
        return check_tensor (nn->check, place, what, "logits", nn->tokens * cols, logits,
                             dtype, err);
    for (int64_t t = 0; t < nn->tokens; t++)
        if (check_tensor (nn->check, place, what, "logits", cols, logits + t * cols, dtype,
                          err) < 0)
            return -1;
    return 0;
}

/* ... and by the head, whose logits become their gradient in place. */
static int check_head (struct model *m, bool forward, const struct slot *s,
                       struct mg_error *err)
{
    const struct nn *nn = &m->nn;
    const struct param *own[] = { m->head.norm.weight, m->head.norm.bias,
                                  m->head.output.weight };
    const struct check_place place = {
        .pass = forward ? CHECK_FORWARD : CHECK_BACKWARD,
        .step = forward ? nn->config.num_layers + 1 : 0,
        .where = "output layer",
    };
    const char *what = forward ? "activation" : "gradient of";
    int64_t boundary = nn->rows * nn->hidden;

    if (!nn->check)
        return 0;
    if ((forward
         && check_tensor (nn->check, &place, what, "norm", boundary, s->head.norm, nn->dtype,
                          err) < 0)
        || check_logits (nn, &place, what, forward ? MG_FLOAT32 : nn->dtype, s->head.logits,
                         err) < 0)
        return -1;
    if (forward)
        return check_tensor (nn->check, &place, what, "softmax sums", 2 * nn->tokens,
                             s->head.sums, MG_FLOAT32, err);
    for (int i = 0; i < 3; i++)
        if (check_tensor (nn->check, &place, what, own[i]->name, own[i]->numel, own[i]->grad,
                          own[i]->grad_dtype, err) < 0)
            return -1;
    return check_tensor (nn->check, &place, "gradient", "hidden", boundary, s->gradient,
                         nn->dtype, err);
}

void model_set_hooks (struct model *m, const struct model_hooks *hooks)
{
    m->hooks = *hooks;
}

/* A chunk's parts, for the hooks: its ends, or a layer. */
enum { PART_EMBEDDING = -1, PART_HEAD = -2 };

/* Tell a hook, if there is one, of the parameters of a part. */
static int tell (const struct model *m, const struct chunk *c, int part,
                 int (*hook) (void *arg, size_t first, size_t n, struct mg_error *err),
                 struct mg_error *err)
{
    size_t layers = c->first + c->embedding;
    size_t head = layers + (size_t)c->part.num_layers * BLOCK_NUM_PARAMS;

    if (!hook)
        return 0;
    if (part == PART_EMBEDDING)
        return hook (m->hooks.arg, c->first, c->embedding, err);
    if (part == PART_HEAD)
        return hook (m->hooks.arg, head, c->head, err);
    return hook (m->hooks.arg, layers + (size_t)part * BLOCK_NUM_PARAMS, BLOCK_NUM_PARAMS,
                 err);
}

/* The input of a chunk's first layer, or what a chunk without layers hands on. */
static int start_forward (struct model *m, const struct chunk *c, struct slot *s,
                          bool training, struct mg_error *err)
{
    const struct nn *nn = &m->nn;

    if (c->part.first) {
        void *x = c->part.num_layers > 0 ? s->input : s->output;

        if (embedding_fwd (nn, &m->embedding, &s->batch, training, m->shared.act[ACT_BRANCH],
                           x, err) < 0)
            return mg_error_prefix (err, "embedding: forward");
        return check_embedding (m, true, x, err);
    }
    if (c->part.num_layers > 0 || c->part.last)
        return 0;
    return kern_cast (nn->kern,
                      &(struct kern_cast){ .n = nn->rows * nn->hidden, .scale = 1,
                                           .x = s->input, .from = nn->dtype,
                                           .y = s->output, .to = nn->dtype },
                      nn->compute, err);
}

/* Bring a microbatch into a slot, once what was brought before has left the host's memory. */
static int fill_batch (struct model *m, int microbatch, bool tokens,
                       const struct nn_batch *batch, struct mg_error *err)
{
    const struct nn *nn = &m->nn;
    size_t n = (size_t)nn->tokens;

    if (nn->planning)
        return 0;
    if (mg_event_synchronize (m->taken, err) < 0
        || m->fetch (m->fetch_arg, microbatch, tokens, &m->staged, err) < 0
        || device_upload (nn->compute, batch->sample, m->staged.sample,
                          (size_t)nn->batch * sizeof (*batch->sample), err) < 0)
        return -1;
    if (tokens
        && (device_upload (nn->compute, batch->token, m->staged.token,
                           n * sizeof (*batch->token), err) < 0
            || device_upload (nn->compute, batch->label, m->staged.label,
                              n * sizeof (*batch->label), err) < 0
            || device_upload (nn->compute, batch->mask, m->staged.mask,
                              n * sizeof (*batch->mask), err) < 0))
        return -1;
    mg_event_record (m->taken, nn->compute);
    return 0;
}

int model_forward (struct model *m, int chunk, int slot, int microbatch, bool training,
                   struct mg_error *err)
{
    struct chunk *c = &m->chunk[chunk];
    struct slot *s = &c->pool->slot[slot];
    struct head_loss loss = { m->weight, m->shared.loss, m->spec.per_token_loss };

    if (fill_batch (m, microbatch, c->part.first || c->part.last, &s->batch, err) < 0)
        return -1;
    s->microbatch = microbatch;
    if (m->nn.check)
        m->nn.check->microbatch = microbatch;
    if (tell (m, c, PART_EMBEDDING, m->hooks.params_needed, err) < 0
        || start_forward (m, c, s, training, err) < 0)
        return -1;
    for (int i = 0; i < c->part.num_layers; i++) {
        struct block_run run = {
            .nn = &m->nn,
            .block = &c->block[i],
            .batch = &s->batch,
            .act = s->act + (size_t)i * BLOCK_NUM_ACTS,
            .training = training,
        };
        if (tell (m, c, i, m->hooks.params_needed, err) < 0 || block_fwd (&run, err) < 0)
            return -1;
    }
    if (tell (m, c, PART_HEAD, m->hooks.params_needed, err) < 0)
        return -1;
    if (c->part.last
        && (head_fwd (&m->nn, &m->head, &s->batch, s->output, &s->head, &loss, err) < 0
            || check_head (m, true, s, err) < 0))
        return -1;
    return 0;
}

int model_backward (struct model *m, int chunk, int slot, struct mg_error *err)
{
    struct chunk *c = &m->chunk[chunk];
    struct slot *s = &c->pool->slot[slot];
    void *grad[BLOCK_NUM_GRADS];

    memcpy (grad, m->shared.grad, sizeof (grad));
    grad[GRAD_HIDDEN] = s->gradient;
    if (m->nn.check)
        m->nn.check->microbatch = s->microbatch;
    if (c->part.last
        && (head_bwd (&m->nn, &m->head, &s->batch, s->output, &s->head, grad[GRAD_NORM],
                      s->gradient, err) < 0
            || check_head (m, false, s, err) < 0))
        return -1;
    if (tell (m, c, PART_HEAD, m->hooks.grads_ready, err) < 0)
        return -1;
    for (int i = c->part.num_layers; i-- > 0;) {
        struct block_run run = {
            .nn = &m->nn,
            .block = &c->block[i],
            .batch = &s->batch,
            .act = s->act + (size_t)i * BLOCK_NUM_ACTS,
            .grad = grad,
            .training = true,
        };
        if (block_bwd (&run, err) < 0 || tell (m, c, i, m->hooks.grads_ready, err) < 0)
            return -1;
    }
    if (c->part.first
        && embedding_bwd (&m->nn, &m->embedding, &s->batch, s->gradient, err) < 0)
        return mg_error_prefix (err, "embedding: backward");
    if (c->part.first && check_embedding (m, false, NULL, err) < 0)
        return -1;
    return tell (m, c, PART_EMBEDDING, m->hooks.grads_ready, err);
}
