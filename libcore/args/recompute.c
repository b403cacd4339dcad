/* recompute.c - the activations that arguments name for recomputation
 *
 * The rules are those of Megatron-LM's validate_args() and TransformerConfig.  As there, modules
 * count with the selective granularity alone, and method and number of layers only with some
 * granularity.  Their words are checked in any case.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/args/model.h"

/* Modules of Megatron-LM that no layer here has, and their requirements. */
static const struct {
    const char *name, *wants;
} absent[] = {
    { "mhc", "hyper-connections" },
    { "gdn_norm_out", "gated delta networks" },
};

static int add_module (const char *word, unsigned *modules, struct mg_error *err)
{
    for (int i = 0; i < RECOMPUTE_NUM_MODULES; i++) {
        if (strcmp (word, recompute_module_names[i]) == 0) {
            *modules |= RECOMPUTE_BIT (i);
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof (absent) / sizeof (absent[0]); i++) {
        if (strcmp (word, absent[i].name) == 0)
            return mg_error_set (err, EINVAL, "--recompute-modules %s: only layers with %s have "
                                 "it, this model has none", word, absent[i].wants);
    }
    return mg_error_set (err, EINVAL, "--recompute-modules: \"%.80s\" is unknown, want some of "
                         "core_attn, layernorm, mlp, mla_up_proj, moe, moe_act, shared_experts",
                         word);
}

/* The requirements of modules on the model.  As in Megatron-LM, moe and shared_experts
 * have no effect on a model without experts.
 */
static int check_modules (const struct train_args *args, unsigned modules, struct mg_error *err)
{
    if ((modules & RECOMPUTE_BIT (RECOMPUTE_MLA_UP_PROJ)) && !args->latent)
        return mg_error_set (err, EINVAL, "--recompute-modules mla_up_proj: only layers with "
                             "multi-latent attention have it, this model has none");
    if ((modules & RECOMPUTE_BIT (RECOMPUTE_MOE_ACT)) && args->moe.experts == 0)
        return mg_error_set (err, EINVAL, "--recompute-modules moe_act: only layers with experts "
                             "have it, this model has none");
    if ((modules & RECOMPUTE_BIT (RECOMPUTE_SHARED_EXPERTS)) && args->moe.shared_overlap
        && args->moe.shared_ffn != TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--recompute-modules shared_experts excludes "
                             "--moe-shared-expert-overlap");
    return 0;
}

/* Check the words of granularity, method and modules, whether they count or not. *modules becomes
 * the bits of the named modules.
 */
static int read_words (const struct train_args *args, unsigned *modules, struct mg_error *err)
{
    const struct arg_list *list = &args->recompute_modules;
    const char *method = args->recompute_method, *granularity = args->recompute_granularity;

    *modules = 0;
    if (granularity && strcmp (granularity, "full") != 0 && strcmp (granularity, "selective") != 0)
        return mg_error_set (err, EINVAL, "--recompute-granularity \"%.80s\": want full or "
                             "selective", granularity);
    if (method && strcmp (method, "uniform") != 0 && strcmp (method, "block") != 0)
        return mg_error_set (err, EINVAL, "--recompute-method \"%.80s\": want uniform or block",
                             method);
    for (int i = 0; i < list->count; i++) {
        if (add_module (arg_list_word (list, i), modules, err) < 0)
            return -1;
    }
    return 0;
}

static int set_selective (const struct train_args *args, unsigned modules, struct recompute *r,
                          struct mg_error *err)
{
    const char *chosen = args->recompute_activations
                             ? "; --recompute-activations chooses selective" : "";

    if (args->recompute_method)
        return mg_error_set (err, EINVAL, "--recompute-method wants --recompute-granularity full%s",
                             chosen);
    if (args->recompute_layers != TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--recompute-num-layers wants --recompute-granularity "
                             "full%s", chosen);
    r->granularity = RECOMPUTE_SELECTIVE;
    r->modules = args->recompute_modules.first ? modules : RECOMPUTE_BIT (RECOMPUTE_CORE_ATTN);
    if (args->moe.recompute) // as in Megatron-LM, beside the default core_attn
        r->modules |= RECOMPUTE_BIT (RECOMPUTE_MOE);
    return check_modules (args, r->modules, err);
}

static int set_full (const struct train_args *args, struct recompute *r, struct mg_error *err)
{
    const char *method = args->recompute_method;

    if (!method)
        return mg_error_set (err, EINVAL, "--recompute-granularity full wants --recompute-method "
                             "uniform or block");
    if (args->recompute_layers == TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--recompute-granularity full wants "
                             "--recompute-num-layers N");
    r->granularity = RECOMPUTE_FULL;
    r->method = strcmp (method, "block") == 0 ? RECOMPUTE_BLOCK : RECOMPUTE_UNIFORM;
    r->num_layers = args->recompute_layers;
    r->split_saved = args->split_activations;
    if (r->method == RECOMPUTE_UNIFORM && r->num_layers == 0) // Megatron-LM would not end
        return mg_error_set (err, EINVAL, "--recompute-method uniform wants "
                             "--recompute-num-layers of 1 or more");
    return 0;
}

int train_recompute (const struct train_args *args, struct recompute *recompute,
                     struct mg_error *err)
{
    const char *granularity = args->recompute_granularity;
    unsigned modules;

    *recompute = (struct recompute){ .granularity = RECOMPUTE_NOTHING };
    if (read_words (args, &modules, err) < 0)
        return -1;
    if (args->recompute_activations)
        granularity = "selective"; // as in Megatron-LM, whatever else is asked for
    if (args->moe.recompute && granularity && strcmp (granularity, "full") == 0)
        return mg_error_set (err, EINVAL, "--moe-layer-recompute and --recompute-granularity full "
                             "exclude each other");
    if (args->moe.recompute)
        granularity = "selective";
    if (args->split_activations && (!granularity || strcmp (granularity, "full") != 0))
        return mg_error_set (err, EINVAL, "--distribute-saved-activations wants "
                             "--recompute-granularity full");
    if (!granularity)
        return 0;
    if (strcmp (granularity, "selective") == 0)
        return set_selective (args, modules, recompute, err);
    return set_full (args, recompute, err);
}

const char *train_recompute_note (const struct train_args *args, const struct recompute *r)
{
    if (r->granularity == RECOMPUTE_NOTHING && args->recompute_method)
        return "--recompute-method has no effect without --recompute-granularity";
    if (r->granularity == RECOMPUTE_NOTHING && args->recompute_layers != TRAIN_UNSET)
        return "--recompute-num-layers has no effect without --recompute-granularity";
    if (r->granularity == RECOMPUTE_NOTHING && args->recompute_modules.count > 0)
        return "--recompute-modules has no effect without --recompute-granularity";
    if (r->granularity == RECOMPUTE_FULL && args->recompute_modules.count > 0)
        return "--recompute-modules has no effect with --recompute-granularity full";
    return NULL;
}

int train_args_check_recompute (const struct train_args *args, struct mg_error *err)
{
    struct recompute recompute;

    return train_recompute (args, &recompute, err);
}
