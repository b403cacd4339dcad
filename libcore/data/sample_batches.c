/* sample_batches - samples of a safetensors file of ready batches
 *
 * The file stays mapped.  All of it is checked once, so that a sample is a copy of each field.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/safetensors.h"
#include "libcore/data/sample_source.h"

enum { TOKENS, LABELS, LOSS_MASK, NUM_TENSORS };

static const char *const tensor_names[NUM_TENSORS] = {
    [TOKENS] = "tokens",
    [LABELS] = "labels",
    [LOSS_MASK] = "loss_mask",
};

struct batches {
    struct safetensors *file;
    const struct safetensors_entry *tensor[NUM_TENSORS];
    int64_t num_batches;
    int64_t global_batch;
    int64_t seq_length;
};

/* Element 'i' of an I32 or I64 tensor; its data may start at any byte. */
static int64_t id_at (const struct safetensors_entry *t, int64_t i)
{
    const char *from = t->data;
    int32_t id32;
    int64_t id64;

    if (t->dtype == MG_INT32) {
        memcpy (&id32, from + i * sizeof (id32), sizeof (id32));
        return id32;
    }
    memcpy (&id64, from + i * sizeof (id64), sizeof (id64));
    return id64;
}

static float weight_at (const struct safetensors_entry *t, int64_t i)
{
    float weight;

    memcpy (&weight, (const char *)t->data + i * sizeof (weight), sizeof (weight));
    return weight;
}

static int check_dtype (const struct batches *b, int which, struct mg_error *err)
{
    const struct safetensors_entry *t = b->tensor[which];
    bool good = which == LOSS_MASK ? t->dtype == MG_FLOAT32
                                   : t->dtype == MG_INT32 || t->dtype == MG_INT64;

    if (good)
        return 0;
    return mg_error_set (err, EINVAL, "%s: tensor %s is %s, want %s",
                         safetensors_path (b->file), t->name, mg_dtype_name (t->dtype),
                         which == LOSS_MASK ? "float32" : "int32 or int64");
}

/* [batches, G, S], the same for all three, none of them 0. */
static int check_shape (struct batches *b, int which, struct mg_error *err)
{
    const struct safetensors_entry *t = b->tensor[which];
    const int64_t *first = b->tensor[TOKENS]->shape;

    if (t->ndims != 3)
        return mg_error_set (err, EINVAL,
                             "%s: tensor %s has %d dimensions, want 3 (batches, global "
                             "batch, sequence)", safetensors_path (b->file), t->name,
                             t->ndims);
    for (int i = 0; i < 3; i++) {
        if (t->shape[i] < 1 || t->shape[i] > INT_MAX || t->shape[i] != first[i])
            return mg_error_set (err, EINVAL,
                                 "%s: dimension %d of tensor %s is %" PRId64 ", want 1 "
                                 "to %d and that of tokens, %" PRId64,
                                 safetensors_path (b->file), i, t->name, t->shape[i],
                                 INT_MAX, first[i]);
    }
    return 0;
}

static int find_tensors (struct batches *b, struct mg_error *err)
{
    for (int i = 0; i < NUM_TENSORS; i++) {
        b->tensor[i] = safetensors_find (b->file, tensor_names[i]);
        if (!b->tensor[i])
            return mg_error_set (err, EINVAL, "%s: no tensor %s, want %s, %s and %s",
                                 safetensors_path (b->file), tensor_names[i],
                                 tensor_names[TOKENS], tensor_names[LABELS],
                                 tensor_names[LOSS_MASK]);
        if (check_dtype (b, i, err) < 0 || check_shape (b, i, err) < 0)
            return -1;
    }
    b->num_batches = b->tensor[TOKENS]->shape[0];
    b->global_batch = b->tensor[TOKENS]->shape[1];
    b->seq_length = b->tensor[TOKENS]->shape[2];
    return 0;
}

static int bad_value (const struct batches *b, int which, int64_t i, double value,
                      const char *want, struct mg_error *err)
{
    const int64_t row = i / b->seq_length;

    return mg_error_set (err, EINVAL,
                         "%s: %s[%" PRId64 ", %" PRId64 ", %" PRId64 "] is %.17g, want "
                         "%s", safetensors_path (b->file), tensor_names[which],
                         row / b->global_batch, row % b->global_batch, i % b->seq_length,
                         value, want);
}

/* Check every value once.  *max_token becomes the largest id. */
static int check_values (const struct batches *b, int32_t *max_token,
                         struct mg_error *err)
{
    const int64_t n = b->num_batches * b->global_batch * b->seq_length;

    *max_token = 0;
    for (int64_t i = 0; i < n; i++) {
        float weight = weight_at (b->tensor[LOSS_MASK], i);

        for (int which = TOKENS; which <= LABELS; which++) {
            int64_t id = id_at (b->tensor[which], i);

            if (id < 0 || id > INT32_MAX)
                return bad_value (b, which, i, id, "0 to 2147483647", err);
            if (id > *max_token)
                *max_token = id;
        }
        if (!isfinite (weight) || weight < 0.f)
            return bad_value (b, LOSS_MASK, i, weight, "0 or more", err);
    }
    return 0;
}

/* From the tensor of the field's name, from its element 'first' on. */
static int fill_field (const struct batches *b, const struct sample_field *f, int64_t first,
                       struct mg_error *err)
{
    int which = 0;

    while (which < NUM_TENSORS && strcmp (tensor_names[which], f->name) != 0)
        which++;
    if (which == NUM_TENSORS || f->count != b->seq_length
        || f->dtype != (which == LOSS_MASK ? MG_FLOAT32 : MG_INT32))
        return mg_error_set (err, EINVAL, "%s: samples have no %d values %s of type %s",
                             safetensors_path (b->file), f->count, f->name,
                             mg_dtype_name (f->dtype));
    for (int i = 0; i < f->count; i++) {
        if (which == LOSS_MASK)
            ((float *)f->data)[i] = weight_at (b->tensor[which], first + i);
        else
            ((int32_t *)f->data)[i] = (int32_t)id_at (b->tensor[which], first + i);
    }
    return 0;
}

static int sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    const struct batches *b = impl;
    int64_t first;

    if (index < 0)
        return mg_error_set (err, ERANGE, "%s: no sample %" PRId64 ", want 0 or more",
                             safetensors_path (b->file), index);
    first = index % (b->num_batches * b->global_batch) * b->seq_length;
    for (int k = 0; k < to->n; k++) {
        if (fill_field (b, &to->field[k], first, err) < 0)
            return -1;
    }
    return 0;
}

static void destroy (void *impl)
{
    struct batches *b = impl;

    if (b) {
        safetensors_close (b->file);
        free (b);
    }
}

static const struct sample_source_ops batches_ops = {
    .name = "batches",
    .sample = sample,
    .destroy = destroy,
};

struct sample_source *sample_source_batches_create (const char *file,
                                                    struct mg_error *err)
{
    struct sample_source *source = NULL;
    struct batches *b;

    if (!(b = calloc (1, sizeof (*b)))
        || !(source = calloc (1, sizeof (*source)))) {
        mg_error_set (err, ENOMEM, "batches: out of memory");
        goto error;
    }
    if (!(b->file = safetensors_open (file, err)))
        goto error;
    if (find_tensors (b, err) < 0
        || check_values (b, &source->max_token, err) < 0)
        goto error;
    source->ops = &batches_ops;
    source->impl = b;
    source->num_samples = INT64_MAX;
    source->seq_length = (int)b->seq_length;
    return source;
error:
    destroy (b);
    free (source);
    return NULL;
}

int64_t sample_source_global_batch (const struct sample_source *source)
{
    const struct batches *b = source->impl;

    return source->ops == &batches_ops ? b->global_batch : 0;
}
