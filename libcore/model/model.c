/* model.c - this rank's chunks of the model, and its properties
 *
 * model_create() makes streams, sizes, specifications and chunks, in this order.  Passes are in
 * model_pass.c, and memory is in model_memory.c.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/stream.h"
#include "libcore/model/model_private.h"

void *model_allocate (size_t n, size_t size, struct mg_error *err)
{
    void *p = calloc (n > 0 ? n : 1, size);

    if (!p)
        mg_error_set (err, ENOMEM, "model: out of memory");
    return p;
}

static int setup_side (struct model *m, const char *name, struct nn_side *side,
                       struct mg_error *err)
{
    if (!(side->stream = stream_create (m->device, MG_STREAM_COMM, STREAM_HIGH, name, err))
        || !(side->computed = mg_event_create (m->device, err))
        || !(side->communicated = mg_event_create (m->device, err))
        || !(side->open = model_allocate (1, sizeof (*side->open), err)))
        return -1;
    return 0;
}

static void clear_side (struct nn_side *side)
{
    mg_stream_destroy (side->stream);
    mg_event_destroy (side->computed);
    mg_event_destroy (side->communicated);
    free (side->open);
}

static int setup_streams (struct model *m, struct mg_error *err)
{
    struct nn *nn = &m->nn;

    if (!(nn->compute = mg_stream_create (m->device, MG_STREAM_COMPUTE, "compute", err))
        || setup_side (m, "tp", &nn->tp_side, err) < 0)
        return -1;
    if (nn->cp_size > 1 && setup_side (m, "cp", &nn->cp_side, err) < 0)
        return -1;
    return nn->config.moe.experts > 0 ? setup_side (m, "ep", &nn->experts.side, err) : 0;
}

/* This rank's place in the expert grid.  The order of the axes decides where the ranks of a group
 * are in it.
 */
static void setup_experts (struct nn *nn, const struct job *job)
{
    const struct grid *grid = job_grid (job);
    struct nn_experts *x = &nn->experts;
    struct group group;

    x->ep_rank = job_group_rank (job, GROUP_EP);
    x->ep_size = job_group_size (job, GROUP_EP);
    x->etp_rank = job_group_rank (job, GROUP_ETP);
    x->etp_size = job_group_size (job, GROUP_ETP);
    x->ep = job_comm (job, GROUP_EP);
    x->etp = job_comm (job, GROUP_ETP);
    x->group = job_comm (job, GROUP_TP_EP);
    x->sequence = job_comm (job, GROUP_TP_CP);
    x->all = job_comm (job, GROUP_TP_DP_CP);
    x->stride_ep = x->stride_etp = 1;
    grid_group_of (grid, GROUP_TP_EP, job_rank (job), &group);
    for (int i = 0; i < group.size; i++) {
        int rank = group_at (&group, i), ep = grid_coord (grid, true, MG_AXIS_EP, rank);
        int etp = grid_coord (grid, true, MG_AXIS_TP, rank);

        if (ep == 1 && etp == 0)
            x->stride_ep = i;
        if (etp == 1 && ep == 0)
            x->stride_etp = i;
    }
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
    nn->cp = job_comm (job, GROUP_CP);
    nn->cp_rank = mg_comm_rank (nn->cp);
    nn->cp_size = mg_comm_size (nn->cp);
    nn->cp_inner = job_comm_context (job, true);
    nn->cp_outer = job_comm_context (job, false);
    nn->context = m->spec.context;
    nn->sequence_parallel = m->spec.sequence_parallel;
    nn->cache = (struct nn_cache){ .sequences = m->spec.cache.sequences,
                                   .length = m->spec.cache.length };
    setup_experts (nn, job);
    nn_set_sizes (nn);
}

static void setup_shape (struct model *m, enum model_passes kind, int batch, int seq)
{
    struct nn_shape *s = &m->shape[kind];
    const struct nn_sequence rows = { .rows = m->spec.cache.rows };

    if (m->nn.cache.length > 0)
        nn_shape_continue (s, &m->nn, &rows, 1, m->spec.cache.wanted);
    else
        nn_shape_init (s, &m->nn, batch, seq);
    s->sequence = NULL;
    s->num_sequences = 0;
    nn_plan_shape (&m->planned, s);
    if (s->rows == s->tokens && m->nn.cp_size == 1)
        return;
    // from model_bind() on they have values
    s->position = (struct kern_positions){ .at = tensor_address (NULL), .stride_s = 1 };
    if (m->nn.cp_size > 1)
        s->positions = (struct tensor){ .dtype = MG_INT32, .ndims = 1, .shape = { s->whole_seq },
                                        .live = s->whole_seq };
}

static int eval_batch (const struct model_spec *s)
{
    return s->eval_micro_batch_size > 0 ? s->eval_micro_batch_size : s->micro_batch_size;
}

static int eval_seq (const struct model_spec *s)
{
    return s->eval_seq_length > 0 ? s->eval_seq_length : s->config.seq_length;
}

static void setup_shapes (struct model *m)
{
    setup_shape (m, MODEL_TRAINING, m->spec.micro_batch_size, m->spec.config.seq_length);
    setup_shape (m, MODEL_EVALUATION, eval_batch (&m->spec), eval_seq (&m->spec));
    m->nn.cache.rows = m->planned.tokens;
}

/* Mark the phases of transformer layers that are captured, and those that are computed again. */
static int setup_block (struct model *m, struct layer_spec *spec, struct layer_spec *again,
                        struct mg_error *err)
{
    const struct recompute *r = &m->spec.recompute;
    const struct graphs *graphs = &m->spec.graphs;

    if (graphs->impl == GRAPHS_LAYERS && layer_spec_capture (spec, graphs->scopes, err) < 0)
        return -1;
    *again = *spec;
    if (r->granularity == RECOMPUTE_SELECTIVE && layer_spec_recompute (spec, r->modules, err) < 0)
        return -1;
    if (layer_spec_check_capture (spec, err) < 0)
        return -1;
    return layer_spec_recompute (again, RECOMPUTE_ALL, err);
}

static int setup_specs (struct model *m, struct mg_error *err)
{
    if (model_list_create (&m->list, model_family (&m->nn.config), &m->nn, &m->planned, err) < 0
        || !(m->again_spec = model_allocate ((size_t)m->list.family->num_specs,
                                             sizeof (*m->again_spec), err)))
        return -1;
    for (int i = 0; i < m->list.family->num_specs; i++) {
        if (m->list.spec[i].block
            && setup_block (m, &m->list.spec[i], &m->again_spec[i], err) < 0)
            return -1;
    }
    return 0;
}

static int setup_losses (struct model *m, struct mg_error *err)
{
    if (!(m->loss_row = model_allocate ((size_t)m->list.num_losses, sizeof (*m->loss_row), err)))
        return -1;
    for (int i = 0; i < m->list.n; i++) {
        const struct model_place *p = &m->list.place[i];
        const struct layer_loss *loss = &m->list.spec[p->spec].loss;

        if (p->loss == 0)
            continue;
        m->loss_row[p->loss - 1].factor = loss->factor;
        layer_format (loss->name, p->mtp, m->loss_row[p->loss - 1].name, MODEL_LOSS_NAME);
    }
    return 0;
}

/* Put the transformer layers of a chunk into units.  Outputs between two units can be split.
 * Layers for multi-token prediction are units of their own, as in Megatron-LM, which has no such
 * units with RECOMPUTE_BLOCK.
 */
static void form_units (struct model *m, struct chunk *chunk)
{
    const struct recompute *r = &m->spec.recompute;
    bool mtp = r->granularity == RECOMPUTE_FULL && r->method == RECOMPUTE_UNIFORM;
    int n = chunk->part.num_layers, turn = 0;

    for (int l = 0; l < chunk->num_layers; l++) {
        struct layer *layer = &chunk->layer[l];
        int i = l - chunk->first_layer;
        struct recompute_unit unit = { .first = i, .size = mtp };

        if (layer->mtp == 0)
            unit = recompute_unit_of (r, n, i);
        if (!layer->spec->block || unit.size == 0)
            continue;
        layer->spec = &m->again_spec[layer->spec - m->list.spec];
        layer->unit = (struct layer_unit){ .size = unit.size, .place = i - unit.first };
        if (r->split_saved && i + 1 == unit.first + unit.size && i + 1 < n
            && recompute_unit_of (r, n, i + 1).size > 0)
            layer->unit.split = 1 + turn++ % 2;
    }
}

/* Describe the layers of a chunk, and where the tensors of each are in a slot's. */
static int describe_chunk (struct model *m, int c, struct model_describer *d,
                           struct mg_error *err)
{
    struct chunk *chunk = &m->chunk[c];
    int n;

    model_part_layers (&m->list, &chunk->part, &n);
    if (!(chunk->layer = model_allocate ((size_t)n, sizeof (*chunk->layer), err))
        || !(chunk->tensor = model_allocate ((size_t)n, sizeof (*chunk->tensor), err)))
        return -1;
    chunk->num_layers = n;
    chunk->output = -1;
    model_describe_part (d, &chunk->part, c, chunk->layer);
    for (int i = 0; i < n; i++) {
        if (chunk->layer[i].spec->block
            || chunk->layer[i].spec == &m->list.spec[m->list.family->copy])
            chunk->output = i;
    }
    chunk->first_layer = chunk->part.first ? m->list.first_layer : 0;
    form_units (m, chunk);
    return 0;
}

/* Give the layers with experts their routers. */
static int setup_routers (struct model *m, struct mg_error *err)
{
    const struct nn_experts *x = &m->nn.experts;
    size_t most = (size_t)(x->ep_size > x->etp_size ? x->ep_size : x->etp_size);
    int n = 0;

    for (int c = 0; c < m->num_chunks; c++) {
        for (int l = 0; l < m->chunk[c].num_layers; l++)
            m->num_routers += m->chunk[c].layer[l].spec->router
                              && m->chunk[c].layer[l].num_own > 0;
    }
    if (!(m->router = model_allocate ((size_t)m->num_routers, sizeof (*m->router), err))
        || !(m->nn.experts.lists = model_allocate (4 * most, sizeof (*x->lists), err)))
        return -1;
    for (int c = 0; c < m->num_chunks; c++) {
        for (int l = 0; l < m->chunk[c].num_layers; l++) {
            struct layer *layer = &m->chunk[c].layer[l];

            if (!layer->spec->router)
                continue;
            if (layer->num_own == 0) { // it repeats one, which is right before the others
                layer->router = &m->router[n - 1];
                continue;
            }
            layer->router = &m->router[n++];
            layer->router->layer = layer->number;
            layer_name (layer, "mlp.router.expert_bias", layer->router->bias_name);
            layer_name (layer, "mlp.router.qb_beta", layer->router->beta_name);
        }
    }
    return 0;
}

/* Find the layers of each chunk of this rank, and their parameters. */
static int describe_chunks (struct model *m, const struct stages *stages, int rank,
                            struct mg_error *err)
{
    struct model_describer d = { .nn = &m->nn, .list = &m->list,
                                 .sequence_parallel = m->planned.rows < m->planned.tokens };
    size_t n = (size_t)stages->vpp, records = 0;

    if (!(m->chunk = model_allocate (n, sizeof (*m->chunk), err)))
        return -1;
    m->num_chunks = stages->vpp;
    for (int c = 0; c < m->num_chunks; c++) {
        m->chunk[c].part = model_part_at (stages, rank, c);
        records += model_part_params (&m->list, &m->chunk[c].part);
    }
    if (!(m->param = model_allocate (records, sizeof (*m->param), err)))
        return -1;
    d.first = d.next = m->param;
    for (int c = 0; c < m->num_chunks; c++) {
        if (describe_chunk (m, c, &d, err) < 0)
            return -1;
    }
    m->num_params = (size_t)(d.next - d.first);
    return setup_routers (m, err) < 0 ? -1 : model_plan_pools (m, err);
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
    if (mtp != spec->config.mtp_num_layers)
        return mg_error_set (err, EINVAL, "model: the stages have %d layers for multi-token "
                             "prediction, the model has %d", mtp, spec->config.mtp_num_layers);
    if (s->stage[s->pp * s->vpp - 1].mtp_layers != mtp)
        return mg_error_set (err, ENOTSUP, "model: layers for multi-token prediction are on the "
                             "stage of the loss in this version: the last stage of the layout must "
                             "have all m");
    return 0;
}

/* Cut the model into this rank's chunks. */
static int setup_chunks (struct model *m, const struct job *job, struct mg_error *err)
{
    const struct grid *grid = job_grid (job);
    int pp = grid_size (grid, false, MG_AXIS_PP), rc;
    int rank = grid_coord (grid, false, MG_AXIS_PP, job_rank (job));
    const struct stages_config even = { .num_layers = m->spec.config.num_layers, .pp = pp,
                                        .mtp_layers = m->spec.config.mtp_num_layers };
    struct stages *own = NULL;

    if (!m->spec.stages) {
        if (!(own = stages_create (&even, err)))
            return -1;
        m->spec.stages = own;
    }
    rc = check_stages (&m->spec, pp, err);
    if (rc == 0)
        rc = describe_chunks (m, m->spec.stages, rank, err);
    m->spec.stages = NULL; // the caller's, or going
    stages_destroy (own);
    return rc;
}

/* Check that the job has the levels of the context-parallel group that layers need. */
static int check_levels (const struct model_spec *spec, const struct job *job, int cp,
                         struct mg_error *err)
{
    const struct mg_comm *inner = job_comm_context (job, true);
    int size = context_levels (&spec->context, cp);

    if (size == 0 || (inner && mg_comm_size (inner) == size))
        return 0;
    return mg_error_set (err, EINVAL, "model: the job has no groups of %d context-parallel "
                         "neighbours", size);
}

/* The router sees this rank's own rows. */
static int check_experts (const struct model_config *c, const struct model_layout *layout,
                          struct mg_error *err)
{
    if (c->moe.experts == 0)
        return 0;
    if (layout->tp > 1 && !layout->sequence_parallel)
        return mg_error_set (err, EINVAL, "model: experts with tp %d need sequence parallelism",
                             layout->tp);
    return 0;
}

/* Kernels number rows by int32_t. */
static int check_rows (const struct nn *nn, const struct nn_shape *shape, struct mg_error *err)
{
    const struct nn_experts *x = &nn->experts;
    const struct nn_expert_rows *r = &shape->experts;
    double all = (double)shape->rows * nn->config.moe.topk * x->ep_size * x->etp_size;

    if (nn->config.moe.experts == 0
        || (all <= INT32_MAX && r->rows <= INT32_MAX && r->choices <= INT32_MAX))
        return 0;
    return mg_error_set (err, ERANGE, "model: the tokens of %d ranks that share experts, %lld each "
                         "with topk %d, take %.4g rows, want at most %d",
                         x->ep_size * x->etp_size, (long long)shape->rows, nn->config.moe.topk, all,
                         INT32_MAX);
}

/* Check the rules for passes over 'batch' sequences of 'seq' positions. */
static int check_passes (const struct model_spec *spec, const struct model_layout *layout,
                         int batch, int seq, const char *prefix, struct mg_error *err)
{
    struct model_config config = spec->config;

    config.seq_length = seq;
    if (config.positions != MODEL_LEARNED && config.max_positions < seq)
        config.max_positions = seq; // no table ends there
    if (model_config_validate (&config, layout, err) < 0)
        return prefix[0] ? mg_error_prefix (err, "evaluation with %sseq-length %d", prefix, seq)
                         : -1;
    if (batch < 1 || (int64_t)batch * seq > INT32_MAX)
        return mg_error_set (err, EINVAL, "%smicro-batch-size %d x %sseq-length %d is not 1 to "
                             "2^31 - 1", prefix, batch, prefix, seq);
    return 0;
}

/* Check that a model with caches has nothing that caches exclude. */
static int check_cache (const struct model_spec *spec, const struct model_layout *layout,
                        struct mg_error *err)
{
    const struct model_config *c = &spec->config;

    if (spec->cache.length == 0 && spec->cache.sequences == 0)
        return 0;
    if (spec->cache.length < 1 || spec->cache.sequences < 1 || spec->cache.rows < 1
        || spec->cache.wanted < 1 || spec->cache.wanted > spec->cache.rows)
        return mg_error_set (err, EINVAL, "model: caches of %d sequences, %d positions, passes of "
                             "%d rows, %d of them wanted: want 1 or more of each, and no more "
                             "wanted than rows", spec->cache.sequences, spec->cache.length,
                             spec->cache.rows, spec->cache.wanted);
    if (c->positions == MODEL_LEARNED && spec->cache.length > c->max_positions)
        return mg_error_set (err, EINVAL, "model: caches of %d positions, the model has %d",
                             spec->cache.length, c->max_positions);
    if (layout->cp > 1 || c->mtp_num_layers > 0)
        return mg_error_set (err, ENOTSUP, "model: caches exclude %s in this version",
                             layout->cp > 1 ? "context parallelism" : "multi-token prediction");
    if (spec->recompute.granularity != RECOMPUTE_NOTHING || spec->graphs.impl != GRAPHS_NONE)
        return mg_error_set (err, EINVAL, "model: caches exclude recomputation and graphs");
    return 0;
}

struct model *model_create (const struct model_spec *spec, const struct job *job,
                            struct mg_error *err)
{
    const struct grid *grid = job_grid (job);
    const struct model_layout layout = {
        .tp = grid_size (grid, false, MG_AXIS_TP),
        .cp = grid_size (grid, false, MG_AXIS_CP),
        .ep = grid_size (grid, true, MG_AXIS_EP),
        .etp = grid_size (grid, true, MG_AXIS_TP),
        .sequence_parallel = spec->sequence_parallel,
        .context = spec->context,
    };
    struct model *m;

    if (check_passes (spec, &layout, spec->micro_batch_size, spec->config.seq_length, "", err) < 0
        || check_passes (spec, &layout, eval_batch (spec), eval_seq (spec), "eval-", err) < 0
        || check_cache (spec, &layout, err) < 0 || check_levels (spec, job, layout.cp, err) < 0)
        return NULL;
    if (check_experts (&spec->config, &layout, err) < 0)
        return NULL;
    if (spec->graphs.impl != GRAPHS_NONE && !device_has_graphs (job_device (job))) {
        mg_error_set (err, ENOTSUP, "model: device %s has no graphs: no --cuda-graph-impl",
                      device_name (job_device (job)));
        return NULL;
    }
    if (!(m = calloc (1, sizeof (*m)))) {
        mg_error_set (err, ENOMEM, "model: out of memory");
        return NULL;
    }
    m->spec = *spec;
    m->device = job_device (job);
    setup_sizes (m, job);
    setup_shapes (m);
    if (check_rows (&m->nn, &m->planned, err) < 0 || setup_streams (m, err) < 0
        || setup_specs (m, err) < 0 || setup_losses (m, err) < 0
        || model_config_sizes (&spec->config, &m->sizes, err) < 0
        || setup_chunks (m, job, err) < 0)
        goto error;
    return m;
error:
    model_destroy (m);
    return NULL;
}

void model_destroy (struct model *m)
{
    int saved_errno = errno;

    if (!m)
        return;
    model_drop_graphs (m);
    clear_side (&m->nn.experts.side);
    clear_side (&m->nn.cp_side);
    clear_side (&m->nn.tp_side);
    mg_stream_destroy (m->nn.compute);
    for (int c = 0; m->chunk && c < m->num_chunks; c++) {
        free (m->chunk[c].layer);
        free (m->chunk[c].tensor);
    }
    for (int p = 0; p < m->num_pools; p++)
        model_clear_slots (&m->pool[p]);
    free (m->shared.set);
    free (m->cache);
    model_list_clear (&m->list);
    free (m->again_spec);
    free (m->loss_row);
    free (m->chunk);
    free (m->pool);
    free (m->pool_of);
    free (m->param);
    free (m->router);
    free (m->nn.experts.lists);
    device_host_free (m->device, m->routed);
    mg_event_destroy (m->brought);
    device_host_free (m->device, m->values);
    device_host_free (m->device, m->results);
    device_host_free (m->device, m->routers_host);
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

const struct model_sizes *model_sizes_of (const struct model *m)
{
    return &m->sizes;
}

const struct model_config *model_config_of (const struct model *m)
{
    return &m->spec.config;
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

struct model_cost model_cost (const struct model *m)
{
    const struct nn_shape *shape = &m->shape[MODEL_TRAINING];
    struct model_cost cost = { 0 };

    for (int c = 0; c < m->num_chunks; c++) {
        for (int l = 0; l < m->chunk[c].num_layers; l++) {
            const struct layer *layer = &m->chunk[c].layer[l];

            cost.forward += layer_cost (layer->spec, UINT64_MAX, &m->nn, shape);
            cost.again += layer_cost (layer->spec, layer_again (layer), &m->nn, shape);
        }
    }
    return cost;
}

size_t model_boundary_count (const struct model *m, const struct nn_shape *shape)
{
    return (size_t)(shape ? shape : &m->shape[MODEL_TRAINING])->rows * (size_t)m->nn.hidden;
}

enum mg_dtype model_dtype (const struct model *m)
{
    return m->nn.dtype;
}

const struct model_loss *model_losses (const struct model *m, int *n)
{
    *n = m->list.num_losses;
    return m->loss_row;
}

int model_clear_losses (struct model *m, struct mg_error *err)
{
    const struct tensor *most = &m->shared.max_logit;

    if (most->data
        && device_set (m->nn.compute, most->data, 0, sizeof (float), err) < 0)
        return -1;
    return device_set (m->nn.compute, m->shared.loss.data, 0,
                       (size_t)tensor_count (&m->shared.loss) * sizeof (double), err);
}

int model_download_losses (struct model *m, struct mg_error *err)
{
    const struct tensor *loss = &m->shared.loss, *most = &m->shared.max_logit;
    size_t n = (size_t)tensor_count (loss);

    if (most->data
        && device_download (m->nn.compute, m->results + n, most->data, sizeof (float), err) < 0)
        return -1;
    return device_download (m->nn.compute, m->results, loss->data, n * sizeof (double), err);
}

int model_fetch_losses (struct model *m, struct mg_error *err)
{
    return model_download_losses (m, err) < 0 ? -1 : mg_stream_synchronize (m->nn.compute, err);
}

void model_loss (const struct model *m, int loss, double sums[3])
{
    memcpy (sums, m->results + 3 * (size_t)loss, 3 * sizeof (double));
}

double model_max_logit (const struct model *m)
{
    float most;

    if (!m->shared.max_logit.data)
        return -1;
    memcpy (&most, m->results + tensor_count (&m->shared.loss), sizeof (most));
    return (double)most;
}

struct router_state *model_routers (struct model *m, int *n)
{
    *n = m->num_routers;
    return m->router;
}

int model_clear_routers (struct model *m, struct mg_error *err)
{
    for (int i = 0; i < m->num_routers; i++) {
        if (router_clear (&m->router[i], &m->nn, err) < 0)
            return -1;
    }
    return 0;
}

int model_update_routers (struct model *m, struct mg_error *err)
{
    for (int i = 0; i < m->num_routers; i++) {
        struct router_state *r = &m->router[i];

        if (router_update (r, &m->nn, err) < 0)
            return mg_error_prefix (err, "router of layer %d", r->layer);
    }
    return 0;
}

void model_read_routers (const struct model *m, struct router_stats *stats)
{
    for (int i = 0; i < m->num_routers; i++) {
        const struct router_state *r = &m->router[i];

        router_read (r, &m->nn, &m->shape[MODEL_TRAINING], &stats[r->layer]);
    }
}

int model_copy_routers (struct model *m, struct mg_error *err)
{
    for (int i = 0; i < m->num_routers; i++) {
        if (router_copy (&m->router[i], &m->nn, err) < 0)
            return -1;
    }
    return 0;
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

int model_continue (const struct model *m, const struct nn_sequence *sequence, int n,
                    int64_t wanted, struct nn_shape *shape, struct mg_error *err)
{
    nn_shape_continue (shape, &m->nn, sequence, n, wanted);
    shape->angles = m->shape[MODEL_EVALUATION].angles;
    return nn_fits (&m->planned, shape, err) < 0 ? -1 : nn_check_sequences (&m->nn, shape, err);
}

const struct nn_shape *model_shape (const struct model *m, enum model_passes kind)
{
    return &m->shape[kind];
}

const struct nn_shape *model_planned_shape (const struct model *m)
{
    return &m->planned;
}
