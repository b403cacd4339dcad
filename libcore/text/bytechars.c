/* bytechars - bytes to the characters that stand for them, and back */

#include <stdbool.h>
#include <string.h>

#include "libcore/text/bytechars.h"
#include "libcore/text/utf8.h"

void bytechars_fill (struct bytechars *table)
{
    int next = BYTECHARS_BYTES;

    memset (table->byte_of, -1, sizeof (table->byte_of));
    for (int byte = 0; byte < BYTECHARS_BYTES; byte++) {
        bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        int character = itself ? byte : next++;

        table->byte_of[character] = (int16_t)byte;
        table->char_of[byte] = (uint16_t)character;
    }
}

ssize_t bytechars_decode (const struct bytechars *table, const char *text, size_t size,
                          char *to)
{
    ssize_t n = 0;

    for (size_t i = 0; i < size;) {
        unsigned c = (unsigned char)text[i++];

        if (c >= 0x80) {
            if ((c & 0xe0) != 0xc0 || i == size
                || ((unsigned char)text[i] & 0xc0) != 0x80)
                return -1;
            c = (c & 0x1f) << 6 | ((unsigned char)text[i++] & 0x3f);
            if (c < 0x80)
                return -1;
        }
        if (c >= BYTECHARS_END || table->byte_of[c] < 0)
            return -1;
        to[n++] = (char)table->byte_of[c];
    }
    return n;
}

size_t bytechars_encode (const struct bytechars *table, const char *bytes, size_t size,
                         char *to)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++)
        n += utf8_encode (table->char_of[(unsigned char)bytes[i]], to + n);
    return n;
}
