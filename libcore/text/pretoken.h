/* pretoken - cut a text into words for byte pair encoding, as GPT-2 does.
 *
 * A word matches the first of these forms that fits, and is as long as possible:
 *
 *     's  't  're  've  'm  'll  'd        a contraction's end
 *     letters, or digits, or others        each with at most one blank before
 *     white space up to, but not with, the last blank before something else
 *     white space
 *
 * with Unicode's letters (L), numbers (N) and White_Space.  (The regular expression of
 * OpenAI's GPT-2 encoder, 2019; PCRE2's version of Unicode decides which characters are
 * letters.)
 */
#ifndef LIBCORE_TEXT_PRETOKEN_H
#define LIBCORE_TEXT_PRETOKEN_H

#include <stddef.h>

#include "megatron/error.h"

struct pretoken; /* opaque; for one thread at a time */

/* NULL with errno ENOTSUP (PCRE2 was built without Unicode), ENOMEM.  The caller owns the
 * result. */
struct pretoken *pretoken_create (struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void pretoken_destroy (struct pretoken *p);

/* Find the end of the word that begins at byte 'at' < size of a text, which must be valid
 * UTF-8.  Calls with 0, then with at = *end, find all words; every byte belongs to a
 * word.  0, or -1 with errno ENOMEM, EIO (a fault of PCRE2, with its text). */
int pretoken_next (struct pretoken *p, const char *text, size_t size, size_t at,
                   size_t *end, struct mg_error *err);

#endif /* LIBCORE_TEXT_PRETOKEN_H */
