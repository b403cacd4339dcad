/* utf8 - characters of a text in UTF-8
 *
 * A stray byte is one that is part of no character (RFC 3629: the shortest form, no
 * surrogates, up to U+10FFFF).  If a text must consist of characters, each stray byte
 * 0xNN is written as the surrogate U+DCNN.  The three bytes of this surrogate occur in no
 * valid text, and it is no letter, digit, space or mark. utf8_decode() reads these
 * surrogates, too.
 */
#ifndef LIBCORE_TEXT_UTF8_H
#define LIBCORE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

enum { UTF8_MAX = 4, UTF8_STRAY = 0xdc00, UTF8_STRAY_SIZE = 3 };

/* The characters that Unicode calls White_Space, to be used inside a class of PCRE2.
 * PCRE2's own \s contains U+180E, which has not been White_Space since Unicode 6.3. */
#define UTF8_SPACES \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
    "\\x{202f}\\x{205f}\\x{3000}"

/* Returns the number of bytes of the character at 'p', where 'left' bytes are left; 0 if
 * no character begins there. */
size_t utf8_size (const char *p, size_t left);

/* Offset of the first stray byte from 'at' on, or 'size'. */
size_t utf8_find_stray (const char *text, size_t size, size_t at);

/* The character at 'p' and its bytes.  The text must be valid, strays written as above. */
uint32_t utf8_decode (const char *p, size_t *size);

/* Returns the offset where the character that ends at 'at' begins.  'at' is above 0, and
 * the text is as above. */
size_t utf8_previous (const char *text, size_t at);

/* Write the character, at most UTF8_MAX bytes; returns how many. */
size_t utf8_encode (uint32_t character, char *to);

/* true if the character is White_Space */
bool utf8_is_space (uint32_t character);

/* If a stray byte is written at 'p', returns its value, else -1. */
int utf8_stray_at (const char *p, size_t left);

/* Set 'out' to the text with its stray bytes written as above. -1 with errno ENOMEM. */
int utf8_write_strays (struct text_buffer *out, const char *text, size_t size,
                       struct mg_error *err);

/* Set 'out' to the text with its written strays converted back to stray bytes. -1 with
 * errno ENOMEM. */
int utf8_read_strays (struct text_buffer *out, const char *text, size_t size,
                      struct mg_error *err);

/* Append a text to 'to', in which U+FFFD replaces each stray byte.  -1 with errno ENOMEM. */
int utf8_append_valid (struct text_buffer *to, const char *text, size_t size,
                       struct mg_error *err);

#endif /* LIBCORE_TEXT_UTF8_H */
