/* bpe_train - train a byte pair encoding over bytes, and write it as a tokenizer.json
 *
 * Texts are cut into words by an expression, words are counted, and merges are learned
 * (bpe_learn.h).  The ids equal those that the trainer of the tokenizers library makes of
 * the same texts, with the alphabet of all bytes.
 */
#ifndef LIBCORE_TEXT_BPE_TRAIN_H
#define LIBCORE_TEXT_BPE_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

struct bpe_train_options {
    int32_t vocab_size;     /* number of all tokens */
    int64_t min_frequency;  /* least number of occurrences of a pair that is merged */
    const char *pattern;    /* "gpt2", "llama3", "qwen2" or a regular expression (regex.h) */
    char *const *special;   /* tokens that are no text; the first one ends a document */
    size_t num_special;
};

struct bpe_train; /* opaque */

/* Begin.  The options are copied; the texts that they point to are not.  NULL with errno
 * EINVAL, ENOTSUP (this build lacks PCRE2), ENOMEM.  The caller owns the result. */
struct bpe_train *bpe_train_create (const struct bpe_train_options *options,
                                    struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void bpe_train_destroy (struct bpe_train *train);

/* Count the words of a text.  No word extends over two texts.  -1 with errno ENOMEM, EIO,
 * EFBIG. */
int bpe_train_add (struct bpe_train *train, const char *text, size_t size,
                   struct mg_error *err);

/* Learn the merges.  If there are too few pairs, '*num_tokens' is less than vocab_size.
 * Call this once, after all texts.  -1 with errno EINVAL (no text), ENOMEM, EFBIG. */
int bpe_train_learn (struct bpe_train *train, int32_t *num_tokens, struct mg_error *err);

/* Set 'out' to the tokenizer.json of what was learned. -1 with errno ENOMEM. */
int bpe_train_write (const struct bpe_train *train, struct text_buffer *out,
                     struct mg_error *err);

/* Set 'out' to the tokenizer_config.json that belongs to the tokenizer.json, which names
 * the token that ends a document. -1 with errno ENOMEM. */
int bpe_train_config (const struct bpe_train_options *options, struct text_buffer *out,
                      struct mg_error *err);

#endif /* LIBCORE_TEXT_BPE_TRAIN_H */
