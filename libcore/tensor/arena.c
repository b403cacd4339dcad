/* arena.c - carve one allocation */

#include "libcore/tensor/arena.h"

void arena_init (struct arena *a, void *base, size_t size)
{
    *a = (struct arena){ .base = base, .size = base ? size : SIZE_MAX };
}

void *arena_carve (struct arena *a, int64_t count, size_t size)
{
    size_t bytes, start = a->used;

    if (count == 0 || a->overflow)
        return NULL;
    if (count < 0 || __builtin_mul_overflow ((size_t)count, size, &bytes)
        || __builtin_add_overflow (bytes, (size_t)ARENA_ALIGN - 1, &bytes)) {
        a->overflow = true;
        return NULL;
    }
    bytes -= bytes % ARENA_ALIGN;
    if (bytes > a->size - start) {
        a->overflow = true;
        return NULL;
    }
    a->used = start + bytes;
    return a->base ? a->base + start : NULL;
}

void arena_repeat (struct arena *a, size_t from, int times)
{
    size_t bytes;

    if (times <= 0 || a->overflow)
        return;
    if (__builtin_mul_overflow (a->used - from, (size_t)times, &bytes)
        || __builtin_add_overflow (a->used, bytes, &bytes) || bytes > a->size)
        a->overflow = true;
    else
        a->used = bytes;
}
