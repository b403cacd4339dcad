/* mock - the made-up documents of Megatron-LM's --mock-data (MockGPTLowLevelDataset).
 *
 * There are 100,000 documents.  Their lengths, 1 to 4095 tokens, are those that NumPy's
 * default_rng (0) draws with integers (1, 4096): the generator PCG64 (XSL RR 128/64) of M. E.
 * O'Neill, and bounded numbers by D. Lemire, ACM TOMACS 29 (2019) 3.  Token i of a document is
 * (i + 1) modulo the size of the vocabulary; the last one ends the document.
 */
#ifndef LIBCORE_DATA_MOCK_H
#define LIBCORE_DATA_MOCK_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum { MOCK_DOCUMENTS = 100000, MOCK_LONGEST = 4095 };

struct mock {
    int32_t vocab_size; /* 1 or more */
    int32_t eod;
    int32_t *lengths;   /* [MOCK_DOCUMENTS] */
};

/* NULL with errno ENOMEM.  The caller owns the result. */
struct mock *mock_create (int32_t vocab_size, int32_t eod, struct mg_error *err);
void mock_destroy (struct mock *mock);

/* Write tokens [offset, offset + n) of a document, which must be in it, to 'out'. */
void mock_get (const struct mock *mock, size_t document, size_t offset, size_t n, int32_t *out);

#endif /* LIBCORE_DATA_MOCK_H */
