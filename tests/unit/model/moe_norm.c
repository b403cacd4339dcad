/* The gradient norm of a model with experts among the ranks that this is started with: where every
 * element of the gradient is one, it is the square root of the number of parameters, with and
 * without a distributed optimizer.
 *
 * The arguments are the sizes of tp, ep, etp and cp.
 */

#include <math.h>
#include <stdlib.h>

#include "libcore/model/model.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { LAYERS = 2, HIDDEN = 20, FFN = 12, SHARED = 8, EXPERTS = 8, SEQ = 16, VOCAB = 64,
       HEADS = 4, HEAD = 3 };

/* By hand: norms, attention, router, experts with a gate, shared ones; embeddings, positions. */
static const double num_parameters
    = LAYERS * (2 * HIDDEN + 4 * HIDDEN * HEADS * HEAD + EXPERTS * HIDDEN
                + EXPERTS * 3 * HIDDEN * FFN + 3 * HIDDEN * SHARED)
      + 2 * VOCAB * HIDDEN + SEQ * HIDDEN + HIDDEN;

static struct model *make_model (const struct job *job)
{
    const struct model_spec spec = {
        .config = {
            .num_layers = LAYERS, .hidden_size = HIDDEN, .ffn_hidden_size = 32,
            .num_heads = HEADS, .kv_channels = HEAD, .seq_length = SEQ, .max_positions = SEQ,
            .vocab_size = VOCAB, .padded_vocab_size = VOCAB, .norm_epsilon = 1e-5,
            .init_std = 0.02, .norm = KERN_RMS_NORM, .gated = true, .no_linear_bias = true,
            .seed = 3,
            .moe = { .experts = EXPERTS, .ffn_hidden_size = FFN, .topk = 2,
                     .score = KERN_SIGMOID, .shared_ffn = SHARED,
                     .dispatch = MOE_ALL_TO_ALL },
        },
        .micro_batch_size = 1,
        .sequence_parallel = mg_comm_size (job_comm (job, GROUP_TP)) > 1,
    };
    struct mg_error err = { "" };
    struct model *m = model_create (&spec, job, &err);

    if (!m)
        bail_out ("%s", err.text);
    return m;
}

static int size_of (const struct job *job, enum group_kind kind)
{
    return mg_comm_size (job_comm (job, kind));
}

/* What this rank has of gradients of one: ranks that have the same parameter have equal parts. */
static void set_gradients (const struct job *job, struct param *params, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct param *p = &params[i];
        int data = size_of (job, p->expert ? GROUP_EDP : GROUP_DP_CP);
        int tensor = p->sequence_parallel ? size_of (job, p->expert ? GROUP_ETP : GROUP_TP) : 1;
        float *grad = p->grad;

        for (int64_t e = 0; e < p->numel; e++)
            grad[e] = (float)(1.0 / data / tensor);
    }
}

static void test (struct job *job, bool sharded)
{
    const struct stack_config config = {
        .buffers = { .sharded = sharded, .bucket_size = 700 },
        .main = { .keep = true },
        .optimizer = { .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .clip_grad = 1,
                       .count_zeros = true },
    };
    struct model *m = make_model (job);
    struct mg_error err = { "" };
    struct stack stack;
    struct param *params;
    double norm = 0, want = sqrt (num_parameters);
    size_t n;

    params = model_params (m, &n);
    stack_create (&stack, &config, job, model_stream (m), params, n, model_sizes_of (m)->tensors);
    if (buffers_zero_grad (stack.buffers, &err) < 0
        || mg_stream_synchronize (model_stream (m), &err) < 0)
        bail_out ("%s", err.text);
    set_gradients (job, params, n);
    if (optimizer_reduce_grads (stack.optimizer, &err) < 0
        || optimizer_grad_norm (stack.optimizer, NULL, 0, &norm, &err) < 0)
        bail_out ("%s", err.text);
    ranks_check (job, (double)model_sizes_of (m)->parameters == num_parameters,
                 "%d parameters, %d by hand", (int)model_sizes_of (m)->parameters,
                 (int)num_parameters);
    ranks_check (job, fabs (norm - want) <= 1e-12 * want, "%s: the norm is %.15g, want %.15g",
                 sharded ? "sharded" : "whole", norm, want);
    ranks_check (job, optimizer_zeros (stack.optimizer) == 0, "no zeros");
    stack_destroy (&stack);
    model_destroy (m);
}

int main (int argc, char **argv)
{
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1 };
    struct job *job;

    geometry_init (&config.geometry);
    if (argc == 5) {
        config.geometry.tp = atoi (argv[1]);
        config.geometry.ep = atoi (argv[2]);
        config.geometry.etp = atoi (argv[3]);
        config.geometry.cp = atoi (argv[4]);
    }
    job = ranks_start (&config);
    test (job, false);
    test (job, true);
    return ranks_done (job);
}
