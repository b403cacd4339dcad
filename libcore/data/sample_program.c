/* sample_program.c - samples that a program makes
 *
 * A sample is bad if the program's function fills too few or too many values, fills the wrong
 * field, or ignores the result of sample_fill().
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/sample_program.h"

static const char mask_name[] = "loss_mask";

static int check_fill (const struct sample_filling *f, int i, enum mg_dtype dtype,
                       const void *values, int64_t count, struct mg_error *err)
{
    const struct sample_field *field = &f->to->field[i];

    if (dtype != field->dtype)
        return mg_error_set (err, EINVAL, "%s: values of type %s, want %s", field->name,
                             mg_dtype_name (dtype), mg_dtype_name (field->dtype));
    if (!values || count < 1 || count > field->count)
        return mg_error_set (err, EINVAL, "%s: %" PRId64 " values%s, want 1 to %d, the length of "
                             "a sequence", field->name, count, values ? "" : " at NULL",
                             field->count);
    if (f->count[i] >= 0)
        return mg_error_set (err, EINVAL, "%s is filled twice", field->name);
    for (int64_t k = 0; dtype == MG_FLOAT32 && k < count; k++) {
        float weight = ((const float *)values)[k];

        if (!isfinite (weight) || weight < 0)
            return mg_error_set (err, EINVAL, "%s: value %" PRId64 " is %g, want 0 or more",
                                 field->name, k, (double)weight);
    }
    return 0;
}

static int fill (struct sample_filling *f, const char *name, enum mg_dtype dtype,
                 const void *values, int64_t count, struct mg_error *err)
{
    const struct sample_field *field = name ? sample_find (f->to, name) : NULL;
    int i = field ? (int)(field - f->to->field) : 0;

    if (!field)
        return mg_error_set (err, EINVAL, "a sample has no %s, want tokens, labels or loss_mask",
                             name ? name : "name");
    if (check_fill (f, i, dtype, values, count, err) < 0)
        return -1;
    memcpy (field->data, values, (size_t)count * mg_dtype_size (dtype));
    f->count[i] = (int)count;
    return 0;
}

int sample_fill (struct sample_filling *f, const char *name, enum mg_dtype dtype,
                 const void *values, int64_t count, struct mg_error *err)
{
    struct mg_error why;

    if (fill (f, name, dtype, values, count, &why) == 0)
        return 0;
    if (f->error == 0) {
        f->error = errno;
        f->why = why;
    }
    return mg_error_set (err, errno, "sample %" PRId64 ": %s", f->index, why.text);
}

/* Weights that the program has left out: 1 for each of the first 'count' positions. */
static void fill_weights (struct sample_filling *f, int i, int count)
{
    float *weight = f->to->field[i].data;

    for (int k = 0; k < count; k++)
        weight[k] = 1.f;
    f->count[i] = count;
}

/* Check that every field is filled, with as many values as the first one. */
static int check_filled (struct sample_filling *f, struct mg_error *err)
{
    const struct sample_field *field = f->to->field;

    for (int i = 0; i < f->to->n; i++) {
        if (f->count[i] < 0 && i > 0 && strcmp (field[i].name, mask_name) == 0)
            fill_weights (f, i, f->count[0]);
        if (f->count[i] < 0)
            return mg_error_set (err, EINVAL, "%s are not filled", field[i].name);
        if (f->count[i] != f->count[0])
            return mg_error_set (err, EINVAL, "%d values %s, but %d values %s, want as many",
                                 f->count[i], field[i].name, f->count[0], field[0].name);
    }
    return 0;
}

static int make (const struct sample_program *p, struct sample_filling *f, struct mg_error *err)
{
    int rc;

    errno = 0;
    err->text[0] = '\0';
    rc = p->fill (p->arg, f->index, f, err);
    if (f->error != 0)
        return mg_error_set (err, f->error, "%s", f->why.text);
    if (rc < 0 && err->text[0] == '\0')
        return mg_error_set (err, EINVAL, "the program cannot make it");
    if (rc < 0)
        return mg_error_set (err, errno ? errno : EINVAL, "%s", err->text);
    return check_filled (f, err);
}

static int sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    const struct sample_program *p = impl;
    struct sample_filling f = { .to = to, .index = index };
    struct mg_error why;

    if (index < 0 || index >= p->num_samples)
        return mg_error_set (err, ERANGE, "no sample %" PRId64 " of the program's, want 0 to %"
                             PRId64, index, p->num_samples - 1);
    for (int i = 0; i < to->n; i++) {
        f.count[i] = -1;
        memset (to->field[i].data, 0, (size_t)to->field[i].count
                                          * mg_dtype_size (to->field[i].dtype));
    }
    if (make (p, &f, &why) < 0)
        return mg_error_set (err, errno, "sample %" PRId64 " of the program's: %s", index,
                             why.text);
    return 0;
}

static const struct sample_source_ops program_ops = {
    .name = "program",
    .sample = sample,
};

struct sample_source *sample_source_program_create (const struct sample_program *program,
                                                    int seq_length, struct mg_error *err)
{
    struct sample_source *source = calloc (1, sizeof (*source));

    if (!source) {
        mg_error_set (err, ENOMEM, "samples: out of memory");
        return NULL;
    }
    *source = (struct sample_source){ .ops = &program_ops, .impl = (void *)program,
                                      .num_samples = program->num_samples,
                                      .seq_length = seq_length, .max_token = -1 };
    return source;
}
