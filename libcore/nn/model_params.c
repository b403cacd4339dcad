/* model_params.c - embedding, final norm and output layer parameters */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/base/rng.h"
#include "libcore/nn/model_params.h"

/* Keys of tensors outside the layers: kinds above those of a layer's parameters. */
enum { KIND_WORD = 100, KIND_POSITION, KIND_OUTPUT };

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

size_t model_part_params (const struct model_config *c, const struct model_part *part,
                          int pp)
{
    size_t n = (size_t)part->num_layers * BLOCK_NUM_PARAMS;

    if (part->first)
        n += 2;
    if (part->last)
        n += 2 + (c->tied_embeddings && pp == 1 ? 0 : 1);
    return n;
}

int model_layer_order (int layer)
{
    return 2 + layer * BLOCK_NUM_PARAMS;
}

int model_config_tensors (const struct model_config *c)
{
    return model_layer_order (c->num_layers) + 2 + (c->tied_embeddings ? 0 : 1);
}

int64_t model_config_parameters (const struct model_config *c)
{
    int64_t h = c->hidden_size, f = c->ffn_hidden_size;
    int64_t a = (int64_t)c->num_heads * c->kv_channels;
    int64_t layer = 4 * h + (3 * a * h + 3 * a) + (a * h + h) + (f * h + f) + (f * h + h);
    int64_t words = (int64_t)c->vocab_size * h;

    return layer * c->num_layers + words * (c->tied_embeddings ? 1 : 2)
        + (int64_t)c->max_positions * h + 2 * h;
}

/* A row-split vocabulary matrix. */
static void describe_vocab (const struct nn *nn, struct param *p, const char *name, int order,
                            int kind)
{
    *p = (struct param){
        .dtype = nn->dtype,
        .storage = nn->dtype,
        .ndims = 2,
        .global = { nn->config.vocab_size, nn->hidden },
        .offset = { nn->local_vocab * nn->tp_rank, 0 },
        .extent = { nn->local_vocab, nn->hidden },
        .numel = nn->local_vocab * nn->hidden,
        .tp_sharded = true,
        .decay = true,
        .order = order,
        .init_std = nn->config.init_std,
        .init_key = rng_key (nn->config.seed, RNG_INIT, (uint64_t)kind, 0),
    };
    snprintf (p->name, sizeof (p->name), "%s", name);
}

struct param *model_describe_embedding (const struct nn *nn, struct param *p,
                                        struct embedding *e)
{
    const struct model_config *c = &nn->config;

    describe_vocab (nn, &p[0], "embedding.word_embeddings.weight", 0, KIND_WORD);
    p[0].shared_embedding = c->tied_embeddings;
    p[1] = (struct param){
        .name = "embedding.position_embeddings.weight",
        .dtype = nn->dtype,
        .storage = nn->dtype,
        .ndims = 2,
        .global = { c->max_positions, nn->hidden },
        .extent = { c->max_positions, nn->hidden },
        .numel = c->max_positions * nn->hidden,
        .sequence_parallel = nn->rows < nn->tokens,
        .decay = true,
        .order = 1,
        .init_std = c->init_std,
        .init_key = rng_key (c->seed, RNG_INIT, KIND_POSITION, 0),
    };
    *e = (struct embedding){
        .word = &p[0],
        .position = &p[1],
        .key = rng_key (c->seed, RNG_DROPOUT_EMBEDDING, 0, 0),
    };
    return p + 2;
}

struct param *model_describe_head (const struct nn *nn, struct param *p, struct param *word,
                                   struct head *h)
{
    const struct model_config *c = &nn->config;
    int order = model_layer_order (c->num_layers);
    static const char *const names[2] = { "decoder.final_layernorm.weight",
                                          "decoder.final_layernorm.bias" };

    for (int i = 0; i < 2; i++) {
        p[i] = (struct param){
            .dtype = nn->dtype,
            .storage = nn->dtype,
            .ndims = 1,
            .global = { c->hidden_size },
            .extent = { c->hidden_size },
            .numel = c->hidden_size,
            .order = order + i,
            .sequence_parallel = nn->rows < nn->tokens,
            .init_value = i == 0 ? 1.0f : 0.0f,
        };
        snprintf (p[i].name, sizeof (p[i].name), "%s", names[i]);
    }
    h->norm = (struct norm){ &p[0], &p[1] };
    p += 2;
    if (c->tied_embeddings && word) {
        word->shared_embedding = false;
        h->output = (struct linear){ .weight = word, .logits = true };
        return p;
    }
    if (c->tied_embeddings) {
        describe_vocab (nn, p, "embedding.word_embeddings.weight", 0, KIND_WORD);
        p->shared_embedding = p->shared_copy = true;
    }
    else
        describe_vocab (nn, p, "output_layer.weight", order + 2, KIND_OUTPUT);
    h->output = (struct linear){ .weight = p, .logits = true };
    return p + 1;
}

struct param *model_describe_part (const struct nn *nn, const struct model_part *part,
                                   int chunk, struct param *p, struct model_places *places)
{
    struct param *first = p;

    if (part->first)
        p = model_describe_embedding (nn, p, places->embedding);
    for (int i = 0; i < part->num_layers; i++, p += BLOCK_NUM_PARAMS) {
        int layer = part->first_layer + i;

        block_init (&places->block[i], nn, layer, p, model_layer_order (layer));
    }
    if (part->last)
        p = model_describe_head (nn, p, places->embedding->word, places->head);
    for (struct param *q = first; q < p; q++)
        q->chunk = chunk;
    return p;
}

/* As much of a rank as descriptions need. */
static struct nn describing_nn (const struct model_config *c, int tp, bool float8_weights)
{
    return (struct nn){
        .weight_storage = float8_weights ? MG_FLOAT8_E4M3 : MG_FLOAT32,
        .config = *c,
        .tp_size = tp,
        .batch = 1,
        .seq = c->seq_length,
        .tokens = c->seq_length,
        .rows = c->seq_length,
        .hidden = c->hidden_size,
        .head_dim = c->kv_channels,
        .local_heads = c->num_heads / tp,
        .local_attention = c->num_heads / tp * (int64_t)c->kv_channels,
        .local_ffn = c->ffn_hidden_size / tp,
        .local_vocab = c->padded_vocab_size / tp,
    };
}

/* Describe chunk number 'chunk' with blocks that are only needed for it. */
static struct param *list_chunk (const struct nn *nn, const struct model_part *part,
                                 int chunk, struct param *p, struct model_places *places,
                                 struct mg_error *err)
{
    places->block = calloc ((size_t)part->num_layers + 1, sizeof (*places->block));
    if (!places->block) {
        mg_error_set (err, ENOMEM, "out of memory for %d layers", part->num_layers);
        return NULL;
    }
    p = model_describe_part (nn, part, chunk, p, places);
    free (places->block);
    return p;
}

struct param *model_stage_params (const struct model_config *c, int tp, bool float8_weights,
                                  const struct stages *stages, int rank, size_t *n,
                                  struct mg_error *err)
{
    struct embedding embedding = { .word = NULL };
    struct head head;
    struct model_places places = { .embedding = &embedding, .head = &head };
    struct nn nn = describing_nn (c, tp, float8_weights);
    struct param *list, *next;

    *n = 0;
    for (int chunk = 0; chunk < stages->vpp; chunk++) {
        struct model_part part = model_part_at (stages, rank, chunk);
        *n += model_part_params (c, &part, stages->pp);
    }
    if (!(list = calloc (*n + 1, sizeof (*list)))) {
        mg_error_set (err, ENOMEM, "out of memory for %zu parameters", *n);
        return NULL;
    }
    next = list;
    for (int chunk = 0; chunk < stages->vpp; chunk++) {
        struct model_part part = model_part_at (stages, rank, chunk);

        if (!(next = list_chunk (&nn, &part, chunk, next, &places, err))) {
            free (list);
            return NULL;
        }
    }
    return list;
}
