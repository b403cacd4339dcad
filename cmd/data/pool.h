/* pool - threads that encode batches, and hand them back in order.
 *
 * A ring of batches: the reader fills one and submits it, the workers encode those
 * submitted, the reader takes them back oldest first.  One thread reads and takes; the
 * functions below are for that one.
 */
#ifndef CMD_DATA_POOL_H
#define CMD_DATA_POOL_H

#include <stdbool.h>

#include "cmd/data/batch.h"

enum { DATA_MAX_WORKERS = 1024 };

struct data_pool; /* opaque */

/* What all workers share; lent for the pool's life. */
struct data_pool_work {
    const struct tokenizer *tokenizer; /* each worker has a fork of it */
    char *const *keys;
    size_t num_keys;
    bool (*stopped) (void); /* asked, five times a second, while the reader waits */
};

/* Start 1 to DATA_MAX_WORKERS threads, which take no signals. NULL with errno ENOMEM,
 * EAGAIN (no more threads). The caller owns the result. */
struct data_pool *data_pool_create (int workers, const struct data_pool_work *work,
                                    struct mg_error *err);

/* The batch to fill next, empty at first; NULL if every one is submitted and none is
 * taken and released. The same one until it is submitted. */
struct data_batch *data_pool_fill (struct data_pool *pool);
void data_pool_submit (struct data_pool *pool);

/* Wait for the oldest batch that was submitted. 1 with '*batch', which is lent until it
 * is released; 0 if there is none; -1 with errno EINTR if stopped() says so. */
int data_pool_take (struct data_pool *pool, struct data_batch **batch,
                    struct mg_error *err);
void data_pool_release (struct data_pool *pool);

/* Wait for the threads to end what they work on, and free; NULL is allowed. */
void data_pool_destroy (struct data_pool *pool);

#endif /* CMD_DATA_POOL_H */
