/* CRC-32C: the examples of RFC 3720, B.4, and the check value of catalogues. */

#include <string.h>

#include "libcore/base/crc32c.h"
#include "tests/tap/tap.h"

int main (void)
{
    uint8_t bytes[32];
    /* an iSCSI read command */
    static const uint8_t command[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28,
        [40] = 0x02,
    };

    is_int (crc32c ("", 0), 0, "of nothing");
    is_int (crc32c ("123456789", 9), 0xe3069283, "the check value");
    memset (bytes, 0, sizeof (bytes));
    is_int (crc32c (bytes, sizeof (bytes)), 0x8a9136aa, "32 bytes of zeroes");
    memset (bytes, 0xff, sizeof (bytes));
    is_int (crc32c (bytes, sizeof (bytes)), 0x62a8ab43, "32 bytes of ones");
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    is_int (crc32c (bytes, sizeof (bytes)), 0x46dd794e, "32 incrementing bytes");
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    is_int (crc32c (bytes, sizeof (bytes)), 0x113fdb5c, "32 decrementing bytes");
    is_int (crc32c (command, sizeof (command)), 0xd9963a56, "a command of 48 bytes");
    return done_testing ();
}
