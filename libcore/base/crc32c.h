/* crc32c - the checksum CRC-32C (Castagnoli), as in RFC 3720, section 12.1.
 *
 * Debian has no portable C library for it: ISA-L is built for some processors only, and
 * leaves out the first and the last complement.  This implementation processes four bits
 * at a time, which is enough for short records.
 */
#ifndef LIBCORE_BASE_CRC32C_H
#define LIBCORE_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of 'n' bytes, 0 if n is 0. */
uint32_t crc32c (const void *data, size_t n);

#endif /* LIBCORE_BASE_CRC32C_H */
