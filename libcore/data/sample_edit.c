/* sample_edit - samples of another source, changed on their way */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/documents.h"
#include "libcore/data/sample_edit.h"

struct edited {
    struct sample_source *source;
    bool mask_eod;
    int32_t eod;
    struct fim *fim;             /* NULL: none; under 'lock', as are the next two */
    struct tokenizer *tokenizer;
    int32_t *row;                /* [seq_length + 1] */
    pthread_mutex_t lock;
};

static int fill_middle (struct edited *e, int64_t index, const struct sample_gpt *gpt,
                        struct mg_error *err)
{
    const int n = e->source->seq_length;
    int used = 0, rc;

    pthread_mutex_lock (&e->lock);
    e->row[0] = gpt->tokens[0];
    memcpy (e->row + 1, gpt->labels, (size_t)n * sizeof (*gpt->labels));
    rc = fim_apply (e->fim, index, e->row, n + 1, &used, err);
    if (rc == 0) {
        memcpy (gpt->tokens, e->row, (size_t)n * sizeof (*gpt->tokens));
        memcpy (gpt->labels, e->row + 1, (size_t)n * sizeof (*gpt->labels));
    }
    pthread_mutex_unlock (&e->lock);
    for (int i = used > 0 ? used - 1 : 0; rc == 0 && i < n; i++)
        gpt->loss_mask[i] = 0.f; // label i is token i + 1 of the row
    return rc;
}

static int sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    struct edited *e = impl;
    struct sample_gpt gpt;

    if (sample_gpt_of (to, "changed samples", e->source->seq_length, &gpt, err) < 0
        || e->source->ops->sample (e->source->impl, index, to, err) < 0)
        return -1;
    if (e->fim && fill_middle (e, index, &gpt, err) < 0)
        return mg_error_prefix (err, "sample %" PRId64, index);
    if (e->mask_eod)
        documents_mask_loss (gpt.tokens, e->source->seq_length, e->eod, gpt.loss_mask);
    return 0;
}

static void destroy (void *impl)
{
    struct edited *e = impl;

    sample_source_destroy (e->source);
    fim_destroy (e->fim);
    tokenizer_destroy (e->tokenizer);
    free (e->row);
    pthread_mutex_destroy (&e->lock);
    free (e);
}

static const struct sample_source_ops edit_ops = {
    .name = "edit",
    .sample = sample,
    .destroy = destroy,
};

struct sample_source *sample_source_edit_create (struct sample_source *source,
                                                 const struct sample_edit *edit,
                                                 struct mg_error *err)
{
    struct sample_source *outer = calloc (1, sizeof (*outer));
    struct edited *e = calloc (1, sizeof (*e));

    if (!outer || !e) {
        mg_error_set (err, ENOMEM, "samples: out of memory");
        free (outer);
        free (e);
        sample_source_destroy (source);
        tokenizer_destroy (edit->tokenizer);
        return NULL;
    }
    *outer = *source;
    outer->ops = &edit_ops;
    outer->impl = e;
    e->source = source;
    e->mask_eod = edit->mask_eod;
    e->eod = edit->eod;
    e->tokenizer = edit->tokenizer;
    pthread_mutex_init (&e->lock, NULL);
    if (edit->fim) {
        outer->max_token = -1;
        if (!(e->row = calloc ((size_t)source->seq_length + 1, sizeof (*e->row)))) {
            mg_error_set (err, ENOMEM, "samples: out of memory");
            goto error;
        }
        if (!(e->fim = fim_create (edit->fim, edit->tokenizer, err)))
            goto error;
    }
    return outer;
error:
    sample_source_destroy (outer);
    return NULL;
}
