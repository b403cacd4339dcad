/* model.c - chunks, slots and passes of this rank's part of the model */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/nn/block.h"
#include "libcore/nn/embedding.h"
#include "libcore/nn/head.h"
#include "libcore/nn/model.h"
#include "libcore/nn/model_params.h"

struct slot {
    float **act; /* [num_layers][BLOCK_NUM_ACTS] */
    float *input, *gradient;
    struct head_acts head;
    struct nn_batch batch;
};

/* What all layers and slots share. */
struct shared {
    float *act[BLOCK_NUM_ACTS];
    float *grad[BLOCK_NUM_GRADS];
    float *gathered; /* see struct nn */
    double *loss;    /* three sums, see kern_xent_loss */
};

struct chunk {
    struct model_part part;
    struct block *block; /* [part.num_layers] */
    struct slot *slot;
    int num_slots;
};

struct model {
    struct model_spec spec;
    struct mg_device *device;
    struct nn nn;
    struct chunk *chunk;
    struct param *param;
    size_t num_params;
    struct embedding embedding;
    struct head head;
    struct shared shared;
    void *memory; /* everything that model_bind() carved */
    model_fetch_f fetch;
    void *fetch_arg;
    double weight;
};

static int setup_streams (struct model *m, struct mg_error *err)
{
    struct nn *nn = &m->nn;

    if (!(nn->compute = mg_stream_create (m->device, MG_STREAM_COMPUTE, "compute", err))
        || !(nn->tp_stream = mg_stream_create (m->device, MG_STREAM_COMM, "tp", err))
        || !(nn->computed = mg_event_create (m->device, err))
        || !(nn->communicated = mg_event_create (m->device, err)))
        return -1;
    return 0;
}

static void setup_sizes (struct model *m, const struct job *job)
{
    const struct model_config *c = &m->spec.config;
    struct nn *nn = &m->nn;

    nn->config = *c;
    nn->kern = device_kernels (m->device);
    nn->tp = job_comm (job, GROUP_TP);
    nn->tp_rank = mg_comm_rank (nn->tp);
    nn->tp_size = mg_comm_size (nn->tp);
    nn->batch = m->spec.micro_batch_size;
    nn->seq = c->seq_length;
    nn->tokens = nn->batch * nn->seq;
    nn->rows = m->spec.sequence_parallel ? nn->tokens / nn->tp_size : nn->tokens;
    nn->first_position = m->spec.sequence_parallel ? nn->seq / nn->tp_size * nn->tp_rank : 0;
    nn->hidden = c->hidden_size;
    nn->head_dim = c->kv_channels;
    nn->local_heads = c->num_heads / nn->tp_size;
    nn->local_attention = nn->local_heads * nn->head_dim;
    nn->local_ffn = c->ffn_hidden_size / nn->tp_size;
    nn->local_vocab = c->padded_vocab_size / nn->tp_size;
}

/* Cut the model into chunks and describe their parameters. */
static int setup_chunks (struct model *m, const struct job *job, struct mg_error *err)
{
    const struct grid *grid = job_grid (job);
    int pp = grid_size (grid, false, MG_AXIS_PP);
    int rank = grid_coord (grid, false, MG_AXIS_PP, job_rank (job));
    struct param *next;

    if (!(m->chunk = calloc ((size_t)m->spec.chunks, sizeof (*m->chunk))))
        return mg_error_set (err, ENOMEM, "model: out of memory");
    for (int c = 0; c < m->spec.chunks; c++) {
        struct model_part *part = &m->chunk[c].part;
        model_part_even (&m->spec.config, pp, m->spec.chunks, rank, c, part);
        m->num_params += model_part_params (&m->spec.config, part, pp);
    }
    if (!(m->param = calloc (m->num_params, sizeof (*m->param))))
        return mg_error_set (err, ENOMEM, "model: out of memory");
    next = m->param;
    for (int c = 0; c < m->spec.chunks; c++) {
        struct chunk *chunk = &m->chunk[c];

        if (chunk->part.first)
            next = model_describe_embedding (&m->nn, next, &m->embedding);
        if (!(chunk->block = calloc ((size_t)chunk->part.num_layers, sizeof (struct block))))
            return mg_error_set (err, ENOMEM, "model: out of memory");
        for (int i = 0; i < chunk->part.num_layers; i++, next += BLOCK_NUM_PARAMS) {
            int layer = chunk->part.first_layer + i;
            if (block_init (&chunk->block[i], &m->nn, layer, next,
                            model_layer_order (layer), err) < 0)
                return -1;
        }
        if (chunk->part.last)
            next = model_describe_head (&m->nn, next, m->embedding.word, &m->head);
    }
    return 0;
}

struct model *model_create (const struct model_spec *spec, const struct job *job,
                            struct mg_error *err)
{
    const struct grid *grid = job_grid (job);
    struct model *m;

    if (model_config_validate (&spec->config, grid_size (grid, false, MG_AXIS_TP),
                               grid_size (grid, false, MG_AXIS_PP) * spec->chunks, err) < 0)
        return NULL;
    if (spec->micro_batch_size < 1
        || (int64_t)spec->micro_batch_size * spec->config.seq_length > INT32_MAX) {
        mg_error_set (err, EINVAL, "micro-batch-size %d x seq-length %d is not 1 to 2^31 - 1",
                      spec->micro_batch_size, spec->config.seq_length);
        return NULL;
    }
    if (spec->sequence_parallel
        && spec->config.seq_length % grid_size (grid, false, MG_AXIS_TP) != 0) {
        mg_error_set (err, EINVAL, "sequence parallelism: seq-length %d is not a multiple of "
                      "tensor-model-parallel-size %d", spec->config.seq_length,
                      grid_size (grid, false, MG_AXIS_TP));
        return NULL;
    }
    if (!(m = calloc (1, sizeof (*m)))) {
        mg_error_set (err, ENOMEM, "model: out of memory");
        return NULL;
    }
    m->spec = *spec;
    m->device = job_device (job);
    setup_sizes (m, job);
    if (setup_streams (m, err) < 0 || setup_chunks (m, job, err) < 0)
        goto error;
    return m;
error:
    model_destroy (m);
    return NULL;
}

static void clear_chunk (struct chunk *chunk)
{
    for (int s = 0; chunk->slot && s < chunk->num_slots; s++)
        free (chunk->slot[s].act);
    free (chunk->slot);
    for (int i = 0; chunk->block && i < chunk->part.num_layers; i++)
        block_clear (&chunk->block[i]);
    free (chunk->block);
}

void model_destroy (struct model *m)
{
    int saved_errno = errno;

    if (!m)
        return;
    mg_stream_destroy (m->nn.tp_stream);
    mg_stream_destroy (m->nn.compute);
    mg_event_destroy (m->nn.computed);
    mg_event_destroy (m->nn.communicated);
    for (int c = 0; m->chunk && c < m->spec.chunks; c++)
        clear_chunk (&m->chunk[c]);
    free (m->chunk);
    free (m->param);
    device_free (m->device, m->memory);
    free (m);
    errno = saved_errno;
}

struct param *model_params (struct model *m, size_t *n)
{
    *n = m->num_params;
    return m->param;
}

int model_num_tensors (const struct model *m)
{
    return model_config_tensors (&m->spec.config);
}

int64_t model_num_parameters (const struct model *m)
{
    return model_config_parameters (&m->spec.config);
}

int model_init_params (struct model *m, struct mg_error *err)
{
    for (size_t i = 0; i < m->num_params; i++)
        if (param_init (&m->param[i], m->nn.kern, m->nn.compute, err) < 0)
            return mg_error_prefix (err, "%s", m->param[i].name);
    return mg_stream_synchronize (m->nn.compute, err);
}

/* Take one slot of a chunk; s->act has room for the chunk's layers. */
static void carve_slot (const struct nn *nn, const struct chunk *chunk,
                        const struct shared *shared, struct arena *a, struct slot *s)
{
    int64_t boundary = nn->rows * nn->hidden;
    float *below;

    s->batch.sample = arena_take (a, nn->batch, sizeof (int64_t));
    if (chunk->part.first || chunk->part.last) {
        s->batch.token = arena_take (a, nn->tokens, sizeof (int32_t));
        s->batch.label = arena_take (a, nn->tokens, sizeof (int32_t));
        s->batch.mask = arena_take (a, nn->tokens, sizeof (float));
    }
    below = s->input = arena_take (a, boundary, sizeof (float));
    for (int i = 0; i < chunk->part.num_layers; i++) {
        float **act = s->act + (size_t)i * BLOCK_NUM_ACTS;

        block_carve_saved (nn, a, act);
        act[ACT_INPUT] = below;
        below = act[ACT_OUTPUT] = arena_take (a, boundary, sizeof (float));
        act[ACT_BRANCH] = shared->act[ACT_BRANCH];
    }
    s->gradient = arena_take (a, boundary, sizeof (float));
    if (chunk->part.last)
        head_carve (nn, a, &s->head);
}

static void carve_shared (const struct nn *nn, struct arena *a, struct shared *shared)
{
    block_carve_shared (nn, a, shared->act, shared->grad);
    if (nn->rows < nn->tokens)
        shared->gathered = arena_take (a, nn->tokens * nn->hidden, sizeof (float));
    shared->loss = arena_take (a, 3, sizeof (double));
}

size_t model_activation_bytes (struct model *m, const int *slots)
{
    struct shared shared = { 0 };
    struct arena a;

    arena_init (&a, NULL, 0);
    carve_shared (&m->nn, &a, &shared);
    for (int c = 0; c < m->spec.chunks; c++) {
        const struct chunk *chunk = &m->chunk[c];
        struct slot s = { .act = calloc ((size_t)chunk->part.num_layers,
                                         BLOCK_NUM_ACTS * sizeof (float *)) };
        if (!s.act)
            return 0;
        for (int i = 0; i < slots[c]; i++)
            carve_slot (&m->nn, chunk, &shared, &a, &s);
        free (s.act);
    }
    return a.overflow ? 0 : a.used;
}

static int bind_slots (struct model *m, struct chunk *chunk, int slots, struct arena *a,
                       struct mg_error *err)
{
    if (!(chunk->slot = calloc ((size_t)slots, sizeof (*chunk->slot))))
        return mg_error_set (err, ENOMEM, "model: out of memory");
    chunk->num_slots = slots;
    for (int i = 0; i < slots; i++) {
        struct slot *s = &chunk->slot[i];
        if (!(s->act = calloc ((size_t)chunk->part.num_layers,
                               BLOCK_NUM_ACTS * sizeof (float *))))
            return mg_error_set (err, ENOMEM, "model: out of memory");
        carve_slot (&m->nn, chunk, &m->shared, a, s);
    }
    return 0;
}

int model_bind (struct model *m, const int *slots, struct mg_error *err)
{
    size_t size = model_activation_bytes (m, slots);
    struct arena a;

    if (size == 0)
        return mg_error_set (err, EOVERFLOW, "activations of this model are too large");
    if (!(m->memory = device_alloc (m->device, size, err)))
        return mg_error_prefix (err, "activations");
    arena_init (&a, m->memory, size);
    carve_shared (&m->nn, &a, &m->shared);
    m->nn.gathered = m->shared.gathered;
    for (int c = 0; c < m->spec.chunks; c++)
        if (bind_slots (m, &m->chunk[c], slots[c], &a, err) < 0)
            return -1;
    return 0;
}

void model_set_input (struct model *m, model_fetch_f fetch, void *arg, double weight)
{
    m->fetch = fetch;
    m->fetch_arg = arg;
    m->weight = weight;
}

float *model_input (struct model *m, int chunk, int slot)
{
    return m->chunk[chunk].slot[slot].input;
}

float *model_output (struct model *m, int chunk, int slot)
{
    const struct chunk *c = &m->chunk[chunk];

    return c->slot[slot].act[(size_t)(c->part.num_layers - 1) * BLOCK_NUM_ACTS + ACT_OUTPUT];
}

float *model_gradient (struct model *m, int chunk, int slot)
{
    return m->chunk[chunk].slot[slot].gradient;
}

size_t model_boundary_count (const struct model *m)
{
    return (size_t)m->nn.rows * (size_t)m->nn.hidden;
}

int model_forward (struct model *m, int chunk, int slot, int microbatch, bool training,
                   struct mg_error *err)
{
    struct chunk *c = &m->chunk[chunk];
    struct slot *s = &c->slot[slot];
    struct head_loss loss = { m->weight, m->shared.loss };

    if (m->fetch (m->fetch_arg, microbatch, c->part.first || c->part.last, &s->batch, err) < 0)
        return -1;
    if (c->part.first
        && embedding_fwd (&m->nn, &m->embedding, &s->batch, training,
                          m->shared.act[ACT_BRANCH], s->input, err) < 0)
        return mg_error_prefix (err, "embedding: forward");
    for (int i = 0; i < c->part.num_layers; i++) {
        struct block_run run = {
            .nn = &m->nn,
            .block = &c->block[i],
            .batch = &s->batch,
            .act = s->act + (size_t)i * BLOCK_NUM_ACTS,
            .training = training,
        };
        if (block_fwd (&run, err) < 0)
            return -1;
    }
    if (c->part.last)
        return head_fwd (&m->nn, &m->head, &s->batch, model_output (m, chunk, slot),
                         &s->head, &loss, err);
    return 0;
}

int model_backward (struct model *m, int chunk, int slot, struct mg_error *err)
{
    struct chunk *c = &m->chunk[chunk];
    struct slot *s = &c->slot[slot];
    float *grad[BLOCK_NUM_GRADS];

    memcpy (grad, m->shared.grad, sizeof (grad));
    grad[GRAD_HIDDEN] = s->gradient;
    if (c->part.last
        && head_bwd (&m->nn, &m->head, &s->batch, model_output (m, chunk, slot), &s->head,
                     grad[GRAD_NORM], s->gradient, err) < 0)
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
        if (block_bwd (&run, err) < 0)
            return -1;
    }
    if (c->part.first
        && embedding_bwd (&m->nn, &m->embedding, &s->batch, s->gradient, err) < 0)
        return mg_error_prefix (err, "embedding: backward");
    return 0;
}

int model_loss (struct model *m, double sums[3], struct mg_error *err)
{
    if (mg_stream_synchronize (m->nn.compute, err) < 0)
        return -1;
    memcpy (sums, m->shared.loss, 3 * sizeof (double));
    return 0;
}

void model_clear_loss (struct model *m)
{
    memset (m->shared.loss, 0, 3 * sizeof (double));
}

bool model_has_loss (const struct model *m)
{
    return m->chunk[m->spec.chunks - 1].part.last;
}

struct mg_stream *model_stream (struct model *m)
{
    return m->nn.compute;
}

const struct nn *model_nn (const struct model *m)
{
    return &m->nn;
}
