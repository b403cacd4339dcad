/* margs - what Megatron-style arguments on a command line say of a model, and the rules
 * that the model must keep on a geometry.
 *
 * Pure integer arithmetic over words, linked by the job plugin too: no file is opened, no
 * variable read.  Names and rules are Megatron-LM's (validate_args, TransformerConfig,
 * the constructors of its layers).  What was not given is not known, and a rule that needs
 * it is left out: these rules refuse what is certain to fail, they do not replace the
 * program's own reading of its arguments.
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
    ARG_INT64, /* one that fits an int64_t */
    ARG_REAL,  /* a number */
    ARG_TEXT,  /* one word, not empty */
    ARG_FLAG,  /* nothing */
    ARG_LIST,  /* words up to the next argument */
    ARG_TRIPLE /* three whole numbers, each in a word of its own */
};

/* What an argument is.  This is said once, here or in the table of a program's further arguments,
 * for all that read the argument or tell of it.
 */
struct arg_info {
    const char *name;  /* without the dashes */
    const char *brief; /* a short name of our commands, such as "tp"; NULL: none */
    enum arg_type type;
    const char *meta;  /* what --help calls the value; NULL: there is none */
    const char *help;  /* one line, no final dot */
};

/* One row an argument. */
extern const struct arg_info margs_table[MARG_NUM];

/* The row that has a short name of 'len' bytes, NULL if there is none. */
const struct arg_info *margs_find_brief (const char *name, size_t len);

/* The words of a list: word 0 is 'first', word i rest[i - 1]. */
struct arg_list {
    const char *first;
    char *const *rest;
    int count; /* 0: not given, or given without words: then 'first' is not NULL */
};

/* Word i of a list, 0 <= i < count. */
const char *arg_list_word (const struct arg_list *list, int i);

/* What was given.  Texts and words point into the argument vector. */
struct margs {
    int value[MARG_NUM];  /* 0: not given, or not a number of 1..GEOMETRY_SIZE_MAX;
                             ARG_REAL: 1 if above 0; of MARG_CP_INNER, the first size;
                             flags, texts, other lists and triples: 1 if given */
    const char *text[MARG_NUM]; /* of texts and lists, the (first) word, NULL: not given.  Of
                                   MARG_CP_COMM the first word whose exchange deals out heads
                                   among most ranks, if there is one */
    struct arg_list list[MARG_NUM];
    bool own;             /* the program is megatron train: rules of this implementation alone
                             count, too.  margs_scan() leaves it as it is */
    bool parallel;        /* some "--*-model-parallel-size" is among the words */
};

void margs_init (struct margs *args);

/* Read words, "--name value" or "--name=value", over what 'args' holds; of several, the
 * last counts.  Words that are none of the table's arguments are passed over, a value that
 * is no number makes its argument unknown: what the program will say of it is its own.  Of a
 * triple the first word alone is read.
 */
void margs_scan (struct margs *args, int argc, char *const *argv);

/* Store one value ("" or NULL for a flag); 'what' names the argument in the message. 0, or
 * -1, EINVAL or ERANGE and a text, 'args' as it was.
 */
int margs_set (struct margs *args, enum marg id, const char *what, const char *value,
               struct mg_error *err);

/* What a job has decided of the geometry that its program runs on. */
struct margs_job {
    unsigned fixed;    /* the fields, bits 1 << enum geometry_field */
    bool by_variables; /* the job told them to this task in variables (environment.h), which
                          messages name; else they are options of srun, sbatch or salloc */
};

/* Put the parallel sizes of 'args' into 'g'.  The fields that the job has decided stay as they
 * are: an argument that differs from one of them is reported, under the rule "conflict".  Virtual
 * stages are the exception: a job with one stage a rank leaves them to the arguments.  'job' NULL:
 * nothing is decided.  Returns the number of reports; 'report' may be NULL.
 */
int margs_merge (const struct margs *args, struct geometry *g, const struct margs_job *job,
                 geometry_report_f report, void *arg);

/* Check every rule that is known enough, on a geometry that keeps its own rules
 * (geometry_check()); its world may be 0.  Reports as geometry_check() does, with these
 * rule names:
 *
 *   hidden-heads       hidden-size is a multiple of num-attention-heads (unless
 *                      kv-channels is given, or with multi-latent-attention)
 *   heads-tp           num-attention-heads is a multiple of tp
 *   query-groups       num-query-groups divides the heads, and one of it and tp the other; if it
 *                      is less than tp, (heads + 2 groups) x kv-channels is a multiple of tp;
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
 *   layers             the pipeline's stages get their layers (stages_create())
 *   experts-ep         num-experts is a multiple of ep; ep > 1 and sizes of experts need experts
 *   experts-sp         experts with tp > 1 need sequence-parallel
 *   experts-bias       experts with etp > 1, and shared experts, need disable-bias-linear
 *   router-topk        moe-router-topk is not more than num-experts; with quantile_balancing it is
 *                      less, and the choices of a microbatch are a multiple of num-experts
 *   router-groups      num-experts is a multiple of moe-router-num-groups, of which
 *                      moe-router-group-topk are chosen, which have moe-router-topk experts
 *   graphs             what --cuda-graph-impl and --cuda-graph-modules capture goes together, and
 *                      the model has it (graph_args.h)
 *   batch              global-batch-size is a multiple of micro-batch-size x dp
 *   microbatches-vpp   with virtual stages, pp <= group <= microbatches, and what is left
 *                      of whole groups is 0 or at least pp
 *
 *
 * The text says what differs and, where it is arithmetic, the nearest legal values.  Returns the
 * number of reports.
 */
int margs_check (const struct margs *args, const struct geometry *g,
                 geometry_report_f report, void *arg);

/* margs_check() where the first broken rule is enough: 0, or -1, EINVAL and its text. */
int margs_validate (const struct margs *args, const struct geometry *g, struct mg_error *err);

/* True if the default of etp splits experts without having been asked for: the line has experts,
 * tp and ep are above 1, and etp is not given.  etp is then tp, so that tp x ep ranks share the
 * experts of a layer, not ep.  'text' gets one line that says so.
 */
bool margs_note_etp (const struct margs *args, const struct geometry *g, struct mg_error *text);

/* The layers of every pipeline stage, by the arguments and the geometry.  NULL and a text on
 * failure: EINVAL for a broken rule.
 */
struct stages;
struct stages *margs_stages (const struct margs *args, const struct geometry *g,
                             struct mg_error *err);

#endif /* LIBCORE_TOPO_MARGS_H */
