/* tokenizer_gpt2 - GPT2BPETokenizer: words by pretoken, their tokens by bpe
 *
 * Bytes that are no UTF-8 are taken for symbols, each one: no letter, no digit, no space.
 * So every text has its ids, and the ids give back every byte.  It is what the reference
 * encoders do with a Python text that was read with errors="surrogateescape"; they have
 * no other way to be given such bytes.  "<|endoftext|>" in a text is text: only the
 * caller ends a document.
 *
 * Most words of a text were there before: a table remembers the ids of short ones, one
 * cache line each; a new word takes the place of the one that was there.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/data/bpe.h"
#include "libcore/data/pretoken.h"
#include "libcore/data/tokenizer.h"

enum { CACHE_ROWS = 1 << 15, ROW_TEXT = 30, ROW_IDS = 8, CACHE_LINE = 64 };

struct row {
    uint8_t size;  /* of the word; 0: a free row */
    uint8_t count; /* of its ids */
    char text[ROW_TEXT];
    int32_t ids[ROW_IDS];
};
_Static_assert (sizeof (struct row) == CACHE_LINE, "a row is a cache line");

struct gpt2 {
    struct bpe *owned;     /* NULL in a fork */
    const struct bpe *bpe;
    struct pretoken *pretoken;
    struct row *cache;     /* [CACHE_ROWS] */
    struct bpe_scratch scratch;
    char *clean;           /* [clean_size] copy of a text that is no UTF-8 */
    size_t clean_size;
};

static void destroy (void *impl)
{
    struct gpt2 *t = impl;

    if (t) {
        pretoken_destroy (t->pretoken);
        bpe_scratch_clear (&t->scratch);
        bpe_destroy (t->owned);
        free (t->cache);
        free (t->clean);
        free (t);
    }
}

static int create_fork (const struct bpe *bpe, struct gpt2 **out, struct mg_error *err)
{
    struct gpt2 *t;

    if (!(t = calloc (1, sizeof (*t)))
        || !(t->cache = aligned_alloc (CACHE_LINE, CACHE_ROWS * sizeof (*t->cache)))) {
        mg_error_set (err, ENOMEM, "tokenizer: out of memory");
        goto error;
    }
    memset (t->cache, 0, CACHE_ROWS * sizeof (*t->cache));
    if (!(t->pretoken = pretoken_create (err)))
        goto error;
    t->bpe = bpe;
    *out = t;
    return 0;
error:
    destroy (t);
    return -1;
}

static int create (const struct tokenizer_files *files, void **impl, struct mg_error *err)
{
    struct gpt2 *t;
    struct bpe *bpe;

    if (!(bpe = bpe_create (files->vocab, files->merge, err)))
        return -1;
    if (create_fork (bpe, &t, err) < 0) {
        bpe_destroy (bpe);
        return -1;
    }
    t->owned = bpe;
    *impl = t;
    return 0;
}

static int fork_tokenizer (const void *impl, void **other, struct mg_error *err)
{
    const struct gpt2 *t = impl;
    struct gpt2 *fork;

    if (create_fork (t->bpe, &fork, err) < 0)
        return -1;
    *other = fork;
    return 0;
}

static int32_t vocab_size (const void *impl)
{
    return bpe_vocab_size (((const struct gpt2 *)impl)->bpe);
}

static int32_t eod (const void *impl)
{
    return bpe_eod (((const struct gpt2 *)impl)->bpe);
}

static const char *token (const void *impl, int32_t id, size_t *size)
{
    return bpe_token (((const struct gpt2 *)impl)->bpe, id, size);
}

/* Length of the character of UTF-8 at 'p', which has 'left' bytes; 0 if there is none
 * (RFC 3629: the shortest form, no surrogates, up to U+10FFFF). */
static size_t character_size (const unsigned char *p, size_t left)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3
               : p[0] < 0xf5 ? 4 : 0;

    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)
        || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* First byte from 'at' on that is not part of a character, or size. */
static size_t find_invalid (const char *text, size_t size, size_t at)
{
    const unsigned char *p = (const unsigned char *)text;

    while (at < size) {
        uint64_t eight;
        size_t n;

        if (size - at >= sizeof (eight)) {
            memcpy (&eight, p + at, sizeof (eight));
            if (!(eight & UINT64_C (0x8080808080808080))) {
                at += sizeof (eight);
                continue;
            }
        }
        n = character_size (p + at, size - at);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

/* A text to search for words, of the same length: the text itself if it is UTF-8, else a
 * copy with a control character, which is as little a letter, for each other byte. */
static const char *clean_text (struct gpt2 *t, const char *text, size_t size,
                               struct mg_error *err)
{
    size_t at = find_invalid (text, size, 0);

    if (at == size)
        return text;
    if (size > t->clean_size) {
        char *clean = realloc (t->clean, size);

        if (!clean) {
            mg_error_set (err, ENOMEM, "no memory for a text of %zu bytes", size);
            return NULL;
        }
        t->clean = clean;
        t->clean_size = size;
    }
    memcpy (t->clean, text, size);
    for (; at < size; at = find_invalid (text, size, at + 1))
        t->clean[at] = '\1';
    return t->clean;
}

static int encode_word (struct gpt2 *t, const char *word, size_t size,
                        struct token_buffer *out, struct mg_error *err)
{
    const size_t before = out->count;
    struct row *row;

    if (size > ROW_TEXT)
        return bpe_merge (t->bpe, &t->scratch, word, size, out, err);
    row = &t->cache[XXH3_64bits (word, size) % CACHE_ROWS];
    if (row->size == size && memcmp (row->text, word, size) == 0) {
        memcpy (out->ids + before, row->ids, row->count * sizeof (*row->ids));
        out->count += row->count;
        return 0;
    }
    if (bpe_merge (t->bpe, &t->scratch, word, size, out, err) < 0)
        return -1;
    if (out->count - before <= ROW_IDS) {
        row->size = (uint8_t)size;
        row->count = (uint8_t)(out->count - before);
        memcpy (row->text, word, size);
        memcpy (row->ids, out->ids + before, row->count * sizeof (*row->ids));
    }
    return 0;
}

static int encode (void *impl, const char *text, size_t size, struct token_buffer *out,
                   struct mg_error *err)
{
    struct gpt2 *t = impl;
    const size_t before = out->count;
    const char *clean;
    size_t end;

    if (!(clean = clean_text (t, text, size, err)))
        return -1;
    for (size_t at = 0; at < size; at = end) {
        if (pretoken_next (t->pretoken, clean, size, at, &end, err) < 0
            || token_buffer_reserve (out, end - at, err) < 0
            || encode_word (t, text + at, end - at, out, err) < 0) {
            out->count = before;
            return -1;
        }
    }
    return 0;
}

const struct tokenizer_ops tokenizer_gpt2_ops = {
    .name = "GPT2BPETokenizer",
    .needs_files = true,
    .create = create,
    .fork = fork_tokenizer,
    .vocab_size = vocab_size,
    .eod = eod,
    .token = token,
    .encode = encode,
    .destroy = destroy,
};
