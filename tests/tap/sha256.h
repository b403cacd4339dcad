/* sha256 - the digest in which long reference lists are given. */
#ifndef TESTS_TAP_SHA256_H
#define TESTS_TAP_SHA256_H

#include <stddef.h>

enum { SHA256_HEX = 65 };

/* SHA-256 (FIPS 180-4) of 'n' bytes as 64 lower-case hexadecimal digits. */
void sha256_hex (const void *data, size_t n, char hex[SHA256_HEX]);

#endif /* TESTS_TAP_SHA256_H */
