/* tp_calls.c - what a model sends over its tensor-parallel group, call by call
 *
 * All ranks that this is started with form one tensor-parallel group (one rank by itself
 * makes the same calls, to nobody).
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/model/gpt.h"
#include "libcore/model/model.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { SEQ = 12, BATCH = 3, TOKENS = SEQ * BATCH, HIDDEN = 20, HEADS = 12, VOCAB = 1000 };

static const struct mg_comm_stats nothing;

struct test {
    struct job *job;
    struct mg_comm *tp;
    int size;
    struct mg_comm_stats at; /* when counting began */
};

/* One model, ready to run. */
struct fixture {
    struct model *model;
    struct stack stack;
    struct param *params;
    size_t n;
};

static void begin (struct test *t)
{
    mg_comm_get_stats (t->tp, &t->at);
}

/* Calls and bytes over the group since begin(). */
static struct mg_comm_stats since (const struct test *t)
{
    struct mg_comm_stats now;

    mg_comm_get_stats (t->tp, &now);
    for (int i = 0; i < MG_NUM_CALLS; i++) {
        now.calls[i] -= t->at.calls[i];
        now.bytes[i] -= t->at.bytes[i];
    }
    return now;
}

/* Exactly these calls, and no other, with these bytes. */
static void check_calls (struct test *t, const struct mg_comm_stats *want, const char *what)
{
    static const char *const names[MG_NUM_CALLS] = { "all-reduce", "reduce-scatter",
                                                     "all-gather", "all-to-all",
                                                     "broadcast", "p2p", "barrier" };
    struct mg_comm_stats got = since (t);
    char text[160] = "";

    for (int i = 0; i < MG_NUM_CALLS; i++) {
        size_t len = strlen (text);

        if (got.calls[i] || want->calls[i])
            snprintf (text + len, sizeof (text) - len, " %s %d of %d (%d of %d bytes)",
                      names[i], (int)got.calls[i], (int)want->calls[i], (int)got.bytes[i],
                      (int)want->bytes[i]);
    }
    ranks_check (t->job, memcmp (&got, want, sizeof (got)) == 0, "%s:%s", what,
                 *text ? text : " nothing");
}

static void fill (struct nn_inputs in)
{
    int64_t *sample = nn_inputs_data (&in, "samples");
    int32_t *token = nn_inputs_data (&in, "tokens"), *label = nn_inputs_data (&in, "labels");
    float *mask = nn_inputs_data (&in, "loss_mask");

    for (int b = 0; b < BATCH; b++)
        sample[b] = b;
    for (int i = 0; i < TOKENS; i++) {
        token[i] = (i * 37) % VOCAB;
        label[i] = (i * 91) % VOCAB;
        mask[i] = 1;
    }
}

static const struct model_mode mode = { .training = true, .loss_weight = 1 };

static void setup (struct test *t, struct fixture *f, int layers, bool sequence)
{
    struct model_spec spec = {
        .config = {
            .num_layers = layers, .hidden_size = HIDDEN, .ffn_hidden_size = 36,
            .num_heads = HEADS, .kv_channels = 3, .seq_length = SEQ, .max_positions = SEQ,
            .vocab_size = VOCAB, .padded_vocab_size = model_padded_vocab (VOCAB, 8, t->size),
            .norm_epsilon = 1e-5, .init_std = 0.02, .hidden_dropout = 0.1,
            .attention_dropout = 0.1, .tied_embeddings = true, .seed = 3,
        },
        .micro_batch_size = BATCH,
        .sequence_parallel = sequence && t->size > 1,
    };
    const struct stack_config stack = {
        .main = { .keep = true },
        .optimizer = { .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .clip_grad = 1 },
    };
    struct mg_error err = { "" };
    int slots = 1;

    if (!(f->model = model_create (&spec, t->job, &err)))
        bail_out ("%s", err.text);
    f->params = model_params (f->model, &f->n);
    stack_create (&f->stack, &stack, t->job, model_stream (f->model), f->params, f->n,
                  model_sizes_of (f->model)->tensors);
    if (model_bind (f->model, &slots, &err) < 0 || model_init_params (f->model, &err) < 0)
        bail_out ("%s", err.text);
    fill (model_inputs (f->model, NULL, 0, 0));
    model_clear_losses (f->model, NULL);
}

static void teardown (struct fixture *f)
{
    stack_destroy (&f->stack);
    model_destroy (f->model);
}

/* What one iteration may send: 'entries' and 'exits' of tensor-parallel regions; the three
 * numbers a token of the cross entropy come on top, in two calls.
 */
static struct mg_comm_stats expect (const struct test *t, bool sequence, int entries,
                                    int exits, bool loss)
{
    struct mg_comm_stats want = nothing;
    const uint64_t all = TOKENS * HIDDEN * sizeof (float);

    if (sequence && t->size > 1) {
        want.calls[MG_CALL_ALL_GATHER] = (uint64_t)entries;
        want.bytes[MG_CALL_ALL_GATHER] = (uint64_t)entries * all / (uint64_t)t->size;
        want.calls[MG_CALL_REDUCE_SCATTER] = (uint64_t)exits;
        want.bytes[MG_CALL_REDUCE_SCATTER] = (uint64_t)exits * all;
    }
    else {
        want.calls[MG_CALL_ALL_REDUCE] = (uint64_t)exits;
        want.bytes[MG_CALL_ALL_REDUCE] = (uint64_t)exits * all;
    }
    if (loss) {
        want.calls[MG_CALL_ALL_REDUCE] += 2;
        want.bytes[MG_CALL_ALL_REDUCE] += 3 * TOKENS * sizeof (float);
    }
    return want;
}

/* Whole passes: no logits, no gradient of a weight, nothing but hidden states. */
static void test_iteration (struct test *t, int layers, bool sequence)
{
    struct fixture f;
    struct mg_comm_stats want;
    struct mg_error err = { "" };
    double norm = 0;
    char what[80];

    setup (t, &f, layers, sequence);
    begin (t);
    if (model_begin (f.model, &mode, &err) < 0 || model_forward (f.model, &mode, 0, 0, &err) < 0)
        bail_out ("%s", err.text);
    want = expect (t, sequence, 2 * layers + 1, 2 * layers + 1, true);
    snprintf (what, sizeof (what), "%d layers, forward%s", layers, sequence ? ", sequence" : "");
    check_calls (t, &want, what);

    begin (t);
    if (model_backward (f.model, &mode, 0, 0, &err) < 0)
        bail_out ("%s", err.text);
    want = expect (t, sequence, 4 * layers + 2, 2 * layers + 1, false);
    snprintf (what, sizeof (what), "%d layers, backward%s", layers, sequence ? ", sequence" : "");
    check_calls (t, &want, what);

    begin (t);
    if (optimizer_reduce_grads (f.stack.optimizer, &err) < 0
        || optimizer_grad_norm (f.stack.optimizer, NULL, 0, &norm, &err) < 0
        || optimizer_step (f.stack.optimizer, 1e-3, 0.01, norm, &err) < 0)
        bail_out ("%s", err.text);
    want = nothing;
    if (sequence && t->size > 1) { /* norms, biases after the regions, positions */
        want.calls[MG_CALL_ALL_REDUCE] = 1;
        want.bytes[MG_CALL_ALL_REDUCE] = (6 * (uint64_t)layers + 2 + SEQ) * HIDDEN * sizeof (float);
    }
    snprintf (what, sizeof (what), "%d layers, update%s", layers, sequence ? ", sequence" : "");
    check_calls (t, &want, what);
    ranks_check (t->job, norm > 0, "and there was something to send");
    teardown (&f);
}

/* A layer of a model with memory of its own. */
struct alone {
    struct layer_spec spec;
    struct layer layer;
    struct param param[LAYER_MAX_PARAMS];
    struct tensor tensor[LAYER_MAX_TENSORS + 1];
    struct nn_shape shape;
};

static void take_alone (struct alone *l, const struct nn *nn)
{
    static char memory[1 << 20] __attribute__ ((aligned (ARENA_ALIGN)));
    struct mg_error err = { "" };
    struct arena a;

    l->shape = (struct nn_shape){ .batch = BATCH, .seq = SEQ, .tokens = TOKENS,
                                  .whole_seq = SEQ, .rows = TOKENS };
    if (gpt_spec (GPT_LAYER, nn, &l->shape, &l->spec, &err) < 0)
        bail_out ("%s", err.text);
    l->layer.spec = &l->spec;
    layer_describe (&l->layer, nn, false, l->param, 0);
    arena_init (&a, memory, sizeof (memory));
    for (int i = 0; i < l->spec.num_params; i++) {
        struct param *p = &l->param[i];

        p->data = arena_carve (&a, p->numel, sizeof (float));
        p->grad = arena_carve (&a, p->numel, sizeof (float));
    }
    for (int i = 1; i <= l->spec.num_tensors; i++) {
        l->tensor[i] = layer_tensor_of (nn, &l->spec, i);
        tensor_carve (&l->tensor[i], &a);
    }
    if (a.overflow)
        bail_out ("the arena is too small");
}

static bool ends_half (const char *phase)
{
    return strcmp (phase, "attention_reduce") == 0 || strcmp (phase, "mlp_reduce") == 0;
}

/* Backward, the first product of a half is its end. */
static bool begins_half (const char *phase)
{
    return strcmp (phase, "linear_qkv") == 0 || strcmp (phase, "linear_fc1") == 0;
}

/* One phase of a layer. */
static void check_phase (struct test *t, const struct pass *pass, const struct phase *phase,
                         bool forward)
{
    bool reduces = forward ? ends_half (phase->name) : begins_half (phase->name);
    struct mg_comm_stats want = expect (t, false, 0, reduces, false);
    int (*f) (const struct pass *, const struct phase *, struct mg_error *)
        = forward ? phase->op->fwd : phase->op->bwd;
    struct mg_error err = { "" };
    char what[80];

    begin (t);
    if (f && f (pass, phase, &err) < 0)
        bail_out ("%s: %s", phase->name, err.text);
    snprintf (what, sizeof (what), "%s, %s", phase->name, forward ? "forward" : "backward");
    check_calls (t, &want, what);
}

/* One layer, phase by phase: each half reduces once, where it ends. */
static void test_phases (struct test *t)
{
    static struct alone l;
    struct fixture f;
    struct pass pass = { .training = true, .layer = &l.layer, .shape = &l.shape,
                         .tensor = l.tensor };

    setup (t, &f, 1, false);
    pass.nn = model_nn (f.model);
    take_alone (&l, pass.nn);
    for (int i = 0; i < l.spec.num_phases; i++)
        check_phase (t, &pass, &l.spec.phase[i], true);
    for (int i = l.spec.num_phases; i-- > 0;)
        check_phase (t, &pass, &l.spec.phase[i], false);
    teardown (&f);
}

int main (void)
{
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1 };
    struct test t = { .job = NULL };

    geometry_init (&config.geometry);
    config.geometry.tp = ranks_meet (&config);
    t.job = ranks_start (&config);
    t.tp = job_comm (t.job, GROUP_TP);
    t.size = job_world (t.job);
    test_phases (&t);
    for (int sequence = 0; sequence < 2; sequence++) {
        test_iteration (&t, 1, sequence);
        test_iteration (&t, 3, sequence);
    }
    return ranks_done (t.job);
}
