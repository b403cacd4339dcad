/* read_sample - a sample of a GPT into arrays. */
#ifndef TESTS_UNIT_DATA_READ_SAMPLE_H
#define TESTS_UNIT_DATA_READ_SAMPLE_H

#include "libcore/data/sample_source.h"

static inline int read_sample (const struct sample_source *source, int64_t index, int32_t *tokens,
                               int32_t *labels, float *loss_mask, struct mg_error *err)
{
    const struct sample s = sample_of_gpt (tokens, labels, loss_mask, source->seq_length);

    return source->ops->sample (source->impl, index, &s, err);
}

#endif /* TESTS_UNIT_DATA_READ_SAMPLE_H */
