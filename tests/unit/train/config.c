/* Arguments of megatron train: parsing, defaults, contradictions. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/config.h"
#include "libcore/train/data.h"
#include "tests/tap/tap.h"

#define BASE                                                                             \
    "train", "--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4",   \
        "--seq-length", "16", "--micro-batch-size", "2", "--train-iters", "10", "--lr",  \
        "1e-3", "--data-path", "p", "--vocab-size", "257"

#define AWARE "--bf16", "--use-distributed-optimizer", "--use-precision-aware-optimizer"

#define SELECTIVE "--recompute-granularity", "selective"
#define FULL "--recompute-granularity", "full", "--recompute-method"

enum { MAX_ARGS = 40 };

struct row {
    const char *arg[8]; /* after the base, closed by NULL */
    const char *text;   /* part of the message, NULL: accepted */
};

static const struct row rows[] = {
    { { NULL }, NULL },
    { { "--lr=1e-4", NULL }, NULL },
    { { "--lr=", NULL }, "--lr: \"\" is not a number" },
    { { "--lr", "nan", NULL }, "--lr: \"nan\" is not a number" },
    { { "--lr", NULL }, "--lr wants a value" },
    { { "--num-layers", "0", NULL }, "--num-layers: 0 is out of range, want 1 to" },
    { { "--num-layers", "2x", NULL }, "--num-layers: \"2x\" is not a whole number" },
    { { "--no-such", "1", NULL }, "unknown argument --no-such" },
    { { "--num-layer", "1", NULL }, "unknown argument --num-layer;" },
    { { "word", NULL }, "\"word\" is not an argument" },
    { { "--use-tp-pp-dp-mapping", NULL }, NULL },
    { { "--use-tp-pp-dp-mapping=yes", NULL }, "takes no value" },
    { { "--data-path=", NULL }, "--data-path: the value is empty" },
    { { "--data-path= ", NULL }, "--data-path: the value is empty" },
    { { "--data-path", "a", "", NULL }, "--data-path: the value is empty" },
    { { "--data-path", "a", " ", NULL }, "--data-path: the value is empty" },
    { { "--recompute-method=none", NULL }, "--recompute-method \"none\": want uniform or block" },
    { { "--recompute-modules", "mlp", "mlps" }, "--recompute-modules: \"mlps\" is unknown" },
    { { "--recompute-method=uniform", "--recompute-num-layers=1", NULL }, NULL },
    { { "--data-path", NULL }, "--data-path wants a value" },
    { { "--data-path", "a", "b", "c", NULL }, NULL },
    { { "--data-path", "1", "a", "2", "b" }, NULL },
    { { "--data-path", "1", "a", "x", "b" },
      "--data-path: \"x\" stands where a weight should" },
    { { "--data-path=0", "a", NULL }, "--data-path: weight of a is 0, want more than 0" },
    { { "--batches", "f", NULL }, "--data-path and --batches exclude each other" },
    { { "--train-data-path", "a", NULL }, "--data-path and --train-data-path exclude" },
    { { "--valid-data-path", "a", NULL }, "--data-path and --valid-data-path exclude" },
    { { "--eod-mask-loss", "--eod-token-id", "0", NULL }, NULL },
    { { "--reset-attention-mask", "--reset-position-ids", "--eod-token-id", "0", NULL }, NULL },
    { { "--reset-attention-mask", NULL }, "--reset-attention-mask wants --eod-token-id or" },
    { { "--reset-position-ids", NULL }, "--reset-position-ids wants --eod-token-id or" },
    { { "--eod-mask-loss", NULL }, "--eod-mask-loss wants --eod-token-id or --tokenizer-type" },
    { { "--eod-token-id=-1", NULL }, "--eod-token-id: -1 is out of range, want 0 to" },
    { { "--fim-data", "--eod-token-id=0", "--fim-rate=1", "--fim-spm-rate=0" }, NULL },
    { { "--fim-data", "--fim-eod-token=0", "--fim-rate=1" }, NULL },
    { { "--fim-data", NULL }, "--fim-data wants --eod-token-id or --tokenizer-type" },
    { { "--fim-split-sample", "1", NULL }, "--fim-split-sample wants --fim-data" },
    { { "--fim-fragment-rate", "1", NULL }, "--fim-fragment-rate wants --fim-data" },
    { { "--fim-rate=0.5", NULL }, "--fim-rate wants --fim-data" },
    { { "--fim-spm-rate=0.5", NULL }, "--fim-spm-rate wants --fim-data" },
    { { "--fim-prefix-token=1", NULL }, "--fim-prefix-token wants --fim-data" },
    { { "--fim-middle-token=1", NULL }, "--fim-middle-token wants --fim-data" },
    { { "--fim-suffix-token=1", NULL }, "--fim-suffix-token wants --fim-data" },
    { { "--fim-pad-token=1", NULL }, "--fim-pad-token wants --fim-data" },
    { { "--fim-data", "--fim-split-sample=1", "--eod-token-id=0" }, "want each other" },
    { { "--fim-data", "--fim-fragment-rate=1", "--eod-token-id=0" }, "want each other" },
    { { "--fim-data", "--fim-no-prefix=x", "--eod-token-id=0" },
      "--fim-no-prefix wants --tokenizer-type" },
    { { "--fim-rate", "1.1", NULL }, "--fim-rate: 1.1 is out of range" },
    { { "--eval-interval", "0", "--eval-iters", "0" }, NULL },
    { { "--eval-iters", "-1" }, "--eval-iters: -1 is out of range" },
    { { "--eval-interval=1000000000000001", NULL }, "--eval-interval: 1000000000000001 is out" },
    { { "--start-eval-at-iter=5", "--eval-global-batch-size=16" }, NULL },
    { { "--start-eval-at-iter=-1", NULL }, "--start-eval-at-iter: -1 is out of range" },
    { { "--eval-global-batch-size=0", NULL }, "--eval-global-batch-size: 0 is out of range" },
    { { "--full-validation", "--multiple-validation-sets" }, NULL },
    { { "--multiple-validation-sets", NULL }, "wants --full-validation" },
    { { "--dataloader-type", "single" }, NULL },
    { { "--dataloader-type=cyclic", NULL }, NULL },
    { { "--dataloader-type", "random" }, "\"random\" is unknown, want single or cyclic" },
    { { "--mock-data", NULL }, "--data-path and --mock-data exclude each other" },
    { { "--null-tokenizer-eod-id=1", NULL }, "wants --tokenizer-type NullTokenizer" },
    { { "--phase-transition-iterations", "3, 5" }, NULL },
    { { "--phase-transition-iterations", "3,x" }, "--phase-transition-iterations: \"x\"" },
    { { "--phase-transition-iterations=3", "--rampup-batch-size", "1", "1", "9" },
      "wants one global batch size: it excludes --rampup-batch-size" },
    { { "--skip-train", "--save", "d" }, "--skip-train excludes --save" },
    { { "--timing-log-level", "2", "--timing-log-option", "all" }, NULL },
    { { "--timing-log-level", "3" }, "--timing-log-level: 3 is out of range" },
    { { "--timing-log-option", "min" }, "--timing-log-option: \"min\" is not max, minmax" },
    { { "--log-interval", "2", "--log-memory-interval", "4" }, NULL },
    { { "--log-params-norm", NULL }, NULL },
    { { "--log-interval", "2", "--log-memory-interval", "3" },
      "--log-memory-interval 3 is not a multiple of --log-interval 2" },
    { { "--tensorboard-log-interval", "0" }, "--tensorboard-log-interval: 0 is out of range" },
    { { "--tensorboard-log-interval=10", "--tensorboard-queue-size=5", NULL }, NULL },
    { { "--tensorboard-queue-size", "0" }, "--tensorboard-queue-size: 0 is out of range" },
    { { "--tensorboard-dir=", NULL }, "--tensorboard-dir: the value is empty" },
    { { "--tensorboard-dir", NULL }, "--tensorboard-dir wants a value: DIR" },
    { { "--log-timers-to-tensorboard", "--log-validation-ppl-to-tensorboard",
        "--log-memory-to-tensorboard", "--log-world-size-to-tensorboard", NULL }, NULL },
    { { "--log-batch-size-to-tensorboard", "--no-log-loss-scale-to-tensorboard",
        "--disable-log-loss-scale-to-tensorboard", NULL }, NULL },
    { { "--no-log-learning-rate-to-tensorboard", "--no-log-learnig-rate-to-tensorboard", NULL },
      NULL },
    { { "--log-memory-to-tensorboard=1", NULL }, "--log-memory-to-tensorboard takes no value" },
    { { "--calculate-per-token-loss=1", NULL }, "--calculate-per-token-loss takes no value" },
    { { "--mid-level-dataset-surplus", "-1", NULL }, "--mid-level-dataset-surplus: -1 is" },
    { { AWARE, NULL }, NULL },
    { { AWARE, "--exp-avg-dtype", "fp8" }, NULL },
    { { AWARE, "--exp-avg-sq-dtype=bf16", "--main-params-dtype=fp16" }, NULL },
    { { AWARE, "--no-store-param-remainders", NULL }, NULL },
    { { "--bf16", "--exp-avg-dtype", "bf16" },
      "--exp-avg-dtype bf16 wants --use-precision-aware-optimizer" },
    { { "--bf16", "--main-params-dtype", "fp16" }, "--main-params-dtype fp16 wants --use-prec" },
    { { "--no-store-param-remainders", NULL }, "remainders wants --use-precision-aware-opt" },
    { { AWARE, "--exp-avg-sq-dtype", "fp64" },
      "--exp-avg-sq-dtype fp64: want one of fp32 fp16 bf16 fp8" },
    { { AWARE, "--main-params-dtype", "bf16" },
      "--main-params-dtype bf16: want one of fp32 fp16" },
    { { AWARE, "--main-grads-dtype", "p32" }, "--main-grads-dtype p32: want one of fp32 bf16" },
    { { AWARE, "--main-grads-dtype=bf16", NULL }, NULL },
    { { AWARE, "--main-grads-dtype=bf16", "--accumulate-allreduce-grads-in-fp32" },
      "--main-grads-dtype bf16 wants --bf16 and excludes --accumulate-allreduce-grads-in-fp32" },
    { { "--bf16", "--use-precision-aware-optimizer", NULL }, "wants --use-distributed-optim" },
    { { "--use-distributed-optimizer", "--use-precision-aware-optimizer", NULL },
      "wants --bf16 or --fp16" },
    { { "--tokenizer-type", "ByteLevel", NULL }, NULL },
    { { "--tokenizer-type", "Bytes", NULL }, "tokenizer type: \"Bytes\" is unknown" },
    { { "--tokenizer-type", "GPT2BPETokenizer", NULL }, "needs --vocab-file and --merge" },
    { { "--tokenizer-type", "HuggingFaceTokenizer", NULL }, "needs --tokenizer-model" },
    { { "--tokenizer-type=HuggingFaceTokenizer", "--tokenizer-model", "d", NULL }, NULL },
    { { "--tokenizer-model", "d", NULL }, "--tokenizer-model wants --tokenizer-type" },
    { { "--vocab-file", "v", NULL }, "--vocab-file wants --tokenizer-type" },
    { { "--merge-file", "m", NULL }, "--merge-file wants --tokenizer-type" },
    { { "--fp8-param-gather", "--bf16", NULL }, "--fp8-param-gather wants --bf16 and" },
    { { "--fp8-param-gather", "--use-distributed-optimizer" }, "--fp8-param-gather wants" },
    { { "--save-interval", "5", NULL },
      "--save-interval or --persistent-save-interval wants --save" },
    { { "--save-interval", "5", "--save", "d", NULL }, NULL },
    { { "--persistent-save-interval", "5", NULL },
      "--save-interval or --persistent-save-interval wants --save" },
    { { "--persistent-save-interval", "5", "--save", "d", NULL }, NULL },
    { { "--apply-wd-to-qk-layernorm", "--embedding-init-method-std=0.5", NULL }, NULL },
    { { "--decoupled-lr=1", "--decoupled-min-lr=0", NULL }, NULL },
    { { "--iterations-to-skip", "3", "1", "1000000000000000" }, NULL },
    { { "--iterations-to-skip", "--log-params-norm" }, NULL },
    { { "--iterations-to-skip", "3", "0" }, "--iterations-to-skip: 0 is out of range, want 1 to" },
    { { "--iterations-to-skip", "3,4", NULL }, "--iterations-to-skip: \"3,4\"" },
    { { "--use-mp-args-from-checkpoint-args", NULL }, "wants --use-checkpoint-args and --load" },
    { { "--check-weight-hash-across-dp-replicas-interval=2", NULL }, NULL },
    { { "--check-weight-hash-across-dp-replicas-interval=0", NULL }, "interval: 0 is out" },
    { { "--check-for-spiky-loss", "--check-for-large-grads", NULL }, NULL },
    { { "--decoupled-min-lr=0", NULL }, "--decoupled-min-lr wants --decoupled-lr" },
    { { "--embedding-init-method-std=0", NULL }, "--embedding-init-method-std: 0 is out of" },
    { { "--save-retain-interval", "5", NULL }, "--save-retain-interval wants --save" },
    { { "--save-retain-interval", "0", NULL }, "--save-retain-interval: 0 is out of range" },
    { { "--keep-last-n-checkpoints", "1" }, "--keep-last-n-checkpoints wants --save" },
    { { "--keep-last-n-checkpoints", "0", NULL }, "0 is out of range, want 1 to" },
    { { "--keep-last-n-checkpoints", "2", "--save", "d", NULL }, NULL },
    { { "--async-save", NULL }, "--async-save wants --save" },
    { { "--async-save", "--save", "d", NULL }, NULL },
    { { "--exit-signal", "SIGUSR2", NULL }, NULL },
    { { "--exit-signal", "TERM,SIGHUP,INT", NULL }, NULL },
    { { "--exit-signal", "KILL", NULL }, "--exit-signal: signal \"KILL\" cannot ask" },
    { { "--exit-signal", "TERM,", NULL }, "--exit-signal: signal \"\" cannot ask" },
    { { "--exit-signal", "TERMS", NULL }, "--exit-signal: signal \"TERMS\" cannot ask" },
    { { "--exit-signal-handler", NULL }, NULL },
    { { "--no-exit-signal-handler", NULL }, NULL },
    { { "--exit-signal-handler", "--no-exit-signal-handler", NULL }, "exclude each other" },
    { { "--overlap-p2p-communication", NULL }, NULL },
    { { "--no-overlap-p2p-communication", NULL }, NULL },
    { { "--overlap-p2p-communication", "--no-overlap-p2p-communication", NULL },
      "--overlap-p2p-communication and its --no- exclude each other" },
    { { "--stall-warning-minutes", "-1", NULL }, "--stall-warning-minutes: -1 is out of" },
    { { "--stall-warning-minutes", "0.5", NULL }, NULL },
    { { "--check-for-nan-in-loss-and-grad", NULL }, NULL },
    { { "--no-check-for-nan-in-loss-and-grad", NULL }, NULL },
    { { "--check-for-nan-in-loss-and-grad", "--no-check-for-nan-in-loss-and-grad", NULL },
      "exclude each other" },
    { { "--exit-duration-in-mins", "-1", NULL }, "--exit-duration-in-mins: -1 is out of" },
    { { "--exit-duration-in-mins", "0.5", NULL }, NULL },
    { { "--context-parallel-size", "2", NULL }, NULL },
    { { "--cp-comm-type", NULL }, "--cp-comm-type wants" },
    { { "--cp-comm-type", "a2a", "p2p", NULL }, NULL },
    { { "--hierarchical-context-parallel-sizes", NULL }, "-sizes wants" },
    { { "--hybrid-context-parallel", NULL }, "all samples have one length" },
    { { "--expert-model-parallel-size", "2", NULL }, NULL },
    { { "--num-experts", "0", NULL }, NULL },
    { { "--num-experts", "-1", NULL }, "--num-experts: -1 is out of range" },
    { { "--num-experts", "4", "--moe-use-upcycling", NULL }, "--moe-use-upcycling wants --save" },
    { { "--num-experts=4", "--moe-use-upcycling", "--save=d", NULL },
      "--moe-use-upcycling wants the weights of a dense model: --load DIR, " },
    { { "--num-experts=4", "--moe-use-upcycling", "--save=d", "--load=d" }, NULL },
    { { "--num-experts=4", "--moe-use-upcycling", "--save=d", "--load-weights=d" }, NULL },
    { { "--num-experts=4", "--moe-use-upcycling", "--save=d", "--pretrained-checkpoint=d" }, NULL },
    { { "--load-weights=a", "--pretrained-checkpoint=b" },
      "--load-weights and --pretrained-checkpoint exclude each other" },
    { { "--load-weights=a", "--load=b" }, NULL },
    { { "--num-experts=4", "--moe-use-upcycling", "--moe-upcycling-granularity=2", "--save=d",
        "--load=d" },
      NULL },
    { { "--num-experts=4", "--moe-use-upcycling", "--moe-upcycling-granularity=3", "--save=d",
        "--load=d" },
      "--moe-upcycling-granularity 3 does not divide --num-experts 4" },
    { { "--moe-upcycling-granularity=2", NULL }, "2 wants --moe-use-upcycling" },
    { { "--mtp-num-layers", "65537", NULL }, "--mtp-num-layers: 65537 is out of range" },
    { { "--overlap-moe-expert-parallel-comm", NULL }, NULL },
    { { "--delay-wgrad-compute", NULL }, NULL },
    { { "--moe-layer-recompute", NULL }, NULL },
    { { "--moe-layer-recompute", FULL, "block", "--recompute-num-layers", "1" },
      "--moe-layer-recompute and --recompute-granularity full exclude each other" },
    { { SELECTIVE, "--recompute-modules", "moe_act" }, "only layers with experts have it" },
    { { SELECTIVE, "--recompute-modules", "moe", "shared_experts" }, NULL },
    { { SELECTIVE, "--recompute-modules", "moe_act", "--num-experts=4" }, NULL },
    { { SELECTIVE, "--recompute-modules=shared_experts", "--num-experts=4",
        "--moe-shared-expert-intermediate-size=4", "--moe-shared-expert-overlap" },
      "shared_experts excludes --moe-shared-expert-overlap" },
    { { "--bf16", "--grad-reduce-in-bf16", NULL }, NULL },
    { { "--grad-reduce-in-bf16", NULL }, "--grad-reduce-in-bf16 wants --bf16" },
    { { "--fp16", "--grad-reduce-in-bf16", NULL }, "--grad-reduce-in-bf16 wants --bf16" },
    { { "--bf16", "--grad-reduce-in-bf16", "--accumulate-allreduce-grads-in-fp32", NULL },
      "--grad-reduce-in-bf16 and --accumulate-allreduce-grads-in-fp32 exclude each other" },
    { { "--accumulate-allreduce-grads-in-fp32", NULL }, NULL },
    { { "--ddp-average-in-collective", NULL }, NULL },
    { { "--ddp-average-in-collective", "--calculate-per-token-loss", NULL },
      "--ddp-average-in-collective and --calculate-per-token-loss exclude each other" },
    { { "--hidden-dropout", "1", NULL }, "--hidden-dropout: 1 is out of range" },
    { { "--recompute-activations", NULL }, NULL },
    { { "--recompute-granularity", "half", NULL },
      "--recompute-granularity \"half\": want full or selective" },
    { { "--recompute-activations", "--recompute-granularity", "half" },
      "--recompute-granularity \"half\": want full or selective" },
    { { "--moe-layer-recompute", "--num-experts=4", "--recompute-granularity=half" },
      "--recompute-granularity \"half\": want full or selective" },
    { { SELECTIVE, "--recompute-modules", NULL }, NULL },
    { { SELECTIVE, "--recompute-modules", "core_attn", "layernorm", "mlp" }, NULL },
    { { SELECTIVE, "--recompute-modules", "attention" }, "\"attention\" is unknown, want some of" },
    { { SELECTIVE, "--recompute-modules", "mla_up_proj" }, "multi-latent attention have it" },
    { { SELECTIVE, "--recompute-method", "block" }, "--recompute-method wants" },
    { { FULL, "block", "--recompute-num-layers=1", "--recompute-activations" },
      "--recompute-method wants --recompute-granularity full; --recompute-activations chooses" },
    { { "--recompute-num-layers=1", "--recompute-activations" },
      "--recompute-num-layers wants --recompute-granularity full; --recompute-activations" },
    { { FULL, "uniform", "--recompute-num-layers", "0" }, "wants --recompute-num-layers of 1" },
    { { FULL, "block", "--recompute-num-layers", "-1" }, "--recompute-num-layers: -1 is out of" },
    { { "--distribute-saved-activations", NULL }, "wants --recompute-granularity full" },
    { { "--checkpoint-activations", NULL }, "give --recompute-activations" },
    { { "--rampup-batch-size", "2", "2", "8", NULL }, NULL },
    { { "--rampup-batch-size", "2", "2", NULL },
      "--rampup-batch-size wants three values" },
    { { "--rampup-batch-size=2", NULL }, "--rampup-batch-size wants three values" },
    { { "--rampup-batch-size", "2", "0", "8", NULL },
      "--rampup-batch-size: 0 is out of range" },
};

/* The arguments point into the vector, which lives until the fifth call after this one. */
static int parse (const char *const *more, struct train_args *args, struct mg_error *err)
{
    static const char *const base[MAX_ARGS] = { BASE };
    static const char *vectors[5][MAX_ARGS];
    static int turn;
    const char **argv = vectors[turn++ % 5];
    int argc = 0;

    memcpy (argv, base, sizeof (base));
    while (argv[argc])
        argc++;
    while (*more)
        argv[argc++] = *more++;
    return train_args_parse (argc, (char **)argv, args, err);
}

/* The same, and the configuration that is made of the arguments. */
static int make (const char *const *more, struct train_args *args, struct run_config *c,
                 struct mg_error *err)
{
    int rc = parse (more, args, err);

    run_config_init (c, args);
    return rc;
}

static void test_parse (void)
{
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct train_args args;
        struct mg_error err = { "" };
        int rc = parse (rows[i].arg, &args, &err);

        if (!rows[i].text)
            is_int (rc, 0, "%s is accepted",
                    rows[i].arg[0] ? rows[i].arg[0] : "the base");
        else
            ok (rc < 0 && strstr (err.text, rows[i].text), "%s", err.text);
        train_args_clear (&args);
    }
}

static void test_required (void)
{
    static const char *const all[] = { BASE, NULL };

    /* leave out one pair at a time */
    for (int skip_at = 1; all[skip_at]; skip_at += 2) {
        const char *argv[MAX_ARGS];
        struct train_args args;
        struct mg_error err = { "" };
        int argc = 0;

        for (int i = 0; all[i]; i++)
            if (i != skip_at && i != skip_at + 1)
                argv[argc++] = all[i];
        ok (train_args_parse (argc, (char **)argv, &args, &err) < 0
                && strstr (err.text, "is required") && strstr (err.text, all[skip_at]),
            "without %s: %s", all[skip_at], err.text);
        train_args_clear (&args);
    }
}

static bool list_is (const struct arg_list *list, const char *const *words, int n)
{
    bool same = list->count == n;

    for (int i = 0; same && i < n; i++)
        same = strcmp (arg_list_word (list, i), words[i]) == 0;
    return same;
}

static void test_lists (void)
{
    static const char *const words[] = { "1", "a", "2", "b" };
    static const char *const apart[] = { "--data-path", "1", "a", "2", "b", NULL };
    static const char *const joined[] = { "--data-path=1", "a", "2", "b", "--untie-embeddings"
                                          "-and-output-weights", NULL };
    static const char *const other[] = { "--data-path", "1", "a", "3", "b", NULL };
    static const char *const none[] = { NULL };
    struct train_args args[4];

    parse (apart, &args[0], NULL);
    parse (joined, &args[1], NULL);
    parse (other, &args[2], NULL);
    parse (none, &args[3], NULL);
    ok (list_is (&args[0].data_path, words, 4), "words up to the end");
    ok (list_is (&args[1].data_path, words, 4) && args[1].untied, "or to the next argument");
    ok (list_is (&args[3].data_path, (const char *const[]){ "p" }, 1), "or one");
    is_int (args[0].valid_data_path.count, 0, "none where it is not given");
    args[1].untied = false;
    ok (train_args_fingerprint (&args[0]) == train_args_fingerprint (&args[1]),
        "the same words have the same fingerprint");
    ok (train_args_fingerprint (&args[0]) != train_args_fingerprint (&args[2]),
        "others have another");
}

static void test_environment (void)
{
    static const char *const none[] = { NULL };
    static const char *const tp4[] = { "--tensor-model-parallel-size", "4", NULL };
    struct train_args args;
    struct run_config c;
    const struct geometry *g = &c.geometry;
    struct mg_error err = { "" };

    make (none, &args, &c, NULL);
    is_int (run_config_geometry (&c, &err), 0, "no environment");
    is_int (g->tp, 1, "tp is 1");
    setenv ("MEGATRON_TP_SIZE", "2", 1);
    setenv ("MEGATRON_PP_SIZE", "3", 1);
    setenv ("MEGATRON_RANK_ORDER", "tp-cp-ep-pp-dp", 1);
    is_int (run_config_geometry (&c, &err), 0, "sizes from the job");
    ok (g->tp == 2 && g->pp == 3 && strcmp (g->order, "tp-cp-ep-pp-dp") == 0, "are taken");
    make (tp4, &args, &c, NULL);
    ok (run_config_geometry (&c, &err) < 0 && strstr (err.text, "contradicts"), "%s", err.text);
    setenv ("MEGATRON_TP_SIZE", "4", 1);
    is_int (run_config_geometry (&c, &err), 0, "the same twice is no contradiction");
    setenv ("MEGATRON_TP_SIZE", "x", 1);
    ok (run_config_geometry (&c, &err) < 0 && strstr (err.text, "MEGATRON_TP_SIZE"),
        "%s", err.text);
    unsetenv ("MEGATRON_TP_SIZE");
    unsetenv ("MEGATRON_PP_SIZE");
    unsetenv ("MEGATRON_RANK_ORDER");
    setenv ("MEGATRON_EP_SIZE", "2", 1);
    is_int (run_config_geometry (&c, &err), 0, "expert-parallel ranks %s", err.text);
    is_int (g->ep, 2, "are taken");
    is_int (run_config_check_rules (&c, &err), -1, "and need experts: %s", err.text);
    unsetenv ("MEGATRON_EP_SIZE");
}

/* Exchanges of context-parallel ranks. */
static void test_context (void)
{
    static const char *const levels[] = { "--context-parallel-size", "4", "--cp-comm-type",
                                          "a2a+p2p", "--hierarchical-context-parallel-sizes", "2",
                                          "2", NULL };
    static const char *const one[] = { "--hierarchical-context-parallel-sizes", "2", NULL };
    static const char *const bad[] = { "--cp-comm-type", "p2p", "sideways", NULL };
    struct run_config c;
    struct train_args args;
    struct mg_error err = { "" };

    make (levels, &args, &c, NULL);
    is_int (run_config_geometry (&c, &err), 0, "levels %s", err.text);
    ok (c.geometry.cp == 4 && c.model.context.inner == 2 && c.model.context.outer == 2
            && c.job.context_inner == 2
            && context_comm_at (&c.model.context, 1) == CONTEXT_A2A_P2P, "are taken");
    make (one, &args, &c, NULL);
    ok (run_config_geometry (&c, &err) < 0 && strstr (err.text, "want two sizes"), "%s", err.text);
    make (bad, &args, &c, NULL);
    ok (run_config_geometry (&c, &err) < 0 && strstr (err.text, "\"sideways\""), "%s", err.text);
}

static void test_fingerprint (void)
{
    static const char *const none[] = { NULL };
    static const char *const other[] = { "--seed", "7", NULL };
    static const char *const text[] = { "--split", "1,1,1", NULL };
    struct train_args a, b;

    parse (none, &a, NULL);
    parse (none, &b, NULL);
    ok (train_args_fingerprint (&a) == train_args_fingerprint (&b), "equal arguments");
    parse (other, &b, NULL);
    ok (train_args_fingerprint (&a) != train_args_fingerprint (&b), "another seed");
    parse (text, &b, NULL);
    ok (train_args_fingerprint (&a) != train_args_fingerprint (&b), "another split");
}

/* The configuration of the base with more arguments, for a geometry of 'tp' and files. */
static void make_model (const char *const *more, int tp, int file_seq_length, int tokenizer_size,
                        struct train_args *args, struct run_config *c)
{
    make (more, args, c, NULL);
    geometry_init (&c->geometry);
    c->geometry.tp = tp;
    c->file_seq_length = file_seq_length;
    c->tokenizer_size = tokenizer_size;
}

static void test_model (void)
{
    static const char *const none[] = { NULL };
    static const char *const byte[] = { "--tokenizer-type", "ByteLevel", NULL };
    static const char *const odd[] = { "--hidden-size", "66", NULL };
    static const char *const seven[] = { "--global-batch-size", "7", NULL };
    struct train_args args;
    struct run_config c;
    const struct model_config *m = &c.model.config;
    struct mg_error err = { "" };

    make_model (none, 2, 0, 257, &args, &c);
    is_int (run_config_model (&c, &err), 0, "model of the base");
    ok (m->ffn_hidden_size == 256 && m->kv_channels == 16 && m->max_positions == 16
            && m->vocab_size == 257 && m->padded_vocab_size == 512 && m->tied_embeddings,
        "has Megatron's defaults");
    make_model (none, 1, 17, 257, &args, &c);
    ok (run_config_model (&c, &err) < 0, "%s", err.text);
    make_model (byte, 1, 16, 0, &args, &c);
    is_int (run_config_tokenizer (&c, &err), 0, "the tokenizer's size");
    is_int (run_config_model (&c, &err), 0, "with a tokenizer");
    c.geometry.tp = 2;
    is_int (run_config_check_rules (&c, &err), 0, "its rules are kept %s", err.text);
    make_model (odd, 2, 0, 0, &args, &c);
    ok (run_config_check_rules (&c, &err) < 0 && strstr (err.text, "kv-channels"), "%s",
        err.text);
    make_model (seven, 2, 0, 0, &args, &c);
    c.geometry.world = 6;
    ok (run_config_check_rules (&c, &err) < 0
            && strstr (err.text, "global-batch-size 7 is not a multiple of micro-batch-size 2 x "
                                 "dp 3 = 6; use 6 or 12"), "%s", err.text);
}

/* What is asked of attention heads. */
static void test_heads (void)
{
    static const struct {
        const char *arg[9];
        const char *text; /* part of the message, NULL: legal */
    } cases[] = {
        { { "--softmax-type", "learnable", NULL }, NULL },
        { { "--softmax-type", "soft", NULL }, "--softmax-type \"soft\": want vanilla" },
        { { "--rope-type", "rope", NULL }, "--rope-type wants --multi-latent-attention" },
        { { "--q-lora-rank", "4", NULL }, "--q-lora-rank wants --multi-latent-attention" },
        { { "--multi-latent-attention", NULL }, NULL },
        { { "--multi-latent-attention", "--rope-type", "rope", "--rotary-percent", "0.5", NULL },
          NULL },
        { { "--multi-latent-attention", "--rotary-percent", "0.5", NULL },
          "--rope-type yarn excludes --rotary-percent below 1" },
        { { "--multi-latent-attention", "--rope-type", "none", NULL },
          "--rope-type \"none\": want rope or yarn" },
        { { "--multi-latent-attention", "--group-query-attention", NULL },
          "--multi-latent-attention and --group-query-attention exclude each other" },
        { { "--multi-latent-attention", "--rotary-interleaved", NULL },
          "--multi-latent-attention and --rotary-interleaved exclude each other" },
        { { "--multi-latent-attention", "--use-rope-scaling", NULL }, "exclude each other" },
        { { "--multi-latent-attention", "--position-embedding-type", "rope", "--no-rope-freq", "2",
            NULL },
          "exclude each other" },
        { { "--multi-latent-attention", "--position-embedding-type", "yarn", NULL },
          "give --rope-type yarn" },
    };
    static const char *const all[] = { "--multi-latent-attention", "--q-lora-rank", "24",
                                       "--rotary-scaling-factor", "40", "--mscale-all-dim", "1",
                                       NULL };
    struct train_args args;
    struct run_config c;
    const struct model_config *m = &c.model.config;
    struct mg_error err = { "" };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        int rc;

        make_model (cases[i].arg, 1, 0, 257, &args, &c);
        rc = run_config_model (&c, &err);
        if (!cases[i].text)
            is_int (rc, 0, "%s", cases[i].arg[0]);
        else
            ok (rc < 0 && strstr (err.text, cases[i].text), "%s", err.text);
    }
    make_model (all, 1, 0, 257, &args, &c);
    is_int (run_config_model (&c, &err), 0, "latents");
    ok (m->latent.on && m->latent.q_rank == 24 && m->latent.kv_rank == 32
            && m->latent.qk_dim == 128 && m->latent.rope_dim == 64 && m->latent.v_dim == 128,
        "Megatron's defaults");
    ok (m->rope.scaling == ROPE_YARN && m->rope.factor == 40 && m->rope.mscale_all_dim == 1
            && m->softmax == MODEL_VANILLA, "YaRN by default");
}

/* --- stages --- */

struct stage_row {
    const char *arg[7];
    int pp;
    const char *job; /* MEGATRON_VPP_SIZE */
    const char *want; /* layers of rank 0's stages, or part of the message */
};

static const struct stage_row stage_rows[] = {
    { { NULL }, 2, NULL, "1" },
    { { "--num-layers", "8", NULL }, 2, NULL, "4" },
    { { "--num-layers", "8", NULL }, 2, "2", "2 2" },
    { { "--num-layers", "8", NULL }, 2, "1", "4" },
    { { "--num-layers", "8", "--num-virtual-stages-per-pipeline-rank", "4", NULL },
      2,
      "1",
      "1 1 1 1" },
    { { "--num-layers", "8", "--num-virtual-stages-per-pipeline-rank", "4", NULL },
      2,
      "2",
      "contradicts the job's MEGATRON_VPP_SIZE=2" },
    { { "--num-layers", "8", "--num-layers-per-virtual-pipeline-stage", "1", NULL },
      2,
      NULL,
      "1 1 1 1" },
    { { "--num-layers", "8", "--num-layers-per-virtual-pipeline-stage", "1", NULL },
      2,
      "2",
      "num-virtual-stages-per-pipeline-rank is 2, but" },
    { { "--num-layers", "7", "--account-for-loss-in-pipeline-split", NULL },
      2,
      NULL,
      "4" },
    { { "--num-layers", "7", "--account-for-embedding-in-pipeline-split", NULL },
      2,
      NULL,
      "3" },
    { { "--num-layers", "8", "--decoder-first-pipeline-num-layers", "3", NULL },
      2,
      NULL,
      "3" },
    { { "--num-layers", "8", "--decoder-last-pipeline-num-layers", "3", NULL },
      2,
      NULL,
      "5" },
    { { "--pipeline-model-parallel-layout", "E|t||tL", NULL }, 2, "1", "0 0" },
    { { "--pipeline-model-parallel-layout", "E|t|tL", NULL },
      2,
      NULL,
      "3 stages are not" },
    { { "--pipeline-model-parallel-layout", "Et|tL",
        "--num-virtual-stages-per-pipeline-rank", "1", NULL },
      2,
      NULL,
      "exclude each other" },
    { { "--num-layers", "8", "--num-virtual-stages-per-pipeline-rank", "2", NULL },
      1,
      NULL,
      "2 virtual stages need a pipeline" },
};

static void test_stages (void)
{
    for (size_t i = 0; i < sizeof (stage_rows) / sizeof (stage_rows[0]); i++) {
        const struct stage_row *row = &stage_rows[i];
        struct train_args args;
        struct run_config c;
        struct mg_error err = { "" };
        char text[80] = "";
        int rc;

        if (row->job)
            setenv ("MEGATRON_VPP_SIZE", row->job, 1);
        rc = parse (row->arg, &args, &err);
        args.pp = row->pp;
        run_config_init (&c, &args);
        // one stage is no stage too many for the geometry's own rule
        if (rc == 0 && row->pp == 1) {
            geometry_init (&c.geometry);
            c.geometry.vpp = args.vpp;
        } else if (rc == 0)
            rc = run_config_geometry (&c, &err);
        if (rc == 0 && run_config_stages (&c, &err) == 0)
            for (int v = 0; v < c.stages->vpp; v++)
                snprintf (text + strlen (text), sizeof (text) - strlen (text), "%s%d",
                          v ? " " : "", stages_at (c.stages, 0, v)->num_layers);
        if (c.stages)
            ok (strcmp (text, row->want) == 0
                    && c.geometry.vpp == (c.stages->vpp > 1 ? c.stages->vpp : 0),
                "stages %zu: %s", i, text);
        else
            ok (strstr (err.text, row->want) != NULL, "stages %zu: %s", i, err.text);
        run_config_clear (&c);
        train_args_clear (&args);
        unsetenv ("MEGATRON_VPP_SIZE");
    }
}

/* --- batch sizes and learning rate --- */

struct lr_row {
    const char *arg[9];
    int64_t iterations, decay;
    double warmup;
    int64_t wsd, wd_incr;
    const char *text; /* part of the message, NULL: legal */
};

/* Two data-parallel ranks, microbatches of 2: batches of 4, unless told. */
static const struct lr_row lr_rows[] = {
    { { NULL }, 10, 40, 0, 0, 40, NULL },
    { { "--global-batch-size", "8", NULL }, 10, 80, 0, 0, 80, NULL },
    { { "--lr-decay-iters", "5", "--lr-warmup-iters", "2", NULL },
      10,
      20,
      8,
      0,
      40,
      NULL },
    { { "--lr-warmup-fraction", "0.13", NULL }, 10, 40, 5.2, 0, 40, NULL },
    { { "--lr-decay-style", "WSD", "--lr-wsd-decay-iters", "3", NULL },
      10,
      40,
      0,
      12,
      40,
      NULL },
    { { "--train-samples", "50", "--lr-decay-samples", "30", "--lr-warmup-samples", "7",
        NULL },
      12,
      30,
      7,
      0,
      50,
      NULL },
    { { "--train-samples", "50", "--lr-decay-style", "WSD", "--lr-wsd-decay-samples", "9",
        NULL },
      12,
      50,
      0,
      9,
      50,
      NULL },
    { { "--step-batch-size-schedule", "0:4 160:8", NULL }, 10, 68, 0, 0, 68, NULL },
    { { "--step-batch-size-schedule", "0:4 160:8", "--train-samples", "50",
        "--lr-warmup-fraction", "0.5", NULL },
      8,
      50,
      25,
      0,
      50,
      NULL },
    { { "--rampup-batch-size", "4", "4", "16", "--global-batch-size", "12", NULL },
      10,
      100,
      0,
      0,
      100,
      NULL },
    { { "--global-batch-size", "7", "--decrease-batch-size-if-needed", NULL },
      10,
      40,
      0,
      0,
      40,
      NULL },
    { { "--lr=1e-3", "--decoupled-lr=1e-4", "--decoupled-min-lr=1e-5", NULL }, 10, 40, 0, 0, 40,
      NULL },
    { { "--decoupled-lr=1e-5", "--decoupled-min-lr=1e-4", NULL },
      .text = "decoupled learning rate: from 1e-05 down to 0.0001" },
    { { "--lr-decay-style", "WSD", NULL }, .text = "WSD wants --lr-wsd-decay-iters" },
    { { "--lr-wsd-decay-style", "sqrt", NULL },
      .text = "--lr-wsd-decay-style: unknown style" },
    { { "--lr-decay-samples", "9", NULL }, .text = "want --train-samples" },
    { { "--train-samples", "9", "--lr-decay-iters", "9", NULL }, .text = "give samples" },
    { { "--lr-warmup-fraction", "0.1", "--lr-warmup-iters", "1", NULL },
      .text = "--lr-warmup-fraction and --lr-warmup-iters exclude" },
    { { "--lr-warmup-iters", "10", NULL },
      .text = "--lr-warmup-iters 10 is not less than the 10 of the decay" },
    { { "--train-samples", "9", "--lr-warmup-samples", "9", NULL },
      .text = "--lr-warmup-samples 9 is not less than the 9 of the decay" },
    { { "--lr-warmup-fraction", "1", NULL },
      .text = "--lr-warmup-fraction 1 is not less than 1, all of the decay" },
    { { "--lr-warmup-iters", "9", NULL }, 10, 40, 36, 0, 40, NULL },
    { { "--train-iters", "1000000000000000", "--global-batch-size", "400000", NULL },
      .text = "take too many samples" },
    { { "--global-batch-size", "7", NULL },
      .text = "global-batch-size 7 is not a multiple of" },
    { { "--rampup-batch-size", "4", "4", "16", NULL },
      .text = "wants --global-batch-size" },
    { { "--step-batch-size-schedule", "0:4", "--global-batch-size", "4", NULL },
      .text = "excludes global-batch-size" },
};

static void test_lr (void)
{
    for (size_t i = 0; i < sizeof (lr_rows) / sizeof (lr_rows[0]); i++) {
        const struct lr_row *row = &lr_rows[i];
        struct train_args args;
        struct run_config c;
        struct lr_config lr;
        struct mg_error err = { "" };
        struct num_microbatches *b;
        int rc;

        parse (row->arg, &args, NULL);
        // of the base; a later --train-iters is one of the row's
        if (args.train_samples != TRAIN_UNSET)
            args.train_iters = TRAIN_UNSET;
        run_config_init (&c, &args);
        b = run_config_batches (&c, 2, &err);
        rc = b ? run_config_lr (&c, b, &lr, &err) : -1;
        if (row->text)
            ok (rc < 0 && strstr (err.text, row->text), "%s", err.text);
        else
            ok (rc == 0 && run_config_iterations (&c, b) == row->iterations
                    && lr.decay == row->decay && lr.warmup == row->warmup
                    && (lr.style != LR_WSD || lr.wsd_decay == row->wsd)
                    && lr.wd_incr == row->wd_incr,
                "learning rate %zu: %lld iterations, decay %lld, warm-up %g %s", i,
                b ? (long long)run_config_iterations (&c, b) : 0, (long long)lr.decay,
                lr.warmup, err.text);
        num_microbatches_destroy (b);
        train_args_clear (&args);
    }
}

static void test_rows (void)
{
    static const char *const none[] = { NULL };
    static const char *const size[] = { "--global-batch-size", "8", NULL };
    static const char *const steps[] = { "--step-batch-size-schedule", "0:8", NULL };
    struct train_args args;
    struct run_config c;
    struct mg_error err = { "" };
    struct num_microbatches *b;
    struct batch_size at;

    make (none, &args, &c, NULL);
    c.file_rows = 12;
    b = run_config_batches (&c, 2, &err);
    if (b)
        num_microbatches_at (b, 0, &at);
    ok (b && at.num_microbatches == 3, "a file of batches tells their size %s", err.text);
    num_microbatches_destroy (b);
    make (size, &args, &c, NULL);
    c.file_rows = 12;
    ok (!run_config_batches (&c, 2, &err) && strstr (err.text, "have 12 samples"),
        "%s", err.text);
    make (steps, &args, &c, NULL);
    c.file_rows = 12;
    ok (!run_config_batches (&c, 2, &err) && strstr (err.text, "excludes"), "%s",
        err.text);
}

static void test_types (void)
{
    static const struct {
        const char *arg[MAX_ARGS];
        enum mg_dtype model, grad;
    } types[] = {
        { { NULL }, MG_FLOAT32, MG_FLOAT32 },
        { { "--accumulate-allreduce-grads-in-fp32", NULL }, MG_FLOAT32, MG_FLOAT32 },
        { { "--bf16", NULL }, MG_BFLOAT16, MG_FLOAT32 },
        { { "--bf16", "--accumulate-allreduce-grads-in-fp32", NULL }, MG_BFLOAT16,
          MG_FLOAT32 },
        { { "--bf16", "--grad-reduce-in-bf16", NULL }, MG_BFLOAT16, MG_BFLOAT16 },
        { { "--fp16", NULL }, MG_FLOAT16, MG_FLOAT16 },
        { { "--fp16", "--accumulate-allreduce-grads-in-fp32", NULL }, MG_FLOAT16,
          MG_FLOAT32 },
    };

    for (size_t i = 0; i < sizeof (types) / sizeof (types[0]); i++) {
        struct train_args args;
        struct run_config c;
        struct mg_error err = { "" };

        ok (make (types[i].arg, &args, &c, &err) == 0 && c.model.dtype == types[i].model
                && c.buffers.grad == types[i].grad,
            "%s parameters, %s gradients %s", mg_dtype_name (types[i].model),
            mg_dtype_name (types[i].grad), err.text);
    }
}

/* The token that ends a document. */
static void test_eod (void)
{
    static const struct {
        const char *arg[4];
        int eod;
        const char *text; /* part of the message, NULL: there is a token */
    } cases[] = {
        { { "--eod-token-id=5", NULL }, 5, NULL },
        { { "--tokenizer-type=ByteLevel", NULL }, 256, NULL },
        { { "--tokenizer-type=ByteLevel", "--eod-token-id=0", NULL }, 0, NULL },
        { { NULL }, 0, "no token ends a document: want --eod-token-id or --tokenizer-type" },
        { { "--eod-token-id=257", NULL }, 0, "token 257 is outside the vocabulary, want 0 to 256" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        const char *argv[MAX_ARGS] = { BASE };
        struct mg_error err = { "" };
        struct train_args args;
        struct run_config c;
        int argc = 0, rc;
        int32_t eod = -1;

        while (argv[argc])
            argc++;
        for (int k = 0; cases[i].arg[k]; k++)
            argv[argc++] = cases[i].arg[k];
        if (train_args_parse (argc, (char **)argv, &args, &err) < 0)
            bail_out ("%s", err.text);
        run_config_init (&c, &args);
        rc = train_data_eod (&c.data, &eod, &err);
        ok (cases[i].text ? rc < 0 && strstr (err.text, cases[i].text) != NULL
                          : rc == 0 && eod == cases[i].eod,
            "end of document, case %zu: %d %s", i, (int)eod, err.text);
        train_args_clear (&args);
    }
}

int main (void)
{
    test_parse ();
    test_types ();
    test_required ();
    test_lists ();
    test_environment ();
    test_context ();
    test_fingerprint ();
    test_model ();
    test_heads ();
    test_stages ();
    test_lr ();
    test_rows ();
    test_eod ();
    return done_testing ();
}
