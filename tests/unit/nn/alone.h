/* alone - a model and its optimizer in one process, for tests. */
#ifndef TESTS_UNIT_NN_ALONE_H
#define TESTS_UNIT_NN_ALONE_H

#include "libcore/model/model.h"
#include "tests/unit/optim/stack.h"

struct alone {
    struct job *job; /* NULL: the caller's */
    struct model *model;
    struct stack stack;
    struct param *params; /* [n] */
    size_t n;
};

/* One thread, one slot, initial parameters, float32 gradients.  Bails out on failure. */
void alone_create (struct alone *a, const struct model_spec *spec);

/* The same in a job of the caller, which may have several ranks. */
void alone_create_in (struct alone *a, struct job *job, const struct model_spec *spec);
void alone_destroy (struct alone *a);

/* What the output layer has written: [position][sample][padded vocabulary].  Lives as long as the
 * model.  alone_logits_tensor() is the tensor.
 */
const float *alone_logits (const struct alone *a);
const struct tensor *alone_logits_tensor (const struct alone *a);

#endif /* TESTS_UNIT_NN_ALONE_H */
