/* kinds.c - the table of Megatron-LM's arguments that "megatron train" does not have
 *
 * A row gives the kind of an argument, how many words follow it, and why.  Exact names come
 * before beginnings of names, so that a family does not hide a member with a row of its own.
 */

#include "libcore/args/other.h"

#define FLAG OTHER_FLAG
#define VALUE OTHER_VALUE
#define LIST OTHER_LIST

#define NEEDLESS(name, words, why) { name, OTHER_NEEDLESS, words, false, NULL, why }
#define NEEDLESS_SAID(name, words, why) { name, OTHER_NEEDLESS, words, true, NULL, why }
#define ELSEWHERE(name, words, why) { name, OTHER_ELSEWHERE, words, false, NULL, why }
#define ELSEWHERE_SAID(name, words, why) { name, OTHER_ELSEWHERE, words, true, NULL, why }
#define ABSENT(name, words, have) { name, OTHER_ABSENT, words, false, NULL, have }
#define BUT(name, words, values, have) { name, OTHER_ABSENT, words, false, values, have }
#define INSTEAD(name, words, other) { name, OTHER_INSTEAD, words, false, NULL, other }
#define LAUNCHER(name, words, here) { name, OTHER_LAUNCHER, words, false, NULL, here }

static const char fused[] = "what can be fused is fused";
static const char mine[] = "there is one implementation";
static const char gc[] = "nothing here collects garbage";
static const char saved_format[]
    = "checkpoints have one format, see megatron-checkpoint(1)";
static const char each_part[] = "every rank writes and reads its part";
static const char gpu_tokens[]
    = "DeepEP, HybridEP and NCCL EP are libraries for GPUs; tokens travel by alltoall";
static const char one_pass[]
    = "a pass runs layer by layer; there is --moe-shared-expert-overlap";
static const char whole_backward[]
    = "gradients of weights are computed in the backward pass";
static const char with_fp8[] = "it counts with --fp8-format or --fp4-format alone";
static const char float8[]
    = "nothing is computed in float8; float8 is for storage: --fp8-param-gather";
static const char float4[] = "nothing is computed in float4";
static const char offload[]
    = "everything stays where it is computed; --recompute-granularity saves memory";
static const char one_optimizer[] = "the optimizer is AdamW";
static const char with_muon[] = "it counts with --optimizer muon alone";
static const char gpt_only[]
    = "the layers of the model are attention and MLPs or experts";
static const char with_hybrid[] = "it counts with --hybrid-layer-pattern alone";
static const char one_attention[]
    = "attention is softmax attention; there are --multi-latent-attention and "
    "--window-size";
static const char with_variant[]
    = "it counts with --experimental-attention-variant alone";
static const char with_mup[] = "it counts with --use-mup alone";
static const char with_mhc[] = "it counts with --enable-mhc-connections alone";
static const char with_clip[] = "it counts with --qk-clip alone";
static const char with_sft[] = "it counts with --sft alone";
static const char with_rl[] = "it counts with --perform-rl-step alone";
static const char with_kd[] = "it counts with --logits-load-dir alone";
static const char generation[] = "training does not use it, see megatron-generate(1)";
static const char other_models[] = "it is of BERT, retrieval and vision models";
static const char one_length[]
    = "all samples have one length, which --context-parallel-size splits evenly";
static const char packed[] = "samples are documents end to end, see megatron-data(1)";
static const char fsdp[]
    = "weights are whole on every data-parallel rank, so this memory is not saved; "
    "--use-distributed-optimizer splits the optimizer's state";
static const char shards[] = "weights are split by --tensor-model-parallel-size alone";
static const char written[] = "see --metrics-file, --tensorboard-dir and --trace-file";
static const char traced[] = "see --trace-file";
static const char graphs[]
    = "the memory of captured passes is planned, see --cuda-graph-impl";
static const char transport[]
    = "ranks talk through the default transport, see megatron-train(1)";
static const char priority[] = "communication beside kernels has high priority already";
static const char nccl[] = "it is a setting of NCCL, and results do not depend on it";
static const char overlap[]
    = "there are --overlap-grad-reduce and --overlap-param-gather";
static const char restart[] = "a rank that dies ends the run, which --load goes on with";
static const char local_saves[]
    = "checkpoints are of one kind, see --save-interval and --async-save";
static const char reads_tokens[]
    = "training reads tokens, which megatron data tokenize has made";
static const char files[] = "paths are of file systems";
static const char timing[] = "timers make no barriers";
static const char no_random[] = "there is no state of random generators";
static const char no_reports[] = "nothing is reported to anybody";
static const char compression[]
    = "weights are trained as they are; there is megatron checkpoint convert";
static const char fsdp_types[]
    = "gradients have the types of --grad-reduce-in-bf16 and --main-grads-dtype";
static const char no_faults[] = "faults are not injected";

const struct args_other args_other_table[] = {
    /* other names of existing arguments */
    INSTEAD ("tp", VALUE, "--tensor-model-parallel-size N"),
    INSTEAD ("pp", VALUE, "--pipeline-model-parallel-size N"),
    INSTEAD ("cp", VALUE, "--context-parallel-size N"),
    INSTEAD ("ep", VALUE, "--expert-model-parallel-size N"),
    INSTEAD ("etp", VALUE, "--expert-tensor-parallel-size N"),
    INSTEAD ("num-moe-experts", VALUE, "--num-experts N"),
    INSTEAD ("moe-extended-tp", FLAG, "--expert-tensor-parallel-size N"),
    INSTEAD ("moe-router-topk-limited-devices", VALUE, "--moe-router-group-topk N and "
             "--moe-router-num-groups N"),
    INSTEAD ("vpp", VALUE, "--num-virtual-stages-per-pipeline-rank N"),
    INSTEAD ("order", VALUE, "--use-tp-pp-dp-mapping for the order tp-cp-ep-pp-dp"),
    INSTEAD ("model-parallel-size", VALUE, "--tensor-model-parallel-size N"),
    INSTEAD ("virtual-pipeline-model-parallel-size", VALUE,
             "--num-virtual-stages-per-pipeline-rank N"),
    INSTEAD ("num-layers-in-first-pipeline-stage", VALUE,
             "--decoder-first-pipeline-num-layers N"),
    INSTEAD ("num-layers-in-last-pipeline-stage", VALUE,
             "--decoder-last-pipeline-num-layers N"),
    INSTEAD ("checkpoint-activations", FLAG, "--recompute-activations"),
    INSTEAD ("batch-size", VALUE, "--micro-batch-size N"),
    INSTEAD ("warmup", VALUE, "--lr-warmup-fraction X"),
    INSTEAD ("layernorm-epsilon", VALUE, "--norm-epsilon X"),
    INSTEAD ("encoder-num-layers", VALUE, "--num-layers N"),
    INSTEAD ("decoder-num-layers", VALUE, "--num-layers N"),
    INSTEAD ("encoder-seq-length", VALUE, "--seq-length N"),
    INSTEAD ("decoder-seq-length", VALUE, "--seq-length N"),
    INSTEAD ("override-ckpt-iteration", VALUE, "--ckpt-step N"),
    INSTEAD ("fp8-param", FLAG, "--fp8-param-gather"),
    INSTEAD ("no-pad-vocab-size", FLAG, "--make-vocab-size-divisible-by 1, or "
             "--padded-vocab-size N"),
    INSTEAD ("disable-pad-vocab-size", FLAG, "--make-vocab-size-divisible-by 1, or "
             "--padded-vocab-size N"),
    INSTEAD ("ckpt-convert-format", VALUE, "megatron checkpoint convert, a command of "
             "its own"),
    INSTEAD ("ckpt-convert-save", VALUE, "megatron checkpoint convert, a command of "
             "its own"),
    INSTEAD ("data-args-path", VALUE, "--args-file FILE, which may hold --data-path"),
    INSTEAD ("yaml-cfg", VALUE, "--args-file FILE"),
    INSTEAD ("text", VALUE, "--data-path PREFIX, made by megatron data tokenize "
             "--input FILE"),
    INSTEAD ("input", VALUE, "--data-path PREFIX, made by megatron data tokenize "
             "--input FILE"),
    INSTEAD ("world-size", VALUE, "srun -n N or mpirun -n N: the world is the number "
             "of processes"),
    INSTEAD ("threads", VALUE, "the variable OMP_NUM_THREADS: threads of a rank"),
    INSTEAD ("nproc-per-node", VALUE, "srun --ntasks-per-node=N or mpirun -n N"),

    /* options of the launchers and of their plugin */
    LAUNCHER ("megatron-tp", VALUE, "--tensor-model-parallel-size N"),
    LAUNCHER ("megatron-pp", VALUE, "--pipeline-model-parallel-size N"),
    LAUNCHER ("megatron-cp", VALUE, "--context-parallel-size N"),
    LAUNCHER ("megatron-ep", VALUE, "--expert-model-parallel-size N"),
    LAUNCHER ("megatron-etp", VALUE, "--expert-tensor-parallel-size N"),
    LAUNCHER ("megatron-vpp", VALUE, "--num-virtual-stages-per-pipeline-rank N"),
    LAUNCHER ("megatron-order", VALUE, "--use-tp-pp-dp-mapping"),
    LAUNCHER ("nodes", VALUE, NULL),
    LAUNCHER ("ntasks", VALUE, NULL),
    LAUNCHER ("ntasks-per-node", VALUE, NULL),
    LAUNCHER ("mpi", VALUE, NULL),

    /* kernels: arguments that ask for what happens anyway */
    NEEDLESS ("use-mcore-models", FLAG, mine),
    NEEDLESS ("use-flash-attn", FLAG, mine),
    NEEDLESS ("flash-attention-version", VALUE, mine),
    NEEDLESS ("attention-backend", VALUE, mine),
    NEEDLESS ("transformer-impl", VALUE, mine),
    NEEDLESS ("use-te-activation-func", FLAG, mine),
    NEEDLESS ("use-kitchen-attention", FLAG, mine),
    NEEDLESS ("kitchen-attention-backend", VALUE, mine),
    NEEDLESS ("disable-jit-fuser", FLAG, mine),
    NEEDLESS ("export-default-te-spec", FLAG, mine),
    NEEDLESS ("export-force-local-attention", FLAG, mine),
    NEEDLESS ("export-te-mcore-model", FLAG, mine),
    NEEDLESS ("batch-invariant-backend", VALUE, mine),
    NEEDLESS ("moe-use-grouped-tensor", FLAG, mine),
    NEEDLESS ("moe-single-grouped-weight", FLAG, mine),
    NEEDLESS ("moe-single-grouped-bias", FLAG, mine),
    NEEDLESS ("no-bias-gelu-fusion", FLAG, fused),
    NEEDLESS ("no-bias-swiglu-fusion", FLAG, fused),
    NEEDLESS ("no-bias-dropout-fusion", FLAG, fused),
    NEEDLESS ("no-masked-softmax-fusion", FLAG, fused),
    NEEDLESS ("no-rope-fusion", FLAG, fused),
    NEEDLESS ("mla-down-proj-fusion", FLAG, fused),
    NEEDLESS ("no-gradient-accumulation-fusion", FLAG, fused),
    NEEDLESS ("moe-permute-fusion", FLAG, fused),
    NEEDLESS ("moe-router-fusion", FLAG, fused),
    NEEDLESS ("cross-entropy-loss-fusion", FLAG, fused),
    NEEDLESS ("cross-entropy-fusion-impl", VALUE, fused),
    NEEDLESS ("no-persist-layer-norm", FLAG, fused),
    NEEDLESS ("use-fused-weighted-squared-relu", FLAG, fused),
    NEEDLESS ("fused-residual-rmsnorm", FLAG, fused),
    NEEDLESS ("use-transformer-engine-op-fuser", FLAG, fused),
    NEEDLESS ("moe-grouped-gemm", FLAG, "the products of all experts of a rank are one "
              "operation"),
    NEEDLESS ("use-grouped-gemm-for-shared-expert", FLAG, "the products of all experts "
              "of a rank are one operation"),
    NEEDLESS ("use-grouped-gemm-for-dense-mlp", FLAG, fused),
    NEEDLESS ("attention-softmax-in-fp32", FLAG, "the softmax is computed in float32"),
    NEEDLESS ("batch-invariant-mode", FLAG, "the same run twice agrees to the bit"),
    NEEDLESS ("disable-bf16-reduced-precision-matmul", FLAG,
              "products of bfloat16 are added up in float32"),
    NEEDLESS ("openai-gelu", FLAG, "GeLU is the tanh form already"),
    NEEDLESS ("onnx-safe", VALUE, "no model is exported to ONNX"),
    NEEDLESS ("yarn-correction-range-round-to-int", FLAG, "the corners of YaRN's blend "
              "are rounded, unless there is --no-yarn-correction-range-round-to-int"),
    NEEDLESS ("mtp-standalone", FLAG, "the layout says where the layers for "
              "multi-token prediction are"),
    NEEDLESS ("moe-enable-routing-replay", FLAG, "a routing to replay is handed over "
              "by a program, not by a training script"),
    NEEDLESS ("enable-experimental", FLAG, "it permits what is asked for by arguments "
              "of its own"),

    /* initial values and random numbers */
    NEEDLESS ("use-cpu-initialization", FLAG, "initial weights do not depend on the "
              "device"),
    NEEDLESS ("init-model-with-meta-device", FLAG, "nothing is allocated before it is "
              "planned"),
    NEEDLESS ("no-initialization", FLAG, "weights that are loaded replace the initial "
              "ones"),
    NEEDLESS ("te-rng-tracker", FLAG, no_random),
    NEEDLESS ("inference-rng-tracker", FLAG, no_random),
    NEEDLESS ("no-save-rng", FLAG, no_random),

    /* ranks and transports */
    { "distributed-backend", OTHER_NEEDLESS, VALUE, true, "nccl|gloo", transport },
    NEEDLESS ("pipeline-model-parallel-comm-backend", VALUE, transport),
    NEEDLESS ("disable-gloo-process-groups", FLAG, transport),
    NEEDLESS ("tp-comm-bootstrap-backend", VALUE, transport),
    NEEDLESS ("use-nccl-ub", FLAG, nccl),
    NEEDLESS ("disable-symmetric-registration", FLAG, nccl),
    NEEDLESS ("use-sharp", FLAG, nccl),
    NEEDLESS ("sharp-enabled-group", VALUE, nccl),
    NEEDLESS ("use-ring-exchange-p2p", FLAG, nccl),
    NEEDLESS ("high-priority-stream-groups", LIST, priority),
    NEEDLESS ("high-priority-a2a-comm-stream", FLAG, priority),
    NEEDLESS ("symmetric-ar-type", VALUE, nccl),
    NEEDLESS ("nccl-all-reduce-for-prefill", FLAG, nccl),
    NEEDLESS ("overlap-p2p-communication-warmup-flush", FLAG,
              "transfers do not change results"),
    NEEDLESS ("no-gradient-reduce-div-fusion", FLAG, "sums have the same bits either "
              "way"),
    NEEDLESS ("no-align-param-gather", FLAG, "results do not depend on it"),
    NEEDLESS ("no-align-grad-reduce", FLAG, "results do not depend on it"),
    NEEDLESS ("disable-align-grad-reduce", FLAG, "results do not depend on it"),
    NEEDLESS ("align-grad-reduce", FLAG, "results do not depend on it"),
    NEEDLESS ("distributed-timeout-seconds-after-init", VALUE,
              "see --distributed-timeout-minutes"),
    NEEDLESS ("lazy-mpu-init", FLAG, "ranks meet before the first step"),
    NEEDLESS ("local-rank", VALUE, "the launcher says which rank a process is"),

    /* memory and processes */
    NEEDLESS ("manual-gc", FLAG, gc),
    NEEDLESS ("manual-gc-eval", FLAG, gc),
    NEEDLESS ("no-manual-gc-eval", FLAG, gc),
    NEEDLESS ("disable-manual-gc-eval", FLAG, gc),
    NEEDLESS ("manual-gc-interval", VALUE, gc),
    NEEDLESS ("empty-unused-memory-level", VALUE, "memory is allocated once"),
    NEEDLESS ("no-clone-scatter-output-in-embedding", FLAG, "activations are kept once"),
    NEEDLESS ("disable-clone-scatter-output-in-embedding", FLAG,
              "activations are kept once"),
    NEEDLESS ("exit-signal-handler-for-training", FLAG, "signals are --exit-signal's"),
    NEEDLESS ("exit-signal-handler-for-dataloader", FLAG, "there are no loader "
              "processes"),
    NEEDLESS ("train-sync-interval", VALUE, "the host does not run ahead of the device"),

    /* data and tokenizers */
    NEEDLESS ("num-workers", VALUE, "samples are read where they are used"),
    NEEDLESS ("num-dataset-builder-threads", VALUE, "see --data-cache-path"),
    NEEDLESS ("no-mmap-bin-files", FLAG, "tokens are read, not mapped"),
    NEEDLESS ("no-create-attention-mask-in-dataloader", FLAG, "no mask is made"),
    NEEDLESS ("object-storage-cache-path", VALUE, files),
    NEEDLESS ("enable-msc", FLAG, files),
    NEEDLESS ("disable-msc", FLAG, files),
    NEEDLESS ("allow-ambiguous-pad-tokens", FLAG, "no token is taken as padding"),
    NEEDLESS ("null-tokenizer-pad-id", VALUE, "no token is taken as padding"),
    NEEDLESS ("tokenizer-hf-no-include-special-tokens", FLAG, reads_tokens),
    NEEDLESS ("tokenizer-sentencepiece-legacy", FLAG, reads_tokens),
    NEEDLESS ("no-tokenizer-sentencepiece-ignore-extra-whitespaces", FLAG, reads_tokens),
    NEEDLESS ("disable-tokenizer-sentencepiece-ignore-extra-whitespaces", FLAG,
              reads_tokens),
    NEEDLESS ("chat-template", VALUE, reads_tokens),
    NEEDLESS ("tiktoken-pattern", VALUE, reads_tokens),
    NEEDLESS ("tiktoken-num-special-tokens", VALUE, reads_tokens),
    NEEDLESS ("tokenizer-metadata", VALUE, reads_tokens),
    NEEDLESS ("tokenizer-special-tokens", LIST, reads_tokens),
    NEEDLESS ("use-gigatoken", FLAG, reads_tokens),
    NEEDLESS ("tokenizer-hf-no-use-fast", FLAG, mine),
    NEEDLESS ("trust-remote-code", FLAG, "no code of a tokenizer is run"),
    NEEDLESS ("test-mode", FLAG, "nothing of a test is in a training run"),

    /* checkpoints */
    NEEDLESS_SAID ("ckpt-format", VALUE, "checkpoints have the format of "
                   "megatron-checkpoint(1)"),
    NEEDLESS ("dist-ckpt-format", VALUE, saved_format),
    NEEDLESS ("use-dist-ckpt", FLAG, saved_format),
    NEEDLESS ("auto-detect-ckpt-format", FLAG, saved_format),
    NEEDLESS ("dist-ckpt-strictness", VALUE, saved_format),
    NEEDLESS ("ckpt-assume-constant-structure", FLAG, saved_format),
    NEEDLESS ("dist-ckpt-save-pre-mcore-014", FLAG, saved_format),
    NEEDLESS ("ckpt-drop-redundant-extra-state", FLAG, saved_format),
    NEEDLESS ("ckpt-convert-update-legacy-dist-opt-format", FLAG, saved_format),
    NEEDLESS ("no-strict-fsdp-dtensor-load", FLAG, saved_format),
    NEEDLESS ("disable-strict-fsdp-dtensor-load", FLAG, saved_format),
    NEEDLESS ("ckpt-pg-tensors-cache-path", VALUE, saved_format),
    NEEDLESS ("ckpt-pg-tensors-cache-create", FLAG, saved_format),
    NEEDLESS ("export-legacy-megatron", FLAG, saved_format),
    NEEDLESS ("export-model-type", VALUE, saved_format),
    NEEDLESS ("dist-ckpt-optim-fully-reshardable", FLAG, "every layout reads every "
              "checkpoint"),
    NEEDLESS ("distrib-optim-fully-reshardable-mem-efficient", FLAG,
              "every layout reads every checkpoint"),
    NEEDLESS ("ckpt-fully-parallel-save", FLAG, each_part),
    NEEDLESS ("no-ckpt-fully-parallel-save", FLAG, each_part),
    NEEDLESS ("ckpt-fully-parallel-load", FLAG, each_part),
    NEEDLESS ("ckpt-fully-parallel-load-exchange-algo", VALUE, each_part),
    NEEDLESS ("ckpt-fully-parallel-load-per-rank-objects", FLAG, each_part),
    NEEDLESS ("ckpt-fully-parallel-save-process-group", VALUE, each_part),
    NEEDLESS ("ckpt-fully-parallel-load-process-group", VALUE, each_part),
    NEEDLESS ("use-persistent-ckpt-worker", FLAG, "see --async-save"),
    NEEDLESS ("async-strategy", VALUE, "see --async-save"),
    NEEDLESS ("async-ckpt-cpu-priority", VALUE, "see --async-save"),
    NEEDLESS ("async-ckpt-io-priority", VALUE, "see --async-save"),
    NEEDLESS ("async-ckpt-use-cpu-shm", FLAG, "see --async-save"),
    NEEDLESS ("dist-ckpt-workers", VALUE, "see --async-save"),
    NEEDLESS ("verify-integrity", FLAG, "checksums are always compared"),
    NEEDLESS ("no-ckpt-load-validate-sharding-integrity", FLAG,
              "checksums are always compared"),
    NEEDLESS ("disable-ckpt-load-validate-sharding-integrity", FLAG,
              "checksums are always compared"),
    NEEDLESS ("load-main-params-from-ckpt", FLAG, "a checkpoint holds the main "
              "parameters, which are loaded"),
    NEEDLESS ("no-save-tokenizer-assets", FLAG, "a checkpoint holds no tokenizer"),
    NEEDLESS ("disable-save-tokenizer-assets", FLAG, "a checkpoint holds no tokenizer"),
    NEEDLESS ("no-use-tokenizer-model-from-checkpoint-args", FLAG,
              "a checkpoint holds no tokenizer"),
    NEEDLESS ("disable-use-tokenizer-model-from-checkpoint-args", FLAG,
              "a checkpoint holds no tokenizer"),

    /* reports */
    NEEDLESS ("log-loss-scale-to-tensorboard", FLAG, "the loss scale is in the log"),
    NEEDLESS ("no-barrier-with-level-1-timing", FLAG, timing),
    NEEDLESS ("no-one-logger", FLAG, no_reports),
    NEEDLESS ("adlr-autoresume", FLAG, no_reports),
    NEEDLESS ("adlr-autoresume-interval", VALUE, no_reports),
    NEEDLESS ("app-tag-run-name", VALUE, no_reports),
    NEEDLESS ("app-tag-run-version", VALUE, no_reports),
    NEEDLESS ("run-workload-inspector-server", FLAG, no_reports),

    /* arguments that have an effect only with another one, which does not exist here */
    NEEDLESS ("fp8-recipe", VALUE, with_fp8),
    NEEDLESS ("fp8-margin", VALUE, with_fp8),
    NEEDLESS ("fp8-interval", VALUE, with_fp8),
    NEEDLESS ("fp8-amax-history-len", VALUE, with_fp8),
    NEEDLESS ("fp8-amax-compute-algo", VALUE, with_fp8),
    NEEDLESS ("fp8-output-proj", FLAG, with_fp8),
    NEEDLESS ("fp8-quantizer-factory", VALUE, with_fp8),
    NEEDLESS ("no-fp8-wgrad", FLAG, with_fp8),
    NEEDLESS ("disable-fp8-wgrad", FLAG, with_fp8),
    NEEDLESS ("first-last-layers-bf16", FLAG, with_fp8),
    NEEDLESS ("num-layers-at-start-in-bf16", VALUE, with_fp8),
    NEEDLESS ("num-layers-at-end-in-bf16", VALUE, with_fp8),
    NEEDLESS ("keep-fp8-transpose-cache", FLAG, with_fp8),
    NEEDLESS ("reuse-grad-buf-for-mxfp8-param-ag", FLAG, with_fp8),
    NEEDLESS ("moe-router-padding-for-quantization", FLAG, with_fp8),
    NEEDLESS ("moe-router-padding-for-fp8", FLAG, with_fp8),
    NEEDLESS ("fp4-recipe", VALUE, with_fp8),
    NEEDLESS ("fp4-param-gather", FLAG, with_fp8),
    NEEDLESS ("fp4-quantizer-factory", VALUE, with_fp8),
    NEEDLESS ("sgd-momentum", VALUE, "it counts with --optimizer sgd alone"),
    NEEDLESS ("no-use-layer-wise-param-layout", FLAG, with_muon),
    NEEDLESS ("disable-mamba-mem-eff-path", FLAG, with_hybrid),
    NEEDLESS ("linear-attention-freq", VALUE, with_variant),
    NEEDLESS ("linear-conv-kernel-dim", VALUE, with_variant),
    NEEDLESS ("linear-key-head-dim", VALUE, with_variant),
    NEEDLESS ("linear-value-head-dim", VALUE, with_variant),
    NEEDLESS ("linear-num-key-heads", VALUE, with_variant),
    NEEDLESS ("linear-num-value-heads", VALUE, with_variant),
    NEEDLESS ("qk-clip-alpha", VALUE, with_clip),
    NEEDLESS ("qk-clip-threshold", VALUE, with_clip),
    NEEDLESS ("sft-tokenizer-prompt-format", VALUE, with_sft),
    NEEDLESS ("sequence-packing-scheduler", VALUE, with_sft),
    NEEDLESS ("sft-sequence-packing", FLAG, with_sft),
    NEEDLESS ("langrl-env-config", VALUE, with_rl),
    NEEDLESS ("refit-method", VALUE, with_rl),
    NEEDLESS ("logits-load-decode-threads", VALUE, with_kd),
    NEEDLESS ("logits-load-prefetch-factor", VALUE, with_kd),
    NEEDLESS ("logits-load-msc-prefetch-depth", VALUE, with_kd),
    NEEDLESS ("logits-load-kd-loss-alpha", VALUE, with_kd),
    NEEDLESS ("logits-load-ignore-errors", FLAG, with_kd),
    NEEDLESS ("mrope-section", LIST, "it counts with --position-embedding-type mrope "
              "alone"),
    NEEDLESS ("relative-attention-num-buckets", VALUE, "it counts with "
              "--position-embedding-type relative alone"),
    NEEDLESS ("relative-attention-max-distance", VALUE, "it counts with "
              "--position-embedding-type relative alone"),
    NEEDLESS ("error-injection-type", VALUE, "it counts with --error-injection-rate "
              "alone"),
    NEEDLESS ("use-legacy-static-engine", FLAG, generation),
    NEEDLESS ("decode-only-cuda-graphs", FLAG, generation),
    NEEDLESS ("enable-chunked-prefill", FLAG, generation),
    NEEDLESS ("num-speculative-tokens", VALUE, generation),
    NEEDLESS ("use-same-sampling-seed-across-dp-ranks", FLAG, generation),
    NEEDLESS ("max-tokens-to-oom", VALUE, generation),
    NEEDLESS ("flash-decode", FLAG, generation),
    NEEDLESS ("mlp-chunks-for-prefill", VALUE, generation),
    NEEDLESS ("cache-mla-latents", FLAG, generation),
    NEEDLESS ("moe-pad-experts-for-cuda-graph-inference", FLAG, generation),
    NEEDLESS ("output-bert-embeddings", FLAG, other_models),
    NEEDLESS ("bert-embedder-type", VALUE, other_models),
    NEEDLESS ("bert-no-binary-head", FLAG, other_models),
    NEEDLESS ("bert-load", VALUE, other_models),
    NEEDLESS ("mask-prob", VALUE, other_models),
    NEEDLESS ("short-seq-prob", VALUE, other_models),
    NEEDLESS ("ict-head-size", VALUE, other_models),
    NEEDLESS ("ict-load", VALUE, other_models),
    NEEDLESS ("biencoder-projection-dim", VALUE, other_models),
    NEEDLESS ("biencoder-shared-query-context-model", FLAG, other_models),
    NEEDLESS ("titles-data-path", VALUE, other_models),
    NEEDLESS ("query-in-block-prob", VALUE, other_models),
    NEEDLESS ("use-one-sent-docs", FLAG, other_models),
    NEEDLESS ("evidence-data-path", VALUE, other_models),
    NEEDLESS ("retriever-report-topk-accuracies", LIST, other_models),
    NEEDLESS ("retriever-score-scaling", FLAG, other_models),
    NEEDLESS ("block-data-path", VALUE, other_models),
    NEEDLESS ("embedding-path", VALUE, other_models),
    NEEDLESS ("indexer-batch-size", VALUE, other_models),
    NEEDLESS ("indexer-log-interval", VALUE, other_models),
    NEEDLESS ("num-classes", VALUE, other_models),
    NEEDLESS ("img-h", VALUE, other_models),
    NEEDLESS ("img-w", VALUE, other_models),
    NEEDLESS ("num-channels", VALUE, other_models),
    NEEDLESS ("patch-dim", VALUE, other_models),
    NEEDLESS ("classes-fraction", VALUE, other_models),
    NEEDLESS ("data-per-class-fraction", VALUE, other_models),
    NEEDLESS ("no-data-sharding", FLAG, other_models),
    NEEDLESS ("head-lr-mult", VALUE, other_models),
    NEEDLESS ("vision-pretraining", FLAG, other_models),
    NEEDLESS ("vision-pretraining-type", VALUE, other_models),
    NEEDLESS ("vision-backbone-type", VALUE, other_models),
    NEEDLESS ("swin-backbone-type", VALUE, other_models),
    NEEDLESS ("mask-type", VALUE, other_models),
    NEEDLESS ("mask-factor", VALUE, other_models),
    NEEDLESS ("iter-per-epoch", VALUE, other_models),

    /* arguments that only add output, speed or saved memory in Megatron-LM */
    ELSEWHERE ("log-progress", FLAG, written),
    ELSEWHERE ("log-energy", FLAG, written),
    ELSEWHERE ("log-straggler", FLAG, written),
    ELSEWHERE ("straggler-ctrlr-port", VALUE, written),
    ELSEWHERE ("straggler-minmax-count", VALUE, written),
    ELSEWHERE ("disable-straggler-on-startup", FLAG, written),
    ELSEWHERE ("logging-level", VALUE, written),
    ELSEWHERE ("otel-enabled", FLAG, written),
    ELSEWHERE ("otel-service-name", VALUE, written),
    ELSEWHERE ("otel-span-groups", VALUE, written),
    ELSEWHERE ("config-logger-dir", VALUE, written),
    ELSEWHERE ("dump-param-to-param-group-map", VALUE, written),
    ELSEWHERE ("save-tokens-per-expert-interval", VALUE, written),
    ELSEWHERE ("save-params-interval", VALUE, written),
    ELSEWHERE ("save-activations-interval", VALUE, written),
    ELSEWHERE ("save-wgrads-interval", VALUE, written),
    ELSEWHERE ("save-dgrads-interval", VALUE, written),
    ELSEWHERE ("result-rejected-tracker-filename", VALUE, written),
    ELSEWHERE ("gpu-sniff-test-interval", VALUE, written),
    ELSEWHERE ("log-device-memory-used", FLAG, "see --log-memory-interval"),
    ELSEWHERE ("record-memory-history", FLAG, "see --log-memory-interval"),
    ELSEWHERE ("memory-snapshot-path", VALUE, "see --log-memory-interval"),
    ELSEWHERE ("profile", FLAG, traced),
    ELSEWHERE ("profile-ranks", LIST, traced),
    ELSEWHERE ("use-pytorch-profiler", FLAG, traced),
    ELSEWHERE ("pytorch-profiler-collect-shapes", FLAG, traced),
    ELSEWHERE ("pytorch-profiler-collect-callstack", FLAG, traced),
    ELSEWHERE ("pytorch-profiler-collect-chakra", FLAG, traced),
    ELSEWHERE ("record-shapes", FLAG, traced),
    ELSEWHERE ("nvtx-ranges", FLAG, traced),
    ELSEWHERE ("rerun-mode", VALUE, "results are not computed again to compare them"),
    ELSEWHERE ("enable-ft-package", FLAG, restart),
    ELSEWHERE ("calc-ft-timeouts", FLAG, restart),
    ELSEWHERE ("non-persistent-save-interval", VALUE, local_saves),
    ELSEWHERE ("non-persistent-ckpt-type", VALUE, local_saves),
    ELSEWHERE ("non-persistent-global-ckpt-dir", VALUE, local_saves),
    ELSEWHERE ("non-persistent-local-ckpt-dir", VALUE, local_saves),
    ELSEWHERE ("non-persistent-local-ckpt-algo", VALUE, local_saves),
    ELSEWHERE ("replication", FLAG, local_saves),
    ELSEWHERE ("replication-jump", VALUE, local_saves),
    ELSEWHERE ("replication-factor", VALUE, local_saves),
    ELSEWHERE ("no-save-optim", FLAG, "checkpoints hold all; megatron checkpoint "
               "convert takes weights out"),
    ELSEWHERE ("dataloader-fast-cache-load", FLAG, "see --data-cache-path"),
    ELSEWHERE ("dataloader-defer-npy-index-mmap", FLAG, "see --data-cache-path"),
    ELSEWHERE ("per-dataset-sequences-path", VALUE, "see --data-cache-path"),
    ELSEWHERE ("tp-comm-overlap", FLAG, overlap),
    ELSEWHERE ("tp-comm-overlap-cfg", VALUE, overlap),
    ELSEWHERE ("tp-comm-overlap-rs-dgrad", FLAG, overlap),
    ELSEWHERE ("no-tp-comm-bulk-wgrad", FLAG, overlap),
    ELSEWHERE ("disable-tp-comm-bulk-wgrad", FLAG, overlap),
    ELSEWHERE ("no-tp-comm-bulk-dgrad", FLAG, overlap),
    ELSEWHERE ("disable-tp-comm-bulk-dgrad", FLAG, overlap),
    ELSEWHERE ("no-tp-comm-overlap-ag", FLAG, overlap),
    ELSEWHERE ("disable-tp-comm-overlap-ag", FLAG, overlap),
    ELSEWHERE ("no-tp-comm-overlap-rs", FLAG, overlap),
    ELSEWHERE ("disable-tp-comm-overlap-rs", FLAG, overlap),
    ELSEWHERE ("no-tp-comm-split-ag", FLAG, overlap),
    ELSEWHERE ("disable-tp-comm-split-ag", FLAG, overlap),
    ELSEWHERE ("no-tp-comm-split-rs", FLAG, overlap),
    ELSEWHERE ("disable-tp-comm-split-rs", FLAG, overlap),
    ELSEWHERE ("overlap-param-gather-with-optimizer-step", FLAG, overlap),
    ELSEWHERE ("create-all-gather-group", FLAG, overlap),
    ELSEWHERE ("suggested-communication-unit-size", VALUE, overlap),
    ELSEWHERE ("overlap-moe-expert-parallel-comm", FLAG, one_pass),
    ELSEWHERE ("ep-overlap-early-attn-memory-release", FLAG, one_pass),
    ELSEWHERE ("overlap-dispatch-backward-with-experts-wgrad", FLAG, whole_backward),
    ELSEWHERE ("wgrad-deferral-limit", VALUE, whole_backward),
    ELSEWHERE ("defer-embedding-wgrad-compute", FLAG, whole_backward),
    ELSEWHERE ("delay-wgrad-compute", FLAG, whole_backward),
    ELSEWHERE ("moe-enable-deepep", FLAG, gpu_tokens),
    ELSEWHERE ("moe-permute-fusion-into-hybridep", FLAG, gpu_tokens),
    ELSEWHERE ("moe-paged-stash", FLAG, "memory is planned, and nothing is moved out "
               "of it"),
    ELSEWHERE ("optimizer-cpu-offload", FLAG, offload),
    ELSEWHERE ("optimizer-offload-fraction", VALUE, offload),
    ELSEWHERE ("use-torch-optimizer-for-cpu-offload", FLAG, offload),
    ELSEWHERE ("overlap-cpu-optimizer-d2h-h2d", FLAG, offload),
    ELSEWHERE ("no-pin-cpu-grads", FLAG, offload),
    ELSEWHERE ("no-pin-cpu-params", FLAG, offload),
    ELSEWHERE ("cpu-offloading", FLAG, offload),
    ELSEWHERE ("cpu-offloading-num-layers", VALUE, offload),
    ELSEWHERE ("cpu-offloading-retain-pinned-cpu-buffers", FLAG, offload),
    ELSEWHERE ("fine-grained-activation-offloading", FLAG, offload),
    ELSEWHERE ("offload-modules", LIST, offload),
    ELSEWHERE ("min-offloaded-tensor-size", VALUE, offload),
    ELSEWHERE ("delay-offload-until-cuda-graph", FLAG, offload),
    ELSEWHERE ("delta-offload-bytes-across-pp-ranks", VALUE, offload),
    ELSEWHERE ("activation-offload-fraction", VALUE, offload),
    ELSEWHERE ("fine-grained-offloading-max-inflight-offloads", VALUE, offload),
    ELSEWHERE ("mlp-chunks-for-training", VALUE, "a pass keeps its activations; "
               "--recompute-granularity saves memory"),
    ELSEWHERE_SAID ("use-megatron-fsdp", FLAG, fsdp),
    ELSEWHERE_SAID ("use-torch-fsdp2", FLAG, fsdp),
    ELSEWHERE ("data-parallel-sharding-strategy", VALUE, fsdp),
    ELSEWHERE ("outer-dp-sharding-strategy", VALUE, fsdp),
    ELSEWHERE ("enable-full-sharding-in-hsdp", FLAG, fsdp),
    ELSEWHERE ("megatron-fsdp-version", VALUE, fsdp),
    ELSEWHERE ("megatron-fsdp-enable-fine-grained-param-gather", FLAG, fsdp),
    ELSEWHERE ("megatron-fsdp-max-pool-double-buffer", FLAG, fsdp),
    ELSEWHERE ("torch-fsdp2-no-reshard-after-forward", FLAG, fsdp),
    ELSEWHERE ("expert-tensor-parallel-num-weight-shards", VALUE, shards),
    ELSEWHERE ("tensor-parallel-num-weight-shards", VALUE, shards),
    ELSEWHERE ("optimizer-cuda-graph", FLAG, "an update reads its learning rate from "
               "the host, and a graph would keep the first one; --cuda-graph-impl "
               "captures passes"),

    /* arguments that would change the model or the training */
    ABSENT ("fp8-format", VALUE, float8),
    ABSENT ("te-precision-config-file", VALUE, float8),
    ABSENT ("kitchen-config-file", FLAG, float8),
    ABSENT ("kitchen-recipe-number", FLAG, float8),
    ABSENT ("fp4-format", VALUE, float4),
    BUT ("megatron-fsdp-main-params-dtype", VALUE, "fp32", fsdp_types),
    BUT ("megatron-fsdp-main-grads-dtype", VALUE, "fp32|auto", fsdp_types),
    BUT ("megatron-fsdp-grad-comm-dtype", VALUE, "fp32|auto", fsdp_types),
    BUT ("moe-dispatch-fwd-dtype", VALUE, "bf16", "tokens travel in the type of the "
         "activations"),
    BUT ("moe-combine-bwd-dtype", VALUE, "bf16", "tokens travel in the type of the "
         "activations"),
    ABSENT ("moe-mlp-glu-interleave-size", VALUE, "gate and value stand one behind the "
            "other"),
    ABSENT ("moe-shared-expert-glu-interleave-size", VALUE, "gate and value stand one "
            "behind the other"),
    ABSENT ("ddp-reduce-scatter-with-fp32-accumulation", FLAG,
            "gradients travel in the type that they are added up in: float32, or "
            "bfloat16 with --grad-reduce-in-bf16"),
    ABSENT ("ddp-param-name-patterns-for-fp32-local-accumulation", LIST,
            "gradients travel in the type that they are added up in: float32, or "
            "bfloat16 with --grad-reduce-in-bf16"),
    ABSENT ("output-logit-dtype", VALUE, "logits have the type of the activations, and "
            "the loss is computed in float32"),
    BUT ("optimizer", VALUE, "adam", one_optimizer),
    ABSENT ("hybrid-layer-pattern", VALUE, gpt_only),
    ABSENT ("hybrid-override-pattern", VALUE, gpt_only),
    ABSENT ("is-hybrid-model", FLAG, gpt_only),
    ABSENT ("mtp-hybrid-override-pattern", VALUE, gpt_only),
    ABSENT ("spec", LIST, "layers are made of the arguments, not by a program"),
    ABSENT ("heterogeneous-layers-config-path", VALUE, "all layers have the same sizes"),
    ABSENT ("heterogeneous-layers-config-encoded-json", VALUE,
            "all layers have the same sizes"),
    ABSENT ("experimental-attention-variant", VALUE, one_attention),
    ABSENT ("attention-output-gate", FLAG, "the output of attention has no gate"),
    ABSENT ("qk-clip", FLAG, "weights of queries and keys are not clipped; there is "
            "--qk-layernorm"),
    ABSENT ("qk-l2-norm", FLAG, "there is --qk-layernorm"),
    ABSENT ("export-qk-l2-norm", FLAG, "there is --qk-layernorm"),
    ABSENT ("use-mup", FLAG, "learning rates and initial values do not depend on the "
            "width; there are --lr and --init-method-std"),
    ABSENT ("enable-mhc-connections", FLAG, "a layer has one residual"),
    ABSENT ("apply-residual-connection-post-layernorm", FLAG,
            "norms stand before each half of a block"),
    ABSENT ("fp32-residual-connection", FLAG, "residuals have the type of the "
            "activations"),
    ABSENT ("mtp-hsm", FLAG, "each layer for multi-token prediction reads what the one "
            "before makes"),
    ABSENT ("hybrid-context-parallel", FLAG, one_length),
    ABSENT ("max-seqlen-per-dp-cp-rank", VALUE, one_length),
    BUT ("vocab-extra-ids", VALUE, "0", "the vocabulary is the tokenizer's; there is "
         "--vocab-size"),
    BUT ("sample-rate", VALUE, "1", "all samples count; there is --train-samples"),
    ABSENT ("dataloader-inter-document-masking", FLAG, "there is --reset-attention-mask"),
    ABSENT ("sft", FLAG, packed),
    ABSENT ("perform-rl-step", FLAG, "the model is trained on tokens alone"),
    ABSENT ("logits-load-dir", VALUE, "the model is trained on tokens alone"),
    ABSENT ("modelopt-enabled", FLAG, "the model is trained on tokens alone"),
    ABSENT ("enable-gpt-oss", FLAG, "there is --position-embedding-type yarn"),
    ABSENT ("export-kv-cache-quant", FLAG, compression),
    ABSENT ("export-real-quant-cfg", VALUE, compression),
    ABSENT ("export-quant-cfg", VALUE, compression),
    ABSENT ("export-offline-model", FLAG, compression),
    ABSENT ("export-moe-apply-probs-on-input", FLAG, compression),
    ABSENT ("qad-train-target", VALUE, compression),
    ABSENT ("freeze-all-layers", FLAG, "all weights are trained; --lr 0 trains none"),
    ABSENT ("freeze-base-for-mtp", FLAG, "all weights are trained; --lr 0 trains none"),
    ABSENT ("finetune-hf-dataset", VALUE, packed),
    ABSENT ("finetune-data-split", VALUE, packed),
    ABSENT ("finetune-data-files", LIST, packed),
    ABSENT ("no-weight-decay-cond-type", VALUE,
            "biases and weights of norms have no weight decay; there is "
            "--apply-wd-to-qk-layernorm"),
    ABSENT ("data-parallel-random-init", FLAG, "all replicas begin with the same "
            "weights"),
    ABSENT ("init-method-xavier-uniform", FLAG, "initial weights are normal, see "
            "--init-method-std"),
    ABSENT ("params-dtype", VALUE, "there are --bf16, --fp16 and float32"),
    ABSENT ("fp16-lm-cross-entropy", FLAG, "the loss is computed in float32"),
    ABSENT ("fake-process-group", FLAG, "ranks always talk to each other; megatron "
            "plan shows a run without them"),
    BUT ("error-injection-rate", VALUE, "0", no_faults),

    /* families */
    NEEDLESS ("flight-recorder-*", LIST, "a recorder is always on"),
    NEEDLESS ("no-flight-recorder-*", LIST, "a recorder is always on"),
    NEEDLESS ("disable-flight-recorder-*", LIST, "a recorder is always on"),
    NEEDLESS ("one-logger-*", LIST, no_reports),
    NEEDLESS ("lion-*", LIST, "it counts with --optimizer lion alone"),
    NEEDLESS ("muon-*", LIST, with_muon),
    NEEDLESS ("mamba-*", LIST, with_hybrid),
    NEEDLESS ("dsa-*", LIST, with_variant),
    NEEDLESS ("no-dsa-*", LIST, with_variant),
    NEEDLESS ("disable-dsa-*", LIST, with_variant),
    NEEDLESS ("gdp-*", LIST, with_variant),
    NEEDLESS ("mup-*", LIST, with_mup),
    NEEDLESS ("mhc-*", LIST, with_mhc),
    NEEDLESS ("rl-*", LIST, with_rl),
    NEEDLESS ("no-rl-*", LIST, with_rl),
    NEEDLESS ("grpo-*", LIST, with_rl),
    NEEDLESS ("inference-*", LIST, generation),
    NEEDLESS ("no-inference-*", LIST, generation),
    NEEDLESS ("dino-*", LIST, other_models),
    ELSEWHERE ("wandb-*", LIST, written),
    ELSEWHERE ("moe-routing-trace-*", LIST, written),
    ELSEWHERE ("logits-save-*", LIST, written),
    ELSEWHERE ("profile-step-*", LIST, traced),
    ELSEWHERE ("ft-*", LIST, restart),
    ELSEWHERE ("inprocess-*", LIST, restart),
    ELSEWHERE ("moe-flex-*", LIST, gpu_tokens),
    ELSEWHERE ("moe-deepep-*", LIST, gpu_tokens),
    ELSEWHERE ("moe-hybridep-*", LIST, gpu_tokens),
    ELSEWHERE ("moe-ncclep-*", LIST, gpu_tokens),
    ELSEWHERE ("moe-paged-stash-*", LIST, "memory is planned, and nothing is moved out "
               "of it"),
    ELSEWHERE ("fsdp-*", LIST, fsdp),
    ELSEWHERE ("gtp-*", LIST, shards),
    ELSEWHERE ("cuda-graph-*", LIST, graphs),
    ABSENT ("export-kd-*", LIST, compression),
    ABSENT ("fault-injector-*", LIST, no_faults),
};

const size_t args_other_num = sizeof (args_other_table) / sizeof (args_other_table[0]);
