/* margs.c - the table of Megatron-style arguments, and how they are read
 *
 * Scanning never fails: a value that is missing or no number makes the argument unknown.
 * margs_set() is strict and says what is wrong.  The rules are in margs_check.c.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/topo/context.h"
#include "libcore/topo/margs.h"

const struct marg_info margs_table[MARG_NUM] = {
    [MARG_TP] = { "tensor-model-parallel-size", MARG_SIZE, "tensor-parallel size" },
    [MARG_PP] = { "pipeline-model-parallel-size", MARG_SIZE, "pipeline-parallel size" },
    [MARG_CP] = { "context-parallel-size", MARG_SIZE, "context-parallel size" },
    [MARG_CP_COMM] = { "cp-comm-type", MARG_TEXT,
                       "how context-parallel ranks exchange keys and values" },
    [MARG_CP_INNER] = { "hierarchical-context-parallel-sizes", MARG_SIZE,
                        "context-parallel ranks of the first level, of a2a+p2p" },
    [MARG_EP] = { "expert-model-parallel-size", MARG_SIZE, "expert-parallel size" },
    [MARG_ETP] = { "expert-tensor-parallel-size", MARG_SIZE,
                   "tensor-parallel size of experts" },
    [MARG_VPP] = { "num-virtual-stages-per-pipeline-rank", MARG_SIZE,
                   "virtual stages on each pipeline rank" },
    [MARG_LAYERS_PER_VPP] = { "num-layers-per-virtual-pipeline-stage", MARG_SIZE,
                              "layers of a virtual stage, in place of their number" },
    [MARG_GROUP_SIZE] = { "microbatch-group-size-per-virtual-pipeline-stage", MARG_SIZE,
                          "microbatches that go through a virtual stage in a row" },
    [MARG_FIRST] = { "decoder-first-pipeline-num-layers", MARG_SIZE,
                     "layers of the first pipeline rank" },
    [MARG_LAST] = { "decoder-last-pipeline-num-layers", MARG_SIZE,
                    "layers of the last pipeline rank" },
    [MARG_WITH_EMBEDDING] = { "account-for-embedding-in-pipeline-split", MARG_FLAG,
                              "the embedding takes the place of a layer" },
    [MARG_WITH_LOSS] = { "account-for-loss-in-pipeline-split", MARG_FLAG,
                         "the loss takes the place of a layer" },
    [MARG_LAYOUT] = { "pipeline-model-parallel-layout", MARG_TEXT,
                      "stage by stage, such as Et*3|(tt|)*5L" },
    [MARG_TP_PP_DP] = { "use-tp-pp-dp-mapping", MARG_FLAG, "rank order tp-cp-ep-pp-dp" },
    [MARG_SEQUENCE_PARALLEL] = { "sequence-parallel", MARG_FLAG,
                                 "norms and dropout are split by sequence" },
    [MARG_SPLIT_ACTIVATIONS] = { "distribute-saved-activations", MARG_FLAG,
                                 "inputs of recomputed layers are split over tp" },
    [MARG_RECOMPUTE] = { "recompute-granularity", MARG_TEXT,
                         "what the backward pass computes again" },
    [MARG_RECOMPUTE_MODULES] = { "recompute-modules", MARG_LIST,
                                 "modules that are recomputed selectively" },
    [MARG_RECOMPUTE_ACTIVATIONS] = { "recompute-activations", MARG_FLAG,
                                     "recompute-granularity selective" },
    [MARG_GRAPH_IMPL] = { "cuda-graph-impl", MARG_TEXT, "what is captured into device graphs" },
    [MARG_GRAPH_MODULES] = { "cuda-graph-modules", MARG_LIST,
                             "modules of layers that are captured" },
    [MARG_GRAPH_SCOPE] = { "cuda-graph-scope", MARG_LIST, "the same by its older name" },
    [MARG_GRAPH_ENABLE] = { "enable-cuda-graph", MARG_FLAG, "cuda-graph-impl local" },
    [MARG_GRAPH_EXTERNAL] = { "external-cuda-graph", MARG_FLAG,
                              "cuda-graph-impl transformer_engine" },
    [MARG_LAYERS] = { "num-layers", MARG_SIZE, "transformer layers" },
    [MARG_MTP_LAYERS] = { "mtp-num-layers", MARG_SIZE, "multi-token-prediction layers" },
    [MARG_HIDDEN] = { "hidden-size", MARG_SIZE, "hidden size" },
    [MARG_FFN] = { "ffn-hidden-size", MARG_SIZE, "MLP size" },
    [MARG_SWIGLU] = { "swiglu", MARG_FLAG, "gated MLP, of two thirds the size" },
    [MARG_HEADS] = { "num-attention-heads", MARG_SIZE, "attention heads" },
    [MARG_KV_CHANNELS] = { "kv-channels", MARG_SIZE, "size of a head" },
    [MARG_QUERY_GROUPS] = { "num-query-groups", MARG_SIZE, "key and value heads" },
    [MARG_GROUPED] = { "group-query-attention", MARG_FLAG, "query heads share keys and values" },
    [MARG_LATENT] = { "multi-latent-attention", MARG_FLAG, "keys and values are made of a latent" },
    [MARG_SEQ_LENGTH] = { "seq-length", MARG_SIZE, "tokens of a sample" },
    [MARG_MAX_POSITIONS] = { "max-position-embeddings", MARG_SIZE, "positions" },
    [MARG_VOCAB] = { "vocab-size", MARG_SIZE, "tokens of the vocabulary" },
    [MARG_PADDED_VOCAB] = { "padded-vocab-size", MARG_SIZE, "rows of the embedding" },
    [MARG_EXPERTS] = { "num-experts", MARG_SIZE, "experts of a layer" },
    [MARG_EXPERT_LAYERS] = { "moe-layer-freq", MARG_TEXT, "which layers have experts" },
    [MARG_EXPERT_FFN] = { "moe-ffn-hidden-size", MARG_SIZE, "MLP size of an expert" },
    [MARG_SHARED_FFN] = { "moe-shared-expert-intermediate-size", MARG_SIZE,
                          "MLP size of the shared experts" },
    [MARG_EXPERT_LATENT] = { "moe-latent-size", MARG_SIZE, "size of what experts work on" },
    [MARG_NO_BIAS] = { "disable-bias-linear", MARG_FLAG, "linear layers have no biases" },
    [MARG_ROUTER_TOPK] = { "moe-router-topk", MARG_SIZE, "experts of a token" },
    [MARG_PROBS_ON_INPUT] = { "moe-apply-probs-on-input", MARG_FLAG,
                              "probabilities multiply what experts read" },
    [MARG_ROUTER_BALANCING] = { "moe-router-load-balancing-type", MARG_TEXT,
                                "how the load of experts is balanced" },
    [MARG_ROUTER_GROUPS] = { "moe-router-num-groups", MARG_SIZE,
                             "groups of experts that the router chooses from" },
    [MARG_ROUTER_GROUP_TOPK] = { "moe-router-group-topk", MARG_SIZE,
                                 "groups that it chooses" },
    [MARG_CAPACITY] = { "moe-expert-capacity-factor", MARG_POSITIVE,
                        "tokens of an expert, of the mean" },
    [MARG_PAD] = { "moe-pad-expert-input-to-capacity", MARG_FLAG,
                   "each expert computes so many" },
    [MARG_DISPATCHER] = { "moe-token-dispatcher-type", MARG_TEXT,
                          "how tokens reach their experts" },
    [MARG_MOE_RECOMPUTE] = { "moe-layer-recompute", MARG_FLAG,
                             "module moe is recomputed" },
    [MARG_MICRO_BATCH] = { "micro-batch-size", MARG_SIZE, "samples of a microbatch" },
    [MARG_GLOBAL_BATCH] = { "global-batch-size", MARG_SIZE, "samples of an iteration" },
    [MARG_RAMPUP] = { "rampup-batch-size", MARG_TEXT, "the global batch size grows" },
    [MARG_BATCH_STEPS] = { "step-batch-size-schedule", MARG_TEXT,
                           "global batch sizes by tokens" },
    [MARG_ROUND_BATCH] = { "decrease-batch-size-if-needed", MARG_FLAG,
                           "the global batch size is rounded down" },
};

void margs_init (struct margs *args)
{
    memset (args, 0, sizeof (*args));
}

/* Where the text of an argument is kept; NULL: only whether it is given counts. */
static const char **text_of (struct margs *args, enum marg id)
{
    switch (id) {
    case MARG_LAYOUT:
        return &args->layout;
    case MARG_CP_COMM:
        return &args->cp_comm;
    case MARG_EXPERT_LAYERS:
        return &args->expert_layers;
    case MARG_ROUTER_BALANCING:
        return &args->balancing;
    case MARG_BATCH_STEPS:
        return &args->batch_steps;
    case MARG_RECOMPUTE:
        return &args->recompute;
    case MARG_DISPATCHER:
        return &args->dispatcher;
    case MARG_GRAPH_IMPL:
        return &args->graph_impl;
    default:
        return NULL;
    }
}

/* Where the words of a list are kept; NULL: it is no list. */
static struct marg_list *list_of (struct margs *args, enum marg id)
{
    switch (id) {
    case MARG_RECOMPUTE_MODULES:
        return &args->recompute_modules;
    case MARG_GRAPH_MODULES:
        return &args->graph_modules;
    case MARG_GRAPH_SCOPE:
        return &args->graph_scope;
    default:
        return NULL;
    }
}

int margs_set (struct margs *args, enum marg id, const char *what, const char *value,
               struct mg_error *err)
{
    const char **text = text_of (args, id);
    struct marg_list *list = list_of (args, id);
    int type = margs_table[id].type, size = 1;
    double number;

    if (type == MARG_SIZE && parse_int (what, value, 1, GEOMETRY_SIZE_MAX, &size, err) < 0)
        return -1;
    if (type == MARG_POSITIVE && parse_double (what, value, -1e15, 1e15, &number, err) < 0)
        return -1;
    if ((type == MARG_TEXT || type == MARG_LIST) && (!value || !*value))
        return mg_error_set (err, EINVAL, "%s is empty", what);
    args->value[id] = type == MARG_POSITIVE ? number > 0 : size;
    if (text)
        *text = value;
    if (list)
        *list = (struct marg_list){ .first = value, .count = 1 };
    return 0;
}

/* Row of "--name" or "--name=value"; MARG_NUM if there is none. */
static enum marg find (const char *word, size_t len)
{
    for (int id = 0; id < MARG_NUM; id++) {
        if (strlen (margs_table[id].name) == len
            && strncmp (margs_table[id].name, word, len) == 0)
            return id;
    }
    return MARG_NUM;
}

static bool is_parallel_size (const char *name, size_t len)
{
    static const char tail[] = "-model-parallel-size";
    size_t n = sizeof (tail) - 1;

    return len > n && strncmp (name + len - n, tail, n) == 0;
}

/* Of several names of exchanges, the first that deals out heads among all ranks; else among some;
 * else the first.
 */
static const char *most_demanding (const char *value, int argc, char *const *argv, int *i)
{
    for (; value && *i + 1 < argc && strncmp (argv[*i + 1], "--", 2) != 0; ++*i) {
        int now = context_comm_parse (value), next = context_comm_parse (argv[*i + 1]);

        if (now != CONTEXT_A2A && next >= CONTEXT_A2A && (next == CONTEXT_A2A || now < next))
            value = argv[*i + 1];
    }
    return value;
}

/* The words of a list from 'value', which stood behind "=", or else from argv[*i + 1] on. */
static void scan_list (struct margs *args, enum marg id, const char *value, int argc,
                       char *const *argv, int *i)
{
    struct marg_list *list = list_of (args, id);

    *list = (struct marg_list){ .first = value ? value : "", .count = value != NULL };
    args->value[id] = 1;
    while (*i + 1 < argc && strncmp (argv[*i + 1], "--", 2) != 0) {
        ++*i;
        if (list->count++ == 0)
            list->first = argv[*i];
        else if (!list->rest)
            list->rest = &argv[*i];
    }
}

/* The first size of a list, which may stand in brackets: its digits.  The others do not count. */
static const char *first_size (const char *value, char digits[16])
{
    size_t n;

    value += strspn (value, "[ ");
    n = strspn (value, "0123456789");
    if (n >= 16 || !strchr (" ,]", value[n]))
        return value;
    memcpy (digits, value, n);
    digits[n] = '\0';
    return digits;
}

void margs_scan (struct margs *args, int argc, char *const *argv)
{
    for (int i = 0; i < argc; i++) {
        const char *name, *value, **text;
        char digits[16];
        size_t len;
        enum marg id;

        if (strncmp (argv[i], "--", 2) != 0)
            continue;
        name = argv[i] + 2;
        len = strcspn (name, "=");
        args->parallel |= is_parallel_size (name, len);
        id = find (name, len);
        if (id == MARG_NUM)
            continue;
        value = name[len] ? name + len + 1 : NULL;
        if (margs_table[id].type == MARG_LIST) {
            scan_list (args, id, value, argc, argv, &i);
            continue;
        }
        if (!value && margs_table[id].type != MARG_FLAG && i + 1 < argc)
            value = argv[++i];
        if (id == MARG_CP_COMM)
            value = most_demanding (value, argc, argv, &i);
        if (id == MARG_CP_INNER && value)
            value = first_size (value, digits);
        args->value[id] = 0; // the last one counts, also where it is no number
        if ((text = text_of (args, id)))
            *text = NULL;
        margs_set (args, id, name, value ? value : "", NULL);
    }
}
