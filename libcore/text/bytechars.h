/* bytechars - the characters that stand for bytes in files of byte pair encodings
 *
 * Bytes 33-126, 161-172 and 174-255 are written as the character of the same number.  The
 * other bytes, in order, are written as the characters 256, 257 ... 323 (OpenAI's GPT-2
 * encoder, 2019).
 */
#ifndef LIBCORE_TEXT_BYTECHARS_H
#define LIBCORE_TEXT_BYTECHARS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BYTECHARS_BYTES = 256, BYTECHARS_END = 324, BYTECHARS_SIZE = 2 };

struct bytechars {
    int16_t byte_of[BYTECHARS_END]; /* [character] the byte, or -1 if the character stands
                                     * for no byte */
    uint16_t char_of[BYTECHARS_BYTES];
};

void bytechars_fill (struct bytechars *table);

/* Convert a text to bytes in 'to', which has room for 'size' bytes.  Returns their
 * number, or -1 if a character stands for no byte. */
ssize_t bytechars_decode (const struct bytechars *table, const char *text, size_t size,
                          char *to);

/* Convert 'size' bytes to characters in 'to', which has room for BYTECHARS_SIZE * size
 * bytes.  Returns the size of the text. */
size_t bytechars_encode (const struct bytechars *table, const char *bytes, size_t size,
                         char *to);

#endif /* LIBCORE_TEXT_BYTECHARS_H */
