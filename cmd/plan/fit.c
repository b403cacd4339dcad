/* fit.c - megatron plan memory --choices, --fit: which recomputation a size asks for
 *
 * Each choice is planned as a run with its arguments would be, on one rank of each kind.  A choice
 * counts by its worst rank.  Choices are sorted by what they compute again; one that takes no less
 * memory than a cheaper one is left out.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/memory.h"
#include "cmd/plan/plan.h"
#include "libcore/nn/recompute.h"
#include "libcore/train/config.h"

enum { ARGUMENTS_MAX = 160 };

struct choice {
    char arguments[ARGUMENTS_MAX]; /* "": nothing is computed again */
    struct train_args args;
    char *word[RECOMPUTE_NUM_MODULES]; /* of args.recompute_modules */
    int64_t bytes;  /* of the rank that takes the most */
    double again;   /* computed again, as a part of the forward passes; the most of any rank */
    int order;      /* as it was made */
};

struct choices {
    struct choice *choice;
    int count;
    int *rank; /* one of each kind */
    int num_ranks;
};

/* --- which there are --- */

static struct choice *add_choice (struct choices *c, const struct train_args *args)
{
    struct choice *choice = &c->choice[c->count];

    *choice = (struct choice){ .args = *args, .order = c->count++ };
    choice->args.recompute_activations = choice->args.split_activations = false;
    choice->args.moe.recompute = false;
    choice->args.recompute_granularity = choice->args.recompute_method = NULL;
    choice->args.recompute_modules = (struct arg_list){ NULL, NULL, 0 };
    choice->args.recompute_layers = TRAIN_UNSET;
    return choice;
}

/* Remove the last choice if a rule excludes it, such as the rules of device graphs. */
static void drop_excluded (struct choices *c)
{
    struct run_config config;

    run_config_init (&config, &c->choice[c->count - 1].args);
    if (run_config_geometry (&config, NULL) < 0 || run_config_check_rules (&config, NULL) < 0)
        c->count--;
    run_config_clear (&config);
}

static void add_selective (struct choices *c, const struct train_args *args, unsigned modules)
{
    struct choice *choice = add_choice (c, args);
    int count = 0;
    size_t len;

    snprintf (choice->arguments, ARGUMENTS_MAX,
              "--recompute-granularity selective --recompute-modules");
    for (int i = 0; i < RECOMPUTE_NUM_MODULES; i++) {
        if (!(modules & RECOMPUTE_BIT (i)))
            continue;
        choice->word[count++] = (char *)recompute_module_names[i];
        len = strlen (choice->arguments);
        snprintf (choice->arguments + len, ARGUMENTS_MAX - len, " %s", recompute_module_names[i]);
    }
    choice->args.recompute_granularity = "selective";
    choice->args.recompute_modules = (struct arg_list){ choice->word[0], &choice->word[1],
                                                          count };
    drop_excluded (c);
}

static void add_full (struct choices *c, const struct train_args *args, const char *method,
                      int num_layers, bool split)
{
    struct choice *choice = add_choice (c, args);

    snprintf (choice->arguments, ARGUMENTS_MAX, "--recompute-granularity full --recompute-method "
              "%s --recompute-num-layers %d%s", method, num_layers,
              split ? " --distribute-saved-activations" : "");
    choice->args.recompute_granularity = "full";
    choice->args.recompute_method = method;
    choice->args.recompute_layers = num_layers;
    choice->args.split_activations = split;
    drop_excluded (c);
}

/* A choice is planned with all layers, and there are two or four for each number of them. */
enum { CHOICES_LAYERS_MAX = 1024 };

/* The layers of the largest virtual stage, and the ranks that could share what is kept. */
static int find_sizes (const struct train_args *args, int *layers, int *tp, struct mg_error *err)
{
    struct run_config config;
    int rc = -1;

    *layers = 0;
    run_config_init (&config, args);
    if (run_config_geometry (&config, err) == 0 && run_config_stages (&config, err) == 0) {
        const struct stages *stages = config.stages;

        for (int i = 0; i < stages->pp * stages->vpp; i++)
            *layers = stages->stage[i].num_layers > *layers ? stages->stage[i].num_layers : *layers;
        *tp = args->sequence_parallel ? 1 : config.geometry.tp;
        rc = 0;
    }
    run_config_clear (&config);
    return rc;
}

/* Modules that some layer of the model has, and that go with the other arguments. */
static unsigned useful_modules (const struct train_args *args)
{
    unsigned useful = (1u << RECOMPUTE_NUM_MODULES) - 1;
    bool shared = args->moe.experts > 0 && args->moe.shared_ffn != TRAIN_UNSET;

    if (!args->latent)
        useful &= ~RECOMPUTE_BIT (RECOMPUTE_MLA_UP_PROJ);
    if (args->moe.experts == 0)
        useful &= ~(RECOMPUTE_BIT (RECOMPUTE_MOE) | RECOMPUTE_BIT (RECOMPUTE_MOE_ACT));
    if (!shared || args->moe.shared_overlap)
        useful &= ~RECOMPUTE_BIT (RECOMPUTE_SHARED_EXPERTS);
    return useful;
}

static int list_choices (struct choices *c, const struct train_args *args, struct mg_error *err)
{
    const unsigned moe = RECOMPUTE_BIT (RECOMPUTE_MOE), of_moe // what that has already
        = RECOMPUTE_BIT (RECOMPUTE_MOE_ACT) | RECOMPUTE_BIT (RECOMPUTE_SHARED_EXPERTS);
    int layers, tp;

    if (find_sizes (args, &layers, &tp, err) < 0)
        return -1;
    if (layers > CHOICES_LAYERS_MAX)
        return mg_error_set (err, EINVAL, "--choices: a virtual stage of %d layers, want at most "
                             "%d: there are choices for each number of layers", layers,
                             CHOICES_LAYERS_MAX);
    c->choice = calloc ((1u << RECOMPUTE_NUM_MODULES) + 4 * (size_t)layers, sizeof (*c->choice));
    if (!c->choice)
        return mg_error_set (err, ENOMEM, "out of memory");
    add_choice (c, args);
    for (unsigned m = 1; m < 1u << RECOMPUTE_NUM_MODULES; m++) {
        if ((m & ~useful_modules (args)) == 0 && !((m & moe) && (m & of_moe)))
            add_selective (c, args, m);
    }
    for (int split = 0; split < (tp > 1 ? 2 : 1); split++) {
        for (int n = 1; n <= layers; n++) {
            add_full (c, args, "block", n, split);
            if (n < layers || layers == 1)
                add_full (c, args, "uniform", n, split);
        }
    }
    return 0;
}

/* --- what they take --- */

static int plan_choice (struct choice *choice, const struct plan_memory *request, int first,
                        int n,
                        struct mg_error *err)
{
    struct plan_memory_row *row = calloc ((size_t)n, sizeof (*row));
    int rc;

    if (!row)
        return mg_error_set (err, ENOMEM, "out of memory");
    rc = plan_memory_ranks (&choice->args, request, first, n, row, err);
    for (int i = 0; i < n; i++) {
        const struct memory_plan *plan = &row[i].plan;
        double again = plan->forward_cost > 0 ? plan->again_cost / plan->forward_cost : 0;

        if (memory_need (plan) > choice->bytes)
            choice->bytes = memory_need (plan);
        if (again > choice->again)
            choice->again = again;
        plan_memory_clear (&row[i]);
    }
    free (row);
    return rc;
}

/* One rank of each kind that there is without recomputation. */
static int list_ranks (struct choices *c, int first, int n, const struct plan_memory_row *row,
                       struct mg_error *err)
{
    if (!(c->rank = calloc ((size_t)n, sizeof (*c->rank))))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (int i = 0; i < n; i++) {
        bool seen = false;

        for (int k = 0; k < c->num_ranks && !seen; k++)
            seen = plan_memory_same (&row[i], &row[c->rank[k] - first]);
        if (!seen)
            c->rank[c->num_ranks++] = first + i;
    }
    return 0;
}

static int compare (const void *x, const void *y)
{
    const struct choice *a = x, *b = y;

    if (a->again != b->again)
        return a->again < b->again ? -1 : 1;
    return a->order - b->order;
}

/* Sort the choices, and leave out those that take no less than a cheaper one. */
static void sort_choices (struct choices *c)
{
    int kept = 0;

    qsort (c->choice, (size_t)c->count, sizeof (*c->choice), compare);
    for (int i = 0; i < c->count; i++) {
        if (kept > 0 && c->choice[i].bytes >= c->choice[kept - 1].bytes)
            continue;
        c->choice[kept] = c->choice[i];
        if (c->choice[kept].args.recompute_modules.rest) // its words have moved, too
            c->choice[kept].args.recompute_modules.rest = &c->choice[kept].word[1];
        kept++;
    }
    c->count = kept;
}

static int plan_choices (struct choices *c, const struct plan_memory *request,
                         struct mg_error *err)
{
    for (int i = 0; i < c->count; i++) {
        for (int k = 0; k < c->num_ranks; k++) {
            if (plan_choice (&c->choice[i], request, c->rank[k], 1, err) < 0)
                return mg_error_prefix (err, "%s", c->choice[i].arguments);
        }
    }
    sort_choices (c);
    return 0;
}

/* The first choice that fits on every rank; NULL and a text if there is none. */
static const struct choice *find_fit (struct choices *c, const struct plan_memory *request,
                                      int first, int n, struct mg_error *err)
{
    const struct choice *least = &c->choice[c->count - 1];

    for (int i = 0; i < c->count; i++) {
        struct choice *choice = &c->choice[i];

        if (choice->bytes > request->fit)
            continue;
        if (plan_choice (choice, request, first, n, err) < 0)
            return NULL;
        if (choice->bytes <= request->fit)
            return choice;
    }
    mg_error_set (err, ENOSPC, "no choice of recomputation fits %" PRId64 " bytes a rank: the "
                  "least is %" PRId64 " with %s", request->fit, least->bytes,
                  *least->arguments ? least->arguments : "none");
    return NULL;
}

/* --- printing --- */

static const char *arguments_of (const struct choice *choice)
{
    return *choice->arguments ? choice->arguments : "without recomputation";
}

static void print_text (const struct choices *c, const struct choice *fit, int64_t kept)
{
    printf ("%18s %18s %10s  arguments\n", "bytes of a rank", "saved", "again");
    for (int i = 0; i < c->count; i++) {
        const struct choice *choice = &c->choice[i];

        printf ("%18" PRId64 " %18" PRId64 " %9.2f%%  %s\n", choice->bytes, kept - choice->bytes,
                100 * choice->again, arguments_of (choice));
    }
    if (fit)
        printf ("fits: %s\n", arguments_of (fit));
}

static void print_json (const struct choices *c, const struct choice *fit, int64_t kept)
{
    printf ("{\"choices\":[");
    for (int i = 0; i < c->count; i++) {
        const struct choice *choice = &c->choice[i];

        printf ("%s\n{\"arguments\":\"%s\",\"bytes\":%" PRId64 ",\"saved\":%" PRId64
                ",\"again\":%.6g}", i ? "," : "", choice->arguments, choice->bytes,
                kept - choice->bytes, choice->again);
    }
    printf ("]");
    if (fit)
        printf (",\"fits\":\"%s\"", fit->arguments);
    printf ("}\n");
}

int plan_fit (const struct train_args *args, const struct plan_memory *request, int first, int n,
              const struct plan_memory_row *row, struct mg_error *err)
{
    struct choices c = { .count = 0 };
    const struct choice *fit = NULL;
    int rc = -1;

    if (list_choices (&c, args, err) == 0 && list_ranks (&c, first, n, row, err) == 0
        && plan_choices (&c, request, err) == 0) {
        int64_t kept = c.choice[0].bytes;

        if (request->fit > 0)
            fit = find_fit (&c, request, first, n, err);
        rc = request->fit > 0 && !fit ? -1 : 0;
        if (rc == 0)
            (request->json ? print_json : print_text) (&c, fit, kept);
    }
    free (c.choice);
    free (c.rank);
    return rc;
}
