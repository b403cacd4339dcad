/* sched_1f1b.c - one forward, one backward
 *
 * A rank that is 'pp - rank - 1' stages before the last makes so many forward passes
 * first (warm-up), then alternates (steady), then makes the backward passes that are left
 * (cool-down).  So at most pp - rank microbatches are in flight, whatever their number:
 * PipeDream-Flush, section 2.2 of Narayanan et al., "Efficient Large-Scale Language Model
 * Training on GPU Clusters Using Megatron-LM" (2021).
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/schedule/schedule.h"

static int warmup_1f1b (const struct sched_kind *kind, const struct sched_shape *shape)
{
    int warmup = shape->pp - shape->rank - 1;

    (void)kind;
    if (shape->forward_only || warmup > shape->microbatches)
        return shape->microbatches;
    return warmup;
}

static struct sched_pass *order_1f1b (const struct sched_kind *kind,
                                      const struct sched_shape *shape, size_t *n,
                                      struct mg_error *err)
{
    int count = shape->microbatches;
    int warmup = warmup_1f1b (kind, shape);
    size_t npasses = (size_t)count * (shape->forward_only ? 1 : 2);
    struct sched_pass *pass, *p;

    if (!(pass = calloc (npasses, sizeof (*pass)))) {
        mg_error_set (err, ENOMEM, "schedule 1f1b: out of memory for %zu passes",
                      npasses);
        return NULL;
    }
    p = pass;
    for (int i = 0; i < warmup; i++)
        *p++ = (struct sched_pass){ .microbatch = i };
    for (int i = warmup; i < count; i++) {
        *p++ = (struct sched_pass){ .microbatch = i };
        *p++ = (struct sched_pass){ .microbatch = i - warmup, .backward = true };
    }
    for (int i = count - warmup; i < count && !shape->forward_only; i++)
        *p++ = (struct sched_pass){ .microbatch = i, .backward = true };
    *n = npasses;
    return pass;
}

const struct sched_kind sched_1f1b = {
    .name = "1f1b",
    .chunks = 1,
    .warmup = warmup_1f1b,
    .order = order_1f1b,
};
