/* fim - fill-in-the-middle: samples whose documents are cut in three and put together anew.
 *
 * M. Bavarian et al., Efficient Training of Language Models to Fill in the Middle, 2022.  A
 * document  prefix middle suffix  becomes, by chance,
 *
 *     PRE prefix SUF suffix MID middle        (PSM)
 *     PRE SUF suffix MID prefix middle        (SPM, the paper's second variant)
 *
 * with the three tokens PRE, SUF and MID.  The rules are those of Megatron-LM's GPTFIMDataset:
 *
 *     segments    The ends of documents divide a sample into segments, each of which is treated
 *                 alone.  A segment without tokens goes, with the end behind it; the last segment
 *                 of a sample has no end.
 *     fragments   With a split token, a segment that has it is chosen with 'rate', and its
 *                 fragments between split tokens are then cut with 'fragment_rate'.  A fragment
 *                 without tokens goes, with the split token behind it.
 *     no_prefix   What begins with this text is left as it is.
 *     length      The sample keeps its length: it is cut at its end, or padded there.
 *
 * With a tokenizer, the cuts are between characters of the text, and the three parts are tokens of
 * their own texts.  Without one, or where a token has no text, the cuts are between tokens.
 *
 * Draws are by coordinates (rng.h): the key is (seed, RNG_FIM, stream), the counter is the number
 * of the draw in the sample and the index of the sample.  So a sample does not depend on which
 * samples were read before it.  Megatron-LM draws from one generator a process, and its samples
 * do.
 */
#ifndef LIBCORE_DATA_FIM_H
#define LIBCORE_DATA_FIM_H

#include <stdint.h>

#include "libcore/data/tokenizer.h"
#include "megatron/error.h"

struct fim_config {
    double rate, spm_rate;  /* 0 to 1: a segment is cut; SPM rather than PSM */
    double fragment_rate;   /* 0 to 1: a fragment is cut */
    int32_t prefix, middle, suffix; /* PRE, MID, SUF */
    int32_t pad, eod;
    int32_t split;          /* -1: none */
    const char *no_prefix;  /* wants a tokenizer; NULL: none. Lent for the life of the object */
    uint64_t seed, stream;  /* different draws for different streams */
};

struct fim; /* opaque; for one thread at a time */

/* 'tokenizer' may be NULL; it is lent for the life of the object, which alone may use it.
 * NULL with errno ENOMEM. The caller owns the result. */
struct fim *fim_create (const struct fim_config *config, struct tokenizer *tokenizer,
                        struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void fim_destroy (struct fim *fim);

/* Rewrite the 'n' tokens of sample 'index' in place.  '*used' is the number of tokens in front of
 * the padding.  Memory grows with the longest text so far.  0, or -1 with errno ENOMEM or that of
 * the tokenizer, and tokens without meaning. */
int fim_apply (struct fim *fim, int64_t index, int32_t *tokens, int n, int *used,
               struct mg_error *err);

#endif /* LIBCORE_DATA_FIM_H */
