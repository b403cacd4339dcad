/* heard.c - one table of the arguments that have no effect without another one
 *
 * A row has arguments and the condition for their effect.  Arguments that the rules of a
 * module refuse have no row.
 */

#include <inttypes.h>
#include <string.h>

#include "libcore/data/split.h"
#include "libcore/device/device.h"
#include "libcore/optim/lr.h"
#include "libcore/topo/graph_args.h"
#include "libcore/topo/pattern.h"
#include "libcore/args/heard.h"
#include "libcore/args/model.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

/* --- when arguments count --- */

typedef bool counts_f (const struct train_args *args, const struct geometry *g);

static bool is_yarn (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    if (args->latent)
        return !args->rope_type || strcmp (args->rope_type, "yarn") == 0;
    return !args->rotary_positions && strcmp (args->positions, "yarn") == 0;
}

static bool rotates (const struct train_args *args, const struct geometry *g)
{
    return args->latent || args->rotary_positions || strcmp (args->positions, "rope") == 0
           || is_yarn (args, g);
}

/* --no-rope-freq has 1 for layers that do not rotate. */
static bool rotates_a_layer (const struct train_args *args, const struct geometry *g)
{
    struct pattern p;

    (void)g;
    if (!args->no_rope
        || pattern_parse ("--no-rope-freq", args->no_rope, args->num_layers, &p, NULL) < 0)
        return true;
    for (int i = 0; i < args->num_layers; i++) {
        if (!pattern_at (&p, i, true))
            return true;
    }
    return false;
}

/* No token sees later ones, so only the left side of a window counts; -1: it has no end. */
static bool has_window (const struct train_args *args, const struct geometry *g)
{
    const char *text = args->window_size;

    (void)g;
    return !text || strncmp (text + (text[0] == '('), "-1,", 3) != 0;
}

static bool has_learned_positions (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return !args->rotary_positions && strcmp (args->positions, "learned_absolute") == 0;
}

static bool is_scaled (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->rope_scaling;
}

static bool is_yarn_or_latent (const struct train_args *args, const struct geometry *g)
{
    return args->latent || is_yarn (args, g);
}

static bool is_latent (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->latent;
}

static bool is_not_latent (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return !args->latent;
}

static bool has_experts (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->moe.experts > 0;
}

static bool is_balancing (const struct train_args *args, const char *type)
{
    const struct arg_list *list = &args->moe.balancing;

    for (int i = 0; i < list->count; i++) {
        if (strstr (arg_list_word (list, i), type))
            return true;
    }
    return false;
}

/* False if all layers have experts with a size of their own. */
static bool has_dense_size (const struct train_args *args, const struct geometry *g)
{
    struct model_moe moe = { .experts = args->moe.experts };

    (void)g;
    if (moe.experts == 0 || args->moe.ffn == TRAIN_UNSET)
        return true;
    if (args->moe.layers
        && pattern_parse ("--moe-layer-freq", args->moe.layers, args->num_layers, &moe.layers,
                          NULL) < 0)
        return true;
    return moe_num_layers (&moe, args->num_layers) < args->num_layers;
}

static bool has_loss (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || !is_balancing (args, "none");
}

static bool has_quantile (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || is_balancing (args, "quantile_balancing");
}

static bool has_expert_bias (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || args->moe.expert_bias;
}

static bool has_groups (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || args->moe.group_topk != TRAIN_UNSET;
}

static bool has_capacity (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || args->moe.capacity_factor > 0;
}

static bool has_scores (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || !is_balancing (args, "sinkhorn");
}

static bool has_softmax (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || !has_scores (args, g)
           || strcmp (args->moe.score, "softmax") == 0;
}

static bool has_no_forced_bias (const struct train_args *args, const struct geometry *g)
{
    return !has_experts (args, g) || args->moe.forced_bias == 0;
}

static bool has_mtp (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->mtp_layers > 0;
}

static bool has_float16 (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->fp16;
}

static bool has_dynamic_scale (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->fp16 && args->loss_scale == TRAIN_UNSET;
}

static bool has_load (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->load != NULL;
}

static bool loads_schedule (const struct train_args *args, const struct geometry *g)
{
    return !has_load (args, g) || (!args->finetune && !args->no_load_optim);
}

static bool has_decay (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return strcmp (args->lr_decay_style, "constant") != 0;
}

static bool has_wsd (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return strcmp (args->lr_decay_style, "WSD") == 0;
}

static bool has_warmup (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->lr_warmup_fraction > 0 || args->lr_warmup_iters > 0
           || args->lr_warmup_samples > 0;
}

static bool has_buckets (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->overlap_grad_reduce;
}

static bool has_shards (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->sharded_optimizer;
}

/* A module turns graphs on only if it is the older word full_iteration. */
static bool has_graphs (const struct train_args *args, const struct geometry *g)
{
    struct graph_args graphs;
    struct margs margs;

    (void)g;
    train_margs (args, &margs);
    return graph_args_read (&margs, &graphs, NULL) < 0 || graphs.impl != GRAPH_ARGS_NONE;
}

static bool may_have_gpu (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->device && !device_is_named (args->device, "cpu");
}

static bool has_tensorboard (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->tensorboard.dir != NULL;
}

static bool has_trace (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->trace_file != NULL;
}

static bool has_timers (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->timing_log_level > 0;
}

static bool has_signals (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return !args->ignore_signals;
}

static bool pads_vocabulary (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->padded_vocab_size == TRAIN_UNSET;
}

static bool splits_sequences (const struct train_args *args, const struct geometry *g)
{
    (void)args;
    return g->tp > 1;
}

static bool shares_sequences (const struct train_args *args, const struct geometry *g)
{
    (void)args;
    return g->cp > 1;
}

static bool has_virtual_stages (const struct train_args *args, const struct geometry *g)
{
    return g->vpp > 1 || args->vpp != TRAIN_UNSET || args->layers_per_vpp != TRAIN_UNSET
           || args->layout;
}

static bool chooses_positions (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return !args->rotary_positions || strcmp (args->positions, "rope") == 0;
}

static bool chooses_granularity (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return !args->recompute_activations || !args->recompute_granularity
           || strcmp (args->recompute_granularity, "selective") == 0;
}

static bool has_evaluation (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->eval_iters != 0 || args->eval.full;
}

static bool splits_data (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return !args->mock_data && !args->batches && !args->program_samples[SPLIT_TRAIN]
           && args->train_data_path.count == 0;
}

/* True if --split has weights for validation or test. */
static bool sets_data_aside (const struct train_args *args)
{
    struct split split;

    return split_parse (args->split, &split, NULL) < 0
           || split.bound[SPLIT_VALID] < split.bound[SPLIT_TEST + 1];
}

static bool has_evaluation_data (const struct train_args *args, const struct geometry *g)
{
    if (!has_evaluation (args, g) || args->mock_data || args->valid_data_path.count > 0
        || args->program_samples[SPLIT_VALID] || args->program_samples[SPLIT_TEST]
        || args->test_data_path.count > 0)
        return true;
    return splits_data (args, g) && sets_data_aside (args);
}

static bool has_one_weight_decay (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return args->start_weight_decay == TRAIN_UNSET || args->end_weight_decay == TRAIN_UNSET;
}

static bool changes_weight_decay (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return strcmp (args->weight_decay_incr_style, "constant") == 0
           || args->start_weight_decay != TRAIN_UNSET || args->end_weight_decay != TRAIN_UNSET;
}

static bool has_stages (const struct train_args *args, const struct geometry *g)
{
    (void)args;
    return g->pp > 1;
}

static bool ends_documents (const struct train_args *args, const struct geometry *g)
{
    const struct train_edit *edit = &args->edit;

    (void)g;
    return edit->mask_eod || edit->reset_attention || edit->reset_positions || edit->fim
           || args->mock_data;
}

static bool has_several (const struct arg_list *list)
{
    return list->count > 2; // two words are one dataset, and its weight
}

static bool mixes_datasets (const struct train_args *args, const struct geometry *g)
{
    (void)g;
    return has_several (&args->data_path) || has_several (&args->train_data_path)
           || has_several (&args->valid_data_path) || has_several (&args->test_data_path);
}

/* --- the table --- */

static const struct {
    counts_f *counts;
    const char *missing; /* "without ..." or "with ..." */
    const char *names;   /* with blanks between; "x-*": those that begin with "x-" */
} rows[] = {
    { rotates, "without rotary positions (--position-embedding-type rope)",
      "rotary-base rotary-percent rotary-interleaved rotary-seq-len-interpolation-factor" },
    { rotates_a_layer, "with --no-rope-freq, by which no layer rotates",
      "rotary-* use-rope-scaling rope-scaling-* yarn-* no-yarn-* mscale mscale-all-dim" },
    { chooses_positions, "with --use-rotary-position-embeddings", "position-embedding-type" },
    { has_learned_positions,
      "without learned positions (--position-embedding-type learned_absolute)",
      "reset-position-ids" },
    { has_window, "with --window-size -1,N, which hides no token", "window-attn-skip-freq" },
    { is_scaled, "without --use-rope-scaling",
      "rope-scaling-factor rope-scaling-low-freq-factor rope-scaling-high-freq-factor "
      "rope-scaling-original-max-position-embeddings" },
    { is_yarn, "without YaRN (--position-embedding-type yarn, or --rope-type yarn with "
               "--multi-latent-attention)",
      "mscale yarn-original-max-position-embeddings yarn-beta-fast yarn-beta-slow "
      "no-yarn-correction-range-round-to-int" },
    { is_yarn_or_latent, "without YaRN (--position-embedding-type yarn)",
      "rotary-scaling-factor mscale-all-dim" },
    { is_latent, "without --multi-latent-attention",
      "kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim" },
    { is_not_latent, "with --multi-latent-attention", "kv-channels add-qkv-bias" },
    { has_experts, "without --num-experts", "moe-* expert-tensor-parallel-size" },
    { has_dense_size, "with --moe-ffn-hidden-size and experts in all layers", "ffn-hidden-size" },
    { has_loss, "with --moe-router-load-balancing-type none", "moe-aux-loss-coeff" },
    { has_quantile, "without --moe-router-load-balancing-type quantile_balancing",
      "moe-router-quantile-balancing-ema" },
    { has_expert_bias, "without --moe-router-enable-expert-bias", "moe-router-bias-update-rate" },
    { has_groups, "without --moe-router-group-topk", "moe-router-num-groups" },
    { has_capacity, "without --moe-expert-capacity-factor", "moe-token-drop-policy" },
    { has_scores, "with --moe-router-load-balancing-type sinkhorn",
      "moe-router-score-function moe-router-pre-softmax moe-router-topk-scaling-factor" },
    { has_no_forced_bias, "with --moe-router-force-biased", "moe-router-force-load-balancing" },
    { has_softmax, "without --moe-router-score-function softmax", "moe-router-pre-softmax" },
    { has_mtp, "without --mtp-num-layers",
      "mtp-loss-scaling-factor mtp-use-repeated-layer mtp-detach-heads" },
    { has_float16, "without --fp16", "apply-query-key-layer-scaling" },
    { has_dynamic_scale, "without the dynamic loss scale of --fp16",
      "hysteresis loss-scale-window initial-loss-scale min-loss-scale" },
    { has_load, "without --load",
      "use-checkpoint-opt-param-scheduler use-checkpoint-opt_param-scheduler "
      "override-opt-param-scheduler override-opt_param-scheduler" },
    { loads_schedule, "with --finetune or --no-load-optim, whose schedule begins anew",
      "override-opt-param-scheduler override-opt_param-scheduler" },
    { has_decay, "with --lr-decay-style constant", "min-lr lr-decay-iters lr-decay-samples" },
    { has_one_weight_decay, "with --start-weight-decay and --end-weight-decay", "weight-decay" },
    { changes_weight_decay, "without --start-weight-decay and --end-weight-decay",
      "weight-decay-incr-style" },
    { has_wsd, "without --lr-decay-style WSD",
      "lr-wsd-decay-style lr-wsd-decay-iters lr-wsd-decay-samples" },
    { has_warmup, "without a warm-up", "lr-warmup-init" },
    { has_buckets, "without --overlap-grad-reduce", "ddp-bucket-size ddp-num-buckets" },
    { has_shards, "without --use-distributed-optimizer", "ddp-pad-buckets-for-high-nccl-busbw" },
    { chooses_granularity, "with --recompute-activations", "recompute-granularity" },
    { has_graphs, "without --cuda-graph-impl",
      "cuda-graph-modules cuda-graph-scope cuda-graph-warmup-steps" },
    { may_have_gpu, "without --device cuda",
      "nccl-communicator-config-path device-reserve-mib communicator-reserve-mib" },
    { has_tensorboard, "without --tensorboard-dir",
      "moe-per-layer-logging "
      "tensorboard-log-interval tensorboard-queue-size log-timers-to-tensorboard "
      "log-validation-ppl-to-tensorboard log-memory-to-tensorboard "
      "log-world-size-to-tensorboard log-batch-size-to-tensorboard "
      "no-log-loss-scale-to-tensorboard disable-log-loss-scale-to-tensorboard "
      "no-log-learning-rate-to-tensorboard no-log-learnig-rate-to-tensorboard" },
    { has_evaluation, "with --eval-iters 0",
      "eval-interval start-eval-at-iter eval-global-batch-size eval-micro-batch-size "
      "eval-seq-length valid-data-path test-data-path" },
    { splits_data, "with --mock-data, --batches or --train-data-path", "split" },
    { has_evaluation_data, "without data for validation or test",
      "eval-iters eval-global-batch-size eval-micro-batch-size eval-seq-length "
      "start-eval-at-iter full-validation" },
    { ends_documents,
      "without --eod-mask-loss, --reset-attention-mask, --reset-position-ids, --fim-data or "
      "--mock-data",
      "eod-token-id null-tokenizer-eod-id" },
    { mixes_datasets, "without several datasets", "mid-level-dataset-surplus" },
    { has_trace, "without --trace-file", "trace-iterations" },
    { has_timers, "without --timing-log-level", "timing-log-option" },
    { has_signals, "with --no-exit-signal-handler", "exit-signal" },
    { pads_vocabulary, "with --padded-vocab-size", "make-vocab-size-divisible-by" },
    { splits_sequences, "with tensor-parallel size 1", "sequence-parallel" },
    { shares_sequences, "with context-parallel size 1",
      "cp-comm-type hierarchical-context-parallel-sizes" },
    { has_stages, "with pipeline-parallel size 1",
      "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split "
      "use-tp-pp-dp-mapping overlap-p2p-communication no-overlap-p2p-communication" },
    { has_virtual_stages, "without virtual stages",
      "microbatch-group-size-per-virtual-pipeline-stage" },
};

/* --- telling --- */

/* True if 'name' is among the names of a row. */
static bool is_named (const char *names, const char *name)
{
    while (*names) {
        size_t len = strcspn (names, " ");
        bool family = names[len - 1] == '*';

        if (family ? strncmp (names, name, len - 1) == 0
                   : strlen (name) == len && memcmp (names, name, len) == 0)
            return true;
        names += len + strspn (names + len, " ");
    }
    return false;
}

static void print_row (size_t k, const struct train_args *args, FILE *out)
{
    int count = 0;

    for (size_t i = 0; i < train_num_args; i++) {
        const char *name = train_arg_table[i].info->name;

        if (train_arg_given (args, i) && is_named (rows[k].names, name))
            fprintf (out, "%s--%s", count++ > 0 ? ", " : "", name);
    }
    if (count > 0)
        fprintf (out, " %s no effect %s\n", count == 1 ? "has" : "have", rows[k].missing);
}

void args_heard_print (const struct train_args *args, const struct geometry *g, FILE *out)
{
    for (size_t k = 0; k < COUNT (rows); k++) {
        if (!rows[k].counts (args, g))
            print_row (k, args, out);
    }
}

void args_heard_print_decay (const struct lr_config *lr, int64_t consumed, int64_t last,
                             int64_t iteration, FILE *out)
{
    const char *end = lr->min > 0 ? "" : ": nothing is learnt any more";

    if (lr->style == LR_CONSTANT || last <= consumed || lr->decay >= last)
        return;
    if (consumed >= lr->decay)
        fprintf (out, "the decay of the learning rate is over: it stays at %g%s\n", lr->min, end);
    else
        fprintf (out, "the decay of the learning rate ends in iteration %" PRId64 ", before the "
                 "run: it stays at %g%s\n", iteration, lr->min, end);
}
