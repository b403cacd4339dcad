/* config.c - the table of arguments, parsing, and what follows from them */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/base/parse.h"
#include "libcore/data/tokenizer.h"
#include "libcore/train/args_file.h"
#include "libcore/train/config.h"
#include "libcore/train/data.h"
#include "libcore/train/evaluate.h"
#include "libcore/train/report.h"
#include "libcore/train/stop.h"
#include "libcore/train/trace.h"

#define AT(field) offsetof (struct train_args, field)
#define SIZE_ROW(name, field, preset, help) \
    { name, TRAIN_INT, AT (field), 1, GEOMETRY_SIZE_MAX, preset, NULL, "N", help }
#define COUNT_ROW(name, field, min, preset, help) \
    { name, TRAIN_INT64, AT (field), min, 1e15, preset, NULL, "N", help }
#define REAL_ROW(name, field, min, max, preset, help) \
    { name, TRAIN_REAL, AT (field), min, max, preset, NULL, "X", help }
#define TEXT_ROW(name, field, preset, meta, help) \
    { name, TRAIN_TEXT, AT (field), 0, 0, 0, preset, meta, help }
#define LIST_ROW(name, field, help) \
    { name, TRAIN_LIST, AT (field), 0, 0, 0, NULL, "[W] PREFIX...", help }
#define FLAG_ROW(name, field, help) \
    { name, TRAIN_FLAG, AT (field), 0, 0, 0, NULL, NULL, help }
#define TRIPLE_ROW(name, field, meta, help) \
    { name, TRAIN_TRIPLE, AT (field), 1, 1e15, 0, NULL, meta, help }

const struct train_arg train_arg_table[] = {
    SIZE_ROW ("tensor-model-parallel-size", tp, TRAIN_UNSET,
              "ranks that share a layer (default: the job's --megatron-tp, else 1)"),
    SIZE_ROW ("pipeline-model-parallel-size", pp, TRAIN_UNSET,
              "stages of the pipeline (default: the job's --megatron-pp, else 1)"),
    SIZE_ROW ("context-parallel-size", cp, TRAIN_UNSET,
              "ranks that share a sequence; only 1 in this version"),
    SIZE_ROW ("expert-model-parallel-size", ep, TRAIN_UNSET,
              "ranks that share the experts; only 1 in this version"),
    SIZE_ROW ("expert-tensor-parallel-size", etp, TRAIN_UNSET,
              "ranks that share an expert (default: the tensor-parallel size)"),
    FLAG_ROW ("use-tp-pp-dp-mapping", tp_pp_dp,
              "rank order tp-cp-ep-pp-dp in place of tp-cp-ep-dp-pp"),

    FLAG_ROW ("sequence-parallel", sequence_parallel,
              "split norms, dropout and residuals by sequence over the tensor-parallel ranks"),

    SIZE_ROW ("num-virtual-stages-per-pipeline-rank", vpp, TRAIN_UNSET,
              "parts of the model on each pipeline rank (default: the job's --megatron-vpp)"),
    SIZE_ROW ("num-layers-per-virtual-pipeline-stage", layers_per_vpp, TRAIN_UNSET,
              "layers of a virtual stage, in place of their number"),
    SIZE_ROW ("microbatch-group-size-per-virtual-pipeline-stage", microbatch_group,
              TRAIN_UNSET,
              "microbatches that go through a virtual stage in a row (default: pipeline size)"),
    SIZE_ROW ("decoder-first-pipeline-num-layers", first_layers, TRAIN_UNSET,
              "layers of the first pipeline rank"),
    SIZE_ROW ("decoder-last-pipeline-num-layers", last_layers, TRAIN_UNSET,
              "layers of the last pipeline rank"),
    FLAG_ROW ("account-for-embedding-in-pipeline-split", with_embedding,
              "the embedding takes the place of a layer"),
    FLAG_ROW ("account-for-loss-in-pipeline-split", with_loss,
              "the loss takes the place of a layer"),
    TEXT_ROW ("pipeline-model-parallel-layout", layout, NULL, "LAYOUT",
              "stage by stage, such as Et*3|(tt|)*5L"),

    SIZE_ROW ("num-layers", num_layers, TRAIN_UNSET, "transformer layers (required)"),
    SIZE_ROW ("hidden-size", hidden_size, TRAIN_UNSET, "hidden size (required)"),
    SIZE_ROW ("ffn-hidden-size", ffn_hidden_size, TRAIN_UNSET,
              "MLP size (default 4 x hidden size)"),
    SIZE_ROW ("num-attention-heads", num_heads, TRAIN_UNSET, "attention heads (required)"),
    SIZE_ROW ("kv-channels", kv_channels, TRAIN_UNSET,
              "size of a head (default hidden size / heads)"),
    SIZE_ROW ("seq-length", seq_length, TRAIN_UNSET,
              "tokens of a sample (required, unless --batches tells)"),
    SIZE_ROW ("max-position-embeddings", max_positions, TRAIN_UNSET,
              "learned positions (default: the sequence length)"),
    SIZE_ROW ("vocab-size", vocab_size, TRAIN_UNSET,
              "true vocabulary size; padded rows stay out of the softmax"),
    SIZE_ROW ("padded-vocab-size", padded_vocab_size, TRAIN_UNSET,
              "rows of the word embedding; alone, all of them count"),
    SIZE_ROW ("make-vocab-size-divisible-by", vocab_divisor, 128,
              "the vocabulary is padded to a multiple of this times tp (default 128)"),
    TEXT_ROW ("tokenizer-type", tokenizer, NULL, "NAME",
              "tokenizer that made the data, for its vocabulary size: ByteLevel or "
              "GPT2BPETokenizer"),
    TEXT_ROW ("vocab-file", vocab_file, NULL, "FILE", "its vocabulary, encoder.json"),
    TEXT_ROW ("merge-file", merge_file, NULL, "FILE", "its merges, vocab.bpe"),
    REAL_ROW ("norm-epsilon", norm_epsilon, 0, 1, 1e-5, "layer-norm epsilon (default 1e-5)"),
    REAL_ROW ("init-method-std", init_std, 0, 100, 0.02,
              "deviation of initial weights (default 0.02)"),
    REAL_ROW ("hidden-dropout", hidden_dropout, 0, 0.999, 0.1,
              "dropout of hidden states (default 0.1)"),
    REAL_ROW ("attention-dropout", attention_dropout, 0, 0.999, 0.1,
              "dropout of attention probabilities (default 0.1)"),
    FLAG_ROW ("untie-embeddings-and-output-weights", untied,
              "an output layer of its own, not the word embedding"),
    COUNT_ROW ("seed", seed, 0, 1234, "seed of weights, dropout and data order (default 1234)"),

    SIZE_ROW ("micro-batch-size", micro_batch_size, TRAIN_UNSET,
              "samples of a microbatch (required, or from --batches: 1)"),
    SIZE_ROW ("global-batch-size", global_batch_size, TRAIN_UNSET,
              "samples of an iteration (default micro batch size x dp)"),
    TEXT_ROW ("step-batch-size-schedule", batch_steps, NULL, "T:N ...",
              "global batch size N from T tokens on: \"0:16 1M:32\""),
    TRIPLE_ROW ("rampup-batch-size", batch_ramp, "START INCREMENT SAMPLES",
                "let the global batch size grow"),
    FLAG_ROW ("decrease-batch-size-if-needed", round_batch_down,
              "round the global batch size down to what the ranks can share"),
    FLAG_ROW ("calculate-per-token-loss", per_token_loss,
              "every token of the global batch counts alike, whatever microbatch it is in"),
    COUNT_ROW ("train-iters", train_iters, 0, TRAIN_UNSET, "iterations to train (required)"),
    COUNT_ROW ("train-samples", train_samples, 1, TRAIN_UNSET,
               "samples to train on, in place of --train-iters"),
    COUNT_ROW ("exit-interval", exit_interval, 1, TRAIN_UNSET,
               "save and leave at an iteration that this divides"),
    COUNT_ROW ("eval-interval", eval_interval, 0, TRAIN_UNSET,
               "iterations between validations, 0: only at the end (default 1000)"),
    COUNT_ROW ("eval-iters", eval_iters, 0, TRAIN_UNSET,
               "global batches of a validation or test, 0: none (default 100)"),
    FLAG_ROW ("skip-train", skip_train, "do not train: evaluate and leave"),
    REAL_ROW ("exit-duration-in-mins", exit_minutes, 0, 1e7, TRAIN_UNSET,
              "save and leave after so many minutes, with status 75"),
    TEXT_ROW ("exit-signal", exit_signals, "SIGTERM,SIGUSR1", "NAME,...",
              "signals to save and leave at, with status 75 (default SIGTERM,SIGUSR1)"),
    FLAG_ROW ("exit-signal-handler", exit_on_signal,
              "save and leave at a signal: what is done anyway"),
    FLAG_ROW ("no-exit-signal-handler", ignore_signals,
              "leave signals their usual meaning"),
    FLAG_ROW ("check-for-nan-in-loss-and-grad", check_nan,
              "end at a loss or gradient that is no number, and say where: done anyway"),
    FLAG_ROW ("no-check-for-nan-in-loss-and-grad", no_check_nan,
              "go on all the same"),
    FLAG_ROW ("no-check-memory", no_check_memory,
              "start a run for which memory seems to be short"),
    REAL_ROW ("lr", lr, 0, 1e6, TRAIN_UNSET, "highest learning rate (required)"),
    REAL_ROW ("min-lr", min_lr, 0, 1e6, 0, "learning rate after the decay (default 0)"),
    TEXT_ROW ("lr-decay-style", lr_decay_style, "linear", "STYLE",
              "constant, linear, cosine, inverse-square-root or WSD (default linear)"),
    TEXT_ROW ("lr-wsd-decay-style", lr_wsd_decay_style, "exponential", "STYLE",
              "last decay of WSD: exponential, linear, cosine or minus_sqrt (default "
              "exponential)"),
    COUNT_ROW ("lr-decay-iters", lr_decay_iters, 1, TRAIN_UNSET,
               "iterations of the decay (default --train-iters)"),
    COUNT_ROW ("lr-decay-samples", lr_decay_samples, 1, TRAIN_UNSET,
               "samples of the decay (default --train-samples)"),
    COUNT_ROW ("lr-wsd-decay-iters", lr_wsd_decay_iters, 1, TRAIN_UNSET,
               "iterations of the last decay of WSD"),
    COUNT_ROW ("lr-wsd-decay-samples", lr_wsd_decay_samples, 1, TRAIN_UNSET,
               "the same in samples, with --train-samples"),
    COUNT_ROW ("lr-warmup-iters", lr_warmup_iters, 0, 0, "iterations of the warm-up (default 0)"),
    COUNT_ROW ("lr-warmup-samples", lr_warmup_samples, 0, 0,
               "the same in samples, with --train-samples (default 0)"),
    REAL_ROW ("lr-warmup-fraction", lr_warmup_fraction, 0, 1, TRAIN_UNSET,
              "warm-up as a part of the decay, in place of --lr-warmup-iters"),
    REAL_ROW ("lr-warmup-init", lr_warmup_init, 0, 1e6, 0,
              "learning rate at the start of the warm-up (default 0)"),
    REAL_ROW ("weight-decay", weight_decay, 0, 1e6, 0.01, "weight decay (default 0.01)"),
    REAL_ROW ("start-weight-decay", start_weight_decay, 0, 1e6, TRAIN_UNSET,
              "weight decay at the start, with an increment style"),
    REAL_ROW ("end-weight-decay", end_weight_decay, 0, 1e6, TRAIN_UNSET,
              "weight decay at the end, with an increment style"),
    TEXT_ROW ("weight-decay-incr-style", weight_decay_incr_style, "constant", "STYLE",
              "constant, linear or cosine (default constant)"),
    REAL_ROW ("adam-beta1", adam_beta1, 0, 0.9999999, 0.9, "first moment's decay (default 0.9)"),
    REAL_ROW ("adam-beta2", adam_beta2, 0, 0.9999999, 0.999,
              "second moment's decay (default 0.999)"),
    REAL_ROW ("adam-eps", adam_eps, 0, 1, 1e-8, "Adam's epsilon (default 1e-8)"),
    REAL_ROW ("clip-grad", clip_grad, 0, 1e30, 1.0,
              "largest global gradient norm, 0: no clipping (default 1.0)"),
    COUNT_ROW ("ddp-bucket-size", bucket_size, 1, TRAIN_UNSET,
               "elements of a gradient bucket (default: one bucket)"),
    FLAG_ROW ("log-num-zeros-in-grad", log_zeros,
              "count the gradients that are zero, in the log and the metrics"),
    COUNT_ROW ("ddp-num-buckets", num_buckets, 1, TRAIN_UNSET,
               "gradient buckets, in place of their size; with --overlap-grad-reduce"),
    FLAG_ROW ("ddp-pad-buckets-for-high-nccl-busbw", high_busbw,
              "buckets of the distributed optimizer end at multiples of 65536"),
    FLAG_ROW ("overlap-grad-reduce", overlap_grad_reduce,
              "add up gradients bucket by bucket while the backward pass goes on"),
    FLAG_ROW ("overlap-param-gather", overlap_param_gather,
              "gather weights bucket by bucket while the forward pass goes on"),
    FLAG_ROW ("bf16", bf16, "bfloat16 parameters and activations, float32 main parameters"),
    FLAG_ROW ("fp16", fp16, "float16 parameters and activations, and a loss scale"),
    REAL_ROW ("loss-scale", loss_scale, 1e-30, 1e30, TRAIN_UNSET,
              "constant loss scale (default: a dynamic one with --fp16, else none)"),
    REAL_ROW ("initial-loss-scale", initial_loss_scale, 1e-30, 1e30, 4294967296.0,
              "first dynamic loss scale (default 4294967296)"),
    REAL_ROW ("min-loss-scale", min_loss_scale, 1e-30, 1e30, 1.0,
              "least dynamic loss scale (default 1.0)"),
    COUNT_ROW ("loss-scale-window", loss_scale_window, 1, 1000,
               "good iterations in a row before the loss scale doubles (default 1000)"),
    COUNT_ROW ("hysteresis", hysteresis, 1, 2,
               "overflows before the loss scale is halved (default 2)"),
    FLAG_ROW ("use-distributed-optimizer", sharded_optimizer,
              "split the optimizer's state over the data-parallel ranks"),
    SIZE_ROW ("num-distributed-optimizer-instances", optimizer_instances, 1,
              "parts of the data-parallel ranks that each hold all of that state (default 1)"),

    LIST_ROW ("data-path", data_path,
              "dataset PREFIX.bin and PREFIX.idx, or several, each with its weight"),
    LIST_ROW ("train-data-path", train_data_path, "the same, for training alone"),
    LIST_ROW ("valid-data-path", valid_data_path, "for validation alone"),
    LIST_ROW ("test-data-path", test_data_path, "for the test alone"),
    REAL_ROW ("mid-level-dataset-surplus", data_surplus, 0, 1e6, 0.005,
              "part more asked of each of several datasets (default 0.005)"),
    TEXT_ROW ("data-cache-path", data_cache, NULL, "DIR",
              "keep the order of samples in files there"),
    TEXT_ROW ("split", split, "969,30,1", "A,B,C",
              "documents for training, validation, test (default 969,30,1)"),
    TEXT_ROW ("batches", batches, NULL, "FILE",
              "safetensors file of batches, in place of a dataset"),
    TEXT_ROW ("load-weights", load_weights, NULL, "FILE", "safetensors file of initial weights"),
    TEXT_ROW ("save-weights", save_weights, NULL, "FILE",
              "write the final weights to a safetensors file"),
    TEXT_ROW ("save-gradients", save_gradients, NULL, "FILE",
              "write the first iteration's gradients, before clipping, to a safetensors file"),
    TEXT_ROW ("load", load, NULL, "DIR", "go on from the newest checkpoint in DIR, if any"),
    TEXT_ROW ("save", save, NULL, "DIR", "write checkpoints to DIR"),
    COUNT_ROW ("save-interval", save_interval, 1, TRAIN_UNSET,
               "iterations between checkpoints (default: only at the end)"),
    COUNT_ROW ("save-retain-interval", save_retain_interval, 1, TRAIN_UNSET,
               "keep checkpoints of iterations that this divides, and the newest"),
    COUNT_ROW ("keep-last-n-checkpoints", keep_last, 1, TRAIN_UNSET,
               "keep so many of the newest checkpoints (default: all)"),
    COUNT_ROW ("log-interval", log_interval, 1, 1, "iterations between log lines (default 1)"),
    FLAG_ROW ("log-throughput", log_throughput,
              "tell TFLOP/s of a rank and tokens a second in the log line"),
    { "timing-log-level", TRAIN_INT, AT (timing_log_level), 0, TIMERS_MAX_LEVEL, 0, NULL, "N",
      "time parts of an iteration: 0 none, 1 those that come once, 2 all (default 0)" },
    TEXT_ROW ("timing-log-option", timing_log_option, "minmax", "OPTION",
              "of which ranks: max, minmax or all (default minmax)"),
    COUNT_ROW ("log-memory-interval", log_memory_interval, 1, TRAIN_UNSET,
               "iterations between lines of memory (default: after the first alone)"),
    TEXT_ROW ("metrics-file", metrics_file, NULL, "FILE",
              "write one JSON line an iteration to FILE"),
    TEXT_ROW ("trace-file", trace_file, NULL, "FILE",
              "write when what was done to FILE with -RANK in its name, for Perfetto"),
    TEXT_ROW ("trace-iterations", trace_iterations, "1-3", "A-B",
              "iterations of this run that are traced (default 1-3)"),
    REAL_ROW ("distributed-timeout-minutes", timeout_minutes, 0.001, 1e5, 10,
              "longest wait for other ranks (default 10)"),
    REAL_ROW ("stall-warning-minutes", stall_minutes, 0, 1e5, 0,
              "tell who waits for whom after such a wait, 0: never (default 0)"),
    TEXT_ROW ("args-file", args_file, NULL, "FILE",
              "read arguments from FILE; those of the command line win"),
};

const size_t train_num_args = sizeof (train_arg_table) / sizeof (train_arg_table[0]);

static size_t field_size (enum train_type type)
{
    static const size_t sizes[] = {
        [TRAIN_INT] = sizeof (int),
        [TRAIN_INT64] = sizeof (int64_t),
        [TRAIN_REAL] = sizeof (double),
        [TRAIN_TEXT] = sizeof (const char *),
        [TRAIN_FLAG] = sizeof (bool),
        [TRAIN_TRIPLE] = 3 * sizeof (int64_t),
        [TRAIN_LIST] = sizeof (struct train_list),
    };

    return sizes[type];
}

static void preset (const struct train_arg *row, struct train_args *args)
{
    void *field = (char *)args + row->offset;

    switch (row->type) {
    case TRAIN_INT:
        *(int *)field = (int)row->preset;
        break;
    case TRAIN_INT64:
        *(int64_t *)field = (int64_t)row->preset;
        break;
    case TRAIN_REAL:
        *(double *)field = row->preset;
        break;
    case TRAIN_TEXT:
        *(const char **)field = row->preset_text;
        break;
    case TRAIN_FLAG:
    case TRAIN_TRIPLE:
    case TRAIN_LIST:
        memset (field, 0, field_size (row->type));
        break;
    }
}

int train_arg_set (const struct train_arg *row, const char *value, struct train_args *args,
                   struct mg_error *err)
{
    void *field = (char *)args + row->offset;
    char what[64];

    snprintf (what, sizeof (what), "--%s", row->name);
    switch (row->type) {
    case TRAIN_INT:
        return parse_int (what, value, (int)row->min, (int)row->max, field, err);
    case TRAIN_INT64:
        return parse_int64 (what, value, (int64_t)row->min, (int64_t)row->max, field, err);
    case TRAIN_REAL:
        return parse_double (what, value, row->min, row->max, field, err);
    case TRAIN_TEXT:
        if (*value == '\0')
            return mg_error_set (err, EINVAL, "%s: the value is empty", what);
        *(const char **)field = value;
        return 0;
    case TRAIN_FLAG:
        *(bool *)field = true;
        return 0;
    case TRAIN_LIST:
        if (*value == '\0')
            return mg_error_set (err, EINVAL, "%s: the value is empty", what);
        *(struct train_list *)field = (struct train_list){ value, NULL, 1 };
        return 0;
    case TRAIN_TRIPLE:
        return mg_error_set (err, EINVAL, "%s wants three values: %s", what, row->meta);
    }
    return 0;
}

static const struct train_arg *find (const char *name, size_t len)
{
    for (size_t i = 0; i < train_num_args; i++)
        if (strlen (train_arg_table[i].name) == len
            && memcmp (train_arg_table[i].name, name, len) == 0)
            return &train_arg_table[i];
    return NULL;
}

const char *train_list_word (const struct train_list *list, int i)
{
    return i == 0 ? list->first : list->rest[i - 1];
}

/* The words behind the first one, up to the next argument. */
static void take_rest (char **argv, int argc, int *i, struct train_list *list)
{
    list->rest = &argv[*i];
    while (*i < argc && strncmp (argv[*i], "--", 2) != 0) {
        list->count++;
        *i += 1;
    }
}

const struct train_arg *train_arg_find (const char *name)
{
    return find (name, strlen (name));
}

/* Three values from argv[*i] on. */
static int parse_triple (const struct train_arg *row, int argc, char **argv, int *i,
                         struct train_args *args, struct mg_error *err)
{
    int64_t *field = (int64_t *)(void *)((char *)args + row->offset);
    char what[64];

    snprintf (what, sizeof (what), "--%s", row->name);
    if (argc - *i < 3)
        return mg_error_set (err, EINVAL, "%s wants three values: %s", what, row->meta);
    for (int k = 0; k < 3; k++) {
        if (parse_int64 (what, argv[(*i)++], (int64_t)row->min, (int64_t)row->max, &field[k],
                         err) < 0)
            return -1;
    }
    return 0;
}

/* Parse the argument at argv[*i] and step over it and its value. */
static int parse_one (int argc, char **argv, int *i, struct train_args *args,
                      struct mg_error *err)
{
    const char *arg = argv[*i], *value = NULL;
    const struct train_arg *row;
    size_t len;

    if (strncmp (arg, "--", 2) != 0)
        return mg_error_set (err, EINVAL, "\"%.80s\" is not an argument: they begin with --",
                             arg);
    len = strcspn (arg + 2, "=");
    if (!(row = find (arg + 2, len)))
        return mg_error_set (err, EINVAL, "unknown argument --%.*s; \"megatron train --help\" "
                             "lists them", len > 80 ? 80 : (int)len, arg + 2);
    *i += 1;
    if (arg[2 + len] == '=')
        value = arg + 2 + len + 1;
    if (row->type == TRAIN_FLAG) {
        if (value)
            return mg_error_set (err, EINVAL, "--%s takes no value", row->name);
        return train_arg_set (row, "", args, err);
    }
    if (row->type == TRAIN_TRIPLE && !value)
        return parse_triple (row, argc, argv, i, args, err);
    if (!value) {
        if (*i >= argc)
            return mg_error_set (err, EINVAL, "--%s wants a value: %s", row->name, row->meta);
        value = argv[(*i)++];
    }
    if (train_arg_set (row, value, args, err) < 0)
        return -1;
    if (row->type == TRAIN_LIST)
        take_rest (argv, argc, i, (struct train_list *)(void *)((char *)args + row->offset));
    return 0;
}

static int check_trace (const struct train_args *args, struct mg_error *err)
{
    int64_t range[2];

    return trace_iterations_parse (args->trace_iterations, range, err);
}

static int check_ends (const struct train_args *args, struct mg_error *err)
{
    sigset_t signals;

    if (args->exit_on_signal && args->ignore_signals)
        return mg_error_set (err, EINVAL, "--exit-signal-handler and --no-exit-signal-handler "
                             "exclude each other");
    if (args->check_nan && args->no_check_nan)
        return mg_error_set (err, EINVAL, "--check-for-nan-in-loss-and-grad and its --no- "
                             "exclude each other");
    if (stop_signals (args->exit_signals, &signals, err) < 0)
        return mg_error_prefix (err, "--exit-signal");
    return 0;
}

static int check_required (const struct train_args *args, struct mg_error *err)
{
    const struct {
        const char *name;
        bool given;
    } required[] = {
        { "num-layers", args->num_layers != TRAIN_UNSET },
        { "hidden-size", args->hidden_size != TRAIN_UNSET },
        { "num-attention-heads", args->num_heads != TRAIN_UNSET },
        { "seq-length", args->seq_length != TRAIN_UNSET || args->batches },
        { "micro-batch-size", args->micro_batch_size != TRAIN_UNSET || args->batches },
        { "train-iters or --train-samples",
          args->train_iters != TRAIN_UNSET || args->train_samples != TRAIN_UNSET
              || args->skip_train },
        { "lr", args->lr >= 0 || args->skip_train },
        { "data-path, --train-data-path or --batches",
          args->data_path.count > 0 || args->train_data_path.count > 0 || args->batches
              || args->skip_train },
        { "vocab-size, --padded-vocab-size or --tokenizer-type",
          args->vocab_size != TRAIN_UNSET || args->padded_vocab_size != TRAIN_UNSET
              || args->tokenizer },
    };
    char missing[256] = "";
    size_t len = 0;
    int count = 0;

    for (size_t i = 0; i < sizeof (required) / sizeof (required[0]); i++) {
        if (required[i].given)
            continue;
        snprintf (missing + len, sizeof (missing) - len, "%s--%s", count++ > 0 ? "; " : "",
                  required[i].name);
        len = strlen (missing);
    }
    if (count > 0)
        return mg_error_set (err, EINVAL, "%s %s required", missing,
                             count == 1 ? "is" : "are");
    return 0;
}

/* Do the arguments go together? */
static int check_together (const struct train_args *args, struct mg_error *err)
{
    if (train_data_check (args, err) < 0 || evaluate_check (args, err) < 0
        || report_check (args, err) < 0 || check_ends (args, err) < 0
        || check_trace (args, err) < 0)
        return -1;
    if (args->save_interval != TRAIN_UNSET && !args->save)
        return mg_error_set (err, EINVAL, "--save-interval wants --save DIR");
    if ((args->save_retain_interval != TRAIN_UNSET || args->keep_last != TRAIN_UNSET)
        && !args->save)
        return mg_error_set (err, EINVAL, "--%s wants --save DIR",
                             args->keep_last != TRAIN_UNSET ? "keep-last-n-checkpoints"
                                                            : "save-retain-interval");
    if (args->bf16 && args->fp16)
        return mg_error_set (err, EINVAL, "--bf16 and --fp16 exclude each other");
    if (args->loss_scale != TRAIN_UNSET && !args->bf16 && !args->fp16)
        return mg_error_set (err, EINVAL, "--loss-scale wants --fp16 or --bf16");
    if (args->fp16 && args->min_loss_scale > args->initial_loss_scale)
        return mg_error_set (err, EINVAL, "--min-loss-scale %g is above --initial-loss-scale "
                             "%g", args->min_loss_scale, args->initial_loss_scale);
    if (args->cp > 1 || args->ep > 1)
        return mg_error_set (err, ENOTSUP, "--%s %d: only 1 is available in this version",
                             args->cp > 1 ? "context-parallel-size"
                                          : "expert-model-parallel-size",
                             args->cp > 1 ? args->cp : args->ep);
    return 0;
}

void train_args_init (struct train_args *args)
{
    args->files = NULL;
    for (size_t i = 0; i < train_num_args; i++)
        preset (&train_arg_table[i], args);
}

void train_args_clear (struct train_args *args)
{
    while (args->files) {
        struct args_file *next = args->files->next;

        args_file_destroy (args->files);
        args->files = next;
    }
}

/* Read the files that the command line names, whose other arguments are tried on the way. */
static int read_files (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    struct args_file **last = &args->files;

    for (int i = 1; i < argc;) {
        if (parse_one (argc, argv, &i, args, err) < 0)
            return -1;
        if (!args->args_file)
            continue;
        if (!(*last = args_file_read (args->args_file, err)))
            return mg_error_prefix (err, "--args-file");
        last = &(*last)->next;
        args->args_file = NULL;
    }
    return 0;
}

static int parse_file (const struct args_file *file, struct train_args *args,
                       struct mg_error *err)
{
    for (int i = 0; i < file->count;) {
        int line = file->line[i];

        if (parse_one (file->count, file->word, &i, args, err) < 0)
            return mg_error_prefix (err, "%s:%d", file->path, line);
        if (args->args_file)
            return mg_error_set (err, EINVAL, "%s:%d: --args-file stands in a file of "
                                 "arguments: it can only be typed", file->path, line);
    }
    return 0;
}

int train_args_read (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    struct args_file *files;

    train_args_init (args);
    if (read_files (argc, argv, args, err) < 0)
        return -1;
    files = args->files;
    train_args_init (args);
    args->files = files;
    for (const struct args_file *file = files; file; file = file->next)
        if (parse_file (file, args, err) < 0)
            return -1;
    for (int i = 1; i < argc;)
        if (parse_one (argc, argv, &i, args, err) < 0)
            return -1;
    return 0;
}

int train_args_parse (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    if (train_args_read (argc, argv, args, err) < 0)
        return -1;
    if (check_required (args, err) < 0)
        return -1;
    return check_together (args, err);
}

void train_args_help (FILE *out)
{
    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];
        char left[64];

        snprintf (left, sizeof (left), "--%s%s%s", row->name, row->meta ? " " : "",
                  row->meta ? row->meta : "");
        fprintf (out, "  %-38s %s\n", left, row->help);
    }
}

static uint64_t hash_text (const char *text, uint64_t seed)
{
    return text ? XXH3_64bits_withSeed (text, strlen (text), seed) : seed + 1;
}

uint64_t train_args_fingerprint (const struct train_args *args)
{
    uint64_t hash = train_num_args;

    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];
        const void *field = (const char *)args + row->offset;

        if (row->type == TRAIN_TEXT)
            hash = hash_text (*(const char *const *)field, hash + i);
        else if (row->type == TRAIN_LIST) {
            const struct train_list *list = field;

            hash = hash_text (NULL, hash + i);
            for (int k = 0; k < list->count; k++)
                hash = hash_text (train_list_word (list, k), hash);
        }
        else
            hash = XXH3_64bits_withSeed (field, field_size (row->type), hash);
    }
    return hash;
}

/* One parallel size: the argument, the job's, or 1. */
static int merge_size (const char *name, int given, const char *variable, int fallback,
                       int *size, struct mg_error *err)
{
    const char *text = getenv (variable);
    int from_job;

    *size = given != TRAIN_UNSET ? given : fallback;
    if (!text)
        return 0;
    if (parse_int (variable, text, 1, GEOMETRY_SIZE_MAX, &from_job, err) < 0)
        return -1;
    if (given != TRAIN_UNSET && given != from_job)
        return mg_error_set (err, EINVAL, "--%s %d contradicts the job's %s=%d; give one of "
                             "them", name, given, variable, from_job);
    *size = from_job;
    return 0;
}

/* The job says 1 where nobody asked for virtual stages: then the arguments may. */
static int merge_vpp (const struct train_args *args, int *vpp, struct mg_error *err)
{
    const char *text = getenv ("MEGATRON_VPP_SIZE");

    if (text && strcmp (text, "1") == 0) {
        *vpp = args->vpp != TRAIN_UNSET ? args->vpp : 0;
        return 0;
    }
    return merge_size ("num-virtual-stages-per-pipeline-rank", args->vpp, "MEGATRON_VPP_SIZE",
                       0, vpp, err);
}

int train_geometry (const struct train_args *args, struct geometry *geometry,
                    struct mg_error *err)
{
    const char *order = getenv ("MEGATRON_RANK_ORDER");
    static const char tp_pp_dp[] = "tp-cp-ep-pp-dp";

    geometry_init (geometry);
    if (merge_size ("tensor-model-parallel-size", args->tp, "MEGATRON_TP_SIZE", 1,
                    &geometry->tp, err) < 0
        || merge_size ("pipeline-model-parallel-size", args->pp, "MEGATRON_PP_SIZE", 1,
                       &geometry->pp, err) < 0
        || merge_size ("context-parallel-size", args->cp, "MEGATRON_CP_SIZE", 1,
                       &geometry->cp, err) < 0
        || merge_size ("expert-model-parallel-size", args->ep, "MEGATRON_EP_SIZE", 1,
                       &geometry->ep, err) < 0
        || merge_size ("expert-tensor-parallel-size", args->etp, "MEGATRON_ETP_SIZE", 0,
                       &geometry->etp, err) < 0
        || merge_vpp (args, &geometry->vpp, err) < 0)
        return -1;
    if (geometry->cp > 1 || geometry->ep > 1)
        return mg_error_set (err, ENOTSUP, "the job asks for cp %d, ep %d; this version trains "
                             "with 1 of both", geometry->cp, geometry->ep);
    if (args->tp_pp_dp && order && strcmp (order, tp_pp_dp) != 0)
        return mg_error_set (err, EINVAL, "--use-tp-pp-dp-mapping contradicts the job's "
                             "MEGATRON_RANK_ORDER=%.32s", order);
    if (args->tp_pp_dp)
        order = tp_pp_dp;
    if (order) {
        if (strlen (order) >= sizeof (geometry->order))
            return mg_error_set (err, EINVAL, "MEGATRON_RANK_ORDER=%.40s is too long", order);
        snprintf (geometry->order, sizeof (geometry->order), "%s", order);
    }
    return geometry_validate (geometry, err);
}

/* Vocabulary size that --tokenizer-type names. */
static int tokenizer_size (const struct train_args *args, int *size, struct mg_error *err)
{
    const struct tokenizer_files files = { args->vocab_file, args->merge_file };
    struct tokenizer *tokenizer = tokenizer_create (args->tokenizer, &files, err);

    if (!tokenizer)
        return mg_error_prefix (err, "--tokenizer-type, for which --vocab-size would do");
    *size = tokenizer_vocab_size (tokenizer);
    tokenizer_destroy (tokenizer);
    return 0;
}

static int vocabulary (const struct train_args *args, int tp, struct model_config *m,
                       struct mg_error *err)
{
    m->vocab_size = args->padded_vocab_size;
    if (args->vocab_size != TRAIN_UNSET)
        m->vocab_size = args->vocab_size;
    else if (args->tokenizer && tokenizer_size (args, &m->vocab_size, err) < 0)
        return -1;
    m->padded_vocab_size = args->padded_vocab_size != TRAIN_UNSET
                               ? args->padded_vocab_size
                               : model_padded_vocab (m->vocab_size, args->vocab_divisor, tp);
    if (m->padded_vocab_size == 0)
        return mg_error_set (err, ERANGE, "--vocab-size %d padded to a multiple of %d x tp %d "
                             "is too large", m->vocab_size, args->vocab_divisor, tp);
    return 0;
}

int train_model (const struct train_args *args, int tp, int data_seq_length,
                 struct model_config *m, struct mg_error *err)
{
    int64_t ffn = args->ffn_hidden_size != TRAIN_UNSET ? args->ffn_hidden_size
                                                       : 4LL * args->hidden_size;

    *m = (struct model_config){
        .num_layers = args->num_layers,
        .hidden_size = args->hidden_size,
        .ffn_hidden_size = ffn > INT_MAX ? INT_MAX : (int)ffn,
        .num_heads = args->num_heads,
        .kv_channels = args->kv_channels,
        .seq_length = args->seq_length != TRAIN_UNSET ? args->seq_length : data_seq_length,
        .norm_epsilon = args->norm_epsilon,
        .init_std = args->init_std,
        .hidden_dropout = args->hidden_dropout,
        .attention_dropout = args->attention_dropout,
        .tied_embeddings = !args->untied,
        .seed = (uint64_t)args->seed,
    };
    if (args->seq_length != TRAIN_UNSET && data_seq_length > 0
        && args->seq_length != data_seq_length)
        return mg_error_set (err, EINVAL, "--seq-length %d, but the samples have %d tokens",
                             args->seq_length, data_seq_length);
    if (m->kv_channels == TRAIN_UNSET) {
        if (m->hidden_size % m->num_heads != 0)
            return mg_error_set (err, EINVAL, "hidden-size %d is not a multiple of "
                                 "num-attention-heads %d; give --kv-channels",
                                 m->hidden_size, m->num_heads);
        m->kv_channels = m->hidden_size / m->num_heads;
    }
    m->max_positions = args->max_positions != TRAIN_UNSET ? args->max_positions
                                                          : m->seq_length;
    return vocabulary (args, tp, m, err);
}
