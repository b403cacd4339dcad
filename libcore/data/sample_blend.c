/* sample_blend.c - samples of a blend: an index over several GPT sources
 *
 * A plan says how many samples each dataset has to give; then the datasets are opened, the index
 * is made or read, and both are checked against each other.  The numbers are Megatron-LM's, which
 * applies weights and surplus in a certain order.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/gpt_index.h"
#include "libcore/data/sample_blend.h"

static int sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    const struct blended *b = impl;
    const struct sample_source *dataset;

    if (index < 0 || index >= b->index->size)
        return mg_error_set (err, ERANGE,
                             "blend: no sample %" PRId64 ", want 0 to %" PRId64, index,
                             b->index->size - 1);
    if (blend_index_check (b->index, err) < 0)
        return -1;
    dataset = b->datasets[b->index->dataset[index]];
    return dataset->ops->sample (dataset->impl, b->index->sample[index], to, err);
}

static void destroy (void *impl)
{
    struct blended *b = impl;

    if (b) {
        for (size_t i = 0; b->datasets && i < b->count; i++)
            sample_source_destroy (b->datasets[i]);
        blend_index_destroy (b->index);
        free (b->datasets);
        free (b->requested);
        free (b);
    }
}

static const struct sample_source_ops blend_ops = {
    .name = "blend",
    .sample = sample,
    .destroy = destroy,
};

/* The numbers that a blend is made from, freed when it is. */
struct blend_sizes {
    struct gpt_identity *identities;
    double *weights; /* normalised; NULL: by size */
    int64_t *sizes;  /* samples that each dataset has */
    int64_t size;    /* of the blend */
};

static void clear_sizes (struct blend_sizes *plan)
{
    int saved_errno = errno;

    free (plan->identities);
    free (plan->weights);
    free (plan->sizes);
    errno = saved_errno;
}

static struct gpt_identity identity_of (const struct sample_blend_config *c, size_t i,
                                        int64_t num_samples)
{
    return (struct gpt_identity){
        .prefix = c->blend->prefixes[i],
        .num_samples = num_samples,
        .part = c->part,
        .seed = c->seed,
        .seq_length = c->seq_length,
        .split = c->split,
        .tokenizer = c->tokenizer,
    };
}

/* Find the number of samples to ask of each dataset, and the size of a blend by weights. */
static int make_plan (const struct sample_blend_config *c, struct blend_sizes *plan,
                      struct blended *b, struct mg_error *err)
{
    const struct blend *blend = c->blend;
    const size_t bytes = blend->count * sizeof (*plan->weights);

    plan->identities = calloc (blend->count, sizeof (*plan->identities));
    plan->weights = calloc (blend->count, sizeof (*plan->weights));
    plan->sizes = calloc (blend->count, sizeof (*plan->sizes));
    if (!plan->identities || !plan->weights || !plan->sizes)
        return mg_error_set (err, ENOMEM, "out of memory");
    if (blend->weights) {
        memcpy (plan->weights, blend->weights, bytes);
        blend_normalize (plan->weights, blend->count);
    }
    for (size_t i = 0; i < blend->count; i++) {
        int64_t share = 0;

        b->requested[i] = GPT_INDEX_ONE_EPOCH;
        if (blend->weights) {
            share = blend_share (c->num_samples, plan->weights[i], 0., err);
            b->requested[i] = share < 0 ? share
                                        : blend_share (c->num_samples, plan->weights[i],
                                                       c->surplus, err);
            if (b->requested[i] < 0)
                return -1;
        }
        plan->size += share;
        plan->identities[i] = identity_of (c, i, b->requested[i]);
    }
    return 0;
}

static int open_datasets (const struct sample_blend_config *c, struct blend_sizes *plan,
                          struct blended *b, struct mg_error *err)
{
    for (size_t i = 0; i < b->count; i++) {
        b->datasets[i] = sample_source_gpt_open (c->cache, &plan->identities[i], err);
        if (!b->datasets[i])
            return -1;
        plan->sizes[i] = b->datasets[i]->num_samples;
    }
    return 0;
}

/* Without weights the datasets' sizes are the weights. */
static void plan_by_size (const struct sample_blend_config *c, struct blend_sizes *plan,
                          size_t count)
{
    int64_t all = 0;

    for (size_t i = 0; i < count; i++) {
        plan->weights[i] = (double)plan->sizes[i];
        all += plan->sizes[i];
    }
    plan->size = c->num_samples < all ? c->num_samples : all;
}

static int make_index (const struct sample_blend_config *c, struct blend_sizes *plan,
                       struct blended *b, struct mg_error *err)
{
    struct blend_identity id = {
        .datasets = plan->identities,
        .count = b->count,
        .sizes = plan->sizes,
    };

    if (!c->blend->weights)
        plan_by_size (c, plan, b->count);
    if (c->num_samples != GPT_INDEX_ONE_EPOCH) {
        /* weights of the user for the second time, as Megatron-LM does it */
        blend_normalize (plan->weights, b->count);
        id.weights = plan->weights;
        id.size = plan->size;
    }
    b->index = blend_index_open (c->cache, &id, err);
    return b->index ? 0 : -1;
}

/* No dataset gives more than it has. */
static int check_counts (const struct sample_blend_config *c, const struct blend_sizes *plan,
                         const struct blended *b, struct mg_error *err)
{
    int64_t *counts;
    int rc = 0;

    if (!(counts = calloc (b->count, sizeof (*counts))))
        return mg_error_set (err, ENOMEM, "out of memory");
    blend_index_count (b->index, b->count, counts);
    for (size_t i = 0; rc == 0 && i < b->count; i++) {
        if (counts[i] > plan->sizes[i])
            rc = mg_error_set (err, EINVAL,
                               "the blend takes %" PRId64 " samples of %s, "
                               "which has %" PRId64
                               " for %s; a surplus above %g would give "
                               "it more",
                               counts[i], c->blend->prefixes[i], plan->sizes[i],
                               split_part_name (c->part), c->surplus);
    }
    free (counts);
    return rc;
}

static struct blended *create_blended (const struct sample_blend_config *c,
                                       struct mg_error *err)
{
    struct blend_sizes plan = { NULL, NULL, NULL, 0 };
    struct blended *b;

    if (!(b = calloc (1, sizeof (*b)))
        || !(b->datasets = calloc (c->blend->count, sizeof (*b->datasets)))
        || !(b->requested = calloc (c->blend->count, sizeof (*b->requested)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto error;
    }
    b->count = c->blend->count;
    if (make_plan (c, &plan, b, err) < 0
        || open_datasets (c, &plan, b, err) < 0
        || make_index (c, &plan, b, err) < 0
        || check_counts (c, &plan, b, err) < 0)
        goto error;
    clear_sizes (&plan);
    return b;
error:
    clear_sizes (&plan);
    destroy (b);
    return NULL;
}

struct sample_source *sample_source_blend_create (const struct sample_blend_config *c,
                                                  struct mg_error *err)
{
    const struct gpt_identity only = identity_of (c, 0, c->num_samples);
    struct sample_source *source;

    if (c->num_samples != GPT_INDEX_ONE_EPOCH && c->num_samples < 1) {
        mg_error_set (err, ERANGE,
                      "number of samples: %" PRId64 " is out of range, want 1 "
                      "or more",
                      c->num_samples);
        return NULL;
    }
    if (c->blend->count == 1 && (!c->blend->weights || !c->split))
        return sample_source_gpt_open (c->cache, &only, err);
    if (c->blend->weights && c->num_samples == GPT_INDEX_ONE_EPOCH) {
        mg_error_set (err, EINVAL, "a blend by weights needs a number of samples");
        return NULL;
    }
    if (!(source = calloc (1, sizeof (*source)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    if (!(source->impl = create_blended (c, err))) {
        free (source);
        return NULL;
    }
    source->ops = &blend_ops;
    source->num_samples = ((struct blended *)source->impl)->index->size;
    source->seq_length = c->seq_length;
    source->max_token = -1;
    return source;
}

const struct blended *sample_source_blended (const struct sample_source *source)
{
    return source->ops == &blend_ops ? source->impl : NULL;
}
