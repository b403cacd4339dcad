/* model_memory.c - slots of activations, and the memory of a model
 *
 * One piece of code carves the memory.  It runs without memory first (arena.h), so the planned
 * memory is the used memory.  Chunks whose layers keep as much for a microbatch share slots: a slot
 * then has the tensors of each chunk in the same memory.  Tensors that are not used between layers
 * exist once for each name, with room for the largest tensor of that name.  Recomputed tensors
 * exist once for each name and each layer of a unit.  Of these, tensors that only forward passes
 * use and tensors that only backward passes use share memory; a phase that runs forward again is a
 * use by backward passes (layer_tensor_passes()).
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/stream.h"
#include "libcore/model/model_private.h"
#include "libcore/ops/moe_rounds.h"

void model_clear_slots (struct slot_pool *pool)
{
    for (int s = 0; pool->slot && s < pool->num_slots; s++)
        free (pool->slot[s].tensor);
    free (pool->slot);
    pool->slot = NULL;
    pool->num_slots = 0;
}

/* --- what is carved --- */

static struct tensor take (struct arena *a, enum mg_dtype dtype, int64_t rows, int64_t cols)
{
    struct tensor t = { .dtype = dtype, .ndims = 2, .shape = { rows, cols }, .live = rows };

    tensor_carve (&t, a);
    return t;
}

/* The index, in a set, of the shared tensor with the name of a layer's tensor; -1: there is none.
 */
static int find_shared (const struct shared_set *set, const struct layer_tensor *row)
{
    for (int i = 0; i < set->num_tensors; i++) {
        const struct shared_tensor *s = &set->tensor[i];

        if (s->gradient == row->gradient && strcmp (s->name, row->name) == 0)
            return i;
    }
    return -1;
}

/* The set of shared tensors that has the tensor of a layer; -1: no set has it. */
static int set_of (const struct layer *layer, const struct layer_tensor *row)
{
    const struct layer_unit *unit = &layer->unit;

    if (row->life == LIFE_SHARED)
        return 0;
    if (row->life == LIFE_RECOMPUTED
        || (row->life == LIFE_OUTPUT && unit->place + 1 < unit->size))
        return unit->place;
    return -1;
}

int64_t model_split_count (const struct model *m, const struct nn_shape *shape)
{
    return (shape->rows * m->nn.hidden + m->nn.tp_size - 1) / m->nn.tp_size;
}

/* Place of a layer's tensor 'i', which is kept from pass to pass, among those of the model. */
static size_t cache_at (const struct layer *layer, int i)
{
    size_t at = layer->cache;

    for (int k = 1; k < i; k++)
        at += layer->spec->tensor[k].life == LIFE_CACHE;
    return at;
}

/* Memory of a layer's output that is kept from one microbatch's pass to the next. */
static void carve_output (const struct model *m, const struct layer *layer, struct tensor *t,
                          const struct slot *s, struct tensor *part, struct arena *a)
{
    if (layer->step == 0) // what is at the bottom of a model gets no input
        t->data = s->input.data;
    else if (layer->unit.split > 0) {
        *part = take (a, m->nn.dtype, model_split_count (m, &m->planned), 1);
        t->data = m->shared.whole[layer->unit.split - 1].data;
    } else
        tensor_carve (t, a);
}

/* The memory of a layer's tensor, between that of the layers beside it; 'part' is for this rank's
 * part of a split output.
 */
static struct tensor carve_tensor (const struct model *m, const struct layer *layer, int i,
                                   const struct slot *s, const struct tensor *below,
                                   struct tensor *part, struct arena *a)
{
    const struct layer_tensor *row = &layer->spec->tensor[i];
    struct tensor t = layer_tensor_of (&m->nn, layer->spec, i);
    const struct nn_input *in;
    int set = set_of (layer, row);

    if (set >= 0) {
        const struct shared_set *shared = &m->shared.set[set];

        t.data = shared->tensor[find_shared (shared, row)].tensor.data;
        return t;
    }
    switch (row->life) {
    case LIFE_INPUT:
        t.data = below->data;
        break;
    case LIFE_GRADIENT:
        t.data = s->gradient.data;
        break;
    case LIFE_BATCH: // there are none while what a chunk keeps is counted
        in = nn_inputs_find (&s->in, row->name);
        if (in && in->tensor.data)
            t.data = tensor_at (&in->tensor, row->parts > 0 ? layer->mtp * row->shape[0] : 0);
        break;
    case LIFE_CACHE:
        t.data = m->cache[cache_at (layer, i)].data;
        break;
    case LIFE_LOSS:
        if (m->shared.loss.data)
            t.data = tensor_at (&m->shared.loss, 3 * (layer->loss - 1));
        break;
    case LIFE_OUTPUT:
        carve_output (m, layer, &t, s, part, a);
        break;
    default:
        tensor_carve (&t, a);
    }
    return t;
}

/* Carve the memory that the layers of a chunk keep in a slot.  'tensor' has room for the tensors of
 * all layers.
 */
static void carve_chunk (const struct model *m, const struct chunk *chunk,
                         const struct slot *s, struct tensor *tensor, struct arena *a)
{
    const struct tensor *below = &s->input;

    for (int l = 0; l < chunk->num_layers; l++) {
        const struct layer *layer = &chunk->layer[l];
        struct tensor *own = tensor + chunk->tensor[l];
        int output = layer_find (layer->spec, LIFE_OUTPUT);

        for (int i = 1; i <= layer->spec->num_tensors; i++)
            own[i] = carve_tensor (m, layer, i, s, below, &own[LAYER_NONE], a);
        if (output != LAYER_NONE)
            below = &own[output];
    }
}

/* Carve a slot of a pool: inputs, boundaries, and the layers of each chunk of the pool in the same
 * place.
 */
static void carve_slot (const struct model *m, int pool, struct slot *s, struct arena *a)
{
    const struct nn_shape *shape = &m->planned;
    enum mg_dtype dtype = m->nn.dtype;
    struct arena start;
    size_t most;
    bool overflow = false;

    *s = (struct slot){ .live = *shape, .in = m->pool[pool].in, .tensor = s->tensor,
                        .routed = s->routed };
    for (int i = 0; i < s->in.n; i++)
        tensor_carve (&s->in.input[i].tensor, a);
    s->input = take (a, dtype, shape->rows, m->nn.hidden);
    s->gradient = take (a, dtype, m->num_caches > 0 ? 0 : shape->rows, m->nn.hidden);
    start = *a;
    most = a->used;
    for (int c = 0; c < m->num_chunks; c++) {
        if (m->pool_of[c] != pool)
            continue;
        *a = start;
        carve_chunk (m, &m->chunk[c], s, s->tensor, a);
        most = a->used > most ? a->used : most;
        overflow |= a->overflow;
    }
    a->used = most;
    a->overflow |= overflow;
}

/* True if a weight is stored in another type than that of products. */
static bool is_stored (const struct param *p)
{
    return p->storage != p->dtype;
}

/* Returns the count of numbers: the weights of losses, and one number for two scales; at least one.
 */
static int64_t num_values (const struct model *m)
{
    int64_t scales = 0, n;

    for (size_t i = 0; i < m->num_params; i++)
        scales += is_stored (&m->param[i]);
    n = m->list.num_losses + (scales + 1) / 2;
    return n > 0 ? n : 1;
}

/* Shared tensors of layers that certain passes use; a plan leaves those that are bound alone. */
static void carve_sets (struct shared *s, unsigned passes, bool plan, struct arena *a)
{
    for (int k = 0; k < s->num_sets; k++) {
        for (int i = 0; i < s->set[k].num_tensors; i++) {
            struct shared_tensor *shared = &s->set[k].tensor[i];
            struct tensor unbound = shared->tensor;

            if (shared->passes == passes)
                tensor_carve (plan ? &unbound : &shared->tensor, a);
        }
    }
}

/* Tensors that only forward passes use and tensors that only backward passes use share memory,
 * since a rank runs one pass at a time.
 */
static void carve_all_sets (struct shared *s, bool plan, struct arena *a)
{
    struct arena backward;

    carve_sets (s, 0, plan, a);
    carve_sets (s, LAYER_FORWARD | LAYER_BACKWARD, plan, a);
    backward = *a;
    carve_sets (s, LAYER_FORWARD, plan, a);
    carve_sets (s, LAYER_BACKWARD, plan, &backward);
    a->used = a->used > backward.used ? a->used : backward.used;
    a->overflow |= backward.overflow;
}

/* The state of routers, and the table of summands (struct nn_experts). */
static void carve_routers (const struct model *m, struct shared *s, bool plan, struct arena *a)
{
    const struct nn_experts *x = &m->nn.experts;

    for (int i = 0; i < m->num_routers; i++) {
        struct router_state unbound = { 0 };

        router_carve (plan ? &unbound : &m->router[i], m->nn.config.moe.experts, a);
    }
    s->summands = (struct tensor){ .data = NULL };
    if (m->num_routers > 0 && x->etp_size > 1)
        s->summands = take (a, MG_INT32, m->planned.experts.limit, x->etp_size);
}

enum model_passes model_tables (const struct model *m, enum model_passes kind)
{
    bool same = m->nn.cp_size == 1
                || m->shape[kind].whole_seq == m->shape[MODEL_TRAINING].whole_seq;

    return same ? MODEL_TRAINING : kind;
}

/* Tables of positions and of their angles.  Without context parallelism each position is at its
 * number, and the longest table is that of all passes.
 */
static void carve_tables (const struct model *m, struct shared *s, struct arena *a)
{
    for (int k = 0; k < MODEL_NUM_PASSES; k++) {
        const struct nn_shape *shape = m->nn.cp_size == 1 ? &m->planned : &m->shape[k];
        int64_t seq = shape->seq > m->nn.cache.length ? shape->seq : m->nn.cache.length;

        s->angles[k] = s->positions[k] = (struct tensor){ .data = NULL };
        if ((int)model_tables (m, (enum model_passes)k) != k)
            continue;
        if (m->shape[k].position.at)
            s->positions[k] = take (a, MG_INT32, shape->whole_seq, 1);
        if (model_rotates (&m->nn.config))
            s->angles[k] = take (a, MG_FLOAT32, seq, 2 * model_rope_pairs (&m->nn.config));
    }
    s->ring = (struct tensor){ .data = NULL };
    if (nn_kept (&m->nn, true) < m->nn.cache.length)
        s->ring = take (a, MG_INT32, 2 * nn_kept (&m->nn, true), 1);
}

static void carve_shared (const struct model *m, struct shared *s, bool plan, struct arena *a)
{
    carve_all_sets (s, plan, a);
    carve_routers (m, s, plan, a);
    for (size_t i = 0; i < m->num_caches; i++) {
        struct tensor unbound = m->cache[i];

        tensor_carve (plan ? &unbound : &m->cache[i], a);
    }
    for (int i = 0; i < 2 && s->split; i++)
        s->whole[i] = take (a, m->nn.dtype, m->nn.tp_size, model_split_count (m, &m->planned));
    s->values = take (a, MG_FLOAT64, num_values (m), 1);
    s->loss = take (a, MG_FLOAT64, m->list.num_losses, 3);
    s->max_logit = (struct tensor){ .data = NULL };
    if (m->spec.max_logit)
        s->max_logit = take (a, MG_FLOAT32, 1, 1);
    carve_tables (m, s, a);
}

/* --- plans --- */

/* Room for sets 0 to 'set'. */
static int grow_sets (struct shared *s, int set, struct mg_error *err)
{
    struct shared_set *more;

    if (set < s->num_sets)
        return 0;
    if (!(more = realloc (s->set, ((size_t)set + 1) * sizeof (*more))))
        return mg_error_set (err, ENOMEM, "model: out of memory");
    s->set = more;
    while (s->num_sets <= set)
        s->set[s->num_sets++].num_tensors = 0;
    return 0;
}

/* Make room for a layer's tensor in a set of shared tensors. */
static int add_shared (struct model *m, const struct layer *layer, int i, int k,
                       struct mg_error *err)
{
    const struct layer_tensor *row = &layer->spec->tensor[i];
    struct tensor t = layer_tensor_of (&m->nn, layer->spec, i);
    struct shared_set *set;
    int at;

    if (grow_sets (&m->shared, k, err) < 0)
        return -1;
    set = &m->shared.set[k];
    if ((at = find_shared (set, row)) < 0) {
        if (set->num_tensors == MAX_SHARED)
            return mg_error_set (err, EINVAL, "model: more than %d tensors are shared by all"
                                 " layers", MAX_SHARED);
        at = set->num_tensors++;
        set->tensor[at] = (struct shared_tensor){ row->name, row->gradient, t, 0 };
    }
    set->tensor[at].passes |= layer_tensor_passes (layer, i);
    if (tensor_capacity (&t) > tensor_capacity (&set->tensor[at].tensor))
        set->tensor[at].tensor = t;
    return 0;
}

/* Add a layer's tensor to the inputs of its chunk, if it is one of them. */
static int add_input (const struct model *m, struct chunk *chunk, const struct layer_spec *spec,
                      int i, struct mg_error *err)
{
    const struct layer_tensor *row = &spec->tensor[i];
    struct nn_input in = { row->name, row->parts > 0 ? row->parts : 1,
                           layer_tensor_of (&m->nn, spec, i), row->rows };

    in.tensor.live = in.tensor.shape[0] *= in.parts;
    return row->life == LIFE_BATCH ? nn_inputs_add (&chunk->in, &in, err) : 0;
}

/* Add the tensors of a layer that are kept from pass to pass to those of the model. */
static int add_caches (struct model *m, struct layer *layer, struct mg_error *err)
{
    layer->cache = m->num_caches;
    for (int i = 1; i <= layer->spec->num_tensors; i++) {
        struct tensor *more;

        if (layer->spec->tensor[i].life != LIFE_CACHE)
            continue;
        if (!(more = realloc (m->cache, (m->num_caches + 1) * sizeof (*more))))
            return mg_error_set (err, ENOMEM, "model: out of memory");
        m->cache = more;
        m->cache[m->num_caches++] = layer_tensor_of (&m->nn, layer->spec, i);
    }
    return 0;
}

/* Number the tensors of a chunk's layers, and collect inputs and those that are shared. */
static int list_tensors (struct model *m, struct chunk *chunk, size_t *n, struct mg_error *err)
{
    *n = 0;
    for (int l = 0; l < chunk->num_layers; l++) {
        const struct layer_spec *spec = chunk->layer[l].spec;

        if (add_caches (m, &chunk->layer[l], err) < 0)
            return -1;
        chunk->tensor[l] = *n;
        *n += (size_t)spec->num_tensors + 1;
        for (int i = 1; i <= spec->num_tensors; i++) {
            int set = set_of (&chunk->layer[l], &spec->tensor[i]);

            if ((set >= 0 && add_shared (m, &chunk->layer[l], i, set, err) < 0)
                || add_input (m, chunk, spec, i, err) < 0)
                return -1;
        }
        m->shared.split |= chunk->layer[l].unit.split > 0;
    }
    return 0;
}

/* Bytes that the layers of a chunk keep for a microbatch. */
static int chunk_bytes (const struct model *m, const struct chunk *chunk, size_t num_tensors,
                        size_t *bytes, struct mg_error *err)
{
    struct slot s = { .tensor = model_allocate (num_tensors, sizeof (*s.tensor), err) };
    struct arena a;

    if (!s.tensor)
        return -1;
    arena_init (&a, NULL, 0);
    carve_chunk (m, chunk, &s, s.tensor, &a);
    free (s.tensor);
    *bytes = a.overflow ? SIZE_MAX : a.used;
    return 0;
}

int model_plan_pools (struct model *m, struct mg_error *err)
{
    size_t n = (size_t)m->num_chunks;

    if (!(m->pool = model_allocate (n, sizeof (*m->pool), err))
        || !(m->pool_of = model_allocate (n, sizeof (*m->pool_of), err)))
        return -1;
    for (int c = 0; c < m->num_chunks; c++) {
        struct chunk *chunk = &m->chunk[c];
        size_t bytes, tensors;
        /* With graphs, the first chunk has slots of its own.  The other chunks then use the same
         * slots again and again, and the rank with the most slots has one more than without graphs.
         */
        int p = c > 0 && m->spec.graphs.impl == GRAPHS_LAYERS ? 1 : 0;

        if (list_tensors (m, chunk, &tensors, err) < 0
            || chunk_bytes (m, chunk, tensors, &bytes, err) < 0)
            return -1;
        while (p < m->num_pools && m->pool[p].bytes != bytes)
            p++;
        if (p == m->num_pools)
            m->pool[m->num_pools++].bytes = bytes;
        for (int i = 0; i < chunk->in.n; i++) {
            if (nn_inputs_add (&m->pool[p].in, &chunk->in.input[i], err) < 0)
                return -1;
        }
        for (int l = 0; l < chunk->num_layers; l++) /* behind those of the pool's other chunks */
            chunk->tensor[l] += m->pool[p].num_tensors;
        m->pool[p].num_tensors += tensors;
        m->pool_of[c] = p;
    }
    return 0;
}

/* Take the slots of a pool, which are of one size, without keeping where. */
static int plan_pool (struct model *m, int p, int slots, struct arena *a)
{
    const size_t from = a->used;
    struct slot s = { .tensor = model_allocate (m->pool[p].num_tensors, sizeof (*s.tensor),
                                                NULL) };

    if (!s.tensor)
        return -1;
    if (slots > 0)
        carve_slot (m, p, &s, a);
    arena_repeat (a, from, slots - 1);
    free (s.tensor);
    return 0;
}

size_t model_pool_bytes (struct model *m, int pool, int slots)
{
    struct arena a;

    arena_init (&a, NULL, 0);
    if (plan_pool (m, pool, slots, &a) < 0)
        return 0;
    errno = a.overflow ? EOVERFLOW : 0;
    return a.overflow ? 0 : a.used;
}

size_t model_cache_bytes (const struct model *m)
{
    size_t bytes = 0;

    for (size_t i = 0; i < m->num_caches; i++)
        bytes += (size_t)tensor_capacity (&m->cache[i]) * mg_dtype_size (m->cache[i].dtype);
    return bytes;
}

size_t model_activation_bytes (struct model *m, const int *slots)
{
    struct shared planned = m->shared;
    struct arena a;

    arena_init (&a, NULL, 0);
    carve_shared (m, &planned, true, &a);
    for (int p = 0; p < m->num_pools; p++) {
        if (plan_pool (m, p, slots[p], &a) < 0)
            return 0;
    }
    errno = EOVERFLOW;
    return a.overflow ? 0 : a.used;
}

int model_activation_error (struct mg_error *err)
{
    return errno == ENOMEM
               ? mg_error_set (err, ENOMEM, "out of memory while activations are planned")
               : mg_error_set (err, EOVERFLOW, "activations of this model are too large");
}

/* --- the memory --- */

static int bind_slots (struct model *m, int p, int slots, struct arena *a, struct mg_error *err)
{
    struct slot_pool *pool = &m->pool[p];

    if (!(pool->slot = model_allocate ((size_t)slots, sizeof (*pool->slot), err)))
        return -1;
    pool->num_slots = slots;
    for (int i = 0; i < slots; i++) {
        struct slot *s = &pool->slot[i];

        if (!(s->tensor = model_allocate (pool->num_tensors, sizeof (*s->tensor), err)))
            return -1;
        carve_slot (m, p, s, a);
    }
    return 0;
}

/* Point parameters to the scales that passes read. */
static void bind_scales (struct model *m)
{
    struct tensor scales = { .dtype = MG_FLOAT32 };
    int64_t n = 0;

    if (m->shared.values.data)
        scales.data = tensor_at (&m->shared.values, m->list.num_losses);
    for (size_t i = 0; i < m->num_params; i++) {
        if (is_stored (&m->param[i]))
            m->param[i].scale_at = tensor_at (&scales, n++);
    }
}

/* Bind the shared tensors, and the slots of all pools.  'slots' NULL: each pool has one. */
static int bind_all (struct model *m, const int *slots, struct arena *a, struct mg_error *err)
{
    carve_shared (m, &m->shared, false, a);
    bind_scales (m);
    for (int k = 0; k < MODEL_NUM_PASSES; k++)
        m->shape[k].angles = m->shared.angles[model_tables (m, (enum model_passes)k)];
    m->nn.experts.summands = m->shared.summands;
    m->nn.cache.ring = m->shared.ring;
    for (int p = 0; p < m->num_pools; p++) {
        if (bind_slots (m, p, slots ? slots[p] : 1, a, err) < 0)
            return -1;
    }
    return 0;
}

/* Layers of the largest chunk. */
static size_t most_layers (const struct model *m)
{
    int layers = 0;

    for (int c = 0; c < m->num_chunks; c++)
        layers = m->chunk[c].num_layers > layers ? m->chunk[c].num_layers : layers;
    return (size_t)layers;
}

/* --- scratch of kernels --- */

/* The largest pass that continues sequences: one of them has as many rows and keys as there may be,
 * and rows behind it are of none.
 */
static int continue_once (struct model *m, struct mg_error *err)
{
    const struct nn_cache *c = &m->nn.cache;
    int64_t rows = c->length < m->planned.tokens ? c->length : m->planned.tokens;
    const struct nn_sequence sequence = { .first = c->length - rows, .rows = rows };
    struct nn_shape shape = m->shape[MODEL_EVALUATION];
    const struct model_mode mode = { .shape = &shape };

    shape.sequence = &sequence;
    shape.num_sequences = 1;
    for (int i = 0; i < m->num_chunks; i++) {
        if (model_forward (m, &mode, i, 0, err) < 0)
            return -1;
    }
    return 0;
}

/* One pass of each kind through every chunk: products overwrite gradients, and add to them. */
static int pass_once (struct model *m, struct mg_error *err)
{
    const struct model_mode mode = { .training = true }, other = {
        .shape = &m->shape[MODEL_EVALUATION],
    };
    bool further = !nn_same_counts (&m->shape[MODEL_TRAINING], &m->shape[MODEL_EVALUATION]);

    if (m->nn.cache.length > 0)
        return continue_once (m, err);
    for (size_t i = 0; i < m->num_params; i++)
        m->param[i].fresh = m->param[i].product;
    for (int c = 0; c < m->num_chunks; c++) {
        if (model_forward (m, &mode, c, 0, err) < 0 || model_backward (m, &mode, c, 0, err) < 0
            || model_backward (m, &mode, c, 0, err) < 0
            || (further && model_forward (m, &other, c, 0, err) < 0))
            return -1;
    }
    return 0;
}

/* --- no memory at all --- */

/* Counts of tokens for a pass that is planned, in every layer: the experts of each rank have a
 * first round and a further one, both full.  Free the result; NULL and a text if there is no
 * memory.
 */
static int64_t *planned_counts (const struct model *m, struct mg_error *err)
{
    const struct nn_experts *x = &m->nn.experts;
    const struct model_moe *moe = &m->nn.config.moe;
    const struct moe_routes routes = {
        .experts = moe->experts, .limit = m->planned.experts.limit, .ep_size = x->ep_size,
        .etp_size = x->etp_size, .stride_ep = x->stride_ep, .stride_etp = x->stride_etp,
    };
    size_t layers = most_layers (m), each = (size_t)x->routed;
    int64_t *counts;

    if (!(counts = model_allocate (layers * each, sizeof (*counts), err)))
        return NULL;
    for (size_t l = 0; l < layers; l++)
        moe_fill_rounds (&routes, 2, moe->dispatch == MOE_ALL_GATHER ? m->planned.experts.rows : 0,
                         counts + l * each);
    return counts;
}

int model_begin_plan (struct model *m, struct tape *tape, struct mg_error *err)
{
    struct arena a;

    arena_init (&a, NULL, 0);
    if (m->nn.experts.routed > 0 && !(m->planned_counts = planned_counts (m, err)))
        return -1;
    if (bind_all (m, NULL, &a, err) < 0)
        return -1;
    for (int p = 0; p < m->num_pools; p++)
        m->pool[p].slot[0].routed = m->planned_counts;
    return tape_begin (tape, m->device, err);
}

void model_end_plan (struct model *m, struct tape *tape)
{
    int saved_errno = errno;

    tape_end (tape);
    for (int p = 0; p < m->num_pools; p++)
        model_clear_slots (&m->pool[p]);
    free (m->planned_counts);
    m->planned_counts = NULL;
    errno = saved_errno;
}

int model_scratch_bytes (struct model *m, size_t *bytes, struct mg_error *err)
{
    if (m->scratch == 0) {
        struct tape tape = { .num_collectives = 0 };
        int rc = model_begin_plan (m, &tape, err);

        if (rc == 0)
            rc = pass_once (m, err);
        model_end_plan (m, &tape);
        if (rc == 0)
            m->scratch = kern_tape_scratch (&tape.kernels, m->nn.compute);
        tape_clear (&tape);
        if (rc < 0)
            return mg_error_prefix (err, "planning scratch of kernels");
    }
    *bytes = m->scratch;
    return 0;
}

/* Returns the first of this rank's positions, among those of all context-parallel ranks. */
static int64_t own_first_row (const struct model *m, const struct nn_shape *shape)
{
    return m->nn.cp_rank * shape->seq;
}

/* Tell passes where their positions are.  With sequence parallelism a rank has consecutive rows of
 * its context-parallel rank.
 */
static void bind_positions (struct model *m)
{
    for (int k = 0; k < MODEL_NUM_PASSES; k++) {
        const struct tensor *table = &m->shared.positions[model_tables (m, (enum model_passes)k)];
        struct nn_shape *shape = &m->shape[k];
        int64_t own = own_first_row (m, shape);

        if (!shape->position.at)
            continue;
        if (shape->positions.ndims > 0)
            shape->positions.data = table->data;
        if (shape->rows < shape->tokens)
            own += m->nn.tp_rank * (shape->rows / shape->batch);
        shape->position.at = tensor_at (table, own);
    }
}

/* An entry of a table of 'n' numbers. */
typedef int32_t table_entry_f (const struct model *m, int64_t n, int64_t i);

/* Fill in a table, unless it is empty. */
static int set_table (struct model *m, const struct tensor *table, table_entry_f *entry,
                      struct mg_error *err)
{
    size_t n = (size_t)tensor_count (table);
    int32_t *number;
    int rc;

    if (!table->data)
        return 0;
    if (!(number = device_host_alloc (m->device, n * sizeof (*number), err)))
        return -1;
    for (int64_t i = 0; i < (int64_t)n; i++)
        number[i] = entry (m, (int64_t)n, i);
    rc = device_upload (m->nn.compute, table->data, number, n * sizeof (*number), err);
    if (mg_stream_synchronize (m->nn.compute, err) < 0)
        rc = -1;
    device_host_free (m->device, number);
    return rc;
}

static int32_t position_entry (const struct model *m, int64_t n, int64_t i)
{
    return (int32_t)context_position (m->nn.cp_size, n, i);
}

/* Row k limit + i for summand k of row i. */
static int32_t summand_entry (const struct model *m, int64_t n, int64_t i)
{
    int64_t ranks = m->nn.experts.etp_size;

    (void)n;
    return (int32_t)(i % ranks * m->planned.experts.limit + i / ranks);
}

static int32_t ring_entry (const struct model *m, int64_t n, int64_t i)
{
    (void)m;
    return (int32_t)(i % (n / 2));
}

/* Cosines and sines of this rank's positions in passes of a kind. */
static int set_angles (struct model *m, int kind, struct mg_error *err)
{
    const struct rope_config *c = &m->nn.config.rope;
    const struct nn_shape *shape = &m->shape[kind];
    const struct tensor *angles = &m->shared.angles[kind];
    int64_t first = own_first_row (m, shape);
    int pairs = model_rope_pairs (&m->nn.config);
    size_t row = 2 * (size_t)pairs, n = (size_t)tensor_count (angles);
    double *frequency;
    float *table;
    int rc = -1;

    if (!angles->data)
        return 0;
    frequency = model_allocate ((size_t)pairs, sizeof (*frequency), err);
    table = device_host_alloc (m->device, n * sizeof (*table), err);
    if (frequency && table) {
        rope_frequencies (c, model_rope_dim (&m->nn.config), frequency);
        for (int64_t s = 0; s < angles->shape[0]; s++)
            rope_row (c, frequency, pairs,
                      context_position (m->nn.cp_size, shape->whole_seq, first + s),
                      table + (size_t)s * row);
        rc = device_upload (m->nn.compute, angles->data, table, n * sizeof (*table), err);
        if (mg_stream_synchronize (m->nn.compute, err) < 0)
            rc = -1;
    }
    free (frequency);
    device_host_free (m->device, table);
    return rc;
}

static int set_tables (struct model *m, struct mg_error *err)
{
    for (int k = 0; k < MODEL_NUM_PASSES; k++) {
        if (set_table (m, &m->shared.positions[k], position_entry, err) < 0
            || set_angles (m, k, err) < 0)
            return -1;
    }
    bind_positions (m);
    if (set_table (m, &m->shared.summands, summand_entry, err) < 0)
        return -1;
    return set_table (m, &m->shared.ring, ring_entry, err);
}

/* Bytes of pinned host memory: counts of each layer and slot, values of an iteration, losses and
 * the largest logit, and what the host reads of routers.
 */
static size_t routed_bytes (const struct model *m, const int *slots)
{
    size_t each = most_layers (m) * (size_t)m->nn.experts.routed, total = 0;

    for (int p = 0; p < m->num_pools && m->num_routers > 0; p++)
        total += (size_t)slots[p] * each;
    return total * sizeof (*m->routed);
}

static size_t values_bytes (const struct model *m)
{
    return (size_t)num_values (m) * sizeof (*m->values);
}

static size_t results_bytes (const struct model *m)
{
    return (3 * (2 + (size_t)m->nn.config.mtp_num_layers) + 1) * sizeof (*m->results);
}

static size_t routers_bytes (const struct model *m)
{
    return (size_t)m->num_routers * router_host_bytes (m->nn.config.moe.experts);
}

int64_t model_staging_bytes (const struct model *m, const int *slots)
{
    return (int64_t)(routed_bytes (m, slots) + values_bytes (m) + results_bytes (m)
                     + routers_bytes (m));
}

static int bind_routed (struct model *m, const int *slots, struct mg_error *err)
{
    size_t each = most_layers (m) * (size_t)m->nn.experts.routed, at = 0;
    size_t bytes = routed_bytes (m, slots);

    if (bytes == 0)
        return 0;
    if (!(m->routed = device_host_alloc (m->device, bytes, err)))
        return mg_error_prefix (err, "counts of tokens");
    for (int p = 0; p < m->num_pools; p++) {
        for (int i = 0; i < slots[p]; i++, at += each)
            m->pool[p].slot[i].routed = m->routed + at;
    }
    return 0;
}

/* Make the host's side of an iteration's values and results. */
static int bind_values (struct model *m, struct mg_error *err)
{
    if (!(m->values = device_host_alloc (m->device, values_bytes (m), err))
        || !(m->results = device_host_alloc (m->device, results_bytes (m), err)))
        return mg_error_prefix (err, "values of an iteration");
    m->brought = mg_event_create (m->device, err);
    return m->brought ? 0 : -1;
}

static int bind_routers (struct model *m, struct mg_error *err)
{
    int experts = m->nn.config.moe.experts;

    if (m->num_routers == 0)
        return 0;
    if (!(m->routers_host = device_host_alloc (m->device, routers_bytes (m), err)))
        return mg_error_prefix (err, "results of routers");
    for (int i = 0; i < m->num_routers; i++)
        router_carve_host (&m->router[i], experts,
                           m->routers_host + (size_t)i * router_host_bytes (experts));
    return 0;
}

int model_bind (struct model *m, const int *slots, struct mg_error *err)
{
    size_t size = model_activation_bytes (m, slots), scratch;
    struct arena a;

    if (size == 0)
        return model_activation_error (err);
    if (model_scratch_bytes (m, &scratch, err) < 0
        || stream_reserve_scratch (m->nn.compute, scratch, err) < 0)
        return -1;
    if (!(m->memory = device_alloc (m->device, size, err)))
        return mg_error_prefix (err, "activations");
    arena_init (&a, m->memory, size);
    if (bind_all (m, slots, &a, err) < 0 || bind_routed (m, slots, err) < 0
        || bind_values (m, err) < 0 || bind_routers (m, err) < 0)
        return -1;
    return set_tables (m, err);
}
