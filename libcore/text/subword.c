/* subword - vocabulary and merges
 *
 * A text of the SentencePiece kind is one word from begin to end, with U+2581 for each
 * blank.  If no merge joins a character with a U+2581 behind it, no merge ever reaches
 * across this place, and the ids of both sides can be found one after the other.  So the
 * text falls into short words, most of which were there before.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/subword.h"
#include "libcore/text/subword_impl.h"
#include "libcore/text/utf8.h"

void subword_destroy (struct subword *subword)
{
    if (subword) {
        int saved_errno = errno;

        token_table_clear (&subword->tokens);
        bpe_pairs_clear (&subword->pairs);
        free (subword->char_ids);
        free (subword->joins);
        free (subword);
        errno = saved_errno;
    }
}

int32_t subword_num_ids (const struct subword *subword)
{
    return subword->tokens.num_ids;
}

const char *subword_token (const struct subword *subword, int32_t id, size_t *size)
{
    return token_table_get (&subword->tokens, id, size);
}

int subword_fallback_byte (const struct subword *subword, int32_t id)
{
    int byte = 0;

    while (byte < BYTECHARS_BYTES && subword->fallback[byte] != id)
        byte++;
    return byte < BYTECHARS_BYTES ? byte : -1;
}

void subword_scratch_clear (struct subword_scratch *scratch)
{
    bpe_scratch_clear (&scratch->merge);
    text_buffer_clear (&scratch->bytes);
}

/* ---- the tokens that a word begins as ---- */

/* Where they go; 'unknown': an unk_token waits, since it may be fused with another one that
 * follows.
 */
struct start {
    int32_t *ids;
    size_t n;
    bool unknown;
};

static void put_id (const struct subword *s, struct start *start, int32_t id)
{
    if (start->unknown)
        start->ids[start->n++] = s->unknown;
    start->unknown = false;
    start->ids[start->n++] = id;
}

static void put_unknown (const struct subword *s, struct start *start)
{
    if (s->unknown < 0)
        return;
    if (start->unknown && !s->fuse)
        start->ids[start->n++] = s->unknown;
    start->unknown = true;
}

static void start_bytes (const struct subword *s, const char *word, size_t size,
                         struct start *start)
{
    for (size_t i = 0; i < size; i++) {
        int32_t id = s->byte_ids[(unsigned char)word[i]];

        if (id >= 0)
            put_id (s, start, id);
        else
            put_unknown (s, start);
    }
}

/* Encode a character that is no token by the tokens of its bytes.  As in the library, these come
 * before an unknown token that waits.
 */
static bool put_fallback (const struct subword *s, struct start *start, const char *bytes,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s->fallback[(unsigned char)bytes[i]] < 0)
            return false;
    }
    for (size_t i = 0; i < n; i++)
        start->ids[start->n++] = s->fallback[(unsigned char)bytes[i]];
    return true;
}

static void start_characters (const struct subword *s, const char *word, size_t size,
                              struct start *start)
{
    size_t n;

    for (size_t at = 0; at < size; at += n) {
        uint32_t c = utf8_decode (word + at, &n);
        int stray = utf8_stray_at (word + at, n);
        char byte = (char)stray;
        int32_t id = c < SUBWORD_CHARS ? s->char_ids[c]
                                       : token_table_find (&s->tokens, word + at, n);

        if (id >= 0)
            put_id (s, start, id);
        else if (!put_fallback (s, start, stray >= 0 ? &byte : word + at,
                                stray >= 0 ? 1 : n))
            put_unknown (s, start);
    }
}

/* ---- words ---- */

static int merge_word (const struct subword *s, struct subword_scratch *scratch,
                       const char *word, size_t size, struct token_buffer *out,
                       struct mg_error *err)
{
    struct start start = { .ids = out->ids + out->count };

    if (s->ignore_merges) {
        int32_t id = token_table_find (&s->tokens, word, size);

        if (id >= 0) {
            out->ids[out->count++] = id;
            return 0;
        }
    }
    if (s->words == SPLITTER_TEXT)
        start_characters (s, word, size, &start);
    else
        start_bytes (s, word, size, &start);
    if (start.unknown)
        start.ids[start.n++] = s->unknown;
    if (bpe_merge_ids (&s->pairs, BPE_BEST_FIRST, &scratch->merge, start.ids, &start.n,
                       err) < 0)
        return -1;
    out->count += start.n;
    return 0;
}

/* Encode a word that is not cut.  'out' has room for it. */
static int encode_piece (const struct subword *s, struct subword_scratch *scratch,
                         const char *word, size_t size, struct token_buffer *out,
                         struct mg_error *err)
{
    const size_t before = out->count;
    struct word_cache_row *row;

    if (size > WORD_CACHE_TEXT)
        return merge_word (s, scratch, word, size, out, err);
    row = word_cache_row (scratch->cache, word, size);
    if (word_cache_get (row, word, size, out))
        return 0;
    if (merge_word (s, scratch, word, size, out, err) < 0)
        return -1;
    word_cache_put (row, word, size, out->ids + before, out->count - before);
    return 0;
}

/* True if the word may be cut before text[at], which is a U+2581. */
static bool may_cut (const struct subword *s, const char *word, size_t at)
{
    size_t n;
    uint32_t c = utf8_decode (word + utf8_previous (word, at), &n);

    return !(s->joins[c / 8] & 1 << c % 8);
}

static int encode_cut (const struct subword *s, struct subword_scratch *scratch,
                       const char *word, size_t size, struct token_buffer *out,
                       struct mg_error *err)
{
    size_t from = 0;

    for (size_t at = 1; at < size; at++) {
        const char *next = memchr (word + at, SUBWORD_SPACE[0], size - at);

        if (!next || (size_t)(word + size - next) < SUBWORD_SPACE_SIZE)
            break;
        at = (size_t)(next - word);
        if (memcmp (next, SUBWORD_SPACE, SUBWORD_SPACE_SIZE) != 0 || !may_cut (s, word, at))
            continue;
        if (encode_piece (s, scratch, word + from, at - from, out, err) < 0)
            return -1;
        from = at;
    }
    return encode_piece (s, scratch, word + from, size - from, out, err);
}

/* The bytes that the word stands for. */
static int to_bytes (const struct subword *s, struct subword_scratch *scratch,
                     const char *word, size_t size, struct mg_error *err)
{
    struct text_buffer *b = &scratch->bytes;

    ssize_t n;

    if (s->words != SPLITTER_CHARS)
        return utf8_read_strays (b, word, size, err);
    b->size = 0;
    if (text_buffer_reserve (b, size, err) < 0)
        return -1;
    n = bytechars_decode (&s->bytechars, word, size, b->data);
    if (n < 0)
        return mg_error_set (err, EINVAL, "a word has a character that stands for no byte");
    b->size = (size_t)n;
    return 0;
}

int subword_encode (const struct subword *s, struct subword_scratch *scratch,
                    const char *word, size_t size, bool strays, struct token_buffer *out,
                    struct mg_error *err)
{
    if (s->words == SPLITTER_CHARS || (s->words == SPLITTER_BYTES && strays)) {
        if (to_bytes (s, scratch, word, size, err) < 0)
            return -1;
        word = scratch->bytes.data;
        size = scratch->bytes.size;
    }
    if (token_buffer_reserve (out, size + WORD_CACHE_IDS, err) < 0)
        return -1;
    if (size == 0)
        return 0;
    return s->joins ? encode_cut (s, scratch, word, size, out, err)
                    : encode_piece (s, scratch, word, size, out, err);
}
