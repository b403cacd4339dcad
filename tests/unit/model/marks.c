/* What parameters are marked as, and the deviations of their initial values. */

#include <math.h>
#include <string.h>

#include "libcore/model/gpt.h"
#include "tests/tap/tap.h"

static const struct nn plain = {
    .config = { .num_layers = 2, .hidden_size = 24, .ffn_hidden_size = 40, .num_heads = 4,
                .kv_channels = 5, .seq_length = 6, .max_positions = 7, .vocab_size = 12,
                .padded_vocab_size = 12, .qk_norm = true, .init_std = 0.02 },
    .tp_size = 1,
};
static const struct nn_shape shape = { .batch = 2, .seq = 6, .tokens = 12, .whole_seq = 6,
                                       .rows = 6 };

struct mark {
    const char *name; /* an end of the parameter's name */
    double std;       /* with an embedding's deviation of 0.5; 0: a constant */
    bool decay, qk_norm, vocabulary;
};

/* What Megatron-LM has: embedding_init_method of both embeddings, not of an untied output layer;
 * is_embedding_or_output_parameter of words and output layer, not of positions.
 */
static const struct mark marks[] = {
    { "word_embeddings.weight", 0.5, true, false, true },
    { "position_embeddings.weight", 0.5, true, false, false },
    { "output_layer.weight", 0.02, true, false, true },
    { "final_layernorm.weight", 0, false, false, false },
    { "self_attention.q_layernorm.weight", 0, false, true, false },
    { "self_attention.q_layernorm.bias", 0, false, true, false },
    { "self_attention.k_layernorm.weight", 0, false, true, false },
    { "self_attention.k_layernorm.bias", 0, false, true, false },
    { "self_attention.linear_qkv.weight", 0.02, true, false, false },
    { "self_attention.linear_proj.weight", 0.01, true, false, false },
    { "input_layernorm.weight", 0, false, false, false },
    { "mlp.linear_fc1.bias", 0, false, false, false },
};

enum { NUM = sizeof (marks) / sizeof (marks[0]) };

static bool ends_with (const char *name, const char *end)
{
    size_t n = strlen (name), m = strlen (end);

    return n >= m && strcmp (name + n - m, end) == 0;
}

/* Check the parameters of one layer against the table; returns how many rows were met. */
static int check (enum gpt_layer which, const struct nn *own, double embedding_std)
{
    struct layer_spec spec;
    struct layer layer = { .spec = &spec };
    struct param p[LAYER_MAX_PARAMS];
    struct mg_error err = { "" };
    int met = 0;

    if (gpt_spec (which, own, &shape, &spec, &err) < 0)
        bail_out ("%s", err.text);
    layer_describe (&layer, own, false, p, 0);
    for (int i = 0; i < spec.num_params; i++) {
        for (int k = 0; k < NUM; k++) {
            const struct mark *m = &marks[k];
            double std = m->std == 0.5 ? embedding_std : m->std;

            if (!ends_with (p[i].name, m->name))
                continue;
            met++;
            ok (fabs (p[i].init_std - std) < 1e-15 && p[i].decay == m->decay
                    && p[i].qk_norm == m->qk_norm && p[i].vocabulary == m->vocabulary,
                "%s: deviation %g", p[i].name, p[i].init_std);
        }
    }
    return met;
}

int main (void)
{
    struct nn nn = plain, own = plain, latent = plain;
    int met = 0;

    nn_set_sizes (&nn);
    nn_set_sizes (&own);
    own.config.embedding_init_std = 0.5;
    met += check (GPT_EMBEDDING, &own, 0.5);
    met += check (GPT_LAYER, &own, 0.5);
    met += check (GPT_HEAD, &own, 0.5);
    is_int (met, NUM, "all rows were met");
    is_int (check (GPT_EMBEDDING, &nn, 0.02), 2, "embeddings as all others");
    own.config.tied_embeddings = true;
    is_int (check (GPT_HEAD, &own, 0.5), 2, "a tied output layer is the word embedding");
    latent.config.latent = (struct model_latent){ .on = true, .q_rank = 9, .kv_rank = 8,
                                                  .qk_dim = 5, .rope_dim = 4, .v_dim = 3 };
    nn_set_sizes (&latent);
    ok (check (GPT_LAYER, &latent, 0.02) > 3, "latents: the queries' norm alone is marked");
    return done_testing ();
}
