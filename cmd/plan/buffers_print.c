/* buffers_print.c - a layout as text and as JSON
 *
 * Both forms print the same layout.  The names of JSON keys are those of Megatron-LM's objects,
 * so that the two can be compared.
 */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/plan/buffers.h"

#define N PRId64

static const char *torch_name (enum mg_dtype dtype)
{
    return dtype == MG_UINT8 ? "uint8" : mg_dtype_name (dtype);
}

/* --- text --- */

static void print_owners (const struct plan_buffers *b, const struct layout_buffer *buffer,
                          const struct layout_entry *e)
{
    const struct layout_bucket *bucket = &buffer->bucket[e->bucket];
    int64_t shard = layout_shard (b->layout, buffer, e->bucket);
    struct layout_ranges r;

    for (int rank = shard > 0 ? (int)((e->start - bucket->start) / shard) : 0;
         b->sharded && rank < buffer->shards
         && layout_ranges (b->layout, buffer, e, rank, &r);
         rank++)
        printf ("%14s rank %d: [%" N ", %" N ") in bucket [%" N ", %" N ") local [%" N ", %" N
                ") parameter [%" N ", %" N ")\n", "", rank, r.world[0], r.world[1],
                r.bucket[0], r.bucket[1], r.local[0], r.local[1], r.param[0], r.param[1]);
}

static void print_bucket (const struct plan_buffers *b, const struct layout_buffer *buffer,
                          int k)
{
    const struct layout_bucket *bucket = &buffer->bucket[k];
    int64_t numel = bucket->end - bucket->start;

    printf ("  bucket %d: [%" N ", %" N "), %" N " elements", k, bucket->start, bucket->end,
            numel);
    if (b->sharded)
        printf (", %" N " of padding, %" N " for each rank", numel - bucket->unpadded,
                layout_shard (b->layout, buffer, k));
    putchar ('\n');
    for (size_t i = 0; i < bucket->num_entries; i++) {
        const struct layout_entry *e = &buffer->entry[bucket->first + i];

        printf ("    %5zu  [%" N ", %" N ")  %s\n", e->param, e->start, e->end,
                b->name[e->param]);
        print_owners (b, buffer, e);
    }
}

static void print_buffer (const struct plan_buffers *b, int i)
{
    const struct layout_buffer *buffer = &b->layout->buffer[i];

    printf ("\nbuffer %d: ", i);
    if (b->layout->buffer[b->layout->num_buffers - 1].chunk > 0)
        printf ("chunk %d, ", buffer->chunk);
    printf ("%s, %s parameters, %s gradients times %g\n", buffer->expert ? "expert" : "dense",
            torch_name (buffer->param_dtype), torch_name (buffer->grad_dtype),
            plan_buffers_grad_scale (b, buffer));
    printf ("  %" N " elements, %" N " without padding at the ends of buckets, over %d rank%s\n",
            buffer->numel, buffer->unpadded, buffer->shards, buffer->shards == 1 ? "" : "s");
    for (int k = 0; k < buffer->num_buckets; k++)
        print_bucket (b, buffer, k);
}

void plan_buffers_print (const struct plan_buffers *b)
{
    const struct layout *l = b->layout;

    printf ("pipeline rank %d, dp %d, edp %d: %zu parameters in %d buffer%s, ", b->pp_rank,
            b->dp, b->edp, b->n, l->num_buffers, l->num_buffers == 1 ? "" : "s");
    if (b->used == LAYOUT_ONE_BUCKET)
        printf ("one bucket each\n");
    else
        printf ("buckets of %" N " elements\n", b->used);
    for (int i = 0; i < l->num_buffers; i++)
        print_buffer (b, i);
    printf ("\ngroups of buckets, as buffer.bucket:");
    for (int g = 0; g < l->num_groups; g++) {
        printf ("%s", g ? "," : "");
        for (int m = 0; m < l->group[g].num_members; m++)
            printf (" %d.%d", l->group[g].member[m].buffer, l->group[g].member[m].bucket);
    }
    putchar ('\n');
}

/* --- JSON: the names are those of Megatron-LM's objects --- */

static const char *comma (bool more)
{
    return more ? "," : "";
}

static void print_ranges (const struct plan_buffers *b, const struct layout_buffer *buffer)
{
    struct layout_ranges r;
    bool more = false;

    printf (",\"num_optimizer_shards\":%d,\"ranges\":[", buffer->shards);
    for (int rank = 0; rank < buffer->shards; rank++) {
        for (size_t i = 0; i < buffer->num_entries; i++) {
            const struct layout_entry *e = &buffer->entry[i];

            if (!layout_ranges (b->layout, buffer, e, rank, &r))
                continue;
            printf ("%s[%d,%d,%zu,%" N ",%" N ",%" N ",%" N ",%" N ",%" N ",%" N ",%" N "]",
                    comma (more), rank, e->bucket, e->param, r.world[0], r.world[1],
                    r.bucket[0], r.bucket[1], r.local[0], r.local[1], r.param[0], r.param[1]);
            more = true;
        }
    }
    printf ("],\"ranges_per_rank\":[");
    for (int rank = 0; rank < buffer->shards; rank++) {
        size_t count = 0;

        for (size_t i = 0; i < buffer->num_entries; i++)
            count += layout_ranges (b->layout, buffer, &buffer->entry[i], rank, &r);
        printf ("%s%zu", comma (rank > 0), count);
    }
    putchar (']');
}

static void print_map (const char *name, const struct layout_buffer *buffer)
{
    printf (",\"%s\":[", name);
    for (size_t i = 0; i < buffer->num_entries; i++) {
        const struct layout_entry *e = &buffer->entry[i];

        printf ("%s[%zu,%" N ",%" N ",%d]", comma (i > 0), e->param, e->start, e->end,
                e->bucket);
    }
    putchar (']');
}

static void print_buckets (const struct layout_buffer *buffer)
{
    printf (",\"n_buckets\":%d,\"bucket_indices\":[", buffer->num_buckets);
    for (int k = 0; k < buffer->num_buckets; k++)
        printf ("%s[%" N ",%" N "]", comma (k > 0), buffer->bucket[k].start,
                buffer->bucket[k].end);
    printf ("],\"per_bucket_numel_unpadded\":[");
    for (int k = 0; k < buffer->num_buckets; k++)
        printf ("%s%" N, comma (k > 0), buffer->bucket[k].unpadded);
    printf ("],\"bucket_params\":[");
    for (int k = 0; k < buffer->num_buckets; k++) {
        const struct layout_bucket *bucket = &buffer->bucket[k];

        printf ("%s[", comma (k > 0));
        for (size_t i = 0; i < bucket->num_entries; i++)
            printf ("%s%zu", comma (i > 0), buffer->entry[bucket->first + i].param);
        putchar (']');
    }
    printf ("],\"param_indices\":[");
    for (size_t i = 0; i < buffer->num_entries; i++)
        printf ("%s%zu", comma (i > 0), buffer->index[i]);
    putchar (']');
}

static void print_buffer_json (const struct plan_buffers *b,
                               const struct layout_buffer *buffer)
{
    printf ("{\"kind\":\"%s\",\"chunk\":%d,\"param_dtype\":\"torch.%s\",\"grad_dtype\":"
            "\"torch.%s\",\"dp_world\":%d,\"gradient_scaling_factor\":%.17g,\"numel\":%" N
            ",\"numel_unpadded\":%" N, buffer->expert ? "expert" : "dense", buffer->chunk,
            torch_name (buffer->param_dtype), torch_name (buffer->grad_dtype), buffer->shards,
            plan_buffers_grad_scale (b, buffer), buffer->numel, buffer->unpadded);
    print_buckets (buffer);
    print_map ("param_index_map", buffer);
    print_map ("params", buffer);
    if (b->sharded)
        print_ranges (b, buffer);
    else
        printf (",\"num_optimizer_shards\":null");
    putchar ('}');
}

static void print_groups (const char *name, const struct layout *l, bool expert)
{
    bool more = false;

    printf (",\"%s\":[", name);
    for (int g = 0; g < l->num_groups; g++) {
        const struct layout_group *group = &l->group[g];

        if (group->expert != expert)
            continue;
        printf ("%s[", comma (more));
        for (int m = 0; m < group->num_members; m++)
            printf ("%s[%d,%d]", comma (m > 0), group->member[m].buffer,
                    group->member[m].bucket);
        putchar (']');
        more = true;
    }
    putchar (']');
}

static void print_size (const char *name, int64_t size)
{
    if (size == LAYOUT_ONE_BUCKET)
        printf (",\"%s\":null", name);
    else
        printf (",\"%s\":%" N, name, size);
}

void plan_buffers_print_json (const struct plan_buffers *b)
{
    const struct layout *l = b->layout;

    printf ("{\"pp_rank\":%d,\"dp\":%d,\"expert_dp\":%d,\"use_distributed_optimizer\":%s",
            b->pp_rank, b->dp, b->edp, b->sharded ? "true" : "false");
    print_size ("resolved_bucket_size", b->resolved);
    print_size ("bucket_size_used", b->used);
    printf (",\"buffers\":[");
    for (int i = 0; i < l->num_buffers; i++) {
        printf ("%s", comma (i > 0));
        print_buffer_json (b, &l->buffer[i]);
    }
    putchar (']');
    print_groups ("bucket_groups", l, false);
    print_groups ("expert_bucket_groups", l, true);
    printf ("}\n");
}
