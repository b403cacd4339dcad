/* timeline - the time at which each pass of a pipeline schedule runs, and a picture of
 * these times.
 *
 * A model of the schedule, not of a machine: the clock of schedule/moments.h.
 */
#ifndef CMD_PLAN_TIMELINE_H
#define CMD_PLAN_TIMELINE_H

#include "libcore/schedule/moments.h"
#include "libcore/schedule/schedule.h"
#include "megatron/error.h"

struct timeline {
    int pp, chunks, microbatches;
    int end; /* of the last pass */
    struct moments *moments;
};

/* Run a kind's passes on all ranks. NULL and a text on failure. */
struct timeline *timeline_create (const struct sched_kind *kind,
                                  const struct sched_shape *shape, struct mg_error *err);
void timeline_destroy (struct timeline *t);

/* Returns the share of the ranks' time in which they wait. */
double timeline_bubble (const struct timeline *t);

/* Draw a timeline.  captured[rank * chunks + chunk] is the part of a pass that is
 * captured into device graphs, and the picture divides every pass accordingly.  If
 * 'captured' is NULL, the picture distinguishes virtual stages instead.  0, or -1 and a
 * text.
 */
int timeline_draw (const struct timeline *t, const char *path, const char *title,
                   const double *captured, struct mg_error *err);

#endif /* CMD_PLAN_TIMELINE_H */
