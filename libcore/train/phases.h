/* phases - a training whose data changes at given iterations, --phase-transition-iterations.
 *
 * A run ends at the end of a phase, and the next run continues with the first sample of
 * its own training data.  A phase is the iterations [begin, end); the batch size is the
 * same in all phases, so that the first sample of a phase follows from its first
 * iteration.
 */
#ifndef LIBCORE_TRAIN_PHASES_H
#define LIBCORE_TRAIN_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

struct phases {
    int64_t *ends; /* [count] iterations after which a phase ends, ascending */
    size_t count;  /* 0: there are no phases */
};

/* Read "10,20,30", in any order, with blanks around the numbers; NULL: no phases.  -1, EINVAL,
 * ERANGE or ENOMEM and a text.
 */
int phases_parse (const char *text, struct phases *phases, struct mg_error *err);
void phases_clear (struct phases *phases);

/* The first iteration, and the end, of the phase that follows 'done' iterations, in a
 * training of 'all' iterations. */
int64_t phases_begin (const struct phases *phases, int64_t done);
int64_t phases_end (const struct phases *phases, int64_t done, int64_t all);

/* True if a phase ends after 'done' iterations. */
bool phases_end_at (const struct phases *phases, int64_t done);

#endif /* LIBCORE_TRAIN_PHASES_H */
