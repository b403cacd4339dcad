/* args_other.c - the table of other arguments, and the messages
 *
 * A row says why the argument is not there and what to do instead.  Exact names come before
 * beginnings of names, so that a family does not hide a member with a text of its own.
 */

#include <errno.h>
#include <string.h>

#include "libcore/base/nearest.h"
#include "libcore/train/args.h"
#include "libcore/train/args_other.h"

#define NEEDLESS(name, why) { name, OTHER_NEEDLESS, why }
#define ABSENT(name, have) { name, OTHER_ABSENT, have }
#define INSTEAD(name, other) { name, OTHER_INSTEAD, other }
#define LAUNCHER(name, here) { name, OTHER_LAUNCHER, here }

static const char fused[] = "what can be fused is fused";
static const char mine[] = "there is one implementation";
static const char gc[] = "nothing here collects garbage";
static const char saved_format[] = "checkpoints have one format, see megatron-checkpoint(1)";
static const char gpu_tokens[] = "DeepEP, HybridEP and NCCL EP are libraries for GPUs; there are "
                                 "--moe-token-dispatcher-type allgather and alltoall";
static const char gpu_products[] = "TransformerEngine's grouped tensors are for GPUs; the products "
                                   "of all experts of a rank are one operation here";
static const char one_pass[] = "a pass runs layer by layer, and is not mixed with the pass of "
                               "another microbatch; there is --moe-shared-expert-overlap";
static const char whole_backward[] = "gradients are computed in the backward pass";
static const char fp8_storage[] = "float8 is for storage: --fp8-param-gather";
static const char cpu_only[] = "it computes on CPUs";
static const char one_optimizer[] = "the optimizer is AdamW";
static const char gpt_only[] = "the model is a GPT that is trained on tokens";
static const char one_length[] = "all samples have one length, which --context-parallel-size "
                                 "splits evenly";
static const char packed[] = "samples are documents end to end, see megatron-data(1)";
static const char gather_only[] = "--use-distributed-optimizer splits the optimizer's state";
static const char written[] = "see --metrics-file, --trace-file and --timing-log-level";
static const char graphs[] = "the memory of captured passes is planned, and there is nothing to "
                             "choose; there are --cuda-graph-impl, --cuda-graph-modules and "
                             "--cuda-graph-warmup-steps";
static const char nccl[] = "ranks talk through MPI, not NCCL";
static const char restart[] = "a rank that dies ends the run, which --load goes on with";

/* Exact names first, then beginnings. */
const struct args_other args_other_table[] = {
    /* other names of what there is */
    INSTEAD ("tp", "--tensor-model-parallel-size N"),
    INSTEAD ("pp", "--pipeline-model-parallel-size N"),
    INSTEAD ("cp", "--context-parallel-size N"),
    INSTEAD ("ep", "--expert-model-parallel-size N"),
    INSTEAD ("etp", "--expert-tensor-parallel-size N"),
    INSTEAD ("num-moe-experts", "--num-experts N"),
    INSTEAD ("moe-extended-tp", "--expert-tensor-parallel-size N"),
    INSTEAD ("moe-router-topk-limited-devices",
             "--moe-router-group-topk N and --moe-router-num-groups N"),
    INSTEAD ("mtp-standalone", "--pipeline-model-parallel-layout, whose m places the layers"),
    INSTEAD ("vpp", "--num-virtual-stages-per-pipeline-rank N"),
    INSTEAD ("order", "--use-tp-pp-dp-mapping for the order tp-cp-ep-pp-dp"),
    INSTEAD ("model-parallel-size", "--tensor-model-parallel-size N"),
    INSTEAD ("virtual-pipeline-model-parallel-size",
             "--num-virtual-stages-per-pipeline-rank N"),
    INSTEAD ("num-layers-in-first-pipeline-stage", "--decoder-first-pipeline-num-layers N"),
    INSTEAD ("num-layers-in-last-pipeline-stage", "--decoder-last-pipeline-num-layers N"),
    INSTEAD ("checkpoint-activations", "--recompute-activations"),
    INSTEAD ("batch-size", "--micro-batch-size N"),
    INSTEAD ("warmup", "--lr-warmup-fraction X"),
    INSTEAD ("layernorm-epsilon", "--norm-epsilon X"),
    INSTEAD ("encoder-num-layers", "--num-layers N"),
    INSTEAD ("decoder-num-layers", "--num-layers N"),
    INSTEAD ("encoder-seq-length", "--seq-length N"),
    INSTEAD ("decoder-seq-length", "--seq-length N"),
    INSTEAD ("override-ckpt-iteration", "--ckpt-step N"),
    INSTEAD ("profile", "--trace-file FILE"),
    INSTEAD ("use-pytorch-profiler", "--trace-file FILE"),
    INSTEAD ("log-device-memory-used", "--log-memory-interval N"),
    INSTEAD ("fp8-param", "--fp8-param-gather"),
    INSTEAD ("data-args-path", "--args-file FILE, which may hold --data-path"),
    INSTEAD ("yaml-cfg", "--args-file FILE"),
    INSTEAD ("text", "--data-path PREFIX, made by megatron data tokenize --input FILE"),
    INSTEAD ("input", "--data-path PREFIX, made by megatron data tokenize --input FILE"),

    /* options of the launchers and of their plugin */
    LAUNCHER ("megatron-tp", "--tensor-model-parallel-size N"),
    LAUNCHER ("megatron-pp", "--pipeline-model-parallel-size N"),
    LAUNCHER ("megatron-cp", "--context-parallel-size N"),
    LAUNCHER ("megatron-ep", "--expert-model-parallel-size N"),
    LAUNCHER ("megatron-etp", "--expert-tensor-parallel-size N"),
    LAUNCHER ("megatron-vpp", "--num-virtual-stages-per-pipeline-rank N"),
    LAUNCHER ("megatron-order", "--use-tp-pp-dp-mapping"),
    LAUNCHER ("nodes", NULL),
    LAUNCHER ("ntasks", NULL),
    LAUNCHER ("ntasks-per-node", NULL),
    LAUNCHER ("mpi", NULL),
    INSTEAD ("world-size", "srun -n N or mpirun -n N: the world is the number of processes"),
    INSTEAD ("threads", "the variable OMP_NUM_THREADS: threads of a rank"),
    INSTEAD ("nproc-per-node", "srun --ntasks-per-node=N or mpirun -n N"),

    /* what is so anyway */
    NEEDLESS ("use-mcore-models", mine),
    NEEDLESS ("use-flash-attn", mine),
    NEEDLESS ("attention-backend", mine),
    NEEDLESS ("transformer-impl", mine),
    NEEDLESS ("no-bias-gelu-fusion", fused),
    NEEDLESS ("no-bias-swiglu-fusion", fused),
    NEEDLESS ("no-bias-dropout-fusion", fused),
    NEEDLESS ("no-masked-softmax-fusion", fused),
    NEEDLESS ("no-rope-fusion", fused),
    NEEDLESS ("mla-down-proj-fusion", fused),
    NEEDLESS ("no-gradient-accumulation-fusion", fused),
    NEEDLESS ("moe-permute-fusion", fused),
    NEEDLESS ("moe-router-fusion", fused),
    NEEDLESS ("moe-grouped-gemm", "the products of all experts of a rank are one operation"),
    NEEDLESS ("cross-entropy-loss-fusion", fused),
    NEEDLESS ("cross-entropy-fusion-impl", fused),
    NEEDLESS ("no-persist-layer-norm", fused),
    NEEDLESS ("attention-softmax-in-fp32", "the softmax is computed in float32"),
    NEEDLESS ("deterministic-mode", "the same run twice agrees to the bit"),
    NEEDLESS ("use-cpu-initialization", "initial weights do not depend on the device"),
    NEEDLESS ("init-model-with-meta-device", "nothing is allocated before it is planned"),
    NEEDLESS ("no-initialization", "weights that are loaded replace the initial ones"),
    NEEDLESS ("distributed-backend", nccl),
    NEEDLESS ("pipeline-model-parallel-comm-backend", nccl),
    NEEDLESS ("disable-gloo-process-groups", nccl),
    NEEDLESS ("nccl-communicator-config-path", nccl),
    NEEDLESS ("use-nccl-ub", nccl),
    NEEDLESS ("use-sharp", nccl),
    NEEDLESS ("use-ring-exchange-p2p", nccl),
    NEEDLESS ("high-priority-stream-groups", nccl),
    NEEDLESS ("high-priority-a2a-comm-stream", nccl),
    NEEDLESS ("no-overlap-p2p-communication", "transfers do not change results"),
    NEEDLESS ("overlap-p2p-communication-warmup-flush", "transfers do not change results"),
    NEEDLESS ("distributed-timeout-seconds-after-init", "see --distributed-timeout-minutes"),
    NEEDLESS ("lazy-mpu-init", "ranks meet before the first step"),
    NEEDLESS ("local-rank", "the launcher says which rank a process is"),
    NEEDLESS ("num-workers", "samples are read where they are used"),
    NEEDLESS ("num-dataset-builder-threads", "see --data-cache-path"),
    NEEDLESS ("no-mmap-bin-files", "tokens are read, not mapped"),
    NEEDLESS ("no-create-attention-mask-in-dataloader", "no mask is made"),
    NEEDLESS ("manual-gc", gc),
    NEEDLESS ("manual-gc-eval", gc),
    NEEDLESS ("manual-gc-interval", gc),
    NEEDLESS ("empty-unused-memory-level", "memory is allocated once"),
    NEEDLESS ("ckpt-format", saved_format),
    NEEDLESS ("dist-ckpt-format", saved_format),
    NEEDLESS ("use-dist-ckpt", saved_format),
    NEEDLESS ("auto-detect-ckpt-format", saved_format),
    NEEDLESS ("dist-ckpt-strictness", saved_format),
    NEEDLESS ("dist-ckpt-optim-fully-reshardable", "every layout reads every checkpoint"),
    NEEDLESS ("ckpt-fully-parallel-save", "every rank writes its part"),
    NEEDLESS ("no-ckpt-fully-parallel-save", "every rank writes its part"),
    NEEDLESS ("ckpt-fully-parallel-load", "every rank reads its part"),
    NEEDLESS ("ckpt-assume-constant-structure", saved_format),
    NEEDLESS ("use-persistent-ckpt-worker", "see --async-save"),
    NEEDLESS ("verify-integrity", "checksums are always compared"),
    NEEDLESS ("no-save-rng", "there is no state of random generators"),
    NEEDLESS ("log-loss-scale-to-tensorboard", "the loss scale is in the log"),
    NEEDLESS ("no-one-logger", "nothing is reported to anybody"),
    NEEDLESS ("no-gradient-reduce-div-fusion", "sums have the same bits either way"),
    NEEDLESS ("no-align-param-gather", "results do not depend on it"),
    NEEDLESS ("no-barrier-with-level-1-timing", "timers make no barriers"),
    NEEDLESS ("align-grad-reduce", "results do not depend on it"),
    NEEDLESS ("exit-signal-handler-for-dataloader", "there are no loader processes"),
    NEEDLESS ("te-rng-tracker", "there is no state of random generators"),
    NEEDLESS ("tokenizer-hf-no-include-special-tokens",
              "training reads tokens; it is an option of megatron data tokenize"),
    NEEDLESS ("tokenizer-hf-no-use-fast", mine),
    NEEDLESS ("trust-remote-code", "no code of a tokenizer is run"),

    /* what this version cannot do */
    ABSENT ("moe-enable-deepep", gpu_tokens),
    ABSENT ("moe-permute-fusion-into-hybridep", gpu_tokens),
    ABSENT ("moe-dispatch-fwd-dtype", "tokens travel in the type of the activations"),
    ABSENT ("moe-combine-bwd-dtype", "gradients of tokens travel in the type of the activations"),
    ABSENT ("moe-use-grouped-tensor", gpu_products),
    ABSENT ("moe-single-grouped-weight", gpu_products),
    ABSENT ("moe-single-grouped-bias", gpu_products),
    ABSENT ("use-grouped-gemm-for-shared-expert", gpu_products),
    ABSENT ("use-grouped-gemm-for-dense-mlp", gpu_products),
    ABSENT ("moe-mlp-glu-interleave-size", gpu_products),
    ABSENT ("moe-shared-expert-glu-interleave-size", gpu_products),
    ABSENT ("moe-router-padding-for-quantization", fp8_storage),
    ABSENT ("moe-router-padding-for-fp8", fp8_storage),
    ABSENT ("moe-pad-experts-for-cuda-graph-inference", gpt_only),
    NEEDLESS ("moe-enable-routing-replay", "a routing to replay is handed over by a program, "
                                           "not by a training script"),
    ABSENT ("overlap-moe-expert-parallel-comm", one_pass),
    ABSENT ("ep-overlap-early-attn-memory-release", one_pass),
    ABSENT ("overlap-dispatch-backward-with-experts-wgrad", whole_backward),
    ABSENT ("wgrad-deferral-limit", whole_backward),
    ABSENT ("expert-tensor-parallel-num-weight-shards", gather_only),
    ABSENT ("tensor-parallel-num-weight-shards", gather_only),
    ABSENT ("save-tokens-per-expert-interval", written),
    ABSENT ("mtp-use-repeated-layer", "each layer for multi-token prediction has its own weights"),
    ABSENT ("mtp-detach-heads", "losses of multi-token prediction train the whole model"),
    ABSENT ("mtp-hsm", "each layer for multi-token prediction reads what the one before makes"),
    ABSENT ("mtp-hybrid-override-pattern", gpt_only),
    NEEDLESS ("openai-gelu", "GeLU is the tanh form already"),
    NEEDLESS ("onnx-safe", "no model is exported to ONNX"),
    ABSENT ("qk-l2-norm", "there is --qk-layernorm"),
    ABSENT ("apply-residual-connection-post-layernorm", "norms stand before each half of a block"),
    ABSENT ("fp32-residual-connection", "residuals have the type of the activations"),
    ABSENT ("apply-query-key-layer-scaling", "softmax is computed in float32 without it"),
    INSTEAD ("no-position-embedding", "--position-embedding-type none"),
    ABSENT ("cache-mla-latents", "nothing is generated, so keys are not kept"),
    ABSENT ("mock-data", "megatron data tokenize makes a dataset of any text"),
    ABSENT ("dataloader-type", "samples are taken in one order (single)"),
    ABSENT ("optimizer", one_optimizer),
    ABSENT ("sgd-momentum", one_optimizer),
    ABSENT ("optimizer-cpu-offload", cpu_only),
    ABSENT ("cpu-offloading", cpu_only),
    ABSENT ("cpu-offloading-num-layers", cpu_only),
    ABSENT ("fine-grained-activation-offloading", cpu_only),
    ABSENT ("offload-modules", cpu_only),
    ABSENT ("use-megatron-fsdp", gather_only),
    ABSENT ("use-torch-fsdp2", gather_only),
    ABSENT ("data-parallel-sharding-strategy", gather_only),
    ABSENT ("overlap-param-gather-with-optimizer-step", "there is --overlap-param-gather"),
    ABSENT ("tp-comm-overlap", "there are --overlap-grad-reduce and --overlap-param-gather"),
    ABSENT ("defer-embedding-wgrad-compute", whole_backward),
    ABSENT ("delay-wgrad-compute", whole_backward),
    ABSENT ("optimizer-cuda-graph", "an update reads its learning rate from the host, and a graph "
                                    "would keep the first one; --cuda-graph-impl captures passes"),
    ABSENT ("inference-cuda-graph-scope", "nothing is generated; --cuda-graph-impl captures "
                                          "passes of the training"),
    ABSENT ("hybrid-context-parallel", one_length),
    ABSENT ("max-seqlen-per-dp-cp-rank", one_length),
    ABSENT ("no-save-optim", "checkpoints hold all; megatron checkpoint convert takes weights out"),
    ABSENT ("log-progress", written),
    ABSENT ("log-straggler", written),
    ABSENT ("log-energy", written),
    ABSENT ("full-validation", "--eval-iters says how much is evaluated"),
    ABSENT ("eval-global-batch-size", "evaluations have the batches of the training"),
    ABSENT ("eval-micro-batch-size", "evaluations have the batches of the training"),
    ABSENT ("data-parallel-random-init", "all replicas begin with the same weights"),
    ABSENT ("init-method-xavier-uniform", "initial weights are normal, see --init-method-std"),
    ABSENT ("spec", gpt_only),
    ABSENT ("sft", gpt_only),
    ABSENT ("sequence-packing-scheduler", packed),
    ABSENT ("sft-sequence-packing", packed),
    ABSENT ("params-dtype", "there are --bf16, --fp16 and float32"),
    ABSENT ("fp16-lm-cross-entropy", "the loss is computed in float32"),
    ABSENT ("enable-ft-package", restart),
    ABSENT ("inprocess-restart", restart),
    ABSENT ("rerun-mode", restart),

    /* families */
    ABSENT ("moe-flex-*", gpu_tokens),
    ABSENT ("moe-deepep-*", gpu_tokens),
    ABSENT ("moe-hybridep-*", gpu_tokens),
    ABSENT ("moe-ncclep-*", gpu_tokens),
    ABSENT ("moe-paged-stash*", "memory is planned, and nothing is moved out of it"),
    ABSENT ("moe-routing-trace-*", written),
    ABSENT ("gtp-*", gather_only),
    ABSENT ("mamba-*", gpt_only),
    ABSENT ("hybrid-*", gpt_only),
    ABSENT ("fp8-*", fp8_storage),
    ABSENT ("fp4-*", fp8_storage),
    ABSENT ("cuda-graph-*", graphs),
    ABSENT ("muon-*", one_optimizer),
    ABSENT ("lion-*", one_optimizer),
    ABSENT ("inference-*", gpt_only),
    ABSENT ("rl-*", gpt_only),
    ABSENT ("inprocess-*", restart),
    ABSENT ("ft-*", restart),
    NEEDLESS ("profile-step-*", "see --trace-iterations"),
    NEEDLESS ("flight-recorder-*", "a recorder is always on"),
    NEEDLESS ("one-logger-*", "nothing is reported to anybody"),
    ABSENT ("wandb-*", written),
};

const size_t args_other_num = sizeof (args_other_table) / sizeof (args_other_table[0]);

static bool names (const struct args_other *row, const char *name, size_t len)
{
    size_t n = strlen (row->name);

    if (row->name[n - 1] == '*')
        return len >= n - 1 && memcmp (row->name, name, n - 1) == 0;
    return len == n && memcmp (row->name, name, n) == 0;
}

static int refuse_row (const struct args_other *row, const char *name, int len,
                       struct mg_error *err)
{
    switch (row->kind) {
    case OTHER_NEEDLESS:
        return mg_error_set (err, EINVAL, "--%.*s of Megatron-LM changes nothing here (%s): leave "
                             "it out", len, name, row->text);
    case OTHER_ABSENT:
        return mg_error_set (err, ENOTSUP, "--%.*s of Megatron-LM is not available in this "
                             "version: %s; leave it out if the run can do with that", len, name,
                             row->text);
    case OTHER_INSTEAD:
        return mg_error_set (err, EINVAL, "--%.*s is no argument of megatron train: give %s", len,
                             name, row->text);
    case OTHER_LAUNCHER:
        break;
    }
    return mg_error_set (err, EINVAL, "--%.*s is an option of srun, sbatch and salloc: give it to "
                         "them, before the command%s%s", len, name,
                         row->text ? "; here it is " : "", row->text ? row->text : "");
}

int args_other_refuse (const char *name, size_t len, struct mg_error *err)
{
    int shown = len > 80 ? 80 : (int)len;
    struct nearest nearest;

    for (size_t i = 0; i < args_other_num; i++) {
        if (names (&args_other_table[i], name, len))
            return refuse_row (&args_other_table[i], name, shown, err);
    }
    nearest_begin (&nearest, name, len);
    for (size_t i = 0; i < train_num_args; i++)
        nearest_try (&nearest, train_arg_table[i].name);
    if (nearest.name)
        return mg_error_set (err, EINVAL, "unknown argument --%.*s; did you mean --%s?", shown,
                             name, nearest.name);
    return mg_error_set (err, EINVAL, "unknown argument --%.*s; \"megatron train --help\" lists "
                         "them", shown, name);
}
