/* model - which layers the arguments ask for, and what does not go together */

#include <string.h>

#include "libcore/args/model.h"
#include "tests/tap/tap.h"

enum { MAX_WORDS = 8 };

struct row {
    const char *word[MAX_WORDS]; /* up to the first NULL */
    const char *text;            /* part of the message */
};

/* A model of 4 layers with these arguments. */
static int make (const char *const word[MAX_WORDS], struct model_config *m, struct mg_error *err)
{
    char *argv[MAX_WORDS + 1] = { (char *)"train" };
    struct train_args args;
    int argc = 1, rc;

    for (int i = 0; i < MAX_WORDS && word[i]; i++)
        argv[argc++] = (char *)word[i];
    *m = (struct model_config){ .num_layers = 4, .hidden_size = 64, .num_heads = 4,
                                .kv_channels = 16 };
    rc = train_args_read (argc, argv, &args, err);
    if (rc == 0)
        rc = train_model_variants (&args, m, err);
    train_args_clear (&args);
    return rc;
}

static void test_refusals (void)
{
    static const struct row rows[] = {
        { { "--normalization", "LayerNorm1p" }, "\"LayerNorm1p\": want LayerNorm or RMSNorm" },
        { { "--swiglu", "--squared-relu" }, "--swiglu and --squared-relu exclude" },
        { { "--geglu", "--quick-geglu" }, "--geglu and --quick-geglu exclude" },
        { { "--swiglu", "--exact-gelu" }, "--swiglu and --exact-gelu exclude" },
        { { "--glu-linear-offset", "1" }, "--glu-linear-offset wants a gate" },
        { { "--activation-func-clamp-value", "7", "--squared-relu" },
          "--activation-func-clamp-value wants a gate" },
        { { "--activation-func-clamp-value", "0" }, "0 is out of range" },
        { { "--num-query-groups", "2" }, "2 wants --group-query-attention" },
        { { "--window-size", "7" }, "--window-size \"7\": want LEFT,RIGHT" },
        { { "--window-size", "7,x" }, "\"x\" is not a whole number" },
        { { "--window-size", "-2,0" }, "-2 is out of range" },
        { { "--window-attn-skip-freq", "2" }, "wants --window-size" },
        { { "--window-size", "7,0", "--window-attn-skip-freq", "[1,0]" },
          "is of 2 layers, the model has 4" },
        { { "--position-embedding-type", "relative" }, "want learned_absolute, rope, yarn or" },
        { { "--no-rope-freq", "2" }, "--no-rope-freq wants --position-embedding-type rope" },
        { { "--position-embedding-type", "rope", "--no-rope-freq", "[1,1,1,2]" }, "want 0 or 1" },
        { { "--no-position-embedding" }, "wants --position-embedding-type rope, yarn or none" },
        { { "--use-rope-scaling" }, "--use-rope-scaling wants --position-embedding-type rope" },
        { { "--position-embedding-type", "yarn", "--use-rope-scaling" }, "exclude each other" },
        { { "--position-embedding-type", "yarn", "--rotary-interleaved" },
          "excludes --rotary-interleaved" },
        { { "--position-embedding-type", "yarn", "--rotary-percent", "0.5" },
          "excludes --rotary-percent below 1" },
        { { "--rotary-base", "0" }, "--rotary-base: 0 is out of range" },
        { { "--rotary-seq-len-interpolation-factor", "0.5" }, "0.5 is out of range" },
        { { "--rope-scaling-factor", "0" }, "0 is out of range" },
        { { "--rope-scaling-low-freq-factor", "0" }, "0 is out of range" },
        { { "--rope-scaling-high-freq-factor", "0" }, "0 is out of range" },
        { { "--rope-scaling-original-max-position-embeddings", "0" }, "0 is out of range" },
        { { "--position-embedding-type=rope", "--use-rope-scaling",
            "--rope-scaling-high-freq-factor=1" }, "1 is not above" },
        { { "--rotary-scaling-factor", "0" }, "0 is out of range" },
        { { "--yarn-original-max-position-embeddings", "0" }, "0 is out of range" },
        { { "--yarn-beta-fast", "0" }, "0 is out of range" },
        { { "--yarn-beta-slow", "0" }, "0 is out of range" },
        { { "--mscale", "-1" }, "-1 is out of range" },
        { { "--mscale-all-dim", "-1" }, "-1 is out of range" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct model_config m;
        struct mg_error err = { "" };

        ok (make (rows[i].word, &m, &err) < 0 && strstr (err.text, rows[i].text), "%s: %s",
            rows[i].word[0], err.text);
    }
}

#define MAKE(m, ...) make ((const char *const[MAX_WORDS]){ __VA_ARGS__ }, &(m), &err)

static void test_activations (void)
{
    struct mg_error err = { "" };
    struct model_config m;

    ok (MAKE (m, NULL) == 0 && !m.gated && m.activation == KERN_GELU_TANH
            && m.norm == KERN_LAYER_NORM && m.positions == MODEL_LEARNED && !m.window.on
            && m.num_groups == 0,
        "GPT-2's layer by default %s", err.text);
    ok (MAKE (m, "--swiglu", "--glu-linear-offset", "1", "--activation-func-clamp-value=7") == 0
            && m.gated && m.activation == KERN_SILU && m.glu_offset == 1
            && m.activation_clamp == 7, "SwiGLU %s", err.text);
    ok (MAKE (m, "--geglu", "--exact-gelu") == 0 && m.gated && m.activation == KERN_GELU,
        "GeGLU %s", err.text);
    ok (MAKE (m, "--geglu") == 0 && m.gated && m.activation == KERN_GELU_TANH, "its tanh form");
    ok (MAKE (m, "--quick-geglu") == 0 && m.gated && m.activation == KERN_QUICK_GELU,
        "quick GeGLU");
    ok (MAKE (m, "--squared-relu") == 0 && !m.gated && m.activation == KERN_SQUARED_RELU,
        "squared ReLU");
    ok (MAKE (m, "--exact-gelu") == 0 && !m.gated && m.activation == KERN_GELU, "exact GeLU");
}

static void test_attention (void)
{
    struct mg_error err = { "" };
    struct model_config m;

    ok (MAKE (m, "--group-query-attention") == 0 && m.num_groups == 1, "one group by default");
    ok (MAKE (m, "--group-query-attention", "--num-query-groups=2", "--qk-layernorm",
              "--disable-bias-linear", "--add-qkv-bias", "--normalization=RMSNorm",
              "--apply-layernorm-1p") == 0
            && m.num_groups == 2 && m.qk_norm && m.no_linear_bias && m.qkv_bias
            && m.norm == KERN_RMS_NORM && m.norm_1p, "two groups, norms, biases %s", err.text);
    ok (MAKE (m, "--window-size", "(7, 0)", "--window-attn-skip-freq", "2") == 0 && m.window.on
            && m.window.left == 7 && m.window.right == 0
            && pattern_at (&m.window.layers, 0, false) && !pattern_at (&m.window.layers, 1, false),
        "a window on each other layer %s", err.text);
    ok (MAKE (m, "--window-size=-1,3") == 0 && m.window.left == -1 && m.window.right == 3,
        "a window without a bound");
}

static void test_positions (void)
{
    struct mg_error err = { "" };
    struct model_config m;

    ok (MAKE (m, "--position-embedding-type=rope", "--rotary-base", "500000",
              "--rotary-percent=0.5", "--rotary-interleaved",
              "--rotary-seq-len-interpolation-factor=2", "--no-rope-freq", "2") == 0
            && m.positions == MODEL_ROPE && m.rope.base == 500000 && m.rope.percent == 0.5
            && m.rope.interleaved && m.rope.interpolation == 2
            && pattern_at (&m.no_rope, 1, true) && !pattern_at (&m.no_rope, 2, true),
        "rotary positions %s", err.text);
    ok (MAKE (m, "--use-rotary-position-embeddings", "--use-rope-scaling",
              "--rope-scaling-factor=4") == 0
            && m.positions == MODEL_ROPE && m.rope.scaling == ROPE_LLAMA3 && m.rope.factor == 4
            && m.rope.original == 8192 && m.rope.low == 1 && m.rope.high == 4,
        "Llama 3.1's scaling %s", err.text);
    ok (MAKE (m, "--position-embedding-type=rope", "--no-position-embedding") == 0
            && m.positions == MODEL_ROPE, "no learned positions");
    ok (MAKE (m, "--position-embedding-type=rope", "--use-rope-scaling",
              "--rope-scaling-low-freq-factor=2", "--rope-scaling-high-freq-factor=3",
              "--rope-scaling-original-max-position-embeddings=64") == 0
            && m.rope.low == 2 && m.rope.high == 3 && m.rope.original == 64,
        "of other numbers %s", err.text);
    ok (MAKE (m, "--position-embedding-type=yarn", "--rotary-scaling-factor=40",
              "--yarn-original-max-position-embeddings=2048", "--yarn-beta-fast=16",
              "--yarn-beta-slow=2", "--mscale=0.7", "--mscale-all-dim=0.5",
              "--no-yarn-correction-range-round-to-int") == 0
            && m.positions == MODEL_ROPE && m.rope.scaling == ROPE_YARN && m.rope.factor == 40
            && m.rope.original == 2048 && m.rope.beta_fast == 16 && m.rope.beta_slow == 2
            && m.rope.mscale == 0.7 && m.rope.mscale_all_dim == 0.5 && m.rope.exact_range,
        "YaRN %s", err.text);
    ok (MAKE (m, "--position-embedding-type", "none") == 0
            && m.positions == MODEL_NO_POSITIONS, "no positions");
}

/* Every kind of norm has a name, which the help of --normalization has, too. */
static void test_norms (void)
{
    const char *help = train_arg_find ("normalization")->info->help;
    struct model_config m;
    struct mg_error err = { "" };

    for (int i = 0; i < KERN_NUM_NORMS; i++) {
        const char *name = kern_norm_kinds[i].name;

        ok (MAKE (m, "--normalization", name) == 0 && m.norm == (enum kern_norm)i
                && strstr (help, name), "%s %s", name, err.text);
    }
}

int main (void)
{
    test_refusals ();
    test_norms ();
    test_activations ();
    test_attention ();
    test_positions ();
    return done_testing ();
}
