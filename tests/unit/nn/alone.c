/* alone.c - alone.h */

#include <string.h>

#include "libcore/model/model_private.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

void alone_create_in (struct alone *a, struct job *job, const struct model_spec *spec)
{
    const struct stack_config stack = {
        .main = { .keep = true },
        .optimizer = { .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8 },
    };
    struct mg_error err = { "" };
    int slots = 1;

    a->job = NULL;
    if (!(a->model = model_create (spec, job, &err)))
        bail_out ("%s", err.text);
    a->params = model_params (a->model, &a->n);
    stack_create (&a->stack, &stack, job, model_stream (a->model), a->params, a->n,
                  model_sizes_of (a->model)->tensors);
    if (model_bind (a->model, &slots, &err) < 0 || model_init_params (a->model, &err) < 0)
        bail_out ("%s", err.text);
}

void alone_create (struct alone *a, const struct model_spec *spec)
{
    struct job_config config = { .timeout = 10, .threads = 1 };
    struct mg_error err = { "" };
    struct job *job;

    geometry_init (&config.geometry);
    if (!(job = job_create (&config, &err)))
        bail_out ("%s", err.text);
    alone_create_in (a, job, spec);
    a->job = job;
}

void alone_destroy (struct alone *a)
{
    stack_destroy (&a->stack);
    model_destroy (a->model);
    job_destroy (a->job);
}

const struct tensor *alone_logits_tensor (const struct alone *a)
{
    const struct chunk *c = &a->model->chunk[0];
    const struct tensor *tensor = a->model->pool[a->model->pool_of[0]].slot[0].tensor;

    for (int l = 0; l < c->num_layers; l++) {
        const struct layer_spec *spec = c->layer[l].spec;

        for (int i = 1; i <= spec->num_tensors; i++) {
            if (strcmp (spec->tensor[i].name, "logits") == 0)
                return &tensor[c->tensor[l] + (size_t)i];
        }
    }
    bail_out ("no output layer");
    return NULL;
}

const float *alone_logits (const struct alone *a)
{
    return tensor_at (alone_logits_tensor (a), 0);
}
