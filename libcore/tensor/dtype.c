/* dtype.c - sizes and names of element types */

#include "megatron/dtype.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[MG_NUM_DTYPES] = {
    [MG_FLOAT32] = { "float32", 4 },
    [MG_FLOAT64] = { "float64", 8 },
    [MG_BFLOAT16] = { "bfloat16", 2 },
    [MG_FLOAT16] = { "float16", 2 },
    [MG_INT32] = { "int32", 4 },
    [MG_INT64] = { "int64", 8 },
    [MG_UINT8] = { "uint8", 1 },
    [MG_FLOAT8_E4M3] = { "float8_e4m3", 1 },
};

static int known (enum mg_dtype dtype)
{
    return (int)dtype >= 0 && dtype < MG_NUM_DTYPES;
}

size_t mg_dtype_size (enum mg_dtype dtype)
{
    return known (dtype) ? dtypes[dtype].size : 0;
}

const char *mg_dtype_name (enum mg_dtype dtype)
{
    return known (dtype) ? dtypes[dtype].name : "unknown";
}
