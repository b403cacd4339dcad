/* Floating-point operations that specifications count, against a formula over the sizes of a plain
 * transformer, and both against Megatron-LM's own count.
 */

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/model/gpt.h"
#include "libcore/model/model_params.h"
#include "libcore/ops/ops.h"
#include "tests/tap/tap.h"

/* The sizes that Megatron-LM's num_floating_point_operations() reads. */
struct sizes {
    int64_t layers, hidden, seq_length;
    int64_t vocab;    /* with padding */
    int64_t ffn;      /* width of the feed-forward part */
    int mlp_matrices; /* 2, or 3 if it is gated */
    int64_t query;    /* query heads x their size */
    int64_t key;      /* key heads x their size */
    int64_t expert_layers, experts, topk; /* of the layers, those with experts */
    int64_t expert_ffn, shared_ffn;       /* of an expert; of the shared ones together */
    struct pattern expert_pattern;        /* which layers these are */
};

/* Two operations a multiplication with its addition, three passes; half of the scores. */
static double formula (const struct sizes *m, int64_t samples)
{
    double h = (double)m->hidden, q = (double)m->query, layers = (double)m->layers;
    double with_experts = (double)m->expert_layers;
    double active = (double)(m->expert_ffn * m->topk + m->shared_ffn);
    double mlp = h * m->mlp_matrices
                 * ((double)m->ffn * (layers - with_experts) + active * with_experts);
    double attention = h * (q + 2 * (double)m->key) + q * h;
    double tokens = (double)samples * (double)m->seq_length;
    double pairs = tokens * (double)m->seq_length / 2;

    return 6 * tokens * (mlp + layers * attention + h * (double)m->vocab)
           + 6 * pairs * 2 * q * layers;
}

/* A model of these sizes. */
static struct model_config config_of (const struct sizes *m, int size)
{
    return (struct model_config){
        .num_layers = (int)m->layers, .hidden_size = (int)m->hidden,
        .ffn_hidden_size = (int)m->ffn, .num_heads = (int)m->query / size, .kv_channels = size,
        .num_groups = (int)m->key / size, .gated = m->mlp_matrices == 3,
        .seq_length = (int)m->seq_length, .max_positions = (int)m->seq_length,
        .vocab_size = (int)m->vocab - 1, .padded_vocab_size = (int)m->vocab,
        .moe = { .experts = (int)m->experts, .topk = (int)m->topk,
                 .ffn_hidden_size = (int)m->expert_ffn, .shared_ffn = (int)m->shared_ffn,
                 .layers = m->expert_pattern },
    };
}

/* An argument of a case, or what it is otherwise. */
static const json_t *value (const json_t *args, const json_t *defaults, const char *name)
{
    const json_t *v = json_object_get (args, name);

    return v ? v : json_object_get (defaults, name);
}

static int64_t number (const json_t *args, const json_t *defaults, const char *name)
{
    return json_integer_value (value (args, defaults, name));
}

static bool is_true (const json_t *args, const json_t *defaults, const char *name)
{
    return json_is_true (value (args, defaults, name));
}

/* Is it a transformer without latent attention or other extras? */
static bool is_plain (const json_t *args, const json_t *defaults)
{
    static const char *const absent[]
        = { "mtp_num_layers", "moe_latent_size", "experimental_attention_variant",
            "hybrid_layer_pattern" };
    static const char *const off[]
        = { "multi_latent_attention", "attention_output_gate", "is_hybrid_model" };

    for (size_t i = 0; i < sizeof (absent) / sizeof (absent[0]); i++) {
        if (!json_is_null (value (args, defaults, absent[i])))
            return false;
    }
    for (size_t i = 0; i < sizeof (off) / sizeof (off[0]); i++) {
        if (is_true (args, defaults, off[i]))
            return false;
    }
    return true;
}

/* The experts of a case; 'list' is room for a list of layers. */
static void add_experts (struct sizes *m, const json_t *args, const json_t *defaults,
                         char *list, size_t size)
{
    const json_t *layers = value (args, defaults, "moe_layer_freq");
    struct model_moe moe;

    m->experts = number (args, defaults, "num_experts");
    m->topk = number (args, defaults, "moe_router_topk");
    m->expert_ffn = number (args, defaults, "moe_ffn_hidden_size");
    m->shared_ffn = number (args, defaults, "moe_shared_expert_intermediate_size");
    m->expert_pattern.every = (int)json_integer_value (layers);
    if (json_is_array (layers)) {
        size_t n = json_dumpb (layers, list, size - 1, JSON_COMPACT);

        if (n >= size)
            bail_out ("a list of %zu bytes", n);
        list[n] = '\0';
        m->expert_pattern.list = list;
    }
    moe = (struct model_moe){ .experts = (int)m->experts, .layers = m->expert_pattern };
    m->expert_layers = moe_num_layers (&moe, (int)m->layers);
}

static struct sizes sizes_of (const json_t *args, const json_t *defaults)
{
    int64_t size = number (args, defaults, "kv_channels");
    int64_t heads = number (args, defaults, "num_attention_heads");
    bool grouped = is_true (args, defaults, "group_query_attention");

    return (struct sizes){
        .layers = number (args, defaults, "num_layers"),
        .hidden = number (args, defaults, "hidden_size"),
        .seq_length = number (args, defaults, "seq_length"),
        .vocab = number (args, defaults, "padded_vocab_size"),
        .ffn = number (args, defaults, "ffn_hidden_size"),
        .mlp_matrices = is_true (args, defaults, "swiglu") ? 3 : 2,
        .query = heads * size,
        .key = (grouped ? number (args, defaults, "num_query_groups") : heads) * size,
    };
}

static double flops_of (const struct model_config *c)
{
    struct model_sizes sizes = { 0 };
    struct mg_error err;

    if (model_config_sizes (c, &sizes, &err) < 0)
        bail_out ("%s", err.text);
    return sizes.flops;
}

static void test_golden (void)
{
    char path[4096];
    json_t *golden, *defaults, *one;
    int plain = 0, experts = 0;
    char list[1000];
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/10_vocab_flops_memory.json")) {
        skip (1, "no reference data: %s", path);
        return;
    }
    if (!(golden = json_load_file (path, 0, NULL)))
        bail_out ("%s cannot be read", path);
    defaults = json_object_get (golden, "args_defaults");
    json_array_foreach (json_object_get (golden, "flops"), i, one) {
        const json_t *args = json_object_get (one, "args");
        struct sizes m = sizes_of (args, defaults);
        struct model_config c;
        const char *name = json_string_value (json_object_get (one, "name"));
        double want = json_number_value (json_object_get (one, "flops"));
        int64_t samples = json_integer_value (json_object_get (one, "batch_size"));

        if (!json_object_get (one, "flops") || !is_plain (args, defaults))
            continue;
        plain++;
        if (number (args, defaults, "num_experts") > 0) {
            add_experts (&m, args, defaults, list, sizeof (list));
            experts++;
        }
        c = config_of (&m, (int)number (args, defaults, "kv_channels"));
        is_near (formula (&m, samples) / want, 1, 1e-14, "%s: %.17g", name, want);
        is_near (flops_of (&c) * (double)samples / want, 1, 1e-14,
                 "its specifications count the same");
    }
    ok (plain >= 5 && experts >= 3, "%d cases of plain models, %d with experts", plain, experts);
    json_decref (golden);
}

/* Sizes that no golden case has; tied or not, the output layer is a product. */
static void test_formula (void)
{
    for (int i = 0; i < 20; i++) {
        uint32_t r[8];

        rng_philox (11, (uint32_t)i, 0, 0, r);
        rng_philox (11, (uint32_t)i, 1, 0, r + 4);

        const int size = 1 + (int)(r[0] % 130), heads = 1 + (int)(r[1] % 60);
        const struct sizes m = {
            .layers = 1 + r[2] % 100, .hidden = 1 + r[3] % 9000, .ffn = 1 + r[4] % 30000,
            .seq_length = 1 + r[5] % 9000, .vocab = 2 + r[6] % 200000,
            .mlp_matrices = 2 + i / 2 % 2, .query = size * heads,
            .key = i % 3 == 0 ? size : size * heads,
        };
        struct model_config c = config_of (&m, size);

        c.tied_embeddings = i % 2 == 0;
        is_near (flops_of (&c) / formula (&m, 1), 1, 1e-14, "sizes %d", i);
    }
}

/* A layer for multi-token prediction has a projection, three norms, a transformer layer, logits. */
static void test_mtp (void)
{
    const struct sizes m = { .layers = 3, .hidden = 24, .seq_length = 6, .vocab = 12, .ffn = 40,
                             .mlp_matrices = 2, .query = 20, .key = 20 };
    struct sizes more = m;
    struct model_config c = config_of (&m, 5);
    double tokens = 6, h = 24;

    c.positions = MODEL_ROPE;
    c.mtp_num_layers = 2;
    more.layers += 2;
    is_near (flops_of (&c),
             formula (&more, 1) + 6 * tokens * 2 * (3 * h + 2 * h * h + h * 12), 1e-6,
             "multi-token prediction");
}

/* A rank counts for its whole tensor-parallel group. */
static void test_ranks (void)
{
    const struct model_config config = {
        .num_layers = 3, .hidden_size = 24, .ffn_hidden_size = 40, .num_heads = 4,
        .kv_channels = 5, .seq_length = 6, .max_positions = 7, .vocab_size = 11,
        .padded_vocab_size = 12,
    };
    const struct nn_shape shape = { .batch = 2, .seq = 6, .tokens = 12, .whole_seq = 6,
                                    .rows = 12 };
    static const double want[GPT_NUM_LAYERS] = {
        [GPT_LAYER] = 12 * 2 * (4 * 20 * 24 + 2 * 40 * 24) + 4 * 2 * 18 * 20,
        [GPT_HEAD] = 12 * 2 * 12 * 24,
    };

    for (int tp = 1; tp <= 4; tp *= 2) {
        const struct nn nn = {
            .config = config, .tp_size = tp, .hidden = 24, .head_dim = 5, .head_dim_v = 5,
            .local_heads = 4 / tp, .local_attention = 20 / tp, .local_ffn = 40 / tp,
            .local_vocab = 12 / tp,
        };
        for (int i = 0; i <= GPT_LAYER; i++) {
            static struct layer_spec spec;
            struct mg_error err;

            if (i >= GPT_MTP_INPUT && i <= GPT_MTP_LAST)
                continue;
            if (gpt_spec ((enum gpt_layer)i, &nn, &shape, &spec, &err) < 0)
                bail_out ("%s", err.text);
            is_near (layer_flops (&spec, &nn, &shape), want[i], 0, "%d ranks: %s", tp, spec.name);
        }
    }
}

/* Of DeepSeek-V2's shape, small; by hand. */
static void test_latent (void)
{
    struct model_config c = {
        .num_layers = 1, .hidden_size = 10, .ffn_hidden_size = 7, .num_heads = 3,
        .kv_channels = 1, .seq_length = 4, .max_positions = 4, .vocab_size = 9,
        .padded_vocab_size = 9, .gated = true, .qk_norm = true,
        .latent = { .on = true, .kv_rank = 6, .qk_dim = 5, .rope_dim = 2, .v_dim = 4 },
    };
    double rest = 10 * 7 * 3 + 10 * 9 + (3 * 7 + 3 * 4) * 4 / 2.0;
    double kv = 6 * (10 + 3 * 9 + 1) + 10 * 2 + 3 * 4 * 10;

    is_near (flops_of (&c), 6 * 4 * (rest + kv + 10 * 3 * 7), 1e-9, "latents");
    c.latent.q_rank = 8;
    is_near (flops_of (&c), 6 * 4 * (rest + kv + 8 * (10 + 3 * 7 + 1)), 1e-9,
             "with one of queries");
}

/* Three sequences: the window begins to hide keys within the first one's rows, it hides most keys
 * from the second one's row, and it hides none from the third one's.
 */
static void test_cached (void)
{
    static const struct nn_sequence sequence[] = { { 0, 2, 4 }, { 1, 20, 1 }, { 2, 0, 2 } };
    const struct nn_shape shape = { .batch = 1, .seq = 7, .tokens = 7, .whole_seq = 7, .rows = 7,
                                    .sequence = sequence, .num_sequences = 3 };
    const struct phase phase = { .operand = { 0 } };
    struct nn nn = { .config = { .num_heads = 3, .window = { .on = true, .left = 3 } },
                     .head_dim = 5, .head_dim_v = 4 };
    static struct layer_spec spec;

    nn.cache.sequences = 3;
    nn.cache.length = 32;
    spec.tensor[0].shape[0] = 3 * 32;
    is_near (op_attention_cached.flops (&spec, &phase, &nn, &shape),
             2 * 3 * 9 * (4 * (2 + 2) + 20.5 + 2), 1e-9, "a cache without a window");
    spec.tensor[0].shape[0] = 3 * (3 + 7);
    is_near (op_attention_cached.flops (&spec, &phase, &nn, &shape),
             2 * 3 * 9 * ((2.5 + 3.5 + 4 + 4) + 4 + 2), 1e-9, "a window of four keys");
}

int main (void)
{
    const struct sizes gpt3 = { .layers = 96, .hidden = 12288, .seq_length = 2048,
                                .vocab = 51200, .ffn = 4 * 12288, .mlp_matrices = 2,
                                .query = 12288, .key = 12288 };
    const struct model_config config = config_of (&gpt3, 128);
    double h = 12288, s = 2048, v = 51200, layers = 96;
    double flops = 1536 * flops_of (&config);

    /* Narayanan et al. 2021, equation 2, with half of the scores and nothing computed again */
    is_near (flops / (72 * 1536 * s * layers * h * h
                      * (1 + s / (12 * h) + v / (12 * h * layers))),
             1, 1e-14, "GPT-3");
    is_near (flops / 3.3405978e18, 1, 1e-7, "is 3.34e18");
    test_formula ();
    test_mtp ();
    test_ranks ();
    test_latent ();
    test_cached ();
    test_golden ();
    return done_testing ();
}
