/* state.c - a checkpoint that one rank alone cannot take: all refuse it, and say why */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/optim/buffers_private.h"
#include "libcore/train/state_private.h"
#include "libcore/train/state_tensor.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/optim/stack.h"

enum { SEQ = 4 };

struct fixture {
    struct job *job;
    struct model *model;
    struct stack stack;
    struct state *state;
};

static void setup (struct fixture *f, bool float8, bool evaluates)
{
    const struct model_spec spec = {
        .config = {
            .num_layers = 1, .hidden_size = 8, .ffn_hidden_size = 20, .num_heads = 2,
            .kv_channels = 4, .seq_length = SEQ, .max_positions = SEQ, .vocab_size = 20,
            .padded_vocab_size = 24, .norm_epsilon = 1e-5, .init_std = 0.2, .seed = 3,
        },
        .micro_batch_size = 1,
        .dtype = MG_BFLOAT16,
        .float8_weights = float8,
    };
    /* moments that are not plain float32 have to be converted */
    const struct stack_config config = {
        .buffers = { .sharded = true, .no_grads = evaluates },
        .main = { .float8 = float8, .keep = !evaluates },
        .optimizer = { .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8,
                       .types = { .exp_avg = MG_BFLOAT16, .exp_avg_sq = MG_BFLOAT16 } },
    };
    struct mg_error err = { "" };
    struct param *params;
    int slots = 1;
    size_t n;

    if (!(f->model = model_create (&spec, f->job, &err)))
        bail_out ("%s", err.text);
    params = model_params (f->model, &n);
    stack_create (&f->stack, &config, f->job, model_stream (f->model), params, n,
                  model_sizes_of (f->model)->tensors);
    if (model_bind (f->model, &slots, &err) < 0 || model_init_params (f->model, &err) < 0
        || main_params_init (f->stack.main, &err) < 0
        || !(f->state = state_create (f->model, f->stack.buffers, f->stack.main,
                                      f->stack.optimizer, f->job, &err)))
        bail_out ("%s", err.text);
}

static void teardown (struct fixture *f)
{
    state_destroy (f->state);
    stack_destroy (&f->stack);
    model_destroy (f->model);
}

static void save (struct fixture *f, const char *dir)
{
    const struct train_progress progress = { .iteration = 3, .consumed_samples = 12 };
    struct mg_error err = { "" };
    struct checkpoint_save *s = state_save_begin (f->state, dir, &progress, false, &err);
    int rc = -1;

    if (s) {
        checkpoint_save_write (s);
        rc = checkpoint_save_finish (s, &err);
    }
    ranks_check (f->job, rc == 0, "a checkpoint to load %s", err.text);
}

/* Kernels that lack something. */
struct weak {
    struct kernels kernels;
    struct kern_ops ops;
    const struct kernels *good;
};

static int fail_to_store (const struct kernels *k, const void *args,
                          struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)args, (void)stream;
    return mg_error_set (err, ENOMEM, "no room to store it");
}

/* Parameters in bfloat16; all else is read into float32. */
static int fail_to_round (const struct kernels *k, const void *args,
                          struct mg_stream *stream, struct mg_error *err)
{
    const struct kernels *good = ((const struct weak *)k)->good;
    const struct kern_state_load *a = args;

    if (a->dtype == MG_FLOAT32)
        return kern_state_load (good, a, stream, err);
    return mg_error_set (err, ENOMEM, "no room to round it");
}

static int fail_to_scale (const struct kernels *k, const void *args,
                          struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)args, (void)stream;
    return mg_error_set (err, ENOMEM, "no room to scale it");
}

/* All ranks load; the last one with weak kernels. */
static int load_weakly (struct fixture *f, struct weak *weak, const char *dir,
                        struct train_progress *progress, struct mg_error *err)
{
    const struct state_source from = { .dir = dir, .iteration = 3 };
    struct state_found found;
    const struct kernels **at
        = weak->good == f->stack.buffers->host ? &f->stack.buffers->host
                                               : &f->stack.buffers->kern;
    int rc;

    if (job_rank (f->job) == job_world (f->job) - 1)
        *at = &weak->kernels;
    rc = state_load (f->state, &from, progress, &found, err);
    *at = weak->good;
    return rc;
}

static void test_weak (struct fixture *f, const char *dir, const char *what)
{
    struct train_progress progress = { .iteration = -1 };
    /* what is stored is converted on the host */
    const struct kernels *good = strcmp (what, "store") == 0 ? f->stack.buffers->host
                                                             : f->stack.buffers->kern;
    struct weak weak = { .kernels = { .impl = good->impl }, .ops = *good->ops, .good = good };
    struct mg_error err = { "" };
    int rc, last = job_world (f->job) - 1;
    char want[60];

    weak.kernels.ops = &weak.ops;
    if (strcmp (what, "store") == 0)
        weak.ops.run[KERN_STATE_STORE] = fail_to_store;
    else if (strcmp (what, "round") == 0)
        weak.ops.run[KERN_STATE_LOAD] = fail_to_round;
    else
        weak.ops.run[KERN_MAX_ABS] = fail_to_scale;
    snprintf (want, sizeof (want), last > 0 ? "rank %2$d: no room to %1$s it"
                                            : "no room to %1$s it", what, last);
    rc = load_weakly (f, &weak, dir, &progress, &err);
    ranks_check (f->job, rc == -1 && errno == ENOMEM && progress.iteration == -1,
                 "all ranks refuse what the last one cannot %s: %d", what, rc);
    ranks_check (f->job, strcmp (err.text, want) == 0, "and say why: %s", err.text);
}

static void test_good (struct fixture *f, const char *dir)
{
    struct train_progress progress = { .iteration = -1 };
    const struct state_source from = { .dir = dir, .iteration = 3 };
    struct state_found found;
    struct mg_error err = { "" };
    int rc = state_load (f->state, &from, &progress, &found, &err);

    ranks_check (f->job, rc == 1 && progress.iteration == 3 && progress.consumed_samples == 12,
                 "where it can they load it: %d %s", rc, err.text);
}

enum { ROWS = 20, COLUMNS = 8 };

/* A parameter is written from the last rank and read on each, bit for bit, whatever ranks store of
 * it; 'tiny' is among the values.
 */
static void test_tensor (struct fixture *f, float tiny)
{
    int last = job_world (f->job) - 1;
    float in[ROWS * COLUMNS], out[ROWS * COLUMNS];
    struct state_tensor t;
    struct mg_error err = { "" };
    int rc = state_find_tensor (f->state, "decoder.layers.0.mlp.linear_fc1.weight", &t, &err);

    ranks_check (f->job, rc == 0 && t.rows == ROWS && t.columns == COLUMNS
                 && t.part_rows == ROWS && t.part_columns == COLUMNS && t.first_row == 0,
                 "a parameter is found by its name %s", err.text);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        in[i] = (float)(i % 13 - 6) * 0.25f;
    in[5] = -0.f;
    in[9] = tiny;
    rc = state_write_tensor (f->state, &t, last, in, &err);
    ranks_check (f->job, rc == 0, "it is written %s", err.text);
    for (int root = 0; rc == 0 && root <= last; root++) {
        memset (out, -1, sizeof (out));
        rc = state_read_tensor (f->state, &t, root, out, &err);
        if (root == job_rank (f->job))
            rc |= memcmp (in, out, sizeof (in));
    }
    ranks_check (f->job, rc == 0, "and read on each rank as it was written %s", err.text);
    rc = state_find_tensor (f->state, "decoder.layers.9.mlp.linear_fc1.weight", &t, &err);
    ranks_check (f->job, rc == -1 && errno == ENOENT, "one that is not there: %s", err.text);
}

/* The last rank cannot store what it got: all ranks know. */
static void test_weak_tensor (struct fixture *f)
{
    const struct kernels *good = f->stack.buffers->host;
    struct weak weak = { .kernels = { .impl = good->impl }, .ops = *good->ops, .good = good };
    float in[ROWS * COLUMNS] = { 0 };
    int rc, last = job_world (f->job) - 1;
    struct state_tensor t;
    struct mg_error err = { "" };

    weak.kernels.ops = &weak.ops;
    weak.ops.run[KERN_STATE_STORE] = fail_to_store;
    rc = state_find_tensor (f->state, "decoder.layers.0.mlp.linear_fc1.weight", &t, &err);
    if (job_rank (f->job) == last)
        f->stack.buffers->host = &weak.kernels;
    rc |= state_write_tensor (f->state, &t, 0, in, &err);
    f->stack.buffers->host = good;
    ranks_check (f->job, rc == -1 && errno == ENOMEM && strstr (err.text, "no room to store it"),
                 "all ranks refuse a parameter that the last one cannot store: %s", err.text);
}

/* A run that only evaluates has neither gradients nor an optimizer; it loads the same
 * parameters as 'trains' has, or refuses as that does.
 */
static void test_evaluation (struct fixture *trains, bool float8, const char *dir)
{
    struct fixture f = { .job = trains->job };
    const struct param *p, *want;
    size_t n, wrong = 0;

    setup (&f, float8, true);
    test_weak (&f, dir, "store");
    test_weak (&f, dir, float8 ? "scale" : "round");
    test_good (&f, dir);
    p = model_params (f.model, &n);
    want = model_params (trains->model, &n);
    for (size_t i = 0; i < n; i++)
        wrong += p[i].grad || p[i].scale != want[i].scale
                 || memcmp (p[i].data, want[i].data,
                            (size_t)p[i].numel * mg_dtype_size (p[i].storage)) != 0;
    ranks_check (f.job, wrong == 0, "evaluation has the same parameters, and no gradients");
    if (!float8) {
        test_weak_tensor (&f);
        test_tensor (&f, 0x1p-130f);
    }
    teardown (&f);
}

/* A schedule that this program has no name for: of another version. */
static void test_schedule (struct fixture *f, const char *dir)
{
    struct state_source from = { .dir = dir, .iteration = 5 };
    const struct list *saved = &f->state->saved;
    struct checkpoint_value values[NUM_VALUES + 1];
    struct train_progress progress = { .iteration = -1 };
    struct state_found found;
    struct mg_error err = { "" };
    int rc;

    state_name_values (values, NUM_VALUES);
    values[VALUE_HEADS].integer = 2;
    snprintf (values[VALUE_STYLE].text, sizeof (values->text), "spiral");
    snprintf (values[VALUE_WD_STYLE].text, sizeof (values->text), "constant");
    rc = checkpoint_save (dir, from.iteration, values, saved->piece, saved->n,
                          job_control (f->job), &err);
    ranks_check (f->job, rc == 0, "one with a strange schedule %s", err.text);
    rc = state_load (f->state, &from, &progress, &found, &err);
    ranks_check (f->job, rc == -1 && strstr (err.text, "spiral"), "is refused: %s", err.text);
    from.prefer = LR_PREFER_OWN;
    rc = state_load (f->state, &from, &progress, &found, &err);
    ranks_check (f->job, rc == 1, "unless the run's own counts: %d", rc);
}

/* "state.t DIR": a directory of all ranks; one rank has its own without that. */
int main (int argc, char **argv)
{
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1 };
    struct fixture f = { .job = NULL };
    const char *dir = argv[1];

    if (argc < 2) {
        scratch_create ();
        dir = scratch_path ("ckpt");
    }
    geometry_init (&config.geometry);
    f.job = ranks_start (&config);
    setup (&f, false, false);
    save (&f, dir);
    test_weak (&f, dir, "store");
    test_weak (&f, dir, "round");
    test_good (&f, dir);
    test_evaluation (&f, false, dir);
    test_schedule (&f, dir);
    test_tensor (&f, 0x1.8p-149f);
    teardown (&f);
    setup (&f, true, false);
    test_weak (&f, dir, "scale");
    test_good (&f, dir);
    test_evaluation (&f, true, dir);
    teardown (&f);
    return ranks_done (f.job);
}
