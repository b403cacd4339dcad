/* args - the arguments of "megatron train", in one table, with Megatron-LM's names.
 *
 * The table is read by the parser, by --help and by the test that compares it with the
 * man page.  If rules read an argument, topo/margs.h has its name, type and help, and its
 * row here refers to that.
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

enum { TRAIN_UNSET = -1 }; /* value of an int or int64_t argument that was not given */
enum { TRAIN_TIMING_LEVEL = 2 }; /* the highest value of --timing-log-level */
enum { TRAIN_GIVEN_WORDS = 8 }; /* words with a bit for each row of the table, at most 512 */

/* The contents of event files for TensorBoard. */
struct train_tensorboard {
    const char *dir; /* NULL: there are none */
    int64_t log_interval;
    int64_t queue_size;    /* changes nothing: every iteration's values are written at once */
    bool batch_size;       /* changes nothing: event files always hold the batch size */
    bool timers, validation_ppl, memory, world_size;
    bool no_loss_scale, no_learning_rate;
};

/* Further arguments of evaluations. */
struct train_eval {
    int64_t start;
    int global_batch_size, micro_batch_size, seq_length;
    bool full, several;
    struct arg_list names;
};

/* Changes of samples: fill-in-the-middle, weights in the loss.  A member that is not
 * given is TRAIN_UNSET or NULL; data_edit.c has the defaults.
 */
struct train_edit {
    int eod; /* TRAIN_UNSET: the tokenizer's end of a document */
    bool mask_eod;
    bool reset_attention, reset_positions; /* reset at the beginning of a document */
    bool fim;
    double fim_rate, fim_spm_rate, fim_fragment_rate;
    const char *fim_split, *fim_no_prefix;
    const char *fim_prefix, *fim_middle, *fim_suffix, *fim_pad, *fim_eod;
};

/* Mixture of experts (nn/moe.h).  Several types of load balancing are a list, or one word
 * with blanks between the types.  The same holds for their coefficients.
 */
struct train_moe {
    int experts; /* experts of a layer; 0: none */
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

/* The capture into device graphs (nn/graphs.h), and older names of its arguments. */
struct train_graphs {
    const char *impl;
    struct arg_list modules, scope;
    int warmup_steps;
    bool enable, external;
};

/* The arguments.  An argument that was not given has the default of the table.  Texts
 * point into the argument vector.
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
    bool overlap_p2p, no_overlap_p2p;
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
    bool checkpoint_args; /* the arguments of the model come from the file of weights, or
                           * from the checkpoint */
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
    const char *device;  /* NULL: the CPU */
    int device_reserve_mib, communicator_reserve_mib;
    bool deterministic; /* sums over NCCL in rank order */
    const char *backend; /* NULL: the best that there is */
    const char *nccl_config;
    const char *args_file;
    bool strict; /* ---strict-arguments: args/other.h accepts no argument */
    bool brief;   /* the command line may have short names */
    uint64_t given[TRAIN_GIVEN_WORDS]; /* a bit for each row, from the first on: set if
                                        * the argument was given */
    struct args_file *files; /* files that train_args_read_run() has read */
    struct data_args *data;  /* data that --per-split-data-args-path names; NULL: none */
    struct args_words *words;  /* lists that were given in brackets, without the brackets */
    struct args_others others; /* the arguments that have no row here */
    struct notes *notes;     /* notes that describe the model, for --use-checkpoint-args;
                              * NULL: none */
};

/* One row for each argument.  The argument's type decides the type of its field: int,
 * int64_t, double, const char *, bool, struct arg_list or int64_t[3].
 */
struct train_arg {
    const struct arg_info *info; /* a row of margs_table, if the argument has one */
    size_t offset;     /* offset of the field in struct train_args */
    double min, max;   /* range of numbers; a list has at least 'min' words (0 or 1) */
    double preset;     /* default of numbers */
    const char *preset_text; /* default of texts; NULL: none */
    const char *tail;  /* text that --help adds about runs; NULL: none */
};
extern const struct train_arg train_arg_table[];
extern const size_t train_num_args;

/* Returns the row of an argument by its name, or NULL. */
const struct train_arg *train_arg_find (const char *name);

/* True if the argument of the i-th row was given, on the command line or in a file of
 * arguments. */
bool train_arg_given (const struct train_args *args, size_t i);

/* Set every argument to its default, as if none had been given. */
void train_args_init (struct train_args *args);

/* Store one value ("" for a flag).  0, or -1, EINVAL or ERANGE and a text.  The row must
 * not be one of three values.
 */
int train_arg_set (const struct train_arg *row, const char *value, struct train_args *args,
                   struct mg_error *err);

/* Parse argv[1..argc-1], "--name value" or "--name=value"; a repeated argument's last
 * value counts.  The arguments of files (--args-file) are read before the command line,
 * in the order of the files.  With --use-checkpoint-args, the arguments of the loaded
 * model are read first, and the others must not contradict them.  args/other.h accepts or
 * refuses arguments of Megatron-LM that have no row here, and args->others keeps these.
 * A list may be in brackets, "[a b]".  The lists of --train-data-path and its like then
 * contain the data that --per-split-data-args-path names.  -1, EINVAL or ERANGE (or the
 * errno of reading a file) and a text, which names all refused arguments, or else the
 * first wrong one.  The arguments point into argv, and into files that train_args_clear()
 * frees, also after a failure.
 */
int train_args_read_run (int argc, char **argv, struct train_args *args, struct mg_error *err);

/* Parse arguments that need not be enough for a run: required arguments, and the file of
 * --per-split-data-args-path, may be missing.  argv may have short names (struct
 * arg_info); files of arguments may not.
 */
int train_args_read (int argc, char **argv, struct train_args *args, struct mg_error *err);

/* Parse in the same way without short names.  args->others may have arguments that
 * train_args_read_run() refuses. */
int train_args_read_all (int argc, char **argv, struct train_args *args, struct mg_error *err);
void train_args_clear (struct train_args *args);

/* Check that all arguments that a run requires were given.  -1, EINVAL and a text that
 * names the missing ones. */
int train_args_check_required (const struct train_args *args, struct mg_error *err);

/* Check that the arguments about element types agree.  -1, EINVAL or ENOTSUP and a text
 * about the first conflict.
 */
int train_args_check_types (const struct train_args *args, struct mg_error *err);

/* Check the arguments about the state with which a run begins. */
int train_args_check_load (const struct train_args *args, struct mg_error *err);

/* Check the arguments about recomputation. */
int train_args_check_recompute (const struct train_args *args, struct mg_error *err);

/* Check the arguments about experts, and other arguments of a run with experts. */
int train_args_check_moe (const struct train_args *args, struct mg_error *err);

/* Print one line for each row, for --help. */
void train_args_help (FILE *out);

/* Returns a hash of all arguments. */
uint64_t train_args_fingerprint (const struct train_args *args);

/* True if ranks talk through NCCL by name: --distributed-backend nccl with --device cuda.  Without
 * GPUs this value stands for the default.
 */
bool args_backend_is_nccl (const struct train_args *args);

#endif /* LIBCORE_ARGS_ARGS_H */
