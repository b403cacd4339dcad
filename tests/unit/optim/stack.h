/* stack - buffers, main parameters and an optimizer over some parameters, for tests. */
#ifndef TESTS_UNIT_OPTIM_STACK_H
#define TESTS_UNIT_OPTIM_STACK_H

#include "libcore/optim/optimizer.h"

struct stack_config {
    struct buffers_config buffers; /* without gradients there is no optimizer */
    struct main_params_config main;
    struct optimizer_config optimizer;
};

struct stack {
    struct buffers *buffers;
    struct main_params *main;
    struct optimizer *optimizer;
};

/* Create and bind all parts.  Bails out on failure. */
void stack_create (struct stack *s, const struct stack_config *config, const struct job *job,
                   struct mg_stream *stream, struct param *params, size_t n, int num_tensors);
void stack_destroy (struct stack *s);

/* Bytes of all parts. */
int64_t stack_bytes (const struct stack *s);

#endif /* TESTS_UNIT_OPTIM_STACK_H */
