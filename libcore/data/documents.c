/* documents - where documents begin inside a sample */

#include <stddef.h>

#include "libcore/data/documents.h"

void documents_find (const int32_t *tokens, int n, int32_t eod, int32_t *starts,
                     int32_t *positions)
{
    int32_t start = 0;

    for (int32_t i = 0; i < n; i++) {
        if (starts)
            starts[i] = start;
        if (positions)
            positions[i] = i - start;
        if (eod >= 0 && tokens[i] == eod)
            start = i + 1;
    }
}

void documents_mask_loss (const int32_t *tokens, int n, int32_t eod, float *loss_mask)
{
    for (int i = 0; i < n; i++) {
        if (tokens[i] == eod)
            loss_mask[i] = 0.f;
    }
}
