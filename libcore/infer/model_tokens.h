/* model_tokens - the tokenizer of a trained model, and the tokens that begin and end its texts. */
#ifndef LIBCORE_INFER_MODEL_TOKENS_H
#define LIBCORE_INFER_MODEL_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "libcore/text/tokenizer.h"
#include "libcore/train/data.h"
#include "megatron/error.h"

struct model_tokens {
    struct tokenizer *tokenizer; /* NULL: there is none */
    int32_t first;               /* begins a text; -1: none is known */
    struct token_buffer ends;    /* end a text */
};

/* Find the tokens of the model at 'load', a directory or a file of weights.  The tokenizer is the
 * one that 'data' names, else tokenizer.json in the directory or beside the file.  The other tokens
 * are those of generation_config.json there, else the tokenizer's end of a document.  'bare': the
 * tokenizer puts no special tokens around a text.  -1 and a text if a file is faulty, with the
 * errors of tokenizer_create(); the tokens are then empty.  The caller owns tokenizer and ends.ids.
 */
int model_tokens_find (struct model_tokens *m, const char *load, const struct data_config *data,
                       bool bare, struct mg_error *err);
void model_tokens_clear (struct model_tokens *m);

/* The bytes of a file beside the weights at 'load', which the caller frees.  NULL and a text:
 * ENOENT if there is none, EFBIG above 'max' bytes, the errno of open() or read(), ENOMEM.
 */
char *model_tokens_file (const char *load, const char *name, size_t max, size_t *size,
                         struct mg_error *err);

/* The object of tokenizer_config.json beside the weights at 'load', an empty one without that file.
 * The caller owns it.  NULL and a text if the file is faulty, or ENOMEM.
 */
json_t *model_tokens_config (const char *load, struct mg_error *err);

/* Append the ids of a JSON value: of a number, a list of numbers, or of null, which has none.  -1,
 * EINVAL and a text that begins with 'what' if a value is no id, or ENOMEM.
 */
int model_tokens_append (const json_t *value, const char *what, struct token_buffer *ids,
                         struct mg_error *err);

#endif /* LIBCORE_INFER_MODEL_TOKENS_H */
