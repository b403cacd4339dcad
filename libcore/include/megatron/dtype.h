/* Element types of buffers. */
#ifndef MEGATRON_DTYPE_H
#define MEGATRON_DTYPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mg_dtype {
    MG_FLOAT32,
    MG_FLOAT64,
    MG_BFLOAT16,
    MG_FLOAT16,
    MG_INT32,
    MG_INT64,
    MG_UINT8,
    MG_FLOAT8_E4M3, /* 4 bits of exponent, 3 of fraction, no infinity, up to 448 */
    MG_NUM_DTYPES
};

/* Size of one element in bytes; 0 for a value outside the enum. */
size_t mg_dtype_size (enum mg_dtype dtype);

/* "float32", ...; "unknown" for a value outside the enum. */
const char *mg_dtype_name (enum mg_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_DTYPE_H */
