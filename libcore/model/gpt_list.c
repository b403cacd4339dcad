/* gpt_list.c - the layers of a GPT, from the bottom to the top */

#include "libcore/model/gpt.h"

/* A list; 'place' NULL: its layers are only counted. */
struct places {
    struct model_place *place;
    int n;
};

static void add (struct places *l, enum gpt_layer spec, int number, int mtp, int same)
{
    if (l->place)
        l->place[l->n] = (struct model_place){ (int)spec, number, mtp, .same = same };
    l->n++;
}

/* A layer for multi-token prediction is an input, a transformer layer and a head, three places. */
static void add_mtp (struct places *l, const struct nn *nn, int k)
{
    const struct model_config *c = &nn->config;
    int first = k < model_mtp_own (c) ? 0 : l->n - 3 * k + 1, next = first > 0;
    bool last = k + 1 == c->mtp_num_layers;

    add (l, GPT_MTP_INPUT, -1, k + 1, first);
    add (l, gpt_kind (nn, c->num_layers + k), c->num_layers + k, k + 1, first + next);
    add (l, last ? GPT_MTP_LAST : GPT_MTP_HEAD, -1, k + 1, first + 2 * next);
}

static int list (const struct nn *nn, struct model_place *place)
{
    struct places l = { place, 0 };

    add (&l, GPT_EMBEDDING, -1, 0, 0);
    for (int i = 0; i < nn->config.num_layers; i++)
        add (&l, gpt_kind (nn, i), i, 0, 0);
    add (&l, GPT_HEAD, -1, 0, 0);
    for (int k = 0; k < nn->config.mtp_num_layers; k++)
        add_mtp (&l, nn, k);
    return l.n;
}

const struct model_family gpt_family = {
    .name = "gpt",
    .num_specs = GPT_NUM_LAYERS,
    .copy = GPT_COPY,
    .list = list,
    .specify = gpt_spec,
};
