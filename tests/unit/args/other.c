/* Arguments that megatron train does not have: the table, and what is said. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/args/args.h"
#include "libcore/args/other.h"
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

        ok (!train_arg_find (row->name) == !(row->values && row->kind == OTHER_NEEDLESS)
                && !repeated (i), "--%s: one row, no argument but for some values", row->name);
        ok ((row->text && *row->text) || row->kind == OTHER_LAUNCHER, "--%s: says what to do",
            row->name);
        ok (!row->values || row->kind == OTHER_ABSENT || row->kind == OTHER_NEEDLESS,
            "--%s: values of what is refused, or of an argument", row->name);
        ok (star || !family, "--%s: families come last", row->name);
        family |= star;
    }
}

/* What is left of a command line's own, and what is said. */
struct outcome {
    struct args_others others;
    struct mg_error err;
    int rc, error;
};

/* Take and check words, closed by NULL. */
static void take (struct outcome *o, bool strict, const char *const *word)
{
    int argc = 0;

    *o = (struct outcome){ .rc = 0 };
    while (word[argc])
        argc++;
    for (int i = 0; i < argc && o->rc == 0;)
        o->rc = args_others_add (&o->others, argc, (char **)word, &i, NULL, 0, &o->err);
    if (o->rc == 0)
        o->rc = args_others_check (&o->others, strict, &o->err);
    o->error = errno;
}

/* Every row by itself: accepted, or refused in a message that fits. */
static void test_rows (void)
{
    for (size_t i = 0; i < args_other_num; i++) {
        const struct args_other *row = &args_other_table[i];
        bool accepted = row->kind == OTHER_NEEDLESS || row->kind == OTHER_ELSEWHERE;
        char name[100];
        const char *words[] = { name, row->words == OTHER_FLAG ? NULL : "word", NULL };
        struct outcome o;

        snprintf (name, sizeof (name), "--%s", row->name);
        take (&o, false, words);
        if (accepted)
            ok (o.rc == 0 && !o.others.refusal, "--%s is accepted", row->name);
        else
            ok (o.rc < 0 && o.error == (row->kind == OTHER_ABSENT ? ENOTSUP : EINVAL)
                    && strlen (o.others.refusal) < MG_ERROR_MAX - 64,
                "%s", o.err.text);
        args_others_clear (&o.others);
        take (&o, true, words);
        ok (o.rc < 0 && o.others.refusal, "%s", o.err.text);
        args_others_clear (&o.others);
    }
}

/* What "give ... instead" names must be there, else it helps nobody. */
static void test_instead (void)
{
    for (size_t i = 0; i < args_other_num; i++) {
        const struct args_other *row = &args_other_table[i];
        char name[80] = "";

        if (row->kind != OTHER_INSTEAD || sscanf (row->text, "--%79[a-z0-9-]", name) != 1)
            continue;
        ok (train_arg_find (name) != NULL, "--%s: --%s is an argument", row->name, name);
    }
}

/* Every name of a list: an argument, or in the table. */
static void is_known (const char *name)
{
    ok (train_arg_find (name) || args_other_find (name, strlen (name)), "--%s is known", name);
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
        "mtp-loss-scaling-factor", "mtp-hsm",
        "mtp-hybrid-override-pattern", "mtp-standalone", "rl-inference-expert-model-parallel-size",
        "rl-inference-expert-tensor-model-parallel-size",
    };

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++)
        is_known (names[i]);
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

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++)
        is_known (names[i]);
}

/* Words, and the message that refuses them; NULL: they are accepted. */
struct row {
    const char *words[10], *want;
};

static const struct row rows[] = {
    { { "--mtp-hsm" },
      "--mtp-hsm of Megatron-LM is not available in this version: each layer for multi-token "
      "prediction reads what the one before makes; leave it out if the run can do with that" },
    { { "--optimizer", "muon" },
      "--optimizer muon of Megatron-LM is not available in this version: the optimizer is "
      "AdamW; leave it out if the run can do with that" },
    { { "--optimizer", "adam" }, NULL },
    { { "--optimizer=adam" }, NULL },
    { { "--optimizer", "sgd", "--optimizer", "adam" }, NULL },
    { { "--error-injection-rate", "0.0" }, NULL },
    { { "--sample-rate", "1.0" }, NULL },
    { { "--sample-rate", "0.5" },
      "--sample-rate 0.5 of Megatron-LM is not available in this version: all samples count; "
      "there is --train-samples; leave it out if the run can do with that" },
    { { "--optimizer" }, "--optimizer wants a value" },
    { { "--optimizer", "--bf16" }, "--optimizer wants a value" },
    { { "--manual-gc=5" }, "--manual-gc takes no value" },
    { { "--offload-modules", "[core_attn", "attn_proj]", "--manual-gc" }, NULL },
    { { "--tp" },
      "--tp wants a value" },
    { { "--tp", "2" },
      "--tp is no argument of megatron train: give --tensor-model-parallel-size N" },
    { { "--megatron-tp", "2" },
      "--megatron-tp is an option of srun, sbatch and salloc: give it to them, before the "
      "command; here it is --tensor-model-parallel-size N" },
    { { "--ntasks=2" },
      "--ntasks is an option of srun, sbatch and salloc: give it to them, before the "
      "command" },
    { { "--hiden-size", "8" }, "unknown argument --hiden-size; did you mean --hidden-size?" },
    { { "--moe-router-top" },
      "unknown argument --moe-router-top; did you mean --moe-router-topk?" },
    { { "--bogus", "a", "b" },
      "unknown argument --bogus; \"megatron train --help\" lists them" },
    { { "--check-memory" },
      "unknown argument --check-memory; \"megatron train --help\" lists them" },
    { { "--store-param-remainders" },
      "unknown argument --store-param-remainders; \"megatron train --help\" lists them" },
    { { "--no-check-memry" },
      "unknown argument --no-check-memry; did you mean --no-check-memory?" },
    { { "--yarn-correction-range-round-to-int" }, NULL },
    { { "--b\nad" }, "unknown argument --b?ad; \"megatron train --help\" lists them" },
    { { "--sft", "--optimizer", "sgd", "--hiden-size", "8", "--manual-gc", "--tp", "2" },
      "4 arguments are refused: --sft (samples are documents end to end, see "
      "megatron-data(1)); --optimizer sgd (the optimizer is AdamW); unknown --hiden-size (did "
      "you mean --hidden-size?); --tp (give --tensor-model-parallel-size N)" },
    { { "--is-hybrid-model", "--sft", "--hybrid-layer-pattern", "M*" },
      "3 arguments are refused: --is-hybrid-model, --hybrid-layer-pattern M* (the layers of "
      "the model are attention and MLPs or experts); --sft (samples are documents end to end, "
      "see megatron-data(1))" },
};

/* The same with --strict-arguments. */
static const struct row strict_rows[] = {
    { { "--use-flash-attn" },
      "--use-flash-attn of Megatron-LM changes nothing here (there is one implementation): "
      "--strict-arguments refuses it" },
    { { "--log-energy" },
      "--log-energy of Megatron-LM only adds output, speed or saved memory elsewhere (see "
      "--metrics-file, --tensorboard-dir and --trace-file): --strict-arguments refuses it" },
    { { "--manual-gc", "--log-energy", "--optimizer", "sgd" },
      "3 arguments are refused: --manual-gc (changes nothing here: nothing here collects "
      "garbage); --log-energy (only adds output, speed or saved memory elsewhere: see "
      "--metrics-file, --tensorboard-dir and --trace-file); --optimizer sgd (the optimizer is "
      "AdamW)" },
};

static void test_refusals (const struct row *row, size_t n, bool strict)
{
    for (size_t i = 0; i < n; i++) {
        struct outcome o;

        take (&o, strict, row[i].words);
        is_int (o.rc, row[i].want ? -1 : 0, "%s", row[i].words[0]);
        if (row[i].want)
            is_str (o.others.refusal ? o.others.refusal : o.err.text, row[i].want, "%s",
                    row[i].words[0]);
        args_others_clear (&o.others);
    }
}

/* A message that is longer than an error is kept whole. */
static void test_long (void)
{
    static const char *const words[]
        = { "--sft", "--qk-clip", "--use-mup", "--mtp-hsm", "--optimizer", "lion", "--spec", "a",
            "b", "--fp8-format", "e4m3", "--freeze-all-layers", "--attention-output-gate",
            "--perform-rl-step", NULL };
    struct outcome o;

    take (&o, false, words);
    is_int (o.rc, -1, "10 arguments are refused");
    is_int (o.error, ENOTSUP, "all for the same reason");
    ok (strlen (o.others.refusal) > MG_ERROR_MAX, "in one message of %zu bytes",
        strlen (o.others.refusal));
    for (size_t i = 0; words[i]; i++)
        ok (words[i][0] != '-' || strstr (o.others.refusal, words[i]), "with %s", words[i]);
    args_others_clear (&o.others);
}

/* The line at the start. */
static void test_tell (void)
{
    static const char *const words[]
        = { "--use-mcore-models", "--wandb-project", "p", "--ckpt-format", "torch_dist",
            "--manual-gc", "--log-energy", "--optimizer", "adam", "--use-mcore-models", NULL };
    static const char *const elsewhere[] = { "--log-energy", NULL };
    char *text = NULL;
    size_t size;
    struct outcome o;
    FILE *out = open_memstream (&text, &size);

    take (&o, false, words);
    args_others_print (&o.others, out);
    args_others_clear (&o.others);
    take (&o, false, elsewhere);
    args_others_print (&o.others, out);
    args_others_clear (&o.others);
    args_others_print (&o.others, out);
    fclose (out);
    is_str (text,
            "arguments that change nothing here: --use-mcore-models, --ckpt-format torch_dist "
            "(checkpoints have the format of megatron-checkpoint(1)), --manual-gc, --optimizer "
            "adam; that only add output, speed or saved memory elsewhere: --wandb-project, "
            "--log-energy\n"
            "arguments that only add output, speed or saved memory elsewhere: --log-energy\n",
            "one line, each name once; none where there is nothing");
    free (text);
}

int main (void)
{
    test_table ();
    test_rows ();
    test_instead ();
    test_experts ();
    test_graphs ();
    test_refusals (rows, sizeof (rows) / sizeof (rows[0]), false);
    test_refusals (strict_rows, sizeof (strict_rows) / sizeof (strict_rows[0]), true);
    test_long ();
    test_tell ();
    return done_testing ();
}
