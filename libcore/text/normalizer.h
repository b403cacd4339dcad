/* normalizer - the changes that tokenizer.json makes to a text before the text is cut
 * into words
 *
 * The kinds NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Prepend, Replace, Strip and
 * Sequence.  Immutable: may be used by many threads, each with a scratch of its own.
 */
#ifndef LIBCORE_TEXT_NORMALIZER_H
#define LIBCORE_TEXT_NORMALIZER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "libcore/text/json_place.h"
#include "libcore/text/regex.h"
#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

struct normalizer; /* opaque */

/* Make a normalizer of the value at 'place'.  A value that is NULL or null makes no
 * changes.  NULL with errno EINVAL (a fault, or something that is not supported; the text
 * has its path), ENOTSUP (the normalizer needs a library that this build lacks), ENOMEM.
 * The caller owns the result. */
struct normalizer *normalizer_create (const struct json_place *place, const json_t *value,
                                      struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void normalizer_destroy (struct normalizer *normalizer);

/* A text of valid characters, in which strays are written as in utf8.h. */
struct normal_text {
    const char *data;
    size_t size;
    bool first;  /* the text begins the document */
    size_t head; /* bytes at the beginning that the tokenizers library aligns with the
                  * document's first character; 0 if the text is not the first one, or if
                  * this character was removed */
};

/* Normalise a text.  '*result' is the text itself or lies in one of the two buffers, until the
 * next call.  -1 with errno ENOMEM, EIO (regex.h), EFBIG (the text grows beyond growth_max()). */
int normalizer_run (const struct normalizer *normalizer, struct regex_scratch *scratch,
                    struct text_buffer buffers[2], const struct normal_text *text,
                    struct normal_text *result, struct mg_error *err);

#endif /* LIBCORE_TEXT_NORMALIZER_H */
