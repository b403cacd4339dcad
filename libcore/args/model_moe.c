/* model_moe.c - the experts that arguments describe
 *
 * Names and rules are those of Megatron-LM's validate_args() and TransformerConfig.
 * model_config_validate() checks the rules of the configuration itself.
 */

#include <errno.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/args/model.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

/* --- load balancing: lists of names and numbers --- */

enum { WORD_MAX = 40 };

/* The words of a list, of which each may hold several with blanks between. */
struct words {
    const struct arg_list *list;
    int next;       /* of the list */
    const char *at; /* rest of the one before; NULL: none */
};

/* The next word of argument 'what': 1, 0 if there is none, or -1 and a text if it is too long. */
static int read_word (struct words *w, const char *what, char word[WORD_MAX],
                      struct mg_error *err)
{
    size_t len = 0;

    while (len == 0) {
        if (!w->at && w->next >= w->list->count)
            return 0;
        if (!w->at)
            w->at = arg_list_word (w->list, w->next++);
        w->at += strspn (w->at, " ");
        len = strcspn (w->at, " ");
        if (len >= WORD_MAX)
            return mg_error_set (err, EINVAL, "%s: \"%.*s...\" is too long, want words of at most "
                                 "%d characters", what, WORD_MAX - 1, w->at, WORD_MAX - 1);
        memcpy (word, w->at, len);
        word[len] = '\0';
        w->at = len > 0 ? w->at + len : NULL;
    }
    return 1;
}

/* A type of load balancing: a loss, or a way to choose experts, or neither. */
static const struct balancing {
    const char *name;
    int loss; /* enum moe_loss, -1: none */
    enum moe_choice choice;
} balancings[] = {
    { "aux_loss", MOE_AUX_LOSS, MOE_TOPK },
    { "seq_aux_loss", MOE_SEQ_AUX_LOSS, MOE_TOPK },
    { "global_aux_loss", MOE_GLOBAL_AUX_LOSS, MOE_TOPK },
    { "sinkhorn", -1, MOE_SINKHORN },
    { "quantile_balancing", -1, MOE_QUANTILE },
    { "none", -1, MOE_TOPK },
};

static const char balancing_name[] = "--moe-router-load-balancing-type";

static const struct balancing *find_balancing (const char *word, struct mg_error *err)
{
    for (size_t i = 0; i < COUNT (balancings); i++) {
        if (strcmp (balancings[i].name, word) == 0)
            return &balancings[i];
    }
    mg_error_set (err, EINVAL, "--moe-router-load-balancing-type \"%s\": want aux_loss, "
                  "seq_aux_loss, global_aux_loss, sinkhorn, quantile_balancing or none", word);
    return NULL;
}

/* The coefficients; more than there are types are counted only. */
static int read_coeffs (const struct arg_list *list, double coeff[COUNT (balancings)],
                        struct mg_error *err)
{
    struct words words = { .list = list };
    char word[WORD_MAX];
    int n = 0, rc;

    while ((rc = read_word (&words, "--moe-aux-loss-coeff", word, err)) > 0) {
        double value;

        if (parse_double ("--moe-aux-loss-coeff", word, 0, 1e6, &value, err) < 0)
            return -1;
        if (n < (int)COUNT (balancings))
            coeff[n] = value;
        n++;
    }
    return rc < 0 ? -1 : n;
}

/* A type and its coefficient. */
static int add_balancing (const struct balancing *b, double coeff, struct model_moe *moe,
                          struct mg_error *err)
{
    if (b->loss >= 0)
        moe->aux_coeff[b->loss] = coeff;
    else if (b->choice != MOE_TOPK && coeff > 0)
        return mg_error_set (err, EINVAL, "--moe-aux-loss-coeff %g: %s has no auxiliary loss, "
                             "want 0", coeff, b->name);
    moe->choice = b->choice;
    return 0;
}

static int set_balancing (const struct train_moe *args, struct model_moe *moe,
                          struct mg_error *err)
{
    static const struct arg_list preset = { .first = "aux_loss", .count = 1 };
    struct words words = { .list = args->balancing.count > 0 ? &args->balancing : &preset };
    const struct balancing *first = NULL, *b;
    double coeff[COUNT (balancings)] = { 0 };
    unsigned seen = 0;
    int coeffs = read_coeffs (&args->aux_coeff, coeff, err), types = 0, rc;
    char word[WORD_MAX];

    if (coeffs < 0)
        return -1;
    for (; (rc = read_word (&words, balancing_name, word, err)) > 0; types++) {
        if (!(b = find_balancing (word, err)))
            return -1;
        if (seen & 1u << (b - balancings))
            return mg_error_set (err, EINVAL, "--moe-router-load-balancing-type: %s stands twice",
                                 word);
        seen |= 1u << (b - balancings);
        first = first ? first : b;
        if (b != first && (b->choice != MOE_TOPK || first->choice != MOE_TOPK))
            return mg_error_set (err, EINVAL, "--moe-router-load-balancing-type: %s stands alone",
                                 b->choice != MOE_TOPK ? b->name : first->name);
        if (add_balancing (b, coeff[types], moe, err) < 0)
            return -1;
    }
    if (rc < 0)
        return -1;
    if (coeffs != types && (coeffs > 0 || types > 1))
        return mg_error_set (err, EINVAL, "--moe-aux-loss-coeff has %d number%s, "
                             "--moe-router-load-balancing-type has %d type%s: want one for each",
                             coeffs, coeffs == 1 ? "" : "s", types, types == 1 ? "" : "s");
    return 0;
}

/* --- names --- */

/* The place of 'value' among names that stand with ", " between; -1 and a text. */
static int find_name (const char *argument, const char *value, const char *const *names, int n,
                      struct mg_error *err)
{
    for (int i = 0; i < n; i++) {
        if (strcmp (value, names[i]) == 0)
            return i;
    }
    return mg_error_set (err, EINVAL, "--%s \"%.40s\": want %s%s%s or %s", argument, value,
                         n > 2 ? names[0] : "", n > 2 ? ", " : "", names[n - 2], names[n - 1]);
}

static int set_router (const struct train_moe *args, struct model_moe *moe, struct mg_error *err)
{
    static const char *const scores[] = { "softmax", "sigmoid", "sqrtsoftplus" };
    static const char *const types[] = { "fp32", "fp64" };
    static const enum kern_score score[] = { KERN_SOFTMAX_CHOSEN, KERN_SIGMOID,
                                             KERN_SQRT_SOFTPLUS };
    int i = find_name ("moe-router-score-function", args->score, scores, 3, err);
    int type = find_name ("moe-router-dtype", args->router_dtype, types, 2, err);

    if (i < 0 || type < 0)
        return -1;
    moe->topk = args->topk;
    moe->score = i == 0 && args->pre_softmax ? KERN_SOFTMAX : score[i];
    moe->wide_router = type == 1;
    if (args->group_topk != TRAIN_UNSET) { // as in Megatron-LM, groups have no effect without
        moe->num_groups = args->num_groups != TRAIN_UNSET ? args->num_groups : 0;
        moe->group_topk = args->group_topk;
    }
    moe->scaling_factor = args->scaling_factor > 0 ? args->scaling_factor : 0;
    moe->z_coeff = args->z_coeff;
    moe->expert_bias = args->expert_bias;
    moe->bias_update_rate = args->bias_update_rate;
    moe->quantile_ema = args->quantile_ema;
    moe->jitter = args->jitter;
    moe->force_balance = args->force_balance;
    moe->forced_bias = args->forced_bias;
    return set_balancing (args, moe, err);
}

static int set_dispatch (const struct train_moe *args, struct model_moe *moe,
                         struct mg_error *err)
{
    static const char *const policies[] = { "probs", "position" };
    static const char *const dispatchers[] = { [MOE_ALL_GATHER] = "allgather",
                                               [MOE_ALL_TO_ALL] = "alltoall",
                                               "flex" };
    int policy, dispatcher;

    dispatcher = find_name ("moe-token-dispatcher-type", args->dispatcher, dispatchers, 3, err);
    policy = find_name ("moe-token-drop-policy", args->drop_policy, policies, 2, err);
    if (dispatcher < 0 || policy < 0)
        return -1;
    if (args->capacity_factor == 0)
        return mg_error_set (err, EINVAL, "--moe-expert-capacity-factor 0 drops every token; give "
                             "a negative number to drop none");
    moe->dispatch = dispatcher == MOE_ALL_GATHER ? MOE_ALL_GATHER : MOE_ALL_TO_ALL;
    moe->rank_capacity_factor = args->rank_capacity_factor;
    moe->capacity_factor = args->capacity_factor > 0 ? args->capacity_factor : 0;
    moe->pad_to_capacity = args->pad_to_capacity;
    moe->drop_by_position = policy == 1;
    return 0;
}

const char *train_dispatcher_note (const struct train_args *args)
{
    if (args->moe.experts == 0 || strcmp (args->moe.dispatcher, "flex") != 0)
        return NULL;
    return "--moe-token-dispatcher-type flex is taken as alltoall: DeepEP, HybridEP and NCCL EP "
           "are libraries for GPUs";
}

/* Arguments that would have no effect without experts. */
static int check_no_experts (const struct train_moe *args, struct mg_error *err)
{
    const struct {
        const char *name;
        bool given;
    } wanting[] = {
        { "moe-layer-freq", args->layers != NULL },
        { "moe-router-enable-expert-bias", args->expert_bias },
        { "moe-router-group-topk", args->group_topk != TRAIN_UNSET },
        { "moe-expert-capacity-factor", args->capacity_factor > 0 },
        { "moe-shared-expert-intermediate-size", args->shared_ffn != TRAIN_UNSET },
        { "moe-apply-probs-on-input", args->probs_on_input },
        { "moe-use-upcycling", args->upcycling },
    };

    for (size_t i = 0; i < COUNT (wanting); i++) {
        if (wanting[i].given)
            return mg_error_set (err, EINVAL, "--%s wants --num-experts", wanting[i].name);
    }
    return 0;
}

int train_model_moe (const struct train_args *args, struct model_config *m, struct mg_error *err)
{
    const struct train_moe *a = &args->moe;
    struct model_moe moe = {
        .experts = a->experts,
        .ffn_hidden_size = a->ffn != TRAIN_UNSET ? a->ffn : m->ffn_hidden_size,
        .shared_ffn = a->shared_ffn != TRAIN_UNSET ? a->shared_ffn : 0,
        .shared_gate = a->shared_gate,
        .shared_overlap = a->shared_overlap,
        .probs_on_input = a->probs_on_input,
        .latent = a->latent != TRAIN_UNSET ? a->latent : 0,
        .upcycling_granularity = a->upcycling ? a->upcycling_granularity : 0,
    };

    // names are read also where there are no experts
    if (set_router (a, &moe, err) < 0 || set_dispatch (a, &moe, err) < 0)
        return -1;
    if (a->experts == 0)
        return check_no_experts (a, err);
    if (a->layers
        && pattern_parse ("--moe-layer-freq", a->layers, m->num_layers, &moe.layers, err) < 0)
        return -1;
    m->moe = moe;
    return 0;
}

int train_args_check_moe (const struct train_args *args, struct mg_error *err)
{
    const struct train_moe *a = &args->moe;

    if (!a->upcycling && a->upcycling_granularity != 1)
        return mg_error_set (err, EINVAL, "--moe-upcycling-granularity %d wants "
                             "--moe-use-upcycling", a->upcycling_granularity);
    if (a->upcycling && !args->save)
        return mg_error_set (err, EINVAL, "--moe-use-upcycling wants --save DIR");
    if (a->upcycling && !args->load && !args->load_weights && !args->pretrained)
        return mg_error_set (err, EINVAL, "--moe-use-upcycling wants the weights of a dense model: "
                             "--load DIR, --pretrained-checkpoint DIR or --load-weights NAME");
    if (a->upcycling && a->experts % a->upcycling_granularity != 0)
        return mg_error_set (err, EINVAL, "--moe-upcycling-granularity %d does not divide "
                             "--num-experts %d", a->upcycling_granularity, a->experts);
    if (a->upcycling && (a->shared_ffn != TRAIN_UNSET || a->latent != TRAIN_UNSET))
        return mg_error_set (err, EINVAL, "--moe-use-upcycling and --%s exclude each other: a "
                             "dense model has no such part",
                             a->latent != TRAIN_UNSET ? "moe-latent-size"
                                                      : "moe-shared-expert-intermediate-size");
    return 0;
}
