/* Arguments that have no effect: every rule, and what is told of the learning rate's decay. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/lr.h"
#include "libcore/args/heard.h"
#include "libcore/train/config.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))
#define EXPERTS "--num-experts=4"
#define ROPE "--position-embedding-type=rope"
#define YARN "--position-embedding-type=yarn"
#define LATENT "--multi-latent-attention"
#define LOAD "--load=d"
#define SINKHORN "--moe-router-load-balancing-type=sinkhorn"

enum { MAX_WORDS = 6 };

/* Words, and the lines about them; "": none. */
static const struct {
    const char *word[MAX_WORDS], *want;
} rows[] = {
    { { NULL }, "" },
    { { "--rotary-base=5" },
      "--rotary-base has no effect without rotary positions (--position-embedding-type rope)\n" },
    { { "--rotary-percent=0.5", "--rotary-interleaved",
        "--rotary-seq-len-interpolation-factor=2" },
      "--rotary-percent, --rotary-interleaved, --rotary-seq-len-interpolation-factor have no "
      "effect without rotary positions (--position-embedding-type rope)\n" },
    { { "--rotary-base=5", "--rotary-percent=0.5", ROPE }, "" },
    { { "--rotary-base=5", "--use-rotary-position-embeddings" }, "" },
    { { "--rotary-base=5", LATENT }, "" },
    { { "--rotary-base=5", YARN }, "" },
    { { "--rotary-base=5", "--rotary-percent=0.5", ROPE, "--no-rope-freq=1" },
      "--rotary-base, --rotary-percent have no effect with --no-rope-freq, by which no layer "
      "rotates\n" },
    { { "--rotary-base=5", "--use-rope-scaling", ROPE, "--no-rope-freq=[1,1,1,1]" },
      "--rotary-base, --use-rope-scaling have no effect with --no-rope-freq, by which no layer "
      "rotates\n" },
    { { "--mscale=1", "--rotary-scaling-factor=2", YARN, "--no-rope-freq=1" },
      "--rotary-scaling-factor, --mscale have no effect with --no-rope-freq, by which no layer "
      "rotates\n" },
    { { "--rotary-base=5", ROPE, "--no-rope-freq=4" }, "" },
    { { "--rotary-base=5", ROPE, "--no-rope-freq=[1,1,1,0]" }, "" },
    { { "--reset-position-ids", "--eod-token-id=3", ROPE },
      "--reset-position-ids has no effect without learned positions (--position-embedding-type "
      "learned_absolute)\n" },
    { { "--reset-position-ids", "--eod-token-id=3", YARN },
      "--reset-position-ids has no effect without learned positions (--position-embedding-type "
      "learned_absolute)\n" },
    { { "--reset-position-ids", "--eod-token-id=3", "--position-embedding-type=none" },
      "--reset-position-ids has no effect without learned positions (--position-embedding-type "
      "learned_absolute)\n" },
    { { "--reset-position-ids", "--eod-token-id=3", "--use-rotary-position-embeddings" },
      "--reset-position-ids has no effect without learned positions (--position-embedding-type "
      "learned_absolute)\n" },
    { { "--reset-position-ids", "--eod-token-id=3" }, "" },
    { { "--window-size=-1,-1", "--window-attn-skip-freq=2" },
      "--window-attn-skip-freq has no effect with --window-size -1,N, which hides no token\n" },
    { { "--window-size=(-1, 0)", "--window-attn-skip-freq=2" },
      "--window-attn-skip-freq has no effect with --window-size -1,N, which hides no token\n" },
    { { "--window-size=1,-1", "--window-attn-skip-freq=2" }, "" },
    { { "--rope-scaling-factor=2", ROPE },
      "--rope-scaling-factor has no effect without --use-rope-scaling\n" },
    { { "--rope-scaling-factor=2", ROPE, "--use-rope-scaling" }, "" },
    { { "--mscale=1" },
      "--mscale has no effect without YaRN (--position-embedding-type yarn, or --rope-type yarn "
      "with --multi-latent-attention)\n" },
    { { "--mscale=1", ROPE },
      "--mscale has no effect without YaRN (--position-embedding-type yarn, or --rope-type yarn "
      "with --multi-latent-attention)\n" },
    { { "--mscale=1", "--rotary-scaling-factor=2", YARN }, "" },
    { { "--mscale=1", "--mscale-all-dim=1", LATENT }, "" },
    { { "--mscale=1", "--mscale-all-dim=1", LATENT, "--rope-type=rope" },
      "--mscale has no effect without YaRN (--position-embedding-type yarn, or --rope-type yarn "
      "with --multi-latent-attention)\n" },
    { { "--kv-lora-rank=8", "--v-head-dim=8" },
      "--kv-lora-rank, --v-head-dim have no effect without --multi-latent-attention\n" },
    { { "--kv-channels=8", LATENT },
      "--kv-channels has no effect with --multi-latent-attention\n" },
    { { "--add-qkv-bias", "--disable-bias-linear", LATENT },
      "--add-qkv-bias has no effect with --multi-latent-attention\n" },
    { { "--add-qkv-bias", "--disable-bias-linear" }, "" },
    { { "--moe-aux-loss-coeff=0.1", "--moe-z-loss-coeff=0.1", "--moe-router-topk=1" },
      "--moe-router-topk, --moe-aux-loss-coeff, --moe-z-loss-coeff have no effect without "
      "--num-experts\n" },
    { { EXPERTS, "--moe-aux-loss-coeff=0.1", "--moe-router-load-balancing-type=none" },
      "--moe-aux-loss-coeff has no effect with --moe-router-load-balancing-type none\n" },
    { { EXPERTS, "--moe-aux-loss-coeff=0.1", "--moe-z-loss-coeff=0.1" }, "" },
    { { EXPERTS, "--moe-router-bias-update-rate=1" },
      "--moe-router-bias-update-rate has no effect without --moe-router-enable-expert-bias\n" },
    { { EXPERTS, "--moe-router-quantile-balancing-ema=0.5" },
      "--moe-router-quantile-balancing-ema has no effect without "
      "--moe-router-load-balancing-type quantile_balancing\n" },
    { { EXPERTS, "--moe-router-num-groups=2" },
      "--moe-router-num-groups has no effect without --moe-router-group-topk\n" },
    { { EXPERTS, "--moe-token-drop-policy=position" },
      "--moe-token-drop-policy has no effect without --moe-expert-capacity-factor\n" },
    { { EXPERTS, "--moe-router-pre-softmax", "--moe-router-score-function=sigmoid" },
      "--moe-router-pre-softmax has no effect without --moe-router-score-function softmax\n" },
    { { EXPERTS, SINKHORN, "--moe-router-score-function=sigmoid",
        "--moe-router-topk-scaling-factor=2" },
      "--moe-router-score-function, --moe-router-topk-scaling-factor have no effect with "
      "--moe-router-load-balancing-type sinkhorn\n" },
    { { EXPERTS, SINKHORN, "--moe-router-score-function=sigmoid", "--moe-router-pre-softmax" },
      "--moe-router-score-function, --moe-router-pre-softmax have no effect with "
      "--moe-router-load-balancing-type sinkhorn\n" },
    { { EXPERTS, "--moe-router-topk-scaling-factor=2", "--moe-router-pre-softmax" }, "" },
    { { EXPERTS, "--moe-router-force-biased=1", "--moe-router-force-load-balancing" },
      "--moe-router-force-load-balancing has no effect with --moe-router-force-biased\n" },
    { { EXPERTS, "--moe-router-force-biased=0", "--moe-router-force-load-balancing" }, "" },
    { { EXPERTS, "--moe-ffn-hidden-size=12", "--ffn-hidden-size=24" },
      "--ffn-hidden-size has no effect with --moe-ffn-hidden-size and experts in all layers\n" },
    { { EXPERTS, "--moe-ffn-hidden-size=12", "--ffn-hidden-size=24", "--moe-layer-freq=1" },
      "--ffn-hidden-size has no effect with --moe-ffn-hidden-size and experts in all layers\n" },
    { { EXPERTS, "--moe-ffn-hidden-size=12", "--ffn-hidden-size=24", "--moe-layer-freq=[1]*4" },
      "--ffn-hidden-size has no effect with --moe-ffn-hidden-size and experts in all layers\n" },
    { { EXPERTS, "--moe-ffn-hidden-size=12", "--ffn-hidden-size=24", "--moe-layer-freq=2" }, "" },
    { { EXPERTS, "--moe-ffn-hidden-size=12", "--ffn-hidden-size=24",
        "--moe-layer-freq=[0]+[1]*3" }, "" },
    { { EXPERTS, "--ffn-hidden-size=24" }, "" },
    { { "--mtp-loss-scaling-factor=1" },
      "--mtp-loss-scaling-factor has no effect without --mtp-num-layers\n" },
    { { "--mtp-use-repeated-layer", "--mtp-detach-heads" },
      "--mtp-use-repeated-layer, --mtp-detach-heads have no effect without --mtp-num-layers\n" },
    { { "--mtp-use-repeated-layer", "--mtp-num-layers=2", ROPE }, "" },
    { { "--apply-query-key-layer-scaling", "--bf16" },
      "--apply-query-key-layer-scaling has no effect without --fp16\n" },
    { { "--apply-query-key-layer-scaling", "--fp16" }, "" },
    { { "--hysteresis=3", "--bf16" },
      "--hysteresis has no effect without the dynamic loss scale of --fp16\n" },
    { { "--hysteresis=3", "--fp16", "--loss-scale=8" },
      "--hysteresis has no effect without the dynamic loss scale of --fp16\n" },
    { { "--hysteresis=3", "--fp16" }, "" },
    { { "--use-checkpoint-opt_param-scheduler" },
      "--use-checkpoint-opt_param-scheduler has no effect without --load\n" },
    { { "--override-opt-param-scheduler" },
      "--override-opt-param-scheduler has no effect without --load\n" },
    { { "--use-checkpoint-opt-param-scheduler", LOAD }, "" },
    { { "--override-opt-param-scheduler", LOAD }, "" },
    { { "--override-opt-param-scheduler", LOAD, "--no-load-optim" },
      "--override-opt-param-scheduler has no effect with --finetune or --no-load-optim, "
      "whose schedule begins anew\n" },
    { { "--override-opt-param-scheduler", LOAD, "--finetune" },
      "--override-opt-param-scheduler has no effect with --finetune or --no-load-optim, "
      "whose schedule begins anew\n" },
    { { "--min-lr=1e-5", "--lr-decay-style=constant" },
      "--min-lr has no effect with --lr-decay-style constant\n" },
    { { "--lr-wsd-decay-style=linear" },
      "--lr-wsd-decay-style has no effect without --lr-decay-style WSD\n" },
    { { "--lr-warmup-init=1e-6" }, "--lr-warmup-init has no effect without a warm-up\n" },
    { { "--ddp-bucket-size=9" },
      "--ddp-bucket-size has no effect without --overlap-grad-reduce\n" },
    { { "--ddp-pad-buckets-for-high-nccl-busbw" },
      "--ddp-pad-buckets-for-high-nccl-busbw has no effect without --use-distributed-optimizer\n" },
    { { "--cuda-graph-modules", "attn" },
      "--cuda-graph-modules has no effect without --cuda-graph-impl\n" },
    { { "--cuda-graph-scope", "attn" },
      "--cuda-graph-scope has no effect without --cuda-graph-impl\n" },
    { { "--cuda-graph-scope=attn", "--cuda-graph-impl=none", "--cuda-graph-warmup-steps=5" },
      "--cuda-graph-scope, --cuda-graph-warmup-steps have no effect without "
      "--cuda-graph-impl\n" },
    { { "--cuda-graph-scope=full", "--cuda-graph-warmup-steps=5" },
      "--cuda-graph-scope, --cuda-graph-warmup-steps have no effect without "
      "--cuda-graph-impl\n" },
    { { "--cuda-graph-scope=attn", "--cuda-graph-impl=local" }, "" },
    { { "--cuda-graph-scope=attn", "--enable-cuda-graph" }, "" },
    { { "--cuda-graph-scope=attn", "--external-cuda-graph" }, "" },
    { { "--cuda-graph-scope=full_iteration", "--cuda-graph-warmup-steps=5" }, "" },
    { { "--cuda-graph-modules=full_iteration", "--cuda-graph-warmup-steps=5" }, "" },
    { { "--device-reserve-mib=5", "--communicator-reserve-mib=5" },
      "--device-reserve-mib, --communicator-reserve-mib have no effect without --device cuda\n" },
    { { "--device-reserve-mib=5", "--device=cpu" },
      "--device-reserve-mib has no effect without --device cuda\n" },
    { { "--device-reserve-mib=5", "--communicator-reserve-mib=5", "--device=cuda" }, "" },
    { { "--device-reserve-mib=5", "--communicator-reserve-mib=5", "--device=auto" }, "" },
    { { "--log-timers-to-tensorboard", "--tensorboard-queue-size=1" },
      "--tensorboard-queue-size, --log-timers-to-tensorboard have no effect without "
      "--tensorboard-dir\n" },
    { { "--use-rotary-position-embeddings", "--position-embedding-type=none" },
      "--position-embedding-type has no effect with --use-rotary-position-embeddings\n" },
    { { "--use-rotary-position-embeddings", ROPE }, "" },
    { { "--expert-tensor-parallel-size=1" },
      "--expert-tensor-parallel-size has no effect without --num-experts\n" },
    { { "--start-weight-decay=1", "--end-weight-decay=1", "--weight-decay=2" },
      "--weight-decay has no effect with --start-weight-decay and --end-weight-decay\n" },
    { { "--recompute-activations", "--recompute-granularity=full" },
      "--recompute-granularity has no effect with --recompute-activations\n" },
    { { "--eval-interval=3", "--eval-iters=0" },
      "--eval-interval has no effect with --eval-iters 0\n" },
    { { "--start-eval-at-iter=3", "--eval-global-batch-size=8", "--eval-iters=0" },
      "--start-eval-at-iter, --eval-global-batch-size have no effect with --eval-iters 0\n" },
    { { "--eval-interval=3", "--eval-iters=0", "--full-validation" }, "" },
    { { "--train-data-path=q", "--eval-iters=3" },
      "--eval-iters has no effect without data for validation or test\n" },
    { { "--train-data-path=q", "--valid-data-path=r", "--eval-iters=3" }, "" },
    { { "--train-data-path=q", "--valid-data-path=r", "--eval-iters=0" },
      "--valid-data-path has no effect with --eval-iters 0\n" },
    { { "--split=9,0,0", "--eval-iters=3", "--start-eval-at-iter=2" },
      "--eval-iters, --start-eval-at-iter have no effect without data for validation or test\n" },
    { { "--split=9,1,0", "--eval-iters=3" }, "" },
    { { "--split=9,0,0", "--full-validation", "--eval-iters=3" },
      "--eval-iters, --full-validation have no effect without data for validation or test\n" },
    { { "--split=9,0,0", "--full-validation", "--eval-iters=0" },
      "--eval-iters, --full-validation have no effect without data for validation or test\n" },
    { { "--split=9,1,0", "--full-validation" }, "" },
    { { "--train-data-path=q", "--split=9,1,0" },
      "--split has no effect with --mock-data, --batches or --train-data-path\n" },
    { { "--mock-data", "--eval-iters=3" }, "" },
    { { "--mock-data", "--split=9,0,0", "--eval-iters=3" },
      "--split has no effect with --mock-data, --batches or --train-data-path\n" },
    { { "--weight-decay-incr-style=cosine" },
      "--weight-decay-incr-style has no effect without --start-weight-decay and "
      "--end-weight-decay\n" },
    { { "--weight-decay-incr-style=constant" }, "" },
    { { "--weight-decay-incr-style=cosine", "--start-weight-decay=0", "--end-weight-decay=1" },
      "" },
    { { "--account-for-embedding-in-pipeline-split", "--use-tp-pp-dp-mapping" },
      "--use-tp-pp-dp-mapping, --account-for-embedding-in-pipeline-split have no effect with "
      "pipeline-parallel size 1\n" },
    { { "--use-tp-pp-dp-mapping", "--pipeline-model-parallel-size=2" }, "" },
    { { "--no-overlap-p2p-communication" },
      "--no-overlap-p2p-communication has no effect with pipeline-parallel size 1\n" },
    { { "--overlap-p2p-communication", "--pipeline-model-parallel-size=2" }, "" },
    { { EXPERTS, "--moe-per-layer-logging" },
      "--moe-per-layer-logging has no effect without --tensorboard-dir\n" },
    { { EXPERTS, "--moe-per-layer-logging", "--tensorboard-dir=d" }, "" },
    { { "--eod-token-id=3" },
      "--eod-token-id has no effect without --eod-mask-loss, --reset-attention-mask, "
      "--reset-position-ids, --fim-data or --mock-data\n" },
    { { "--mock-data", "--eod-token-id=3" }, "" },
    { { "--tokenizer-type=NullTokenizer", "--null-tokenizer-eod-id=4" },
      "--null-tokenizer-eod-id has no effect without --eod-mask-loss, --reset-attention-mask, "
      "--reset-position-ids, --fim-data or --mock-data\n" },
    { { "--tokenizer-type=NullTokenizer", "--null-tokenizer-eod-id=4", "--eod-mask-loss" }, "" },
    { { "--eod-token-id=3", "--eod-mask-loss" }, "" },
    { { "--mid-level-dataset-surplus=0.1" },
      "--mid-level-dataset-surplus has no effect without several datasets\n" },
    { { "--trace-iterations=1-2" }, "--trace-iterations has no effect without --trace-file\n" },
    { { "--timing-log-option=max" },
      "--timing-log-option has no effect without --timing-log-level\n" },
    { { "--exit-signal=SIGUSR1", "--no-exit-signal-handler" },
      "--exit-signal has no effect with --no-exit-signal-handler\n" },
    { { "--make-vocab-size-divisible-by=2", "--padded-vocab-size=300" },
      "--make-vocab-size-divisible-by has no effect with --padded-vocab-size\n" },
    { { "--sequence-parallel" },
      "--sequence-parallel has no effect with tensor-parallel size 1\n" },
    { { "--sequence-parallel", "--tensor-model-parallel-size=2" }, "" },
    { { "--cp-comm-type=a2a" }, "--cp-comm-type has no effect with context-parallel size 1\n" },
    { { "--microbatch-group-size-per-virtual-pipeline-stage=2" },
      "--microbatch-group-size-per-virtual-pipeline-stage has no effect without virtual "
      "stages\n" },
};

/* The lines about words. */
static char *tell (const char *const word[MAX_WORDS])
{
    static const char *const base[] = {
        "train", "--num-layers=4", "--hidden-size=64", "--num-attention-heads=4",
        "--seq-length=16", "--micro-batch-size=2", "--train-iters=10", "--lr=1",
        "--vocab-size=257", "--data-path=p",
    };
    char *argv[COUNT (base) + MAX_WORDS], *text = NULL;
    struct mg_error err = { "" };
    int argc = (int)COUNT (base);
    struct train_args args;
    struct run_config c;
    size_t size;
    FILE *out;

    memcpy (argv, base, sizeof (base));
    if (word[0] && (strncmp (word[0], "--train-data-path", 17) == 0
                    || strcmp (word[0], "--mock-data") == 0))
        argc--; // in place of --data-path
    for (int i = 0; i < MAX_WORDS && word[i]; i++)
        argv[argc++] = (char *)word[i];
    if (train_args_parse (argc, argv, &args, &err) < 0)
        bail_out ("%s", err.text);
    run_config_init (&c, &args);
    if (run_config_geometry (&c, &err) < 0)
        bail_out ("%s", err.text);
    out = open_memstream (&text, &size);
    args_heard_print (&args, &c.geometry, out);
    fclose (out);
    train_args_clear (&args);
    return text;
}

static void test_rows (void)
{
    for (size_t i = 0; i < COUNT (rows); i++) {
        char *text = tell (rows[i].word);

        is_str (text, rows[i].want, "%s", rows[i].word[0] ? rows[i].word[0] : "nothing");
        free (text);
    }
}

/* What a file of arguments has was given, too; defaults were not. */
static void test_given (void)
{
    struct train_args args;
    size_t given = 0;

    train_args_init (&args);
    for (size_t i = 0; i < train_num_args; i++)
        given += train_arg_given (&args, i);
    is_int (given, 0, "nothing is given");
    ok (train_num_args <= 64 * TRAIN_GIVEN_WORDS, "there is a bit for each of %zu rows",
        train_num_args);
}

static void test_decay (void)
{
    static const struct {
        struct lr_config lr;
        int64_t consumed, last;
        const char *want;
    } runs[] = {
        { { .style = LR_LINEAR, .decay = 100, .min = 0 }, 0, 100, "" },
        { { .style = LR_CONSTANT, .decay = 100, .min = 0 }, 0, 200, "" },
        { { .style = LR_LINEAR, .decay = 100, .min = 0 }, 0, 200,
          "the decay of the learning rate ends in iteration 25, before the run: it stays at 0: "
          "nothing is learnt any more\n" },
        { { .style = LR_COSINE, .decay = 100, .min = 1e-5 }, 0, 101,
          "the decay of the learning rate ends in iteration 25, before the run: it stays at "
          "1e-05\n" },
        { { .style = LR_COSINE, .decay = 100, .min = 0 }, 100, 101,
          "the decay of the learning rate is over: it stays at 0: nothing is learnt any more\n" },
        { { .style = LR_COSINE, .decay = 100, .min = 1e-5 }, 150, 200,
          "the decay of the learning rate is over: it stays at 1e-05\n" },
        { { .style = LR_COSINE, .decay = 100, .min = 0 }, 150, 150, "" },
    };

    for (size_t i = 0; i < COUNT (runs); i++) {
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream (&text, &size);

        args_heard_print_decay (&runs[i].lr, runs[i].consumed, runs[i].last, 25, out);
        fclose (out);
        is_str (text, runs[i].want, "from %d to %d", (int)runs[i].consumed, (int)runs[i].last);
        free (text);
    }
}

int main (void)
{
    test_rows ();
    test_given ();
    test_decay ();
    return done_testing ();
}
