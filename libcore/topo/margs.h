/* margs - the Megatron-style arguments on a command line that describe a model, and the
 * rules that the model must keep on a geometry.
 *
 * Pure integer arithmetic over words, linked by the job plugin too: no file is opened, no
 * variable read.  Names and rules are Megatron-LM's (validate_args, TransformerConfig,
 * the constructors of its layers).  A rule that needs an argument which was not given is
 * skipped.  The rules refuse command lines that are certain to fail; the program still
 * checks its own arguments.
 */
#ifndef LIBCORE_TOPO_MARGS_H
#define LIBCORE_TOPO_MARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/topo/geometry.h"
#include "megatron/error.h"

enum marg {
    MARG_TP,
    MARG_PP,
    MARG_CP,
    MARG_CP_COMM,
    MARG_CP_INNER,
    MARG_EP,
    MARG_ETP,
    MARG_VPP,
    MARG_LAYERS_PER_VPP,
    MARG_GROUP_SIZE,
    MARG_FIRST,
    MARG_LAST,
    MARG_WITH_EMBEDDING,
    MARG_WITH_LOSS,
    MARG_LAYOUT,
    MARG_TP_PP_DP,
    MARG_SEQUENCE_PARALLEL,
    MARG_SPLIT_ACTIVATIONS,
    MARG_RECOMPUTE,
    MARG_RECOMPUTE_MODULES,
    MARG_RECOMPUTE_ACTIVATIONS,
    MARG_GRAPH_IMPL,
    MARG_GRAPH_MODULES,
    MARG_GRAPH_SCOPE,
    MARG_GRAPH_ENABLE,
    MARG_GRAPH_EXTERNAL,
    MARG_LAYERS,
    MARG_MTP_LAYERS,
    MARG_HIDDEN,
    MARG_FFN,
    MARG_SWIGLU,
    MARG_HEADS,
    MARG_KV_CHANNELS,
    MARG_QUERY_GROUPS,
    MARG_GROUPED,
    MARG_LATENT,
    MARG_SEQ_LENGTH,
    MARG_MAX_POSITIONS,
    MARG_VOCAB,
    MARG_PADDED_VOCAB,
    MARG_EXPERTS,
    MARG_EXPERT_LAYERS,
    MARG_EXPERT_FFN,
    MARG_SHARED_FFN,
    MARG_EXPERT_LATENT,
    MARG_NO_BIAS,
    MARG_ROUTER_TOPK,
    MARG_PROBS_ON_INPUT,
    MARG_ROUTER_BALANCING,
    MARG_ROUTER_GROUPS,
    MARG_ROUTER_GROUP_TOPK,
    MARG_CAPACITY,
    MARG_PAD,
    MARG_DISPATCHER,
    MARG_MOE_RECOMPUTE,
    MARG_MICRO_BATCH,
    MARG_GLOBAL_BATCH,
    MARG_RAMPUP,
    MARG_BATCH_STEPS,
    MARG_ROUND_BATCH,
    MARG_NUM
};

/* What follows the name of an argument. */
enum arg_type {
    ARG_INT,   /* a whole number that fits an int */
    ARG_INT64, /* a whole number that fits an int64_t */
    ARG_REAL,  /* a number */
    ARG_TEXT,  /* one word, not empty */
    ARG_FLAG,  /* nothing */
    ARG_LIST,  /* words up to the next argument */
    ARG_TRIPLE /* three whole numbers, each in a word of its own */
};

/* The description of an argument.  Each argument is described once, here or in the table
 * of a program's further arguments, and all code that reads or prints the argument uses
 * this description.
 */
struct arg_info {
    const char *name;  /* without the dashes */
    const char *brief; /* a short name of our commands, such as "tp"; NULL: none */
    enum arg_type type;
    const char *meta;  /* the value's name in --help; NULL: there is no value */
    const char *help;  /* one line, no final dot */
};

/* One row for each argument. */
extern const struct arg_info margs_table[MARG_NUM];

/* Returns the row of a short name of 'len' bytes, or NULL. */
const struct arg_info *margs_find_brief (const char *name, size_t len);

/* The words of a list: word 0 is 'first', word i rest[i - 1]. */
struct arg_list {
    const char *first;
    char *const *rest;
    int count; /* 0: not given, or given without words: then 'first' is not NULL */
};

/* Word i of a list, 0 <= i < count. */
const char *arg_list_word (const struct arg_list *list, int i);

/* The arguments that were given.  Texts and words point into the argument vector. */
struct margs {
    int value[MARG_NUM];  /* 0: not given, or no number of 1..GEOMETRY_SIZE_MAX.
                             ARG_REAL: 1 if the value is above 0.  MARG_CP_INNER: the
                             first size.  Flags, texts, other lists and triples: 1 if
                             given */
    const char *text[MARG_NUM]; /* the word of a text, the first word of a list; NULL: not
                                   given.  MARG_CP_COMM: the word whose exchange deals out
                                   heads among the most ranks, if an exchange does */
    struct arg_list list[MARG_NUM];
    bool own;             /* the program is megatron train: the rules of this
                             implementation are checked, too. margs_scan() does not change
                             this member */
    bool parallel;        /* one of the words is a "--*-model-parallel-size" */
};

void margs_init (struct margs *args);

/* Read words, "--name value" or "--name=value", into 'args'; other members of 'args'
 * stay.  The last value of a repeated argument counts.  Words that are no argument of the
 * table are skipped.  An argument whose value is no number counts as not given; the
 * program itself reports the error.  Only the first word of a triple is read.
 */
void margs_scan (struct margs *args, int argc, char *const *argv);

/* Store one value ("" or NULL for a flag); 'what' names the argument in the message. 0,
 * or -1, EINVAL or ERANGE and a text; 'args' is then unchanged.
 */
int margs_set (struct margs *args, enum marg id, const char *what, const char *value,
               struct mg_error *err);

/* The fields that a job has set in the geometry of its program. */
struct margs_job {
    unsigned fixed;    /* the fields, bits 1 << enum geometry_field */
    bool by_variables; /* the fields come from variables in the environment of this task
                          (environment.h), which messages name; else from options of srun,
                          sbatch or salloc */
};

/* Put the parallel sizes of 'args' into 'g'.  The fields that the job has set stay as
 * they are.  An argument that differs from such a field is reported under the rule
 * "conflict".  Virtual stages are the exception: a job with one stage a rank leaves them
 * to the arguments.  If 'job' is NULL, the job has set no field.  Returns the number of
 * reports; 'report' may be NULL.
 */
int margs_merge (const struct margs *args, struct geometry *g, const struct margs_job *job,
                 geometry_report_f report, void *arg);

/* Check every rule whose arguments are known, on a geometry that keeps its own rules
 * (geometry_check()).  The geometry's world may be 0.  Reports as geometry_check() does,
 * with these rule names:
 *
 *   hidden-heads       hidden-size is a multiple of num-attention-heads (unless
 *                      kv-channels is given, or with multi-latent-attention)
 *   heads-tp           num-attention-heads is a multiple of tp
 *   query-groups  num-query-groups divides the heads; num-query-groups divides tp, or tp
 *                      divides num-query-groups; if num-query-groups is less than tp,
 *                      (heads + 2 groups) x kv-channels is a multiple of tp;
 *                      multi-latent-attention has no groups
 *   ffn-tp             ffn-hidden-size (with swiglu: what follows from hidden-size) is a
 *                      multiple of tp, unless all layers have experts
 *   expert-ffn-etp     the experts' FFN size is a multiple of etp
 *   shared-ffn-tp      moe-shared-expert-intermediate-size is a multiple of tp
 *   vocab-tp           padded-vocab-size is a multiple of tp
 *   vocab              vocab-size is not more than padded-vocab-size
 *   seq-cp             with cp > 1, seq-length is a multiple of 2 cp
 *   heads-cp           with an exchange (context.h) that deals out heads among N ranks, heads and
 *                      query groups (multi-latent-attention has none) are multiples of tp x N
 *   seq-sp             with sequence-parallel, seq-length / cp is a multiple of tp
 *   positions          max-position-embeddings is not less than seq-length
 *   saved-activations  distribute-saved-activations needs tp > 1 and excludes sequence-parallel
 *   layers  the layers can be dealt out to the pipeline's stages (stages_create())
 *   experts-ep  num-experts is a multiple of ep; ep > 1 and sizes of experts need experts
 *   experts-sp  experts with tp > 1 need sequence-parallel experts-bias  experts with etp
 *   > 1, and shared experts, need disable-bias-linear router-topk  moe-router-topk is not
 *   more than num-experts; with quantile_balancing it is
 *                      less, and the choices of a microbatch are a multiple of num-experts
 *   router-groups  num-experts is a multiple of moe-router-num-groups;
 *                      moe-router-group-topk is not more than moe-router-num-groups; the
 *                      chosen groups have at least moe-router-topk experts
 *   graphs  the modules of --cuda-graph-impl and --cuda-graph-modules suit each other,
 *                      and the model has them (graph_args.h)
 *   batch              global-batch-size is a multiple of micro-batch-size x dp
 *   microbatches-vpp  with virtual stages, pp <= group <= microbatches, and the
 *                      microbatches of an incomplete last group, if any, are at least pp
 *
 *
 * The text has the values that break the rule and, if the rule is arithmetic, the nearest
 * legal values.  Returns the number of reports.
 */
int margs_check (const struct margs *args, const struct geometry *g,
                 geometry_report_f report, void *arg);

/* Check the rules up to the first broken one.  0, or -1, EINVAL and the text of that rule. */
int margs_validate (const struct margs *args, const struct geometry *g, struct mg_error *err);

/* True if the default of etp splits experts that the user may have wanted whole: the line
 * has experts, tp and ep are above 1, and etp is not given.  etp is then tp, so that tp x
 * ep ranks, not ep ranks, share the experts of a layer.  A line about this is written to
 * 'text'.
 */
bool margs_note_etp (const struct margs *args, const struct geometry *g, struct mg_error *text);

/* Compute the layers of every pipeline stage from the arguments and the geometry.  NULL
 * and a text on failure: EINVAL for a broken rule.
 */
struct stages;
struct stages *margs_stages (const struct margs *args, const struct geometry *g,
                             struct mg_error *err);

#endif /* LIBCORE_TOPO_MARGS_H */
