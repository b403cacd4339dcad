/* added_tokens - tokens of tokenizer.json that are searched in a text before any other step
 *
 * Tokens that are not "normalized" are searched in the original text.  Then the rest of
 * the text is normalised.  The other tokens are normalised, too, and searched in the
 * normalised text.  If several tokens begin at the first place, the longest is chosen.
 * "single_word": only where no word character is beside it; "lstrip", "rstrip": white
 * space beside it becomes part of it.
 */
#ifndef LIBCORE_TEXT_ADDED_TOKENS_H
#define LIBCORE_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/text/regex.h"
#include "megatron/error.h"

struct added_token {
    int32_t id;
    bool single_word, lstrip, rstrip;
};

struct added_tokens; /* opaque, immutable: may be used by many threads */

/* An empty list. NULL with errno ENOMEM, EINVAL. The caller owns it. */
struct added_tokens *added_tokens_create (struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void added_tokens_destroy (struct added_tokens *tokens);

/* Add a text, which must not be empty, to the list.  Of equal texts the last counts.  -1
 * with errno ENOMEM. */
int added_tokens_put (struct added_tokens *tokens, const char *text, size_t size,
                      const struct added_token *token, struct mg_error *err);

/* The next token of a text. All zero before the first. */
struct added_tokens_walk {
    size_t at;       /* where the search for the next token begins */
    size_t done;     /* the end of the token before, including its white space */
    size_t from, to; /* the token, including its white space.  'from' may be less than the
                      * earlier 'done' if white space belongs to both tokens */
    int32_t id;
};

/* Returns 1 if there is a next token, 0 if there is none, -1 with errno of regex_next(). */
int added_tokens_next (const struct added_tokens *tokens, struct regex_scratch *scratch,
                       const char *text, size_t size, struct added_tokens_walk *walk,
                       struct mg_error *err);

#endif /* LIBCORE_TEXT_ADDED_TOKENS_H */
