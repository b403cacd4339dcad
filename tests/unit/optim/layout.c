/* Layouts: boundaries of padding and buckets, rules for their size, shards that cover every
 * element once; refusals.  (t1003-plan-buffers.t compares whole layouts.)
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/layout.h"
#include "tests/tap/tap.h"

enum { MAX = 10 };

static struct layout *create (const struct layout_config *c, const struct layout_param *p,
                              size_t n)
{
    struct mg_error err;
    struct layout *l = layout_create (c, p, n, &err);

    if (!l)
        bail_out ("%s", err.text);
    return l;
}

static void test_buckets (void)
{
    /* ten parameters of 9025 elements over 8 ranks: bucket size, elements of the first
     * bucket plain, sharded without and with padding, number of buckets of both */
    static const struct {
        int64_t size, plain, unpadded, padded;
        int count, sharded;
    } cases[] = {
        { LAYOUT_ONE_BUCKET, 90250, 90817, 90880, 1, 1 },
        { 0, 9025, 9025, 9088, 10, 10 },
        { 9000, 9025, 9025, 9088, 10, 10 },
        { 9025, 9025, 9025, 9088, 10, 10 },
        { 9026, 18050, 18113, 18176, 5, 5 },
        { 18050, 18050, 18113, 18176, 5, 5 },
        { 18051, 27075, 18113, 18176, 4, 5 },
        { 18113, 27075, 18113, 18176, 4, 5 },
        { 18114, 27075, 27201, 27264, 4, 4 },
        { 20000, 27075, 27201, 27264, 4, 4 },
        { 90250, 90250, 90817, 90880, 1, 1 },
        { INT64_MAX, 90250, 90817, 90880, 1, 1 },
    };
    struct layout_param params[MAX] = { { .numel = 0 } };

    for (int i = 0; i < MAX; i++)
        params[i].numel = 9025;
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct layout_config config = { .grad_float32 = true, .shards = { 8, 8 },
                                        .bucket_size = cases[i].size };
        struct layout *l = create (&config, params, MAX);
        const struct layout_buffer *b = l->buffer;

        ok (b->num_buckets == cases[i].count && b->bucket[0].end == cases[i].plain
                && b->numel == 90250 && b->unpadded == 90250,
            "bucket size %lld, plain: %d buckets", (long long)cases[i].size, b->num_buckets);
        layout_destroy (l);
        config.sharded = true;
        l = create (&config, params, MAX);
        b = l->buffer;
        ok (b->num_buckets == cases[i].sharded && b->bucket[0].unpadded == cases[i].unpadded
                && b->bucket[0].end == cases[i].padded
                && b->numel == b->bucket[b->num_buckets - 1].end,
            "and sharded: %d", b->num_buckets);
        layout_destroy (l);
    }
}

/* Every element of every parameter belongs to exactly one rank, in place. */
static void test_shards (int ranks, bool busbw)
{
    struct layout_config config = { .sharded = true, .high_busbw = busbw, .bucket_size = 500,
                                    .shards = { ranks, 1 } };
    struct layout_param params[MAX] = { { .numel = 0 } };
    static unsigned char hit[MAX][700];
    struct layout *l;
    const struct layout_buffer *b;
    bool once = true, inside = true;
    int64_t sum = 0;

    memset (hit, 0, sizeof (hit));
    for (int i = 0; i < MAX; i++)
        params[i] = (struct layout_param){ .numel = i * i * i % 700,
                                           .shared_embedding = i % 4 == 3 };
    l = create (&config, params, MAX);
    b = l->buffer;
    for (int rank = 0; rank < ranks; rank++) {
        for (size_t e = 0; e < b->num_entries; e++) {
            struct layout_ranges r;
            size_t p = b->entry[e].param;

            if (!layout_ranges (l, b, &b->entry[e], rank, &r))
                continue;
            for (int64_t i = r.param[0]; i < r.param[1]; i++)
                hit[p][i]++;
            inside = inside && r.local[0] >= 0
                     && r.local[1] <= layout_shard (l, b, b->entry[e].bucket)
                     && r.param[1] <= params[p].numel
                     && r.local[1] - r.local[0] == r.param[1] - r.param[0];
        }
    }
    for (int i = 0; i < MAX; i++)
        for (int64_t k = 0; k < 700; k++)
            once = once && hit[i][k] == (k < params[i].numel);
    ok (once && inside, "%d ranks: every element has one owner", ranks);
    for (int k = 0; k < b->num_buckets; k++)
        sum += layout_shard (l, b, k);
    ok (sum == layout_shard_total (l, b) && sum * ranks == b->numel, "shards make the buffer");
    layout_destroy (l);
}

static void test_rule (void)
{
    static const struct {
        struct layout_bucket_rule rule;
        int64_t resolved, used;
    } cases[] = {
        { { .dp = 1, .overlap = true }, 40000000, 40000000 },
        { { .dp = 40, .overlap = true }, 40000000, 40000000 },
        { { .dp = 41, .overlap = true }, 41000000, 41000000 },
        { { .dp = 41 }, -1, -1 },
        { { .dp = 1, .overlap = true, .bucket_size = 7 }, 7, 7 },
        { { .dp = 1, .overlap = true, .bucket_size = 7, .pp_rank = 1 }, 7, -1 },
        { { .dp = 1, .overlap = true, .bucket_size = 7, .disabled = true }, 7, -1 },
        { { .dp = 1, .bucket_size = 7 }, -1, -1 },
        { { .dp = 1, .overlap = true, .num_buckets = 3, .num_params = 11 }, 3, 3 },
        { { .dp = 1, .overlap = true, .num_buckets = 12, .num_params = 11 }, 0, 0 },
        { { .dp = 1, .overlap = true, .num_buckets = 2, .num_params = 11, .bucket_size = 9 }, 5,
          5 },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        int64_t resolved = -9, used = layout_bucket_size (&cases[i].rule, &resolved);

        ok (used == cases[i].used && resolved == cases[i].resolved,
            "bucket size, case %zu: %lld, in use %lld", i, (long long)resolved,
            (long long)used);
        is_int (layout_bucket_size (&cases[i].rule, NULL), used, "without the first");
    }
    ok (layout_grad_scale (true, false, true, 8, 2) == 1.0, "a sum is not scaled");
    ok (layout_grad_scale (false, false, false, 8, 2) == 0.125
            && layout_grad_scale (false, false, true, 8, 2) == 0.125, "a mean is, before");
    ok (layout_grad_scale (false, true, false, 8, 2) == 1.0
            && layout_grad_scale (false, true, true, 8, 2) == 0.25, "or in the collective");
}

static void test_chunks (void)
{
    struct layout_config config = { .grad_float32 = true, .bucket_size = 10,
                                    .shards = { 2, 2 }, .sharded = true };
    const struct layout_param params[] = {
        { .numel = 20 }, { .numel = 30 }, { .numel = 5, .chunk = 2, .expert = true },
        { .numel = 40, .chunk = 2 }, { .numel = 50, .chunk = 2 },
    };
    struct layout *l = create (&config, params, 5);

    is_int (l->num_buffers, 3, "a buffer for each chunk and kind");
    is_int (l->buffer[0].num_buckets, 2, "the first chunk has buckets");
    ok (l->buffer[1].chunk == 2 && !l->buffer[1].expert && l->buffer[1].num_buckets == 1,
        "a later one has one");
    ok (l->buffer[2].expert && l->num_groups == 4 && l->group[3].expert
            && l->group[3].member[0].buffer == 2,
        "expert buffers come last, with groups of their own");
    layout_destroy (l);
    config.one_group = true;
    l = create (&config, params, 5);
    ok (l->num_groups == 3 && l->group[0].num_members == 2, "all buckets in one group");
    layout_destroy (l);
}

/* Buffers of other types before, of, and after fp8: members of a group as buffer.bucket. */
static void test_groups (void)
{
    static const struct {
        bool one_group;
        int chunk;
        const char *want;
    } cases[] = {
        { false, 0, "1.0, 1.1 0.0 0.1 2.0" },
        { true, 0, "0.0 0.1 1.0 1.1 2.0" },
        { false, 1, "0.0 1.0 2.0" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        const int chunk = cases[i].chunk;
        struct layout_config config = { .grad_float32 = true, .shards = { 2, 2 },
                                        .bucket_size = 10, .sharded = true,
                                        .one_group = cases[i].one_group };
        const struct layout_param params[] = {
            { 20, MG_FLOAT32, MG_FLOAT32, false, false, chunk },
            { 30, MG_BFLOAT16, MG_UINT8, false, false, chunk },
            { 40, MG_FLOAT32, MG_FLOAT32, false, false, chunk },
            { 50, MG_BFLOAT16, MG_UINT8, false, false, chunk },
            { 60, MG_BFLOAT16, MG_BFLOAT16, false, false, chunk },
        };
        struct layout *l = create (&config, params, 5);
        char got[80];
        size_t used = 0;

        for (int g = 0; g < l->num_groups; g++)
            for (int m = 0; m < l->group[g].num_members; m++)
                used += snprintf (got + used, sizeof (got) - used, "%s%d.%d",
                                  m ? " " : g ? ", " : "", l->group[g].member[m].buffer,
                                  l->group[g].member[m].bucket);
        is_str (got, cases[i].want, "groups with fp8, case %zu", i);
        layout_destroy (l);
    }
}

static void test_badparam (void)
{
    struct layout_config good = { .shards = { 1, 1 } }, bad;
    struct layout_param p = { .numel = 1 }, two[2] = { { .chunk = 1 }, { .chunk = 0 } };
    struct mg_error err = { "" };
    struct layout *none = create (&good, &p, 0);

    ok (none->num_buffers == 0 && none->num_groups == 0, "no parameters, no buffers");
    layout_destroy (none);
    bad = good;
    bad.bucket_size = -2;
    ok (!layout_create (&bad, &p, 1, &err) && errno == EINVAL, "bucket size -2: %s", err.text);
    for (int i = 0; i < 2; i++) {
        bad = good;
        bad.shards[i] = 0;
        ok (!layout_create (&bad, &p, 1, &err) && errno == EINVAL, "no ranks: %s", err.text);
    }
    p.numel = -1;
    ok (!layout_create (&good, &p, 1, &err) && errno == EINVAL, "-1 elements: %s", err.text);
    ok (!layout_create (&good, two, 2, &err) && errno == EINVAL, "chunks fall: %s", err.text);
    p.numel = INT64_MAX;
    good.sharded = true;
    ok (!layout_create (&good, &p, 1, &err) && errno == EOVERFLOW, "too many: %s", err.text);
    errno = 0;
    layout_destroy (NULL);
    is_int (errno, 0, "layout_destroy (NULL) keeps errno");
}

/* The reference's table of padding: rows of value, ranks, start of a parameter, end of a
 * bucket, the same for bandwidth.
 */
static void test_padding (void)
{
    char path[4096];
    json_t *root, *rows, *row;
    size_t i, wrong = 0;

    if (!shared_file (path, sizeof (path), "golden/04_ddp_buffers.json")) {
        skip (1, "no %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, NULL)))
        bail_out ("%s: not JSON", path);
    rows = json_object_get (json_object_get (root, "padding"), "rows");
    json_array_foreach (rows, i, row) {
        int64_t want[5];

        for (size_t k = 0; k < 5; k++)
            want[k] = json_integer_value (json_array_get (row, k));
        for (int busbw = 0; busbw < 2 && want[0] > 0; busbw++) {
            struct layout_config config = { .sharded = true, .high_busbw = busbw,
                                            .bucket_size = LAYOUT_ONE_BUCKET,
                                            .shards = { (int)want[1], 1 } };
            struct layout_param two[2] = { { .numel = 1 }, { .numel = want[0] } };
            struct layout *l = create (&config, two, 2);

            wrong += l->buffer->entry[1].start != want[2];
            layout_destroy (l);
            l = create (&config, two + 1, 1);
            wrong += l->buffer->numel != want[3 + busbw];
            layout_destroy (l);
        }
    }
    ok (i > 50 && wrong == 0, "padding: %zu rows, %zu wrong", i, wrong);
    json_decref (root);
}

int main (void)
{
    test_buckets ();
    for (int ranks = 1; ranks < 8; ranks++)
        test_shards (ranks, ranks == 3);
    test_rule ();
    test_chunks ();
    test_groups ();
    test_badparam ();
    test_padding ();
    return done_testing ();
}
