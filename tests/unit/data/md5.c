/* md5 - the sums of RFC 1321, appendix A.5, and of texts at the ends of blocks */

#include <string.h>

#include "libcore/data/md5.h"
#include "tests/tap/tap.h"

int main (void)
{
    static const struct {
        const char *text, *hex;
    } rows[] = {
        { "", "d41d8cd98f00b204e9800998ecf8427e" },
        { "a", "0cc175b9c0f1b6a831c399e269772661" },
        { "abc", "900150983cd24fb0d6963f7d28e17f72" },
        { "message digest", "f96b697d7cb7938d525a2f31aaf161d0" },
        { "abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b" },
        { "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
          "d174ab98d277d9f5a5611c2c9f419d9f" },
        { "1234567890123456789012345678901234567890123456789012345678901234567890123456789"
          "0", "57edf4a22be3c955ac49da2e2107b67a" },
    };
    /* Sums of that many letters "x": the length of the text fills a block, or begins one. */
    static const struct {
        size_t size;
        const char *hex;
    } ends[] = {
        { 55, "04364420e25c512fd958a70738aa8f72" },
        { 56, "668a72d5ba17f08e62dabcafad6db14b" },
        { 57, "693037871c4a9d3d8685018905cb530a" },
        { 63, "7dc2ca208106a2f703567bdff99d8981" },
        { 64, "c1bb4f81d892b2d57947682aeb252456" },
        { 65, "1bc932052302d074bdec39795fe00cf6" },
        { 119, "ab347a5f68c8a443cfcddc633f12c24f" },
        { 120, "fb98667f98096de92620b64f46e1c5b5" },
        { 128, "d69cb61a6ee87200676eb0d4b90edbcb" },
    };
    char hex[MD5_HEX_SIZE], text[200];

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        md5_hex (rows[i].text, strlen (rows[i].text), hex);
        is_str (hex, rows[i].hex, "the sum of \"%.20s\"", rows[i].text);
    }
    memset (text, 'x', sizeof (text));
    for (size_t i = 0; i < sizeof (ends) / sizeof (ends[0]); i++) {
        md5_hex (text, ends[i].size, hex);
        is_str (hex, ends[i].hex, "%zu bytes", ends[i].size);
    }
    return done_testing ();
}
