/* mtp_model - multi-token prediction with one repeated layer, and with heads that are detached: the
 * losses and gradients are those of models without, put together
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/model/model.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

enum { SEQ = 7, BATCH = 3, TOKENS = SEQ * BATCH, VOCAB = 13, MTP = 2, MICROBATCHES = 2 };

static struct model_config config_of (bool tied, int experts)
{
    return (struct model_config){
        .num_layers = 2, .hidden_size = 12, .ffn_hidden_size = 20, .num_heads = 3,
        .kv_channels = 4, .seq_length = SEQ, .max_positions = SEQ, .vocab_size = VOCAB,
        .padded_vocab_size = 16, .norm_epsilon = 1e-5, .init_std = 0.4,
        .positions = MODEL_ROPE, .rope = { .base = 10000, .percent = 1, .interpolation = 1,
                                           .factor = 1, .original = 4096 },
        .tied_embeddings = tied, .no_linear_bias = experts > 0, .seed = 3,
        .mtp_num_layers = MTP, .mtp_scaling_factor = 0.6,
        .moe = { .experts = experts, .topk = 2, .ffn_hidden_size = 8,
                 .score = KERN_SOFTMAX_CHOSEN, .rank_capacity_factor = 4 },
    };
}

/* Part d has at each position what part 0 has d positions later. */
static void fill (struct nn_inputs in, int microbatch)
{
    int64_t *sample = nn_inputs_data (&in, "samples");
    int32_t *token = nn_inputs_data (&in, "tokens"), *label = nn_inputs_data (&in, "labels");
    float *mask = nn_inputs_data (&in, "loss_mask");
    double *count = nn_inputs_data (&in, "loss_count");

    for (int b = 0; b < BATCH; b++)
        sample[b] = microbatch * BATCH + b;
    for (int d = 0; d <= MTP; d++) {
        count[d] = 0;
        for (int t = 0; t < TOKENS; t++) {
            bool there = t + d * BATCH < TOKENS;
            int at = d * TOKENS + t;
            uint32_t r[4];

            rng_philox (5, (uint32_t)(t + d * BATCH), (uint32_t)microbatch, 0, r);
            token[at] = there ? (int32_t)(r[0] % VOCAB) : 0;
            label[at] = there ? (int32_t)(r[1] % VOCAB) : 0;
            mask[at] = there ? (float)(r[2] % 3) / 2 : 0;
            count[d] += (double)mask[at];
        }
    }
}

/* The losses of an iteration, whose gradients are added up. */
static void run (struct alone *f, double loss[1 + MTP])
{
    const struct model_mode mode = { .training = true, .loss_weight = 1.0 / MICROBATCHES };
    struct mg_error err = { "" };

    model_clear_losses (f->model, NULL);
    model_clear_routers (f->model, NULL);
    if (model_begin (f->model, &mode, &err) < 0)
        bail_out ("%s", err.text);
    for (int m = 0; m < MICROBATCHES; m++) {
        fill (model_inputs (f->model, NULL, 0, 0), m);
        if (model_forward (f->model, &mode, 0, 0, &err) < 0
            || model_backward (f->model, &mode, 0, 0, &err) < 0)
            bail_out ("%s", err.text);
    }
    for (int i = 0; i <= MTP; i++) {
        double sums[3];

        if (model_fetch_losses (f->model, &err) < 0)
            bail_out ("%s", err.text);
        model_loss (f->model, i, sums);
        loss[i] = sums[0];
    }
}

static void setup (struct alone *f, const struct model_config *config)
{
    const struct model_spec spec = { .config = *config, .micro_batch_size = BATCH };

    alone_create (f, &spec);
}

static struct param *find (const struct alone *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp (f->params[i].name, name) == 0)
            return &f->params[i];
    return NULL;
}

static bool is_mtp (const struct param *p)
{
    return strncmp (p->name, "mtp.", 4) == 0;
}

/* The parameter of the second layer for what is one of the first. */
static struct param *second (const struct alone *f, const struct param *p)
{
    char name[PIECE_NAME_MAX];

    snprintf (name, sizeof (name), "mtp.layers.1.%s", p->name + strlen ("mtp.layers.0."));
    return find (f, name);
}

/* The largest difference between a gradient and the sum of two (NULL: 0), in parts of the largest
 * element.
 */
static double apart (const struct param *p, const struct param *a, const struct param *b)
{
    const float *got = p->grad, *one = a->grad, *two = b ? b->grad : NULL;
    double worst = 0, most = 0;

    for (int64_t i = 0; i < p->numel; i++) {
        double want = (double)one[i] + (two ? (double)two[i] : 0);

        worst = fmax (worst, fabs ((double)got[i] - want));
        most = fmax (most, fabs (want));
    }
    return most > 0 ? worst / most : worst > 0 ? INFINITY : 0;
}

/* --- one repeated layer --- */

/* A model with two layers of the same weights, and one that repeats a layer.  Auxiliary losses of
 * the repeated layer count half each.
 */
static void test_repeated (bool tied, int experts, double aux)
{
    struct model_config c = config_of (tied, experts);
    struct alone both, once;
    double loss[2][1 + MTP], worst = 0;
    int mtp = 0;

    c.moe.aux_coeff[MOE_AUX_LOSS] = aux / 2;
    setup (&both, &c);
    c.mtp_repeated = true;
    c.moe.aux_coeff[MOE_AUX_LOSS] = aux;
    setup (&once, &c);
    for (size_t i = 0; i < once.n; i++) {
        struct param *p = is_mtp (&once.params[i]) ? second (&both, &once.params[i]) : NULL;

        if (p)
            memcpy (p->data, once.params[i].data, (size_t)p->numel * sizeof (float));
        mtp += p != NULL;
    }
    is_int ((int64_t)both.n, (int64_t)once.n + mtp, "%s, %d experts: one layer has weights",
            tied ? "tied" : "untied", experts);
    is_int (model_sizes_of (once.model)->tensors, (int64_t)once.n,
            "tensors of the model");
    run (&both, loss[0]);
    run (&once, loss[1]);
    ok (memcmp (loss[0], loss[1], sizeof (loss[0])) == 0, "the same losses: %g, %g, %g", loss[1][0],
        loss[1][1], loss[1][2]);
    for (size_t i = 0; i < once.n; i++) {
        const struct param *p = &once.params[i];

        if (is_mtp (p))
            worst = fmax (worst, apart (p, find (&both, p->name), second (&both, p)));
        else if (aux == 0)
            worst = fmax (worst, apart (p, find (&both, p->name), NULL));
    }
    ok (worst < 1e-5, "gradients of a repeated layer are sums (%.2g)", worst);
    alone_destroy (&both);
    alone_destroy (&once);
}

/* --- detached heads --- */

/* The layers for multi-token prediction are trained as without, all else as if their losses had no
 * weight.
 */
static void test_detached (bool tied, bool repeated)
{
    struct model_config c = config_of (tied, 0);
    struct alone joined, alone, detached;
    double loss[3][1 + MTP], worst[2] = { 0, 0 }, unlike = 0;

    c.mtp_repeated = repeated;
    setup (&joined, &c);
    c.mtp_scaling_factor = 0;
    setup (&alone, &c);
    c.mtp_scaling_factor = 0.6;
    c.mtp_detached = true;
    setup (&detached, &c);
    run (&joined, loss[0]);
    run (&alone, loss[1]);
    run (&detached, loss[2]);
    ok (memcmp (loss[0], loss[2], sizeof (loss[0])) == 0, "%s%s: the same losses",
        tied ? "tied" : "untied", repeated ? ", repeated" : "");
    for (size_t i = 0; i < detached.n; i++) {
        const struct param *p = &detached.params[i], *q = find (&joined, p->name);

        if (is_mtp (p)) {
            worst[0] = fmax (worst[0], apart (p, q, NULL));
        } else {
            worst[1] = fmax (worst[1], apart (p, find (&alone, p->name), NULL));
            unlike = fmax (unlike, apart (p, q, NULL));
        }
    }
    ok (worst[0] < 1e-6, "their layers get the same gradients (%.2g)", worst[0]);
    ok (worst[1] < 1e-6, "all else gets none of their losses (%.2g)", worst[1]);
    ok (unlike > 1e-3, "which it would get (%.2g)", unlike);
    alone_destroy (&joined);
    alone_destroy (&alone);
    alone_destroy (&detached);
}

int main (void)
{
    for (int tied = 0; tied < 2; tied++) {
        test_repeated (tied, 0, 0);
        test_repeated (tied, 4, 0);
        test_repeated (tied, 4, 0.1);
        test_detached (tied, false);
        test_detached (tied, true);
    }
    return done_testing ();
}
