/* pool - threads that encode batches, and return them in order.
 *
 * A ring of batches: the reader fills one and submits it, the workers encode the
 * submitted batches, and the reader takes them back, the oldest first.  The reader is one
 * thread, which alone calls the functions below.
 */
#ifndef CMD_DATA_POOL_H
#define CMD_DATA_POOL_H

#include <stdbool.h>

#include "cmd/data/batch.h"

enum { DATA_MAX_WORKERS = 1024 };

struct data_pool; /* opaque */

/* Data that all workers share; must outlive the pool. */
struct data_pool_work {
    const struct tokenizer *tokenizer; /* each worker has a fork of it */
    char *const *keys;
    size_t num_keys;
    bool (*stopped) (void); /* called five times a second while the reader waits */
};

/* Start 1 to DATA_MAX_WORKERS threads, which block all signals. NULL with errno ENOMEM,
 * EAGAIN (no more threads). The caller owns the result. */
struct data_pool *data_pool_create (int workers, const struct data_pool_work *work,
                                    struct mg_error *err);

/* Returns the batch to fill next, which is empty at first.  Returns the same batch until
 * it is submitted.  NULL if all batches are submitted and not yet released. */
struct data_batch *data_pool_fill (struct data_pool *pool);
void data_pool_submit (struct data_pool *pool);

/* Wait for the oldest batch that was submitted. 1 with '*batch', which is valid until it
 * is released; 0 if no batch is submitted; -1 with errno EINTR if stopped() returns
 * true. */
int data_pool_take (struct data_pool *pool, struct data_batch **batch,
                    struct mg_error *err);
void data_pool_release (struct data_pool *pool);

/* Wait until the threads have ended their current work, and free the pool.  NULL is allowed. */
void data_pool_destroy (struct data_pool *pool);

#endif /* CMD_DATA_POOL_H */
