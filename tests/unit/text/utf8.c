/* utf8.c - characters, stray bytes, and both ways between them and surrogates */

#include <string.h>

#include "libcore/text/bytechars.h"
#include "libcore/text/utf8.h"
#include "tests/unit/data/support.h"

static void test_sizes (void)
{
    static const struct {
        const char *text;
        size_t size; /* of the first character */
        size_t stray; /* where the first stray byte is */
    } cases[] = {
        { "a", 1, 1 }, { "\xc3\xa9", 2, 2 }, { "\xe2\x82\xac", 3, 3 },
        { "\xf0\x9f\x98\x80", 4, 4 }, { "\xc3", 0, 0 }, { "\xc0\x80", 0, 0 },
        { "\xe0\x9f\xbf", 0, 0 }, { "\xed\xa0\x80", 0, 0 }, { "\xed\x9f\xbf", 3, 3 },
        { "\xf0\x8f\xbf\xbf", 0, 0 }, { "\xf4\x90\x80\x80", 0, 0 }, { "\xf4\x8f\xbf\xbf", 4, 4 },
        { "\xf5", 0, 0 }, { "\x80", 0, 0 }, { "abcdefgh\xff", 1, 8 }, { "abcdefghi\xe2\x82", 1, 9 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        size_t size = strlen (cases[i].text);

        ok (utf8_size (cases[i].text, size) == cases[i].size, "case %zu: size", i);
        ok (utf8_find_stray (cases[i].text, size, 0) == cases[i].stray, "case %zu: stray", i);
    }
}

static void test_characters (void)
{
    int same = 0, spaces = 0, previous = 0;

    for (uint32_t c = 1; c < 0x110000; c++) {
        char text[UTF8_MAX + 1] = "x";
        size_t n = utf8_encode (c, text + 1), m;

        same += utf8_decode (text + 1, &m) == c && m == n;
        spaces += utf8_is_space (c);
        previous += utf8_previous (text, n + 1) == 1;
    }
    is_int (same, 0x10ffff, "every character there and back");
    is_int (previous, 0x10ffff, "and from its end");
    is_int (spaces, 25, "25 are White_Space");
}

static void test_strays (void)
{
    struct text_buffer out = { NULL, 0, 0 }, back = { NULL, 0, 0 };
    char all[512];
    int found = 0;

    for (int i = 0; i < 512; i++)
        all[i] = (char)(i < 256 ? i : 511 - i);
    ok (utf8_write_strays (&out, all, sizeof (all), NULL) == 0, "any bytes");
    for (size_t at = 0; at < out.size; at++)
        found += utf8_stray_at (out.data + at, out.size - at) >= 0;
    is_int (found, 256, "half of them are stray");
    ok (utf8_read_strays (&back, out.data, out.size, NULL) == 0 && back.size == sizeof (all)
        && memcmp (back.data, all, sizeof (all)) == 0, "and back");
    text_buffer_clear (&out);
    text_buffer_clear (&back);
    ok (utf8_append_valid (&out, "a\xe2\x82\xac\xf0\x9f", 6, NULL) == 0
            && utf8_append_valid (&out, "\xffz", 2, NULL) == 0 && out.size == 4 + 3 * 3 + 1
            && memcmp (out.data, "a\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz", 14) == 0,
        "or each is U+FFFD");
    text_buffer_clear (&out);
}

static void test_bytechars (void)
{
    struct bytechars table;
    char bytes[256], text[512], back[512];
    size_t n;

    bytechars_fill (&table);
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    n = bytechars_encode (&table, bytes, sizeof (bytes), text);
    ok (bytechars_decode (&table, text, n, back) == 256 && memcmp (back, bytes, 256) == 0,
        "all bytes there and back");
    ok (bytechars_encode (&table, " ", 1, text) == 2 && memcmp (text, "\xc4\xa0", 2) == 0,
        "a blank is U+0120");
    is_int ((int)bytechars_decode (&table, " ", 1, back), -1, "a blank stands for no byte");
    is_int ((int)bytechars_decode (&table, "\xc5\x84", 2, back), -1, "nor does U+0144");
    is_int ((int)bytechars_decode (&table, "\xc4", 1, back), -1, "nor half of a character");
}

int main (void)
{
    test_sizes ();
    test_characters ();
    test_strays ();
    test_bytechars ();
    return done_testing ();
}
