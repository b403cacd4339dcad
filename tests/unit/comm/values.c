/* values.c - elements of any type, one at a time */

#include "libcore/base/float8.h"
#include "libcore/base/half.h"
#include "tests/unit/comm/values.h"

double value_get (enum mg_dtype dtype, const void *buf, size_t i)
{
    switch (dtype) {
    case MG_FLOAT32:
        return ((const float *)buf)[i];
    case MG_FLOAT64:
        return ((const double *)buf)[i];
    case MG_BFLOAT16:
        return half_from_bf16 (((const uint16_t *)buf)[i]);
    case MG_FLOAT16:
        return half_from_fp16 (((const uint16_t *)buf)[i]);
    case MG_FLOAT8_E4M3:
        return float8_from_e4m3 (((const uint8_t *)buf)[i]);
    case MG_INT32:
        return ((const int32_t *)buf)[i];
    case MG_INT64:
        return (double)((const int64_t *)buf)[i];
    default:
        return ((const uint8_t *)buf)[i];
    }
}

void value_put (enum mg_dtype dtype, void *buf, size_t i, double value)
{
    switch (dtype) {
    case MG_FLOAT32:
        ((float *)buf)[i] = (float)value;
        break;
    case MG_FLOAT64:
        ((double *)buf)[i] = value;
        break;
    case MG_BFLOAT16:
        ((uint16_t *)buf)[i] = half_to_bf16 ((float)value);
        break;
    case MG_FLOAT16:
        ((uint16_t *)buf)[i] = half_to_fp16 ((float)value);
        break;
    case MG_FLOAT8_E4M3:
        ((uint8_t *)buf)[i] = float8_to_e4m3 ((float)value);
        break;
    case MG_INT32:
        ((int32_t *)buf)[i] = (int32_t)value;
        break;
    case MG_INT64:
        ((int64_t *)buf)[i] = (int64_t)value;
        break;
    default:
        ((uint8_t *)buf)[i] = (uint8_t)(int64_t)value;
    }
}

/* Any good mixer will do: this is the finalizer of MurmurHash3. */
static uint32_t mix (uint32_t x)
{
    x ^= x >> 16;
    x *= 0x85ebca6b;
    x ^= x >> 13;
    x *= 0xc2b2ae35;
    return x ^ x >> 16;
}

double value_of (enum mg_dtype dtype, uint32_t seed, int rank, size_t i)
{
    uint32_t x = mix (mix (seed + 0x9e3779b9 * (uint32_t)rank) + (uint32_t)i);

    if (dtype == MG_UINT8)
        return x % 256;
    if (dtype == MG_INT32 || dtype == MG_INT64)
        return (int32_t)(x % 2000001) - 1000000;
    return ((int32_t)(x % 20001) - 10000) / (x >> 16 & 1 ? 64.0 : 1000.0);
}

double value_combine (enum mg_dtype dtype, enum mg_reduce_op op, double x, double y)
{
    if (op == MG_MAX)
        return y > x ? y : x;
    if (op == MG_MIN)
        return y < x ? y : x;
    if (dtype == MG_FLOAT64 || (dtype >= MG_INT32 && dtype <= MG_UINT8))
        return x + y;
    return (float)x + (float)y;
}

double value_finish (enum mg_dtype dtype, enum mg_reduce_op op, double x, int n)
{
    if (op != MG_AVG)
        return x;
    return dtype == MG_FLOAT64 ? x / n : (float)x / (float)n;
}

bool value_has (enum mg_dtype dtype, enum mg_reduce_op op)
{
    return op != MG_AVG || (dtype != MG_INT32 && dtype != MG_INT64 && dtype != MG_UINT8);
}
