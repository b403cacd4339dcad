/* Arguments that megatron train does not have: the table, and what is said. */

#include <errno.h>
#include <string.h>

#include "libcore/train/args.h"
#include "libcore/train/args_other.h"
#include "tests/tap/tap.h"

static bool repeated (size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp (args_other_table[k].name, args_other_table[i].name) == 0)
            return true;
    }
    return false;
}

static void test_table (void)
{
    bool family = false;

    for (size_t i = 0; i < args_other_num; i++) {
        const struct args_other *row = &args_other_table[i];
        bool star = row->name[strlen (row->name) - 1] == '*';
        struct mg_error err = { "" };

        ok (!train_arg_find (row->name) && !repeated (i), "--%s: one row, no argument",
            row->name);
        ok ((row->text && *row->text) || row->kind == OTHER_LAUNCHER, "--%s: says what to do",
            row->name);
        ok (star || !family, "--%s: families come last", row->name);
        family |= star;
        ok (args_other_refuse (row->name, strlen (row->name), &err) < 0
                && errno == (row->kind == OTHER_ABSENT ? ENOTSUP : EINVAL)
                && strlen (err.text) < MG_ERROR_MAX - 64,
            "%s", err.text);
    }
}

/* What "give ... instead" names must be there, else it helps nobody. */
static void test_instead (void)
{
    for (size_t i = 0; i < args_other_num; i++) {
        const struct args_other *row = &args_other_table[i];
        char name[80] = "";

        if (!row->text || sscanf (row->text, "--%79[a-z0-9-]", name) != 1)
            continue;
        ok (train_arg_find (name) != NULL, "--%s: --%s is an argument", row->name, name);
    }
}

/* All arguments of Megatron-LM d98e8a64 about experts and multi-token prediction: there, or in the
 * table with a reason.
 */
static void test_experts (void)
{
    static const char *const names[] = {
        "num-experts", "expert-model-parallel-size", "expert-tensor-parallel-size",
        "expert-tensor-parallel-num-weight-shards", "moe-layer-freq", "moe-ffn-hidden-size",
        "moe-shared-expert-intermediate-size", "moe-shared-expert-gate",
        "moe-shared-expert-overlap", "use-grouped-gemm-for-shared-expert",
        "moe-shared-expert-glu-interleave-size", "moe-router-load-balancing-type",
        "moe-router-topk", "moe-enable-routing-replay", "moe-router-padding-for-quantization",
        "moe-router-padding-for-fp8", "moe-router-num-groups", "moe-router-group-topk",
        "moe-router-pre-softmax", "moe-router-topk-scaling-factor", "moe-router-score-function",
        "moe-router-dtype", "moe-router-enable-expert-bias", "moe-router-bias-update-rate",
        "moe-router-quantile-balancing-ema", "moe-router-force-load-balancing",
        "moe-router-force-biased", "use-grouped-gemm-for-dense-mlp", "moe-grouped-gemm",
        "moe-use-grouped-tensor", "moe-single-grouped-weight", "moe-single-grouped-bias",
        "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-input-jitter-eps",
        "moe-token-dispatcher-type", "moe-enable-deepep", "moe-flex-dispatcher-backend",
        "moe-permute-fusion-into-hybridep", "moe-hybridep-pad-uneven-dispatch-inputs",
        "moe-per-layer-logging", "moe-expert-capacity-factor", "moe-pad-expert-input-to-capacity",
        "moe-pad-experts-for-cuda-graph-inference", "moe-token-drop-policy",
        "moe-layer-recompute", "moe-permute-fusion", "moe-router-fusion",
        "moe-apply-probs-on-input", "moe-latent-size", "moe-flex-dispatcher-num-sms",
        "moe-deepep-num-sms", "moe-hybridep-num-sms", "moe-hybridep-num-blocks-permute",
        "moe-hybridep-num-blocks-unpermute", "moe-hybridep-num-sms-preprocessing",
        "moe-ncclep-zero-copy", "moe-dispatch-fwd-dtype", "moe-combine-bwd-dtype",
        "moe-mlp-glu-interleave-size", "moe-expert-rank-capacity-factor", "moe-paged-stash",
        "moe-paged-stash-page-size", "moe-paged-stash-buffer-size-factor-cuda",
        "moe-paged-stash-buffer-size-factor-cpu", "moe-routing-trace-path",
        "moe-routing-trace-max-training-iters", "moe-routing-trace-capture-logits",
        "moe-routing-trace-capture-hidden-states", "moe-routing-trace-dump-weights",
        "save-tokens-per-expert-interval", "moe-use-upcycling", "moe-upcycling-granularity",
        "overlap-moe-expert-parallel-comm", "delay-wgrad-compute",
        "overlap-dispatch-backward-with-experts-wgrad", "ep-overlap-early-attn-memory-release",
        "high-priority-a2a-comm-stream", "inference-grouped-gemm-backend",
        "inference-moe-disable-fused-quant-kernels", "inference-moe-token-dispatcher-type",
        "gtp-expert-remat-nccl-ub", "gtp-remat-opt-in-modules", "mtp-num-layers",
        "mtp-loss-scaling-factor", "mtp-use-repeated-layer", "mtp-detach-heads", "mtp-hsm",
        "mtp-hybrid-override-pattern", "mtp-standalone", "rl-inference-expert-model-parallel-size",
        "rl-inference-expert-tensor-model-parallel-size",
    };

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++) {
        struct mg_error err = { "" };

        if (!train_arg_find (names[i]))
            args_other_refuse (names[i], strlen (names[i]), &err);
        ok (!strstr (err.text, "unknown"), "--%s: %s", names[i],
            err.text[0] ? err.text : "an argument");
    }
}

/* The same of those about CUDA graphs in training. */
static void test_graphs (void)
{
    static const char *const names[] = {
        "cuda-graph-impl", "cuda-graph-modules", "cuda-graph-scope", "cuda-graph-warmup-steps",
        "cuda-graph-use-single-mempool", "cuda-graph-retain-backward-graph", "enable-cuda-graph",
        "external-cuda-graph", "inference-cuda-graph-scope", "optimizer-cuda-graph",
        "te-rng-tracker", "rl-training-cuda-graphs", "rl-persist-cuda-graphs",
        "moe-pad-experts-for-cuda-graph-inference",
    };

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++) {
        struct mg_error err = { "" };

        if (!train_arg_find (names[i]))
            args_other_refuse (names[i], strlen (names[i]), &err);
        ok (!strstr (err.text, "unknown"), "--%s: %s", names[i],
            err.text[0] ? err.text : "an argument");
    }
}

static void test_texts (void)
{
    static const struct {
        const char *name, *want;
    } rows[] = {
        { "use-flash-attn", "--use-flash-attn of Megatron-LM changes nothing here (there is one "
                            "implementation): leave it out" },
        { "mtp-hsm", "--mtp-hsm of Megatron-LM is not available in this version: each layer for "
                     "multi-token prediction reads what the one before makes; leave it out if the "
                     "run can do with that" },
        { "moe-hybridep-num-sms", "--moe-hybridep-num-sms of Megatron-LM is not available in this "
                                  "version: DeepEP, HybridEP and NCCL EP are libraries for GPUs; "
                                  "there are --moe-token-dispatcher-type allgather and alltoall; "
                                  "leave it out if the run can do with that" },
        { "optimizer-cuda-graph", "--optimizer-cuda-graph of Megatron-LM is not available in this "
                                  "version: an update reads its learning rate from the host, and "
                                  "a graph would keep the first one; --cuda-graph-impl captures "
                                  "passes; leave it out if the run can do with that" },
        { "inference-cuda-graph-scope", "--inference-cuda-graph-scope of Megatron-LM is not "
                                        "available in this version: nothing is generated; "
                                        "--cuda-graph-impl captures passes of the training; leave "
                                        "it out if the run can do with that" },
        { "cuda-graph-use-single-mempool",
          "--cuda-graph-use-single-mempool of Megatron-LM is not available in this version: the "
          "memory of captured passes is planned, and there is nothing to choose; there are "
          "--cuda-graph-impl, --cuda-graph-modules and --cuda-graph-warmup-steps; leave it out if "
          "the run can do with that" },
        { "moe-grouped-gemm", "--moe-grouped-gemm of Megatron-LM changes nothing here (the "
                              "products of all experts of a rank are one operation): leave it "
                              "out" },
        { "moe-router-top", "unknown argument --moe-router-top; did you mean --moe-router-topk?" },
        { "tp", "--tp is no argument of megatron train: give --tensor-model-parallel-size N" },
        { "megatron-tp", "--megatron-tp is an option of srun, sbatch and salloc: give it to them, "
                         "before the command; here it is --tensor-model-parallel-size N" },
        { "ntasks", "--ntasks is an option of srun, sbatch and salloc: give it to them, before "
                    "the command" },
        { "hiden-size", "unknown argument --hiden-size; did you mean --hidden-size?" },
        { "bogus", "unknown argument --bogus; \"megatron train --help\" lists them" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };

        args_other_refuse (rows[i].name, strlen (rows[i].name), &err);
        is_str (err.text, rows[i].want, "--%s", rows[i].name);
    }
}

int main (void)
{
    test_table ();
    test_instead ();
    test_experts ();
    test_graphs ();
    test_texts ();
    return done_testing ();
}
