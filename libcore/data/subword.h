/* subword - the "model" of tokenizer.json, a byte pair encoding, and ids of words
 *
 * A word of bytes (ByteLevel) begins as one token a byte.  A word of characters begins as
 * one token a character.  A byte or a character that is no token becomes, with
 * "byte_fallback", the tokens <0xNN> of its bytes if all of these are tokens; else
 * "unk_token", one for several in a row with "fuse_unk"; else nothing.  Then merges are
 * made in the order BPE_BEST_FIRST.  With "ignore_merges", a word that is a token is this
 * token.
 *
 * Immutable: may be used by many threads, each with a scratch of its own.
 */
#ifndef LIBCORE_DATA_SUBWORD_H
#define LIBCORE_DATA_SUBWORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/data/bpe_pairs.h"
#include "libcore/data/json_place.h"
#include "libcore/data/splitter.h"
#include "libcore/data/tokenizer.h"
#include "libcore/data/word_cache.h"

enum { SUBWORD_ID_MAX = 1 << 24 };

/* For one thread. All zero but for 'cache' is a good beginning. */
struct subword_scratch {
    struct word_cache_row *cache; /* lent */
    struct bpe_scratch merge;
    struct text_buffer bytes;
};

struct subword; /* opaque */

/* Make it of the value at 'place', for words of this kind.  NULL with errno EINVAL (a
 * fault, or what is not supported, with its path), ENOMEM.  The caller owns it. */
struct subword *subword_create (const struct json_place *place, const json_t *value,
                                enum splitter_words words, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void subword_destroy (struct subword *subword);

/* One more than the largest id. */
int32_t subword_num_ids (const struct subword *subword);

/* The bytes that a token stands for, lent; those of an id without token are none. */
const char *subword_token (const struct subword *subword, int32_t id, size_t *size);

/* The byte that a token <0xNN> stands for with byte_fallback, else -1. */
int subword_fallback_byte (const struct subword *subword, int32_t id);

/* Append the ids of a word to 'out'.  'strays': it may have some, as utf8.h says.  -1 with
 * errno ENOMEM, EFBIG; 'out' may then have some of them. */
int subword_encode (const struct subword *subword, struct subword_scratch *scratch,
                    const char *word, size_t size, bool strays, struct token_buffer *out,
                    struct mg_error *err);

/* Free what it holds, but for 'cache'. */
void subword_scratch_clear (struct subword_scratch *scratch);

#endif /* LIBCORE_DATA_SUBWORD_H */
