/* twins_rope.c - rotary position embedding on the double against the CPU's */

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

struct heads {
    int64_t tokens, groups, heads;
    int64_t half, size; /* size: elements of a head, at least 2 half */
    int64_t between;    /* elements between two groups */
    size_t shift, table_shift;
};

static const struct heads heads[] = {
    { 0, 1, 1, 8, 16, 0, 0, 0 }, { 4, 2, 0, 8, 16, 8, 0, 0 }, { 4, 1, 1, 0, 16, 0, 0, 0 },
    { 2, 1, 1, 1, 2, 0, 0, 0 }, { 6, 2, 3, 8, 16, 16, 0, 0 }, { 6, 2, 3, 8, 16, 16, 1, 0 },
    { 4, 2, 1, 12, 40, 8, 0, 0 }, { 4, 1, 2, 7, 17, 3, 0, 0 }, { 6, 4, 2, 64, 128, 0, 0, 0 },
    { 4, 1, 2, 16, 32, 0, 0, 1 },
};

enum { BATCH = 2, COUNT = 11 };

static void test (enum mg_dtype dtype, const struct heads *h, bool interleaved, bool inverse,
                  bool positions)
{
    int32_t at[6];
    struct kern_rope a = { .tokens = h->tokens, .batch = BATCH, .groups = h->groups,
                           .heads = h->heads, .half = h->half, .interleaved = interleaved,
                           .inverse = inverse, .stride_g = h->heads * h->size + h->between,
                           .stride_h = h->size, .count = COUNT, .dtype = dtype };

    for (int i = 0; i < 6; i++)
        at[i] = (i * 7 + 3) % COUNT;
    a.x = twins_random ((size_t)(h->tokens * h->groups * a.stride_g), dtype, h->shift, 1);
    a.table = twins_random ((size_t)(COUNT * 2 * h->half), MG_FLOAT32,
                            h->shift + h->table_shift, 2);
    if (positions) {
        a.position.at = twins_values (6, sizeof (at[0]), 1, at);
        a.position.stride_s = 1;
        a.position.stride_b = 3;
    }
    twins_check (KERN_ROPE, &a, twins_tolerance (dtype), "rope %s %dx%dx%d, %d of %d+%zu%s%s%s",
                 mg_dtype_name (dtype), (int)h->tokens, (int)h->groups, (int)h->heads,
                 (int)(2 * h->half), (int)h->size, h->shift, interleaved ? " interleaved" : "",
                 inverse ? " inverse" : "", positions ? " positions" : "");
}

/* What instrumented kernels move of a row with many heads: the table is small beside them. */
static void test_counts (bool interleaved)
{
    enum { TOKENS = 4, HEADS = 16, HALF = 64, N = TOKENS * HEADS * 2 * HALF };
    struct kern_rope a = { .tokens = TOKENS, .batch = 2, .groups = 1, .heads = HEADS,
                           .half = HALF, .interleaved = interleaved, .stride_g = HEADS * 2 * HALF,
                           .stride_h = 2 * HALF, .count = COUNT, .dtype = MG_BFLOAT16 };
    struct launch_counts c;

    a.x = twins_random (N, MG_BFLOAT16, 0, 1);
    a.table = twins_random (COUNT * 2 * HALF, MG_FLOAT32, 0, 2);
    if (!twins_count (KERN_ROPE, &a, &c))
        return;
    is_int (c.written_bytes, N * 2, "rope%s writes each element once",
            interleaved ? " interleaved" : "");
    is_int (c.read_bytes, N * 2 + N * 4, "it reads each element, and its factors");
    ok (c.sectors * 2 <= 3 * (2 * N * 2 / 32), "factors take at most half as many sectors as x");
}

void twins_rope (void)
{
    for (size_t d = 0; d < TWINS_DTYPES; d++)
        for (size_t i = 0; i < sizeof (heads) / sizeof (heads[0]); i++)
            for (int how = 0; how < 4; how++)
                test (twins_dtypes[d], &heads[i], how & 1, how & 2, (how / 2 + how + i) % 2);
    test_counts (false);
    test_counts (true);
}
