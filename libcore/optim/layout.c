/* layout.c - buffers, buckets, groups of buckets, shards
 *
 * Padding never depends on what follows, so one walk over a buffer's parameters in reverse
 * order decides everything.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/optim/layout.h"

enum {
    PARAM_ALIGN = 64,     /* elements: 128 bytes of the smallest type that is not fp8 */
    BUCKET_ALIGN = 128,
    BUSBW_ALIGN = 1 << 16,
    SHARDS_MAX = 1 << 24
};

/* All sums stay below INT64_MAX / 2, so that rounding up cannot overflow. */
static const int64_t numel_max = INT64_MAX / 4;

static int64_t lcm (int64_t a, int64_t b)
{
    int64_t x = a, y = b;

    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static int64_t round_up (int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

int64_t layout_bucket_size (const struct layout_bucket_rule *rule, int64_t *resolved)
{
    const int64_t least = 40 * 1000 * 1000, each = 1000 * 1000;
    int64_t size = rule->bucket_size;

    if (rule->num_buckets > 0)
        size = rule->num_params / rule->num_buckets;
    else if (size <= 0)
        size = rule->dp * each > least ? rule->dp * each : least;
    if (!rule->overlap)
        size = LAYOUT_ONE_BUCKET;
    if (resolved)
        *resolved = size;
    return rule->disabled || rule->pp_rank > 0 ? LAYOUT_ONE_BUCKET : size;
}

double layout_grad_scale (bool per_token, bool average, bool expert, int dp, int edp)
{
    if (per_token)
        return 1.0;
    if (!average)
        return 1.0 / dp;
    return expert ? (double)edp / dp : 1.0;
}

void layout_destroy (struct layout *layout)
{
    int saved_errno = errno;

    if (!layout)
        return;
    for (int b = 0; layout->buffer && b < layout->num_buffers; b++) {
        free (layout->buffer[b].entry);
        free (layout->buffer[b].index);
        free (layout->buffer[b].bucket);
    }
    free (layout->buffer);
    free (layout->group);
    free (layout->member);
    free (layout);
    errno = saved_errno;
}

static int check (const struct layout_config *c, const struct layout_param *params, size_t n,
                  struct mg_error *err)
{
    int64_t left = numel_max;

    if (c->bucket_size < LAYOUT_ONE_BUCKET)
        return mg_error_set (err, EINVAL, "layout: bucket size %lld, want at least 0",
                             (long long)c->bucket_size);
    for (int i = 0; i < 2; i++) {
        if (c->shards[i] < 1 || c->shards[i] > SHARDS_MAX)
            return mg_error_set (err, EINVAL, "layout: %d %s ranks, want 1 to %d",
                                 c->shards[i], i ? "expert" : "dense", SHARDS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const struct layout_param *p = &params[i];
        int64_t room = p->numel;

        if (p->numel < 0 || p->chunk < (i ? params[i - 1].chunk : 0))
            return mg_error_set (err, EINVAL, "layout: parameter %zu has %lld elements and is "
                                 "in chunk %d", i, (long long)p->numel, p->chunk);
        if (c->sharded) /* what padding may add to it */
            room = __builtin_add_overflow (room, lcm (c->shards[p->expert], BUSBW_ALIGN)
                                           + PARAM_ALIGN, &room) ? INT64_MAX : room;
        if (room > left)
            return mg_error_set (err, EOVERFLOW, "layout: with parameter %zu, of %lld elements, "
                                 "buffers have more than %lld", i, (long long)p->numel,
                                 (long long)numel_max);
        left -= room;
    }
    return 0;
}

static enum mg_dtype grad_dtype (const struct layout_config *c, const struct layout_param *p)
{
    return c->grad_float32 ? MG_FLOAT32 : p->logical;
}

static bool belongs (const struct layout_config *c, const struct layout_buffer *b,
                     const struct layout_param *p)
{
    return b->chunk == p->chunk && b->expert == p->expert && b->param_dtype == p->storage
           && b->grad_dtype == grad_dtype (c, p);
}

/* Find the buffers of one chunk's dense or expert parameters, in order of their first
 * parameters, and count these.
 */
static void find_buffers (struct layout *l, const struct layout_config *c,
                          const struct layout_param *params, size_t n, int chunk, bool expert)
{
    int first = l->num_buffers;

    for (size_t i = 0; i < n; i++) {
        const struct layout_param *p = &params[i];
        int b = first;

        if (p->chunk != chunk || p->expert != expert)
            continue;
        while (b < l->num_buffers && !belongs (c, &l->buffer[b], p))
            b++;
        if (b == l->num_buffers)
            l->buffer[l->num_buffers++] = (struct layout_buffer){
                .param_dtype = p->storage, .grad_dtype = grad_dtype (c, p),
                .expert = expert, .chunk = chunk, .shards = c->shards[expert],
            };
        l->buffer[b].num_entries++;
    }
}

/* A walk over one buffer's parameters. */
struct walk {
    struct layout_buffer *buffer;
    bool sharded;
    int64_t size, align; /* of buckets */
    int64_t at;          /* where the next parameter may start */
    int64_t start;       /* of the open bucket */
    size_t first;        /* its first entry */
    size_t num_entries;  /* so far */
};

/* Close the bucket behind 'end', if there is anything in it. */
static void close_bucket (struct walk *w, int64_t end)
{
    struct layout_buffer *b = w->buffer;

    if (w->num_entries == w->first)
        return;
    w->at = w->sharded ? round_up (end, w->align) : end;
    b->bucket[b->num_buckets++] = (struct layout_bucket){
        .start = w->start, .end = w->at, .unpadded = end - w->start,
        .first = w->first, .num_entries = w->num_entries - w->first,
    };
    b->unpadded += end - w->start;
    b->numel = w->start = w->at;
    w->first = w->num_entries;
}

static void place (struct walk *w, const struct layout_param *p, size_t index)
{
    bool alone = w->sharded && p->shared_embedding;
    int64_t end;

    if (w->sharded)
        w->at = round_up (w->at, PARAM_ALIGN);
    if (alone)
        close_bucket (w, w->at);
    end = w->at + p->numel;
    w->buffer->entry[w->num_entries++] = (struct layout_entry){
        .param = index, .start = w->at, .end = end, .bucket = w->buffer->num_buckets,
    };
    w->at = end;
    if (alone || (w->size != LAYOUT_ONE_BUCKET && end - w->start >= w->size))
        close_bucket (w, end);
}

static int fill_buffer (struct layout_buffer *b, const struct layout_config *c,
                        const struct layout_param *params, size_t n, struct mg_error *err)
{
    struct walk w = {
        .buffer = b,
        .sharded = c->sharded,
        .size = b->chunk > 0 ? LAYOUT_ONE_BUCKET : c->bucket_size,
        .align = lcm (b->shards, c->high_busbw ? BUSBW_ALIGN : BUCKET_ALIGN),
    };
    size_t same = 0, found = 0;

    b->entry = calloc (b->num_entries, sizeof (*b->entry));
    b->index = calloc (b->num_entries, sizeof (*b->index));
    b->bucket = calloc (b->num_entries, sizeof (*b->bucket));
    if (!b->entry || !b->index || !b->bucket)
        return mg_error_set (err, ENOMEM, "layout: out of memory");
    for (size_t i = n; i-- > 0;) {
        if (belongs (c, b, &params[i]))
            place (&w, &params[i], i);
    }
    close_bucket (&w, w.at);
    for (size_t i = 0; i < n; i++) {
        const struct layout_param *p = &params[i], *mine = &params[b->entry[0].param];

        if (belongs (c, b, p))
            b->index[found++] = same;
        if (p->chunk == b->chunk && p->expert == b->expert && p->logical == mine->logical
            && grad_dtype (c, p) == b->grad_dtype)
            same++;
    }
    return 0;
}

/* Add a bucket to the last group, or to a new one. */
static void add_member (struct layout *l, bool fresh, int buffer, int bucket)
{
    const struct layout_buffer *b = &l->buffer[buffer];
    struct layout_group *g;

    if (fresh) {
        g = &l->group[l->num_groups];
        *g = (struct layout_group){ .expert = b->expert, .chunk = b->chunk };
        g->member = l->num_groups ? g[-1].member + g[-1].num_members : l->member;
        l->num_groups++;
    }
    g = &l->group[l->num_groups - 1];
    g->member[g->num_members++] = (struct layout_member){ buffer, bucket };
}

/* Group the buckets of buffers [first, end).  With 'together' they are one group, in the order of
 * the buffers.  Else each bucket is a group, with one exception: if some buffers are fp8, the
 * buckets of the other buffers, which are small and finish last, join the group of the last fp8
 * bucket.  So no other fp8 bucket waits for them.
 */
static void group_buffers (struct layout *l, int first, int end, bool together)
{
    bool any = false, eight = false;

    for (int b = first; b < end; b++)
        eight |= !together && l->buffer[b].param_dtype == MG_UINT8;
    for (int pass = 0; pass < (eight ? 2 : 1); pass++) {
        for (int b = first; b < end; b++) {
            if (eight && (l->buffer[b].param_dtype == MG_UINT8) != (pass == 0))
                continue;
            for (int k = 0; k < l->buffer[b].num_buckets; k++) {
                add_member (l, !any || (!together && pass == 0), b, k);
                any = true;
            }
        }
    }
}

static int make_groups (struct layout *l, const struct layout_config *c, struct mg_error *err)
{
    size_t buckets = 1;

    for (int b = 0; b < l->num_buffers; b++)
        buckets += (size_t)l->buffer[b].num_buckets;
    l->group = calloc (buckets, sizeof (*l->group));
    l->member = calloc (buckets, sizeof (*l->member));
    if (!l->group || !l->member)
        return mg_error_set (err, ENOMEM, "layout: out of memory");
    for (int first = 0, end; first < l->num_buffers; first = end) {
        const struct layout_buffer *b = &l->buffer[first];

        for (end = first + 1; end < l->num_buffers; end++) {
            if (l->buffer[end].chunk != b->chunk || l->buffer[end].expert != b->expert)
                break;
        }
        group_buffers (l, first, end, c->one_group || b->chunk > 0);
    }
    return 0;
}

struct layout *layout_create (const struct layout_config *config,
                              const struct layout_param *params, size_t n,
                              struct mg_error *err)
{
    struct layout *l;

    if (check (config, params, n, err) < 0)
        return NULL;
    if (!(l = calloc (1, sizeof (*l)))
        || !(l->buffer = calloc (n + 1, sizeof (*l->buffer)))) {
        mg_error_set (err, ENOMEM, "layout: out of memory");
        goto error;
    }
    l->sharded = config->sharded;
    for (int chunk = 0; n > 0 && chunk <= params[n - 1].chunk; chunk++) {
        find_buffers (l, config, params, n, chunk, false);
        find_buffers (l, config, params, n, chunk, true);
    }
    for (int b = 0; b < l->num_buffers; b++) {
        if (fill_buffer (&l->buffer[b], config, params, n, err) < 0)
            goto error;
    }
    if (make_groups (l, config, err) < 0)
        goto error;
    return l;
error:
    layout_destroy (l);
    return NULL;
}

int64_t layout_shard (const struct layout *layout, const struct layout_buffer *buffer,
                      int bucket)
{
    int64_t numel = buffer->bucket[bucket].end - buffer->bucket[bucket].start;

    return layout->sharded ? numel / buffer->shards : numel;
}

int64_t layout_shard_total (const struct layout *layout, const struct layout_buffer *buffer)
{
    return layout->sharded ? buffer->numel / buffer->shards : buffer->numel;
}

static void shift (int64_t to[2], const int64_t from[2], int64_t by)
{
    to[0] = from[0] - by;
    to[1] = from[1] - by;
}

bool layout_ranges (const struct layout *layout, const struct layout_buffer *buffer,
                    const struct layout_entry *entry, int rank, struct layout_ranges *out)
{
    int64_t bucket = buffer->bucket[entry->bucket].start;
    int64_t shard = layout_shard (layout, buffer, entry->bucket);
    int64_t first = bucket + rank * shard, end = first + shard;
    int64_t world[2] = { entry->start > first ? entry->start : first,
                         entry->end < end ? entry->end : end };

    if (world[0] >= world[1])
        return false;
    shift (out->world, world, 0);
    shift (out->bucket, world, bucket);
    shift (out->local, world, first);
    shift (out->param, world, entry->start);
    return true;
}
