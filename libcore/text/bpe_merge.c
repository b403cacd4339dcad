/* bpe_merge - the merges of one word
 *
 * A short word is searched through for each merge, or round of merges.  A long one keeps
 * its pairs in a heap: a word of a million bytes (a line without a blank) must not take a
 * million million steps.
 *
 * A merged token is longer than either part, so a merge makes no new pair of the kind
 * that is being merged.  It may make a better one if the list is not as training writes
 * it; with BPE_ROUNDS that one waits for the end of the round.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/bpe_pairs.h"

enum { SHORT_MAX = 64, NONE = INT32_MAX };

static int reserve (struct bpe_scratch *scratch, size_t bytes, struct mg_error *err)
{
    void *memory;

    if (bytes <= scratch->size)
        return 0;
    if (!(memory = realloc (scratch->memory, bytes)))
        return mg_error_set (err, ENOMEM, "no memory to encode a word, %zu bytes", bytes);
    scratch->memory = memory;
    scratch->size = bytes;
    return 0;
}

void bpe_scratch_clear (struct bpe_scratch *scratch)
{
    free (scratch->memory);
    *scratch = (struct bpe_scratch){ NULL, 0 };
}

/* A token of the word, and the pair that it makes with the next one. */
struct symbol {
    int32_t id;
    int32_t rank; /* NONE: no such merge, or no next token */
    int32_t merged;
};

static void rate (const struct bpe_pairs *pairs, struct symbol *part, const struct symbol *next)
{
    const struct bpe_pair *pair;

    part->rank = NONE;
    if (!next)
        return;
    pair = bpe_pairs_find (pairs, part->id, next->id);
    part->rank = pair->rank < 0 ? NONE : pair->rank;
    part->merged = pair->merged;
}

/* Merge the pairs of this rank, from left to right; return the parts that remain. */
static size_t merge_round (const struct bpe_pairs *pairs, struct symbol *part, size_t n,
                           int32_t rank)
{
    size_t to = 0;
    bool fresh = false; /* part[to - 1] was just merged: its pair is not known yet */

    for (size_t from = 0; from < n; from++, to++) {
        bool merge = part[from].rank == rank;

        part[to] = part[from];
        if (merge) {
            part[to].id = part[from].merged;
            from++;
        }
        if (to > 0 && (merge || fresh))
            rate (pairs, &part[to - 1], &part[to]);
        fresh = merge;
    }
    if (fresh)
        rate (pairs, &part[to - 1], NULL);
    return to;
}

/* Returns the place of the best pair, the leftmost of equal pairs; NONE: there is none.  Rank and
 * place are compared as one number, so that no branch has to be guessed.
 */
static size_t find_best (const struct symbol *part, size_t n)
{
    uint64_t best = (uint64_t)NONE << 32;

    for (size_t i = 0; i < n; i++) {
        uint64_t key = (uint64_t)(uint32_t)part[i].rank << 32 | i;

        best = key < best ? key : best;
    }
    return best == (uint64_t)NONE << 32 ? NONE : (size_t)(best & UINT32_MAX);
}

/* Merge the one pair at 'at'; return the parts that remain. */
static size_t merge_one (const struct bpe_pairs *pairs, struct symbol *part, size_t n,
                         size_t at)
{
    part[at].id = part[at].merged;
    n--;
    for (size_t i = at + 1; i < n; i++)
        part[i] = part[i + 1];
    rate (pairs, &part[at], at + 1 < n ? &part[at + 1] : NULL);
    if (at > 0)
        rate (pairs, &part[at - 1], &part[at]);
    return n;
}

int bpe_merge_ids_short (const struct bpe_pairs *pairs, enum bpe_order order,
                         struct bpe_scratch *scratch, int32_t *ids, size_t *count,
                         struct mg_error *err)
{
    struct symbol few[SHORT_MAX], *part = few;
    size_t n = *count, at;

    if (n > SHORT_MAX) {
        if (reserve (scratch, n * sizeof (*part), err) < 0)
            return -1;
        part = scratch->memory;
    }
    for (size_t i = 0; i < n; i++)
        part[i].id = ids[i];
    for (size_t i = 0; i < n; i++)
        rate (pairs, &part[i], i + 1 < n ? &part[i + 1] : NULL);
    while ((at = find_best (part, n)) != NONE)
        n = order == BPE_ROUNDS ? merge_round (pairs, part, n, part[at].rank)
                                : merge_one (pairs, part, n, at);
    for (size_t i = 0; i < n; i++)
        ids[i] = part[i].id;
    *count = n;
    return 0;
}

/* ---- long words ---- */

/* A token of the word, in a list; id -1: it was merged into the one before it. */
struct node {
    struct symbol part;
    int32_t previous, next; /* -1: none */
};

/* A pair of the heap: the best rank first, then the leftmost. It is out of date when the
 * node's rank is another one. */
struct entry {
    int32_t rank;
    int32_t node;
};

struct long_word {
    const struct bpe_pairs *pairs;
    enum bpe_order order;
    struct node *node;
    struct entry *heap;
    size_t heap_size;
    int32_t *pending; /* nodes whose pair is new since the round began */
    size_t num_pending;
};

static bool before (struct entry a, struct entry b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.node < b.node);
}

static void heap_push (struct long_word *w, struct entry entry)
{
    size_t at = w->heap_size++;

    while (at > 0 && before (entry, w->heap[(at - 1) / 2])) {
        w->heap[at] = w->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->heap[at] = entry;
}

static struct entry heap_pop (struct long_word *w)
{
    struct entry top = w->heap[0];
    struct entry last = w->heap[--w->heap_size];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= w->heap_size)
            break;
        if (child + 1 < w->heap_size && before (w->heap[child + 1], w->heap[child]))
            child++;
        if (!before (w->heap[child], last))
            break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return top;
}

static void rate_node (struct long_word *w, int32_t at)
{
    struct node *node = &w->node[at];

    rate (w->pairs, &node->part, node->next >= 0 ? &w->node[node->next].part : NULL);
}

static void push_node (struct long_word *w, int32_t at)
{
    if (w->node[at].part.id >= 0 && w->node[at].part.rank != NONE)
        heap_push (w, (struct entry){ w->node[at].part.rank, at });
}

/* Merge node 'at' with its next; the two pairs that change wait in 'pending'. */
static void merge_node (struct long_word *w, int32_t at)
{
    struct node *node = &w->node[at];
    struct node *gone = &w->node[node->next];

    node->part.id = node->part.merged;
    node->next = gone->next;
    gone->part.id = -1;
    gone->part.rank = NONE;
    if (node->next >= 0)
        w->node[node->next].previous = at;
    rate_node (w, at);
    w->pending[w->num_pending++] = at;
    if (node->previous >= 0) {
        rate_node (w, node->previous);
        w->pending[w->num_pending++] = node->previous;
    }
}

static void merge_all (struct long_word *w)
{
    while (w->heap_size > 0) {
        int32_t rank = w->heap[0].rank;

        w->num_pending = 0;
        do {
            struct entry entry = heap_pop (w);

            if (w->node[entry.node].part.rank == rank)
                merge_node (w, entry.node);
        } while (w->order == BPE_ROUNDS && w->heap_size > 0 && w->heap[0].rank == rank);
        for (size_t i = 0; i < w->num_pending; i++)
            push_node (w, w->pending[i]);
    }
}

/* Every merge ends one node and makes at most two pairs: 3 n entries, 2 n pending. */
int bpe_merge_ids_long (const struct bpe_pairs *pairs, enum bpe_order order,
                        struct bpe_scratch *scratch, int32_t *ids, size_t *count,
                        struct mg_error *err)
{
    struct long_word w = { .pairs = pairs, .order = order };
    const size_t size = *count;
    int32_t n = (int32_t)size;

    if (size > INT32_MAX)
        return mg_error_set (err, EFBIG, "a word of %zu tokens, want at most %d", size,
                             INT32_MAX);
    if (reserve (scratch, size * (sizeof (*w.node) + 3 * sizeof (*w.heap)
                                  + 2 * sizeof (*w.pending)), err) < 0)
        return -1;
    w.node = scratch->memory;
    w.heap = (struct entry *)(w.node + size);
    w.pending = (int32_t *)(w.heap + 3 * size);
    for (int32_t i = 0; i < n; i++)
        w.node[i] = (struct node){ .part.id = ids[i], .previous = i - 1,
                                   .next = i + 1 < n ? i + 1 : -1 };
    for (int32_t i = 0; i < n; i++) {
        rate_node (&w, i);
        push_node (&w, i);
    }
    merge_all (&w);
    *count = 0;
    for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = w.node[i].next)
        ids[(*count)++] = w.node[i].part.id;
    return 0;
}

int bpe_merge_ids (const struct bpe_pairs *pairs, enum bpe_order order,
                   struct bpe_scratch *scratch, int32_t *ids, size_t *count,
                   struct mg_error *err)
{
    return *count <= SHORT_MAX
           ? bpe_merge_ids_short (pairs, order, scratch, ids, count, err)
           : bpe_merge_ids_long (pairs, order, scratch, ids, count, err);
}
