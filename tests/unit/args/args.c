/* Whole argument lists, as scripts for Megatron-LM have them: which are taken as they come, and
 * what is said of the others.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/train/config.h"
#include "tests/tap/tap.h"

enum { MAX_WORDS = 400 };

/* A list, completed as a user would. */
struct list {
    char *word[MAX_WORDS];
    int count;
    int world;
};

static void add (struct list *list, const char *word)
{
    if (list->count >= MAX_WORDS)
        bail_out ("more than %d words", MAX_WORDS);
    list->word[list->count++] = (char *)word;
}

static void add_text (struct list *list, const char *text, char *copy, size_t size)
{
    char *save = NULL;

    snprintf (copy, size, "%s", text);
    for (char *word = strtok_r (copy, " ", &save); word; word = strtok_r (NULL, " ", &save))
        add (list, word);
}

/* --- what a run checks before it allocates anything --- */

static int check_world (struct run_config *c, int world, struct mg_error *err)
{
    struct num_microbatches *batches;
    struct lr_config lr;
    int rc;

    c->geometry.world = world;
    if (geometry_validate (&c->geometry, err) < 0 || run_config_check_rules (c, err) < 0
        || run_config_check_buffers (c, err) < 0
        || !(batches = run_config_batches (c, geometry_dp (&c->geometry), err)))
        return -1;
    rc = run_config_lr (c, batches, &lr, err);
    num_microbatches_destroy (batches);
    return rc;
}

static int check (const struct list *list, struct train_args *args, struct mg_error *err)
{
    struct run_config c;
    int rc = -1;

    if (train_args_parse (list->count, (char **)list->word, args, err) < 0)
        return -1;
    run_config_init (&c, args);
    if (run_config_geometry (&c, err) == 0 && run_config_check_rules (&c, err) == 0
        && run_config_tokenizer (&c, err) == 0 && run_config_model (&c, err) == 0
        && run_config_stages (&c, err) == 0 && run_config_check_model (&c, err) == 0)
        rc = check_world (&c, list->world, err);
    run_config_clear (&c);
    return rc;
}

static void tell_rule (void *arg, const char *rule, const char *text)
{
    (void)arg;
    diag ("%s: %s", rule, text);
}

/* The rules that the plugin finds broken where a job is submitted. */
static int count_broken (const struct list *list)
{
    struct margs margs;
    struct geometry g;
    int broken;

    margs_init (&margs);
    margs.own = true;
    margs_scan (&margs, list->count, list->word);
    geometry_init (&g);
    broken = margs_merge (&margs, &g, NULL, tell_rule, NULL);
    g.world = list->world;
    return broken + geometry_check (&g, tell_rule, NULL)
           + margs_check (&margs, &g, tell_rule, NULL);
}

/* --- our own lists --- */

#define MODEL "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16 " \
              "--max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 8 " \
              "--train-iters 4 --lr 1e-3 --tokenizer-type ByteLevel --data-path p --split 1,0,0 "

static const struct own {
    const char *name;
    int world;
    const char *text, *refusal; /* NULL: accepted */
    int needless, elsewhere;    /* of what is accepted, so many */
} own[] = {
    { "dense", 4,
      MODEL "--use-mcore-models --transformer-impl transformer_engine --no-bias-gelu-fusion "
            "--no-gradient-accumulation-fusion --tensor-model-parallel-size 2 "
            "--pipeline-model-parallel-size 2 --sequence-parallel --distributed-backend nccl "
            "--ckpt-format torch_dist --dist-ckpt-strictness log_all --deterministic-mode --bf16 "
            "--use-checkpoint-opt_param-scheduler --attention-softmax-in-fp32 "
            "--async-strategy mcore --wandb-project p --log-energy "
            "--rerun-mode validate_results --optimizer adam "
            "--save s --async-save --use-persistent-ckpt-worker", NULL, 11, 3 },
    { "experts", 8,
      MODEL "--num-experts 8 --expert-model-parallel-size 4 --disable-bias-linear "
            "--moe-router-topk 2 --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend "
            "hybridep --moe-hybridep-num-sms 16 --moe-grouped-gemm --moe-permute-fusion "
            "--fp8-recipe blockwise --moe-router-padding-for-quantization "
            "--overlap-moe-expert-parallel-comm --delay-wgrad-compute "
            "--fine-grained-activation-offloading --offload-modules [expert_fc1 moe_act] "
            "--moe-paged-stash --moe-paged-stash-page-size 64 "
            "--recompute-granularity selective --recompute-modules [core_attn moe_act]",
      NULL, 4, 8 },
    { "whole shards", 4,
      MODEL "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
            "--megatron-fsdp-main-params-dtype fp32 --use-distributed-optimizer "
            "--ckpt-format fsdp_dtensor --outer-dp-sharding-strategy no_shard",
      NULL, 2, 3 },
    { "levels", 8,
      MODEL "--context-parallel-size 4 --cp-comm-type [a2a+p2p] "
            "--hierarchical-context-parallel-sizes [2 2]", NULL, 0, 0 },
    { "float8", 1, MODEL "--bf16 --fp8-format hybrid --fp8-recipe tensorwise --manual-gc",
      "--fp8-format hybrid of Megatron-LM is not available in this version: nothing is computed in "
      "float8; float8 is for storage: --fp8-param-gather; leave it out if the run can do with that",
      0, 0 },
    { "many", 1,
      MODEL "--spec [a b] --hybrid-layer-pattern M*M --mamba-num-heads 4 --optimizer muon "
            "--muon-momentum 0.9 --is-hybrid-model --log-energy",
      "4 arguments are refused: --spec (layers are made of the arguments, not by a program); "
      "--hybrid-layer-pattern M*M, --is-hybrid-model (the layers of the model are attention and "
      "MLPs or experts); --optimizer muon (the optimizer is AdamW)", 0, 0 },
    { "strict", 1, MODEL "--strict-arguments --manual-gc",
      "--manual-gc of Megatron-LM changes nothing here (nothing here collects garbage): "
      "--strict-arguments refuses it", 0, 0 },
    { "contradictory", 1, MODEL "--manual-gc --bf16 --fp16",
      "--bf16 and --fp16 exclude each other", 0, 0 },
};

static int count_kind (const struct train_args *args, enum args_other_kind kind)
{
    int count = 0;

    for (size_t i = 0; i < args->others.n; i++)
        count += args->others.given[i].kind == kind;
    return count;
}

static void test_own (void)
{
    for (size_t i = 0; i < sizeof (own) / sizeof (own[0]); i++) {
        struct list list = { .word = { "train" }, .count = 1, .world = own[i].world };
        struct mg_error err = { "" };
        struct train_args args;
        char copy[2000];
        int rc;

        add_text (&list, own[i].text, copy, sizeof (copy));
        rc = check (&list, &args, &err);
        if (own[i].refusal)
            is_str (args.others.refusal ? args.others.refusal : err.text, own[i].refusal,
                    "%s: refused", own[i].name);
        else {
            is_int (rc, 0, "%s: accepted %s", own[i].name, err.text);
            is_int (count_broken (&list), 0, "%s: accepted at submit", own[i].name);
            is_int (count_kind (&args, OTHER_NEEDLESS), own[i].needless,
                    "%s: arguments that change nothing", own[i].name);
            is_int (count_kind (&args, OTHER_ELSEWHERE), own[i].elsewhere,
                    "%s: arguments that only add something elsewhere", own[i].name);
        }
        train_args_clear (&args);
    }
}

/* --- Megatron-LM's own lists --- */

/* What makes a list another program's. */
static const char *const refused[] = {
    "--fp8-format", "--experimental-attention-variant", "--hybrid-layer-pattern", "--use-mup",
    "--error-injection-rate",
};

/* The argument that has to be refused, NULL: none; "" where the list has no sizes. */
static const char *find_refused (const struct list *list)
{
    const char *sizes = "";

    for (int i = 1; i < list->count; i++) {
        for (size_t k = 0; k < sizeof (refused) / sizeof (refused[0]); k++) {
            if (strcmp (list->word[i], refused[k]) == 0)
                return refused[k];
        }
        if (strcmp (list->word[i], "--optimizer") == 0 && strcmp (list->word[i + 1], "adam") != 0)
            return "--optimizer";
        if (strcmp (list->word[i], "--num-layers") == 0)
            sizes = NULL;
    }
    return sizes;
}

static void read_list (const json_t *object, struct list *list)
{
    const json_t *args = json_object_get (object, "args");
    bool mock = false;
    size_t i;
    json_t *word;

    list->world = (int)json_integer_value (json_object_get (object, "world"));
    json_array_foreach (args, i, word) {
        const char *text = json_string_value (word);

        mock |= strcmp (text, "--mock-data") == 0;
        add (list, text);
    }
    add (list, "--tokenizer-type");
    add (list, "ByteLevel");
    if (!mock) {
        add (list, "--data-path");
        add (list, "p");
    }
    add (list, "--save");
    add (list, "s");
    add (list, "--load");
    add (list, "l");
}

/* Returns whether the list is accepted. */
static bool try_list (const json_t *object)
{
    struct list list = { .word = { "train" }, .count = 1 };
    const char *name = json_string_value (json_object_get (object, "name")), *want;
    struct mg_error err = { "" };
    struct train_args args;
    int rc;

    read_list (object, &list);
    want = find_refused (&list);
    rc = check (&list, &args, &err);
    if (!want)
        ok (rc == 0 && count_broken (&list) == 0, "%s is accepted %s", name, err.text);
    else if (*want)
        ok (rc < 0 && args.others.refusal && strstr (args.others.refusal, want), "%s: %s", name,
            err.text);
    else
        ok (rc < 0 && strstr (err.text, "--num-layers"), "%s: %s", name, err.text);
    train_args_clear (&args);
    return rc == 0;
}

static void test_lists (void)
{
    char path[4096], *line = NULL;
    size_t size = 0;
    int accepted = 0, lists = 0;
    FILE *file;

    if (!shared_file (path, sizeof (path), "data/megatron_args/functional_tests.jsonl")) {
        skip (1, "no lists in %s", path);
        return;
    }
    file = fopen (path, "r");
    while (file && getline (&line, &size, file) > 0) {
        json_t *object = json_loads (line, 0, NULL);

        accepted += try_list (object);
        lists++;
        json_decref (object);
    }
    if (file)
        fclose (file);
    free (line);
    ok (lists == 176 && accepted >= 148, "%d of %d lists are accepted", accepted, lists);
}

/* Every name of Megatron-LM's that was unknown once has a kind. */
static void test_names (void)
{
    char path[4096], line[200];
    int names = 0;
    FILE *file;

    if (!shared_file (path, sizeof (path), "data/megatron_args/unknown_names.txt")) {
        skip (1, "no names in %s", path);
        return;
    }
    file = fopen (path, "r");
    while (file && fgets (line, sizeof (line), file)) {
        size_t len = strcspn (line, "\t\n");
        const char *name = line + 2;

        line[len] = '\0';
        ok (train_arg_find (name) || args_other_find (name, strlen (name)),
            "%s has a kind", line);
        names++;
    }
    if (file)
        fclose (file);
    ok (names >= 288, "%d names", names);
}

int main (void)
{
    test_own ();
    test_lists ();
    test_names ();
    return done_testing ();
}
