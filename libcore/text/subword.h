/* subword - convert words to ids by the "model" of a tokenizer.json, a byte pair encoding
 *
 * At first, each byte of a word of bytes (ByteLevel), or each character of a word of
 * characters, is a token.  If there is no such token, there are three replacements.  With
 * "byte_fallback", the tokens <0xNN> of the bytes are used, if all of these exist.  Else
 * "unk_token" is used, once for several in a row with "fuse_unk".  Without "unk_token",
 * the byte or character is dropped.  Then merges are made in the order BPE_BEST_FIRST.
 * With "ignore_merges", a word that is a token is this token.
 *
 * Immutable: may be used by many threads, each with a scratch of its own.
 */
#ifndef LIBCORE_TEXT_SUBWORD_H
#define LIBCORE_TEXT_SUBWORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/text/bpe_pairs.h"
#include "libcore/text/json_place.h"
#include "libcore/text/splitter.h"
#include "libcore/text/tokenizer.h"
#include "libcore/text/word_cache.h"

enum { SUBWORD_ID_MAX = 1 << 24 };

/* Memory for one thread.  At first all members but 'cache' are zeros. */
struct subword_scratch {
    struct word_cache_row *cache; /* lent */
    struct bpe_scratch merge;
    struct text_buffer bytes;
};

struct subword; /* opaque */

/* Make a subword model of the value at 'place', for words of the given kind.  NULL with
 * errno EINVAL (a fault, or something that is not supported; the text has its path),
 * ENOMEM.  The caller owns the result. */
struct subword *subword_create (const struct json_place *place, const json_t *value,
                                enum splitter_words words, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void subword_destroy (struct subword *subword);

/* One more than the largest id. */
int32_t subword_num_ids (const struct subword *subword);

/* Returns the bytes of a token, valid as long as the model.  An id without a token has no
 * bytes. */
const char *subword_token (const struct subword *subword, int32_t id, size_t *size);

/* The byte that a token <0xNN> stands for with byte_fallback, else -1. */
int subword_fallback_byte (const struct subword *subword, int32_t id);

/* Append the ids of a word to 'out'.  With 'strays', the word may have strays (utf8.h).
 * -1 with errno ENOMEM or EFBIG; 'out' may then have some of the ids. */
int subword_encode (const struct subword *subword, struct subword_scratch *scratch,
                    const char *word, size_t size, bool strays, struct token_buffer *out,
                    struct mg_error *err);

/* Free what it holds, but for 'cache'. */
void subword_scratch_clear (struct subword_scratch *scratch);

#endif /* LIBCORE_TEXT_SUBWORD_H */
