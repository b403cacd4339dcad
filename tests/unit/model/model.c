/* The whole model on one rank: every parameter's gradient against finite differences, with
 * dropout on, a padded vocabulary and a loss mask, tied and untied, dense and with experts.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/model/model.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

enum { SEQ = 7, BATCH = 3, VOCAB = 13, MICROBATCHES = 2 };

/* Tokens by coordinates; some labels count less or not at all. */
static void fill (struct nn_inputs in, int microbatch)
{
    int64_t *sample = nn_inputs_data (&in, "samples");
    int32_t *token = nn_inputs_data (&in, "tokens"), *label = nn_inputs_data (&in, "labels");
    float *mask = nn_inputs_data (&in, "loss_mask");

    for (int b = 0; b < BATCH; b++)
        sample[b] = microbatch * BATCH + b;
    for (int t = 0; t < SEQ * BATCH; t++) {
        uint32_t r[4];

        rng_philox (5, (uint32_t)t, (uint32_t)microbatch, 0, r);
        token[t] = (int32_t)(r[0] % VOCAB);
        label[t] = (int32_t)(r[1] % VOCAB);
        mask[t] = (float)(r[2] % 3) / 2;
    }
}

static struct model_config dense (bool tied)
{
    return (struct model_config){
        .num_layers = 2, .hidden_size = 12, .ffn_hidden_size = 20, .num_heads = 3,
        .kv_channels = 4, .seq_length = SEQ, .max_positions = SEQ + 1,
        .vocab_size = VOCAB, .padded_vocab_size = 16, .norm_epsilon = 1e-5,
        .init_std = 0.4, .hidden_dropout = 0.2, .attention_dropout = 0.3,
        .tied_embeddings = tied, .seed = 3,
    };
}

static void setup_model (struct alone *f, const struct model_config *config,
                         const struct recompute *recompute)
{
    struct model_spec spec = { .config = *config, .micro_batch_size = BATCH };

    if (recompute)
        spec.recompute = *recompute;
    alone_create (f, &spec);
}

static void setup (struct alone *f, bool tied, const struct recompute *recompute)
{
    const struct model_config config = dense (tied);

    setup_model (f, &config, recompute);
}

/* One iteration's loss, where a microbatch has a weight; the backward pass too if asked. */
static double weighted_loss (struct alone *f, double weight, bool backward)
{
    struct mg_error err = { "" };
    const struct model_mode mode = { .training = true, .loss_weight = weight };
    double sums[3];

    model_clear_losses (f->model, NULL);
    if (model_begin (f->model, &mode, &err) < 0)
        bail_out ("%s", err.text);
    for (int m = 0; m < MICROBATCHES; m++) {
        fill (model_inputs (f->model, NULL, 0, 0), m);
        if (model_forward (f->model, &mode, 0, 0, &err) < 0
            || (backward && model_backward (f->model, &mode, 0, 0, &err) < 0))
            bail_out ("%s", err.text);
    }
    if (model_fetch_losses (f->model, &err) < 0)
        bail_out ("%s", err.text);
    model_loss (f->model, 0, sums);
    return sums[0];
}

static double loss (struct alone *f, bool backward)
{
    return weighted_loss (f, 1.0 / MICROBATCHES, backward);
}

/* The derivative along the gradient's own direction is the gradient's norm. */
static void check_param (struct alone *f, const struct param *p)
{
    float *saved = malloc ((size_t)p->numel * sizeof (float));
    double norm = 0, step, slope[2];

    for (int64_t i = 0; i < p->numel; i++)
        norm += pow (((const float *)p->grad)[i], 2);
    norm = sqrt (norm);
    if (!saved)
        bail_out ("out of memory");
    memcpy (saved, p->data, (size_t)p->numel * sizeof (float));
    step = 4e-3;
    for (int side = 0; side < 2; side++) {
        double s = side ? -step : step;

        for (int64_t i = 0; i < p->numel; i++)
            ((float *)p->data)[i] = (float)(saved[i] + s * ((const float *)p->grad)[i] / norm);
        slope[side] = loss (f, false);
    }
    memcpy (p->data, saved, (size_t)p->numel * sizeof (float));
    free (saved);
    ok (norm > 0, "%s has a gradient", p->name);
    is_near ((slope[0] - slope[1]) / (2 * step) / norm, 1, 5e-3, "%s: finite difference",
             p->name);
}

static void test_gradients (const struct model_config *config, const char *text)
{
    struct alone f;
    struct mg_error err = { "" };
    double first;

    setup_model (&f, config, NULL);
    first = loss (&f, true);
    ok (isfinite (first) && first > 0, "%s: loss %g", text, first);
    ok (loss (&f, false) == first, "the same bits again");
    for (size_t i = 0; i < f.n; i++)
        check_param (&f, &f.params[i]);
    ok (buffers_zero_grad (f.stack.buffers, &err) == 0 && *(float *)f.params[0].grad == 0,
        "gradients to zero");
    alone_destroy (&f);
}

/* --- experts --- */

/* A model with experts; biases if there is nothing that excludes them. */
static struct model_config with_experts (const struct model_moe *moe)
{
    struct model_config c = dense (false);

    c.moe = *moe;
    c.moe.ffn_hidden_size = 8;
    c.no_linear_bias = moe->shared_ffn > 0;
    return c;
}

/* All experts are chosen, so that no choice changes with the parameters. */
static void test_experts (void)
{
    static const struct {
        struct model_moe moe;
        const char *text;
    } rows[] = {
        { { .experts = 3, .topk = 3, .score = KERN_SOFTMAX, .aux_coeff = { 0.1 } }, "experts" },
        { { .experts = 3, .topk = 3, .score = KERN_SIGMOID, .wide_router = true },
          "a router in float64, with a bias" },
        { { .experts = 1, .topk = 1, .score = KERN_SIGMOID, .probs_on_input = true },
          "probabilities on the input" },
        { { .experts = 1, .topk = 1, .score = KERN_SIGMOID, .probs_on_input = true,
            .shared_ffn = 6 }, "the same beside shared experts" },
        { { .experts = 1, .topk = 1, .score = KERN_SIGMOID, .probs_on_input = true,
            .latent = 5, .capacity_factor = 0.8, .drop_by_position = true },
          "the same of latents, with a capacity" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const struct model_config c = with_experts (&rows[i].moe);

        test_gradients (&c, rows[i].text);
    }
}

/* A model whose routers give every token the probability scale / 2, and whose experts are
 * homogeneous of degree 2.
 */
static void setup_even (struct alone *f, bool probs_on_input, double scale)
{
    const struct model_moe moe = { .experts = 3, .topk = 1, .score = KERN_SIGMOID,
                                   .scaling_factor = scale, .probs_on_input = probs_on_input };
    struct model_config c = with_experts (&moe);

    c.no_linear_bias = true;
    c.activation = KERN_SQUARED_RELU;
    setup_model (f, &c, NULL);
    for (size_t i = 0; i < f->n; i++) {
        if (strstr (f->params[i].name, "mlp.router.weight"))
            memset (f->params[i].data, 0, (size_t)f->params[i].numel * sizeof (float));
    }
}

/* Half the input is a quarter of the output, to the bit. */
static void test_probs_on_input (void)
{
    struct alone in, out;
    size_t different = 0, routers = 0;
    double first;

    setup_even (&in, true, 1);
    setup_even (&out, false, 0.5);
    first = loss (&out, true);
    ok (loss (&in, true) == first, "the output of experts is that of the weighted input");
    for (size_t i = 0; i < in.n; i++) {
        bool router = strstr (in.params[i].name, "mlp.router.weight");

        routers += router;
        if (strstr (in.params[i].name, "mlp.experts"))
            different += memcmp (in.params[i].grad, out.params[i].grad,
                                 (size_t)in.params[i].numel * sizeof (float)) != 0;
    }
    is_int (routers, 2, "two layers have routers");
    is_int (different, 0, "and so are the gradients of experts");
    alone_destroy (&in);
    alone_destroy (&out);
}

/* Each iteration has the weight that it begins with: powers of two, so that bits stay the same. */
static void test_weights (void)
{
    static const double weights[] = { 1, 0.25, 2 };
    struct mg_error err = { "" };
    struct alone f, one;
    double first;

    setup (&one, true, NULL);
    setup (&f, true, NULL);
    first = weighted_loss (&one, 1, true);
    for (size_t w = 0; w < sizeof (weights) / sizeof (weights[0]); w++) {
        int64_t wrong = 0;
        double sum;

        if (buffers_zero_grad (f.stack.buffers, &err) < 0)
            bail_out ("%s", err.text);
        sum = weighted_loss (&f, weights[w], true);
        for (size_t i = 0; i < f.n; i++) {
            const float *got = f.params[i].grad, *want = one.params[i].grad;

            for (int64_t e = 0; e < f.params[i].numel; e++)
                wrong += (double)got[e] != weights[w] * (double)want[e];
        }
        is_near (sum, weights[w] * first, 1e-12, "weight %g: the loss", weights[w]);
        is_int (wrong, 0, "weight %g: gradients", weights[w]);
    }
    alone_destroy (&f);
    alone_destroy (&one);
}

/* Elements that are not zero in rows behind the vocabulary, of 'rows' such rows. */
static int count_in_padding (const struct alone *f, int64_t *rows)
{
    int count = 0;

    *rows = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct param *p = &f->params[i];

        if (p->ndims < 2 || p->global[0] >= p->extent[0])
            continue;
        *rows += p->extent[0] - p->global[0];
        for (int64_t e = p->global[0] * p->extent[1]; e < p->numel; e++)
            count += ((const float *)p->data)[e] != 0 || ((const float *)p->grad)[e] != 0;
    }
    return count;
}

/* Padding is zero from the beginning on, and no update changes that. */
static void test_padding (bool tied)
{
    struct alone f;
    struct mg_error err = { "" };
    int64_t rows;
    double norm;

    setup (&f, tied, NULL);
    is_int (count_in_padding (&f, &rows), 0, "padding is zero");
    is_int (rows, (tied ? 1 : 2) * (16 - VOCAB), "in all rows that nobody uses");
    for (int step = 0; step < 3; step++) {
        loss (&f, true);
        if (optimizer_reduce_grads (f.stack.optimizer, &err) < 0
            || optimizer_grad_norm (f.stack.optimizer, NULL, 0, &norm, &err) < 0
            || optimizer_step (f.stack.optimizer, 0.1, 0.1, norm, &err) < 0)
            bail_out ("%s", err.text);
        is_int (count_in_padding (&f, &rows), 0, "and after update %d, norm %g", step + 1,
                norm);
    }
    alone_destroy (&f);
}

static void test_counts (void)
{
    struct alone f;
    int64_t numel = 0;
    int slots = 3;

    setup (&f, true, NULL);
    for (size_t i = 0; i < f.n; i++)
        numel += f.params[i].numel;
    is_int (model_sizes_of (f.model)->parameters, numel - 3 * 12, "parameters without padding");
    is_int (model_sizes_of (f.model)->tensors, (int)f.n, "tensors");
    ok (model_activation_bytes (f.model, &slots) > 0, "bytes of three slots");
    ok (loss (&f, false) > 0, "planning leaves the bound slots alone");
    alone_destroy (&f);
}

/* --- recomputation --- */

/* Parameters that passes told of: those needed before the first gradients were ready, and those
 * whose gradients were.
 */
struct told {
    size_t needed, ready;
};

static int needed (void *arg, size_t first, size_t n, struct mg_error *err)
{
    struct told *told = arg;

    (void)first, (void)err;
    if (told->ready == 0)
        told->needed += n;
    return 0;
}

static int ready (void *arg, size_t first, size_t n, struct mg_error *err)
{
    struct told *told = arg;

    (void)first, (void)err;
    told->ready += n;
    return 0;
}

/* Gradients, memory and hooks of a microbatch: with the gradients of 'kept', bit for bit. */
static void test_recompute_as (const struct recompute *r, struct alone *kept, const char *text)
{
    struct alone f;
    struct mg_error err = { "" };
    struct told told = { 0 };
    const struct model_mode mode = { .training = true, .loss_weight = 1,
                                     .hooks = { needed, ready, &told } };
    int slots = 4;
    size_t different = 0;
    double first;

    setup (&f, true, r);
    first = loss (&f, true);
    ok (isfinite (first), "%s: loss %g", text, first);
    for (size_t i = 0; i < f.n; i++)
        different += memcmp (f.params[i].grad, kept->params[i].grad,
                             (size_t)f.params[i].numel * sizeof (float)) != 0;
    is_int (different, 0, "%s: gradients have the same bits", text);
    ok (model_activation_bytes (f.model, &slots) < model_activation_bytes (kept->model, &slots),
        "%s: less memory", text);
    ok (model_cost (f.model).again > 0
            && model_cost (f.model).again < model_cost (f.model).forward
            && model_cost (f.model).forward == model_cost (kept->model).forward,
        "%s: some is computed again", text);
    if (model_begin (f.model, &mode, &err) < 0 || model_forward (f.model, &mode, 0, 0, &err) < 0
        || model_backward (f.model, &mode, 0, 0, &err) < 0)
        bail_out ("%s", err.text);
    ok (told.needed >= f.n && told.ready == f.n, "%s: hooks are told", text);
    alone_destroy (&f);
}

static void test_recompute (void)
{
    static const struct {
        struct recompute r;
        const char *text;
    } rows[] = {
        { { .granularity = RECOMPUTE_SELECTIVE, .modules = RECOMPUTE_BIT (RECOMPUTE_CORE_ATTN) },
          "core_attn" },
        { { .granularity = RECOMPUTE_SELECTIVE, .modules = RECOMPUTE_BIT (RECOMPUTE_LAYERNORM) },
          "layernorm" },
        { { .granularity = RECOMPUTE_SELECTIVE, .modules = RECOMPUTE_BIT (RECOMPUTE_MLP) },
          "mlp" },
        { { .granularity = RECOMPUTE_FULL, .method = RECOMPUTE_UNIFORM, .num_layers = 1 },
          "uniform 1" },
        { { .granularity = RECOMPUTE_FULL, .method = RECOMPUTE_UNIFORM, .num_layers = 2 },
          "uniform 2" },
        { { .granularity = RECOMPUTE_FULL, .method = RECOMPUTE_BLOCK, .num_layers = 1 },
          "block 1" },
    };
    struct alone kept;

    setup (&kept, true, NULL);
    loss (&kept, true);
    is_near (model_cost (kept.model).again, 0, 0, "nothing is computed again");
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++)
        test_recompute_as (&rows[i].r, &kept, rows[i].text);
    alone_destroy (&kept);
}

int main (void)
{
    const struct model_config tied = dense (true), untied = dense (false);

    test_gradients (&tied, "tied");
    test_gradients (&untied, "untied");
    test_experts ();
    test_probs_on_input ();
    test_weights ();
    test_padding (true);
    test_padding (false);
    test_counts ();
    test_recompute ();
    return done_testing ();
}
