/* A model with caches continues sequences: their rows come in pieces, several sequences in a pass,
 * and the logits are those of a pass over the whole sequence.
 *
 * "cache.t TP": the same on so many tensor-parallel ranks, with sequence parallelism.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/model/model_private.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

enum { SEQ = 24, VOCAB = 13, PADDED = 16, ROWS = 6, WANTED = 5, PLACES = 3 };

static struct model_config config_of (void)
{
    struct model_config c = {
        .num_layers = 3, .hidden_size = 12, .ffn_hidden_size = 20, .num_heads = 4,
        .kv_channels = 4, .seq_length = SEQ, .max_positions = SEQ,
        .vocab_size = VOCAB, .padded_vocab_size = PADDED, .norm_epsilon = 1e-5, .init_std = 0.4,
        .hidden_dropout = 0.2, .attention_dropout = 0.3, .seed = 3,
    };

    rope_config_init (&c.rope);
    return c;
}

/* Rotary positions, windows in two layers, norms of heads, groups of heads, a sink. */
static struct model_config modern (void)
{
    struct model_config c = config_of ();

    c.num_groups = 2;
    c.positions = MODEL_ROPE;
    c.qk_norm = c.no_linear_bias = c.gated = true;
    c.norm = KERN_RMS_NORM;
    c.window = (struct model_window){ .on = true, .left = 2, .right = 0,
                                      .layers = { .every = 2 } };
    c.softmax = MODEL_LEARNABLE;
    return c;
}

/* A window in all layers. */
static struct model_config windows (void)
{
    struct model_config c = modern ();

    c.window = (struct model_window){ .on = true, .left = 1, .right = 0 };
    return c;
}

static struct model_config experts (void)
{
    struct model_config c = modern ();

    c.moe = (struct model_moe){ .experts = 4, .ffn_hidden_size = 8, .topk = 2,
                                .score = KERN_SOFTMAX, .shared_ffn = 8 };
    return c;
}

static struct model_config latents (void)
{
    struct model_config c = config_of ();

    c.positions = MODEL_ROPE;
    c.qk_norm = c.no_linear_bias = true;
    c.norm = KERN_RMS_NORM;
    c.latent = (struct model_latent){ .on = true, .q_rank = 6, .kv_rank = 8, .qk_dim = 4,
                                      .rope_dim = 4, .v_dim = 3 };
    return c;
}

static struct model_config latent_windows (void)
{
    struct model_config c = latents ();

    c.window = (struct model_window){ .on = true, .left = 3, .right = 0,
                                      .layers = { .every = 3 } };
    return c;
}

static int32_t token_at (int sequence, int position)
{
    return (int32_t)((5 * position + 7 * sequence + position * position * sequence) % VOCAB);
}

/* --- whole sequences --- */

/* Columns of this rank. */
static int columns (const struct alone *a)
{
    return (int)model_nn (a->model)->local_vocab;
}

static void whole_logits (struct alone *a, int sequence, float logits[SEQ][PADDED])
{
    const struct model_mode mode = { .loss_weight = 1 };
    const struct nn_inputs in = model_inputs (a->model, NULL, 0, 0);
    struct mg_error err = { "" };

    *(int64_t *)nn_inputs_data (&in, "samples") = 0;
    for (int t = 0; t < SEQ; t++) {
        ((int32_t *)nn_inputs_data (&in, "tokens"))[t] = token_at (sequence, t);
        ((int32_t *)nn_inputs_data (&in, "labels"))[t] = 0;
        ((float *)nn_inputs_data (&in, "loss_mask"))[t] = 1;
    }
    if (model_begin (a->model, &mode, &err) < 0
        || model_forward (a->model, &mode, 0, 0, &err) < 0
        || mg_stream_synchronize (model_stream (a->model), &err) < 0)
        bail_out ("%s", err.text);
    for (int t = 0; t < SEQ; t++)
        memcpy (logits[t], alone_logits (a) + t * columns (a),
                (size_t)columns (a) * sizeof (**logits));
}

/* --- pieces --- */

/* A pass: rows of sequences, and which of them the head takes. */
struct rows_pass {
    struct nn_sequence part[PLACES];
    int n;
    int wanted[WANTED], num_wanted;
};

/* Sequence s is in place 2 - s. */
static int sequence_of (const struct nn_sequence *s)
{
    return 2 - (int)s->place;
}

/* Fill the inputs of a pass; set the sequence and the position of each row. */
static void fill (const struct nn_inputs *in, const struct rows_pass *p, int at[ROWS][2])
{
    int32_t *token = nn_inputs_data (in, "tokens"), *position = nn_inputs_data (in, "positions");
    int row = 0;

    *(int64_t *)nn_inputs_data (in, "samples") = 0;
    for (int i = 0; i < p->n; i++) {
        for (int64_t k = 0; k < p->part[i].rows; k++, row++) {
            at[row][0] = sequence_of (&p->part[i]);
            at[row][1] = (int)(p->part[i].first + k);
            token[row] = token_at (at[row][0], at[row][1]);
            position[row] = at[row][1];
        }
    }
    for (int i = 0; i < p->num_wanted; i++)
        ((int32_t *)nn_inputs_data (in, "wanted"))[i] = p->wanted[i];
}

static double run_pass (struct job *job, struct alone *a, const struct rows_pass *p,
                         float whole[PLACES][SEQ][PADDED])
{
    struct nn_shape shape;
    const struct model_mode mode = { .shape = &shape };
    struct mg_error err = { "" };
    struct nn_inputs in;
    int at[ROWS][2];
    double largest = 0;

    if (model_continue (a->model, p->part, p->n, p->num_wanted, &shape, &err) < 0)
        bail_out ("%s", err.text);
    in = model_inputs (a->model, &shape, 0, 0);
    fill (&in, p, at);
    if (model_begin (a->model, &mode, &err) < 0
        || model_forward (a->model, &mode, 0, 0, &err) < 0
        || mg_stream_synchronize (model_stream (a->model), &err) < 0)
        bail_out ("%s", err.text);
    ranks_check (job, nn_inputs_find (&in, "wanted")->tensor.live == p->num_wanted
                          && alone_logits_tensor (a)->live == p->num_wanted,
                 "%d rows are wanted", p->num_wanted);
    for (int i = 0; i < p->num_wanted; i++) {
        const int *row = at[p->wanted[i]];
        const float *got = alone_logits (a) + i * columns (a), *want = whole[row[0]][row[1]];

        for (int v = 0; v < columns (a); v++)
            largest = fmax (largest, fabs ((double)got[v] - (double)want[v]));
    }
    return largest;
}

static struct model_spec cached (const struct job *job, const struct model_config *config)
{
    return (struct model_spec){ .config = *config, .micro_batch_size = 1,
                                .sequence_parallel = job_group_size (job, GROUP_TP) > 1,
                                .cache = { PLACES, SEQ, ROWS, WANTED } };
}

/* Prompts of several rows, single rows, a place that is used again. */
static void test_pieces (struct job *job, const struct model_config *config, const char *text)
{
    static const struct rows_pass passes[] = {
        { { { 2, 0, 4 }, { 0, 0, 2 } }, 2, { 5, 3, 0, 1, 2 }, 5 },
        { { { 0, 2, 3 }, { 2, 4, 1 }, { 1, 0, 2 } }, 3, { 2, 3, 5 }, 3 },
        { { { 2, 5, 1 }, { 1, 2, 1 }, { 0, 5, 1 } }, 3, { 0, 1, 2 }, 3 },
        { { { 0, 6, 3 } }, 1, { 2 }, 1 },
        { { { 2, 6, 3 }, { 1, 3, 1 } }, 2, { 0, 1, 2, 3 }, 4 },
        { { { 0, 0, 6 } }, 1, { 5 }, 1 }, // the sequence begins again
        { { { 0, 6, 1 } }, 1, { 0 }, 1 },
        { { { 1, 4, 5 } }, 1, { 4, 3, 2, 1, 0 }, 5 },
        { { { 1, 9, 4 }, { 2, 9, 2 } }, 2, { 0, 3, 4, 5 }, 4 }, // caches of windows are full
        { { { 2, 11, 6 } }, 1, { 0, 1, 3, 5 }, 4 },
        { { { 1, 13, 5 }, { 2, 17, 1 } }, 2, { 0, 1, 4, 5 }, 4 },
        { { { 1, 18, 6 } }, 1, { 0, 1, 2, 4, 5 }, 5 },
        { { { 2, 18, 1 } }, 1, { 0 }, 1 },
        { { { 2, 19, 5 } }, 1, { 0, 2, 3, 4 }, 4 },
        { { { 1, 0, 3 }, { 2, 0, 3 } }, 2, { 2, 5 }, 2 }, // others begin in the same places
    };
    struct model_spec spec = cached (job, config);
    float whole[PLACES][SEQ][PADDED];
    struct alone a;

    memset (&spec.cache, 0, sizeof (spec.cache));
    alone_create_in (&a, job, &spec);
    for (int s = 0; s < PLACES; s++)
        whole_logits (&a, s, whole[s]);
    alone_destroy (&a);
    spec = cached (job, config);
    alone_create_in (&a, job, &spec);
    for (size_t i = 0; i < sizeof (passes) / sizeof (passes[0]); i++) {
        double largest = run_pass (job, &a, &passes[i], whole);

        ranks_check (job, largest < 1e-5, "%s, pass %zu: largest difference %.2g", text, i,
                     largest);
    }
    alone_destroy (&a);
}

/* --- memory, refusals --- */

static size_t bytes_of (struct job *job, const struct model_spec *spec)
{
    struct alone a;
    int slots = 1;
    size_t bytes;

    alone_create_in (&a, job, spec);
    bytes = model_activation_bytes (a.model, &slots);
    alone_destroy (&a);
    return bytes;
}

/* No specification keeps a tensor for a backward pass, or has a gradient. */
static bool is_forward_only (struct job *job, const struct model_spec *spec)
{
    struct alone a;
    bool good = true;

    alone_create_in (&a, job, spec);
    for (int i = 0; i < a.model->list.family->num_specs; i++) {
        const struct layer_spec *layer = &a.model->list.spec[i];

        for (int t = 1; t <= layer->num_tensors; t++)
            good &= layer->tensor[t].life != LIFE_SAVED
                    && (!layer->tensor[t].gradient || layer->tensor[t].shape[0] == 0);
    }
    alone_destroy (&a);
    return good;
}

static void test_memory (struct job *job)
{
    struct model_config config = config_of ();
    struct model_spec spec = cached (job, &config);
    size_t width = 2 * (size_t)config.num_heads * (size_t)config.kv_channels, bytes;

    spec.cache.length = 8;
    spec.cache.sequences = 16;
    bytes = bytes_of (job, &spec);
    spec.cache.sequences = 32;
    is_int ((int64_t)(bytes_of (job, &spec) - bytes),
            (int64_t)(3 * 16 * 8 * width * sizeof (float)), "caches of all layers are planned");
    ok (is_forward_only (job, &spec), "there is no room for a backward pass");
}

/* Bytes of the caches of a model. */
static int64_t cache_bytes (struct job *job, const struct model_config *config, int length,
                            int rows)
{
    struct model_spec spec = cached (job, config);
    struct alone a;
    int64_t bytes;

    spec.cache.length = length;
    spec.cache.rows = rows;
    alone_create_in (&a, job, &spec);
    bytes = (int64_t)model_cache_bytes (a.model);
    alone_destroy (&a);
    return bytes;
}

/* Layers with a window keep the window and the rows of a pass; the first row of a pass is the last
 * of the window.
 */
static void test_windows (struct job *job)
{
    const struct model_config some = modern (), all = windows (), mla = latent_windows ();
    struct model_config none = windows ();
    int64_t width = PLACES * 2 * (int64_t)all.num_groups * all.kv_channels
                    * (int64_t)sizeof (float);
    int64_t latent = PLACES * (int64_t)(mla.latent.kv_rank + mla.latent.rope_dim)
                     * (int64_t)sizeof (float);

    is_int (cache_bytes (job, &all, SEQ, ROWS), 3 * (1 + ROWS) * width, "windows in all layers");
    is_int (cache_bytes (job, &some, SEQ, ROWS), (SEQ + 2 * (2 + ROWS)) * width,
            "windows in two layers of three");
    is_int (cache_bytes (job, &mla, SEQ, ROWS), (SEQ + 2 * (3 + ROWS)) * latent,
            "latents, with windows in two layers of three");
    is_int (cache_bytes (job, &all, ROWS, ROWS), 3 * ROWS * width,
            "never more than all positions");
    none.window.left = -1;
    is_int (cache_bytes (job, &none, SEQ, ROWS), 3 * SEQ * width, "a window without an end");
}

static void refuse (struct alone *a, struct nn_sequence s, struct nn_sequence t, int n, int wanted,
                    const char *text)
{
    const struct nn_sequence part[] = { s, t };
    struct nn_shape shape;
    struct mg_error err = { "" };

    errno = 0;
    ok (model_continue (a->model, part, n, wanted, &shape, &err) == -1 && errno == EINVAL
            && strstr (err.text, text), "%s", err.text);
}

static void test_refusals (struct job *job)
{
    const struct model_config config = config_of ();
    const struct model_spec spec = cached (job, &config);
    const struct nn_sequence good = { 0, 0, 2 };
    struct model_mode mode = { .loss_weight = 1 };
    struct mg_error err = { "" };
    struct nn_shape live, longer;
    struct alone a;

    alone_create_in (&a, job, &spec);
    live = a.model->pool[0].slot[0].live;
    refuse (&a, (struct nn_sequence){ 3, 0, 1 }, good, 1, 1, "place 3");
    refuse (&a, (struct nn_sequence){ 0, 23, 2 }, good, 1, 1, "2 rows from position 23 on");
    refuse (&a, (struct nn_sequence){ 0, 0, 0 }, good, 1, 1, "0 rows");
    refuse (&a, good, good, 2, 1, "two sequences");
    refuse (&a, (struct nn_sequence){ 1, 0, 5 }, good, 2, 1, "7 ");
    refuse (&a, good, good, 1, 6, "6 rows of the head");
    refuse (&a, good, good, 0, 1, "0 sequences");
    ok (model_forward (a.model, &mode, 0, 0, &err) == -1 && strstr (err.text, "0 sequences"), "%s",
        err.text);
    longer = *model_shape (a.model, MODEL_EVALUATION);
    longer.rows++;
    mode.shape = &longer;
    ok (model_forward (a.model, &mode, 0, 0, &err) == -1, "%s", err.text);
    ok (model_capture (a.model, &mode, 0, 0, false, &err) == -1
            && strstr (err.text, "the model was planned for"),
        "nor is it captured: %s", err.text);
    ok (nn_same_counts (&a.model->pool[0].slot[0].live, &live),
        "a pass that is refused leaves the slot as it was");
    errno = 0;
    ok (model_backward (a.model, &mode, 0, 0, &err) == -1 && errno == EPERM, "%s", err.text);
    alone_destroy (&a);
}

static void refuse_model (struct job *job, const struct model_spec *spec, int number,
                          const char *text)
{
    struct mg_error err = { "" };

    errno = 0;
    ok (!model_create (spec, job, &err) && errno == number && strstr (err.text, text), "%s",
        err.text);
}

static void test_models (struct job *job)
{
    const struct model_config config = config_of ();
    struct model_spec spec = cached (job, &config);

    spec.cache.length = SEQ + 1;
    refuse_model (job, &spec, EINVAL, "caches of 25 positions, the model has 24");
    spec.cache.length = SEQ;
    spec.cache.wanted = ROWS + 1;
    refuse_model (job, &spec, EINVAL, "wanted");
    spec.cache.wanted = 1;
    spec.config.positions = MODEL_ROPE;
    spec.config.mtp_num_layers = 1;
    spec.config.mtp_scaling_factor = 0.1;
    refuse_model (job, &spec, ENOTSUP, "multi-token prediction");
    spec.config = config;
    spec.recompute = (struct recompute){ .granularity = RECOMPUTE_FULL,
                                         .method = RECOMPUTE_UNIFORM, .num_layers = 1 };
    refuse_model (job, &spec, EINVAL, "recomputation");
}

int main (int argc, char **argv)
{
    const struct model_config learned = config_of (), rotary = modern (), narrow = windows (),
                              sparse = experts (), mla = latents (), mixed = latent_windows ();
    struct job_config config = { .timeout = 60, .threads = 1, .fingerprint = 1 };
    struct job *job;

    geometry_init (&config.geometry);
    config.geometry.tp = argc > 1 ? atoi (argv[1]) : 1;
    job = ranks_start (&config);
    test_pieces (job, &learned, "learned positions");
    test_pieces (job, &rotary, "rotary positions");
    test_pieces (job, &narrow, "windows");
    test_pieces (job, &sparse, "experts");
    test_pieces (job, &mla, "latents");
    test_pieces (job, &mixed, "latents, windows");
    if (argc == 1) {
        test_memory (job);
        test_windows (job);
        test_refusals (job);
        test_models (job);
    }
    return ranks_done (job);
}
