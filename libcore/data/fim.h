/* fim - fill-in-the-middle: documents of samples are cut into three parts, and the parts
 * are put into another order.
 *
 * M. Bavarian et al., Efficient Training of Language Models to Fill in the Middle, 2022.  A
 * document  prefix middle suffix  becomes, by chance,
 *
 *     PRE prefix SUF suffix MID middle        (PSM)
 *     PRE SUF suffix MID prefix middle        (SPM, the paper's second variant)
 *
 * with the three tokens PRE, SUF and MID.  The rules are those of Megatron-LM's GPTFIMDataset:
 *
 *     segments  The ends of documents divide a sample into segments, each of which is
 *                 processed alone.  An empty segment is removed together with the end
 *                 after it; the last segment of a sample has no end.
 *     fragments  With a split token, a segment that contains the token is chosen with
 *                 'rate', and its fragments between split tokens are then cut with
 *                 'fragment_rate'.  An empty fragment is removed together with the split
 *                 token after it.
 *     no_prefix  A segment or fragment that begins with this text is not cut.  length
 *     The sample keeps its length: it is cut at its end, or padded there.
 *
 * With a tokenizer, the cuts are between characters of the text, and each of the three
 * parts is tokenized again.  Without a tokenizer, or if a token has no text, the cuts are
 * between tokens.
 *
 * Draws are by coordinates (rng.h): the key is (seed, RNG_FIM, stream), the counter is the number
 * of the draw in the sample and the index of the sample.  So a sample does not depend on which
 * samples were read before it.  Megatron-LM draws from one generator for each process, so
 * its samples depend on the samples before.
 */
#ifndef LIBCORE_DATA_FIM_H
#define LIBCORE_DATA_FIM_H

#include <stdint.h>

#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

struct fim_config {
    double rate, spm_rate;  /* chances from 0 to 1 that a segment is cut, and that a cut
                             * one is SPM */
    double fragment_rate;   /* chance from 0 to 1 that a fragment is cut */
    int32_t prefix, middle, suffix; /* PRE, MID, SUF */
    int32_t pad, eod;
    int32_t split;          /* -1: none */
    const char *no_prefix;  /* needs a tokenizer; NULL: none.  Must outlive the object */
    uint64_t seed, stream;  /* different draws for different streams */
};

struct fim; /* opaque; for one thread at a time */

/* Make an object that cuts samples.  'tokenizer' may be NULL.  It must outlive the
 * object, and no other code may use it.  NULL with errno ENOMEM. The caller owns the
 * result. */
struct fim *fim_create (const struct fim_config *config, struct tokenizer *tokenizer,
                        struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void fim_destroy (struct fim *fim);

/* Rewrite the 'n' tokens of sample 'index' in place.  '*used' is the number of tokens
 * before the padding.  Memory grows with the longest text so far. 0, or -1 with errno
 * ENOMEM or that of the tokenizer; the tokens are then undefined. */
int fim_apply (struct fim *fim, int64_t index, int32_t *tokens, int n, int *used,
               struct mg_error *err);

#endif /* LIBCORE_DATA_FIM_H */
