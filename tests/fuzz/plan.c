/* plan.c - the list of parameters that megatron plan buffers reads, and their layout
 *
 * Input: ranks that share dense and expert parameters, a bucket's size, flags; then the file.
 */

#include <stdlib.h>
#include <string.h>

#include "cmd/plan/buffers.h"
#include "tests/fuzz/fuzz.h"

/* Parameters lie inside their buffer, and do not overlap. */
static void check_buffer (const struct layout *layout, const struct plan_buffers *b,
                          const struct layout_buffer *buffer)
{
    int64_t end = 0;

    for (size_t i = 0; i < buffer->num_entries; i++) {
        const struct layout_entry *e = &buffer->entry[i];

        fuzz_check (e->start >= end && e->end - e->start == b->param[e->param].numel
                        && e->bucket >= 0 && e->bucket < buffer->num_buckets
                        && e->start >= buffer->bucket[e->bucket].start
                        && e->end <= buffer->bucket[e->bucket].end,
                    "entry %zu is in no place", i);
        end = e->end;
    }
    for (int i = 0; i < buffer->num_buckets; i++)
        fuzz_check (layout_shard (layout, buffer, i) >= 0, "a shard below 0");
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct layout_config config = { .grad_float32 = true };
    struct plan_buffers b = { 0 };
    int flags;

    config.shards[0] = fuzz_range (&in, 1, 600);
    config.shards[1] = fuzz_range (&in, 1, 600);
    config.bucket_size = fuzz_range (&in, 0, 60000) - 1;
    if (config.bucket_size < 1)
        config.bucket_size = LAYOUT_ONE_BUCKET;
    flags = (int)fuzz_number (&in, 1);
    config.sharded = flags & 1;
    config.high_busbw = flags & 2;
    config.one_group = flags & 4;
    if (plan_buffers_read_file (&b, fuzz_file ("params.json", in), NULL) == 0) {
        for (size_t i = 0; i < b.n; i++)
            fuzz_check (b.name[i] && b.name[i][0] && b.param[i].numel >= 0,
                        "parameter %zu has no name or size", i);
        b.layout = layout_create (&config, b.param, b.n, NULL);
        for (int i = 0; b.layout && i < b.layout->num_buffers; i++)
            check_buffer (b.layout, &b, &b.layout->buffer[i]);
    }
    layout_destroy (b.layout);
    for (size_t i = 0; b.name && i < b.n; i++)
        free (b.name[i]);
    free (b.name);
    free (b.param);
}

const struct fuzz_target fuzz_plan = { "plan", run };
