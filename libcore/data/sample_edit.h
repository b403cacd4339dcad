/* sample_edit - samples of another source, changed on their way.
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
    int32_t eod;   /* of mask_eod */
    const struct fim_config *fim;   /* NULL: none; lent for the call */
    struct tokenizer *tokenizer;    /* of fim; NULL: none */
};

/* Take over 'source' and 'edit->tokenizer', also on failure, and return what yields the changed
 * samples.  The source must be one whose labels are its tokens moved by one, if there is fim.
 * NULL with errno ENOMEM. The caller owns the result. */
struct sample_source *sample_source_edit_create (struct sample_source *source,
                                                 const struct sample_edit *edit,
                                                 struct mg_error *err);

#endif /* LIBCORE_DATA_SAMPLE_EDIT_H */
