/* locate - find out where in a step the first NaN or infinity came up. */
#ifndef LIBCORE_TRAIN_LOCATE_H
#define LIBCORE_TRAIN_LOCATE_H

#include "libcore/train/train_private.h"

/* Take the passes of the step once more, with the parameters that it began with, looking
 * at all tensors (nn/check.h), and put what is found, on whichever rank, behind the text
 * in 'err'.  Collective; the same text on every rank.  -1 if that itself has failed: then
 * the text says so.  What gradients there were is lost.
 */
int locate (struct train *t, struct mg_error *err);

#endif /* LIBCORE_TRAIN_LOCATE_H */
