/* model_notes - models as notes and back; which argument differs between two */

#include <errno.h>
#include <string.h>

#include "libcore/train/config.h"
#include "libcore/args/model_notes.h"
#include "tests/tap/tap.h"

enum { MAX_WORDS = 12 };

/* A model of 4 layers with more words. */
static int read_args (const char *const word[MAX_WORDS], struct train_args *args,
                      struct mg_error *err)
{
    static const char *const base[] = {
        "train", "--num-layers=4", "--hidden-size=48", "--num-attention-heads=4",
        "--vocab-size=100", "--seq-length=16", "--max-position-embeddings=32",
    };
    static char *argv[20]; // of the newest arguments, whose lists point into it
    int argc = 0;

    for (size_t i = 0; i < sizeof (base) / sizeof (base[0]); i++)
        argv[argc++] = (char *)base[i];
    for (int i = 0; i < MAX_WORDS && word[i]; i++)
        argv[argc++] = (char *)word[i];
    return train_args_read (argc, argv, args, err);
}

static void make (const char *const word[MAX_WORDS], struct train_args *args,
                  struct model_config *c)
{
    struct mg_error err = { "" };
    struct run_config run;

    if (read_args (word, args, &err) < 0)
        bail_out ("%s", err.text);
    run_config_init (&run, args);
    run.geometry.tp = 1;
    if (run_config_model (&run, &err) < 0)
        bail_out ("%s", err.text);
    *c = run.model.config;
}

/* Words, and the argument in which the model differs from that of no words. */
static const struct {
    const char *word[MAX_WORDS];
    const char *name;
} models[] = {
    { { NULL }, NULL },
    { { "--num-layers=5" }, "num-layers" },
    { { "--hidden-size=96" }, "hidden-size" },
    { { "--ffn-hidden-size=50" }, "ffn-hidden-size" },
    { { "--num-attention-heads=8" }, "num-attention-heads" },
    { { "--kv-channels=10" }, "kv-channels" },
    { { "--vocab-size=101" }, "vocab-size" },
    { { "--max-position-embeddings=64" }, "max-position-embeddings" },
    { { "--group-query-attention", "--num-query-groups=2" }, "num-query-groups" },
    { { "--group-query-attention", "--num-query-groups=4" }, NULL },
    { { "--normalization=RMSNorm" }, "normalization" },
    { { "--norm-epsilon=1e-6" }, "norm-epsilon" },
    { { "--apply-layernorm-1p" }, "apply-layernorm-1p" },
    { { "--qk-layernorm" }, "qk-layernorm" },
    { { "--disable-bias-linear" }, "disable-bias-linear" },
    { { "--disable-bias-linear", "--add-qkv-bias" }, "disable-bias-linear" },
    { { "--add-qkv-bias" }, NULL }, /* all linear layers have biases */
    { { "--swiglu", "--ffn-hidden-size=192" }, "swiglu" },
    { { "--geglu", "--ffn-hidden-size=192" }, "geglu" },
    { { "--geglu", "--exact-gelu" }, "geglu" },
    { { "--quick-geglu" }, "quick-geglu" },
    { { "--squared-relu" }, "squared-relu" },
    { { "--exact-gelu" }, "exact-gelu" },
    { { "--quick-geglu", "--glu-linear-offset=1", "--activation-func-clamp-value=7" },
      "glu-linear-offset" },
    { { "--untie-embeddings-and-output-weights" }, "untie-embeddings-and-output-weights" },
    { { "--position-embedding-type=none" }, "position-embedding-type" },
    { { "--position-embedding-type=rope", "--rotary-base=5e5", "--rotary-percent=0.5",
        "--rotary-interleaved", "--rotary-seq-len-interpolation-factor=2", "--no-rope-freq=2" },
      "position-embedding-type" },
    { { "--use-rotary-position-embeddings", "--use-rope-scaling", "--rope-scaling-factor=4",
        "--rope-scaling-low-freq-factor=2", "--rope-scaling-high-freq-factor=3",
        "--rope-scaling-original-max-position-embeddings=77" }, "position-embedding-type" },
    { { "--position-embedding-type=yarn", "--rotary-scaling-factor=40", "--yarn-beta-fast=33",
        "--yarn-beta-slow=2", "--mscale=0.7", "--mscale-all-dim=0.3",
        "--no-yarn-correction-range-round-to-int", "--yarn-original-max-position-embeddings=99" },
      "position-embedding-type" },
    { { "--softmax-type=learnable" }, "softmax-type" },
    { { "--apply-query-key-layer-scaling" }, NULL }, /* is of a run, as dropout is */
    { { "--softmax-type=off-by-one" }, "softmax-type" },
    { { "--multi-latent-attention", "--q-lora-rank=12", "--kv-lora-rank=8", "--qk-head-dim=6",
        "--qk-pos-emb-head-dim=4", "--v-head-dim=10", "--rotary-scaling-factor=40",
        "--mscale-all-dim=0.3" }, "multi-latent-attention" },
    { { "--multi-latent-attention", "--rope-type=rope", "--qk-layernorm", "--rotary-base=9",
        "--rotary-scaling-factor=4", "--mscale-all-dim=0.3" },
      "multi-latent-attention" },
    { { "--window-size=7,0" }, "window-size" },
    { { "--window-size=7,0", "--window-attn-skip-freq=2" }, "window-size" },
    { { "--window-size=-1,3", "--window-attn-skip-freq=([1]+[0])*2" }, "window-size" },
    { { "--softmax-type=learnable" }, "softmax-type" },
    { { "--softmax-type=off-by-one" }, "softmax-type" },
    { { "--multi-latent-attention", "--q-lora-rank=8", "--kv-lora-rank=6", "--qk-head-dim=5",
        "--qk-pos-emb-head-dim=4", "--v-head-dim=3", "--rotary-scaling-factor=40", "--mscale=0.7",
        "--mscale-all-dim=0.3", "--rotary-base=500" }, "multi-latent-attention" },
    { { "--multi-latent-attention", "--rope-type=rope", "--rotary-scaling-factor=2",
        "--mscale-all-dim=1", "--position-embedding-type=rope" }, "multi-latent-attention" },
    { { "--hidden-dropout=0", "--attention-dropout=0.3", "--init-method-std=1",
        "--embedding-init-method-std=0.5" }, NULL },
    { { "--num-experts=8" }, "num-experts" },
    { { "--num-experts=8", "--moe-layer-freq=([0]+[1]*3)", "--disable-bias-linear",
        "--moe-shared-expert-intermediate-size=24", "--moe-shared-expert-gate",
        "--moe-latent-size=20", "--moe-ffn-hidden-size=12", "--moe-router-dtype=fp64" },
      "disable-bias-linear" },
    { { "--num-experts=8", "--moe-router-topk=3", "--moe-router-score-function=sigmoid",
        "--moe-router-enable-expert-bias", "--moe-router-bias-update-rate=0.02",
        "--moe-router-num-groups=4", "--moe-router-group-topk=2",
        "--moe-router-topk-scaling-factor=2.5", "--moe-input-jitter-eps=0.01",
        "--moe-z-loss-coeff=0.001" }, "num-experts" },
    { { "--num-experts=8", "--moe-router-topk=1", "--moe-router-pre-softmax",
        "--moe-router-load-balancing-type", "aux_loss", "global_aux_loss", "--moe-aux-loss-coeff",
        "0.01", "0.003", "--moe-expert-capacity-factor=1.5", "--moe-pad-expert-input-to-capacity",
        "--moe-token-drop-policy=position" }, "num-experts" },
    { { "--num-experts=8", "--moe-layer-freq=2",
        "--moe-router-load-balancing-type=quantile_balancing",
        "--moe-router-quantile-balancing-ema=0.5" }, "num-experts" },
    { { "--mtp-num-layers=2", "--mtp-loss-scaling-factor=0.3", "--position-embedding-type=rope" },
      "mtp-num-layers" },
    { { "--mtp-num-layers=2", "--mtp-use-repeated-layer", "--mtp-detach-heads",
        "--position-embedding-type=rope" }, "mtp-num-layers" },
};

enum { NUM_MODELS = sizeof (models) / sizeof (models[0]) };

/* What is of a run, and is in the notes all the same. */
static bool same_balance (const struct model_moe *a, const struct model_moe *b)
{
    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        if (a->aux_coeff[i] != b->aux_coeff[i])
            return false;
    }
    return a->z_coeff == b->z_coeff && a->wide_router == b->wide_router
           && a->bias_update_rate == b->bias_update_rate && a->quantile_ema == b->quantile_ema
           && a->jitter == b->jitter && a->capacity_factor == b->capacity_factor
           && a->pad_to_capacity == b->pad_to_capacity
           && a->drop_by_position == b->drop_by_position;
}

static void test_models (void)
{
    struct model_config plain, c, back;
    struct train_args none, args;

    make (models[0].word, &none, &plain);
    for (int i = 0; i < NUM_MODELS; i++) {
        const char *label = models[i].word[0] ? models[i].word[0] : "GPT-2's", *name;
        struct notes notes = { .num = 0 };
        struct mg_error err = { "" };

        make (models[i].word, &args, &c);
        is_int (model_notes_make (&c, &notes, &err), 0, "%s: notes", label);
        ok (model_notes_given (&notes), "of a model");
        is_int (model_notes_config (&notes, &back, &err), 0, "read %s", err.text);
        name = model_notes_difference (&c, &back);
        ok (!name && back.hidden_dropout == c.hidden_dropout && back.init_std == c.init_std
                && back.embedding_init_std == c.embedding_init_std
                && same_balance (&back.moe, &c.moe)
                && back.mtp_scaling_factor == c.mtp_scaling_factor
                && back.mtp_repeated == c.mtp_repeated && back.mtp_detached == c.mtp_detached
                && back.qk_layer_scaling == c.qk_layer_scaling,
            "as the same model %s", name ? name : "");
        name = model_notes_difference (&plain, &c);
        is_str (name ? name : "", models[i].name ? models[i].name : "", "the difference");
        is_int (model_notes_compare (&notes, "f", &args, &err), 0, "its own arguments go with it");
        notes_clear (&notes);
        train_args_clear (&args);
    }
    train_args_clear (&none);
}

#define EXPERTS "--num-experts=8", "--disable-bias-linear"
#define LATENTS "--multi-latent-attention", "--kv-lora-rank=8", "--qk-head-dim=6"

/* Two models that differ in one thing, or in nothing. */
static const struct {
    const char *a[MAX_WORDS], *b[MAX_WORDS];
    const char *name;
} pairs[] = {
    { { "--disable-bias-linear", "--add-qkv-bias" }, { "--disable-bias-linear" },
      "add-qkv-bias" },
    { { "--geglu" }, { "--geglu", "--exact-gelu" }, "exact-gelu" },
    { { "--position-embedding-type=rope" },
      { "--position-embedding-type=rope", "--rotary-base=9" }, "rotary-base" },
    { { "--position-embedding-type=rope" },
      { "--position-embedding-type=rope", "--use-rope-scaling" }, "use-rope-scaling" },
    { { "--position-embedding-type=rope" }, { "--position-embedding-type=yarn" },
      "position-embedding-type" },
    { { "--position-embedding-type=rope" },
      { "--position-embedding-type=rope", "--rotary-interleaved" }, "rotary-interleaved" },
    { { "--position-embedding-type=rope" },
      { "--position-embedding-type=rope", "--no-rope-freq=[0,1,0,0]" }, "no-rope-freq" },
    { { "--position-embedding-type=rope", "--no-rope-freq=2" },
      { "--position-embedding-type=rope", "--no-rope-freq=[0,1]*2" }, NULL },
    { { "--window-size=7,0" }, { "--window-size=8,0" }, "window-size" },
    { { "--position-embedding-type=rope", "--mtp-num-layers=2" },
      { "--position-embedding-type=rope", "--mtp-num-layers=2", "--mtp-use-repeated-layer" },
      "mtp-use-repeated-layer" },
    { { "--position-embedding-type=rope", "--mtp-num-layers=2" },
      { "--position-embedding-type=rope", "--mtp-num-layers=2", "--mtp-detach-heads" }, NULL },
    { { "--window-size=7,0" }, { "--window-size=7,0", "--window-attn-skip-freq=2" },
      "window-attn-skip-freq" },
    { { "--window-size=7,0" }, { "--window-size=7,0", "--window-attn-skip-freq=[1,1,1,1]" },
      NULL },
    { { "--position-embedding-type=yarn", "--rotary-scaling-factor=4", "--mscale=0.5" },
      { "--position-embedding-type=yarn", "--rotary-scaling-factor=4" }, "mscale" },
    { { "--position-embedding-type=yarn", "--rotary-scaling-factor=4", "--mscale-all-dim=1" },
      { "--position-embedding-type=yarn", "--rotary-scaling-factor=4" }, "mscale-all-dim" },
    { { "--position-embedding-type=yarn", "--rotary-scaling-factor=4", "--mscale-all-dim=1" },
      { "--position-embedding-type=yarn", "--rotary-scaling-factor=4", "--mscale=0" }, NULL },
    { { LATENTS, "--rotary-scaling-factor=4", "--mscale-all-dim=1" },
      { LATENTS, "--rotary-scaling-factor=4", "--mscale=0" }, "mscale-all-dim" },
    { { LATENTS, "--rotary-scaling-factor=4", "--rope-type=rope" }, { LATENTS, "--rope-type=rope" },
      NULL },
    { { LATENTS, "--rotary-scaling-factor=4" }, { LATENTS }, "rotary-scaling-factor" },
    { { LATENTS, "--kv-channels=64" }, { LATENTS }, NULL },
    { { LATENTS, "--position-embedding-type=rope" },
      { LATENTS, "--position-embedding-type=none" }, NULL },
    { { LATENTS, "--position-embedding-type=rope" }, { LATENTS }, "position-embedding-type" },
    { { EXPERTS }, { EXPERTS, "--num-experts=16" }, "num-experts" },
    { { EXPERTS }, { EXPERTS, "--moe-ffn-hidden-size=8" }, "moe-ffn-hidden-size" },
    { { EXPERTS }, { EXPERTS, "--moe-router-topk=3" }, "moe-router-topk" },
    { { EXPERTS }, { EXPERTS, "--moe-layer-freq=2" }, "moe-layer-freq" },
    { { EXPERTS, "--moe-layer-freq=[1,0]*2" }, { EXPERTS, "--moe-layer-freq=2" }, NULL },
    { { EXPERTS }, { EXPERTS, "--moe-layer-freq=[1]*4" }, NULL },
    { { EXPERTS }, { EXPERTS, "--moe-router-pre-softmax" }, "moe-router-pre-softmax" },
    { { EXPERTS }, { EXPERTS, "--moe-router-score-function=sigmoid" },
      "moe-router-score-function" },
    { { EXPERTS, "--moe-router-score-function=sigmoid" },
      { EXPERTS, "--moe-router-score-function=sigmoid", "--moe-router-enable-expert-bias" },
      "moe-router-enable-expert-bias" },
    { { EXPERTS, "--moe-router-num-groups=4", "--moe-router-group-topk=1" },
      { EXPERTS, "--moe-router-num-groups=2", "--moe-router-group-topk=1" },
      "moe-router-num-groups" },
    { { EXPERTS, "--moe-router-num-groups=4", "--moe-router-group-topk=1" },
      { EXPERTS, "--moe-router-num-groups=4", "--moe-router-group-topk=2" },
      "moe-router-group-topk" },
    { { EXPERTS }, { EXPERTS, "--moe-router-topk-scaling-factor=2" },
      "moe-router-topk-scaling-factor" },
    { { EXPERTS }, { EXPERTS, "--moe-router-topk-scaling-factor=1" }, NULL },
    { { EXPERTS }, { EXPERTS, "--moe-router-load-balancing-type=sinkhorn" },
      "moe-router-load-balancing-type" },
    { { EXPERTS }, { EXPERTS, "--moe-shared-expert-intermediate-size=8" },
      "moe-shared-expert-intermediate-size" },
    { { EXPERTS }, { EXPERTS, "--moe-latent-size=8" }, "moe-latent-size" },
    { { EXPERTS }, { EXPERTS, "--moe-router-load-balancing-type=seq_aux_loss",
                     "--moe-aux-loss-coeff=1", "--moe-z-loss-coeff=1",
                     "--moe-expert-capacity-factor=2", "--moe-token-dispatcher-type=alltoall" },
      NULL },
    { { "--mtp-num-layers=1" }, { "--mtp-num-layers=2" }, "mtp-num-layers" },
};

static void test_pairs (void)
{
    for (size_t i = 0; i < sizeof (pairs) / sizeof (pairs[0]); i++) {
        struct train_args args_a, args_b;
        struct model_config a, b;
        const char *name;

        make (pairs[i].a, &args_a, &a);
        make (pairs[i].b, &args_b, &b);
        name = model_notes_difference (&a, &b);
        is_str (name ? name : "", pairs[i].name ? pairs[i].name : "", "the difference");
        name = model_notes_difference (&b, &a);
        is_str (name ? name : "", pairs[i].name ? pairs[i].name : "", "the other way");
        train_args_clear (&args_a);
        train_args_clear (&args_b);
    }
}

static void test_refusals (void)
{
    static const struct {
        const char *name, *value, *text;
    } rows[] = {
        { "num-layers", "0", "--num-layers: 0 is out of range" },
        { "num-layers", "x", "\"x\" is not a whole number" },
        { "swiglu", "yes", "--swiglu is \"yes\", want true" },
        { "hidden-size", "16777216", "ffn-hidden-size is 67108864" },
        { "hidden-size", "10", "--hidden-size 10 is no multiple of --num-attention-heads 4" },
        { "window-attn-skip-freq", "[1]", "--window-attn-skip-freq" },
        { "position-embedding-type", "relative", "relative" },
        { "num-query-groups", "2", "wants --group-query-attention" },
    };
    static const char *const needed[] = { "num-layers", "hidden-size", "num-attention-heads",
                                          "vocab-size", "max-position-embeddings" };
    struct model_config c;
    struct mg_error err;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]) + 5; i++) {
        struct notes notes = { .num = 0 };

        for (size_t k = 0; k < 5; k++) {
            if (i != k + sizeof (rows) / sizeof (rows[0]))
                notes_set (&notes, needed[k], "4", NULL);
        }
        if (i < sizeof (rows) / sizeof (rows[0]))
            notes_set (&notes, rows[i].name, rows[i].value, NULL);
        err.text[0] = '\0';
        if (!ok (model_notes_config (&notes, &c, &err) == -1
                     && strstr (err.text, i < sizeof (rows) / sizeof (rows[0])
                                              ? rows[i].text
                                              : "is not there"), "refused: %s", err.text))
            diag ("case %d", (int)i);
        notes_clear (&notes);
    }
}

/* What is of a run may be another than the file's. */
static void test_compare (void)
{
    static const struct {
        const char *word[MAX_WORDS];
        const char *text;
    } rows[] = {
        { { "--hidden-dropout=0.7", "--init-method-std=3", "--seq-length=8" }, NULL },
        { { "--padded-vocab-size=128" }, NULL },
        { { "--max-position-embeddings=64" }, "--max-position-embeddings contradicts f" },
        { { "--vocab-size=99" }, "--vocab-size contradicts f" },
        { { "--qk-layernorm" }, "--qk-layernorm contradicts f, which is of another model" },
    };
    struct notes notes = { .num = 0 };
    struct train_args args;
    struct model_config c;

    make (models[0].word, &args, &c);
    if (model_notes_make (&c, &notes, NULL) < 0)
        bail_out ("no notes");
    train_args_clear (&args);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };
        int rc;

        make (rows[i].word, &args, &c);
        rc = model_notes_compare (&notes, "f", &args, &err);
        if (rows[i].text)
            ok (rc == -1 && errno == EINVAL && strstr (err.text, rows[i].text), "refused: %s",
                err.text);
        else
            is_int (rc, 0, "%s %s", rows[i].word[0], err.text);
        train_args_clear (&args);
    }
    notes_clear (&notes);
}

int main (void)
{
    test_models ();
    test_pairs ();
    test_refusals ();
    test_compare ();
    return done_testing ();
}
