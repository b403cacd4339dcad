/* model_memory.c - slots of activations, and the memory of a model */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernels/tape.h"
#include "libcore/nn/model_private.h"

void model_clear_pool (struct pool *pool)
{
    for (int s = 0; pool->slot && s < pool->num_slots; s++)
        free (pool->slot[s].act);
    free (pool->slot);
    pool->slot = NULL;
    pool->num_slots = 0;
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
    struct slot s = { .act = model_allocate ((size_t)pool->num_layers,
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
    if (plan_pool (m, pool, slots, &a) < 0)
        return 0;
    errno = a.overflow ? EOVERFLOW : 0;
    return a.overflow ? 0 : a.used;
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
    errno = EOVERFLOW;
    return a.overflow ? 0 : a.used;
}

int model_activation_error (struct mg_error *err)
{
    return errno == ENOMEM
               ? mg_error_set (err, ENOMEM, "out of memory while activations are planned")
               : mg_error_set (err, EOVERFLOW, "activations of this model are too large");
}

static int bind_slots (struct model *m, struct pool *pool, int slots, struct arena *a,
                       struct mg_error *err)
{
    if (!(pool->slot = model_allocate ((size_t)slots, sizeof (*pool->slot), err)))
        return -1;
    pool->num_slots = slots;
    for (int i = 0; i < slots; i++) {
        struct slot *s = &pool->slot[i];
        if (!(s->act = model_allocate ((size_t)pool->num_layers,
                                       BLOCK_NUM_ACTS * sizeof (void *), err)))
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
    for (int p = 0; p < m->num_pools; p++)
        model_clear_pool (&m->pool[p]);
}

/* --- scratch of kernels: passes over addresses that nothing looks at --- */

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
    const struct kernels *kern = m->nn.kern;
    struct kernels planning = *kern;
    const struct model_hooks hooks = m->hooks;
    struct arena a;
    int rc;

    if (m->scratch == 0) {
        if (!(planning.tape = kern_tape_create (false, err)))
            return -1;
        arena_init (&a, nowhere, PTRDIFF_MAX);
        point_params (m, NULL, nowhere);
        m->hooks = (struct model_hooks){ .arg = NULL };
        m->nn.planning = true;
        m->nn.kern = &planning;
        rc = bind_all (m, NULL, &a, err) < 0 ? -1 : run_nowhere (m, err);
        m->scratch = kern_tape_scratch (planning.tape);
        kern_tape_destroy (planning.tape);
        m->nn.kern = kern;
        m->nn.planning = false;
        m->hooks = hooks;
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

/* With sequence parallelism a rank has the rows of consecutive positions. */
static int set_positions (struct model *m, struct mg_error *err)
{
    int64_t n = m->nn.rows / m->nn.batch;
    const size_t size = (size_t)n * sizeof (int32_t);
    int32_t *position;
    int rc;

    if (m->nn.rows == m->nn.tokens)
        return 0;
    if (!(m->position = device_alloc_apart (m->device, size, err))
        || !(position = model_allocate ((size_t)n, sizeof (*position), err)))
        return -1;
    for (int64_t s = 0; s < n; s++)
        position[s] = (int32_t)(n * m->nn.tp_rank + s);
    rc = device_upload (m->nn.compute, m->position, position, size, err);
    if (mg_stream_synchronize (m->nn.compute, err) < 0)
        rc = -1;
    m->nn.position = (struct kern_positions){ .at = m->position, .stride_s = 1 };
    free (position);
    return rc;
}

/* The host's side of a batch. */
static int stage_batch (struct model *m, struct mg_error *err)
{
    const size_t tokens = (size_t)m->nn.tokens;
    struct nn_batch *b = &m->staged;

    b->sample = device_host_alloc (m->device, (size_t)m->nn.batch * sizeof (*b->sample), err);
    b->token = device_host_alloc (m->device, tokens * sizeof (*b->token), err);
    b->label = device_host_alloc (m->device, tokens * sizeof (*b->label), err);
    b->mask = device_host_alloc (m->device, tokens * sizeof (*b->mask), err);
    return b->sample && b->token && b->label && b->mask ? 0 : -1;
}

int model_bind (struct model *m, const int *slots, struct mg_error *err)
{
    size_t size = model_activation_bytes (m, slots), scratch;
    struct arena a;

    if (size == 0)
        return model_activation_error (err);
    if (model_scratch_bytes (m, &scratch, err) < 0
        || device_reserve_scratch (m->device, scratch, err) < 0)
        return -1;
    if (!(m->memory = device_alloc (m->device, size, err)))
        return mg_error_prefix (err, "activations");
    arena_init (&a, m->memory, size);
    if (bind_all (m, slots, &a, err) < 0 || stage_batch (m, err) < 0)
        return -1;
    return set_positions (m, err);
}
