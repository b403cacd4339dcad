/* pipeline.c - files to datasets: read, encode in threads, write in order
 *
 * One thread, the caller's, reads and writes; the threads of a pool encode.  Batches come back in
 * the order in which they were sent, so that the output is the same for any number of threads.
 * If reading fails, all that was read before is still written first.
 */

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>

#include "cmd/data/pipeline.h"
#include "cmd/data/pool.h"
#include "cmd/progress.h"

enum { BATCH_BYTES = 1 << 17 }; /* of input in a batch, if a document ends there */

struct pipeline {
    const struct data_pipeline *plan;
    struct data_writer *writer;
    struct data_pool *pool;
    struct progress progress;
    int64_t written; /* bytes of input whose tokens are written */
    bool broken;     /* a batch could not be taken back or written */
};

/* Wait for the oldest batch and write it.  1, or 0 if there is none. */
static int drain (struct pipeline *r, struct mg_error *err)
{
    struct data_batch *batch;
    int rc = data_pool_take (r->pool, &batch, err);

    if (rc > 0 && r->plan->stopped ())
        rc = mg_error_set (err, EINTR, "stopped by a signal");
    if (rc > 0 && data_writer_batch (r->writer, batch, err) < 0)
        rc = -1;
    r->broken = rc < 0;
    if (rc <= 0)
        return rc;
    r->written += batch->size;
    data_pool_release (r->pool);
    progress_show (&r->progress, r->written);
    return 1;
}

static int submit (struct pipeline *r, struct mg_error *err)
{
    data_pool_submit (r->pool);
    while (!data_pool_fill (r->pool)) {
        if (drain (r, err) < 0)
            return -1;
    }
    return 0;
}

/* Add to the batch under way, and send it off when it has enough and may be cut here. */
static int add (struct pipeline *r, struct batch_item item, const char *text,
                struct mg_error *err)
{
    struct data_batch *batch = data_pool_fill (r->pool);
    const bool may_cut = item.kind == BATCH_LINE || item.kind == BATCH_END_DOCUMENT
                         || (item.kind == BATCH_TEXT
                             && r->writer->tokenizer->ops->any_cut);

    if (data_batch_add (batch, item, text, err) < 0)
        return -1;
    return may_cut && batch->size >= BATCH_BYTES ? submit (r, err) : 0;
}

static int add_text (void *arg, size_t key, const char *text, size_t size,
                     struct mg_error *err)
{
    return add (arg, (struct batch_item){ .kind = BATCH_TEXT, .key = key, .size = size },
                text, err);
}

static int add_end_sequence (void *arg, size_t key, struct mg_error *err)
{
    return add (arg, (struct batch_item){ .kind = BATCH_END_SEQUENCE, .key = key }, NULL,
                err);
}

static int add_end_document (void *arg, size_t key, struct mg_error *err)
{
    return add (arg, (struct batch_item){ .kind = BATCH_END_DOCUMENT, .key = key }, NULL,
                err);
}

static int add_line (void *arg, const char *path, size_t number, const char *line,
                     size_t size, struct mg_error *err)
{
    return add (arg, (struct batch_item){ .kind = BATCH_LINE, .size = size, .path = path,
                                          .number = number }, line, err);
}

static int drain_all (struct pipeline *r, struct mg_error *err)
{
    int rc;

    data_pool_submit (r->pool);
    do {
        rc = drain (r, err);
    } while (rc > 0);
    return rc;
}

/* Faults are reported in the order of the input: a fault of the reader comes after the faults of
 * all that was read before it.
 */
static int read_sources (struct pipeline *r, struct mg_error *err)
{
    const struct input_sink sink = {
        .text = add_text,
        .end_sequence = add_end_sequence,
        .end_document = add_end_document,
        .arg = r,
    };
    struct mg_error earlier;
    int read_errno;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->plan->num_sources; i++) {
        const struct data_source *source = &r->plan->sources[i];

        if (source->format == INPUT_JSONL)
            rc = input_read_lines (source->path, add_line, r, err);
        else
            rc = input_read_text (source->path, source->cut, &sink, err);
    }
    if (rc == 0)
        return drain_all (r, err);
    read_errno = errno;
    if (!r->broken && !r->plan->stopped () && drain_all (r, &earlier) < 0)
        return mg_error_set (err, errno, "%s", earlier.text);
    errno = read_errno;
    return -1;
}

/* Bytes of all sources, 0 if one cannot tell (a pipe, compressed data). */
static int64_t total_bytes (const struct data_pipeline *p)
{
    int64_t total = 0;

    for (size_t i = 0; i < p->num_sources; i++) {
        struct stat st;

        if (stat (p->sources[i].path, &st) < 0 || !S_ISREG (st.st_mode)
            || input_is_compressed (p->sources[i].path))
            return 0;
        total += st.st_size;
    }
    return total;
}

int data_pipeline_run (const struct data_pipeline *p, struct data_writer *writer,
                       struct mg_error *err)
{
    const struct data_pool_work work = {
        .tokenizer = writer->tokenizer,
        .keys = p->keys,
        .num_keys = p->num_keys,
        .stopped = p->stopped,
    };
    struct pipeline r = { .plan = p, .writer = writer };
    int rc;

    if (!(r.pool = data_pool_create (p->workers, &work, err)))
        return -1;
    progress_begin (&r.progress, total_bytes (p));
    rc = read_sources (&r, err);
    progress_end (&r.progress);
    if (p->stopped ()) /* the threads may be long at a long text: not worth the wait */
        return mg_error_set (err, EINTR, "stopped by a signal");
    data_pool_destroy (r.pool);
    return rc;
}
