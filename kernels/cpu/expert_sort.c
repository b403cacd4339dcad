/* expert_sort.c - where the rows of choices go: a counting sort, and the order of received chunks
 *
 * These ops look at a few numbers of each choice or row, never at features, and run on one thread.
 */

#include "kernels/cpu/cpu.h"

/* --- sort by expert --- */

size_t cpu_expert_sort_scratch (const struct kernels *k, const struct kern_expert_sort *a)
{
    (void)k;
    return (size_t)(2 * a->experts) * sizeof (int64_t);
}

/* n[e] = choices of expert e that get a row, begin[e] = the first. */
static void count_choices (const struct kern_expert_sort *a, int64_t *n, int64_t *begin)
{
    int64_t rows = 0;

    for (int64_t e = 0; e < a->experts; e++)
        n[e] = 0;
    for (int64_t c = 0; c < a->tokens * a->topk; c++) {
        int64_t e = a->index[c] - a->first;

        if (a->index[c] >= 0 && e >= 0 && e < a->experts)
            n[e]++;
    }
    for (int64_t e = 0; e < a->experts; e++) {
        n[e] = a->capacity ? cpu_min (n[e], a->capacity) : n[e];
        begin[e] = rows;
        rows += a->capacity ? a->capacity : n[e];
    }
}

/* The wanted row that row 'row' is, or the nearest one.  *wanted says whether 'row' is wanted. */
static int64_t wanted_row (const struct kern_expert_sort *a, int64_t row, bool *wanted)
{
    int64_t limit = a->limit > 0 ? a->limit : INT64_MAX, begin = a->limit > 0 ? a->begin : 0;

    *wanted = row >= begin && row - begin < limit;
    return row < begin ? 0 : cpu_min (row - begin, limit);
}

static void store_counts (const struct kern_expert_sort *a, const int64_t *n, const int64_t *begin)
{
    int64_t rows = 0, share = a->rank_count ? a->experts / a->ranks : 1;
    bool wanted;

    for (int64_t r = 0; a->rank_count && r < a->ranks; r++)
        a->rank_count[r] = 0;
    for (int64_t e = 0; e < a->experts; e++) {
        int64_t count = a->capacity ? a->capacity : n[e];

        if (a->count)
            a->count[e] = count;
        if (a->offset)
            a->offset[e] = wanted_row (a, begin[e], &wanted);
        if (a->tally)
            a->tally[e] += (float)n[e];
        if (a->rank_count)
            a->rank_count[e / share] += count;
        rows = begin[e] + count;
    }
    if (a->offset)
        a->offset[a->experts] = wanted_row (a, rows, &wanted);
}

/* Place the choices.  Afterwards next[e] is the row behind the last choice of expert e. */
static void place_choices (const struct kern_expert_sort *a, int64_t *left, int64_t *next)
{
    for (int64_t c = 0; c < a->tokens * a->topk; c++) {
        int64_t e = a->index[c] - a->first, row = -1;

        if (a->index[c] >= 0 && e >= 0 && e < a->experts && left[e] > 0) {
            bool wanted;

            row = wanted_row (a, next[e]++, &wanted);
            left[e]--;
            if (!wanted)
                row = -1;
            else if (a->source)
                a->source[row] = (int32_t)c;
        }
        if (a->row)
            a->row[c] = (int32_t)row;
    }
}

int cpu_expert_sort (const struct kernels *k, const struct kern_expert_sort *a,
                     struct mg_error *err)
{
    int64_t *n, *next;

    if (kern_expert_sort_check (a, err) < 0)
        return -1;
    if (!(n = cpu_scratch (k, cpu_expert_sort_scratch (k, a), err)) && a->experts > 0)
        return -1;
    next = n + a->experts;
    count_choices (a, n, next);
    store_counts (a, n, next);
    if (!a->row && !a->source)
        return 0;
    place_choices (a, n, next);
    for (int64_t e = 0; a->source && a->capacity && e < a->experts; e++)
        for (int64_t row = next[e]; row < (e + 1) * a->capacity; row++)
            a->source[row] = -1;
    return 0;
}

/* --- chunks --- */

size_t cpu_expert_chunks_scratch (const struct kernels *k, const struct kern_expert_chunks *a)
{
    (void)k;
    return (size_t)a->experts * sizeof (int64_t);
}

/* Returns how many of the 'count' rows from row *at on are in the part.  Adds 'count' to *at. */
static int64_t clip (const struct kern_expert_chunks *a, int64_t *at, int64_t count)
{
    int64_t first = *at > a->begin ? *at - a->begin : 0, last = *at + count - a->begin;

    *at += count;
    last = cpu_min (last, a->limit);
    return last > first ? last - first : 0;
}

/* Call step (a, e, rows of the chunk that are there, arg) for all chunks as they were received. */
static void walk (const struct kern_expert_chunks *a,
                  void (*step) (const struct kern_expert_chunks *a, int64_t e, int64_t rows,
                                void *arg), void *arg)
{
    for (int64_t p = 0; p < a->parts; p++) {
        int64_t at = 0;

        for (int64_t s = 0; s < a->sources; s++) {
            const int64_t *count = a->count + p * a->stride_part + s * a->stride_source;

            for (int64_t e = 0; e < a->experts; e++)
                step (a, e, clip (a, &at, count[e]), arg);
        }
    }
}

static void count_chunk (const struct kern_expert_chunks *a, int64_t e, int64_t rows, void *arg)
{
    int64_t *next = arg;

    (void)a;
    next[e] += rows;
}

struct place {
    int64_t *next;    /* row of each expert */
    int64_t received; /* rows so far */
};

static void place_chunk (const struct kern_expert_chunks *a, int64_t e, int64_t rows, void *arg)
{
    struct place *p = arg;

    for (int64_t i = 0; i < rows; i++) {
        if (a->row)
            a->row[p->received + i] = (int32_t)(p->next[e] + i);
        if (a->source)
            a->source[p->next[e] + i] = (int32_t)(p->received + i);
    }
    p->received += rows;
    p->next[e] += rows;
}

int cpu_expert_chunks (const struct kernels *k, const struct kern_expert_chunks *a,
                       struct mg_error *err)
{
    int64_t rows = 0;
    struct place p = { 0 };

    if (!(p.next = cpu_scratch (k, cpu_expert_chunks_scratch (k, a), err)) && a->experts > 0)
        return -1;
    for (int64_t e = 0; e < a->experts; e++)
        p.next[e] = 0;
    walk (a, count_chunk, p.next);
    for (int64_t e = 0; e < a->experts; e++) {
        int64_t n = p.next[e];

        p.next[e] = rows;
        if (a->offset)
            a->offset[e] = rows;
        rows += n;
    }
    if (a->offset)
        a->offset[a->experts] = rows;
    if (a->row || a->source)
        walk (a, place_chunk, &p);
    return 0;
}
