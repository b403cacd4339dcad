/* margs_check.c - the rules of a model on a geometry, as one table
 *
 * The names in brackets are those of Megatron-LM's own code where the rule stands there.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/multiple.h"
#include "libcore/topo/context.h"
#include "libcore/topo/environment.h"
#include "libcore/topo/graph_args.h"
#include "libcore/topo/margs.h"
#include "libcore/topo/pattern.h"
#include "libcore/topo/rule.h"
#include "libcore/topo/stages.h"

static const char tp_pp_dp_order[] = "tp-cp-ep-pp-dp";

/* ---- the command line against the job ---------------------------------------------- */

static const struct size {
    enum marg id;
    enum geometry_field field;
} sizes[] = {
    { MARG_TP, GEOMETRY_TP }, { MARG_CP, GEOMETRY_CP }, { MARG_PP, GEOMETRY_PP },
    { MARG_EP, GEOMETRY_EP }, { MARG_ETP, GEOMETRY_ETP }, { MARG_VPP, GEOMETRY_VPP },
};

static int *size_of (struct geometry *g, enum geometry_field field)
{
    switch (field) {
    case GEOMETRY_TP:
        return &g->tp;
    case GEOMETRY_CP:
        return &g->cp;
    case GEOMETRY_PP:
        return &g->pp;
    case GEOMETRY_EP:
        return &g->ep;
    case GEOMETRY_ETP:
        return &g->etp;
    default:
        return &g->vpp;
    }
}

static bool is_fixed (const struct margs_job *job, enum geometry_field field)
{
    return job && (job->fixed & 1u << field);
}

static void merge_size (const struct margs *a, struct geometry *g, const struct size *s,
                        const struct margs_job *job, struct rule_report *r)
{
    const char *name = margs_table[s->id].name, *option = geometry_field_names[s->field];
    int *size = size_of (g, s->field);
    int given = a->value[s->id], decided = *size;
    bool fixed = is_fixed (job, s->field);

    if (!given)
        return;
    if (s->id == MARG_ETP)
        decided = geometry_etp (g);
    if (s->id == MARG_VPP && decided <= 1)
        fixed = false;
    if (!fixed)
        *size = given;
    else if (given != decided && job->by_variables)
        rule_broken (r, "--%s %d contradicts the job's %s=%d; give one of them", name, given,
                     environment_names[s->field], decided);
    else if (given != decided)
        rule_broken (r, "--%s %d contradicts the job's %s %d; give one of them, or "
                     "--megatron-%s=%d", name, given, option, decided, option, given);
}

static void merge_order (struct geometry *g, const struct margs_job *job, struct rule_report *r)
{
    if (!is_fixed (job, GEOMETRY_ORDER))
        strcpy (g->order, tp_pp_dp_order);
    else if (strcmp (g->order, tp_pp_dp_order) != 0 && job->by_variables)
        rule_broken (r, "--use-tp-pp-dp-mapping contradicts the job's %s=%s; give one of them",
                     environment_names[GEOMETRY_ORDER], g->order);
    else if (strcmp (g->order, tp_pp_dp_order) != 0)
        rule_broken (r, "--use-tp-pp-dp-mapping contradicts the job's order %s; give "
                     "--megatron-order=%s", g->order, tp_pp_dp_order);
}

int margs_merge (const struct margs *a, struct geometry *g, const struct margs_job *job,
                 geometry_report_f report, void *arg)
{
    struct rule_report r = { .f = report, .arg = arg, .rule = "conflict" };

    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
        merge_size (a, g, &sizes[i], job, &r);
    if (a->value[MARG_TP_PP_DP])
        merge_order (g, job, &r);
    return r.count;
}

/* ---- rules ------------------------------------------------------------------------- */

struct margs_model {
    const struct margs *args;
    const struct geometry *g;
    int vpp; /* virtual stages by options and arguments, at least 1; 0: not known */
};

static int get (const struct margs_model *m, enum marg id)
{
    return m->args->value[id];
}

/* Write "or tp 4 or 6": the sizes nearest to 'size' that divide 'value'. */
static void suggest_size (int64_t value, int size, const char *name, char *text, size_t n)
{
    int64_t below = size, above = size;

    while (below > 1 && value % below != 0)
        below--;
    while (above < value && value % above != 0)
        above++;
    if (above > value)
        snprintf (text, n, ", or %s %d", name, (int)below);
    else
        snprintf (text, n, ", or %s %d or %d", name, (int)below, (int)above);
}

static void check_multiple (struct rule_report *r, const char *name, int64_t value, int64_t size,
                            const char *of, const char *more)
{
    struct mg_error err;

    if (multiple_check (name, value, size, of, more, &err) < 0)
        rule_broken (r, "%s", err.text);
}

/* The same for the size of an axis; the text also names sizes that would do. */
static void check_axis (struct rule_report *r, const char *name, int64_t value, int size,
                        const char *axis)
{
    char of[40], more[60];

    if (value % size == 0)
        return;
    snprintf (of, sizeof (of), "%s %d", axis, size);
    suggest_size (value, size, axis, more, sizeof (more));
    check_multiple (r, name, value, size, of, more);
}

static void check_hidden_heads (const struct margs_model *m, struct rule_report *r)
{
    int hidden = get (m, MARG_HIDDEN), heads = get (m, MARG_HEADS);
    char of[60];

    if (!hidden || !heads || get (m, MARG_KV_CHANNELS) || get (m, MARG_LATENT))
        return;
    snprintf (of, sizeof (of), "num-attention-heads %d", heads);
    check_multiple (r, "hidden-size", hidden, heads, of, ", or give kv-channels");
}

static void check_heads_tp (const struct margs_model *m, struct rule_report *r)
{
    if (get (m, MARG_HEADS))
        check_axis (r, "num-attention-heads", get (m, MARG_HEADS), m->g->tp, "tp");
}

/* Size of a head; 0: not known. */
static int head_size (const struct margs_model *m)
{
    int hidden = get (m, MARG_HIDDEN), heads = get (m, MARG_HEADS);

    if (get (m, MARG_KV_CHANNELS))
        return get (m, MARG_KV_CHANNELS);
    return heads ? hidden / heads : 0;
}

/* [SelfAttention]  Fewer groups than ranks: the fused weight is dealt out evenly by rows. */
static void check_fused (const struct margs_model *m, int groups, struct rule_report *r)
{
    int64_t heads = get (m, MARG_HEADS), size = head_size (m);
    int tp = m->g->tp;

    if (heads && size && tp % groups == 0 && groups < tp
        && (heads + 2LL * groups) * size % tp != 0)
        rule_broken (r, "num-query-groups %d is less than tp %d, and the (num-attention-heads %d + "
                     "2 x %d) x kv-channels %d rows of queries, keys and values are no multiple "
                     "of tp", groups, tp, (int)heads, groups, (int)size);
}

/* [TransformerConfig, SelfAttention, validate_args] */
static void check_query_groups (const struct margs_model *m, struct rule_report *r)
{
    int groups = get (m, MARG_QUERY_GROUPS), heads = get (m, MARG_HEADS), tp = m->g->tp;
    char of[40];

    if (get (m, MARG_GROUPED) && get (m, MARG_LATENT))
        rule_broken (r, "multi-latent-attention and group-query-attention exclude each other");
    if (get (m, MARG_GROUPED) && !groups)
        groups = 1;
    if (!groups || get (m, MARG_LATENT))
        return;
    check_fused (m, groups, r);
    if (groups % tp != 0 && tp % groups != 0)
        rule_broken (r, "num-query-groups %d and tp %d: neither divides the other", groups, tp);
    snprintf (of, sizeof (of), "num-query-groups %d", groups);
    if (heads)
        check_multiple (r, "num-attention-heads", heads, groups, of, "");
}

/* Megatron-LM's default of --ffn-hidden-size; 0: not known. */
static int64_t ffn_size (const struct margs_model *m)
{
    int64_t hidden = get (m, MARG_HIDDEN);

    if (get (m, MARG_FFN))
        return get (m, MARG_FFN);
    return get (m, MARG_SWIGLU) ? hidden * 8 / 3 / 64 * 64 : hidden * 4;
}

/* True if some layer certainly has no experts. */
static bool has_dense_layers (const struct margs_model *m)
{
    const char *text = m->args->text[MARG_EXPERT_LAYERS];
    int layers = get (m, MARG_LAYERS);
    struct pattern p;

    if (!get (m, MARG_EXPERTS))
        return true;
    if (!text || !layers || pattern_parse (margs_table[MARG_EXPERT_LAYERS].name, text, layers, &p,
                                           NULL) < 0)
        return false;
    if (!p.list)
        return p.every > 1 && layers > 1; // layer 0 has experts
    for (int i = 0; i < layers; i++) {
        if (!pattern_at (&p, i, false))
            return true;
    }
    return false;
}

static void check_ffn_tp (const struct margs_model *m, struct rule_report *r)
{
    int64_t ffn = ffn_size (m);

    if (ffn && ffn % m->g->tp != 0 && has_dense_layers (m))
        check_axis (r, get (m, MARG_FFN) ? "ffn-hidden-size" : "ffn-hidden-size (by default)",
                    ffn, m->g->tp, "tp");
}

static void check_expert_ffn_etp (const struct margs_model *m, struct rule_report *r)
{
    int64_t ffn = get (m, MARG_EXPERT_FFN);

    if (!get (m, MARG_EXPERTS))
        return;
    if (ffn || ffn_size (m))
        check_axis (r, ffn ? "moe-ffn-hidden-size" : "ffn-hidden-size",
                    ffn ? ffn : ffn_size (m), geometry_etp (m->g), "etp");
}

static void check_shared_ffn_tp (const struct margs_model *m, struct rule_report *r)
{
    if (get (m, MARG_EXPERTS) && get (m, MARG_SHARED_FFN))
        check_axis (r, margs_table[MARG_SHARED_FFN].name, get (m, MARG_SHARED_FFN), m->g->tp,
                    "tp");
}

static void check_vocab_tp (const struct margs_model *m, struct rule_report *r)
{
    if (get (m, MARG_PADDED_VOCAB))
        check_axis (r, "padded-vocab-size", get (m, MARG_PADDED_VOCAB), m->g->tp, "tp");
}

static void check_vocab (const struct margs_model *m, struct rule_report *r)
{
    int vocab = get (m, MARG_VOCAB), padded = get (m, MARG_PADDED_VOCAB);

    if (vocab && padded && vocab > padded)
        rule_broken (r, "vocab-size %d is more than padded-vocab-size %d", vocab, padded);
}

/* Each rank gets one piece from the front and one from the back of the sequence. */
static void check_seq_cp (const struct margs_model *m, struct rule_report *r)
{
    int64_t size = 2LL * m->g->cp;
    char of[40];

    if (!get (m, MARG_SEQ_LENGTH) || m->g->cp == 1)
        return;
    snprintf (of, sizeof (of), "2 x cp %d = %lld", m->g->cp, (long long)size);
    check_multiple (r, "seq-length", get (m, MARG_SEQ_LENGTH), size, of, "");
}

/* [TransformerEngine]  Exchanges that deal out heads. */
static void check_heads_cp (const struct margs_model *m, struct rule_report *r)
{
    const struct context_config c = { .inner = get (m, MARG_CP_INNER) };
    const char *word = m->args->text[MARG_CP_COMM];
    int comm = word ? context_comm_parse (word) : -1, inner, cp = m->g->cp;
    int groups = get (m, MARG_QUERY_GROUPS) ? get (m, MARG_QUERY_GROUPS) : get (m, MARG_GROUPED);
    char of[160];

    inner = comm < 0 ? 1 : context_inner (&c, (enum context_comm)comm, cp);
    if (cp == 1 || inner < 2 || cp % inner != 0)
        return;
    snprintf (of, sizeof (of), "tp %d x %s %d = %lld, which cp-comm-type %s needs", m->g->tp,
              inner == cp ? "cp" : "the first of the hierarchical sizes", inner,
              (long long)m->g->tp * inner, word);
    if (get (m, MARG_HEADS))
        check_multiple (r, "num-attention-heads", get (m, MARG_HEADS), (int64_t)m->g->tp * inner,
                        of, "");
    if (groups && !get (m, MARG_LATENT))
        check_multiple (r, "num-query-groups", groups, (int64_t)m->g->tp * inner, of, "");
}

static void check_seq_sp (const struct margs_model *m, struct rule_report *r)
{
    int64_t size = (int64_t)m->g->cp * m->g->tp;
    char of[100];

    // if the rule of cp is broken, this one is not reported
    if (!get (m, MARG_SEQ_LENGTH) || !get (m, MARG_SEQUENCE_PARALLEL)
        || (m->g->cp > 1 && get (m, MARG_SEQ_LENGTH) % (2LL * m->g->cp) != 0))
        return;
    if (m->g->cp == 1)
        snprintf (of, sizeof (of), "tp %d, which sequence-parallel needs", m->g->tp);
    else
        snprintf (of, sizeof (of), "cp %d x tp %d = %lld, which sequence-parallel needs",
                  m->g->cp, m->g->tp, (long long)size);
    check_multiple (r, "seq-length", get (m, MARG_SEQ_LENGTH), size, of, "");
}

static void check_positions (const struct margs_model *m, struct rule_report *r)
{
    int seq = get (m, MARG_SEQ_LENGTH), positions = get (m, MARG_MAX_POSITIONS);

    if (seq && positions && positions < seq)
        rule_broken (r, "max-position-embeddings %d is less than seq-length %d", positions, seq);
}

/* The stages' configuration; num_layers 0: not known. */
static void describe_stages (const struct margs *a, const struct geometry *g,
                             struct stages_config *c)
{
    *c = (struct stages_config){
        .num_layers = a->value[MARG_LAYERS],
        .pp = g->pp,
        .vpp = g->vpp > 1 ? g->vpp : 0,
        .layers_per_vpp = a->value[MARG_LAYERS_PER_VPP],
        .first = a->value[MARG_FIRST],
        .last = a->value[MARG_LAST],
        .with_embedding = a->value[MARG_WITH_EMBEDDING],
        .with_loss = a->value[MARG_WITH_LOSS],
        .layout = a->text[MARG_LAYOUT],
        .mtp_layers = a->value[MARG_MTP_LAYERS],
    };
}

struct stages *margs_stages (const struct margs *args, const struct geometry *g,
                             struct mg_error *err)
{
    int spellings = (args->value[MARG_VPP] > 0) + (args->value[MARG_LAYERS_PER_VPP] > 0)
                    + (args->text[MARG_LAYOUT] != NULL);
    struct stages_config c;

    if (spellings > 1) {
        mg_error_set (err, EINVAL, "--num-virtual-stages-per-pipeline-rank, --num-layers-per-"
                      "virtual-pipeline-stage and --pipeline-model-parallel-layout exclude each "
                      "other");
        return NULL;
    }
    describe_stages (args, g, &c);
    return stages_create (&c, err);
}

static void check_layers (const struct margs_model *m, struct rule_report *r)
{
    const char *layout = m->args->text[MARG_LAYOUT];
    struct stages *stages;
    struct mg_error err;

    if (!get (m, MARG_LAYERS))
        return;
    stages = margs_stages (m->args, m->g, &err);
    if (!stages)
        rule_broken (r, "%s", err.text);
    else if (stages->vpp > 1 && m->g->pp == 1 && m->g->vpp <= 1) // else vpp-needs-pp says so
        rule_broken (r, "pipeline-model-parallel-layout \"%s\" has %d stages, which need "
                     "pp > 1, but pp is 1", layout, stages->vpp);
    stages_destroy (stages);
}

/* [validate_args, TransformerConfig] */
static void check_saved_activations (const struct margs_model *m, struct rule_report *r)
{
    if (!get (m, MARG_SPLIT_ACTIVATIONS))
        return;
    if (m->g->tp <= 1)
        rule_broken (r, "distribute-saved-activations needs tp > 1, but tp is %d", m->g->tp);
    else if (get (m, MARG_SEQUENCE_PARALLEL))
        rule_broken (r, "distribute-saved-activations excludes sequence-parallel, which splits "
                     "them already");
}

/* [validate_args, TransformerConfig]  The line must also have the other sizes of the
 * model; otherwise experts may be given elsewhere.
 */
static void check_experts_ep (const struct margs_model *m, struct rule_report *r)
{
    static const enum marg sizes_of_experts[] = { MARG_EXPERT_FFN, MARG_EXPERT_LATENT };

    if (get (m, MARG_EXPERTS)) {
        check_axis (r, "num-experts", get (m, MARG_EXPERTS), m->g->ep, "ep");
        return;
    }
    if (!get (m, MARG_LAYERS))
        return;
    if (m->g->ep > 1)
        rule_broken (r, "ep %d needs experts, and there is no --num-experts", m->g->ep);
    for (size_t i = 0; i < sizeof (sizes_of_experts) / sizeof (sizes_of_experts[0]); i++) {
        enum marg id = sizes_of_experts[i];

        if (get (m, id))
            rule_broken (r, "%s %d needs experts, and there is no --num-experts",
                         margs_table[id].name, get (m, id));
    }
}

/* [MoELayer.forward] */
static void check_experts_sp (const struct margs_model *m, struct rule_report *r)
{
    if (get (m, MARG_EXPERTS) && m->g->tp > 1 && !get (m, MARG_SEQUENCE_PARALLEL))
        rule_broken (r, "num-experts %d with tp %d needs --sequence-parallel",
                     get (m, MARG_EXPERTS), m->g->tp);
}

/* [TransformerConfig, SharedExpertMLP] */
static void check_experts_bias (const struct margs_model *m, struct rule_report *r)
{
    int etp = geometry_etp (m->g);

    if (!get (m, MARG_EXPERTS) || get (m, MARG_NO_BIAS))
        return;
    if (get (m, MARG_SHARED_FFN))
        rule_broken (r, "moe-shared-expert-intermediate-size %d needs --disable-bias-linear: "
                     "shared experts have no biases", get (m, MARG_SHARED_FFN));
    else if (etp > 1)
        rule_broken (r, "num-experts %d with etp %d%s needs --disable-bias-linear, or etp 1: "
                     "biases of experts are not split", get (m, MARG_EXPERTS), etp,
                     m->g->etp ? "" : " (it defaults to tp)");
}

enum { DEFAULT_TOPK = 2 }; // Megatron-LM's

static int router_topk (const struct margs_model *m)
{
    return get (m, MARG_ROUTER_TOPK) ? get (m, MARG_ROUTER_TOPK) : DEFAULT_TOPK;
}

/* [qb_dual_update]  The next best expert has to exist, and each expert gets the same. */
static void check_quantile (const struct margs_model *m, struct rule_report *r)
{
    int64_t tokens = (int64_t)get (m, MARG_SEQ_LENGTH) * get (m, MARG_MICRO_BATCH);
    int experts = get (m, MARG_EXPERTS), topk = router_topk (m);

    if (topk == experts)
        rule_broken (r, "quantile_balancing needs moe-router-topk %d to be less than num-experts "
                     "%d", topk, experts);
    else if (topk < experts && tokens < INT64_MAX / GEOMETRY_SIZE_MAX
             && tokens * topk % experts != 0)
        rule_broken (r, "quantile_balancing needs num-experts %d to divide the %lld choices of a "
                     "microbatch (micro-batch-size %d x seq-length %d x moe-router-topk %d)",
                     experts, (long long)(tokens * topk), get (m, MARG_MICRO_BATCH),
                     get (m, MARG_SEQ_LENGTH), topk);
}

static void check_router_topk (const struct margs_model *m, struct rule_report *r)
{
    const char *balancing = m->args->text[MARG_ROUTER_BALANCING];
    int experts = get (m, MARG_EXPERTS), topk = router_topk (m);

    if (!experts)
        return;
    if (topk > experts)
        rule_broken (r, "moe-router-topk%s %d is more than num-experts %d",
                     get (m, MARG_ROUTER_TOPK) ? "" : " (by default)", topk, experts);
    if (topk != 1 && get (m, MARG_PROBS_ON_INPUT))
        rule_broken (r, "moe-apply-probs-on-input needs moe-router-topk 1, not %d%s", topk,
                     get (m, MARG_ROUTER_TOPK) ? "" : " (by default)");
    if (balancing && strcmp (balancing, "quantile_balancing") == 0)
        check_quantile (m, r);
}

/* [TransformerConfig, group_limited_topk]  A number of groups alone has no effect there. */
static void check_router_groups (const struct margs_model *m, struct rule_report *r)
{
    int groups = get (m, MARG_ROUTER_GROUPS), topk = get (m, MARG_ROUTER_GROUP_TOPK);
    int experts = get (m, MARG_EXPERTS);
    int64_t most;
    char of[60];

    if (!groups && topk && experts)
        rule_broken (r, "moe-router-group-topk %d needs --moe-router-num-groups", topk);
    if (!groups)
        return;
    snprintf (of, sizeof (of), "moe-router-num-groups %d", groups);
    if (experts)
        check_multiple (r, "num-experts", experts, groups, of, "");
    if (topk > groups)
        rule_broken (r, "moe-router-group-topk %d is more than moe-router-num-groups %d", topk,
                     groups);
    most = (int64_t)topk * (experts / groups);
    if (topk && topk <= groups && experts % groups == 0 && router_topk (m) <= experts
        && router_topk (m) > most)
        rule_broken (r, "moe-router-topk %d is more than the %lld experts of moe-router-group-topk "
                     "%d of %d groups", router_topk (m), (long long)most, topk, groups);
}

static void check_graphs (const struct margs_model *m, struct rule_report *r)
{
    graph_args_check (m->args, m->g, r);
}

/* True if the global batch size never changes. */
static bool batch_is_fixed (const struct margs_model *m)
{
    return get (m, MARG_GLOBAL_BATCH) && get (m, MARG_MICRO_BATCH) && !get (m, MARG_RAMPUP)
           && !get (m, MARG_BATCH_STEPS) && !get (m, MARG_ROUND_BATCH);
}

static void check_batch (const struct margs_model *m, struct rule_report *r)
{
    int64_t micro = get (m, MARG_MICRO_BATCH), dp = geometry_dp (m->g);
    char of[80];

    if (!batch_is_fixed (m) || !dp)
        return;
    snprintf (of, sizeof (of), "micro-batch-size %lld x dp %lld = %lld", (long long)micro,
              (long long)dp, (long long)(micro * dp));
    check_multiple (r, "global-batch-size", get (m, MARG_GLOBAL_BATCH), micro * dp, of, "");
}

/* [get_pp_rank_microbatches, forward_backward_pipelining_with_interleaving]  The schedule itself
 * refuses the same numbers in the same words (schedule/sched_interleaved.c), for batch sizes that
 * change during a run.
 */
static void check_microbatches_vpp (const struct margs_model *m, struct rule_report *r)
{
    int64_t each = (int64_t)get (m, MARG_MICRO_BATCH) * geometry_dp (m->g), n, rest;
    int pp = m->g->pp, group = get (m, MARG_GROUP_SIZE) ? get (m, MARG_GROUP_SIZE) : pp;

    if (m->vpp <= 1)
        return;
    if (group < pp)
        rule_broken (r, "microbatch-group-size-per-virtual-pipeline-stage %d is less than pp %d",
                     group, pp);
    if (group < pp || !batch_is_fixed (m) || !each || get (m, MARG_GLOBAL_BATCH) % each != 0)
        return;
    n = get (m, MARG_GLOBAL_BATCH) / each;
    rest = n % group;
    if (n < group)
        rule_broken (r, "%lld microbatches (global-batch-size %d / micro-batch-size %d x "
                     "dp %d) are less than a group of %d, which %d virtual stages need",
                     (long long)n, get (m, MARG_GLOBAL_BATCH), get (m, MARG_MICRO_BATCH),
                     geometry_dp (m->g), group, m->vpp);
    else if (rest != 0 && rest < pp)
        rule_broken (r, "%lld microbatches in groups of %d leave %lld, want none or at least %d "
                     "(the pipeline ranks); use %lld or %lld microbatches", (long long)n, group,
                     (long long)rest, pp, (long long)(n - rest), (long long)(n - rest + pp));
}

static const struct rule {
    const char *name;
    void (*check) (const struct margs_model *m, struct rule_report *r);
} rules[] = {
    { "hidden-heads", check_hidden_heads },
    { "heads-tp", check_heads_tp },
    { "query-groups", check_query_groups },
    { "ffn-tp", check_ffn_tp },
    { "expert-ffn-etp", check_expert_ffn_etp },
    { "shared-ffn-tp", check_shared_ffn_tp },
    { "vocab-tp", check_vocab_tp },
    { "vocab", check_vocab },
    { "seq-cp", check_seq_cp },
    { "heads-cp", check_heads_cp },
    { "seq-sp", check_seq_sp },
    { "positions", check_positions },
    { "saved-activations", check_saved_activations },
    { "layers", check_layers },
    { "experts-ep", check_experts_ep },
    { "experts-sp", check_experts_sp },
    { "experts-bias", check_experts_bias },
    { "router-topk", check_router_topk },
    { "router-groups", check_router_groups },
    { "graphs", check_graphs },
    { "batch", check_batch },
    { "microbatches-vpp", check_microbatches_vpp },
};

/* Virtual stages of a rank, if they are known. */
static int count_virtual (const struct margs *a, const struct geometry *g)
{
    struct stages_config c;
    struct stages *stages;
    int vpp = g->vpp > 1 ? g->vpp : 1;

    if (!a->text[MARG_LAYOUT] && !a->value[MARG_LAYERS_PER_VPP])
        return vpp;
    describe_stages (a, g, &c);
    stages = c.num_layers ? stages_create (&c, NULL) : NULL;
    vpp = stages ? stages->vpp : 0;
    stages_destroy (stages);
    return vpp;
}

int margs_check (const struct margs *args, const struct geometry *g,
                 geometry_report_f report, void *arg)
{
    struct rule_report r = { .f = report, .arg = arg };
    struct margs_model m = { args, g, count_virtual (args, g) };

    for (size_t i = 0; i < sizeof (rules) / sizeof (rules[0]); i++) {
        r.rule = rules[i].name;
        rules[i].check (&m, &r);
    }
    return r.count;
}

bool margs_note_etp (const struct margs *args, const struct geometry *g, struct mg_error *text)
{
    if (!args->value[MARG_EXPERTS] || args->value[MARG_ETP] || g->etp || g->tp == 1 || g->ep == 1)
        return false;
    mg_error_set (text, 0, "etp is not given and defaults to tp %d: each expert is split over %d "
                  "ranks, and etp %d x ep %d = %lld ranks share the experts of a layer", g->tp,
                  g->tp, g->tp, g->ep, (long long)g->tp * g->ep);
    return true;
}

int margs_validate (const struct margs *args, const struct geometry *g, struct mg_error *err)
{
    struct mg_error first = { .text = "" };

    if (margs_check (args, g, rule_keep_first, &first) == 0)
        return 0;
    return mg_error_set (err, EINVAL, "%s", first.text);
}
