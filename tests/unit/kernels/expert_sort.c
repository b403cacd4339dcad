/* expert_sort - where the rows of choices and of received chunks go, by plain loops */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { UNTOUCHED = -77 };

static bool same (const int64_t *got, const int64_t *want, int64_t n)
{
    return memcmp (got, want, (size_t)n * sizeof (*got)) == 0;
}

/* --- sort --- */

struct sorted {
    int64_t *count, *offset, *rank_count;
    int32_t *row, *source;
    float *tally;
};

static struct sorted sorted_create (const struct kern_expert_sort *a, int64_t rows)
{
    struct sorted s = {
        kit_alloc ((size_t)a->experts, 8), kit_alloc ((size_t)a->experts + 1, 8),
        kit_alloc ((size_t)a->ranks, 8), kit_alloc ((size_t)(a->tokens * a->topk), 4),
        kit_alloc ((size_t)rows, 4), kit_alloc ((size_t)a->experts, 4) };

    for (int64_t i = 0; i < rows; i++)
        s.source[i] = UNTOUCHED;
    for (int64_t e = 0; e < a->experts; e++)
        s.tally[e] = 10;
    return s;
}

static void sorted_destroy (struct sorted *s)
{
    free (s->count);
    free (s->offset);
    free (s->rank_count);
    free (s->row);
    free (s->source);
    free (s->tally);
}

/* Of the rows, the window that is wanted. */
static void take_window (const struct kern_expert_sort *a, struct sorted *s)
{
    int64_t rows = s->offset[a->experts], begin = a->begin < rows ? a->begin : rows;
    int64_t end = begin + a->limit < rows ? begin + a->limit : rows;

    for (int64_t c = 0; c < a->tokens * a->topk; c++)
        s->row[c] = s->row[c] < begin || s->row[c] >= end ? -1 : s->row[c] - (int32_t)begin;
    for (int64_t i = 0; i < rows; i++)
        s->source[i] = i < end - begin ? s->source[i + begin] : UNTOUCHED;
    for (int64_t e = 0; e <= a->experts; e++) {
        int64_t at = s->offset[e] < end ? s->offset[e] : end;

        s->offset[e] = at > begin ? at - begin : 0;
    }
}

/* For each expert all choices in order. */
static void sort (const struct kern_expert_sort *a, struct sorted *s)
{
    int64_t rows = 0, n = a->tokens * a->topk;

    for (int64_t c = 0; c < n; c++)
        s->row[c] = -1;
    for (int64_t e = 0; e < a->experts; e++) {
        s->offset[e] = rows;
        for (int64_t c = 0; c < n; c++) {
            if (a->index[c] != a->first + e
                || (a->capacity && rows - s->offset[e] == a->capacity))
                continue;
            s->tally[e]++;
            s->source[rows] = (int32_t)c;
            s->row[c] = (int32_t)rows++;
        }
        while (a->capacity && rows - s->offset[e] < a->capacity)
            s->source[rows++] = -1;
        s->count[e] = rows - s->offset[e];
        s->rank_count[e / (a->experts / a->ranks)] += s->count[e];
    }
    s->offset[a->experts] = rows;
    if (a->limit > 0)
        take_window (a, s);
}

static void test_sort (const struct kernels *k, struct kern_expert_sort a)
{
    int64_t n = a.tokens * a.topk, rows = a.capacity ? a.experts * a.capacity : n;
    struct sorted want, got;

    want = sorted_create (&a, rows);
    got = sorted_create (&a, rows);
    sort (&a, &want);
    a.count = got.count;
    a.offset = got.offset;
    a.rank_count = got.rank_count;
    a.row = got.row;
    a.source = got.source;
    a.tally = got.tally;
    ok (kern_expert_sort (k, &a, NULL, NULL) == 0 && same (got.count, want.count, a.experts)
            && same (got.offset, want.offset, a.experts + 1)
            && same (got.rank_count, want.rank_count, a.ranks)
            && memcmp (got.row, want.row, (size_t)n * 4) == 0
            && memcmp (got.source, want.source, (size_t)rows * 4) == 0
            && memcmp (got.tally, want.tally, (size_t)a.experts * 4) == 0,
        "%d choices, experts %d to %d, capacity %d, %d rows from %d on", (int)n, (int)a.first,
        (int)(a.first + a.experts - 1), (int)a.capacity, (int)a.limit, (int)a.begin);
    sorted_destroy (&want);
    sorted_destroy (&got);
}

static void test_sorts (const struct kernels *k)
{
    static const int64_t sizes[][6] = { /* tokens, topk, first, experts, ranks, all experts */
        { 0, 2, 0, 4, 2, 4 },  { 1, 1, 0, 1, 1, 1 },   { 17, 3, 0, 8, 4, 8 },
        { 17, 3, 2, 4, 2, 8 }, { 100, 2, 64, 64, 8, 200 }, { 50, 8, 0, 5, 1, 5 },
    };

    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        const int64_t *s = sizes[i];
        int32_t *index = kit_alloc ((size_t)(s[0] * s[1]), sizeof (*index));
        struct kern_expert_sort a = { s[0], s[1], index, s[2], s[3], .ranks = s[4] };

        for (int64_t c = 0; c < s[0] * s[1]; c++)
            index[c] = (int32_t)((c * c + 3 * c) % (s[5] + 1)) - 1;
        for (a.capacity = 0; a.capacity < 20; a.capacity = 2 * a.capacity + 1)
            test_sort (k, a);
        a.capacity = 0;
        for (a.limit = 1; a.limit < 500; a.limit = 6 * a.limit + 1)
            for (a.begin = 0; a.begin <= 3 * a.limit; a.begin += a.limit)
                test_sort (k, a);
        free (index);
    }
}

/* Results whose pointers are NULL are not written. */
static void test_parts (const struct kernels *k)
{
    int32_t index[] = { 1, 0, 1, -1 }, row[4];
    int64_t count[2];
    struct kern_expert_sort a = { .tokens = 2, .topk = 2, .index = index, .experts = 2 };
    struct mg_error err = { "" };

    ok (kern_expert_sort (k, &a, NULL, NULL) == 0, "nothing is wanted");
    a.count = count;
    ok (kern_expert_sort (k, &a, NULL, NULL) == 0 && count[0] == 1 && count[1] == 2, "counts");
    a.row = row;
    ok (kern_expert_sort (k, &a, NULL, NULL) == 0 && row[0] == 1 && row[1] == 0 && row[2] == 2
            && row[3] == -1, "rows");
    a.rank_count = count;
    ok (kern_expert_sort (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a.ranks = 3;
    ok (kern_expert_sort (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
}

/* --- chunks --- */

/* The expert of each received row that is there; returns their number. */
static int64_t receive (const struct kern_expert_chunks *a, int32_t *expert)
{
    int64_t n = 0;

    for (int64_t p = 0; p < a->parts; p++) {
        int64_t at = 0;

        for (int64_t s = 0; s < a->sources; s++)
            for (int64_t e = 0; e < a->experts; e++)
                for (int64_t i = 0;
                     i < a->count[p * a->stride_part + s * a->stride_source + e]; i++, at++)
                    if (at >= a->begin && at - a->begin < a->limit)
                        expert[n++] = (int32_t)e;
    }
    return n;
}

static void test_window (const struct kernels *k, struct kern_expert_chunks a)
{
    int64_t most = a.parts * a.limit, rows = 0, n;
    int32_t *expert = kit_alloc ((size_t)most, 4), *row = kit_alloc ((size_t)most, 4);
    int32_t *source = kit_alloc ((size_t)most, 4);
    int64_t *offset = kit_alloc ((size_t)a.experts + 1, 8);
    bool right;

    for (int64_t i = 0; i < most; i++)
        row[i] = source[i] = UNTOUCHED;
    n = receive (&a, expert);
    a.offset = offset;
    a.row = row;
    a.source = source;
    right = kern_expert_chunks (k, &a, NULL, NULL) == 0;
    for (int64_t e = 0; e < a.experts; e++) {
        right = right && offset[e] == rows;
        for (int64_t j = 0; j < n; j++) {
            if (expert[j] != e)
                continue;
            right = right && row[j] == rows && source[rows] == j;
            rows++;
        }
    }
    right = right && offset[a.experts] == rows && rows == n;
    for (int64_t i = n; i < most; i++)
        right = right && row[i] == UNTOUCHED && source[i] == UNTOUCHED;
    ok (right, "%d parts, %d sources, %d experts: %d rows from %d on", (int)a.parts,
        (int)a.sources, (int)a.experts, (int)n, (int)a.begin);
    free (expert);
    free (row);
    free (source);
    free (offset);
}

/* Counts lie in a matrix [source][part][all experts] whose experts 2, 3 ... are wanted. */
static void test_chunks (const struct kernels *k)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 }, { 1, 4, 3 }, { 2, 3, 5 }, { 3, 1, 2 },
                                        { 1, 0, 2 }, { 1, 2, 0 } };

    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        int64_t parts = sizes[i][0], sources = sizes[i][1], experts = sizes[i][2];
        int64_t all = experts + 4, n = parts * sources * all, rows = 0;
        int64_t *count = kit_alloc ((size_t)n + 2, 8);
        struct kern_expert_chunks a = { parts, sources, experts, count + 2, all, parts * all,
                                        .begin = 0 };

        for (int64_t j = 0; j < n; j++)
            rows += count[j] = j * j % 7;
        a.limit = rows + 1;
        test_window (k, a);
        for (a.limit = 1; a.limit < 40; a.limit = 3 * a.limit + 1)
            for (a.begin = 0; a.begin <= rows; a.begin += a.limit)
                test_window (k, a);
        free (count);
    }
}

int main (void)
{
    const struct kernels *k;
    struct kit kit;

    kit_open_one (&kit, 2);
    k = kit.variants[0].k;
    test_sorts (k);
    test_parts (k);
    test_chunks (k);
    kit_close (&kit);
    return done_testing ();
}
