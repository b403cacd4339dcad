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
    refused (&c, 1, "an even number");
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
    return done_testing ();
}
