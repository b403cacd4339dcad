/* tokenizer_gpt2 - GPT2BPETokenizer: words by pretoken, their tokens by bpe
 *
 * Bytes that are no UTF-8 are taken for symbols, each one: no letter, no digit, no space.  So every
 * text has its ids, and the ids give back every byte.  The reference encoders do the same with a
 * Python text that was read with errors="surrogateescape", the only way to pass such bytes to
 * them.  "<|endoftext|>" in a text is text: only the caller ends a document.
 *
 * Most words of a text were there before: a table remembers the ids of short ones.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/bpe.h"
#include "libcore/text/pretoken.h"
#include "libcore/text/tokenizer.h"
#include "libcore/text/utf8.h"
#include "libcore/text/word_cache.h"

struct gpt2 {
    struct bpe *owned;     /* NULL in a fork */
    const struct bpe *bpe;
    struct pretoken *pretoken;
    struct word_cache_row *cache;
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

    if (!(t = calloc (1, sizeof (*t)))) {
        mg_error_set (err, ENOMEM, "tokenizer: out of memory");
        goto error;
    }
    if (!(t->cache = word_cache_create (err)) || !(t->pretoken = pretoken_create (err)))
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

/* Returns the text in which words are searched.  It has the same length: the text itself if it is
 * UTF-8, else a copy in which a control character, which is no letter either, replaces each byte
 * that is no UTF-8.
 */
static const char *clean_text (struct gpt2 *t, const char *text, size_t size,
                               struct mg_error *err)
{
    size_t at = utf8_find_stray (text, size, 0);

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
    for (; at < size; at = utf8_find_stray (text, size, at + 1))
        t->clean[at] = '\1';
    return t->clean;
}

static int encode_word (struct gpt2 *t, const char *word, size_t size,
                        struct token_buffer *out, struct mg_error *err)
{
    const size_t before = out->count;
    struct word_cache_row *row;

    if (size > WORD_CACHE_TEXT)
        return bpe_merge (t->bpe, &t->scratch, word, size, out, err);
    row = word_cache_row (t->cache, word, size);
    if (word_cache_get (row, word, size, out))
        return 0;
    if (bpe_merge (t->bpe, &t->scratch, word, size, out, err) < 0)
        return -1;
    word_cache_put (row, word, size, out->ids + before, out->count - before);
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
            || token_buffer_reserve (out, end - at + WORD_CACHE_IDS, err) < 0
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
