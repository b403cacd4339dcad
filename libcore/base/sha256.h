/* sha256 - SHA-256 (FIPS 180-4), and the proof that two processes know the same secret (HMAC, RFC
 * 2104).
 */
#ifndef LIBCORE_BASE_SHA256_H
#define LIBCORE_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_SIZE = 32, SHA256_HEX = 65 };

/* SHA-256 of 'n' bytes. */
void sha256 (const void *data, size_t n, uint8_t digest[SHA256_SIZE]);

/* The same as 64 lower-case hexadecimal digits. */
void sha256_hex (const void *data, size_t n, char hex[SHA256_HEX]);

/* HMAC-SHA-256 of 'n' bytes, SHA256_MESSAGE_MAX at most, with a key of any length.  -1 and errno
 * if there are more.
 */
enum { SHA256_MESSAGE_MAX = 1024 };
int sha256_hmac (const void *key, size_t key_len, const void *data, size_t n,
                 uint8_t mac[SHA256_SIZE]);

#endif /* LIBCORE_BASE_SHA256_H */
