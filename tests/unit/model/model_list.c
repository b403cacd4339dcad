/* Models as lists of layers: what follows from the list of a GPT, and of a family of the test. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/model/gpt.h"
#include "libcore/model/model_params.h"
#include "tests/tap/tap.h"

enum { LAYERS = 3 };

static struct model_config config_of (int mtp, bool repeated, bool tied)
{
    return (struct model_config){
        .num_layers = LAYERS, .hidden_size = 8, .ffn_hidden_size = 12, .num_heads = 2,
        .kv_channels = 4, .seq_length = 4, .max_positions = 4, .vocab_size = 10,
        .padded_vocab_size = 16, .tied_embeddings = tied, .mtp_num_layers = mtp,
        .mtp_repeated = repeated, .mtp_scaling_factor = 0.6,
    };
}

/* Orders are sums: each layer begins where the one before has ended. */
static void check_orders (const struct model_list *l, const char *text)
{
    int order = 0, wrong = 0;

    for (int i = 0; i < l->n; i++) {
        wrong += l->place[i].step != i || l->place[i].order != order;
        order += model_own_params (l, &l->place[i]);
    }
    ok (wrong == 0 && l->num_tensors == order + (l->num_outputs > 1), "%s: %d layers, %d tensors",
        text, l->n, l->num_tensors);
}

/* A layer has 12 parameters, an embedding 2, a norm 2, what is before a layer for multi-token
 * prediction 5.
 */
static void test_gpt (void)
{
    static const struct {
        const char *text;
        int mtp, n, tensors, words, outputs;
        bool repeated, tied;
    } rows[] = {
        { "a GPT", 0, 1 + LAYERS + 1, 2 + 36 + 3, 1, 1, false, false },
        { "a tied one", 0, 1 + LAYERS + 1, 2 + 36 + 2, 2, 0, false, true },
        { "two further tokens", 2, 1 + LAYERS + 1 + 6, 2 + 36 + 3 + 2 * 19, 3, 3, false, false },
        { "the same weights", 2, 1 + LAYERS + 1 + 6, 2 + 36 + 3 + 19, 3, 3, true, false },
        { "tied, the same weights", 2, 1 + LAYERS + 1 + 6, 2 + 36 + 2 + 19, 6, 0, true, true },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const struct model_config c = config_of (rows[i].mtp, rows[i].repeated, rows[i].tied);
        struct model_list l;
        struct mg_error err = { "" };
        int repeats = 0, wrong = 0;

        if (model_list_describe (&l, &c, &err) < 0)
            bail_out ("%s", err.text);
        check_orders (&l, rows[i].text);
        is_int (l.n, rows[i].n, "layers");
        is_int (l.num_tensors, rows[i].tensors, "tensors");
        ok (l.num_words == rows[i].words && l.num_outputs == rows[i].outputs,
            "%d layers use the word embedding, %d the output layer", l.num_words, l.num_outputs);
        is_int (l.num_losses, 1 + rows[i].mtp, "losses");
        for (int k = 0; k < l.n; k++) {
            const struct model_place *p = &l.place[k], *same = &l.place[p->same ? p->same - 1 : k];

            repeats += p->same > 0;
            wrong += same->mtp != (p->same ? 1 : p->mtp)
                     || l.spec[same->spec].num_params != l.spec[p->spec].num_params;
        }
        ok (wrong == 0 && repeats == (rows[i].repeated ? 3 : 0), "%d layers repeat others",
            repeats);
        model_list_clear (&l);
    }
}

/* What a stage has is a part of the list; a stage without layers has one that copies. */
static void test_parts (void)
{
    static const struct {
        struct model_part part;
        int first, n;
    } rows[] = {
        { { .first_layer = 0, .num_layers = 1, .first = true }, 0, 2 },
        { { .first_layer = 0, .num_layers = 0, .first = true }, 0, 1 },
        { { .first_layer = 1, .num_layers = 2 }, 2, 2 },
        { { .first_layer = 3, .num_layers = 0 }, 1 + LAYERS + 4, 1 },
        { { .first_layer = 3, .num_layers = 0, .last = true, .mtp_layers = 1 }, 1 + LAYERS, 4 },
        { { .first_layer = 0, .num_layers = LAYERS, .first = true, .last = true }, 0,
          1 + LAYERS + 4 },
    };
    const struct model_config c = config_of (1, false, false);
    struct model_list l;

    if (model_list_describe (&l, &c, NULL) < 0)
        bail_out ("no list");
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        int n;
        const struct model_place *p = model_part_layers (&l, &rows[i].part, &n);

        ok (p == &l.place[rows[i].first] && n == rows[i].n, "stage %d: %d layers", (int)i, n);
    }
    ok (l.place[l.n].spec == GPT_COPY && l.place[l.n].step == 0 && l.place[l.n].number == -1,
        "one layer copies");
    model_list_clear (&l);
}

/* --- another family: an embedding, layers of two kinds in turn, a head with two losses --- */

enum { BOTTOM, ODD, EVEN, TOP, SECOND_TOP, NOTHING, NUM_KINDS };

static int list_other (const struct nn *nn, struct model_place *place)
{
    int n = nn->config.num_layers;

    for (int i = 0; i < n + 3 && place; i++) {
        int kind = i == 0 ? BOTTOM : i > n ? TOP + i - n - 1 : i % 2 ? ODD : EVEN;

        place[i].spec = kind;
        place[i].number = kind == ODD || kind == EVEN ? i - 1 : -1;
    }
    return n + 3;
}

static int specify_other (int which, const struct nn *nn, const struct nn_shape *shape,
                          struct layer_spec *spec, struct mg_error *err)
{
    static const char *const losses[NUM_KINDS] = { [TOP] = "lm loss", [SECOND_TOP] = "sop loss" };
    static const int params[NUM_KINDS] = { 3, 5, 7, 1, 2, 0 };

    (void)nn, (void)shape, (void)err;
    *spec = (struct layer_spec){ .name = "other", .loss = { losses[which], 1 } };
    for (int i = 0; i < params[which]; i++)
        layer_add_param (spec, &(struct layer_param){
                                   .ndims = 1, .global = { 10 },
                                   .embedding = (which == BOTTOM || which == TOP) && i == 0 });
    return 0;
}

static int refuse (int which, const struct nn *nn, const struct nn_shape *shape,
                   struct layer_spec *spec, struct mg_error *err)
{
    (void)nn, (void)shape, (void)spec;
    return mg_error_set (err, EINVAL, "no specification %d", which);
}

static void test_other (void)
{
    struct model_family family = { "other", NUM_KINDS, NOTHING, list_other, specify_other };
    const struct model_config c = config_of (0, false, false);
    const struct nn nn = model_describing_nn (&c, 1, 1, 1, false);
    const struct nn_shape shape = model_describing_shape (&c);
    struct mg_error err = { "" };
    struct model_list l;

    ok (model_list_create (&l, &family, &nn, &shape, &err) == 0, "another family %s", err.text);
    check_orders (&l, "its list");
    is_int (l.num_tensors, 3 + 5 + 7 + 5 + 0 + 2, "a tied head has no tensor of its own");
    ok (l.first_layer == 1 && l.place[1].loss == 0 && l.place[4].loss == 1 && l.place[5].loss == 2,
        "losses are numbered in the order of the layers");
    model_list_clear (&l);
    family.specify = refuse;
    errno = 0;
    ok (model_list_create (&l, &family, &nn, &shape, &err) == -1 && errno == EINVAL, "%s",
        err.text);
    model_list_clear (&l);
    ok (!l.spec && !l.place, "a list that was not made is cleared");
}

int main (void)
{
    test_gpt ();
    test_parts ();
    test_other ();
    return done_testing ();
}
