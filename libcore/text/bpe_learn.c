/* bpe_learn - the most frequent pair, again and again
 *
 * A heap has the pairs in the order of their counts at the time when they were added.  If the count
 * of the first pair has changed since, the pair is added again with the new count.  Each entry has
 * the words where its pair came to be, so that a merge looks at no others.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/bpe_learn.h"
#include "libcore/text/utf8.h"

/* Numbers of words. */
struct places {
    int32_t *words;
    size_t count, max;
};

/* A pair of tokens; free if left is -1. */
struct pair {
    int32_t left, right;
    int64_t count;
    int32_t fresh; /* its number in 'fresh', -1: none */
};

struct entry {
    int64_t count;
    int32_t left, right;
    struct places places;
};

struct span {
    int32_t at, size;
};

struct learner {
    struct bpe_learned *out;
    const struct word_count *words;
    int32_t *symbols; /* tokens of all words */
    struct span *spans; /* of each word */
    struct pair *pairs; /* [mask + 1] */
    size_t num_pairs, mask;
    struct entry *heap;
    size_t heap_size, heap_max;
    struct entry *fresh; /* pairs that came to be by this merge */
    size_t num_fresh, max_fresh;
};

static int out_of_memory (struct mg_error *err)
{
    return mg_error_set (err, ENOMEM, "no memory to learn merges");
}

void bpe_learned_clear (struct bpe_learned *learned)
{
    token_table_clear (&learned->tokens);
    free (learned->merges);
    memset (learned, 0, sizeof (*learned));
}

/* ---- tokens ---- */

static int32_t add_token (struct bpe_learned *out, const char *text, size_t size,
                          struct mg_error *err)
{
    int32_t id = out->num_tokens;

    if (token_table_set (&out->tokens, id, text, size, err) < 0)
        return -1;
    token_table_index (&out->tokens, id);
    out->num_tokens++;
    return id;
}

int bpe_learn_begin (struct bpe_learned *out, const struct bytechars *bytechars,
                     char *const *special, size_t num_special, int32_t vocab_size,
                     struct mg_error *err)
{
    if (vocab_size < 0 || (size_t)vocab_size < num_special + BYTECHARS_BYTES)
        return mg_error_set (err, EINVAL, "vocabulary of %d tokens, want %zu or more: 256 "
                             "bytes and %zu special tokens", vocab_size,
                             num_special + BYTECHARS_BYTES, num_special);
    if (token_table_create (&out->tokens, vocab_size, err) < 0)
        return -1;
    for (size_t i = 0; i < num_special; i++) {
        if (token_table_find (&out->tokens, special[i], strlen (special[i])) >= 0)
            return mg_error_set (err, EINVAL, "special token \"%.60s\" is there twice",
                                 special[i]);
        if (add_token (out, special[i], strlen (special[i]), err) < 0)
            return -1;
    }
    for (int c = 0; c < BYTECHARS_END; c++) {
        char text[UTF8_MAX];
        size_t n = utf8_encode ((uint32_t)c, text);

        if (bytechars->byte_of[c] < 0)
            continue;
        if (token_table_find (&out->tokens, text, n) >= 0)
            return mg_error_set (err, EINVAL, "special token \"%.*s\" is the token of a byte",
                                 (int)n, text);
        if (add_token (out, text, n, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- pairs ---- */

static size_t find_pair (const struct learner *l, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (key * UINT64_C (0x9e3779b97f4a7c15) >> 32) & l->mask;

    while (l->pairs[at].left >= 0
           && (l->pairs[at].left != left || l->pairs[at].right != right))
        at = (at + 1) & l->mask;
    return at;
}

static int grow_pairs (struct learner *l, struct mg_error *err)
{
    size_t size = l->pairs ? 2 * (l->mask + 1) : 1 << 16;
    struct pair *old = l->pairs;
    size_t old_size = old ? l->mask + 1 : 0;

    if (!(l->pairs = malloc (size * sizeof (*l->pairs)))) {
        l->pairs = old;
        return out_of_memory (err);
    }
    l->mask = size - 1;
    for (size_t i = 0; i < size; i++)
        l->pairs[i] = (struct pair){ .left = -1 };
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].left >= 0)
            l->pairs[find_pair (l, old[i].left, old[i].right)] = old[i];
    }
    free (old);
    return 0;
}

static int add_place (struct places *p, int32_t word, struct mg_error *err)
{
    if (p->count > 0 && p->words[p->count - 1] == word)
        return 0;
    if (p->count == p->max) {
        size_t max = p->max ? 2 * p->max : 4;
        int32_t *words = reallocarray (p->words, max, sizeof (*words));

        if (!words)
            return out_of_memory (err);
        p->words = words;
        p->max = max;
    }
    p->words[p->count++] = word;
    return 0;
}

/* Note that a pair occurs more or less often in a word.  If more, the word becomes one of the
 * pair's places.
 */
static int change_pair (struct learner *l, int32_t left, int32_t right, int64_t change,
                        int32_t word, struct mg_error *err)
{
    struct pair *pair;

    if (2 * (l->num_pairs + 1) > l->mask && grow_pairs (l, err) < 0)
        return -1;
    pair = &l->pairs[find_pair (l, left, right)];
    if (pair->left < 0) {
        *pair = (struct pair){ left, right, 0, -1 };
        l->num_pairs++;
    }
    pair->count += change;
    if (change < 0)
        return 0;
    if (pair->fresh < 0) {
        if (l->num_fresh == l->max_fresh) {
            size_t max = l->max_fresh ? 2 * l->max_fresh : 256;
            struct entry *fresh = reallocarray (l->fresh, max, sizeof (*fresh));

            if (!fresh)
                return out_of_memory (err);
            l->fresh = fresh;
            l->max_fresh = max;
        }
        pair->fresh = (int32_t)l->num_fresh;
        l->fresh[l->num_fresh++] = (struct entry){ 0, left, right, { NULL, 0, 0 } };
    }
    return add_place (&l->fresh[pair->fresh].places, word, err);
}

/* ---- the heap ---- */

static bool before (const struct entry *a, const struct entry *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

/* Push an entry.  There is room: entries were popped, or push_fresh() has made room. */
static void push (struct learner *l, struct entry entry)
{
    size_t at = l->heap_size++;

    while (at > 0 && before (&entry, &l->heap[(at - 1) / 2])) {
        l->heap[at] = l->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    l->heap[at] = entry;
}

static struct entry pop (struct learner *l)
{
    struct entry top = l->heap[0], last = l->heap[--l->heap_size];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= l->heap_size)
            break;
        if (child + 1 < l->heap_size && before (&l->heap[child + 1], &l->heap[child]))
            child++;
        if (!before (&l->heap[child], &last))
            break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    l->heap[at] = last;
    return top;
}

static int push_fresh (struct learner *l, struct mg_error *err)
{
    size_t wanted = l->heap_size + l->num_fresh + 1;

    if (wanted > l->heap_max) {
        struct entry *heap = reallocarray (l->heap, 2 * wanted, sizeof (*heap));

        if (!heap)
            return out_of_memory (err);
        l->heap = heap;
        l->heap_max = 2 * wanted;
    }
    for (size_t i = 0; i < l->num_fresh; i++) {
        struct entry *entry = &l->fresh[i];
        struct pair *pair = &l->pairs[find_pair (l, entry->left, entry->right)];

        pair->fresh = -1;
        entry->count = pair->count;
        if (entry->count > 0)
            push (l, *entry);
        else
            free (entry->places.words);
    }
    l->num_fresh = 0;
    return 0;
}

/* ---- words ---- */

static int read_words (struct learner *l, const struct bytechars *bytechars,
                       struct mg_error *err)
{
    const struct word_count *words = l->words;
    int32_t ids[BYTECHARS_BYTES];
    int32_t used = 0;

    if (words->bytes.size > INT32_MAX)
        return mg_error_set (err, EFBIG, "%zu bytes of different words, want at most %d",
                             words->bytes.size, INT32_MAX);
    for (int byte = 0; byte < BYTECHARS_BYTES; byte++) {
        char text[UTF8_MAX];

        ids[byte] = token_table_find (&l->out->tokens, text,
                                      utf8_encode (bytechars->char_of[byte], text));
    }
    l->symbols = malloc ((words->bytes.size + 1) * sizeof (*l->symbols));
    l->spans = malloc ((words->num_words + 1) * sizeof (*l->spans));
    if (!l->symbols || !l->spans || grow_pairs (l, err) < 0)
        return out_of_memory (err);
    for (size_t w = 0; w < words->num_words; w++) {
        const struct word *word = &words->words[w];

        l->spans[w] = (struct span){ used, (int32_t)word->size };
        for (size_t i = 0; i < word->size; i++)
            l->symbols[used++] = ids[(unsigned char)words->bytes.data[word->at + i]];
        for (int32_t i = used - (int32_t)word->size; i + 1 < used; i++) {
            if (change_pair (l, l->symbols[i], l->symbols[i + 1], word->count, (int32_t)w,
                             err) < 0)
                return -1;
        }
    }
    return push_fresh (l, err);
}

/* Replace the pair wherever it is in a word, from left to right. */
static int merge_word (struct learner *l, const struct entry *entry, int32_t merged,
                       int32_t word, struct mg_error *err)
{
    struct span *span = &l->spans[word];
    int32_t *s = l->symbols + span->at;
    const int64_t count = l->words->words[word].count;
    int32_t to = 0;

    for (int32_t from = 0; from < span->size; from++, to++) {
        if (s[from] != entry->left || from + 1 == span->size || s[from + 1] != entry->right) {
            s[to] = s[from];
            continue;
        }
        from++;
        s[to] = merged;
        if (to > 0
            && (change_pair (l, s[to - 1], entry->left, -count, word, err) < 0
                || change_pair (l, s[to - 1], merged, count, word, err) < 0))
            return -1;
        if (from + 1 < span->size
            && (change_pair (l, entry->right, s[from + 1], -count, word, err) < 0
                || change_pair (l, merged, s[from + 1], count, word, err) < 0))
            return -1;
    }
    span->size = to;
    return 0;
}

/* The token that the pair makes; it may exist already. */
static int32_t make_token (struct learner *l, const struct entry *entry,
                           struct text_buffer *text, struct mg_error *err)
{
    int32_t id;

    text->size = 0;
    for (int i = 0; i < 2; i++) {
        size_t size;
        const char *part = token_table_get (&l->out->tokens, i ? entry->right : entry->left,
                                            &size);

        if (text_buffer_append (text, part, size, err) < 0)
            return -1;
    }
    id = token_table_find (&l->out->tokens, text->data, text->size);
    return id >= 0 ? id : add_token (l->out, text->data, text->size, err);
}

static int merge_entry (struct learner *l, const struct entry *entry,
                        struct text_buffer *text, struct mg_error *err)
{
    struct bpe_learned *out = l->out;
    struct bpe_merge *merges;
    int32_t merged = make_token (l, entry, text, err);

    if (merged < 0)
        return -1;
    if ((out->num_merges & (out->num_merges + 1)) == 0) { /* room is 2^n - 1 */
        merges = reallocarray (out->merges, 2 * out->num_merges + 1, sizeof (*merges));
        if (!merges)
            return out_of_memory (err);
        out->merges = merges;
    }
    out->merges[out->num_merges++] = (struct bpe_merge){ entry->left, entry->right };
    for (size_t i = 0; i < entry->places.count; i++) {
        if (merge_word (l, entry, merged, entry->places.words[i], err) < 0)
            return -1;
    }
    return push_fresh (l, err);
}

static int learn (struct learner *l, int64_t min_frequency, struct mg_error *err)
{
    struct text_buffer text = { NULL, 0, 0 };
    int rc = 0;

    while (rc == 0 && l->heap_size > 0 && l->out->num_tokens < l->out->tokens.num_ids) {
        struct entry top = pop (l);
        int64_t count = l->pairs[find_pair (l, top.left, top.right)].count;

        if (count != top.count) {
            top.count = count;
            push (l, top);
            continue;
        }
        if (count < 1 || count < min_frequency) {
            free (top.places.words);
            break;
        }
        rc = merge_entry (l, &top, &text, err);
        free (top.places.words);
    }
    text_buffer_clear (&text);
    return rc;
}

int bpe_learn (struct bpe_learned *learned, const struct bytechars *bytechars,
               const struct word_count *words, int64_t min_frequency,
               struct mg_error *err)
{
    struct learner l = { .out = learned, .words = words };
    int rc = read_words (&l, bytechars, err);

    if (rc == 0)
        rc = learn (&l, min_frequency, err);
    for (size_t i = 0; i < l.heap_size; i++)
        free (l.heap[i].places.words);
    for (size_t i = 0; i < l.num_fresh; i++)
        free (l.fresh[i].places.words);
    free (l.heap);
    free (l.fresh);
    free (l.pairs);
    free (l.symbols);
    free (l.spans);
    return rc;
}
