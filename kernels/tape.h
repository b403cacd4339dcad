/* tape - kernel calls that are counted instead of run.
 *
 * Kernels with a tape (struct kernels) hand their calls to it.  The tape keeps the number of calls,
 * and the scratch memory of the call that needs most.
 */
#ifndef KERNELS_TAPE_H
#define KERNELS_TAPE_H

#include "kernels/kernels.h"

/* All zeros: an empty tape. */
struct kern_tape {
    size_t scratch; /* bytes, of the call that needs most */
    size_t count;   /* calls */
};

/* Count a call of 'k'.  -1 and a text if kern_scratch() refuses the call. */
int kern_tape_add (struct kern_tape *tape, const struct kernels *k, const struct kern_call *call,
                   struct mg_error *err);

#endif /* KERNELS_TAPE_H */
