/* tape - kernel calls that are recorded instead of run.
 *
 * Kernels with a tape (struct kernels) hand their calls to the tape.  The tape records the
 * scratch memory of the call that needs most.  A tape that keeps calls also copies their
 * arguments, and can replay them in order as often as wanted.  It copies no memory that an
 * argument points to: the pointers must still be valid at the replay.  Collectives and events are
 * not kernel calls, so a tape never has them.
 */
#ifndef KERNELS_TAPE_H
#define KERNELS_TAPE_H

#include "kernels/kernels.h"

/* Returns an empty tape; if 'keep' is set, it keeps its calls.  NULL and a text if there is no
 * memory.
 */
struct kern_tape *kern_tape_create (bool keep, struct mg_error *err);

/* NULL is allowed. Keeps errno. */
void kern_tape_destroy (struct kern_tape *tape);

/* Record a call of 'k'.  -1 and a text if kern_scratch() refuses the call, or if there is no
 * memory.
 */
int kern_tape_take (struct kern_tape *tape, const struct kernels *k,
                    const struct kern_call *call, struct mg_error *err);

/* The scratch memory, in bytes, of the call that needs most; the number of calls so far. */
size_t kern_tape_scratch (const struct kern_tape *tape);
size_t kern_tape_count (const struct kern_tape *tape);

/* Call 'i' of a tape that keeps its calls; valid until the next call is recorded. */
struct kern_call kern_tape_get (const struct kern_tape *tape, size_t i);

/* Run the calls of a tape that keeps them, in order, on their streams.  'k' has no tape.  Stops at
 * the first call that fails.
 */
int kern_tape_replay (const struct kern_tape *tape, const struct kernels *k,
                      struct mg_error *err);

#endif /* KERNELS_TAPE_H */
