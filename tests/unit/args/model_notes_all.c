/* Every argument that describes a model, as notes and back with a value that is not its default.
 *
 * No list says which arguments these are: each row of the table is tried, with values that it may
 * take, beside the arguments that it may need.  An argument that changes the configuration of the
 * model in some way has to come back from the notes in that way, or stand in of_a_run[].  So a new
 * argument that is not in the notes is found.  A comparison of two models has to see the change,
 * too, unless the argument stands in of_training[].
 */

#include <stdio.h>
#include <string.h>

#include "libcore/train/config.h"
#include "libcore/args/model_notes.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { LAYERS = 4, MAX_WORDS = 40 };

/* Arguments that change the configuration, but are of a run: how it computes, what it is
 * trained on, what it begins with.
 */
static const char *const of_a_run[] = {
    "seq-length", "padded-vocab-size", "make-vocab-size-divisible-by", "seed",
    "reset-attention-mask", "reset-position-ids", "tensor-model-parallel-size",
    "moe-router-force-load-balancing", "moe-router-force-biased", "moe-shared-expert-overlap",
    "moe-token-dispatcher-type", "moe-expert-rank-capacity-factor", "moe-use-upcycling",
    "moe-upcycling-granularity", "vocab-file", "eod-token-id",
};

/* Arguments that stand in notes, and in which the arguments of a run may differ from a file: how
 * the model is trained, and how it rounds.
 */
static const char *const of_training[] = {
    "apply-query-key-layer-scaling", "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-router-dtype",
    "moe-router-bias-update-rate", "moe-router-quantile-balancing-ema", "moe-input-jitter-eps",
    "moe-expert-capacity-factor", "moe-pad-expert-input-to-capacity", "moe-token-drop-policy",
    "mtp-loss-scaling-factor", "mtp-detach-heads", "init-method-std", "embedding-init-method-std",
    "hidden-dropout", "attention-dropout",
};

/* What arguments may need beside them. */
static const char *const contexts[][8] = {
    { NULL },
    { "--position-embedding-type=rope" },
    { "--position-embedding-type=rope", "--use-rope-scaling" },
    { "--position-embedding-type=yarn", "--rotary-scaling-factor=4" },
    { "--multi-latent-attention", "--position-embedding-type=rope" },
    { "--group-query-attention" },
    { "--swiglu", "--ffn-hidden-size=32" },
    { "--geglu" },
    { "--disable-bias-linear" },
    { "--window-size=4,0" },
    { "--num-experts=4", "--disable-bias-linear" },
    { "--num-experts=4", "--moe-router-topk=1", "--moe-router-pre-softmax" },
    { "--num-experts=4", "--moe-router-score-function=sigmoid" },
    { "--num-experts=4", "--moe-router-num-groups=2", "--moe-router-group-topk=1" },
    { "--num-experts=4", "--moe-router-group-topk=1", "--moe-router-num-groups=4",
      "--moe-router-topk=1", "--moe-router-pre-softmax" },
    { "--num-experts=4", "--moe-router-load-balancing-type=aux_loss" },
    { "--num-experts=4", "--moe-router-load-balancing-type=quantile_balancing" },
    { "--num-experts=4", "--moe-expert-capacity-factor=2" },
    { "--num-experts=4", "--moe-router-enable-expert-bias",
      "--moe-router-score-function=sigmoid" },
    { "--num-experts=4", "--disable-bias-linear", "--moe-shared-expert-intermediate-size=8" },
    { "--position-embedding-type=rope", "--mtp-num-layers=2" },
};

/* Values of all kinds; an argument takes those that it knows. */
static const char *const values[] = {
    "2", "8", "0.5", "1.5", "96", "4,0", "[0,1,1,0]", "RMSNorm", "rope", "yarn", "none",
    "learnable", "off-by-one", "sigmoid", "softmax", "sqrtsoftplus", "fp64", "bf16", "position",
    "sinkhorn", "seq_aux_loss", "global_aux_loss", "quantile_balancing", "alltoall", "linear",
    "cosine",
};

static int make (const char *const context[8], const char *word, struct train_args *args,
                 struct model_config *c)
{
    static const char *const base[] = {
        "train", "--num-layers=4", "--hidden-size=48", "--num-attention-heads=4",
        "--vocab-size=100", "--seq-length=16", "--max-position-embeddings=32",
    };
    static char *argv[MAX_WORDS]; // of the newest arguments, whose lists point into it
    struct run_config run;
    int argc = 0;

    for (size_t i = 0; i < COUNT (base); i++)
        argv[argc++] = (char *)base[i];
    for (int i = 0; i < 8 && context[i]; i++)
        argv[argc++] = (char *)context[i];
    if (word)
        argv[argc++] = (char *)word;
    if (train_args_read (argc, argv, args, NULL) < 0)
        return -1;
    run_config_init (&run, args);
    run.geometry.tp = 1;
    if (run_config_model (&run, NULL) < 0)
        return -1;
    *c = run.model.config;
    return 0;
}

/* A pattern as a number, whatever it was written as. */
static void settle (struct pattern *p, bool last)
{
    int bits = 0;

    for (int i = 0; i < LAYERS && pattern_given (p); i++)
        bits |= (pattern_at (p, i, last) ? 2 : 1) << 2 * i;
    *p = (struct pattern){ .every = bits };
}

/* The configuration as bytes that can be compared. */
static void settle_patterns (struct model_config *c)
{
    settle (&c->no_rope, true);
    settle (&c->window.layers, false);
    settle (&c->moe.layers, false);
}

/* Do the bytes of 'c' that differ from 'base' also stand in 'back'? */
static bool comes_back (const struct model_config *base, const struct model_config *c,
                        const struct model_config *back)
{
    const char *a = (const char *)base, *b = (const char *)c, *d = (const char *)back;

    for (size_t i = 0; i < sizeof (*c); i++) {
        if (a[i] != b[i] && d[i] != b[i])
            return false;
    }
    return true;
}

/* The model of each context, without more: as it is, and with its patterns as numbers. */
static struct model_config given[COUNT (contexts)], plain[COUNT (contexts)];

static void make_plain (void)
{
    struct train_args args;

    for (size_t k = 0; k < COUNT (contexts); k++) {
        if (make (contexts[k], NULL, &args, &plain[k]) < 0)
            bail_out ("context %zu is no model", k);
        given[k] = plain[k];
        settle_patterns (&plain[k]);
        train_args_clear (&args);
    }
}

/* 1: the word changes the model of context k, and that comes back from notes; 0: it changes
 * nothing; -1: it does not come back.  *seen counts changes that a comparison of the models sees.
 */
static int try_word (size_t k, const char *word, int *seen)
{
    struct model_config c, back;
    struct notes notes = { 0 };
    struct train_args args;
    struct mg_error err = { "" };
    int rc = -1;

    memset (&c, 0, sizeof (c));
    memset (&back, 0, sizeof (back));
    if (make (contexts[k], word, &args, &c) < 0) {
        train_args_clear (&args);
        return 0;
    }
    if (model_notes_make (&c, &notes, &err) < 0)
        diag ("%s: %s", word, err.text);
    else if (model_notes_config (&notes, &back, &err) == 0) {
        settle_patterns (&back);
        rc = 1;
    }
    *seen += model_notes_difference (&given[k], &c) != NULL;
    settle_patterns (&c);
    if (memcmp (&plain[k], &c, sizeof (c)) == 0)
        rc = 0;
    else if (rc > 0 && !comes_back (&plain[k], &c, &back))
        rc = -1;
    notes_clear (&notes);
    train_args_clear (&args);
    return rc;
}

static bool is_among (const char *const names[], size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp (names[i], name) == 0)
            return true;
    }
    return false;
}

/* Whether an argument changes a model. */
static bool try_argument (const struct train_arg *row)
{
    int changed = 0, back = 0, seen = 0;

    for (size_t k = 0; k < COUNT (contexts); k++) {
        for (size_t v = 0; v < COUNT (values); v++) {
            char word[200];
            int rc;

            if (row->info->type == ARG_FLAG)
                snprintf (word, sizeof (word), "--%s", row->info->name);
            else
                snprintf (word, sizeof (word), "--%s=%s", row->info->name, values[v]);
            rc = try_word (k, word, &seen);
            changed += rc != 0;
            back += rc > 0;
            if (row->info->type == ARG_FLAG)
                break;
        }
    }
    if (changed == 0 || is_among (of_a_run, COUNT (of_a_run), row->info->name))
        return changed > 0;
    ok (back > 0, "--%s comes back from notes: %d of %d changes", row->info->name, back, changed);
    if (!is_among (of_training, COUNT (of_training), row->info->name))
        ok (seen > 0, "--%s makes another model: %d of %d changes", row->info->name, seen, changed);
    return true;
}

int main (void)
{
    int changing = 0;

    make_plain ();
    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];

        if (row->info->type != ARG_TRIPLE && strcmp (row->info->name, "args-file") != 0
            && strcmp (row->info->name, "use-checkpoint-args") != 0)
            changing += try_argument (row);
    }
    ok (changing >= 80, "%d arguments change a model", changing);
    return done_testing ();
}
