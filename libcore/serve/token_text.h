/* token_text - a text for each token, in which no two tokens are alike.
 *
 * A token has its own bytes where these are UTF-8 without a zero.  Other bytes are written as
 * "bytes:\xNN\xNN", as vLLM writes them.  A token without bytes, and one whose bytes a token of a
 * higher id has as well (a byte of SentencePiece beside the letter), is "token_id:NUMBER".  A token
 * whose own bytes begin with "bytes:" or "token_id:" is written in bytes, too.
 */
#ifndef LIBCORE_SERVE_TOKEN_TEXT_H
#define LIBCORE_SERVE_TOKEN_TEXT_H

#include <stdint.h>

#include "libcore/text/text_buffer.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

struct token_text;

/* Look through all tokens.  'tokenizer' NULL: every token is "token_id:NUMBER".  The tokenizer must
 * outlive the object.  NULL and ENOMEM.
 */
struct token_text *token_text_create (const struct tokenizer *tokenizer, struct mg_error *err);
void token_text_destroy (struct token_text *t);

/* Append the text of an id, 0 or more, which need not be one of the tokenizer's.  -1 and ENOMEM. */
int token_text_append (const struct token_text *t, int32_t id, struct text_buffer *to,
                       struct mg_error *err);

#endif /* LIBCORE_SERVE_TOKEN_TEXT_H */
