/* subword_impl - what subword.c and the reader of its tables have in common */
#ifndef LIBCORE_TEXT_SUBWORD_IMPL_H
#define LIBCORE_TEXT_SUBWORD_IMPL_H

#include "libcore/text/bytechars.h"
#include "libcore/text/subword.h"
#include "libcore/text/token_table.h"

enum {
    SUBWORD_CHARS = 0x10000,          /* characters with a place in char_ids */
    SUBWORD_JOINS = 0x110000 / 8 + 1, /* bytes of an array with a bit for each character */
    SUBWORD_SPACE_SIZE = 3
};
#define SUBWORD_SPACE "\xe2\x96\x81" /* U+2581 */

struct subword {
    enum splitter_words words;
    struct token_table tokens;
    struct bpe_pairs pairs;
    struct bytechars bytechars;
    int32_t byte_ids[BYTECHARS_BYTES]; /* token of each byte in words of bytes; -1: no token */
    int32_t fallback[BYTECHARS_BYTES]; /* the tokens <0xNN>; -1: not used */
    int32_t *char_ids;                 /* [SUBWORD_CHARS] token of each character in words
                                        * of characters */
    unsigned char *joins; /* characters that a merge joins with a following U+2581; NULL:
                           * words are not cut */
    int32_t unknown;      /* -1: none */
    bool fuse, ignore_merges, byte_fallback;
};

#endif /* LIBCORE_TEXT_SUBWORD_IMPL_H */
