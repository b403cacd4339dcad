/* md5 - the MD5 sum, by which Megatron-LM names files. MD5 is not secure, and must not
 * protect anything. */
#ifndef LIBCORE_DATA_MD5_H
#define LIBCORE_DATA_MD5_H

#include <stddef.h>

enum { MD5_HEX_SIZE = 33 };

/* The sum of 'size' bytes in 32 hexadecimal digits and a NUL (RFC 1321). */
void md5_hex (const void *data, size_t size, char hex[MD5_HEX_SIZE]);

#endif /* LIBCORE_DATA_MD5_H */
