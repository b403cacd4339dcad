/* pool.c - free list over blocks of items
 *
 * A mutex guards the list.  Blocks are only freed with the pool, so that an item's address stays
 * the same for as long as the pool lives.
 */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "libcore/device/pool.h"

struct item {
    struct item *next;                   /* while it is free */
    _Alignas (max_align_t) char data[];
};

struct block {
    struct block *next;
    int count;
    _Alignas (max_align_t) char items[];
};

struct pool {
    pthread_mutex_t lock;
    size_t stride;
    int count;
    struct item *free;
    struct block *blocks;
};

/* The lock is held, or nobody else knows the pool. */
static int grow (struct pool *pool, int count, struct mg_error *err)
{
    struct block *block;

    if ((size_t)count > (SIZE_MAX - sizeof (*block)) / pool->stride
        || !(block = calloc (1, sizeof (*block) + pool->stride * (size_t)count)))
        return mg_error_set (err, ENOMEM, "pool: out of memory for %d items of %zu bytes",
                             count, pool->stride);
    block->count = count;
    block->next = pool->blocks;
    pool->blocks = block;
    for (int i = count - 1; i >= 0; i--) {
        struct item *item = (struct item *)(block->items + pool->stride * (size_t)i);

        item->next = pool->free;
        pool->free = item;
    }
    pool->count += count;
    return 0;
}

struct pool *pool_create (size_t size, int count, struct mg_error *err)
{
    struct pool *pool = NULL;
    size_t align = _Alignof (max_align_t);

    if (size < 1 || size > SIZE_MAX / 2 || count < 1) {
        mg_error_set (err, EINVAL, "pool: %d items of %zu bytes", count, size);
        return NULL;
    }
    if (!(pool = calloc (1, sizeof (*pool)))) {
        mg_error_set (err, ENOMEM, "pool: out of memory");
        return NULL;
    }
    pthread_mutex_init (&pool->lock, NULL);
    pool->stride = sizeof (struct item) + (size + align - 1) / align * align;
    if (grow (pool, count, err) < 0) {
        pool_destroy (pool, NULL);
        return NULL;
    }
    return pool;
}

void pool_destroy (struct pool *pool, void (*fini) (void *item))
{
    int saved_errno = errno;
    struct block *next;

    if (pool) {
        for (struct block *block = pool->blocks; block; block = next) {
            next = block->next;
            for (int i = 0; fini && i < block->count; i++)
                fini (((struct item *)(block->items + pool->stride * (size_t)i))->data);
            free (block);
        }
        pthread_mutex_destroy (&pool->lock);
        free (pool);
    }
    errno = saved_errno;
}

void *pool_get (struct pool *pool, struct mg_error *err)
{
    struct item *item = NULL;
    int rc = 0;

    pthread_mutex_lock (&pool->lock);
    if (!pool->free)
        rc = grow (pool, pool->count, err);
    if (rc == 0) {
        item = pool->free;
        pool->free = item->next;
    }
    pthread_mutex_unlock (&pool->lock);
    return item ? item->data : NULL;
}

void pool_put (struct pool *pool, void *data)
{
    struct item *item = (struct item *)((char *)data - offsetof (struct item, data));

    pthread_mutex_lock (&pool->lock);
    item->next = pool->free;
    pool->free = item;
    pthread_mutex_unlock (&pool->lock);
}
