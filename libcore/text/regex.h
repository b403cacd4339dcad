/* regex - the regular expressions of tokenizer.json, which are Oniguruma's, matched by PCRE2
 *
 * An expression has the meaning that it has in Oniguruma with its Ruby syntax: \s, \w, \d
 * and \h are Unicode's White_Space, word characters, decimal digits and ASCII's
 * hexadecimal digits, \b parts \w from \W, \v is U+000B, \p{NAME} is a general category
 * or a script, "^" and "$" are begin and end of a line, "." is any character but a line
 * feed; a class may have classes inside, "&&" and \S.  An expression whose meaning
 * differs is refused: a name such as [:alpha:] in a class (but for digit, xdigit, cntrl
 * and ascii); a property, "&&" and a negated class in a class under the option i; \W and
 * \B in a class; \pL without braces; a count "{n,m}" that "+" or "?" follows; "{,}",
 * "(*", the options m and x, "(?i)" that is not the beginning, \G; and anything that
 * PCRE2 does not support.  One difference is left: under the option i, "ss" does not
 * match U+00DF, nor do other letters match their expansions.
 *
 * An expression is immutable, and may be used by many threads, each with a scratch.
 */
#ifndef LIBCORE_TEXT_REGEX_H
#define LIBCORE_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"

/* Letters, marks, digits and other characters of words, to be used inside a class. */
#define REGEX_LETTERS "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}" \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

/* The same with the joiners: \w of Rust's expressions, which the tokenizers library uses
 * in some places. */
#define REGEX_RUST_WORD REGEX_LETTERS "\\x{200c}\\x{200d}"

struct regex;         /* opaque */
struct regex_scratch; /* opaque; for one thread at a time */

/* Compile.  NULL with errno EINVAL and a text that names the unsupported part and its
 * place in the expression; ENOTSUP (PCRE2 was built without Unicode), ENOMEM.  The caller
 * owns the result. */
struct regex *regex_create (const char *pattern, size_t size, struct mg_error *err);

/* Make an expression that matches exactly these characters. */
struct regex *regex_create_literal (const char *text, size_t size, struct mg_error *err);

/* Call regex_create(), or with 'literal' regex_create_literal(), with a string of a file
 * (json_text.h, JSON_TEXT_NULS). */
struct regex *regex_create_json (const char *string, bool literal, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void regex_destroy (struct regex *regex);

/* NULL with errno ENOMEM. The caller owns it. */
struct regex_scratch *regex_scratch_create (struct mg_error *err);

/* Begin a text of 'size' bytes.  All searches in this text and in texts made of it, by
 * any expressions, share a number of steps that is proportional to the size. */
void regex_scratch_start (struct regex_scratch *scratch, size_t size);
void regex_scratch_destroy (struct regex_scratch *scratch);

/* The matches of a text, one after the other.  The struct is zeros before the first
 * match.  An empty match right after the previous match does not count. */
struct regex_walk {
    size_t at;       /* where the next search begins */
    size_t from, to; /* the match */
    bool matched;    /* there was a match */
};

/* Find the next match in a text of valid characters, in which strays are written as in
 * utf8.h.  Returns 1 if there is a match, 0 if there is none, -1 with errno ENOMEM or EIO
 * (a fault of PCRE2, or no steps of this text are left). */
int regex_next (const struct regex *regex, struct regex_scratch *scratch,
                const char *text, size_t size, struct regex_walk *walk,
                struct mg_error *err);

#endif /* LIBCORE_TEXT_REGEX_H */
