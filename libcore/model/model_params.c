/* model_params.c - the layers of a stage, and parameters as their specifications have them */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/model/model_params.h"

struct model_part model_part_at (const struct stages *stages, int rank, int chunk)
{
    const struct stage *stage = stages_at (stages, rank, chunk);

    return (struct model_part){
        .first_layer = stage->offset,
        .num_layers = stage->num_layers,
        .mtp_layers = stage->mtp_layers,
        .first = rank == 0 && chunk == 0,
        .last = rank == stages->pp - 1 && chunk == stages->vpp - 1,
    };
}

const struct model_place *model_part_layers (const struct model_list *l,
                                             const struct model_part *part, int *n)
{
    int first = part->first ? 0 : l->first_layer + part->first_layer;
    int end = part->last ? l->n : l->first_layer + part->first_layer + part->num_layers;

    *n = end > first ? end - first : 1;
    return &l->place[end > first ? first : l->n];
}

size_t model_part_params (const struct model_list *l, const struct model_part *part)
{
    int n, params = 2; // apart from their layers
    const struct model_place *place = model_part_layers (l, part, &n);

    for (int i = 0; i < n; i++)
        params += l->spec[place[i].spec].num_params;
    return (size_t)params;
}

/* Layers of this rank share the word embedding, which is then not shared with other ranks unless it
 * is the last stage's copy, kept equal by the embedding group.  So a tied output layer and the
 * layers for multi-token prediction use it.
 */
static void share_embedding (struct model_describer *d, struct layer *layer, int i)
{
    struct param *own = layer->param[i];

    if (layer->step == 0) {
        d->word = own;
        own->shared_embedding = d->list->num_words > 1;
    } else if (d->word) {
        layer->param[i] = d->word;
        layer->num_own--;
        layer->apart = d->copy;
        d->copy = 0;
        d->word->shared_embedding = d->word->shared_copy;
    } else {
        d->word = own;
        own->shared_embedding = own->shared_copy = true;
        own->order = 0;
    }
}

/* If heads share the output layer, it comes behind all other parameters.  If there is one head, its
 * output layer stays where it is.
 */
static void share_output (struct model_describer *d, struct layer *layer, int i)
{
    if (d->list->num_outputs == 1)
        return;
    layer->num_own--;
    if (layer->mtp == 0)
        d->output = *layer->param[i];
}

/* With multi-token prediction, the last stage's copy of the word embedding comes before its layers:
 * that of the first layer which uses it.
 */
static void describe_copy (struct model_describer *d, const struct model_part *part,
                           const struct model_place *place, int chunk)
{
    struct layer layer = { .spec = NULL };
    struct param p[LAYER_MAX_PARAMS];
    int i = 0;

    if (part->mtp_layers == 0 || part->first || d->word)
        return;
    for (; i == 0; place++) {
        layer = (struct layer){ .spec = &d->list->spec[place->spec], .number = place->number,
                                .mtp = place->mtp };
        for (i = layer.spec->num_params; i > 0 && !layer.spec->param[i].embedding;)
            i--;
    }
    layer_describe (&layer, d->nn, d->sequence_parallel, p, 0);
    d->word = d->next++;
    *d->word = p[i - 1];
    d->word->chunk = chunk;
    d->word->order = 0;
    d->word->shared_embedding = d->word->shared_copy = true;
    d->copy = (size_t)(d->next - d->first);
}

/* Place the weight of the output layer, which the 'n' layers of the last stage share, behind the
 * other parameters.
 */
static void describe_output (struct model_describer *d, const struct model_part *part,
                             struct layer *layers, int n)
{
    struct param *output = d->next;

    if (!part->last || d->list->num_outputs < 2)
        return;
    *d->next++ = d->output;
    output->order = d->list->num_tensors - 1;
    for (int l = 0; l < n; l++) {
        const struct layer_spec *spec = layers[l].spec;

        if (spec->num_params == 0 || !spec->param[spec->num_params].output)
            continue;
        layers[l].param[spec->num_params] = output;
        if (layers[l].mtp == 0)
            layers[l].apart = (size_t)(d->next - d->first);
    }
}

static void describe_layer (struct model_describer *d, const struct model_place *place, int chunk,
                            struct layer *layer)
{
    const struct layer_spec *spec = &d->list->spec[place->spec];

    *layer = (struct layer){ .spec = spec, .number = place->number, .mtp = place->mtp,
                             .step = place->step, .loss = place->loss,
                             .first = (size_t)(d->next - d->first) };
    layer_describe (layer, d->nn, d->sequence_parallel, d->next, place->order);
    if (place->same > 0) {
        memcpy (layer->param, layer[place->same - 1 - place->step].param, sizeof (layer->param));
        layer->num_own = 0;
        return;
    }
    for (int i = 1; i <= spec->num_params; i++) {
        layer->param[i]->chunk = chunk;
        if (spec->param[i].embedding)
            share_embedding (d, layer, i);
        else if (spec->param[i].output)
            share_output (d, layer, i);
    }
    d->next += layer->num_own;
}

void model_describe_part (struct model_describer *d, const struct model_part *part, int chunk,
                          struct layer *layers)
{
    int n;
    const struct model_place *place = model_part_layers (d->list, part, &n);

    describe_copy (d, part, place, chunk);
    for (int i = 0; i < n; i++)
        describe_layer (d, &place[i], chunk, &layers[i]);
    describe_output (d, part, layers, n);
}

/* Describe chunk number 'chunk', and forget its layers. */
static int list_chunk (struct model_describer *d, const struct model_part *part, int chunk,
                       struct mg_error *err)
{
    struct layer *layers;
    int n;

    model_part_layers (d->list, part, &n);
    if (!(layers = calloc ((size_t)n, sizeof (*layers))))
        return mg_error_set (err, ENOMEM, "out of memory for %d layers", n);
    model_describe_part (d, part, chunk, layers);
    free (layers);
    return 0;
}

/* The parameters of all chunks of a pipeline rank, *n of them; free them. */
static struct param *list_stage (struct model_describer *d, const struct stages *stages, int rank,
                                 size_t *n, struct mg_error *err)
{
    for (int chunk = 0; chunk < stages->vpp; chunk++) {
        struct model_part part = model_part_at (stages, rank, chunk);
        *n += model_part_params (d->list, &part);
    }
    if (!(d->first = d->next = calloc (*n + 1, sizeof (*d->first)))) {
        mg_error_set (err, ENOMEM, "out of memory for %zu parameters", *n);
        return NULL;
    }
    for (int chunk = 0; chunk < stages->vpp; chunk++) {
        struct model_part part = model_part_at (stages, rank, chunk);

        if (list_chunk (d, &part, chunk, err) < 0) {
            free (d->first);
            return NULL;
        }
    }
    *n = (size_t)(d->next - d->first);
    return d->first;
}

struct param *model_stage_params (const struct model_config *c, const struct geometry *g,
                                  bool float8_weights, const struct stages *stages, int rank,
                                  size_t *n, struct mg_error *err)
{
    struct nn_shape shape = model_describing_shape (c);
    struct nn nn = model_describing_nn (c, g->tp, g->ep, geometry_etp (g), float8_weights);
    struct model_list list;
    struct model_describer d = { .nn = &nn, .list = &list };
    struct param *params = NULL;

    *n = 0;
    nn_set_rows (&nn, &shape);
    if (model_list_create (&list, model_family (c), &nn, &shape, err) == 0)
        params = list_stage (&d, stages, rank, n, err);
    model_list_clear (&list); // of which parameters keep nothing
    return params;
}
