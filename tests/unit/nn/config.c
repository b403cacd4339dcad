/* Rules of a model's sizes. */

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "libcore/nn/config.h"
#include "tests/tap/tap.h"

static struct model_config good (void)
{
    return (struct model_config){
        .num_layers = 4,
        .hidden_size = 64,
        .ffn_hidden_size = 256,
        .num_heads = 4,
        .kv_channels = 16,
        .seq_length = 32,
        .max_positions = 32,
        .vocab_size = 257,
        .padded_vocab_size = 512,
    };
}

static int validate (const struct model_config *c, int tp, bool sequence_parallel,
                     struct mg_error *err)
{
    const struct model_layout layout = { .tp = tp, .cp = 1,
                                         .sequence_parallel = sequence_parallel };

    return model_config_validate (c, &layout, err);
}

/* Exchanges of context-parallel ranks: all words count, with the number of heads. */
static void test_context (void)
{
    static char p2p[] = "p2p", a2a[] = "a2a", *const rest[] = { p2p, a2a, p2p };
    const struct model_config c = good ();
    struct model_layout layout = { .tp = 2, .cp = 2, .context = { "p2p", rest, 4, 0, 0 } };
    struct mg_error err = { "" };

    is_int (model_config_validate (&c, &layout, &err), 0, "4 heads over tp 2 and cp 2 %s",
            err.text);
    layout.cp = 4;
    ok (model_config_validate (&c, &layout, &err) < 0
            && strstr (err.text, "num-attention-heads 4 is not a multiple of tp 2 x cp 4"),
        "not over cp 4: %s", err.text);
    layout.context.count = 2;
    ok (model_config_validate (&c, &layout, &err) < 0 && strstr (err.text, "has 2 words"), "%s",
        err.text);
}

struct row {
    const char *what;
    int tp;
    const char *text; /* part of the message, NULL: legal */
    size_t offset;    /* of an int field to change */
    int value;
    bool sequence_parallel;
};

#define FIELD(f) offsetof (struct model_config, f)

static const struct row rows[] = {
    { "as it is", 1, NULL, FIELD (num_layers), 4, false },
    { "tp 4", 4, NULL, FIELD (num_layers), 4, false },
    { "heads", 3, "num-attention-heads 4", FIELD (num_layers), 4, false },
    { "heads over tp", 8, "num-attention-heads 4", FIELD (num_layers), 4, false },
    { "ffn", 4, "ffn-hidden-size 254", FIELD (ffn_hidden_size), 254, false },
    { "padded vocabulary", 4, "padded-vocab-size 510", FIELD (padded_vocab_size), 510, false },
    { "vocabulary over padded", 1, "vocab-size 513", FIELD (vocab_size), 513, false },
    { "vocabulary equal padded", 1, NULL, FIELD (vocab_size), 512, false },
    { "most layers", 1, NULL, FIELD (num_layers), 1 << 16, false },
    { "too many layers", 1, "num-layers is 65537, want 1 to 65536", FIELD (num_layers),
      (1 << 16) + 1, false },
    { "sequence over positions", 1, "seq-length 33", FIELD (seq_length), 33, false },
    { "sequence", 4, NULL, FIELD (seq_length), 30, false },
    { "sequence, sequence-parallel", 4, "seq-length 30 is not a multiple of tp 4",
      FIELD (seq_length), 30, true },
    { "longer, sequence-parallel", 4, NULL, FIELD (seq_length), 28, true },
    { "zero hidden", 1, "hidden-size is 0, want 1 to", FIELD (hidden_size), 0, false },
    { "negative sequence", 1, "seq-length is -1", FIELD (seq_length), -1, false },
    { "groups", 4, "neither divides the other", FIELD (num_groups), 3, false },
    { "fewer groups than ranks", 4, NULL, FIELD (num_groups), 2, false },
    { "huge heads", 1, "x kv-channels", FIELD (kv_channels), 1 << 23, false },
};

/* Every size is legal, but sums of their products are not. */
static void test_total (void)
{
    struct model_config c = good ();
    struct mg_error err = { "" };

    c.num_layers = 1 << 16;
    c.hidden_size = c.ffn_hidden_size = 1 << 24;
    ok (validate (&c, 1, false, &err) < 0 && strstr (err.text, "the model has"),
        "products that overflow: %s", err.text);
    c.num_layers = 4;
    is_int (validate (&c, 1, false, &err), 0, "just below");
}

/* A layout in which experts are spread. */
static int validate_experts (const struct model_config *c, int ep, int etp, struct mg_error *err)
{
    const struct model_layout layout = { .tp = 2, .cp = 1, .ep = ep, .etp = etp,
                                         .sequence_parallel = true };

    return model_config_validate (c, &layout, err);
}

static struct model_config with_experts (void)
{
    struct model_config c = good ();

    c.no_linear_bias = true;
    c.moe = (struct model_moe){ .experts = 8, .ffn_hidden_size = 24, .topk = 2 };
    return c;
}

static const struct {
    const char *text; /* part of the message, NULL: legal */
    struct model_moe moe;
} moe_rows[] = {
    { NULL, { .experts = 8, .ffn_hidden_size = 24, .topk = 8 } },
    { NULL, { .experts = 8, .ffn_hidden_size = 24, .topk = 1, .score = KERN_SIGMOID,
              .probs_on_input = true } },
    { "moe-apply-probs-on-input needs moe-router-topk 1, not 2",
      { .experts = 8, .ffn_hidden_size = 24, .topk = 2, .probs_on_input = true } },
    { "num-experts is -1, want 1 to", { .experts = -1 } },
    { "moe-ffn-hidden-size is 0", { .experts = 8, .topk = 2 } },
    { "moe-router-topk is 0", { .experts = 8, .ffn_hidden_size = 4 } },
    { "moe-router-topk 9 is more than", { .experts = 8, .ffn_hidden_size = 4, .topk = 9 } },
    { "moe-router-group-topk is 0, want 1",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .num_groups = 4 } },
    { "num-experts 8 is not a multiple of moe-router-num-groups 3",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .num_groups = 3, .group_topk = 1 } },
    { "moe-router-group-topk 5 is more than moe-router-num-groups 4",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 6, .num_groups = 4, .group_topk = 5 } },
    { "moe-router-topk 2 is less than moe-router-group-topk 3",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .num_groups = 4, .group_topk = 3 } },
    { "moe-router-topk 3 is more than the 2 experts of",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 3, .num_groups = 4, .group_topk = 1 } },
    { "moe-router-topk 1 needs moe-router-pre-softmax",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 1 } },
    { NULL, { .experts = 8, .ffn_hidden_size = 4, .topk = 1, .score = KERN_SOFTMAX } },
    { NULL, { .experts = 8, .ffn_hidden_size = 4, .topk = 1, .choice = MOE_SINKHORN } },
    { "moe-router-enable-expert-bias needs",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .expert_bias = true } },
    { NULL, { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .expert_bias = true,
              .score = KERN_SQRT_SOFTPLUS } },
    { "quantile_balancing excludes moe-router-enable-expert-bias",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .expert_bias = true,
        .score = KERN_SIGMOID, .choice = MOE_QUANTILE } },
    { "sinkhorn excludes moe-expert-capacity-factor",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .capacity_factor = 1,
        .choice = MOE_SINKHORN } },
    { "quantile_balancing excludes moe-router-num-groups",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .num_groups = 2, .group_topk = 1,
        .choice = MOE_QUANTILE } },
    { "sinkhorn has no auxiliary loss",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .aux_coeff = { 0, 1, 0 },
        .choice = MOE_SINKHORN } },
    { "quantile_balancing needs moe-router-topk 8 to be less",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 8, .choice = MOE_QUANTILE } },
    { NULL, { .experts = 8, .ffn_hidden_size = 4, .topk = 7, .choice = MOE_QUANTILE } },
    { "moe-pad-expert-input-to-capacity needs moe-expert-capacity-factor",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .pad_to_capacity = true } },
    { "moe-shared-expert-gate needs moe-shared-expert-intermediate-size",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .shared_gate = true } },
    { "moe-shared-expert-overlap needs moe-shared-expert-intermediate-size",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .shared_overlap = true } },
    { "moe-shared-expert-overlap needs moe-token-dispatcher-type alltoall",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .shared_ffn = 4, .shared_overlap = true } },
    { NULL, { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .shared_ffn = 4,
              .shared_overlap = true, .dispatch = MOE_ALL_TO_ALL } },
    { "moe-shared-expert-overlap and moe-latent-size exclude each other",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .shared_ffn = 4, .latent = 3,
        .shared_overlap = true, .dispatch = MOE_ALL_TO_ALL } },
    { "moe-shared-expert-intermediate-size 5 is not a multiple of tp 2",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .shared_ffn = 5 } },
    { "moe-latent-size is -1",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .latent = -1 } },
    { "moe-z-loss-coeff is -1, want 0 to",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .z_coeff = -1 } },
    { "moe-router-quantile-balancing-ema is 2, want 0 to 1",
      { .experts = 8, .ffn_hidden_size = 4, .topk = 2, .quantile_ema = 2 } },
    { "the model has", { .experts = 1 << 24, .ffn_hidden_size = 1 << 24, .topk = 2 } },
};

static void test_experts (void)
{
    struct mg_error err = { "" };

    for (size_t i = 0; i < sizeof (moe_rows) / sizeof (moe_rows[0]); i++) {
        struct model_config c = with_experts ();
        int rc;

        c.moe = moe_rows[i].moe;
        err.text[0] = '\0';
        rc = validate_experts (&c, 1, 1, &err);
        ok ((rc == 0) == !moe_rows[i].text
                && (rc == 0 || strstr (err.text, moe_rows[i].text)), "experts, row %d: %s", (int)i,
            rc == 0 ? "legal" : err.text);
    }
}

static void test_expert_grid (void)
{
    struct model_config c = with_experts ();
    const struct model_layout plain = { .tp = 2, .cp = 1, .etp = 1 };
    struct mg_error err = { "" };

    is_int (validate_experts (&c, 4, 2, &err), 0, "ep 4, etp 2 %s", err.text);
    ok (validate_experts (&c, 3, 1, &err) < 0
            && strstr (err.text, "num-experts 8 is not a multiple of ep 3"), "%s", err.text);
    ok (validate_experts (&c, 1, 5, &err) < 0
            && strstr (err.text, "moe-ffn-hidden-size 24 is not a multiple of etp 5"), "%s",
        err.text);
    ok (model_config_validate (&c, &plain, &err) < 0
            && strstr (err.text, "needs --sequence-parallel"), "%s", err.text);
    c.ffn_hidden_size = 255;
    is_int (validate_experts (&c, 1, 1, &err), 0, "no layer has the MLP %s", err.text);
    c.moe.layers.every = 2;
    ok (validate_experts (&c, 1, 1, &err) < 0
            && strstr (err.text, "ffn-hidden-size 255 is not a multiple of tp 2"), "%s", err.text);
    c.moe.layers = (struct pattern){ .list = "[1]*4" };
    is_int (validate_experts (&c, 1, 1, &err), 0, "a list of all layers %s", err.text);
    c = with_experts ();
    c.no_linear_bias = false;
    is_int (validate_experts (&c, 4, 1, &err), 0, "biases with etp 1");
    ok (validate_experts (&c, 4, 2, &err) < 0 && strstr (err.text, "needs --disable-bias-linear"),
        "%s", err.text);
    c.moe.shared_ffn = 8;
    ok (validate_experts (&c, 1, 1, &err) < 0
            && strstr (err.text, "shared experts have no biases"), "%s", err.text);
}

static void test_mtp (void)
{
    struct model_config c = good ();
    struct mg_error err = { "" };

    rope_config_init (&c.rope);
    c.mtp_num_layers = 1;
    ok (validate (&c, 1, false, &err) < 0
            && strstr (err.text, "mtp-num-layers 1 needs position-embedding-type rope or none"),
        "learned positions: %s", err.text);
    c.positions = MODEL_NO_POSITIONS;
    is_int (validate (&c, 1, false, &err), 0, "none");
    c.positions = MODEL_ROPE;
    is_int (validate (&c, 1, false, &err), 0, "rotary ones %s", err.text);
    c.mtp_scaling_factor = -1;
    ok (validate (&c, 1, false, &err) < 0 && strstr (err.text, "mtp-loss-scaling-factor is -1"),
        "%s", err.text);
    c.mtp_scaling_factor = 0.1;
    c.rope.scaling = ROPE_YARN;
    ok (validate (&c, 1, false, &err) < 0 && strstr (err.text, "needs position-embedding-type"),
        "YaRN: %s", err.text);
    c.mtp_num_layers = -1;
    ok (validate (&c, 1, false, &err) < 0 && strstr (err.text, "mtp-num-layers is -1"), "%s",
        err.text);
}

static void refused (const struct model_config *c, int tp, const char *text)
{
    struct mg_error err = { "" };

    ok (validate (c, tp, false, &err) < 0 && strstr (err.text, text), "%s",
        err.text);
}

static void test_latent (void)
{
    struct model_config c = good ();
    struct mg_error err = { "" };

    rope_config_init (&c.rope);
    c.latent = (struct model_latent){ .on = true, .kv_rank = 10, .qk_dim = 7, .rope_dim = 6,
                                      .v_dim = 5 };
    is_int (validate (&c, 4, false, &err), 0, "latents %s", err.text);
    is_int (model_key_dim (&c) * 100 + model_value_dim (&c), 1305, "sizes of heads");
    is_int (model_rope_pairs (&c), 3, "pairs");
    c.latent.rope_dim = 5;
    refused (&c, 1, "want pairs that the head has room for");
    c.latent.rope_dim = 6;
    c.latent.kv_rank = 0;
    refused (&c, 1, "kv-lora-rank is 0, want 1 to");
    c.latent.kv_rank = 10;
    c.latent.v_dim = 1 << 23;
    refused (&c, 1, "the larger of qk-pos-emb-head-dim and v-head-dim");
    c.latent.v_dim = 5;
    c.rope.interleaved = true;
    refused (&c, 1, "rotary-interleaved does not work");
    c = good ();
    c.num_groups = 1;
    c.kv_channels = 1;
    refused (&c, 4, "rows of queries, keys and values");
}

int main (void)
{
    test_latent ();
    test_context ();
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct model_config c = good ();
        struct mg_error err = { "" };
        int rc;

        memcpy ((char *)&c + rows[i].offset, &rows[i].value, sizeof (int));
        rc = validate (&c, rows[i].tp, rows[i].sequence_parallel, &err);
        if (!rows[i].text)
            is_int (rc, 0, "%s: legal %s", rows[i].what, err.text);
        else
            ok (rc < 0 && strstr (err.text, rows[i].text), "%s: %s", rows[i].what, err.text);
    }
    test_total ();
    is_int (model_padded_vocab (50257, 128, 1), 50304, "GPT-2's vocabulary at tp 1");
    is_int (model_padded_vocab (50257, 128, 8), 51200, "and at tp 8");
    is_int (model_padded_vocab (128, 128, 1), 128, "nothing to pad");
    is_int (model_padded_vocab (129, 128, 1), 256, "one over");
    is_int (model_padded_vocab (INT_MAX, 128, 2), 0, "too large is 0");
    test_experts ();
    test_expert_grid ();
    test_mtp ();
    return done_testing ();
}
