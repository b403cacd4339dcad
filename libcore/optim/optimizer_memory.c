/* optimizer_memory.c - what an optimizer stores, where, and of which type */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/optimizer_private.h"

/* --- the plan --- */

struct layout *optimizer_layout (const struct optimizer_config *c, const struct job *job,
                                 const struct param *params, size_t n, struct mg_error *err)
{
    const struct layout_config config = {
        .sharded = c->sharded,
        .high_busbw = c->high_busbw,
        .grad_float32 = c->types.grad == MG_FLOAT32,
        .bucket_size = c->bucket_size > 0 ? c->bucket_size : LAYOUT_ONE_BUCKET,
        .shards = { mg_comm_size (job_comm_shard (job, false)),
                    mg_comm_size (job_comm_shard (job, true)) },
    };
    struct layout_param *list = calloc (n + 1, sizeof (*list));
    struct layout *layout;

    if (!list) {
        mg_error_set (err, ENOMEM, "optimizer: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        list[i] = (struct layout_param){
            .numel = params[i].numel, .logical = params[i].dtype,
            .storage = params[i].storage == MG_FLOAT8_E4M3 ? MG_UINT8 : params[i].storage,
            .expert = params[i].expert, .shared_embedding = params[i].shared_embedding,
            .chunk = params[i].chunk,
        };
    layout = layout_create (&config, list, n, err);
    free (list);
    return layout;
}

static void choose_types (struct store *s, const struct optimizer_config *c,
                          const struct layout_buffer *buffer)
{
    s->frozen = c->frozen;
    s->keep_main = c->keep_main;
    s->dtype[MEMORY_PARAM] = buffer->param_dtype == MG_UINT8 ? MG_FLOAT8_E4M3
                                                             : buffer->param_dtype;
    s->dtype[MEMORY_GRAD] = buffer->grad_dtype;
    s->dtype[MEMORY_MAIN_GRAD] = c->types.main_grad;
    s->remainders = c->types.remainders && c->types.main == MG_FLOAT32
                    && buffer->param_dtype == MG_BFLOAT16;
    s->dtype[MEMORY_MAIN] = buffer->param_dtype == MG_FLOAT32 ? MG_FLOAT32
                            : s->remainders                   ? MG_BFLOAT16
                                                              : c->types.main;
    s->dtype[MEMORY_EXP_AVG] = c->types.exp_avg;
    s->dtype[MEMORY_EXP_AVG_SQ] = c->types.exp_avg_sq;
}

/* Has a buffer this memory, or is it another one? */
static bool has_memory (const struct store *s, int memory)
{
    switch (memory) {
    case MEMORY_PARAM:
        return true;
    case MEMORY_MAIN_GRAD:
        return !s->frozen && s->dtype[MEMORY_MAIN_GRAD] != s->dtype[MEMORY_GRAD];
    case MEMORY_MAIN:
        return s->dtype[MEMORY_PARAM] != MG_FLOAT32 && (!s->frozen || s->keep_main);
    default:
        return !s->frozen;
    }
}

static int64_t memory_bytes (const struct store *s, int memory, const struct layout *layout,
                             const struct layout_buffer *buffer)
{
    bool whole = memory == MEMORY_PARAM || memory == MEMORY_GRAD;

    if (!has_memory (s, memory))
        return 0;
    return (whole ? buffer->numel : layout_shard_total (layout, buffer))
           * (int64_t)mg_dtype_size (s->dtype[memory]);
}

/* Elements of dense or expert sequence-parallel parameters that a rank owns. */
static int64_t count_packed (const struct layout *layout, const struct param *params,
                             bool expert, int rank)
{
    int64_t total = 0;
    struct layout_ranges r;

    for (int b = 0; b < layout->num_buffers; b++) {
        const struct layout_buffer *buffer = &layout->buffer[b];

        for (size_t i = 0; i < buffer->num_entries && buffer->expert == expert; i++) {
            if (params[buffer->entry[i].param].sequence_parallel
                && layout_ranges (layout, buffer, &buffer->entry[i], rank, &r))
                total += r.param[1] - r.param[0];
        }
    }
    return total;
}

int optimizer_bytes (const struct optimizer_config *config, const struct job *job,
                     const struct param *params, size_t n,
                     int64_t bytes[OPTIMIZER_NUM_PARTS], int64_t *elements,
                     struct mg_error *err)
{
    static const enum optimizer_part parts[NUM_MEMORIES] = {
        [MEMORY_PARAM] = OPTIMIZER_PARAMS,     [MEMORY_GRAD] = OPTIMIZER_GRADS,
        [MEMORY_MAIN_GRAD] = OPTIMIZER_MAIN_GRADS, [MEMORY_MAIN] = OPTIMIZER_MAIN,
        [MEMORY_EXP_AVG] = OPTIMIZER_MOMENTS,  [MEMORY_EXP_AVG_SQ] = OPTIMIZER_MOMENTS,
    };
    struct layout *layout = optimizer_layout (config, job, params, n, err);

    memset (bytes, 0, OPTIMIZER_NUM_PARTS * sizeof (*bytes));
    *elements = 0;
    if (!layout)
        return -1;
    for (int b = 0; b < layout->num_buffers; b++) {
        struct store store;

        choose_types (&store, config, &layout->buffer[b]);
        *elements += layout->buffer[b].numel;
        for (int m = 0; m < NUM_MEMORIES; m++)
            bytes[parts[m]] += memory_bytes (&store, m, layout, &layout->buffer[b]);
        if (config->snapshot && optimizer_counted (config, job, layout->buffer[b].expert))
            bytes[OPTIMIZER_SNAPSHOT] += optimizer_snapshot_bytes (&store, layout,
                                                                   &layout->buffer[b]);
    }
    for (int e = 0; e < 2 && !config->frozen; e++) {
        int rank = config->sharded ? mg_comm_rank (job_comm_shard (job, e)) : 0;

        bytes[OPTIMIZER_PACKED] += count_packed (layout, params, e, rank)
                                   * (int64_t)sizeof (float);
    }
    layout_destroy (layout);
    return 0;
}

/* --- the memory --- */

static int allocate_store (struct optimizer *o, struct store *s,
                           const struct layout_buffer *buffer, struct mg_error *err)
{
    static const char *const what[NUM_MEMORIES]
        = { "parameters",      "gradients",     "main gradients",
            "main parameters", "first moments", "second moments" };

    choose_types (s, &o->config, buffer);
    for (int m = 0; m < NUM_MEMORIES; m++) {
        if (has_memory (s, m)
            && !(s->memory[m] = device_alloc (
                     o->device, (size_t)memory_bytes (s, m, o->layout, buffer), err)))
            return mg_error_prefix (err, "%s", what[m]);
    }
    return optimizer_snapshot_allocate (o, s, buffer, err);
}

void *optimizer_at (const struct store *store, int memory, int64_t i)
{
    return (char *)store->memory[memory] + (size_t)i * mg_dtype_size (store->dtype[memory]);
}

/* A range that starts with element 'whole' of the buffer and 'shard' of the rank's shards. */
static void place_range (struct range *r, const struct store *s, int64_t whole, int64_t shard)
{
    r->store = s;
    for (int m = 0; m < NUM_MEMORIES; m++) {
        if (has_memory (s, m))
            r->memory[m] = optimizer_at (s, m,
                                         m == MEMORY_PARAM || m == MEMORY_GRAD ? whole : shard);
        if (s->copy[m])
            r->copy[m] = (char *)s->copy[m] + (size_t)shard * mg_dtype_size (s->dtype[m]);
    }
    if (s->dtype[MEMORY_PARAM] == MG_FLOAT32)
        r->memory[MEMORY_MAIN] = r->memory[MEMORY_PARAM];
    if (!r->memory[MEMORY_MAIN_GRAD])
        r->memory[MEMORY_MAIN_GRAD] = r->memory[MEMORY_GRAD];
}

/* Give the parameters of a buffer their memory, and note which parts are updated here. */
static void place_buffer (struct optimizer *o, int b)
{
    const struct layout_buffer *buffer = &o->layout->buffer[b];
    const struct store *s = &o->store[b];
    int64_t shards = 0;
    int bucket = 0;

    for (size_t i = 0; i < buffer->num_entries; i++) {
        const struct layout_entry *e = &buffer->entry[i];
        struct param *p = &o->params[e->param];
        struct layout_ranges r;

        for (; bucket < e->bucket; bucket++)
            shards += layout_shard (o->layout, buffer, bucket);
        p->data = optimizer_at (s, MEMORY_PARAM, e->start);
        p->grad = s->frozen ? NULL : optimizer_at (s, MEMORY_GRAD, e->start);
        p->grad_dtype = s->dtype[MEMORY_GRAD];
        if (!layout_ranges (o->layout, buffer, e, o->peers[buffer->expert].rank, &r))
            continue;
        o->range[e->param].at = (struct optimizer_range){ e->param, r.param[0], r.param[1] };
        place_range (&o->range[e->param], s, e->start + r.param[0], shards + r.local[0]);
    }
}

/* Somewhere for the initial values of float8 parameters (param_init()). */
static int hold_initial (struct optimizer *o, struct mg_error *err)
{
    o->initial = true;
    for (size_t i = 0; i < o->n; i++) {
        struct param *p = &o->params[i];

        if (p->storage == MG_FLOAT8_E4M3
            && !(p->grad = device_alloc_apart (
                     o->device, (size_t)(p->numel + 1) * mg_dtype_size (p->dtype), err)))
            return mg_error_prefix (err, "values of %s", p->name);
    }
    return 0;
}

int optimizer_hold_main (struct optimizer *o, struct range *r, struct mg_error *err)
{
    size_t n = (size_t)(r->at.to - r->at.from);

    if (!r->memory[MEMORY_MAIN]
        && !(r->memory[MEMORY_MAIN] = device_alloc_apart (
                 o->device, n * mg_dtype_size (r->store->dtype[MEMORY_MAIN]), err)))
        return mg_error_prefix (err, "%zu main parameters", n);
    return 0;
}

void optimizer_drop_main (struct optimizer *o)
{
    for (size_t i = 0; o->initial && i < o->n; i++) {
        if (o->params[i].storage == MG_FLOAT8_E4M3)
            device_free (o->device, o->params[i].grad);
        o->params[i].grad = NULL;
    }
    o->initial = false;
    for (size_t i = 0; o->config.frozen && !o->config.keep_main && i < o->num_ranges; i++) {
        if (!optimizer_has_main (&o->range[i]))
            continue;
        device_free (o->device, o->range[i].memory[MEMORY_MAIN]);
        o->range[i].memory[MEMORY_MAIN] = NULL;
    }
}

int optimizer_allocate (struct optimizer *o, struct mg_error *err)
{
    size_t buckets = 0;

    o->store = calloc ((size_t)o->layout->num_buffers + 1, sizeof (*o->store));
    o->range = calloc (o->n + 1, sizeof (*o->range));
    if (!o->store || !o->range)
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    for (int b = 0; b < o->layout->num_buffers; b++) {
        o->store[b].bucket = buckets;
        buckets += (size_t)o->layout->buffer[b].num_buckets;
        if (allocate_store (o, &o->store[b], &o->layout->buffer[b], err) < 0)
            return -1;
        place_buffer (o, b);
    }
    o->num_syncs = buckets;
    for (int e = 0; e < 2 && !o->config.frozen; e++) {
        struct peers *p = &o->peers[e];

        p->num_packed = count_packed (o->layout, o->params, e, p->rank);
        if (p->num_packed > 0
            && !(p->packed = device_alloc (o->device, (size_t)p->num_packed * sizeof (float),
                                           err)))
            return mg_error_prefix (err, "sequence-parallel gradients");
    }
    for (size_t i = 0; i < o->n; i++) {
        if (o->range[i].at.to > o->range[i].at.from)
            o->range[o->num_ranges++] = o->range[i];
    }
    return o->config.frozen ? hold_initial (o, err) : 0;
}

void optimizer_free (struct optimizer *o)
{
    optimizer_drop_main (o);
    for (int b = 0; o->store && b < o->layout->num_buffers; b++) {
        for (int m = 0; m < NUM_MEMORIES; m++) {
            device_free (o->device, o->store[b].memory[m]);
            device_free (o->device, o->store[b].copy[m]);
        }
    }
    mg_stream_destroy (o->reader);
    device_free (o->device, o->peers[0].packed);
    device_free (o->device, o->peers[1].packed);
    free (o->store);
    free (o->range);
}

/* --- what others see of it --- */

int optimizer_memory_of (enum optimizer_value value)
{
    static const int memory[OPTIMIZER_NUM_VALUES] = {
        [OPTIMIZER_MAIN_PARAM] = MEMORY_MAIN,
        [OPTIMIZER_MAIN_GRAD] = MEMORY_MAIN_GRAD,
        [OPTIMIZER_EXP_AVG] = MEMORY_EXP_AVG,
        [OPTIMIZER_EXP_AVG_SQ] = MEMORY_EXP_AVG_SQ,
    };

    return memory[value];
}

size_t optimizer_num_ranges (const struct optimizer *o)
{
    return o->num_ranges;
}

const struct optimizer_range *optimizer_range_at (const struct optimizer *o, size_t range)
{
    return &o->range[range].at;
}

bool optimizer_has (const struct optimizer *o, enum optimizer_value value)
{
    return !o->config.frozen || value == OPTIMIZER_MAIN_PARAM;
}

float *optimizer_plain_in (const struct range *r, bool copied, enum optimizer_value value)
{
    int m = optimizer_memory_of (value);

    return r->store->dtype[m] != MG_FLOAT32 ? NULL : copied ? r->copy[m] : r->memory[m];
}

struct kern_state optimizer_state (const struct range *r, bool copied, int memory,
                                   int64_t from)
{
    const struct store *s = r->store;
    void *const *at = copied ? r->copy : r->memory;
    bool halves = memory == MEMORY_MAIN && s->remainders;

    return (struct kern_state){
        .data = (char *)at[memory] + (size_t)from * mg_dtype_size (s->dtype[memory]),
        .dtype = s->dtype[memory],
        .upper = halves ? (char *)at[MEMORY_PARAM]
                              + (size_t)from * mg_dtype_size (s->dtype[MEMORY_PARAM])
                        : NULL,
        .scale = copied ? r->copy_scale[memory] : r->scale[memory],
        .positive = memory == MEMORY_EXP_AVG_SQ,
    };
}

float *optimizer_plain (const struct optimizer *o, size_t range, enum optimizer_value value)
{
    return optimizer_plain_in (&o->range[range], false, value);
}
