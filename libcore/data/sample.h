/* sample - one sample: a list of fields by name, which a source fills.
 *
 * The reader makes the list, with memory for each field, and says what it wants: a name, a type
 * and a number of values.  A source fills all of them, or says which name it does not have.
 * train/input.h makes the inputs of a model (nn/inputs.h) of the fields.
 *
 * Fields of a GPT, a value for each position of the sequence:
 *
 *   tokens      int32
 *   labels      int32: the token that follows each of them
 *   loss_mask   float32: weight of the position in the loss
 */
#ifndef LIBCORE_DATA_SAMPLE_H
#define LIBCORE_DATA_SAMPLE_H

#include <stdint.h>

#include "megatron/dtype.h"
#include "megatron/error.h"

enum { SAMPLE_MAX_FIELDS = 8 };

struct sample_field {
    const char *name;
    enum mg_dtype dtype;
    int count;  /* values */
    void *data; /* [count] */
};

struct sample {
    int n;
    struct sample_field field[SAMPLE_MAX_FIELDS];
};

/* Returns the field of a name, or NULL if the list does not have it. */
const struct sample_field *sample_find (const struct sample *s, const char *name);

/* The fields of a GPT, for sources that have all three of them and no other. */
struct sample_gpt {
    int32_t *tokens, *labels;
    float *loss_mask;
};

/* Find them, all with 'count' values.  -1, EINVAL and a text if one is missing, has another type or
 * another number of values, or if the list has a field of another name; 'source' begins the text.
 */
int sample_gpt_of (const struct sample *s, const char *source, int count, struct sample_gpt *gpt,
                   struct mg_error *err);

/* The list of these three fields in the memory of a caller. */
struct sample sample_of_gpt (int32_t *tokens, int32_t *labels, float *loss_mask, int count);

#endif /* LIBCORE_DATA_SAMPLE_H */
