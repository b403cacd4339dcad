/* model_list.c - the list of a model's layers, and running sums over it */

#include <errno.h>
#include <stdlib.h>

#include "libcore/model/gpt.h"
#include "libcore/model/model_list.h"

const struct model_family *model_family (const struct model_config *c)
{
    (void)c;
    return &gpt_family;
}

struct nn model_describing_nn (const struct model_config *c, int tp, int ep, int etp,
                               bool float8_weights)
{
    struct nn nn = {
        .weight_storage = float8_weights ? MG_FLOAT8_E4M3 : MG_FLOAT32,
        .config = *c,
        .tp_size = tp,
        .experts = { .ep_size = ep, .etp_size = etp },
    };

    nn_set_sizes (&nn);
    return nn;
}

struct nn_shape model_describing_shape (const struct model_config *c)
{
    return (struct nn_shape){ .batch = 1, .seq = c->seq_length, .tokens = c->seq_length,
                              .whole_seq = c->seq_length, .rows = c->seq_length };
}

int model_own_params (const struct model_list *l, const struct model_place *place)
{
    const struct layer_spec *spec = &l->spec[place->spec];
    int n = 0;

    for (int i = 1; i <= spec->num_params && place->same == 0; i++)
        n += spec->param[i].embedding ? place->step == 0
                                      : !spec->param[i].output || l->num_outputs == 1;
    return n;
}

/* Number the layers in order, their losses and their parameters. */
static void number_places (struct model_list *l)
{
    for (int i = 0; i < l->n; i++) {
        struct model_place *p = &l->place[i];
        const struct layer_spec *spec = &l->spec[p->spec];

        p->step = i;
        p->loss = spec->loss.name ? ++l->num_losses : 0;
        if (p->number == 0)
            l->first_layer = i;
        for (int k = 1; k <= spec->num_params; k++) {
            l->num_words += spec->param[k].embedding;
            l->num_outputs += spec->param[k].output;
        }
    }
    for (int i = 0; i < l->n; i++) {
        l->place[i].order = l->num_tensors;
        l->num_tensors += model_own_params (l, &l->place[i]);
    }
    l->num_tensors += l->num_outputs > 1;
}

int model_list_create (struct model_list *l, const struct model_family *f, const struct nn *nn,
                       const struct nn_shape *shape, struct mg_error *err)
{
    *l = (struct model_list){ .family = f, .n = f->list (nn, NULL) };
    l->spec = calloc ((size_t)f->num_specs, sizeof (*l->spec));
    l->place = calloc ((size_t)l->n + 1, sizeof (*l->place));
    if (!l->spec || !l->place)
        return mg_error_set (err, ENOMEM, "out of memory for the specifications of %d layers",
                             l->n);
    f->list (nn, l->place);
    l->place[l->n] = (struct model_place){ .spec = f->copy, .number = -1 };
    for (int i = 0; i <= l->n; i++) {
        struct layer_spec *spec = &l->spec[l->place[i].spec];

        if (!spec->name && f->specify (l->place[i].spec, nn, shape, spec, err) < 0)
            return -1;
    }
    number_places (l);
    return 0;
}

void model_list_clear (struct model_list *l)
{
    free (l->spec);
    free (l->place);
    *l = (struct model_list){ .n = 0 };
}

int model_list_describe (struct model_list *l, const struct model_config *c, struct mg_error *err)
{
    struct nn_shape shape = model_describing_shape (c);
    struct nn nn = model_describing_nn (c, 1, 1, 1, false);

    nn_set_rows (&nn, &shape);
    return model_list_create (l, model_family (c), &nn, &shape, err);
}

/* --- sums --- */

/* Elements of a layer's parameters, without those that an earlier layer has. */
static int64_t count_parameters (const struct model_list *l, const struct model_place *place,
                                 bool *has_output)
{
    const struct layer_spec *spec = &l->spec[place->spec];
    int64_t total = 0;

    for (int i = 1; i <= spec->num_params && place->same == 0; i++) {
        const struct layer_param *p = &spec->param[i];

        if ((p->embedding && place->step > 0) || (p->output && *has_output))
            continue;
        *has_output |= p->output;
        total += p->global[0] * (p->ndims == 2 ? p->global[1] : 1)
                 * (p->experts > 0 ? p->experts : 1);
    }
    return total;
}

int model_config_sizes (const struct model_config *c, struct model_sizes *sizes,
                        struct mg_error *err)
{
    const struct nn nn = model_describing_nn (c, 1, 1, 1, false);
    const struct nn_shape shape = model_describing_shape (c);
    struct model_list l;
    int rc = model_list_describe (&l, c, err);
    bool has_output = false;

    *sizes = (struct model_sizes){ .tensors = l.num_tensors };
    for (int i = 0; i < l.n && rc == 0; i++) {
        const struct model_place *p = &l.place[i];

        if (p->mtp > 0 && sizes->mtp_tensors == 0)
            sizes->first_mtp = p->order;
        sizes->mtp_tensors += p->mtp > 0 ? model_own_params (&l, p) : 0;
        sizes->parameters += count_parameters (&l, p, &has_output);
        sizes->flops += layer_flops (&l.spec[p->spec], &nn, &shape);
    }
    sizes->flops *= 3; /* backward, a product has two */
    model_list_clear (&l);
    return rc;
}
