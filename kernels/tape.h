/* tape - kernel calls that are taken down instead of run.
 *
 * Kernels with a tape (struct kernels) hand it their calls.  The tape notes the most scratch
 * memory that one of them takes; if it keeps calls, it copies their arguments, so that they can
 * be replayed in order as often as wanted.  What arguments point to is not copied: it must be
 * the same at the replay.  Collectives and events are no kernel calls, so no tape has them.
 */
#ifndef KERNELS_TAPE_H
#define KERNELS_TAPE_H

#include "kernels/kernels.h"

/* An empty tape; 'keep': it keeps its calls. NULL and a text when memory is short. */
struct kern_tape *kern_tape_create (bool keep, struct mg_error *err);

/* NULL is allowed. Keeps errno. */
void kern_tape_destroy (struct kern_tape *tape);

/* Take down a call of 'k'. -1 and a text if the call is wrong (kern_scratch()), or memory is
 * short.
 */
int kern_tape_take (struct kern_tape *tape, const struct kernels *k,
                    const struct kern_call *call, struct mg_error *err);

/* Bytes of scratch memory of the call that takes most, and calls so far. */
size_t kern_tape_scratch (const struct kern_tape *tape);
size_t kern_tape_count (const struct kern_tape *tape);

/* Call 'i' of a tape that keeps its calls; valid until the next one is taken down. */
struct kern_call kern_tape_get (const struct kern_tape *tape, size_t i);

/* Run the calls of a tape that keeps them, in order, on the streams that they were made for.  'k'
 * has no tape. Stops at the first that fails.
 */
int kern_tape_replay (const struct kern_tape *tape, const struct kernels *k,
                      struct mg_error *err);

#endif /* KERNELS_TAPE_H */
