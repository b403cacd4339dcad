/* tape - kernel calls that are counted instead of run.
 *
 * Kernels with a tape (struct kernels) hand their calls to it.  The tape keeps the number of calls,
 * and for each stream the scratch memory of the call that needs most.
 */
#ifndef KERNELS_TAPE_H
#define KERNELS_TAPE_H

#include "kernels/kernels.h"

/* All zeros: an empty tape. */
struct kern_tape {
    struct {
        const struct mg_stream *stream;
        size_t bytes;
    } scratch[KERN_SCRATCH_STREAMS]; /* of streams with calls that need some */
    int num_streams;
    size_t count; /* calls */
};

/* The scratch memory of the call on 'stream' that needs most. */
size_t kern_tape_scratch (const struct kern_tape *tape, const struct mg_stream *stream);

/* Count a call of 'k'.  -1 and a text if kern_scratch() refuses the call, or if calls on more than
 * KERN_SCRATCH_STREAMS streams need scratch memory.
 */
int kern_tape_add (struct kern_tape *tape, const struct kernels *k, const struct kern_call *call,
                   struct mg_error *err);

#endif /* KERNELS_TAPE_H */
