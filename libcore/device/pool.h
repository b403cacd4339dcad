/* pool - items of one size that are taken and given back by different threads.
 *
 * Some are made at creation; when all are taken, the pool doubles.  So a steady state
 * allocates nothing, and a burst does not block.
 */
#ifndef LIBCORE_DEVICE_POOL_H
#define LIBCORE_DEVICE_POOL_H

#include <stddef.h>

#include "megatron/error.h"

struct pool;

/* 'count' items of 'size' bytes, both at least 1. NULL and a text on failure. */
struct pool *pool_create (size_t size, int count, struct mg_error *err);

/* 'fini' (may be NULL) is called on every item first, taken or not. NULL is allowed for
 * the pool. Keeps errno.
 */
void pool_destroy (struct pool *pool, void (*fini) (void *item));

/* Returns an item.  A new item is zeroed; a used one has the contents that it had when it
 * was returned to the pool.  NULL and a text if there is no memory.
 */
void *pool_get (struct pool *pool, struct mg_error *err);
void pool_put (struct pool *pool, void *item);

#endif /* LIBCORE_DEVICE_POOL_H */
