/* sample.c - fields of a sample by name */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "libcore/data/sample.h"

enum { TOKENS, LABELS, LOSS_MASK, NUM_GPT };

static const struct {
    const char *name;
    enum mg_dtype dtype;
} gpt_fields[NUM_GPT] = {
    [TOKENS] = { "tokens", MG_INT32 },
    [LABELS] = { "labels", MG_INT32 },
    [LOSS_MASK] = { "loss_mask", MG_FLOAT32 },
};

const struct sample_field *sample_find (const struct sample *s, const char *name)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp (s->field[i].name, name) == 0)
            return &s->field[i];
    }
    return NULL;
}

int sample_gpt_of (const struct sample *s, const char *source, int count, struct sample_gpt *gpt,
                   struct mg_error *err)
{
    void *data[NUM_GPT];

    for (int i = 0; i < NUM_GPT; i++) {
        const struct sample_field *f = sample_find (s, gpt_fields[i].name);

        if (!f || f->dtype != gpt_fields[i].dtype || f->count != count)
            return mg_error_set (err, EINVAL, "%s: a sample has %d values %s of type %s, which "
                                 "nobody reads", source, count, gpt_fields[i].name,
                                 mg_dtype_name (gpt_fields[i].dtype));
        data[i] = f->data;
    }
    if (s->n != NUM_GPT) {
        for (int i = 0; i < s->n; i++) {
            const char *name = s->field[i].name;

            if (strcmp (name, "tokens") != 0 && strcmp (name, "labels") != 0
                && strcmp (name, "loss_mask") != 0)
                return mg_error_set (err, EINVAL, "%s: samples have no %s", source, name);
        }
    }
    *gpt = (struct sample_gpt){ data[TOKENS], data[LABELS], data[LOSS_MASK] };
    return 0;
}

struct sample sample_of_gpt (int32_t *tokens, int32_t *labels, float *loss_mask, int count)
{
    void *const data[NUM_GPT] = { tokens, labels, loss_mask };
    struct sample s = { .n = NUM_GPT };

    for (int i = 0; i < NUM_GPT; i++)
        s.field[i] = (struct sample_field){ gpt_fields[i].name, gpt_fields[i].dtype, count,
                                            data[i] };
    return s;
}
