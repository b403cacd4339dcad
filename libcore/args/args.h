/* args - the arguments of "megatron train": one table, Megatron-LM's names.
 *
 * The table is read by the parser, by --help and by the test that compares it with the
 * man page.  What an argument that rules read is (name, type, help) is said in topo/margs.h; a row
 * here refers to it.
 */
#ifndef LIBCORE_ARGS_ARGS_H
#define LIBCORE_ARGS_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "libcore/topo/margs.h"
#include "libcore/args/other.h"
#include "libcore/data/split.h"
#include "megatron/error.h"

enum { TRAIN_UNSET = -1 }; /* of an int or int64_t argument that was not given */
enum { TRAIN_TIMING_LEVEL = 2 }; /* the highest of --timing-log-level */
enum { TRAIN_GIVEN_WORDS = 8 }; /* a bit for each row of the table, at most 512 */

/* What event files for TensorBoard hold. */
struct train_tensorboard {
    const char *dir; /* NULL: there are none */
    int64_t log_interval;
    int64_t queue_size;    /* changes nothing: every iteration's values are written at once */
    bool batch_size;       /* changes nothing: they always hold it */
    bool timers, validation_ppl, memory, world_size;
    bool no_loss_scale, no_learning_rate;
};

/* What else is said of evaluations. */
struct train_eval {
    int64_t start;
    int global_batch_size, micro_batch_size, seq_length;
    bool full, several;
    struct arg_list names;
};

/* How samples are changed: fill-in-the-middle, weights in the loss.  What is not given is
 * TRAIN_UNSET or NULL; data_edit.c has the defaults.
 */
struct train_edit {
    int eod; /* TRAIN_UNSET: the tokenizer's */
    bool mask_eod;
    bool reset_attention, reset_positions; /* at a document's beginning */
    bool fim;
    double fim_rate, fim_spm_rate, fim_fragment_rate;
    const char *fim_split, *fim_no_prefix;
    const char *fim_prefix, *fim_middle, *fim_suffix, *fim_pad, *fim_eod;
};

/* Mixture of experts (nn/moe.h).  Several types of load balancing stand in a list, or in one word
 * with blanks between; so do their coefficients.
 */
struct train_moe {
    int experts; /* of a layer; 0: none */
    const char *layers;
    int ffn, topk;
    struct arg_list balancing, aux_coeff;
    double z_coeff;
    const char *score;
    bool pre_softmax;
    int num_groups, group_topk;
    double scaling_factor;
    const char *router_dtype;
    bool expert_bias, force_balance;
    double forced_bias, bias_update_rate, quantile_ema, jitter;
    double capacity_factor; /* negative: unlimited */
    bool pad_to_capacity;
    const char *drop_policy;
    int shared_ffn;
    bool shared_gate, shared_overlap, probs_on_input;
    int latent;
    const char *dispatcher;
    double rank_capacity_factor;
    bool recompute; /* --moe-layer-recompute */
    bool upcycling; /* the weights that are loaded are of a dense model ... */
    int upcycling_granularity; /* ... whose MLP is so many times as large as an expert */
    bool per_layer_logging;
};

/* What is captured into device graphs (nn/graphs.h), and older names for that. */
struct train_graphs {
    const char *impl;
    struct arg_list modules, scope;
    int warmup_steps;
    bool enable, external;
};

/* Arguments as given; what was not given holds the default of the table. Texts point into
 * the argument vector.
 */
struct train_args {
    int tp, pp, cp, ep, etp; /* TRAIN_UNSET: from the environment, else 1 */
    struct arg_list cp_comm, cp_levels;
    bool tp_pp_dp, sequence_parallel;
    int vpp, layers_per_vpp, microbatch_group, first_layers, last_layers;
    bool with_embedding, with_loss;
    const char *layout;
    int num_layers, hidden_size, ffn_hidden_size, num_heads, kv_channels;
    int seq_length, max_positions;
    int vocab_size, padded_vocab_size, vocab_divisor;
    const char *tokenizer, *vocab_file, *merge_file, *tokenizer_model;
    int null_eod; /* --null-tokenizer-eod-id */
    const char *normalization;
    bool norm_1p, swiglu, squared_relu, quick_geglu, geglu, exact_gelu;
    double glu_offset, activation_clamp;
    bool no_linear_bias, qkv_bias, query_groups;
    int num_query_groups;
    bool qk_norm;
    const char *softmax_type;
    bool qk_layer_scaling;
    bool latent; /* --multi-latent-attention */
    int q_rank, kv_rank, qk_dim, rope_dim, v_dim;
    const char *rope_type;
    const char *positions;
    bool no_positions, rotary_positions;
    double rotary_base, rotary_percent, rotary_interpolation;
    bool rotary_interleaved, rope_scaling;
    double rope_scaling_factor, rope_scaling_low, rope_scaling_high, rope_scaling_original;
    double rotary_scaling_factor;
    double yarn_original, yarn_beta_fast, yarn_beta_slow, mscale, mscale_all_dim;
    bool yarn_exact;
    const char *no_rope, *window_size, *window_layers;
    struct train_moe moe;
    int mtp_layers;
    bool mtp_repeated, mtp_detached;
    double mtp_scaling_factor;
    double norm_epsilon, init_std, embedding_init_std, hidden_dropout, attention_dropout;
    bool untied;
    int64_t seed;
    int micro_batch_size, global_batch_size;
    const char *batch_steps;
    bool per_token_loss;
    int64_t batch_ramp[3]; /* start, increment, samples; all 0: none */
    bool round_batch_down;
    bool recompute_activations;
    const char *recompute_granularity, *recompute_method;
    struct arg_list recompute_modules;
    int recompute_layers;
    bool split_activations;
    struct train_graphs graphs;
    int64_t train_iters, train_samples, exit_interval;
    const char *phases; /* --phase-transition-iterations */
    struct arg_list iterations_to_skip;
    int64_t eval_interval, eval_iters;
    struct train_eval eval;
    bool skip_train;
    double lr, min_lr, decoupled_lr, decoupled_min_lr, lr_warmup_init, lr_warmup_fraction;
    const char *lr_decay_style, *lr_wsd_decay_style;
    int64_t lr_decay_iters, lr_warmup_iters, lr_wsd_decay_iters;
    int64_t lr_decay_samples, lr_warmup_samples, lr_wsd_decay_samples;
    double weight_decay, start_weight_decay, end_weight_decay;
    const char *weight_decay_incr_style;
    bool decay_qk_norm; /* --apply-wd-to-qk-layernorm */
    double adam_beta1, adam_beta2, adam_eps, clip_grad;
    int64_t bucket_size;
    int64_t num_buckets;
    bool high_busbw;
    bool log_zeros, log_max_logit;
    bool overlap_grad_reduce, overlap_param_gather, average_grads;
    bool grads_float32, grads_bfloat16;
    bool bf16, fp16, fp8_param_gather;
    double loss_scale, initial_loss_scale, min_loss_scale;
    int64_t loss_scale_window, hysteresis;
    bool sharded_optimizer;
    int optimizer_instances;
    bool precision_aware, whole_main_params;
    const char *main_grads_dtype, *main_params_dtype, *exp_avg_dtype, *exp_avg_sq_dtype;
    struct arg_list data_path, train_data_path, valid_data_path, test_data_path;
    const char *split_data; /* --per-split-data-args-path */
    bool mock_data;
    const char *dataloader;
    double data_surplus;
    const char *data_cache, *split, *batches;
    bool program_samples[SPLIT_NUM_PARTS]; /* no arguments: a program makes the samples of a part */
    struct train_edit edit;
    const char *load_weights, *save_weights, *save_gradients;
    bool checkpoint_args; /* the model's come from the file of weights, or the checkpoint */
    bool checkpoint_sizes; /* parallel sizes come from the checkpoint */
    const char *load, *pretrained, *save;
    int64_t ckpt_step;
    bool finetune, no_load_optim, no_load_rng, exit_on_missing;
    bool override_schedule, checkpoint_schedule; /* see enum lr_prefer */
    int64_t save_interval, save_retain_interval, keep_last;
    bool async_save;
    const char *exit_signals; /* names, comma-separated */
    bool exit_on_signal, ignore_signals;
    double exit_minutes; /* TRAIN_UNSET: no limit */
    int64_t log_interval, log_memory_interval;
    bool log_throughput, log_params_norm;
    int timing_log_level;
    const char *timing_log_option;
    bool check_nan, no_check_nan, no_check_memory, check_spiky_loss, check_large_grads;
    int64_t check_hash_interval; /* --check-weight-hash-across-dp-replicas-interval */
    const char *metrics_file, *trace_file, *trace_iterations;
    struct train_tensorboard tensorboard;
    double timeout_minutes, stall_minutes;
    const char *device;
    const char *args_file;
    bool strict; /* --strict-arguments: args/other.h accepts nothing */
    bool brief;   /* the command line may have short names */
    uint64_t given[TRAIN_GIVEN_WORDS]; /* a bit for each row that was given, from the first on */
    struct args_file *files; /* that train_args_read_run() has read */
    struct data_args *data;  /* that --per-split-data-args-path has named; NULL: none */
    struct args_words *words;  /* lists that it has taken out of their brackets */
    struct args_others others; /* what it has met that has no row here */
    struct notes *notes;     /* that describe the model, of --use-checkpoint-args; NULL: none */
};

/* One row an argument.  Its field is an int, int64_t, double, const char *, bool, struct arg_list
 * or int64_t[3], as its type is.
 */
struct train_arg {
    const struct arg_info *info; /* a row of margs_table, if the argument has one */
    size_t offset;     /* of the field in struct train_args */
    double min, max;   /* of numbers; of lists: 'min' words at least (0, 1) */
    double preset;     /* of numbers: value when not given */
    const char *preset_text; /* of texts; NULL: none */
    const char *tail;  /* what --help adds: what is true of a run alone; NULL: nothing */
};
extern const struct train_arg train_arg_table[];
extern const size_t train_num_args;

/* Row of an argument by its name, NULL if there is none. */
const struct train_arg *train_arg_find (const char *name);

/* Was the i-th row given, on the command line or in a file of arguments? */
bool train_arg_given (const struct train_args *args, size_t i);

/* Every argument as if it had not been given. */
void train_args_init (struct train_args *args);

/* Store one value ("" for a flag): 0, or -1, EINVAL or ERANGE and a text.  Not for rows of
 * three values.
 */
int train_arg_set (const struct train_arg *row, const char *value, struct train_args *args,
                   struct mg_error *err);

/* Parse argv[1..argc-1], "--name value" or "--name=value"; a repeated argument's last
 * value counts.  Those of files (--args-file) come first, in the order of the files; before them
 * those of the model that is loaded, with --use-checkpoint-args, which the others must not
 * contradict.  Those of Megatron-LM that have no row here are accepted or refused by args/other.h
 * and stay in args->others.  A list may stand in brackets, "[a b]".  The data that
 * --per-split-data-args-path names stands in the lists of --train-data-path ... afterwards.  -1,
 * EINVAL or ERANGE (or what reading a file says) and a text: of all that are refused, or else of
 * the first that is wrong.  The arguments point into argv, and into files that train_args_clear()
 * frees, also after a failure.
 */
int train_args_read_run (int argc, char **argv, struct train_args *args, struct mg_error *err);

/* The same, whatever a run requires may be missing, the file of --per-split-data-args-path too.
 * argv may have short names (struct arg_info), files of arguments may not.
 */
int train_args_read (int argc, char **argv, struct train_args *args, struct mg_error *err);

/* The same without short names, and args->others may have what train_args_read_run() refuses. */
int train_args_read_all (int argc, char **argv, struct train_args *args, struct mg_error *err);
void train_args_clear (struct train_args *args);

/* Is everything there that a run requires?  -1, EINVAL and a text that names what is not. */
int train_args_check_required (const struct train_args *args, struct mg_error *err);

/* Do the arguments go together that are about element types?  -1, EINVAL or ENOTSUP and a text on
 * the first that is not so.
 */
int train_args_check_types (const struct train_args *args, struct mg_error *err);

/* Those about what a run begins with. */
int train_args_check_load (const struct train_args *args, struct mg_error *err);

/* Those about recomputation. */
int train_args_check_recompute (const struct train_args *args, struct mg_error *err);

/* Those about experts, and other arguments of a run with them. */
int train_args_check_moe (const struct train_args *args, struct mg_error *err);

/* Print one line a row: for --help. */
void train_args_help (FILE *out);

/* A number that differs, in all likelihood, if any argument does. */
uint64_t train_args_fingerprint (const struct train_args *args);

#endif /* LIBCORE_ARGS_ARGS_H */
