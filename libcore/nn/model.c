/* model.c - chunks, slots and passes of this rank's part of the model */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/nn/block.h"
#include "libcore/nn/check.h"
#include "libcore/nn/embedding.h"
#include "libcore/nn/head.h"
#include "libcore/nn/model.h"
#include "libcore/nn/model_params.h"

struct slot {
    void **act; /* [num_layers][BLOCK_NUM_ACTS] */
    void *input, *output, *gradient;
    struct head_acts head;
    struct nn_batch batch;
    int microbatch; /* that went forward in it */
};

/* What all layers and slots share. */
struct shared {
    void *act[BLOCK_NUM_ACTS];
    void *grad[BLOCK_NUM_GRADS];
    void *gathered, *weight; /* see struct nn */
    double *loss; /* three sums, see kern_xent_loss */
};

/* Slots for chunks with the same number of layers; the one with the head has its own. */
struct pool {
    int num_layers;
    bool tokens; /* a chunk has the embedding or the head, and so needs the tokens */
    bool head;
    struct slot *slot;
    int num_slots;
};

struct chunk {
    struct model_part part;
    size_t first, embedding, head; /* its first parameter; parameters of its ends */
    struct block *block; /* [part.num_layers] */
    struct pool *pool;
};

struct model {
    struct model_spec spec;
    struct mg_device *device;
    struct nn nn;
    int num_chunks, num_pools;
    struct chunk *chunk;
    struct pool *pool;  /* [num_pools] */
    int *pool_of;       /* [num_chunks] */
    struct param *param;
    size_t num_params;
    struct embedding embedding;
    struct head head;
    struct shared shared;
    void *memory; /* everything that model_bind() carved */
    size_t scratch; /* bytes, 0: not known yet */
    model_fetch_f fetch;
    void *fetch_arg;
    double weight;
    struct model_hooks hooks;
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
    nn->dtype = m->spec.dtype;
    nn->weight_storage = m->spec.float8_weights ? MG_FLOAT8_E4M3 : nn->dtype;
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

/* calloc() that never asks for nothing: a stage may have no layers, a rank no parameters. */
static void *allocate (size_t n, size_t size, struct mg_error *err)
{
    void *p = calloc (n > 0 ? n : 1, size);

    if (!p)
        mg_error_set (err, ENOMEM, "model: out of memory");
    return p;
}

/* Let chunk 'c' use the slots of an earlier one that needs the same memory, or its own. */
static void choose_pool (struct model *m, int c)
{
    const struct model_part *part = &m->chunk[c].part;
    struct pool *pool = m->pool;

    while (pool < m->pool + m->num_pools
           && (pool->num_layers != part->num_layers || pool->head || part->last))
        pool++;
    if (pool == m->pool + m->num_pools)
        m->num_pools++;
    pool->num_layers = part->num_layers;
    pool->tokens |= part->first || part->last;
    pool->head = part->last;
    m->chunk[c].pool = pool;
    m->pool_of[c] = (int)(pool - m->pool);
}

/* Which layers each chunk of this rank has. */
static int cut_chunks (struct model *m, const struct stages *stages, int rank,
                       struct mg_error *err)
{
    size_t n = (size_t)stages->vpp;

    m->num_chunks = stages->vpp;
    if (!(m->chunk = allocate (n, sizeof (*m->chunk), err))
        || !(m->pool = allocate (n, sizeof (*m->pool), err))
        || !(m->pool_of = allocate (n, sizeof (*m->pool_of), err)))
        return -1;
    for (int c = 0; c < m->num_chunks; c++) {
        struct model_part *part = &m->chunk[c].part;

        *part = model_part_at (stages, rank, c);
        m->num_params += model_part_params (&m->spec.config, part, stages->pp);
        choose_pool (m, c);
    }
    return 0;
}

/* Describe the parameters of all chunks. */
static int describe_chunks (struct model *m, struct mg_error *err)
{
    struct param *next;

    if (!(m->param = allocate (m->num_params, sizeof (*m->param), err)))
        return -1;
    next = m->param;
    for (int c = 0; c < m->num_chunks; c++) {
        struct chunk *chunk = &m->chunk[c];
        struct model_places places = { .embedding = &m->embedding, .head = &m->head };

        if (!(chunk->block = allocate ((size_t)chunk->part.num_layers, sizeof (struct block),
                                       err)))
            return -1;
        places.block = chunk->block;
        chunk->first = (size_t)(next - m->param);
        if (!(next = model_describe_part (&m->nn, &chunk->part, c, next, &places, err)))
            return -1;
        chunk->embedding = chunk->part.first ? 2 : 0;
        chunk->head = (size_t)(next - m->param) - chunk->first - chunk->embedding
                      - (size_t)chunk->part.num_layers * BLOCK_NUM_PARAMS;
    }
    return 0;
}

static int check_stages (const struct model_spec *spec, int pp, struct mg_error *err)
{
    const struct stages *s = spec->stages;
    int layers = 0, mtp = 0;

    for (int i = 0; i < s->pp * s->vpp; i++) {
        layers += s->stage[i].num_layers;
        mtp += s->stage[i].mtp_layers;
    }
    if (s->pp != pp || layers != spec->config.num_layers)
        return mg_error_set (err, EINVAL, "model: the stages are of %d layers on %d pipeline "
                             "ranks, the model has %d on %d", layers, s->pp,
                             spec->config.num_layers, pp);
    if (mtp > 0)
        return mg_error_set (err, ENOTSUP, "model: layers for multi-token prediction are not "
                             "available in this version");
    return 0;
}

/* Cut the model into this rank's chunks. */
static int setup_chunks (struct model *m, const struct job *job, struct mg_error *err)
{
    const struct grid *grid = job_grid (job);
    int pp = grid_size (grid, false, MG_AXIS_PP), rc;
    int rank = grid_coord (grid, false, MG_AXIS_PP, job_rank (job));
    const struct stages_config even = { .num_layers = m->spec.config.num_layers, .pp = pp };
    struct stages *own = NULL;

    if (!m->spec.stages) {
        if (!(own = stages_create (&even, err)))
            return -1;
        m->spec.stages = own;
    }
    rc = check_stages (&m->spec, pp, err);
    if (rc == 0)
        rc = cut_chunks (m, m->spec.stages, rank, err);
    m->spec.stages = NULL; // the caller's, or going
    stages_destroy (own);
    return rc < 0 ? -1 : describe_chunks (m, err);
}

struct model *model_create (const struct model_spec *spec, const struct job *job,
                            struct mg_error *err)
{
    const struct grid *grid = job_grid (job);
    struct model *m;

    if (model_config_validate (&spec->config, grid_size (grid, false, MG_AXIS_TP), err) < 0)
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

static void clear_pool (struct pool *pool)
{
    for (int s = 0; pool->slot && s < pool->num_slots; s++)
        free (pool->slot[s].act);
    free (pool->slot);
}

static void clear_chunk (struct chunk *chunk)
{
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
    for (int c = 0; m->chunk && c < m->num_chunks; c++)
        clear_chunk (&m->chunk[c]);
    for (int p = 0; p < m->num_pools; p++)
        clear_pool (&m->pool[p]);
    free (m->chunk);
    free (m->pool);
    free (m->pool_of);
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

int model_num_chunks (const struct model *m)
{
    return m->num_chunks;
}

const int *model_pools (const struct model *m)
{
    return m->pool_of;
}

int model_num_tensors (const struct model *m)
{
    return model_config_tensors (&m->spec.config);
}

int model_num_heads (const struct model *m)
{
    return m->spec.config.num_heads;
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

/* Take one slot of a pool; s->act has room for its layers.  Where there are none, the output
 * is a buffer of its own, since the next input may come while it is still on its way, or,
 * below the head, the input itself.
 */
static void carve_slot (const struct nn *nn, const struct pool *pool,
                        const struct shared *shared, struct arena *a, struct slot *s)
{
    int64_t boundary = nn->rows * nn->hidden;
    size_t size = mg_dtype_size (nn->dtype);
    void *below;

    s->batch.sample = arena_take (a, nn->batch, sizeof (int64_t));
    if (pool->tokens) {
        s->batch.token = arena_take (a, nn->tokens, sizeof (int32_t));
        s->batch.label = arena_take (a, nn->tokens, sizeof (int32_t));
        s->batch.mask = arena_take (a, nn->tokens, sizeof (float));
    }
    below = s->input = arena_take (a, boundary, size);
    for (int i = 0; i < pool->num_layers; i++) {
        void **act = s->act + (size_t)i * BLOCK_NUM_ACTS;

        block_carve_saved (nn, a, act);
        act[ACT_INPUT] = below;
        below = act[ACT_OUTPUT] = arena_take (a, boundary, size);
        act[ACT_BRANCH] = shared->act[ACT_BRANCH];
    }
    if (pool->num_layers == 0 && !pool->head)
        below = arena_take (a, boundary, size);
    s->output = below;
    s->gradient = arena_take (a, boundary, size);
    if (pool->head)
        head_carve (nn, a, &s->head);
}

/* Elements of the largest weight that is stored in another type than products take. */
static int64_t largest_stored (const struct model *m)
{
    int64_t largest = 0;

    for (size_t i = 0; i < m->num_params; i++) {
        const struct param *p = &m->param[i];

        if (p->storage != p->dtype && p->numel > largest)
            largest = p->numel;
    }
    return largest;
}

static void carve_shared (const struct model *m, struct arena *a, struct shared *shared)
{
    const struct nn *nn = &m->nn;

    block_carve_shared (nn, a, shared->act, shared->grad);
    if (nn->rows < nn->tokens)
        shared->gathered
            = arena_take (a, nn->tokens * nn->hidden, mg_dtype_size (nn->dtype));
    shared->weight = arena_take (a, largest_stored (m), mg_dtype_size (nn->dtype));
    shared->loss = arena_take (a, 3, sizeof (double));
}

/* Take the slots of a pool without keeping where. */
static int plan_pool (struct model *m, int p, int slots, struct arena *a)
{
    const struct pool *pool = &m->pool[p];
    struct slot s = { .act = allocate ((size_t)pool->num_layers,
                                       BLOCK_NUM_ACTS * sizeof (void *), NULL) };

    if (!s.act)
        return -1;
    for (int i = 0; i < slots; i++)
        carve_slot (&m->nn, pool, &m->shared, a, &s);
    free (s.act);
    return 0;
}

size_t model_pool_bytes (struct model *m, int pool, int slots)
{
    struct arena a;

    arena_init (&a, NULL, 0);
    return plan_pool (m, pool, slots, &a) < 0 || a.overflow ? 0 : a.used;
}

int model_num_pools (const struct model *m)
{
    return m->num_pools;
}

size_t model_activation_bytes (struct model *m, const int *slots)
{
    struct shared shared = { 0 };
    struct arena a;

    arena_init (&a, NULL, 0);
    carve_shared (m, &a, &shared);
    for (int p = 0; p < m->num_pools; p++) {
        if (plan_pool (m, p, slots[p], &a) < 0)
            return 0;
    }
    return a.overflow ? 0 : a.used;
}

static int bind_slots (struct model *m, struct pool *pool, int slots, struct arena *a,
                       struct mg_error *err)
{
    if (!(pool->slot = allocate ((size_t)slots, sizeof (*pool->slot), err)))
        return -1;
    pool->num_slots = slots;
    for (int i = 0; i < slots; i++) {
        struct slot *s = &pool->slot[i];
        if (!(s->act = allocate ((size_t)pool->num_layers, BLOCK_NUM_ACTS * sizeof (void *),
                                 err)))
            return -1;
        carve_slot (&m->nn, pool, &m->shared, a, s);
    }
    return 0;
}

static int bind_all (struct model *m, const int *slots, struct arena *a, struct mg_error *err)
{
    carve_shared (m, a, &m->shared);
    m->nn.gathered = m->shared.gathered;
    m->nn.weight = m->shared.weight;
    for (int p = 0; p < m->num_pools; p++)
        if (bind_slots (m, &m->pool[p], slots ? slots[p] : 1, a, err) < 0)
            return -1;
    return 0;
}

static void unbind_all (struct model *m)
{
    m->nn.gathered = m->nn.weight = NULL;
    m->shared = (struct shared){ .loss = NULL };
    for (int p = 0; p < m->num_pools; p++) {
        clear_pool (&m->pool[p]);
        m->pool[p].slot = NULL;
        m->pool[p].num_slots = 0;
    }
}

/* --- scratch of kernels: passes over addresses that nothing looks at --- */

static int fetch_nothing (void *arg, int microbatch, bool tokens, struct nn_batch *batch,
                          struct mg_error *err)
{
    (void)arg, (void)microbatch, (void)tokens, (void)batch, (void)err;
    return 0;
}

/* Parameters that have no memory yet get 'to' in the place of 'from'. */
static void point_params (struct model *m, void *from, void *to)
{
    for (size_t i = 0; i < m->num_params; i++) {
        if (m->param[i].data == from)
            m->param[i].data = to;
        if (m->param[i].grad == from)
            m->param[i].grad = to;
    }
}

/* One pass of each kind through every chunk. */
static int run_nowhere (struct model *m, struct mg_error *err)
{
    for (int c = 0; c < m->num_chunks; c++)
        if (model_forward (m, c, 0, 0, true, err) < 0 || model_backward (m, c, 0, err) < 0)
            return -1;
    return 0;
}

int model_scratch_bytes (struct model *m, size_t *bytes, struct mg_error *err)
{
    _Alignas (ARENA_ALIGN) char nowhere[ARENA_ALIGN];
    const struct model_hooks hooks = m->hooks;
    model_fetch_f fetch = m->fetch;
    struct arena a;
    int rc;

    if (m->scratch == 0) {
        arena_init (&a, nowhere, PTRDIFF_MAX);
        point_params (m, NULL, nowhere);
        m->fetch = fetch_nothing;
        m->hooks = (struct model_hooks){ .arg = NULL };
        m->nn.planning = true;
        device_plan_begin (m->device);
        rc = bind_all (m, NULL, &a, err) < 0 ? -1 : run_nowhere (m, err);
        m->scratch = device_plan_end (m->device);
        m->nn.planning = false;
        m->hooks = hooks;
        m->fetch = fetch;
        point_params (m, nowhere, NULL);
        unbind_all (m);
        if (rc < 0) {
            m->scratch = 0;
            return mg_error_prefix (err, "planning scratch of kernels");
        }
    }
    *bytes = m->scratch;
    return 0;
}

int model_bind (struct model *m, const int *slots, struct mg_error *err)
{
    size_t size = model_activation_bytes (m, slots), scratch;
    struct arena a;

    if (size == 0)
        return mg_error_set (err, EOVERFLOW, "activations of this model are too large");
    if (model_scratch_bytes (m, &scratch, err) < 0
        || device_reserve_scratch (m->device, scratch, err) < 0)
        return -1;
    if (!(m->memory = device_alloc (m->device, size, err)))
        return mg_error_prefix (err, "activations");
    arena_init (&a, m->memory, size);
    return bind_all (m, slots, &a, err);
}

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

size_t model_boundary_count (const struct model *m)
{
    return (size_t)m->nn.rows * (size_t)m->nn.hidden;
}

enum mg_dtype model_dtype (const struct model *m)
{
    return m->nn.dtype;
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
    return nn->kern->ops->cast (nn->kern, nn->rows * nn->hidden, s->input, nn->dtype,
                                s->output, nn->dtype, nn->compute, err);
}

int model_forward (struct model *m, int chunk, int slot, int microbatch, bool training,
                   struct mg_error *err)
{
    struct chunk *c = &m->chunk[chunk];
    struct slot *s = &c->pool->slot[slot];
    struct head_loss loss = { m->weight, m->shared.loss, m->spec.per_token_loss };

    if (m->fetch (m->fetch_arg, microbatch, c->part.first || c->part.last, &s->batch, err) < 0)
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
    return m->chunk[m->num_chunks - 1].part.last;
}

struct mg_stream *model_stream (struct model *m)
{
    return m->nn.compute;
}

const struct nn *model_nn (const struct model *m)
{
    return &m->nn;
}
