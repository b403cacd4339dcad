/* float8.c - weights in float8, on however many ranks: scales and codes against those of the
 * whole tensors, and a pass against one of a bfloat16 model that has the same values
 *
 * "float8.t TP": the ranks are TP tensor-parallel ones times data-parallel ones, whose
 * optimizers own shards.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "libcore/base/rng.h"
#include "libcore/model/model.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { SEQ = 8, BATCH = 2, VOCAB = 50, LAYERS = 3 };

struct fixture {
    struct model *model;
    struct stack stack;
    struct param *params;
    size_t n;
};

static void fill (struct nn_inputs in)
{
    int64_t *sample = nn_inputs_data (&in, "samples");
    int32_t *token = nn_inputs_data (&in, "tokens"), *label = nn_inputs_data (&in, "labels");
    float *mask = nn_inputs_data (&in, "loss_mask");

    for (int b = 0; b < BATCH; b++)
        sample[b] = b;
    for (int i = 0; i < SEQ * BATCH; i++) {
        token[i] = (i * 37) % VOCAB;
        label[i] = (i * 91) % VOCAB;
        mask[i] = 1;
    }
}

static const struct model_mode mode = { .training = true, .loss_weight = 1 };

static void setup (struct job *job, struct fixture *f, bool float8)
{
    int tp = grid_size (job_grid (job), false, MG_AXIS_TP), slots = 1;
    struct model_spec spec = {
        .config = {
            .num_layers = LAYERS, .hidden_size = 24, .ffn_hidden_size = 36, .num_heads = 6,
            .kv_channels = 5, .seq_length = SEQ, .max_positions = SEQ, .vocab_size = VOCAB,
            .padded_vocab_size = model_padded_vocab (VOCAB, 8, tp), .norm_epsilon = 1e-5,
            .init_std = 0.2, .hidden_dropout = 0.1, .attention_dropout = 0.1,
            .tied_embeddings = true, .seed = 3,
        },
        .micro_batch_size = BATCH,
        .dtype = MG_BFLOAT16,
        .float8_weights = float8,
    };
    const struct stack_config stack = {
        .buffers = { .bucket_size = 1000, .sharded = true },
        .main = { .float8 = float8, .keep = true },
        .optimizer = { .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8 },
    };
    struct mg_error err = { "" };

    if (!(f->model = model_create (&spec, job, &err)))
        bail_out ("%s", err.text);
    f->params = model_params (f->model, &f->n);
    stack_create (&f->stack, &stack, job, model_stream (f->model), f->params, f->n,
                  model_sizes_of (f->model)->tensors);
    if (model_bind (f->model, &slots, &err) < 0 || model_init_params (f->model, &err) < 0
        || main_params_init (f->stack.main, &err) < 0
        || buffers_params_wait (f->stack.buffers, &err) < 0)
        bail_out ("%s", err.text);
    fill (model_inputs (f->model, NULL, 0, 0));
}

static void teardown (struct fixture *f)
{
    stack_destroy (&f->stack);
    model_destroy (f->model);
}

/* Element (r, c) of a whole tensor: normal, but for one far larger one in each, which most
 * ranks do not have.
 */
static float value (const struct param *p, int64_t r, int64_t c)
{
    int64_t cols = p->ndims == 2 ? p->global[1] : 1;
    int64_t large = p->order * 7919 % (p->global[0] * cols);
    double x[4];

    if (r * cols + c == large)
        return -ldexpf (1.7f, p->order % 7);
    rng_normal (5, (uint32_t)p->order, (uint32_t)(r * cols + c), 0, x);
    return (float)x[0] * 0.1f;
}

/* The same of element i of this rank's part. */
static float local_value (const struct param *p, int64_t i)
{
    int64_t cols = p->ndims == 2 ? p->extent[1] : 1;
    const int64_t *offset = p->runs.offset;

    return value (p, offset[0] + i / cols, p->ndims == 2 ? offset[1] + i % cols : 0);
}

static float largest_value (const struct param *p)
{
    float largest = 0;

    for (int64_t r = 0; r < p->global[0]; r++)
        for (int64_t c = 0; c < (p->ndims == 2 ? p->global[1] : 1); c++)
            largest = fmaxf (largest, fabsf (value (p, r, c)));
    return largest;
}

/* The main parameters that this rank updates. */
static void set_main (struct fixture *f, float (*element) (const struct param *p, int64_t i))
{
    struct mg_error err = { "" };

    for (size_t i = 0; i < buffers_num_ranges (f->stack.buffers); i++) {
        const struct buffers_range *r = buffers_range_at (f->stack.buffers, i);
        float *x = calloc ((size_t)(r->to - r->from), sizeof (*x));

        if (!x)
            bail_out ("out of memory");
        for (int64_t e = r->from; e < r->to; e++)
            x[e - r->from] = element (&f->params[r->param], e);
        if (optimizer_write (f->stack.optimizer, i, OPTIMIZER_MAIN_PARAM, x, &err) < 0)
            bail_out ("%s", err.text);
        free (x);
    }
    if (main_params_to_model (f->stack.main, &err) < 0
        || buffers_params_wait (f->stack.buffers, &err) < 0)
        bail_out ("%s", err.text);
}

static bool is_matrix (const struct param *p)
{
    return p->ndims == 2 && strncmp (p->name, "decoder.layers.", 15) == 0;
}

/* Initial values are those of bfloat16, and gradients zero where they were. */
static void test_initial (struct job *job, struct fixture *f, struct fixture *wide)
{
    size_t stored = 0, wrong = 0, changed = 0, dirty = 0;

    for (size_t i = 0; i < f->n; i++) {
        const struct param *p = &f->params[i];
        const uint8_t *code = p->data;
        const uint16_t *half = wide->params[i].data;

        stored += (p->storage == MG_FLOAT8_E4M3) == is_matrix (p) && p->dtype == MG_BFLOAT16;
        for (int64_t e = 0; e < p->numel; e++) {
            dirty += ((const float *)p->grad)[e] != 0;
            if (is_matrix (p))
                wrong += code[e] != float8_to_e4m3 (half_from_bf16 (half[e]) / p->scale);
            else
                changed += ((const uint16_t *)p->data)[e] != half[e];
        }
    }
    ranks_check (job, stored == f->n,
                 "the matrices of layers are in float8, and nothing else");
    ranks_check (job, wrong == 0,
                 "initial values are bfloat16's in float8: %zu are not", wrong);
    ranks_check (job, changed == 0, "others are bfloat16's: %zu are not", changed);
    ranks_check (job, dirty == 0, "gradients are zero: %zu are not", dirty);
}

static void test_scales (struct job *job, struct fixture *f)
{
    size_t scales = 0, codes = 0, others = 0;

    set_main (f, local_value);
    for (size_t i = 0; i < f->n; i++) {
        const struct param *p = &f->params[i];
        const uint8_t *code = p->data;
        const uint16_t *half = p->data;
        float scale = float8_scale (largest_value (p));

        scales += is_matrix (p) && p->scale != scale;
        for (int64_t e = 0; e < p->numel; e++) {
            if (is_matrix (p))
                codes += code[e] != float8_to_e4m3 (local_value (p, e) / scale);
            else
                others += half[e] != half_to_bf16 (local_value (p, e));
        }
    }
    ranks_check (job, scales == 0, "scales are those of whole tensors: %zu are not", scales);
    ranks_check (job, codes == 0, "codes follow: %zu do not", codes);
    ranks_check (job, others == 0, "other parameters are rounded: %zu are not", others);
}

static void run_pass (struct fixture *f, double sums[3])
{
    struct mg_error err = { "" };

    model_clear_losses (f->model, NULL);
    if (buffers_zero_grad (f->stack.buffers, &err) < 0
        || model_begin (f->model, &mode, &err) < 0
        || model_forward (f->model, &mode, 0, 0, &err) < 0
        || model_backward (f->model, &mode, 0, 0, &err) < 0
        || model_fetch_losses (f->model, &err) < 0)
        bail_out ("%s", err.text);
    model_loss (f->model, 0, sums);
}

/* A pass of the model whose weights have the values that the codes mean. */
static void test_pass (struct job *job, struct fixture *f, struct fixture *wide, const char *when)
{
    double sums[3], want[3];
    size_t wrong = 0;

    for (size_t i = 0; i < f->n; i++) {
        const struct param *p = &f->params[i];
        const uint8_t *code = p->data;
        uint16_t *half = wide->params[i].data;

        if (is_matrix (p))
            for (int64_t e = 0; e < p->numel; e++)
                half[e] = half_to_bf16 (float8_from_e4m3 (code[e]) * p->scale);
        else
            memcpy (half, p->data, (size_t)p->numel * sizeof (*half));
    }
    run_pass (f, sums);
    run_pass (wide, want);
    ranks_check (job, memcmp (sums, want, sizeof (sums)) == 0 && isfinite (sums[0]),
                 "%s: the loss is that of the same weights in bfloat16: %.9g, %.9g", when, sums[0],
                 want[0]);
    for (size_t i = 0; i < f->n; i++)
        wrong += memcmp (f->params[i].grad, wide->params[i].grad,
                         (size_t)f->params[i].numel * sizeof (float)) != 0;
    ranks_check (job, wrong == 0, "%s: and so are all gradients: %zu are not", when, wrong);
}

/* After an update, what this rank updates is the main parameters in float8. */
static void test_update (struct job *job, struct fixture *f)
{
    struct mg_error err = { "" };
    size_t wrong = 0, seen = 0;
    double norm;

    if (optimizer_reduce_grads (f->stack.optimizer, &err) < 0
        || optimizer_grad_norm (f->stack.optimizer, NULL, 0, &norm, &err) < 0
        || optimizer_step (f->stack.optimizer, 0.5, 0.01, norm, &err) < 0
        || buffers_params_wait (f->stack.buffers, &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < buffers_num_ranges (f->stack.buffers); i++) {
        const struct buffers_range *r = buffers_range_at (f->stack.buffers, i);
        const struct param *p = &f->params[r->param];
        const uint8_t *code = (const uint8_t *)p->data + r->from;
        const float *x = optimizer_plain (f->stack.optimizer, i, OPTIMIZER_MAIN_PARAM);

        for (int64_t e = 0; is_matrix (p) && e < r->to - r->from; e++) {
            seen++;
            wrong += code[e] != float8_to_e4m3 (x[e] / p->scale)
                     || fabsf (x[e]) > 448 * p->scale;
        }
    }
    ranks_check (job, wrong == 0 && seen > 0,
                 "updated: %zu of %zu are not the main ones' codes", wrong, seen);
}

static float value_with_nan (const struct param *p, int64_t i)
{
    return p->order == 4 && p->runs.offset[1] + i == 0 ? NAN : local_value (p, i);
}

/* One rank's NaN is that of the whole tensor, on all ranks, and of no other. */
static void test_nan (struct job *job, struct fixture *f)
{
    size_t clean = 0, spoilt = 0;

    set_main (f, value_with_nan);
    for (size_t i = 0; i < f->n; i++) {
        const struct param *p = &f->params[i];
        const uint8_t *code = p->data;

        for (int64_t e = 0; is_matrix (p) && e < p->numel; e++) {
            bool nan = isnan (float8_from_e4m3 (code[e]) * p->scale);

            clean += p->order == 4 && !nan;
            spoilt += p->order != 4 && nan;
        }
    }
    ranks_check (job, clean == 0, "a NaN spoils its tensor: %zu elements are left", clean);
    ranks_check (job, spoilt == 0, "and no other: %zu elements are spoilt", spoilt);
}

int main (int argc, char **argv)
{
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1 };
    struct fixture f, wide;
    struct job *job;

    geometry_init (&config.geometry);
    config.geometry.tp = argc > 1 ? atoi (argv[1]) : 1;
    job = ranks_start (&config);
    setup (job, &f, true);
    setup (job, &wide, false);
    test_initial (job, &f, &wide);
    test_scales (job, &f);
    test_pass (job, &f, &wide, "set");
    test_update (job, &f);
    test_pass (job, &f, &wide, "updated");
    test_nan (job, &f);
    teardown (&f);
    teardown (&wide);
    return ranks_done (job);
}
