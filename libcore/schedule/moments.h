/* moments - when the passes of all ranks of a pipeline run, on a common clock.
 *
 * Each pass starts as early as possible: when the pass before it on its rank has ended, and the
 * pass that makes its input.  The input of a forward pass comes from the stage before; that of
 * a backward pass from the stage after, or, on the model's last stage, from its own forward pass.
 * Transfers take no time.  Chunk c of rank r is stage c * pp + r.
 */
#ifndef LIBCORE_SCHEDULE_MOMENTS_H
#define LIBCORE_SCHEDULE_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/schedule/schedule.h"
#include "megatron/error.h"

/* Units of the clock that a pass takes: a backward pass has twice the operations of a forward
 * pass.
 */
enum { MOMENTS_FORWARD = 1, MOMENTS_BACKWARD = 2 };

struct moments;

/* Run the passes of all ranks; shape->rank is not used.  NULL and a text on failure: EDEADLK if
 * ranks wait for each other, EINVAL if a pass is out of range.
 */
struct moments *moments_create (const struct sched_kind *kind, const struct sched_shape *shape,
                                struct mg_error *err);
void moments_destroy (struct moments *m);

/* The passes of a rank in their order, *n of them.  The array lives as long as 'm'. */
const struct sched_pass *moments_passes (const struct moments *m, int rank, size_t *n);

/* The begin and the end of a pass, from 0 on. */
int moments_begin (const struct moments *m, int stage, int microbatch, bool backward);
int moments_end (const struct moments *m, int stage, int microbatch, bool backward);

/* The end of the last pass. */
int moments_last (const struct moments *m);

#endif /* LIBCORE_SCHEDULE_MOMENTS_H */
