/* margs.c - the table of Megatron-style arguments, and how they are read
 *
 * Scanning never fails: a value that is missing or no number makes the argument unknown.
 * margs_set() is strict, and reports faults.  The rules are in margs_check.c.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/topo/context.h"
#include "libcore/topo/margs.h"

const struct arg_info margs_table[MARG_NUM] = {
    [MARG_TP] = { "tensor-model-parallel-size", "tp", ARG_INT, "N",
                  "ranks that share a layer" },
    [MARG_PP] = { "pipeline-model-parallel-size", "pp", ARG_INT, "N",
                  "stages of the pipeline" },
    [MARG_CP] = { "context-parallel-size", "cp", ARG_INT, "N",
                  "ranks that share a sequence" },
    [MARG_CP_COMM] = { "cp-comm-type", NULL, ARG_LIST, "NAME...",
                       "how context-parallel ranks exchange keys and values: p2p, all_gather, "
                       "a2a or a2a+p2p; one name, or one a layer" },
    [MARG_CP_INNER] = { "hierarchical-context-parallel-sizes", NULL, ARG_LIST, "A2A P2P",
                        "context-parallel ranks of each level, of --cp-comm-type a2a+p2p" },
    [MARG_EP] = { "expert-model-parallel-size", "ep", ARG_INT, "N",
                  "ranks that the experts of a layer are dealt out over" },
    [MARG_ETP] = { "expert-tensor-parallel-size", "etp", ARG_INT, "N",
                   "ranks that share an expert" },
    [MARG_VPP] = { "num-virtual-stages-per-pipeline-rank", "vpp", ARG_INT, "N",
                   "parts of the model on each pipeline rank" },
    [MARG_LAYERS_PER_VPP] = { "num-layers-per-virtual-pipeline-stage", NULL, ARG_INT, "N",
                              "layers of a virtual stage, in place of their number" },
    [MARG_GROUP_SIZE] = { "microbatch-group-size-per-virtual-pipeline-stage", NULL, ARG_INT,
                          "N", "microbatches that go through a virtual stage in a row" },
    [MARG_FIRST] = { "decoder-first-pipeline-num-layers", NULL, ARG_INT, "N",
                     "layers of the first pipeline rank" },
    [MARG_LAST] = { "decoder-last-pipeline-num-layers", NULL, ARG_INT, "N",
                    "layers of the last pipeline rank" },
    [MARG_WITH_EMBEDDING] = { "account-for-embedding-in-pipeline-split", NULL, ARG_FLAG,
                              NULL, "the embedding takes the place of a layer" },
    [MARG_WITH_LOSS] = { "account-for-loss-in-pipeline-split", NULL, ARG_FLAG, NULL,
                         "the loss takes the place of a layer" },
    [MARG_LAYOUT] = { "pipeline-model-parallel-layout", NULL, ARG_TEXT, "LAYOUT",
                      "stage by stage, such as Et*3|(tt|)*5L" },
    [MARG_TP_PP_DP] = { "use-tp-pp-dp-mapping", NULL, ARG_FLAG, NULL,
                        "rank order tp-cp-ep-pp-dp in place of tp-cp-ep-dp-pp" },
    [MARG_SEQUENCE_PARALLEL] = { "sequence-parallel", NULL, ARG_FLAG, NULL,
                                 "split norms, dropout and residuals by sequence over "
                                 "the tensor-parallel ranks" },
    [MARG_SPLIT_ACTIVATIONS] = { "distribute-saved-activations", NULL, ARG_FLAG, NULL,
                                 "full: tensor-parallel ranks keep a part each of "
                                 "what is kept" },
    [MARG_RECOMPUTE] = { "recompute-granularity", NULL, ARG_TEXT, "NAME",
                         "the backward pass computes activations again: full or "
                         "selective" },
    [MARG_RECOMPUTE_MODULES] = { "recompute-modules", NULL, ARG_LIST, "[NAME]...",
                                 "selective: core_attn, layernorm, mlp, mla_up_proj, "
                                 "moe, moe_act, shared_experts" },
    [MARG_RECOMPUTE_ACTIVATIONS] = { "recompute-activations", NULL, ARG_FLAG, NULL,
                                     "--recompute-granularity selective" },
    [MARG_GRAPH_IMPL] = { "cuda-graph-impl", NULL, ARG_TEXT, "NAME",
                          "capture passes into device graphs: none, local (layer by "
                          "layer), transformer_engine (the same) or full_iteration" },
    [MARG_GRAPH_MODULES] = { "cuda-graph-modules", NULL, ARG_LIST, "[NAME]...",
                             "local: attn, mlp, moe, moe_router, moe_preprocess" },
    [MARG_GRAPH_SCOPE] = { "cuda-graph-scope", NULL, ARG_LIST, "[NAME]...",
                           "older name of --cuda-graph-modules" },
    [MARG_GRAPH_ENABLE] = { "enable-cuda-graph", NULL, ARG_FLAG, NULL,
                            "older name of --cuda-graph-impl local" },
    [MARG_GRAPH_EXTERNAL] = { "external-cuda-graph", NULL, ARG_FLAG, NULL,
                              "older name of --cuda-graph-impl transformer_engine" },
    [MARG_LAYERS] = { "num-layers", NULL, ARG_INT, "N", "transformer layers" },
    [MARG_MTP_LAYERS] = { "mtp-num-layers", NULL, ARG_INT, "N",
                          "layers for multi-token prediction, 0: none" },
    [MARG_HIDDEN] = { "hidden-size", NULL, ARG_INT, "N", "hidden size" },
    [MARG_FFN] = { "ffn-hidden-size", NULL, ARG_INT, "N", "MLP size" },
    [MARG_SWIGLU] = { "swiglu", NULL, ARG_FLAG, NULL, "the MLP has a gate, through SiLU" },
    [MARG_HEADS] = { "num-attention-heads", NULL, ARG_INT, "N", "attention heads" },
    [MARG_KV_CHANNELS] = { "kv-channels", NULL, ARG_INT, "N", "size of a head" },
    [MARG_QUERY_GROUPS] = { "num-query-groups", NULL, ARG_INT, "N",
                            "key and value heads of --group-query-attention" },
    [MARG_GROUPED] = { "group-query-attention", NULL, ARG_FLAG, NULL,
                       "query heads share keys and values, see --num-query-groups" },
    [MARG_LATENT] = { "multi-latent-attention", NULL, ARG_FLAG, NULL,
                      "keys and values are products of one small vector of each "
                      "token, the latent" },
    [MARG_SEQ_LENGTH] = { "seq-length", NULL, ARG_INT, "N", "tokens of a sample" },
    [MARG_MAX_POSITIONS] = { "max-position-embeddings", NULL, ARG_INT, "N", "positions" },
    [MARG_VOCAB] = { "vocab-size", NULL, ARG_INT, "N",
                     "true vocabulary size; padded rows stay out of the softmax" },
    [MARG_PADDED_VOCAB] = { "padded-vocab-size", NULL, ARG_INT, "N",
                            "rows of the word embedding; alone, all of them count" },
    [MARG_EXPERTS] = { "num-experts", NULL, ARG_INT, "N",
                       "experts of a layer, in place of its MLP, 0: none" },
    [MARG_EXPERT_LAYERS] = { "moe-layer-freq", NULL, ARG_TEXT, "N|LIST",
                             "each N-th layer has experts, from the first on; or a "
                             "list with 1 for these layers" },
    [MARG_EXPERT_FFN] = { "moe-ffn-hidden-size", NULL, ARG_INT, "N",
                          "MLP size of an expert" },
    [MARG_SHARED_FFN] = { "moe-shared-expert-intermediate-size", NULL, ARG_INT, "N",
                          "MLP size of the shared experts, which all tokens go through" },
    [MARG_EXPERT_LATENT] = { "moe-latent-size", NULL, ARG_INT, "N",
                             "experts work on a projection of so many elements" },
    [MARG_NO_BIAS] = { "disable-bias-linear", NULL, ARG_FLAG, NULL,
                       "linear layers have no biases" },
    [MARG_ROUTER_TOPK] = { "moe-router-topk", NULL, ARG_INT, "N", "experts of a token" },
    [MARG_PROBS_ON_INPUT] = { "moe-apply-probs-on-input", NULL, ARG_FLAG, NULL,
                              "probabilities multiply what experts read, not what "
                              "they make of it" },
    [MARG_ROUTER_BALANCING] = { "moe-router-load-balancing-type", NULL, ARG_LIST, "NAME...",
                                "aux_loss, seq_aux_loss, global_aux_loss, several of "
                                "these; sinkhorn, quantile_balancing or none" },
    [MARG_ROUTER_GROUPS] = { "moe-router-num-groups", NULL, ARG_INT, "N",
                             "groups of experts, see --moe-router-group-topk" },
    [MARG_ROUTER_GROUP_TOPK] = { "moe-router-group-topk", NULL, ARG_INT, "N",
                                 "groups that the experts of a token are chosen from" },
    [MARG_CAPACITY] = { "moe-expert-capacity-factor", NULL, ARG_REAL, "X",
                        "tokens of an expert, as a multiple of the mean; more are "
                        "dropped" },
    [MARG_PAD] = { "moe-pad-expert-input-to-capacity", NULL, ARG_FLAG, NULL,
                   "each expert computes as many rows as its capacity has" },
    [MARG_DISPATCHER] = { "moe-token-dispatcher-type", NULL, ARG_TEXT, "NAME",
                          "how tokens reach the ranks of their experts: allgather or "
                          "alltoall" },
    [MARG_MOE_RECOMPUTE] = { "moe-layer-recompute", NULL, ARG_FLAG, NULL,
                             "--recompute-granularity selective, with module moe" },
    [MARG_MICRO_BATCH] = { "micro-batch-size", NULL, ARG_INT, "N",
                           "samples of a microbatch" },
    [MARG_GLOBAL_BATCH] = { "global-batch-size", NULL, ARG_INT, "N",
                            "samples of an iteration" },
    [MARG_RAMPUP] = { "rampup-batch-size", NULL, ARG_TRIPLE, "START INCREMENT SAMPLES",
                      "let the global batch size grow" },
    [MARG_BATCH_STEPS] = { "step-batch-size-schedule", NULL, ARG_TEXT, "T:N ...",
                           "global batch size N from T tokens on: \"0:16 1M:32\"" },
    [MARG_ROUND_BATCH] = { "decrease-batch-size-if-needed", NULL, ARG_FLAG, NULL,
                           "round the global batch size down to what the ranks can share" },
};

void margs_init (struct margs *args)
{
    memset (args, 0, sizeof (*args));
}

const char *arg_list_word (const struct arg_list *list, int i)
{
    return i == 0 ? list->first : list->rest[i - 1];
}

int margs_set (struct margs *args, enum marg id, const char *what, const char *value,
               struct mg_error *err)
{
    enum arg_type type = margs_table[id].type;
    bool is_size = type == ARG_INT || id == MARG_CP_INNER;
    int size = 1;
    double number;

    if (is_size && parse_int (what, value, 1, GEOMETRY_SIZE_MAX, &size, err) < 0)
        return -1;
    if (type == ARG_REAL && parse_double (what, value, -1e15, 1e15, &number, err) < 0)
        return -1;
    if (type != ARG_FLAG && (!value || !*value))
        return mg_error_set (err, EINVAL, "%s is empty", what);
    args->value[id] = type == ARG_REAL ? number > 0 : size;
    args->text[id] = value;
    args->list[id] = (struct arg_list){ .first = value, .count = 1 };
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

const struct arg_info *margs_find_brief (const char *name, size_t len)
{
    for (int id = 0; id < MARG_NUM; id++) {
        const char *brief = margs_table[id].brief;

        if (brief && strlen (brief) == len && memcmp (brief, name, len) == 0)
            return &margs_table[id];
    }
    return NULL;
}

static bool is_parallel_size (const char *name, size_t len)
{
    static const char tail[] = "-model-parallel-size";
    size_t n = sizeof (tail) - 1;

    return len > n && strncmp (name + len - n, tail, n) == 0;
}

/* Returns one of several names of exchanges: the first that deals out heads among all ranks, else
 * the first that does so among some, else the first.
 */
static const char *most_demanding (const struct arg_list *list)
{
    const char *value = list->first;

    for (int i = 1; i < list->count; i++) {
        int now = context_comm_parse (value), next = context_comm_parse (arg_list_word (list, i));

        if (now != CONTEXT_A2A && next >= CONTEXT_A2A && (next == CONTEXT_A2A || now < next))
            value = arg_list_word (list, i);
    }
    return value;
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

/* The words of a list from 'value', which stood behind "=", or else from argv[*i + 1] on. */
static void scan_list (struct margs *args, enum marg id, const char *value, int argc,
                       char *const *argv, int *i)
{
    struct arg_list *list = &args->list[id];
    char digits[16];

    *list = (struct arg_list){ .first = value ? value : "", .count = value != NULL };
    while (*i + 1 < argc && strncmp (argv[*i + 1], "--", 2) != 0) {
        ++*i;
        if (list->count++ == 0)
            list->first = argv[*i];
        else if (!list->rest)
            list->rest = &argv[*i];
    }
    args->value[id] = id != MARG_CP_INNER;
    args->text[id] = *list->first ? most_demanding (list) : NULL;
    if (id == MARG_CP_INNER)
        parse_int ("", first_size (list->first, digits), 1, GEOMETRY_SIZE_MAX, &args->value[id],
                   NULL);
}

void margs_scan (struct margs *args, int argc, char *const *argv)
{
    for (int i = 0; i < argc; i++) {
        const char *name, *value;
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
        if (margs_table[id].type == ARG_LIST) {
            scan_list (args, id, value, argc, argv, &i);
            continue;
        }
        if (!value && margs_table[id].type != ARG_FLAG && i + 1 < argc)
            value = argv[++i];
        args->value[id] = 0; // the last one counts, also where it is no number
        args->text[id] = NULL;
        margs_set (args, id, name, value ? value : "", NULL);
    }
}
