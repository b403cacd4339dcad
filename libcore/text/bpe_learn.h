/* bpe_learn - learn the merges of a byte pair encoding from words
 *
 * The pair of neighbours that occurs most often in all words becomes one token, and this
 * is repeated.  Of pairs that occur equally often, the one whose left token, then right
 * token, has the smaller id is chosen.  (R. Sennrich, B. Haddow, A. Birch, Neural Machine
 * Translation of Rare Words with Subword Units, ACL 2016; the order is that of the
 * tokenizers library.)
 */
#ifndef LIBCORE_TEXT_BPE_LEARN_H
#define LIBCORE_TEXT_BPE_LEARN_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/text/bytechars.h"
#include "libcore/text/token_table.h"
#include "libcore/text/word_count.h"
#include "megatron/error.h"

struct bpe_merge {
    int32_t left, right;
};

/* The tokens, whose bytes are written as characters (bytechars.h), and the merges, best
 * first.  A struct of zeros is empty. */
struct bpe_learned {
    struct token_table tokens; /* has room for vocab_size tokens; num_tokens of them are set */
    int32_t num_tokens;
    struct bpe_merge *merges;
    size_t num_merges;
};

/* Put the tokens 'special' into 'learned', in their order, then the 256 bytes in the
 * order of their characters.  -1 with errno EINVAL (a special token twice, or that is a
 * byte; fewer ids than tokens), ENOMEM. */
int bpe_learn_begin (struct bpe_learned *learned, const struct bytechars *bytechars,
                     char *const *special, size_t num_special, int32_t vocab_size,
                     struct mg_error *err);

/* Add merges until there are vocab_size tokens, or no pair occurs 'min_frequency' times.
 * If a merge makes a token that exists, such as a special token, the merge has the id of
 * that token.  -1 with errno ENOMEM, EFBIG (over INT32_MAX bytes of words). */
int bpe_learn (struct bpe_learned *learned, const struct bytechars *bytechars,
               const struct word_count *words, int64_t min_frequency,
               struct mg_error *err);

/* Free what it holds. */
void bpe_learned_clear (struct bpe_learned *learned);

#endif /* LIBCORE_TEXT_BPE_LEARN_H */
