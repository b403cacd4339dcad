/* inputs.c - lists of inputs by name */

#include <errno.h>
#include <string.h>

#include "libcore/nn/inputs.h"

/* Place of an input in the list; the number of inputs: it is not there. */
static int place_of (const struct nn_inputs *in, const char *name)
{
    int i = 0;

    while (i < in->n && strcmp (in->input[i].name, name) != 0)
        i++;
    return i;
}

const struct nn_input *nn_inputs_find (const struct nn_inputs *in, const char *name)
{
    int i = place_of (in, name);

    return i < in->n ? &in->input[i] : NULL;
}

void *nn_inputs_data (const struct nn_inputs *in, const char *name)
{
    const struct nn_input *input = nn_inputs_find (in, name);

    return input ? input->tensor.data : NULL;
}

int nn_inputs_add (struct nn_inputs *in, const struct nn_input *input, struct mg_error *err)
{
    int i = place_of (in, input->name);
    struct nn_input *has = &in->input[i];

    if (i == NN_MAX_INPUTS)
        return mg_error_set (err, EINVAL, "input %s: a model has %d inputs at most", input->name,
                             NN_MAX_INPUTS);
    if (i < in->n
        && (has->tensor.dtype != input->tensor.dtype
            || has->rows.unit != input->rows.unit || has->rows.times != input->rows.times
            || has->tensor.shape[0] / has->parts != input->tensor.shape[0] / input->parts))
        return mg_error_set (err, EINVAL, "input %s: layers read it with different types or "
                             "extents", input->name);
    if (i == in->n || input->parts > has->parts)
        *has = *input;
    in->n += i == in->n;
    return 0;
}

void nn_inputs_shape (struct nn_inputs *in, const struct nn_shape *shape)
{
    for (int i = 0; i < in->n; i++) {
        struct nn_input *input = &in->input[i];

        if (input->rows.times > 0)
            input->tensor.live = input->parts * nn_count (shape, input->rows);
    }
}

struct nn_inputs nn_inputs_of (const struct nn_inputs *all, const struct nn_inputs *which)
{
    struct nn_inputs of = { .n = 0 };

    for (int i = 0; i < all->n; i++) {
        if (nn_inputs_find (which, all->input[i].name))
            of.input[of.n++] = all->input[i];
    }
    return of;
}
