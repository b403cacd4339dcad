/* indexed_format - the bytes of an indexed dataset, for its reader and builder only */
#ifndef LIBCORE_DATA_INDEXED_FORMAT_H
#define LIBCORE_DATA_INDEXED_FORMAT_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libcore/data/indexed.h"

/* Offsets in PREFIX.idx and sizes of a row of its tables; see indexed.h. */
enum {
    MAGIC_SIZE = 9,
    VERSION_AT = 9,
    DTYPE_AT = 17,
    SEQUENCES_AT = 18,
    DOCUMENTS_AT = 26,
    HEADER_SIZE = 34,
    LENGTH_SIZE = 4,
    POINTER_SIZE = 8,
    START_SIZE = 8,
    INDEX_VERSION = 1
};

extern const unsigned char index_magic[MAGIC_SIZE];

/* One row for each element type, by its code; row 0 is unused. */
struct dtype_info {
    const char *name;
    size_t size;
    int64_t max; /* largest token id it can hold, 0: holds no tokens */
    int64_t (*load) (const unsigned char *from);            /* NULL: holds no tokens */
    void (*store) (unsigned char *to, int32_t token);
};
enum { DTYPE_ROWS = INDEXED_UINT16 + 1 };
extern const struct dtype_info dtype_table[DTYPE_ROWS];

/* Little-endian numbers at any address. */
static inline uint32_t load_u32 (const unsigned char *from)
{
    uint32_t value;

    memcpy (&value, from, sizeof (value));
    return le32toh (value);
}

static inline uint64_t load_u64 (const unsigned char *from)
{
    uint64_t value;

    memcpy (&value, from, sizeof (value));
    return le64toh (value);
}

static inline void store_u32 (unsigned char *to, uint32_t value)
{
    value = htole32 (value);
    memcpy (to, &value, sizeof (value));
}

static inline void store_u64 (unsigned char *to, uint64_t value)
{
    value = htole64 (value);
    memcpy (to, &value, sizeof (value));
}

#endif /* LIBCORE_DATA_INDEXED_FORMAT_H */
