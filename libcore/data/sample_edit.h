/* sample_edit - a source whose samples are the changed samples of another source.
 *
 * The changes are made in this order: fill-in-the-middle (fim.h), whose padding gets the weight 0
 * in the loss; then the loss weight 0 for positions whose input ends a document (documents.h).
 */
#ifndef LIBCORE_DATA_SAMPLE_EDIT_H
#define LIBCORE_DATA_SAMPLE_EDIT_H

#include <stdbool.h>

#include "libcore/data/fim.h"
#include "libcore/data/sample_source.h"

struct sample_edit {
    bool mask_eod; /* --eod-mask-loss */
    int32_t eod;   /* the token that mask_eod uses */
    const struct fim_config *fim;   /* NULL: none; needed only during the call */
    struct tokenizer *tokenizer;    /* the tokenizer for fim; NULL: none */
};

/* Make a source of changed samples.  It owns 'source' and 'edit->tokenizer' from the call
 * on, also if the call fails.  With fim, the labels of 'source' must be its tokens
 * shifted by one.  NULL with errno ENOMEM. The caller owns the result. */
struct sample_source *sample_source_edit_create (struct sample_source *source,
                                                 const struct sample_edit *edit,
                                                 struct mg_error *err);

#endif /* LIBCORE_DATA_SAMPLE_EDIT_H */
