/* twins_expert_sort.c - places of the rows of choices and chunks on the double against the CPU's */

#include <stdlib.h>

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

/* n values of 'size' bytes that no op writes. */
static void *untouched (int64_t n, size_t size)
{
    char *x = kit_alloc ((size_t)n + 1, size);
    void *operand;

    for (size_t i = 0; i < (size_t)n * size; i++)
        x[i] = (char)(0xb5 + i % size);
    operand = twins_values ((size_t)n, size, 0, x);
    free (x);
    return operand;
}

/* --- sort --- */

/* The results that a call writes. */
enum { COUNT = 1, OFFSET = 2, ROW = 4, SOURCE = 8, TALLY = 16, RANK_COUNT = 32, ALL = 63 };

struct sort_case {
    int64_t tokens, topk, first, experts, ranks;
    int64_t all; /* choices are of this many experts; one choice in all + 1 is dropped */
};

static const struct sort_case sorts[] = {
    { 0, 2, 0, 4, 2, 4 },    { 1, 1, 0, 1, 1, 1 },      { 17, 3, 0, 8, 4, 8 },
    { 17, 3, 2, 4, 2, 8 },   { 100, 2, 64, 64, 8, 200 }, { 50, 8, 0, 5, 1, 5 },
    { 40, 0, 0, 3, 3, 3 },   { 9, 2, 0, 0, 3, 4 },      { 300, 7, 0, 600, 300, 600 },
};

static void test_sort (const struct sort_case *s, int64_t capacity, int64_t begin, int64_t limit,
                       int wanted)
{
    int64_t n = s->tokens * s->topk;
    int64_t rows = capacity ? s->experts * capacity : limit ? limit : n;
    int32_t *index = kit_alloc ((size_t)n + 1, sizeof (*index));
    struct kern_expert_sort a = { .tokens = s->tokens, .topk = s->topk, .first = s->first,
                                  .experts = s->experts, .capacity = capacity, .begin = begin,
                                  .limit = limit, .ranks = s->ranks };

    for (int64_t c = 0; c < n; c++)
        index[c] = (int32_t)((c * c + 3 * c) % (s->all + 1)) - 1;
    a.index = twins_values ((size_t)n, sizeof (*index), 0, index);
    free (index);
    if (wanted & COUNT)
        a.count = untouched (s->experts, sizeof (*a.count));
    if (wanted & OFFSET)
        a.offset = untouched (s->experts + 1, sizeof (*a.offset));
    if (wanted & ROW)
        a.row = untouched (n, sizeof (*a.row));
    if (wanted & SOURCE)
        a.source = untouched (rows, sizeof (*a.source));
    if (wanted & TALLY)
        a.tally = twins_random ((size_t)s->experts, MG_FLOAT32, 0, 1);
    if (wanted & RANK_COUNT)
        a.rank_count = untouched (s->ranks, sizeof (*a.rank_count));
    twins_check (KERN_EXPERT_SORT, &a, TWINS_EXACT,
                 "expert_sort %d choices, experts %d to %d, capacity %d, %d rows from %d on, %d",
                 (int)n, (int)s->first, (int)(s->first + s->experts - 1), (int)capacity,
                 (int)limit, (int)begin, wanted);
}

static void test_sorts (void)
{
    const struct sort_case keys = { 2100, 2, 1, 9, 3, 11 }; // more than one block sorts
    const struct sort_case many = { 2048, 8, 0, 65536, 8, 65536 };

    for (size_t i = 0; i < sizeof (sorts) / sizeof (sorts[0]); i++) {
        test_sort (&sorts[i], 0, 0, 0, ALL);
        test_sort (&sorts[i], 1, 0, 0, ALL);
        test_sort (&sorts[i], 13, 0, 0, ALL);
        test_sort (&sorts[i], 0, 2, 1, ALL);
        test_sort (&sorts[i], 0, 7, 40, ALL);
        test_sort (&sorts[i], 0, 0, 1000, ALL);
    }
    for (int wanted = 0; wanted < ALL; wanted = 2 * wanted + 1) {
        test_sort (&sorts[3], 0, 0, 0, wanted);
        test_sort (&sorts[3], 4, 0, 0, ALL - wanted);
        test_sort (&sorts[3], 0, 3, 20, wanted ^ ROW);
    }
    test_sort (&keys, 0, 0, 0, ALL);
    test_sort (&keys, 300, 0, 0, ALL);
    test_sort (&many, 0, 0, 0, ALL);
}

/* --- chunks --- */

struct chunk_case {
    int64_t parts, sources, experts;
};

static const struct chunk_case chunks[] = {
    { 1, 1, 1 }, { 1, 4, 3 }, { 2, 3, 5 }, { 3, 1, 2 }, { 1, 0, 2 }, { 1, 2, 0 },
    { 0, 2, 3 }, { 2, 40, 60 },
};

enum { CHUNK_ROW = 1, CHUNK_SOURCE = 2, CHUNK_OFFSET = 4, CHUNK_ALL = 7 };

/* Counts lie in a matrix [part][source][experts + 4].  The call takes experts 2, 3, ... of it. */
static void test_window (const struct chunk_case *s, int64_t begin, int64_t limit, int wanted)
{
    int64_t all = s->experts + 4, n = s->parts * s->sources * all + 3;
    int64_t *count = kit_alloc ((size_t)n, sizeof (*count));
    struct kern_expert_chunks a = { .parts = s->parts, .sources = s->sources,
                                    .experts = s->experts, .begin = begin, .limit = limit };

    for (int64_t i = 0; i < n; i++)
        count[i] = i * i % 7;
    a.stride_source = all;
    a.stride_part = s->sources * all;
    a.count = (int64_t *)twins_values ((size_t)n, sizeof (*count), 0, count) + 2;
    free (count);
    if (wanted & CHUNK_ROW)
        a.row = untouched (s->parts * limit, sizeof (*a.row));
    if (wanted & CHUNK_SOURCE)
        a.source = untouched (s->parts * limit, sizeof (*a.source));
    if (wanted & CHUNK_OFFSET)
        a.offset = untouched (s->experts + 1, sizeof (*a.offset));
    twins_check (KERN_EXPERT_CHUNKS, &a, TWINS_EXACT,
                 "expert_chunks %d parts, %d sources, %d experts, %d rows from %d on, %d",
                 (int)s->parts, (int)s->sources, (int)s->experts, (int)limit, (int)begin, wanted);
}

static void test_chunks (void)
{
    for (size_t i = 0; i < sizeof (chunks) / sizeof (chunks[0]); i++) {
        for (int64_t limit = 1; limit < 40; limit = 3 * limit + 1)
            for (int64_t begin = 0; begin <= 2 * limit; begin += limit)
                test_window (&chunks[i], begin, limit, CHUNK_ALL);
        test_window (&chunks[i], 0, 10000, CHUNK_ALL);
    }
    for (int wanted = 0; wanted < CHUNK_ALL; wanted++)
        test_window (&chunks[2], 2, 17, wanted);
}

void twins_expert_sort (void)
{
    test_sorts ();
    test_chunks ();
}
