/* sha256 - test digests of FIPS 180-4's examples and proofs of RFC 4231 */

#include <stdio.h>
#include <string.h>

#include "libcore/base/sha256.h"
#include "tests/tap/tap.h"

static void test_digests (void)
{
    static const struct {
        const char *text, *hex;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    char hex[SHA256_HEX], million[1000];
    uint8_t digest[SHA256_SIZE];

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        sha256_hex (cases[i].text, strlen (cases[i].text), hex);
        is_str (hex, cases[i].hex, "\"%.10s\"", cases[i].text);
    }
    memset (million, 'a', sizeof (million));
    sha256 (million, sizeof (million), digest);
    ok (digest[0] == 0x41 && digest[31] == 0xa3, "1000 a's: %02x ... %02x", digest[0], digest[31]);
}

static void is_mac (const void *key, size_t key_len, const char *text, const char *want)
{
    uint8_t mac[SHA256_SIZE];
    char hex[SHA256_HEX];

    is_int (sha256_hmac (key, key_len, text, strlen (text), mac), 0, "a proof");
    for (int i = 0; i < SHA256_SIZE; i++)
        snprintf (hex + 2 * i, 3, "%02x", mac[i]);
    is_str (hex, want, "\"%.20s\"", text);
}

/* RFC 4231, cases 1, 2 and 6. */
static void test_proofs (void)
{
    uint8_t key[131], mac[SHA256_SIZE];
    char longer[SHA256_MESSAGE_MAX + 1] = { 0 };

    memset (key, 0x0b, 20);
    is_mac (key, 20, "Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    is_mac ("Jefe", 4, "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset (key, 0xaa, sizeof (key));
    is_mac (key, sizeof (key), "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    is_int (sha256_hmac (key, 1, longer, sizeof (longer), mac), -1, "too long a message");
}

int main (void)
{
    test_digests ();
    test_proofs ();
    return done_testing ();
}
