/* model_params.c - the layers of a stage, and parameters as their specifications have them
 *
 * Orders and counts come from the specifications alone, for a whole model as for a rank's part,
 * so that no formula has to know which parameters a layer has.
 */

#include <errno.h>
#include <stdio.h>
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

/* A list of layers, of which the first 'max' are written. */
struct place_list {
    struct model_place *place;
    int n, max;
};

static void add_place (struct place_list *list, enum gpt_layer which, int number, int mtp, int step)
{
    if (list->n < list->max)
        list->place[list->n] = (struct model_place){ which, number, mtp, step };
    list->n++;
}

int model_part_layers (const struct model_config *c, const struct model_part *part,
                       struct model_place *places, int max)
{
    struct place_list list = { places, 0, max };
    int top = 1 + c->num_layers;

    if (part->first)
        add_place (&list, GPT_EMBEDDING, -1, 0, 0);
    for (int l = part->first_layer; l < part->first_layer + part->num_layers; l++)
        add_place (&list, GPT_LAYER, l, 0, 1 + l);
    if (!part->first && !part->last && part->num_layers == 0)
        add_place (&list, GPT_COPY, -1, 0, 0);
    if (part->last)
        add_place (&list, GPT_HEAD, -1, 0, top++);
    if (part->last && part->mtp_layers == 0)
        add_place (&list, GPT_LOSS, -1, 0, top);
    for (int k = 0; k < part->mtp_layers; k++, top += 3) {
        add_place (&list, GPT_MTP_INPUT, -1, k + 1, top);
        add_place (&list, GPT_LAYER, c->num_layers + k, k + 1, top + 1);
        add_place (&list, k + 1 < part->mtp_layers ? GPT_MTP_HEAD : GPT_MTP_LAST, -1, k + 1,
                   top + 2);
    }
    return list.n;
}

/* --- the whole model, which one rank would have --- */

/* As much of a rank as descriptions need. */
static struct nn describing_nn (const struct model_config *c, int tp, int ep, int etp,
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

/* One sequence. */
static struct nn_shape describing_shape (const struct model_config *c)
{
    return (struct nn_shape){ .batch = 1, .seq = c->seq_length, .tokens = c->seq_length,
                              .whole_seq = c->seq_length, .rows = c->seq_length };
}

/* All specifications, [GPT_NUM_LAYERS]; free them.  NULL and a text on failure. */
static struct layer_spec *describing_specs (const struct nn *nn, struct mg_error *err)
{
    const struct nn_shape shape = describing_shape (&nn->config);
    struct layer_spec *spec = calloc (GPT_NUM_LAYERS, sizeof (*spec));
    struct nn own = *nn;

    if (!spec) {
        mg_error_set (err, ENOMEM, "out of memory for the specifications of layers");
        return NULL;
    }
    nn_set_rows (&own, &shape);
    if (gpt_specs (&own, &shape, spec, err) < 0) {
        free (spec);
        return NULL;
    }
    return spec;
}

struct layer_spec *model_config_specs (const struct model_config *c, struct mg_error *err)
{
    const struct nn nn = describing_nn (c, 1, 1, 1, false);

    return describing_specs (&nn, err);
}

/* The specification of a layer.  Those of transformer layers have the same parameters. */
static const struct layer_spec *spec_of (const struct layer_spec *spec, const struct nn *nn,
                                         const struct model_place *place)
{
    return &spec[place->which == GPT_LAYER ? gpt_kind (nn, place->number) : place->which];
}

/* Parameters of 'n' transformer layers from layer 'first' on. */
static int layers_params (const struct layer_spec *spec, const struct nn *nn, int first, int n)
{
    int params = 0;

    for (int i = first; i < first + n; i++)
        params += spec[gpt_kind (nn, i)].num_params;
    return params;
}

/* Parameters of a specification that other layers do not share. */
static int own_params (const struct layer_spec *spec)
{
    int n = 0;

    for (int i = 1; i <= spec->num_params; i++)
        n += !spec->param[i].embedding && !spec->param[i].output;
    return n;
}

/* Parameters of layers for multi-token prediction before number 'k', which all have the same. */
static int mtp_params (const struct layer_spec *spec, const struct nn *nn, int k)
{
    return k * (spec[gpt_kind (nn, nn->config.num_layers)].num_params
                + own_params (&spec[GPT_MTP_INPUT]) + own_params (&spec[GPT_MTP_LAST]));
}

/* Transformer layers below a layer, other than those for multi-token prediction. */
static int layers_below (const struct nn *nn, const struct model_place *place)
{
    return place->which == GPT_LAYER && place->mtp == 0 ? place->number : nn->config.num_layers;
}

/* Tensors of the whole model below a layer; those of all experts count as one.  'below' of them are
 * of the layers_below() it.  The final norm, layers for multi-token prediction and the output layer
 * follow each other.
 */
static int order_above (const struct layer_spec *spec, const struct nn *nn,
                        const struct model_place *place, int below)
{
    bool inside = place->which == GPT_LAYER;
    int order = spec[GPT_EMBEDDING].num_params + below;

    if (place->which == GPT_EMBEDDING)
        return 0;
    if (place->mtp == 0)
        return order;
    order += own_params (&spec[GPT_HEAD]) + mtp_params (spec, nn, place->mtp - 1);
    if (place->which != GPT_MTP_INPUT)
        order += own_params (&spec[GPT_MTP_INPUT]);
    if (place->which != GPT_MTP_INPUT && !inside)
        order += spec[gpt_kind (nn, nn->config.num_layers)].num_params;
    return order;
}

static int order_of (const struct layer_spec *spec, const struct nn *nn,
                     const struct model_place *place)
{
    return order_above (spec, nn, place, layers_params (spec, nn, 0, layers_below (nn, place)));
}

/* The same for layers that are described in order: each counts from where the last one has. */
static int next_order (struct model_describer *d, const struct model_place *place)
{
    int layers = layers_below (d->nn, place);

    if (layers < d->layers)
        d->layers = d->below = 0;
    d->below += layers_params (d->spec, d->nn, d->layers, layers - d->layers);
    d->layers = layers;
    return order_above (d->spec, d->nn, place, d->below);
}

static int num_tensors (const struct layer_spec *spec, const struct nn *nn)
{
    const struct model_place head = { .which = GPT_HEAD };

    return order_of (spec, nn, &head) + spec[GPT_HEAD].num_params
           - nn->config.tied_embeddings + mtp_params (spec, nn, model_mtp_own (&nn->config));
}

/* 'shared': those count that other layers have, too. */
static int64_t count_parameters (const struct layer_spec *spec, bool shared)
{
    int64_t total = 0;

    for (int i = 1; i <= spec->num_params; i++) {
        const struct layer_param *p = &spec->param[i];

        if (shared || (!p->embedding && !p->output))
            total += p->global[0] * (p->ndims == 2 ? p->global[1] : 1)
                     * (p->experts > 0 ? p->experts : 1);
    }
    return total;
}

static int64_t num_parameters (const struct layer_spec *spec, const struct nn *nn)
{
    const struct model_config *c = &nn->config;
    int64_t total = 0;

    for (int i = 0; i < c->num_layers + model_mtp_own (c); i++)
        total += count_parameters (&spec[gpt_kind (nn, i)], true);
    if (c->mtp_num_layers > 0)
        total += model_mtp_own (c) * (count_parameters (&spec[GPT_MTP_INPUT], false)
                                      + count_parameters (&spec[GPT_MTP_LAST], false));
    return total + count_parameters (&spec[GPT_EMBEDDING], true)
           + count_parameters (&spec[GPT_HEAD], !c->tied_embeddings);
}

static double count_flops (const struct layer_spec *spec, const struct nn *nn)
{
    const struct model_config *c = &nn->config;
    const struct nn_shape shape = describing_shape (c);
    double forward = 0;

    for (int i = 0; i <= GPT_LOSS; i++)
        forward += layer_flops (&spec[i], nn, &shape);
    for (int i = 0; i < c->num_layers + c->mtp_num_layers; i++)
        forward += layer_flops (&spec[gpt_kind (nn, i)], nn, &shape);
    if (c->mtp_num_layers > 0)
        forward += c->mtp_num_layers * (layer_flops (&spec[GPT_MTP_INPUT], nn, &shape)
                                        + layer_flops (&spec[GPT_MTP_LAST], nn, &shape));
    return 3 * forward; /* backward, a product has two */
}

int model_config_sizes (const struct model_config *c, struct model_sizes *sizes,
                        struct mg_error *err)
{
    const struct nn nn = describing_nn (c, 1, 1, 1, false);
    const struct model_place mtp = { .which = GPT_MTP_INPUT, .mtp = 1 };
    struct layer_spec *spec = model_config_specs (c, err);

    if (!spec)
        return -1;
    *sizes = (struct model_sizes){ .first_mtp = order_of (spec, &nn, &mtp),
                                   .mtp_tensors = mtp_params (spec, &nn, model_mtp_own (c)),
                                   .tensors = num_tensors (spec, &nn),
                                   .parameters = num_parameters (spec, &nn),
                                   .flops = count_flops (spec, &nn) };
    free (spec);
    return 0;
}

/* --- a rank's --- */

size_t model_part_params (const struct layer_spec spec[GPT_NUM_LAYERS], const struct nn *nn,
                          const struct model_part *part)
{
    size_t n = (size_t)layers_params (spec, nn, part->first_layer, part->num_layers);
    size_t mtp = (size_t)part->mtp_layers;

    if (mtp > 0)
        n += (size_t)layers_params (spec, nn, nn->config.num_layers, part->mtp_layers)
             + mtp * (size_t)(spec[GPT_MTP_INPUT].num_params + spec[GPT_MTP_LAST].num_params)
             + 2; // apart from their layers
    return n + (part->first ? (size_t)spec[GPT_EMBEDDING].num_params : 0)
           + (part->last ? (size_t)spec[GPT_HEAD].num_params : 0);
}

/* Layers of this rank share the word embedding, which is then not shared with other ranks unless it
 * is the last stage's copy, kept equal by the embedding group.  So a tied output layer and the
 * layers for multi-token prediction use it.
 */
static void share_embedding (struct model_describer *d, struct layer *layer, int i)
{
    const struct model_config *c = &d->nn->config;
    struct param *own = layer->param[i];

    if (layer->spec == &d->spec[GPT_EMBEDDING]) {
        d->word = own;
        own->shared_embedding = c->tied_embeddings || c->mtp_num_layers > 0;
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

/* Heads share the output layer, which comes behind all other parameters.  Without multi-token
 * prediction it does so anyway.
 */
static void share_output (struct model_describer *d, struct layer *layer, int i)
{
    if (d->nn->config.mtp_num_layers == 0)
        return;
    layer->num_own--;
    if (layer->mtp == 0)
        d->output = *layer->param[i];
}

void model_describe_copy (struct model_describer *d, const struct model_part *part, int chunk)
{
    struct layer layer = { .spec = &d->spec[GPT_MTP_INPUT], .number = -1, .mtp = 1 };
    struct param p[LAYER_MAX_PARAMS];

    if (part->mtp_layers == 0 || part->first || d->word)
        return;
    layer_describe (&layer, d->nn, d->sequence_parallel, p, 0);
    d->word = d->next++;
    *d->word = p[layer.spec->num_params - 1];
    d->word->chunk = chunk;
    d->word->order = 0;
    d->word->shared_embedding = d->word->shared_copy = true;
    d->copy = (size_t)(d->next - d->first);
}

void model_describe_output (struct model_describer *d, const struct model_part *part,
                            struct layer *layers, int n)
{
    struct param *output = d->next;

    if (part->mtp_layers == 0 || d->nn->config.tied_embeddings)
        return;
    *d->next++ = d->output;
    output->order = num_tensors (d->spec, d->nn) - 1;
    for (int l = 0; l < n; l++) {
        const struct layer_spec *spec = layers[l].spec;

        if (spec->num_params == 0 || !spec->param[spec->num_params].output)
            continue;
        layers[l].param[spec->num_params] = output;
        if (layers[l].mtp == 0)
            layers[l].apart = (size_t)(d->next - d->first);
    }
}

/* The parts of a layer for multi-token prediction: input, transformer layer, head. */
static struct param **mtp_part (struct model_describer *d, enum gpt_layer which)
{
    return d->mtp[which == GPT_MTP_INPUT ? 0 : which == GPT_LAYER ? 1 : 2];
}

/* Point a further layer for multi-token prediction at the parameters of the first. */
static void repeat_layer (struct model_describer *d, const struct model_place *place,
                          struct layer *layer)
{
    memcpy (layer->param, mtp_part (d, place->which), sizeof (layer->param));
    layer->num_own = 0;
}

void model_describe_layer (struct model_describer *d, const struct model_place *place,
                           int chunk, struct layer *layer)
{
    const struct layer_spec *spec = spec_of (d->spec, d->nn, place);

    *layer = (struct layer){ .spec = spec, .number = place->number, .mtp = place->mtp,
                             .step = place->step,
                             .first = (size_t)(d->next - d->first) };
    layer_describe (layer, d->nn, d->sequence_parallel, d->next,
                    next_order (d, place));
    if (place->mtp > 1 && d->nn->config.mtp_repeated) {
        repeat_layer (d, place, layer);
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
    if (place->mtp == 1)
        memcpy (mtp_part (d, place->which), layer->param, sizeof (layer->param));
}

/* Describe chunk number 'chunk', and forget its layers. */
static int list_chunk (struct model_describer *d, const struct model_part *part, int chunk,
                       struct mg_error *err)
{
    const struct model_config *c = &d->nn->config;
    int n = model_part_layers (c, part, NULL, 0);
    struct model_place *places = calloc ((size_t)n + 1, sizeof (*places));
    struct layer layer;

    if (!places)
        return mg_error_set (err, ENOMEM, "out of memory for %d layers", n);
    model_part_layers (c, part, places, n);
    model_describe_copy (d, part, chunk);
    for (int i = 0; i < n; i++)
        model_describe_layer (d, &places[i], chunk, &layer);
    model_describe_output (d, part, NULL, 0);
    free (places);
    return 0;
}

/* The parameters of all chunks of a pipeline rank, *n of them; free them. */
static struct param *list_stage (struct model_describer *d, const struct stages *stages, int rank,
                                 size_t *n, struct mg_error *err)
{
    for (int chunk = 0; chunk < stages->vpp; chunk++) {
        struct model_part part = model_part_at (stages, rank, chunk);
        *n += model_part_params (d->spec, d->nn, &part);
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
    const struct nn nn = describing_nn (c, g->tp, g->ep, geometry_etp (g), float8_weights);
    struct layer_spec *spec = describing_specs (&nn, err);
    struct model_describer d = { .nn = &nn, .spec = spec };
    struct param *params;

    *n = 0;
    if (!spec)
        return NULL;
    params = list_stage (&d, stages, rank, n, err);
    free (spec); // of which parameters keep nothing
    return params;
}
