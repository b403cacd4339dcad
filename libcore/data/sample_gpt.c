/* sample_gpt.c - samples of a GPT dataset: gpt_index over a mapped indexed dataset, or over
 * documents that are made up
 *
 * A sample is S + 1 tokens of the row of documents, read with pread() into the caller's arrays.
 * Nothing is allocated for a sample, and several threads may read at the same time.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/gpt_cache.h"
#include "libcore/data/indexed.h"
#include "libcore/data/mock.h"
#include "libcore/data/sample_source.h"

/* The source of tokens is 'ix' or 'mock'; the other one is NULL. */
struct gpt_source {
    struct indexed *ix;
    struct mock *mock;
    struct gpt_index *index;
    int seq_length;
};

/* A place in the row of documents. */
struct cursor {
    size_t document; /* position in document_index */
    size_t offset;   /* token of that document */
};

static size_t document_length (const struct gpt_source *src, size_t i)
{
    return src->ix ? indexed_length (src->ix, i) : src->mock->lengths[i];
}

static int get (const struct gpt_source *src, size_t i, size_t offset, size_t n, int32_t *out,
                struct mg_error *err)
{
    if (src->ix)
        return indexed_get (src->ix, i, offset, n, out, err);
    mock_get (src->mock, i, offset, n, out);
    return 0;
}

/* Copy the next 'n' tokens of the row and move the cursor behind them. */
static int read_tokens (const struct gpt_source *src, struct cursor *c, int32_t *out,
                        size_t n, struct mg_error *err)
{
    const struct gpt_index *index = src->index;

    while (n > 0) {
        size_t sequence;
        size_t piece;

        if (c->document >= index->row_length)
            return mg_error_set (err, EINVAL, "gpt samples: beyond the last document");
        sequence = index->document_index[c->document];
        piece = document_length (src, sequence) - c->offset;
        if (piece > n)
            piece = n;
        if (get (src, sequence, c->offset, piece, out, err) < 0)
            return -1;
        out += piece;
        n -= piece;
        c->offset += piece;
        if (n > 0) {
            c->document++;
            c->offset = 0;
        }
    }
    return 0;
}

/* S + 1 tokens are read: the first into 'tokens', the other S are the labels, of which
 * all but the last are the rest of 'tokens'. */
static int sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    const struct gpt_source *src = impl;
    const int n = src->seq_length;
    const struct gpt_index_start *start;
    struct sample_gpt gpt;
    struct cursor c;

    if (index < 0 || index >= src->index->num_samples)
        return mg_error_set (err, ERANGE,
                             "gpt samples: no sample %" PRId64 ", want 0 to %" PRId64,
                             index, src->index->num_samples - 1);
    if (sample_gpt_of (to, "gpt samples", n, &gpt, err) < 0
        || gpt_index_check (src->index, err) < 0)
        return -1;
    start = &src->index->sample_index[src->index->shuffle_index[index]];
    c = (struct cursor){ .document = start->document, .offset = start->offset };
    /* an empty document may stand first; skip it as reading on would */
    if (read_tokens (src, &c, gpt.tokens, 1, err) < 0
        || read_tokens (src, &c, gpt.labels, n, err) < 0)
        return mg_error_prefix (err, "sample %" PRId64, index);
    memcpy (gpt.tokens + 1, gpt.labels, (n - 1) * sizeof (*gpt.tokens));
    for (int i = 0; i < n; i++)
        gpt.loss_mask[i] = 1.f;
    return 0;
}

static void destroy (void *impl)
{
    struct gpt_source *src = impl;

    if (src) {
        indexed_close (src->ix);
        mock_destroy (src->mock);
        gpt_index_destroy (src->index);
        free (src);
    }
}

static const struct sample_source_ops gpt_ops = {
    .name = "gpt",
    .sample = sample,
    .destroy = destroy,
};

/* Neither has tokens or an index yet. */
static struct gpt_source *create (struct sample_source **source, int seq_length,
                                  struct mg_error *err)
{
    struct gpt_source *src = calloc (1, sizeof (*src));

    *source = calloc (1, sizeof (**source));
    if (!src || !*source) {
        mg_error_set (err, ENOMEM, "gpt samples: out of memory");
        free (src);
        free (*source);
        return NULL;
    }
    src->seq_length = seq_length;
    (*source)->ops = &gpt_ops;
    (*source)->impl = src;
    (*source)->seq_length = seq_length;
    (*source)->max_token = -1;
    return src;
}

/* The source has an index. */
static int set_num_samples (struct sample_source *source, const char *name, struct mg_error *err)
{
    const struct gpt_source *src = source->impl;

    if (src->index->num_samples < 1)
        return mg_error_set (err, EINVAL,
                             "%s: %" PRId64 " tokens give no sample of %d, want at least %d", name,
                             src->index->tokens_per_epoch, src->seq_length, src->seq_length + 1);
    source->num_samples = src->index->num_samples;
    return 0;
}

struct sample_source *sample_source_gpt_open (const char *cache,
                                              const struct gpt_identity *id,
                                              struct mg_error *err)
{
    struct sample_source *source;
    struct gpt_source *src = create (&source, id->seq_length, err);

    if (!src)
        return NULL;
    if (!(src->ix = indexed_open (id->prefix, err)))
        goto error;
    if (!(src->index = gpt_cache_open (cache, id, src->ix, err))) {
        mg_error_prefix (err, "%s", id->prefix);
        goto error;
    }
    if (set_num_samples (source, id->prefix, err) < 0)
        goto error;
    return source;
error:
    sample_source_destroy (source);
    return NULL;
}

struct sample_source *sample_source_mock_create (const struct mock_identity *id,
                                                 struct mg_error *err)
{
    struct sample_source *source;
    struct gpt_source *src = create (&source, id->seq_length, err);
    struct gpt_documents documents;
    int64_t begin, end;

    if (!src)
        return NULL;
    if (!(src->mock = mock_create (id->vocab_size, id->eod, err))
        || split_documents ("1,1,1", id->part, MOCK_DOCUMENTS, &begin, &end, err) < 0)
        goto error;
    documents = (struct gpt_documents){ .lengths = src->mock->lengths + begin,
                                        .first = (int32_t)begin,
                                        .count = (size_t)(end - begin) };
    if (!(src->index = gpt_index_create (&documents, id->seq_length, id->num_samples, id->seed,
                                         err))) {
        mg_error_prefix (err, "mock data");
        goto error;
    }
    if (set_num_samples (source, "mock data", err) < 0)
        goto error;
    return source;
error:
    sample_source_destroy (source);
    return NULL;
}
