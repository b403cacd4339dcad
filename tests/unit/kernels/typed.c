/* typed.c - arrays of the types that ops store */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit_device.h"
#include "tests/unit/kernels/typed.h"

enum { MARGIN = 64, MARK = 0x5a };

static void put (const struct typed *a, size_t i, float x)
{
    if (a->dtype == MG_FLOAT32)
        ((float *)a->x)[i] = x;
    else if (a->dtype == MG_FLOAT64)
        ((double *)a->x)[i] = (double)x;
    else
        ((uint16_t *)a->x)[i] = a->dtype == MG_BFLOAT16 ? half_to_bf16 (x) : half_to_fp16 (x);
}

static float get (const struct typed *a, size_t i)
{
    if (a->dtype == MG_FLOAT32)
        return ((const float *)a->x)[i];
    if (a->dtype == MG_FLOAT64)
        return (float)((const double *)a->x)[i];
    return a->dtype == MG_BFLOAT16 ? half_from_bf16 (((const uint16_t *)a->x)[i])
                                   : half_from_fp16 (((const uint16_t *)a->x)[i]);
}

struct typed typed_create (size_t n, enum mg_dtype dtype, size_t offset)
{
    size_t size = mg_dtype_size (dtype), bytes = 2 * MARGIN + (n + offset) * size;
    struct typed a = { .n = n, .dtype = dtype };

    if (!(a.base = aligned_alloc (64, (bytes + 63) / 64 * 64)))
        bail_out ("out of memory");
    kit_known (a.base, bytes);
    memset (a.base, MARK, bytes);
    a.x = a.base + MARGIN + offset * size;
    for (size_t i = 0; i < n; i++)
        put (&a, i, NAN);
    return a;
}

bool typed_destroy (struct typed *a)
{
    char *end = (char *)a->x + a->n * mg_dtype_size (a->dtype);
    bool whole = true;

    for (char *p = a->base; p < (char *)a->x; p++)
        whole = whole && *p == MARK;
    for (int i = 0; i < MARGIN; i++)
        whole = whole && end[i] == MARK;
    free (a->base);
    memset (a, 0, sizeof (*a));
    return whole;
}

float typed_round (float x, enum mg_dtype dtype)
{
    if (dtype == MG_BFLOAT16)
        return half_from_bf16 (half_to_bf16 (x));
    return dtype == MG_FLOAT16 ? half_from_fp16 (half_to_fp16 (x)) : x;
}

void typed_round_all (float *x, size_t n, enum mg_dtype dtype)
{
    for (size_t i = 0; i < n; i++)
        x[i] = typed_round (x[i], dtype);
}

void typed_set (const struct typed *a, const float *x)
{
    for (size_t i = 0; i < a->n; i++)
        put (a, i, x[i]);
}

void typed_get (const struct typed *a, float *x)
{
    for (size_t i = 0; i < a->n; i++)
        x[i] = get (a, i);
}

double typed_error (enum mg_dtype dtype)
{
    return dtype == MG_BFLOAT16 ? 0x1p-8 : dtype == MG_FLOAT16 ? 0x1p-11 : 0x1p-24;
}
