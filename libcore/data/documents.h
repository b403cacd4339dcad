/* documents - where documents begin inside a sample.
 *
 * A sample of a GPT dataset is a part of a row of documents.  The token that ends a
 * document belongs to that document; the next document begins after this token.  The
 * sample's first position always begins a document, too.  (Megatron-LM's
 * _get_ltor_masks_and_position_ids.)
 */
#ifndef LIBCORE_DATA_DOCUMENTS_H
#define LIBCORE_DATA_DOCUMENTS_H

#include <stdint.h>

/* For each position i of 'n' input tokens: starts[i] is the first position of its document, and
 * positions[i] = i - starts[i] is its position inside that document, the position id of
 * --reset-position-ids.  With --reset-attention-mask, position i attends to starts[i] .. i.
 * 'starts' or 'positions' may be NULL.  'eod' -1: there is one document. */
void documents_find (const int32_t *tokens, int n, int32_t eod, int32_t *starts,
                     int32_t *positions);

/* Set the loss weight of every position whose input token is 'eod' to 0
 * (--eod-mask-loss): the next document cannot be predicted from the end of a document.
 * The prediction of 'eod' itself keeps its weight. */
void documents_mask_loss (const int32_t *tokens, int n, int32_t eod, float *loss_mask);

#endif /* LIBCORE_DATA_DOCUMENTS_H */
