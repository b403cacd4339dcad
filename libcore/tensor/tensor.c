/* tensor.c - sizes and addresses of tensors */

#include "libcore/tensor/tensor.h"

int64_t tensor_capacity (const struct tensor *t)
{
    int64_t n = t->ndims > 0;

    for (int d = 0; d < t->ndims; d++)
        n *= t->shape[d];
    return n;
}

int64_t tensor_count (const struct tensor *t)
{
    int64_t n = t->live;

    for (int d = 1; d < t->ndims; d++)
        n *= t->shape[d];
    return n;
}

void *tensor_address (void *data)
{
    static char nowhere;

    return data ? data : &nowhere;
}

void *tensor_at (const struct tensor *t, int64_t i)
{
    if (!t->data)
        return tensor_address (NULL);
    return (char *)t->data + (size_t)i * mg_dtype_size (t->dtype);
}

void tensor_carve (struct tensor *t, struct arena *a)
{
    t->data = arena_carve (a, tensor_capacity (t), mg_dtype_size (t->dtype));
}
