/* model_params.c - the layers of a stage, and parameters as their specifications have them
 *
 * Orders and counts come from the specifications alone, for a whole model as for a rank's part,
 * so that no formula has to know which parameters a layer has.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/nn/model_params.h"

struct model_part model_part_at (const struct stages *stages, int rank, int chunk)
{
    const struct stage *stage = stages_at (stages, rank, chunk);

    return (struct model_part){
        .first_layer = stage->offset,
        .num_layers = stage->num_layers,
        .first = rank == 0 && chunk == 0,
        .last = rank == stages->pp - 1 && chunk == stages->vpp - 1,
    };
}

int model_part_layers (const struct model_config *c, const struct model_part *part,
                       struct model_place *places, int max)
{
    int n = 0, top = 1 + c->num_layers;
    struct model_place all[] = { { GPT_EMBEDDING, -1, 0 }, { GPT_COPY, -1, 0 },
                                 { GPT_HEAD, -1, top }, { GPT_LOSS, -1, top + 1 } };
    const bool has[] = { part->first, !part->first && !part->last && part->num_layers == 0,
                         part->last, part->last };

    for (int i = 0; i < 4; i++) {
        for (int l = 0; i == 1 && l < part->num_layers; l++, n++) {
            int layer = part->first_layer + l;

            if (n < max)
                places[n] = (struct model_place){ GPT_LAYER, layer, 1 + layer };
        }
        if (has[i] && n++ < max)
            places[n - 1] = all[i];
    }
    return n;
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

static int describing_specs (const struct nn *nn, struct layer_spec spec[GPT_NUM_LAYERS],
                             struct mg_error *err)
{
    const struct nn_shape shape = describing_shape (&nn->config);
    struct nn own = *nn;

    nn_set_rows (&own, &shape);
    return gpt_specs (&own, &shape, spec, err);
}

int model_config_specs (const struct model_config *c, struct layer_spec spec[GPT_NUM_LAYERS],
                        struct mg_error *err)
{
    const struct nn nn = describing_nn (c, 1, 1, 1, false);

    return describing_specs (&nn, spec, err);
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

/* Tensors of the whole model below a layer; those of all experts count as one. */
static int order_of (const struct layer_spec *spec, const struct nn *nn,
                     const struct model_place *place)
{
    int layers = place->which == GPT_LAYER ? place->number : nn->config.num_layers;

    if (place->which == GPT_EMBEDDING)
        return 0;
    return spec[GPT_EMBEDDING].num_params + layers_params (spec, nn, 0, layers);
}

int model_config_tensors (const struct model_config *c)
{
    const struct nn nn = describing_nn (c, 1, 1, 1, false);
    const struct model_place head = { .which = GPT_HEAD };
    struct layer_spec spec[GPT_NUM_LAYERS];

    if (describing_specs (&nn, spec, NULL) < 0)
        return 0;
    return order_of (spec, &nn, &head) + spec[GPT_HEAD].num_params - c->tied_embeddings;
}

static int64_t count_parameters (const struct layer_spec *spec, bool tied)
{
    int64_t total = 0;

    for (int i = 1; i <= spec->num_params; i++) {
        const struct layer_param *p = &spec->param[i];

        if (!tied || !p->embedding)
            total += p->global[0] * (p->ndims == 2 ? p->global[1] : 1)
                     * (p->experts > 0 ? p->experts : 1);
    }
    return total;
}

int64_t model_config_parameters (const struct model_config *c)
{
    const struct nn nn = describing_nn (c, 1, 1, 1, false);
    struct layer_spec spec[GPT_NUM_LAYERS];
    int64_t layers = 0;

    if (describing_specs (&nn, spec, NULL) < 0)
        return 0;
    for (int i = 0; i < c->num_layers; i++)
        layers += count_parameters (&spec[gpt_kind (&nn, i)], false);
    return count_parameters (&spec[GPT_EMBEDDING], false) + layers
           + count_parameters (&spec[GPT_HEAD], c->tied_embeddings);
}

double model_config_flops (const struct model_config *c)
{
    const struct nn nn = describing_nn (c, 1, 1, 1, false);
    const struct nn_shape shape = describing_shape (c);
    struct layer_spec spec[GPT_NUM_LAYERS];
    double forward = 0;

    if (describing_specs (&nn, spec, NULL) < 0)
        return 0;
    for (int i = 0; i < GPT_LAYER; i++)
        forward += layer_flops (&spec[i], &nn, &shape);
    for (int i = 0; i < c->num_layers; i++)
        forward += layer_flops (&spec[gpt_kind (&nn, i)], &nn, &shape);
    return 3 * forward; /* backward, a product has two */
}

/* --- a rank's --- */

size_t model_part_params (const struct layer_spec spec[GPT_NUM_LAYERS], const struct nn *nn,
                          const struct model_part *part)
{
    size_t n = (size_t)layers_params (spec, nn, part->first_layer, part->num_layers);

    return n + (part->first ? (size_t)spec[GPT_EMBEDDING].num_params : 0)
           + (part->last ? (size_t)spec[GPT_HEAD].num_params : 0);
}

/* A tied output layer is the word embedding where this rank has it, which is then not shared;
 * else a copy of its own, kept equal by the embedding group.
 */
static void tie (struct model_describer *d, struct layer *layer, int i)
{
    struct param *own = layer->param[i];

    if (layer->spec == &d->spec[GPT_EMBEDDING]) {
        d->word = own;
        own->shared_embedding = d->nn->config.tied_embeddings;
    } else if (d->word) {
        layer->param[i] = d->word;
        layer->num_own--;
        d->word->shared_embedding = false;
    } else {
        own->shared_embedding = own->shared_copy = true;
        own->order = 0;
    }
}

void model_describe_layer (struct model_describer *d, const struct model_place *place,
                           int chunk, struct layer *layer)
{
    const struct layer_spec *spec = spec_of (d->spec, d->nn, place);

    *layer = (struct layer){ .spec = spec, .number = place->number, .step = place->step,
                             .first = (size_t)(d->next - d->first) };
    layer_describe (layer, d->nn, d->sequence_parallel, d->next,
                    order_of (d->spec, d->nn, place));
    for (int i = 1; i <= spec->num_params; i++) {
        layer->param[i]->chunk = chunk;
        if (spec->param[i].embedding)
            tie (d, layer, i);
    }
    d->next += layer->num_own;
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
    for (int i = 0; i < n; i++)
        model_describe_layer (d, &places[i], chunk, &layer);
    free (places);
    return 0;
}

struct param *model_stage_params (const struct model_config *c, const struct geometry *g,
                                  bool float8_weights, const struct stages *stages, int rank,
                                  size_t *n, struct mg_error *err)
{
    const struct nn nn = describing_nn (c, g->tp, g->ep, geometry_etp (g), float8_weights);
    struct layer_spec spec[GPT_NUM_LAYERS];
    struct model_describer d = { .nn = &nn, .spec = spec };

    *n = 0;
    if (describing_specs (&nn, spec, err) < 0)
        return NULL;
    for (int chunk = 0; chunk < stages->vpp; chunk++) {
        struct model_part part = model_part_at (stages, rank, chunk);
        *n += model_part_params (spec, &nn, &part);
    }
    if (!(d.first = d.next = calloc (*n + 1, sizeof (*d.first)))) {
        mg_error_set (err, ENOMEM, "out of memory for %zu parameters", *n);
        return NULL;
    }
    for (int chunk = 0; chunk < stages->vpp; chunk++) {
        struct model_part part = model_part_at (stages, rank, chunk);

        if (list_chunk (&d, &part, chunk, err) < 0) {
            free (d.first);
            return NULL;
        }
    }
    *n = (size_t)(d.next - d.first);
    return d.first;
}
