/* Operations of an iteration, against Megatron-LM's own count. */

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "libcore/train/throughput.h"
#include "tests/tap/tap.h"

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

/* Is it a transformer without experts, latent attention or other extras? */
static bool is_plain (const json_t *args, const json_t *defaults)
{
    static const char *const absent[]
        = { "num_experts", "mtp_num_layers", "experimental_attention_variant",
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

static struct throughput_model model_of (const json_t *args, const json_t *defaults)
{
    const struct model_config config = {
        .num_layers = (int)number (args, defaults, "num_layers"),
        .hidden_size = (int)number (args, defaults, "hidden_size"),
        .seq_length = (int)number (args, defaults, "seq_length"),
        .padded_vocab_size = (int)number (args, defaults, "padded_vocab_size"),
        .ffn_hidden_size = (int)number (args, defaults, "ffn_hidden_size"),
        .gated = is_true (args, defaults, "swiglu"),
        .num_heads = (int)number (args, defaults, "num_attention_heads"),
        .num_groups = is_true (args, defaults, "group_query_attention")
                          ? (int)number (args, defaults, "num_query_groups") : 0,
        .kv_channels = (int)number (args, defaults, "kv_channels"),
    };

    return throughput_model (&config);
}

/* Of DeepSeek-V2's shape, small; by hand. */
static void test_latent (void)
{
    struct model_config c = {
        .num_layers = 1, .hidden_size = 10, .ffn_hidden_size = 7, .num_heads = 3,
        .seq_length = 4, .padded_vocab_size = 9, .gated = true,
        .latent = { .on = true, .kv_rank = 6, .qk_dim = 5, .rope_dim = 2, .v_dim = 4 },
    };
    struct throughput_model m = throughput_model (&c);
    double rest = 10 * 7 * 3 + 10 * 9 + (3 * 7 + 3 * 4) * 4 / 2.0;
    double kv = 6 * (10 + 3 * 9 + 1) + 10 * 2 + 3 * 4 * 10;

    is_near (throughput_operations (&m, 1), 6 * 4 * (rest + kv + 10 * 3 * 7), 1e-9, "latents");
    c.latent.q_rank = 8;
    m = throughput_model (&c);
    is_near (throughput_operations (&m, 1), 6 * 4 * (rest + kv + 8 * (10 + 3 * 7 + 1)), 1e-9,
             "with one of queries");
}

static void test_golden (void)
{
    char path[4096];
    json_t *golden, *defaults, *one;
    int plain = 0;
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
        struct throughput_model m = model_of (args, defaults);
        double want = json_number_value (json_object_get (one, "flops"));
        double got = throughput_operations (
            &m, json_integer_value (json_object_get (one, "batch_size")));

        if (!json_object_get (one, "flops") || !is_plain (args, defaults))
            continue;
        plain++;
        is_near (got / want, 1, 1e-14, "%s: %.17g",
                 json_string_value (json_object_get (one, "name")), got);
    }
    ok (plain >= 5, "%d cases of plain models", plain);
    json_decref (golden);
}

int main (void)
{
    const struct model_config config = {
        .num_layers = 96, .hidden_size = 12288, .ffn_hidden_size = 4 * 12288,
        .num_heads = 96, .kv_channels = 128, .seq_length = 2048, .padded_vocab_size = 51200,
    };
    struct throughput_model gpt3 = throughput_model (&config);
    double h = 12288, s = 2048, v = 51200, layers = 96;

    /* Narayanan et al. 2021, equation 2, with half of the scores and nothing computed again */
    is_near (throughput_operations (&gpt3, 1536)
                 / (72 * 1536 * s * layers * h * h
                    * (1 + s / (12 * h) + v / (12 * h * layers))),
             1, 1e-14, "GPT-3");
    is_near (throughput_operations (&gpt3, 1536) / 3.3405978e18, 1, 1e-7, "is 3.34e18");
    is_near (throughput_operations (&gpt3, 0), 0, 0, "nothing of nothing");
    test_latent ();
    test_golden ();
    return done_testing ();
}
