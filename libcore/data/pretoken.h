/* pretoken - cut a text into the words that byte pair encoding works on, as GPT-2 does.
 *
 * A word is the first of these that fits, as long as it can be:
 *
 *     's  't  're  've  'm  'll  'd        a contraction's end
 *     letters, or digits, or others        each with at most one blank before
 *     white space up to, but not with, the last blank before something else
 *     white space
 *
 * with Unicode's letters (L), numbers (N) and White_Space.  (The regular expression of
 * OpenAI's GPT-2 encoder, 2019; which characters are letters follows from the version of
 * Unicode that PCRE2 was made with.)
 */
#ifndef LIBCORE_DATA_PRETOKEN_H
#define LIBCORE_DATA_PRETOKEN_H

#include <stddef.h>

#include "megatron/error.h"

struct pretoken; /* opaque; for one thread at a time */

/* NULL with errno ENOTSUP (PCRE2 knows no Unicode), ENOMEM. The caller owns it. */
struct pretoken *pretoken_create (struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void pretoken_destroy (struct pretoken *p);

/* Find where the word ends that begins at byte 'at' of a text in UTF-8, which must be
 * valid, at < size.  Calls from 0 on with at = *end give all words; every byte is in one.
 * 0, or -1 with errno ENOMEM, EIO (a fault of PCRE2, with its text). */
int pretoken_next (struct pretoken *p, const char *text, size_t size, size_t at,
                   size_t *end, struct mg_error *err);

#endif /* LIBCORE_DATA_PRETOKEN_H */
