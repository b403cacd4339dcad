/* stack.c - buffers, main parameters and an optimizer over some parameters, for tests */

#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

static void describe (struct stack *s, const struct stack_config *config, const struct job *job,
                      struct mg_stream *stream, struct param *params, size_t n, int num_tensors)
{
    struct mg_error err = { "" };

    *s = (struct stack){ .buffers = NULL };
    if (!(s->buffers = buffers_create (&config->buffers, job, stream, params, n, num_tensors,
                                       &err))
        || !(s->main = main_params_create (&config->main, s->buffers, &err)))
        bail_out ("%s", err.text);
    if (!config->buffers.no_grads
        && !(s->optimizer = optimizer_create (&config->optimizer, s->buffers, s->main, &err)))
        bail_out ("%s", err.text);
}

void stack_create (struct stack *s, const struct stack_config *config, const struct job *job,
                   struct mg_stream *stream, struct param *params, size_t n, int num_tensors)
{
    struct mg_error err = { "" };

    describe (s, config, job, stream, params, n, num_tensors);
    if (buffers_bind (s->buffers, &err) < 0 || main_params_bind (s->main, &err) < 0
        || (s->optimizer && optimizer_bind (s->optimizer, &err) < 0))
        bail_out ("%s", err.text);
}

void stack_destroy (struct stack *s)
{
    optimizer_destroy (s->optimizer);
    main_params_destroy (s->main);
    buffers_destroy (s->buffers);
}

int64_t stack_bytes (const struct stack *s)
{
    int64_t bytes = buffers_bytes (s->buffers, BUFFERS_PARAMS)
                    + buffers_bytes (s->buffers, BUFFERS_GRADS) + main_params_bytes (s->main);

    for (int i = 0; s->optimizer && i < OPTIMIZER_NUM_PARTS; i++)
        bytes += optimizer_bytes (s->optimizer, (enum optimizer_part)i);
    return bytes;
}
