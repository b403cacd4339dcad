/* report - what a run says while it goes: iteration lines, timers, memory, metrics. */
#ifndef LIBCORE_TRAIN_REPORT_H
#define LIBCORE_TRAIN_REPORT_H

#include <stdint.h>

#include "libcore/train/config.h"
#include "libcore/train/metrics.h"
#include "libcore/train/timers.h"
#include "megatron/error.h"

struct train;

/* What is kept for it. All zero before report_create(). */
struct report {
    double flops; /* floating-point operations of training on a sequence */
    struct timers timers;
    enum timers_option option;
    double *gathered; /* [world][REPORT_MAX] */
    /* since the last log line */
    int64_t iterations, samples, not_finite, skipped;
    double milliseconds, loss; /* sums */
};

/* Do the arguments go together?  -1, EINVAL and a text if not. */
int report_check (const struct train_args *args, struct mg_error *err);

/* Allocate, and let the timers run; the model exists. */
int report_create (struct train *t, struct mg_error *err);
void report_clear (struct report *r);

/* After an iteration, of which m tells all but rates and means: the log line if it is due
 * (every --log-interval iterations, and after the first of the run), with timers and
 * memory, and the metrics. Collective.
 */
int report_iteration (struct train *t, struct metrics *m, struct mg_error *err);

/* After a checkpoint, with --timing-log-level: lines of the milliseconds for which it kept each
 * rank from going on.  Collective.
 */
int report_save (struct train *t, double milliseconds, struct mg_error *err);

/* Lines of what ranks have planned to allocate, by kind, and have allocated, in bytes, and
 * what a parameter takes: two for neighbours that are alike, 16 times at most.  Collective.
 */
int report_plan (struct train *t, struct mg_error *err);

/* Returns the resident set of this process in bytes, or 0 where the system does not say.  The
 * function allocates nothing.
 */
double report_resident (void);

/* A line of the memory of all ranks; 'when' tells of which moment. Collective. */
int report_memory (struct train *t, const char *when, struct mg_error *err);

#endif /* LIBCORE_TRAIN_REPORT_H */
