/* The parameters of a model with multi-token prediction: over all stages each has its place, is
 * counted once, and is registered in Megatron-core's order.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/model/model_params.h"
#include "tests/tap/tap.h"

enum { LAYERS = 2, MTP = 2, MAX = 64 };

static const char *const names[] = {
    "embedding.word_embeddings.weight",
    "decoder.layers.0.input_layernorm.weight",
    "decoder.layers.0.self_attention.linear_proj.weight",
    "decoder.layers.0.self_attention.linear_qkv.weight",
    "decoder.layers.0.pre_mlp_layernorm.weight",
    "decoder.layers.0.mlp.linear_fc1.weight",
    "decoder.layers.0.mlp.linear_fc2.weight",
    "decoder.layers.1.input_layernorm.weight",
    "decoder.layers.1.self_attention.linear_proj.weight",
    "decoder.layers.1.self_attention.linear_qkv.weight",
    "decoder.layers.1.pre_mlp_layernorm.weight",
    "decoder.layers.1.mlp.linear_fc1.weight",
    "decoder.layers.1.mlp.linear_fc2.weight",
    "decoder.final_layernorm.weight",
    "mtp.layers.0.enorm.weight",
    "mtp.layers.0.hnorm.weight",
    "mtp.layers.0.eh_proj.weight",
    "mtp.layers.0.mtp_model_layer.input_layernorm.weight",
    "mtp.layers.0.mtp_model_layer.self_attention.linear_proj.weight",
    "mtp.layers.0.mtp_model_layer.self_attention.linear_qkv.weight",
    "mtp.layers.0.mtp_model_layer.pre_mlp_layernorm.weight",
    "mtp.layers.0.mtp_model_layer.mlp.linear_fc1.weight",
    "mtp.layers.0.mtp_model_layer.mlp.linear_fc2.weight",
    "mtp.layers.0.final_layernorm.weight",
    "mtp.layers.1.enorm.weight",
    "mtp.layers.1.hnorm.weight",
    "mtp.layers.1.eh_proj.weight",
    "mtp.layers.1.mtp_model_layer.input_layernorm.weight",
    "mtp.layers.1.mtp_model_layer.self_attention.linear_proj.weight",
    "mtp.layers.1.mtp_model_layer.self_attention.linear_qkv.weight",
    "mtp.layers.1.mtp_model_layer.pre_mlp_layernorm.weight",
    "mtp.layers.1.mtp_model_layer.mlp.linear_fc1.weight",
    "mtp.layers.1.mtp_model_layer.mlp.linear_fc2.weight",
    "mtp.layers.1.final_layernorm.weight",
    "output_layer.weight",
};
enum { NUM = sizeof (names) / sizeof (names[0]) };

static struct model_config config_of (bool tied)
{
    return (struct model_config){
        .num_layers = LAYERS, .mtp_num_layers = MTP, .mtp_scaling_factor = 0.1,
        .hidden_size = 24, .ffn_hidden_size = 40, .num_heads = 4, .kv_channels = 6,
        .seq_length = 6, .max_positions = 6, .vocab_size = 11, .padded_vocab_size = 12,
        .positions = MODEL_ROPE, .norm = KERN_RMS_NORM, .no_linear_bias = true,
        .tied_embeddings = tied, .init_std = 0.02,
    };
}

/* What has been seen of all stages. */
struct seen {
    int times[NUM], wrong, copies, shared;
    int64_t elements;
};

static void see (struct seen *s, const struct param *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t cols = p[i].ndims == 2 ? p[i].global[1] : 1;
        bool known = p[i].order >= 0 && p[i].order < NUM;

        s->wrong += !known || strcmp (p[i].name, names[p[i].order]) != 0;
        s->wrong += i > 0 && p[i].order <= p[i - 1].order; // they are registered in this order
        s->shared += p[i].shared_embedding;
        s->copies += p[i].shared_copy;
        if (p[i].shared_copy)
            s->wrong += i > 0 || p[i].order != 0;
        else if (known) {
            s->times[p[i].order]++;
            s->elements += p[i].global[0] * cols;
        }
    }
}

static void test_stages (bool tied, int pp)
{
    const struct model_config c = config_of (tied);
    struct geometry g;
    const struct stages_config cut = { .num_layers = LAYERS, .pp = pp, .mtp_layers = MTP };
    struct seen seen = { .wrong = 0 };
    struct model_sizes sizes = { 0 };
    struct mg_error err;
    struct stages *stages = stages_create (&cut, &err);
    int once = 0;

    geometry_init (&g);
    g.tp = g.ep = g.etp = 1;
    g.pp = pp;
    for (int rank = 0; stages && rank < pp; rank++) {
        size_t n;
        struct param *p = model_stage_params (&c, &g, false, stages, rank, &n, &err);

        if (!p)
            bail_out ("%s", err.text);
        see (&seen, p, n);
        free (p);
    }
    for (int i = 0; i < NUM; i++)
        once += seen.times[i] == 1;
    is_int (once, NUM - tied, "%s, pp %d: every tensor is there once", tied ? "tied" : "untied",
            pp);
    is_int (seen.wrong, 0, "names, order");
    is_int (seen.copies, pp > 1, "copies of the word embedding");
    is_int (seen.shared, pp > 1 ? 2 : 0, "stages that share it");
    is_int (model_config_sizes (&c, &sizes, &err), 0, "sizes of the model");
    is_int (sizes.tensors, NUM - tied, "its tensors");
    is_int (sizes.parameters, seen.elements, "its parameters");
    stages_destroy (stages);
}

int main (void)
{
    for (int i = 0; i < 4; i++)
        test_stages (i % 2, 1 + i / 2);
    return done_testing ();
}
