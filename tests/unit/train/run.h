/* run - the parts of a run of one rank, for tests of what uses them. */
#ifndef TESTS_UNIT_TRAIN_RUN_H
#define TESTS_UNIT_TRAIN_RUN_H

#include <stdio.h>

#include "libcore/train/config.h"
#include "libcore/train/train_build.h"

struct run {
    struct train_args args;
    struct run_config config;
    struct job *job;
    struct num_microbatches *batches;
    struct train_parts parts;
    struct memory_plan memory;
    struct state *state;
    struct train_progress progress;
    struct accord accord;
    struct report report;
    FILE *out; /* what the run logs */
};

/* Make the parts of a tiny model with more arguments, "--name=value" and NULL at the end, which
 * have to stay.  Bails out on failure.
 */
void run_create (struct run *r, const char *const *more);
void run_destroy (struct run *r);

/* What has been logged since the last call: good until the next one. */
const char *run_log (struct run *r);

#endif /* TESTS_UNIT_TRAIN_RUN_H */
