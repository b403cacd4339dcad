/* bytechars - a character for each byte and back, those of GPT-2's files */

#include <string.h>

#include "libcore/text/bytechars.h"
#include "tests/tap/tap.h"

int main (void)
{
    struct bytechars table;
    char bytes[BYTECHARS_BYTES], text[BYTECHARS_SIZE * BYTECHARS_BYTES], back[sizeof (text)];
    int wrong = 0, others = 256;
    size_t size;

    bytechars_fill (&table);
    for (int b = 0; b < BYTECHARS_BYTES; b++) {
        bool own = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        int want = own ? b : others++;

        wrong += table.char_of[b] != want || table.byte_of[want] != b;
        bytes[b] = (char)b;
    }
    is_int (wrong, 0, "printable bytes stand for themselves, others for characters from 256");
    is_int (others, BYTECHARS_END, "up to the last");
    ok (table.byte_of[' '] == -1 && table.byte_of[173] == -1, "some characters stand for no byte");
    size = bytechars_encode (&table, bytes, sizeof (bytes), text);
    is_int (size, 94 + 2 * (256 - 94), "ASCII has one byte, other characters two");
    is_int (bytechars_decode (&table, text, size, back), BYTECHARS_BYTES, "all come back");
    ok (memcmp (back, bytes, sizeof (bytes)) == 0, "as they were");
    is_int (bytechars_encode (&table, " a", 2, text), 3, "a blank is the character 288");
    ok (memcmp (text, "\xc4\xa0" "a", 3) == 0, "in UTF-8");
    is_int (bytechars_encode (&table, "", 0, text), 0, "nothing is nothing");
    is_int (bytechars_decode (&table, "", 0, back), 0, "both ways");
    is_int (bytechars_decode (&table, "a b", 3, back), -1, "a character that stands for no byte");
    is_int (bytechars_decode (&table, "a\xc5\x84", 3, back), -1, "one behind the last");
    is_int (bytechars_decode (&table, "\xe2\x82\xac", 3, back), -1, "one of three bytes");
    return done_testing ();
}
