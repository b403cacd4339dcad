/* tokenizer_json - the parts of a tokenizer.json of the tokenizers library
 *
 *     added_tokens    added_tokens.h
 *     normalizer      normalizer.h
 *     pre_tokenizer   splitter.h
 *     model           subword.h
 *     post_processor  TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and
 *                     Sequence of these: the ids before and after a text
 *     decoder         ByteLevel, Metaspace, ByteFallback, Fuse, Replace, Strip and Sequence
 *                     of these: the text that a token stands for
 *     truncation,     not read: they are for batches of a model, and what trains with the
 *     padding         library turns them off
 *
 * Any other part of a file is refused, with its path in the file.
 */
#ifndef LIBCORE_TEXT_TOKENIZER_JSON_H
#define LIBCORE_TEXT_TOKENIZER_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/text/added_tokens.h"
#include "libcore/text/normalizer.h"
#include "libcore/text/splitter.h"
#include "libcore/text/subword.h"
#include "libcore/text/token_table.h"

enum { TOKENIZER_JSON_REPLACES = 8 };

/* Immutable once it is made: may be used by many threads. */
struct tokenizer_json {
    struct normalizer *normalizer;
    struct splitter *splitter;
    struct subword *subword;
    struct added_tokens *raw;        /* searched before the text is normalised */
    struct added_tokens *normalized; /* and after */
    struct token_table shown;        /* the text of each id */
    struct token_buffer special;     /* the added tokens that are "special", ascending */
    int32_t num_ids;                 /* one more than the largest id */
    int32_t eod;                     /* ends a document; -1: no token does */
    struct token_buffer before, after; /* ids that a model expects before and after a text */
};

/* Parse the text of a file, whose name is for messages.  'eod' is the token that ends a
 * document; NULL: the first of "<|endoftext|>", "<|end_of_text|>", "</s>" and "<eos>" that
 * is a token.  NULL with errno EINVAL, ENOTSUP (a library is missing), ENOMEM.  The caller
 * owns the result. */
struct tokenizer_json *tokenizer_json_parse (const char *file, const char *text,
                                             size_t size, const char *eod,
                                             struct mg_error *err);

/* The token that ends a document by the text of a tokenizer_config.json or a
 * special_tokens_map.json: '*eod' is a copy of its "eos_token", which the caller frees, or
 * NULL.  -1 with errno EINVAL, ENOMEM. */
int tokenizer_json_eos (const char *file, const char *text, size_t size, char **eod,
                        struct mg_error *err);

/* Read DIR/tokenizer.json or the file itself, and the files beside it that name the token
 * which ends a document.  The errors of the functions above, and those of open, EFBIG. */
struct tokenizer_json *tokenizer_json_read (const char *path, struct mg_error *err);

/* true if an added token is "special". */
bool tokenizer_json_is_special (const struct tokenizer_json *json, int32_t id);

/* Free; NULL is allowed; errno is kept. */
void tokenizer_json_destroy (struct tokenizer_json *json);

#endif /* LIBCORE_TEXT_TOKENIZER_JSON_H */
