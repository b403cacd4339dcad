/* train_build - make the parts of a run that compute from their configurations: the
 * model, its passes, buffers, main parameters and optimizer.
 */
#ifndef LIBCORE_TRAIN_TRAIN_BUILD_H
#define LIBCORE_TRAIN_TRAIN_BUILD_H

#include <stdint.h>

#include "libcore/train/config.h"
#include "libcore/train/memory.h"
#include "libcore/train/passes.h"
#include "megatron/error.h"

struct train_parts {
    struct model *model;
    struct passes *passes;
    struct buffers *buffers;
    struct main_params *main;
    struct optimizer *optimizer; /* NULL: a run that only evaluates */
};

/* Make the parts, which allocate nothing large, and fill in the bytes that train_bind() will
 * allocate.  'evaluation': microbatches of an evaluation, 0 if there are none.  The job and the
 * batches outlive the parts.  -1 and a text on failure; parts that were made stay until
 * train_parts_destroy().
 */
int train_build (struct train_parts *p, const struct run_config *c, const struct job *job,
                 const struct num_microbatches *batches, int64_t evaluation,
                 struct memory_plan *memory, struct mg_error *err);

/* Allocate the memory of all parts.  Parameters have no values yet. */
int train_bind (struct train_parts *p, struct mg_error *err);
void train_parts_destroy (struct train_parts *p);

/* Returns changes by which the run would need less memory. */
struct memory_advice train_advice (const struct run_config *c, const struct job *job);

#endif /* LIBCORE_TRAIN_TRAIN_BUILD_H */
