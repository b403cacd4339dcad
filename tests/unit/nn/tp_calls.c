/* tp_calls.c - what a model sends over its tensor-parallel group, call by call
 *
 * All ranks that this is started with form one tensor-parallel group (one rank by itself
 * makes the same calls, to nobody).
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/nn/block.h"
#include "libcore/nn/model.h"
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

static int fetch (void *arg, int microbatch, bool tokens, struct nn_batch *batch,
                  struct mg_error *err)
{
    (void)arg, (void)err;
    for (int b = 0; b < BATCH; b++)
        batch->sample[b] = microbatch * BATCH + b;
    for (int t = 0; tokens && t < TOKENS; t++) {
        batch->token[t] = (t * 37) % VOCAB;
        batch->label[t] = (t * 91) % VOCAB;
        batch->mask[t] = 1;
    }
    return 0;
}

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
                  model_num_tensors (f->model));
    if (model_bind (f->model, &slots, &err) < 0 || model_init_params (f->model, &err) < 0)
        bail_out ("%s", err.text);
    model_set_input (f->model, fetch, NULL, 1);
    model_clear_loss (f->model, NULL);
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
    if (model_forward (f.model, 0, 0, 0, true, &err) < 0)
        bail_out ("%s", err.text);
    want = expect (t, sequence, 2 * layers + 1, 2 * layers + 1, true);
    snprintf (what, sizeof (what), "%d layers, forward%s", layers, sequence ? ", sequence" : "");
    check_calls (t, &want, what);

    begin (t);
    if (model_backward (f.model, 0, 0, &err) < 0)
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

/* Parameters of a layer with memory of their own. */
static void give_memory (struct param *p)
{
    for (int i = 0; i < BLOCK_NUM_PARAMS; i++) {
        p[i].data = calloc ((size_t)p[i].numel, sizeof (float));
        p[i].grad = calloc ((size_t)p[i].numel, sizeof (float));
        if (!p[i].data || !p[i].grad)
            bail_out ("out of memory");
    }
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
static void check_phase (struct test *t, const struct block_run *run,
                         const struct block_phase *phase, bool forward)
{
    bool reduces = forward ? ends_half (phase->name) : begins_half (phase->name);
    struct mg_comm_stats want = expect (t, false, 0, reduces, false);
    int (*f) (const struct block_run *, struct mg_error *) = forward ? phase->fwd : phase->bwd;
    struct mg_error err = { "" };
    char what[80];

    begin (t);
    if (f && f (run, &err) < 0)
        bail_out ("%s: %s", phase->name, err.text);
    snprintf (what, sizeof (what), "%s, %s", phase->name, forward ? "forward" : "backward");
    check_calls (t, &want, what);
}

/* One layer, phase by phase: each half reduces once, where it ends. */
static void test_phases (struct test *t)
{
    static char memory[1 << 20] __attribute__ ((aligned (ARENA_ALIGN)));
    struct fixture f;
    struct block block;
    struct param params[BLOCK_NUM_PARAMS];
    void *act[BLOCK_NUM_ACTS] = { NULL }, *grad[BLOCK_NUM_GRADS] = { NULL };
    int64_t sample[BATCH] = { 0, 1, 2 };
    struct nn_batch batch = { .sample = sample };
    struct block_run run = { .block = &block, .batch = &batch, .act = act, .training = true };
    struct mg_error err = { "" };
    struct arena a;

    setup (t, &f, 1, false);
    run.nn = model_nn (f.model);
    block_init (&block, run.nn, 0, params, 0);
    if (block_make_keys (&block, run.nn, &err) < 0)
        bail_out ("%s", err.text);
    give_memory (params);
    arena_init (&a, memory, sizeof (memory));
    block_carve_saved (run.nn, &a, act);
    block_carve_shared (run.nn, &a, act, grad);
    act[ACT_INPUT] = arena_take (&a, TOKENS * HIDDEN, sizeof (float));
    act[ACT_OUTPUT] = arena_take (&a, TOKENS * HIDDEN, sizeof (float));
    grad[GRAD_HIDDEN] = arena_take (&a, TOKENS * HIDDEN, sizeof (float));
    if (a.overflow)
        bail_out ("the arena is too small");
    for (size_t i = 0; i < block_num_phases; i++)
        check_phase (t, &run, &block_phases[i], true);
    run.grad = grad;
    for (size_t i = block_num_phases; i-- > 0;)
        check_phase (t, &run, &block_phases[i], false);
    for (int i = 0; i < BLOCK_NUM_PARAMS; i++) {
        free (params[i].data);
        free (params[i].grad);
    }
    block_clear (&block, job_device (t->job));
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
