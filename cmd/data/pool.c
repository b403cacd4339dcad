/* pool.c - a ring of batches, and the threads that encode them
 *
 * Three counts that only grow: batches taken back, begun by a worker, submitted.  Batch
 * number i stands at ring[i % size].
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/data/pool.h"
#include "libcore/base/thread.h"
#include "libcore/base/timed.h"

struct place {
    struct data_batch batch;
    bool done;
};

struct worker {
    struct data_pool *pool;
    struct tokenizer *tokenizer;
    pthread_t thread;
};

struct data_pool {
    struct data_pool_work work;
    struct worker *workers;
    int num_workers; /* whose thread runs */
    struct place *ring;
    uint64_t size;
    uint64_t taken, begun, submitted;
    bool end;
    pthread_mutex_t mutex; /* over the counts, 'done' and 'end' */
    pthread_cond_t to_do;
    pthread_cond_t is_done;
};

static void *work (void *arg)
{
    struct worker *worker = arg;
    struct data_pool *pool = worker->pool;

    pthread_mutex_lock (&pool->mutex);
    for (;;) {
        struct place *slot;

        while (!pool->end && pool->begun == pool->submitted)
            pthread_cond_wait (&pool->to_do, &pool->mutex);
        if (pool->end)
            break;
        slot = &pool->ring[pool->begun++ % pool->size];
        pthread_mutex_unlock (&pool->mutex);
        data_batch_encode (&slot->batch, worker->tokenizer, pool->work.keys,
                           pool->work.num_keys);
        pthread_mutex_lock (&pool->mutex);
        slot->done = true;
        pthread_cond_signal (&pool->is_done);
    }
    pthread_mutex_unlock (&pool->mutex);
    return NULL;
}

/* Signals are the reader's: they must end its read. */
static int start_worker (struct worker *worker, struct data_pool *pool,
                         struct mg_error *err)
{
    sigset_t all, before;
    int rc;

    worker->pool = pool;
    if (!(worker->tokenizer = tokenizer_fork (pool->work.tokenizer, err)))
        return -1;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    rc = thread_create (&worker->thread, work, worker);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (rc == 0)
        return 0;
    tokenizer_destroy (worker->tokenizer);
    return mg_error_set (err, rc, "worker %d cannot start: %s", pool->num_workers,
                         strerror (rc));
}

struct data_pool *data_pool_create (int workers, const struct data_pool_work *work,
                                    struct mg_error *err)
{
    struct data_pool *pool;

    if (!(pool = calloc (1, sizeof (*pool)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    pthread_mutex_init (&pool->mutex, NULL);
    timed_cond_init (&pool->is_done);
    pthread_cond_init (&pool->to_do, NULL);
    pool->work = *work;
    pool->size = 3 * (uint64_t)workers + 1;
    pool->ring = calloc (pool->size, sizeof (*pool->ring));
    pool->workers = calloc (workers, sizeof (*pool->workers));
    if (!pool->ring || !pool->workers) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto error;
    }
    while (pool->num_workers < workers) {
        if (start_worker (&pool->workers[pool->num_workers], pool, err) < 0)
            goto error;
        pool->num_workers++;
    }
    return pool;
error:
    data_pool_destroy (pool);
    return NULL;
}

void data_pool_destroy (struct data_pool *pool)
{
    if (pool) {
        int saved_errno = errno;

        pthread_mutex_lock (&pool->mutex);
        pool->end = true;
        pthread_cond_broadcast (&pool->to_do);
        pthread_mutex_unlock (&pool->mutex);
        for (int i = 0; i < pool->num_workers; i++) {
            pthread_join (pool->workers[i].thread, NULL);
            tokenizer_destroy (pool->workers[i].tokenizer);
        }
        for (uint64_t i = 0; pool->ring && i < pool->size; i++)
            data_batch_clear (&pool->ring[i].batch);
        pthread_cond_destroy (&pool->to_do);
        pthread_cond_destroy (&pool->is_done);
        pthread_mutex_destroy (&pool->mutex);
        free (pool->ring);
        free (pool->workers);
        free (pool);
        errno = saved_errno;
    }
}

struct data_batch *data_pool_fill (struct data_pool *pool)
{
    if (pool->submitted - pool->taken == pool->size)
        return NULL;
    return &pool->ring[pool->submitted % pool->size].batch;
}

void data_pool_submit (struct data_pool *pool)
{
    pthread_mutex_lock (&pool->mutex);
    pool->ring[pool->submitted % pool->size].done = false;
    pool->submitted++;
    pthread_cond_signal (&pool->to_do);
    pthread_mutex_unlock (&pool->mutex);
}

/* Wait for at most a fifth of a second, with the mutex held. */
static void wait_done (struct data_pool *pool)
{
    struct timespec until = timed_deadline (0.2);

    pthread_cond_timedwait (&pool->is_done, &pool->mutex, &until);
}

int data_pool_take (struct data_pool *pool, struct data_batch **batch,
                    struct mg_error *err)
{
    struct place *slot = &pool->ring[pool->taken % pool->size];
    bool stopped = false;

    if (pool->taken == pool->submitted)
        return 0;
    pthread_mutex_lock (&pool->mutex);
    while (!slot->done && !(stopped = pool->work.stopped ()))
        wait_done (pool);
    pthread_mutex_unlock (&pool->mutex);
    if (stopped)
        return mg_error_set (err, EINTR, "stopped by a signal");
    *batch = &slot->batch;
    return 1;
}

void data_pool_release (struct data_pool *pool)
{
    data_batch_reset (&pool->ring[pool->taken % pool->size].batch);
    pool->taken++;
}
