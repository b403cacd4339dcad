/* dropout_places - every place of a model that drops elements drops others
 *
 * Branches that end in weights of zero pass no gradient on, so each layer's output has the same
 * gradient.  What a place has dropped is then seen in the gradient of the bias in front of it, and
 * what attention has dropped in that of the weight behind it, if all layers and heads attend to the
 * same values.
 */

#include <stdio.h>
#include <string.h>

#include "libcore/model/model.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

enum { LAYERS = 3, SEQ = 8, BATCH = 2, TOKENS = SEQ * BATCH, HIDDEN = 12, HEADS = 3, VOCAB = 13 };
enum { HEAD = HIDDEN / HEADS };

static void setup (struct alone *f, double hidden, double attention)
{
    const struct model_spec spec = {
        .config = {
            .num_layers = LAYERS, .hidden_size = HIDDEN, .ffn_hidden_size = 20,
            .num_heads = HEADS, .kv_channels = HEAD, .seq_length = SEQ, .max_positions = SEQ,
            .vocab_size = VOCAB, .padded_vocab_size = 16, .norm_epsilon = 1e-5, .init_std = 0.4,
            .positions = MODEL_LEARNED, .hidden_dropout = hidden,
            .attention_dropout = attention, .seed = 3,
        },
        .micro_batch_size = BATCH,
    };

    alone_create (f, &spec);
}

/* A parameter of a layer. */
static struct param *find (const struct alone *f, int layer, const char *name)
{
    char text[PIECE_NAME_MAX];

    snprintf (text, sizeof (text), "decoder.layers.%d.%s", layer, name);
    for (size_t i = 0; i < f->n; i++)
        if (strcmp (f->params[i].name, text) == 0)
            return &f->params[i];
    bail_out ("no parameter %s", text);
    return NULL;
}

static void set (const struct param *p, float value)
{
    float *x = p->data;

    for (int64_t i = 0; i < p->numel; i++)
        x[i] = value;
}

/* Branches pass no gradient on, and all that attention reads is the same. */
static void set_weights (const struct alone *f)
{
    for (int l = 0; l < LAYERS; l++) {
        set (find (f, l, "self_attention.linear_proj.weight"), 0);
        set (find (f, l, "mlp.linear_fc2.weight"), 0);
        set (find (f, l, "self_attention.linear_qkv.weight"), 0);
        set (find (f, l, "self_attention.linear_qkv.bias"), 1);
    }
}

static void run (struct alone *f)
{
    const struct model_mode mode = { .training = true, .loss_weight = 1 };
    const struct nn_inputs inputs = model_inputs (f->model, NULL, 0, 0), *in = &inputs;
    struct mg_error err = { "" };

    for (int b = 0; b < BATCH; b++)
        ((int64_t *)nn_inputs_data (in, "samples"))[b] = 7 + b;
    for (int t = 0; t < TOKENS; t++) {
        ((int32_t *)nn_inputs_data (in, "tokens"))[t] = t % VOCAB;
        ((int32_t *)nn_inputs_data (in, "labels"))[t] = (t * 5 + 1) % VOCAB;
        ((float *)nn_inputs_data (in, "loss_mask"))[t] = 1;
    }
    if (model_begin (f->model, &mode, &err) < 0 || model_forward (f->model, &mode, 0, 0, &err) < 0
        || model_backward (f->model, &mode, 0, 0, &err) < 0)
        bail_out ("%s", err.text);
}

/* Elements of two gradients that differ. */
static int different (const float *a, const float *b, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        count += a[i] != b[i];
    return count;
}

static const char *const biases[] = { "self_attention.linear_proj.bias", "mlp.linear_fc2.bias" };

static void test_hidden (double p)
{
    struct alone f;
    int least = HIDDEN, most = 0;

    setup (&f, p, 0);
    set_weights (&f);
    run (&f);
    for (int i = 0; i < 2 * LAYERS; i++) {
        for (int j = 0; j < i; j++) {
            int n = different (find (&f, i / 2, biases[i % 2])->grad,
                               find (&f, j / 2, biases[j % 2])->grad, HIDDEN);

            least = n < least ? n : least;
            most = n > most ? n : most;
        }
    }
    if (p > 0)
        ok (least > HIDDEN / 2, "each dropout of a layer has elements of its own: %d of %d differ",
            least, HIDDEN);
    else
        is_int (most, 0, "without dropout, all biases have the same gradient");
    alone_destroy (&f);
}

/* The gradient of the weights behind a head: one element for each feature of the output. */
static void head (const struct alone *f, int layer, int h, float out[HIDDEN])
{
    const float *grad = find (f, layer, "self_attention.linear_proj.weight")->grad;

    for (int i = 0; i < HIDDEN; i++)
        out[i] = grad[i * HIDDEN + h * HEAD];
}

static void test_attention (double p)
{
    struct alone f;
    int least = HIDDEN, most = 0;

    setup (&f, 0, p);
    set_weights (&f);
    run (&f);
    for (int i = 0; i < LAYERS * HEADS; i++) {
        for (int j = 0; j < i; j++) {
            float a[HIDDEN], b[HIDDEN];
            int n;

            head (&f, i / HEADS, i % HEADS, a);
            head (&f, j / HEADS, j % HEADS, b);
            n = different (a, b, HIDDEN);
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
    }
    if (p > 0)
        ok (least > HIDDEN / 2, "each head of a layer drops others: %d of %d differ", least,
            HIDDEN);
    else
        is_int (most, 0, "without dropout, all heads have the same gradient");
    alone_destroy (&f);
}

int main (void)
{
    test_hidden (0);
    test_hidden (0.5);
    test_attention (0);
    test_attention (0.5);
    return done_testing ();
}
