/* pool.c - test items that are taken and given back */

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "libcore/device/pool.h"
#include "tests/tap/tap.h"

enum { MANY = 37 };

static int ended;

static void count_end (void *item)
{
    ended += *(int *)item;
}

static void take_and_give (size_t size, int count)
{
    struct mg_error err = { "" };
    struct pool *pool = pool_create (size, count, &err);
    int *item[MANY];
    bool distinct = true, zeroed = true, aligned = true;

    if (!ok (pool != NULL, "pool of %d items of %zu bytes", count, size))
        return;
    for (int i = 0; i < MANY; i++) {
        item[i] = pool_get (pool, &err);
        zeroed = zeroed && *item[i] == 0;
        aligned = aligned && (uintptr_t)item[i] % _Alignof (max_align_t) == 0;
        *item[i] = 1;
        for (int j = 0; j < i; j++)
            distinct = distinct && item[i] != item[j];
    }
    ok (distinct, "%d taken are different", MANY);
    ok (zeroed, "zeroed the first time");
    ok (aligned, "and aligned");
    pool_put (pool, item[5]);
    ok (pool_get (pool, &err) == item[5], "what is given back comes again");
    is_int (*item[5], 1, "as it was");
    ended = 0;
    pool_destroy (pool, count_end);
    is_int (ended, MANY, "all taken items are ended");
}

int main (void)
{
    struct mg_error err = { "" };

    take_and_give (sizeof (int), 1);
    take_and_give (7, 36);
    take_and_give (100, 37);
    take_and_give (128, 38);
    ok (!pool_create (0, 1, &err) && errno == EINVAL, "no item of 0 bytes");
    ok (!pool_create (8, 0, &err) && errno == EINVAL, "no 0 items");
    ok (!pool_create (SIZE_MAX / 4, 1000, &err) && errno == ENOMEM,
        "what cannot be had is ENOMEM: %s", err.text);
    errno = 42;
    pool_destroy (NULL, NULL);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
    return done_testing ();
}
