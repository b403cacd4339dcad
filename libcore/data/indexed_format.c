/* indexed_format - element types of an indexed dataset */

#include "libcore/data/indexed_format.h"

const unsigned char index_magic[MAGIC_SIZE] = "MMIDIDX\0"; /* and the string's own NUL */

static int64_t load_uint8 (const unsigned char *from)
{
    return *from;
}

static int64_t load_int8 (const unsigned char *from)
{
    return (int8_t)*from;
}

static int64_t load_uint16 (const unsigned char *from)
{
    return from[0] | from[1] << 8;
}

static int64_t load_int16 (const unsigned char *from)
{
    return (int16_t)(from[0] | from[1] << 8);
}

static int64_t load_int32 (const unsigned char *from)
{
    return (int32_t)load_u32 (from);
}

static int64_t load_int64 (const unsigned char *from)
{
    return (int64_t)load_u64 (from);
}

static void store_8 (unsigned char *to, int32_t token)
{
    *to = (unsigned char)token;
}

static void store_16 (unsigned char *to, int32_t token)
{
    to[0] = (unsigned char)token;
    to[1] = (unsigned char)(token >> 8);
}

static void store_32 (unsigned char *to, int32_t token)
{
    store_u32 (to, (uint32_t)token);
}

static void store_64 (unsigned char *to, int32_t token)
{
    store_u64 (to, (uint64_t)token);
}

const struct dtype_info dtype_table[DTYPE_ROWS] = {
    [INDEXED_UINT8] = { "uint8", 1, UINT8_MAX, load_uint8, store_8 },
    [INDEXED_INT8] = { "int8", 1, INT8_MAX, load_int8, store_8 },
    [INDEXED_INT16] = { "int16", 2, INT16_MAX, load_int16, store_16 },
    [INDEXED_INT32] = { "int32", 4, INT32_MAX, load_int32, store_32 },
    [INDEXED_INT64] = { "int64", 8, INT32_MAX, load_int64, store_64 },
    [INDEXED_FLOAT64] = { "float64", 8, 0, NULL, NULL },
    [INDEXED_FLOAT32] = { "float32", 4, 0, NULL, NULL },
    [INDEXED_UINT16] = { "uint16", 2, UINT16_MAX, load_uint16, store_16 },
};

const char *indexed_dtype_name (enum indexed_dtype dtype)
{
    if ((unsigned)dtype >= DTYPE_ROWS || !dtype_table[dtype].name)
        return "unknown";
    return dtype_table[dtype].name;
}

size_t indexed_dtype_size (enum indexed_dtype dtype)
{
    return (unsigned)dtype < DTYPE_ROWS ? dtype_table[dtype].size : 0;
}

enum indexed_dtype indexed_dtype_for_vocab (int64_t vocab_size)
{
    return vocab_size < 65500 ? INDEXED_UINT16 : INDEXED_INT32;
}
