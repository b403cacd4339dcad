/* model_moe - which experts the arguments ask for, and what does not go together */

#include <string.h>

#include "libcore/train/config.h"
#include "libcore/args/model.h"
#include "tests/tap/tap.h"

enum { MAX_WORDS = 12 };

/* A model of 4 layers with 8 experts and these arguments; 'args' must be cleared. */
static int make (const char *const word[MAX_WORDS], struct train_args *args,
                 struct model_config *m, struct mg_error *err)
{
    static char *argv[MAX_WORDS + 2] = { (char *)"train", (char *)"--num-experts=8" };
    int argc = 2;

    for (int i = 0; i < MAX_WORDS && word[i]; i++)
        argv[argc++] = (char *)word[i];
    *m = (struct model_config){ .num_layers = 4, .hidden_size = 64, .ffn_hidden_size = 96,
                                .num_heads = 4, .kv_channels = 16 };
    err->text[0] = '\0';
    if (train_args_read (argc, argv, args, err) < 0)
        return -1;
    return train_model_moe (args, m, err);
}

static const struct {
    const char *word[MAX_WORDS];
    const char *text; /* part of the message */
} refusals[] = {
    { { "--moe-router-load-balancing-type" }, "--moe-router-load-balancing-type wants a value" },
    { { "--moe-router-load-balancing-type=aux" }, "\"aux\": want aux_loss, seq_aux_loss," },
    { { "--moe-router-load-balancing-type", "aux_loss", "seq_aux_loss" },
      "--moe-aux-loss-coeff has 0 numbers, --moe-router-load-balancing-type has 2 types" },
    { { "--moe-router-load-balancing-type", "aux_loss", "seq_aux_loss", "--moe-aux-loss-coeff",
        "1" }, "has 1 number, --moe-router-load-balancing-type has 2 types: want one for each" },
    { { "--moe-aux-loss-coeff", "1", "2" }, "has 2 numbers, " },
    { { "--moe-aux-loss-coeff", "1", "2", "3", "4", "5", "6", "7", "8" }, "has 8 numbers, " },
    { { "--moe-aux-loss-coeff", "much" }, "--moe-aux-loss-coeff: \"much\" is not a number" },
    { { "--moe-aux-loss-coeff=0.100000000000000000000000000000000000e-8" },
      "--moe-aux-loss-coeff: \"0.100000000000000000000000000000000000e...\" is too long" },
    { { "--moe-aux-loss-coeff", "1", " " }, "--moe-aux-loss-coeff: the value is empty" },
    { { "--moe-router-load-balancing-type= " }, "load-balancing-type: the value is empty" },
    { { "--moe-aux-loss-coeff=-1" }, "--moe-aux-loss-coeff: -1 is out of range" },
    { { "--moe-router-load-balancing-type", "aux_loss", "aux_loss", "--moe-aux-loss-coeff", "1",
        "2" }, "aux_loss stands twice" },
    { { "--moe-router-load-balancing-type", "aux_loss", "sinkhorn", "--moe-aux-loss-coeff", "1",
        "0" }, "sinkhorn stands alone" },
    { { "--moe-router-load-balancing-type", "quantile_balancing", "none",
        "--moe-aux-loss-coeff", "0", "0" }, "quantile_balancing stands alone" },
    { { "--moe-router-load-balancing-type=sinkhorn", "--moe-aux-loss-coeff=0.5" },
      "--moe-aux-loss-coeff 0.5: sinkhorn has no auxiliary loss, want 0" },
    { { "--moe-router-load-balancing-type=quantile_balancing", "--moe-aux-loss-coeff=0.5" },
      "quantile_balancing has no auxiliary loss" },
    { { "--moe-router-score-function=relu" },
      "--moe-router-score-function \"relu\": want softmax, sigmoid or sqrtsoftplus" },
    { { "--moe-router-dtype=bf16" }, "--moe-router-dtype \"bf16\": want fp32 or fp64" },
    { { "--moe-token-dispatcher-type=pigeon" },
      "--moe-token-dispatcher-type \"pigeon\": want allgather, alltoall or flex" },
    { { "--moe-token-drop-policy=last" }, "\"last\": want probs or position" },
    { { "--moe-expert-capacity-factor=0" }, "--moe-expert-capacity-factor 0 drops every token" },
    { { "--moe-layer-freq=[1,0]" }, "--moe-layer-freq \"[1,0]\" is of 2 layers, the model has 4" },
    { { "--moe-layer-freq=0" }, "--moe-layer-freq: 0 is out of range" },
    { { "--moe-layer-freq=[1,2,1,1]" }, "want 0 or 1" },
    { { "--moe-router-topk=0" }, "--moe-router-topk: 0 is out of range" },
    { { "--moe-ffn-hidden-size=0" }, "0 is out of range" },
    { { "--moe-shared-expert-intermediate-size=0" }, "0 is out of range" },
    { { "--moe-latent-size=0" }, "0 is out of range" },
    { { "--moe-z-loss-coeff=-1" }, "-1 is out of range" },
    { { "--moe-input-jitter-eps=1" }, "1 is out of range" },
    { { "--moe-router-quantile-balancing-ema=1.5" }, "1.5 is out of range" },
    { { "--moe-expert-rank-capacity-factor=0" }, "0 is out of range" },
    { { "--mtp-loss-scaling-factor=-1" }, "-1 is out of range" },
    { { "--num-experts=0", "--moe-shared-expert-intermediate-size=4" },
      "--moe-shared-expert-intermediate-size wants --num-experts" },
    { { "--num-experts=0", "--moe-router-enable-expert-bias" }, "wants --num-experts" },
    { { "--num-experts=0", "--moe-layer-freq=2" }, "--moe-layer-freq wants --num-experts" },
    { { "--num-experts=0", "--moe-router-group-topk=2" }, "wants --num-experts" },
    { { "--num-experts=0", "--moe-expert-capacity-factor=2" }, "wants --num-experts" },
    { { "--num-experts=0", "--moe-use-upcycling" }, "wants --num-experts" },
    { { "--num-experts=0", "--moe-apply-probs-on-input" }, "wants --num-experts" },
    { { "--num-experts=0", "--moe-router-score-function=relu" }, "want softmax, sigmoid" },
};

static void test_refusals (void)
{
    for (size_t i = 0; i < sizeof (refusals) / sizeof (refusals[0]); i++) {
        struct train_args args;
        struct model_config m;
        struct mg_error err;
        int rc = make (refusals[i].word, &args, &m, &err);

        ok (rc < 0 && strstr (err.text, refusals[i].text) && !strchr (err.text, '\n'), "%s: %s",
            refusals[i].word[0], err.text);
        train_args_clear (&args);
    }
}

#define MAKE(m, ...) \
    make ((const char *const[MAX_WORDS]){ __VA_ARGS__ }, &args, &(m), &err)

static void test_defaults (void)
{
    struct train_args args;
    struct model_config c;
    struct mg_error err;
    const struct model_moe *m = &c.moe;

    ok (MAKE (c, NULL) == 0 && m->experts == 8 && m->ffn_hidden_size == 96 && m->topk == 2
            && m->choice == MOE_TOPK && m->score == KERN_SOFTMAX_CHOSEN && m->num_groups == 0
            && m->scaling_factor == 0 && !m->wide_router, "the router %s", err.text);
    ok (m->aux_coeff[MOE_AUX_LOSS] == 0 && m->z_coeff == 0 && m->bias_update_rate == 0.001
            && m->quantile_ema == 0 && m->jitter == 0, "losses");
    ok (m->capacity_factor == 0 && !m->drop_by_position && m->shared_ffn == 0 && m->latent == 0
            && m->dispatch == MOE_ALL_GATHER && m->rank_capacity_factor == 2, "the rest");
    ok (args.mtp_layers == 0 && args.mtp_scaling_factor == 0.1
            && args.moe.upcycling_granularity == 1, "other arguments");
    is_int (moe_num_layers (m, 4), 4, "all layers have experts");
    ok (MAKE (c, "--num-experts=0", "--moe-router-topk=3") == 0 && m->experts == 0
            && m->topk == 0, "without experts nothing is set");
}

static void test_router (void)
{
    struct train_args args;
    struct model_config c;
    struct mg_error err;
    const struct model_moe *m = &c.moe;

    ok (MAKE (c, "--moe-router-pre-softmax") == 0 && m->score == KERN_SOFTMAX, "pre-softmax");
    ok (MAKE (c, "--moe-router-score-function=sigmoid", "--moe-router-enable-expert-bias",
              "--moe-router-bias-update-rate=0.02", "--moe-router-pre-softmax") == 0
            && m->score == KERN_SIGMOID && m->expert_bias && m->bias_update_rate == 0.02,
        "sigmoid, with a bias");
    ok (MAKE (c, "--moe-router-score-function=sqrtsoftplus") == 0
            && m->score == KERN_SQRT_SOFTPLUS, "square root of softplus");
    ok (MAKE (c, "--moe-router-num-groups=4", "--moe-router-group-topk=2",
              "--moe-router-topk-scaling-factor=2.5", "--moe-router-dtype=fp64") == 0
            && m->num_groups == 4 && m->group_topk == 2 && m->scaling_factor == 2.5
            && m->wide_router, "groups");
    ok (MAKE (c, "--moe-router-num-groups=4") == 0 && m->num_groups == 0,
        "a number of groups alone has no effect");
    ok (MAKE (c, "--moe-input-jitter-eps=0.01", "--moe-z-loss-coeff=0.001",
              "--moe-router-force-load-balancing", "--moe-router-quantile-balancing-ema=0.5",
              "--moe-router-load-balancing-type=quantile_balancing") == 0
            && m->jitter == 0.01 && m->z_coeff == 0.001 && m->force_balance
            && m->forced_bias == 0 && m->choice == MOE_QUANTILE && m->quantile_ema == 0.5,
        "quantile balancing");
    ok (MAKE (c, "--moe-router-force-biased=-1.5") == 0 && m->forced_bias == -1.5
            && !m->force_balance, "a forced bias");
}

static void test_balancing (void)
{
    struct train_args args;
    struct model_config c;
    struct mg_error err;
    const struct model_moe *m = &c.moe;
    const double *coeff = m->aux_coeff;

    ok (MAKE (c, "--moe-aux-loss-coeff", "0.01") == 0 && coeff[MOE_AUX_LOSS] == 0.01,
        "a coefficient of the default");
    ok (MAKE (c, "--moe-router-load-balancing-type", "seq_aux_loss", "--moe-aux-loss-coeff=1e-4")
                == 0
            && coeff[MOE_AUX_LOSS] == 0 && coeff[MOE_SEQ_AUX_LOSS] == 1e-4, "of each sequence");
    ok (MAKE (c, "--moe-router-load-balancing-type", "global_aux_loss", "none", "aux_loss",
              "--moe-aux-loss-coeff", "1", "7", "2") == 0
            && coeff[MOE_GLOBAL_AUX_LOSS] == 1 && coeff[MOE_AUX_LOSS] == 2
            && coeff[MOE_SEQ_AUX_LOSS] == 0 && m->choice == MOE_TOPK, "several");
    ok (MAKE (c, "--moe-router-load-balancing-type= seq_aux_loss  aux_loss ",
              "--moe-aux-loss-coeff", "1 2") == 0
            && coeff[MOE_SEQ_AUX_LOSS] == 1 && coeff[MOE_AUX_LOSS] == 2, "in one word %s",
        err.text);
    ok (MAKE (c, "--moe-router-load-balancing-type=none", "--moe-aux-loss-coeff=3") == 0
            && coeff[MOE_AUX_LOSS] == 0, "none");
    ok (MAKE (c, "--moe-router-load-balancing-type=sinkhorn", "--moe-aux-loss-coeff=0") == 0
            && m->choice == MOE_SINKHORN, "sinkhorn");
}

static void test_experts (void)
{
    struct train_args args;
    struct model_config c;
    struct mg_error err;
    const struct model_moe *m = &c.moe;

    ok (MAKE (c, "--moe-ffn-hidden-size=12", "--moe-shared-expert-intermediate-size=16",
              "--moe-shared-expert-gate", "--moe-shared-expert-overlap", "--moe-latent-size=10",
              "--moe-token-dispatcher-type=alltoall") == 0
            && m->ffn_hidden_size == 12 && m->shared_ffn == 16 && m->shared_gate
            && m->shared_overlap && m->latent == 10 && m->dispatch == MOE_ALL_TO_ALL,
        "sizes, shared experts, dispatch");
    ok (MAKE (c, "--moe-token-dispatcher-type=flex") == 0 && m->dispatch == MOE_ALL_TO_ALL
            && train_dispatcher_note (&args), "flex is alltoall");
    ok (MAKE (c, "--moe-apply-probs-on-input", "--moe-router-topk=1") == 0 && m->probs_on_input,
        "probabilities on the input");
    ok (MAKE (c, "--moe-expert-capacity-factor=1.5", "--moe-pad-expert-input-to-capacity",
              "--moe-token-drop-policy=position", "--moe-expert-rank-capacity-factor=1") == 0
            && m->capacity_factor == 1.5 && m->pad_to_capacity && m->drop_by_position
            && m->rank_capacity_factor == 1, "capacity");
    ok (MAKE (c, "--moe-expert-capacity-factor=-3") == 0 && m->capacity_factor == 0,
        "a negative capacity is none");
    ok (MAKE (c, "--moe-layer-freq=2") == 0 && moe_layer (m, 0) && !moe_layer (m, 1)
            && moe_layer (m, 2) && !moe_layer (m, 3), "each second layer");
    ok (MAKE (c, "--moe-layer-freq=([0]*1+[1]*3)") == 0 && !moe_layer (m, 0)
            && moe_num_layers (m, 4) == 3, "a list");
}

/* --moe-layer-recompute: selective recomputation beside what else is asked for. */
static void test_recompute (void)
{
    const unsigned moe = RECOMPUTE_BIT (RECOMPUTE_MOE);
    struct train_args args;
    struct model_config c;
    struct mg_error err;
    struct recompute r;

    ok (MAKE (c, "--moe-layer-recompute") == 0 && train_recompute (&args, &r, &err) == 0
            && r.granularity == RECOMPUTE_SELECTIVE
            && r.modules == (moe | RECOMPUTE_BIT (RECOMPUTE_CORE_ATTN)), "beside core_attn");
    ok (MAKE (c, "--moe-layer-recompute", "--recompute-granularity", "selective",
              "--recompute-modules", "layernorm") == 0
            && train_recompute (&args, &r, &err) == 0
            && r.modules == (moe | RECOMPUTE_BIT (RECOMPUTE_LAYERNORM)), "beside others");
    ok (MAKE (c, "--recompute-granularity=selective", "--recompute-modules", "moe_act",
              "shared_experts") == 0
            && train_recompute (&args, &r, &err) == 0
            && r.modules == (RECOMPUTE_BIT (RECOMPUTE_MOE_ACT)
                             | RECOMPUTE_BIT (RECOMPUTE_SHARED_EXPERTS)), "parts of it");
}

/* Another value, another number, as for all arguments. */
static void test_fingerprint (void)
{
    static const char *const words[] = {
        "--moe-router-topk=3", "--moe-aux-loss-coeff=0.1", "--moe-router-load-balancing-type=none",
        "--moe-layer-freq=2", "--moe-latent-size=4", "--mtp-num-layers=1",
        "--moe-expert-rank-capacity-factor=1", "--moe-per-layer-logging",
    };
    struct train_args args;
    struct model_config c;
    struct mg_error err;
    uint64_t plain;

    MAKE (c, NULL);
    plain = train_args_fingerprint (&args);
    for (size_t i = 0; i < sizeof (words) / sizeof (words[0]); i++)
        ok (MAKE (c, words[i]) == 0 && train_args_fingerprint (&args) != plain, "%s", words[i]);
}

int main (void)
{
    test_refusals ();
    test_defaults ();
    test_router ();
    test_balancing ();
    test_experts ();
    test_recompute ();
    test_fingerprint ();
    return done_testing ();
}
