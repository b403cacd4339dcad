/* model.c - this rank's chunks of the model, and what is known of them */

#include <errno.h>
#include <stdlib.h>

#include "libcore/nn/model_private.h"

void *model_allocate (size_t n, size_t size, struct mg_error *err)
{
    void *p = calloc (n > 0 ? n : 1, size);

    if (!p)
        mg_error_set (err, ENOMEM, "model: out of memory");
    return p;
}

static int setup_streams (struct model *m, struct mg_error *err)
{
    struct nn *nn = &m->nn;

    if (!(nn->compute = mg_stream_create (m->device, MG_STREAM_COMPUTE, "compute", err))
        || !(nn->tp_stream = mg_stream_create (m->device, MG_STREAM_COMM, "tp", err))
        || !(nn->computed = mg_event_create (m->device, err))
        || !(nn->communicated = mg_event_create (m->device, err))
        || !(m->taken = mg_event_create (m->device, err)))
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
    nn->hidden = c->hidden_size;
    nn->head_dim = c->kv_channels;
    nn->local_heads = c->num_heads / nn->tp_size;
    nn->local_attention = nn->local_heads * nn->head_dim;
    nn->local_ffn = c->ffn_hidden_size / nn->tp_size;
    nn->local_vocab = c->padded_vocab_size / nn->tp_size;
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
    if (!(m->chunk = model_allocate (n, sizeof (*m->chunk), err))
        || !(m->pool = model_allocate (n, sizeof (*m->pool), err))
        || !(m->pool_of = model_allocate (n, sizeof (*m->pool_of), err)))
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

    if (!(m->param = model_allocate (m->num_params, sizeof (*m->param), err)))
        return -1;
    next = m->param;
    for (int c = 0; c < m->num_chunks; c++) {
        struct chunk *chunk = &m->chunk[c];
        struct model_places places = { .embedding = &m->embedding, .head = &m->head };

        if (!(chunk->block = model_allocate ((size_t)chunk->part.num_layers,
                                             sizeof (struct block), err)))
            return -1;
        places.block = chunk->block;
        chunk->first = (size_t)(next - m->param);
        next = model_describe_part (&m->nn, &chunk->part, c, next, &places);
        for (int i = 0; i < chunk->part.num_layers; i++) {
            if (block_make_keys (&chunk->block[i], &m->nn, err) < 0)
                return -1;
        }
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

static void clear_chunk (struct chunk *chunk, struct mg_device *device)
{
    for (int i = 0; chunk->block && i < chunk->part.num_layers; i++)
        block_clear (&chunk->block[i], device);
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
    mg_event_destroy (m->taken);
    device_host_free (m->device, m->staged.token);
    device_host_free (m->device, m->staged.label);
    device_host_free (m->device, m->staged.mask);
    device_host_free (m->device, m->staged.sample);
    for (int c = 0; m->chunk && c < m->num_chunks; c++)
        clear_chunk (&m->chunk[c], m->device);
    for (int p = 0; p < m->num_pools; p++)
        model_clear_pool (&m->pool[p]);
    free (m->chunk);
    free (m->pool);
    free (m->pool_of);
    free (m->param);
    device_free (m->device, m->memory);
    device_free (m->device, m->position);
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

int model_num_pools (const struct model *m)
{
    return m->num_pools;
}

size_t model_boundary_count (const struct model *m)
{
    return (size_t)m->nn.rows * (size_t)m->nn.hidden;
}

enum mg_dtype model_dtype (const struct model *m)
{
    return m->nn.dtype;
}

int model_loss (struct model *m, double sums[3], struct mg_error *err)
{
    return device_fetch (m->nn.compute, sums, m->shared.loss, 3 * sizeof (double), err);
}

int model_clear_loss (struct model *m, struct mg_error *err)
{
    return device_set (m->nn.compute, m->shared.loss, 0, 3 * sizeof (double), err);
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
