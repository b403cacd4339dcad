/* margs.c - reading Megatron-style arguments, contradictions, and each rule of a model */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/topo/margs.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))
enum { WORDS_MAX = 40, LINE_MAX_LEN = 400 };

/* A line cut at its blanks. */
struct line {
    char text[LINE_MAX_LEN];
    char *argv[WORDS_MAX];
    int argc;
};

static void cut (struct line *l, const char *text)
{
    char *save = NULL;

    l->argc = 0;
    snprintf (l->text, sizeof (l->text), "%s", text);
    for (char *w = strtok_r (l->text, " ", &save); w && l->argc < WORDS_MAX;
         w = strtok_r (NULL, " ", &save))
        l->argv[l->argc++] = w;
}

static void scan (struct margs *args, struct line *l, const char *text)
{
    cut (l, text);
    margs_init (args);
    margs_scan (args, l->argc, l->argv);
}

static void test_table (void)
{
    for (int i = 0; i < MARG_NUM; i++) {
        ok (margs_table[i].name && margs_table[i].help, "row %d has a name and a help", i);
        for (int j = 0; j < i; j++)
            if (strcmp (margs_table[i].name, margs_table[j].name) == 0)
                ok (false, "--%s is there twice", margs_table[i].name);
    }
}

static void test_scan (void)
{
    struct margs a;
    struct line l;

    scan (&a, &l, "python pretrain.py --num-layers 12 --hidden-size=64 --swiglu x");
    is_int (a.value[MARG_LAYERS], 12, "a value in the next word");
    is_int (a.value[MARG_HIDDEN], 64, "a value behind =");
    is_int (a.value[MARG_SWIGLU], 1, "a flag");
    is_int (a.value[MARG_HEADS], 0, "what is not given");
    ok (!a.parallel, "no parallel size");
    scan (&a, &l, "--num-layers 12 --num-layers 6");
    is_int (a.value[MARG_LAYERS], 6, "the last one counts");
    scan (&a, &l, "--num-layers 12 --num-layers many");
    is_int (a.value[MARG_LAYERS], 0, "also where it is no number");
    scan (&a, &l, "--num-layers 0 --hidden-size -8 --ffn-hidden-size 16777217");
    ok (!a.value[MARG_LAYERS] && !a.value[MARG_HIDDEN] && !a.value[MARG_FFN],
        "numbers out of range are not known");
    scan (&a, &l, "--num-layers");
    is_int (a.value[MARG_LAYERS], 0, "a value that is missing");
    scan (&a, &l, "--num-layers --num-layers 4");
    is_int (a.value[MARG_LAYERS], 0, "a value that looks like an argument is a value");
    scan (&a, &l, "--num-layersx 4 -num-layers 4 num-layers 4 --num-layer 4 --");
    is_int (a.value[MARG_LAYERS], 0, "names are whole");
    scan (&a, &l, "--pipeline-model-parallel-layout=Et|tL");
    is_str (a.text[MARG_LAYOUT], "Et|tL", "a text");
    ok (!a.parallel, "whose name ends otherwise");
    scan (&a, &l, "--expert-model-parallel-size");
    ok (a.parallel, "a parallel size without a value is one");
    scan (&a, &l, "--context-model-parallel-size=2");
    ok (a.parallel, "also one that nobody knows");
    scan (&a, &l, "--context-parallel-size 2 -model-parallel-size --model-parallel-size 2");
    ok (!a.parallel, "others are none");
    margs_init (&a);
    margs_scan (&a, 0, NULL);
    is_int (a.value[MARG_LAYERS], 0, "no words at all");
}

static void test_set (void)
{
    struct margs a;
    struct mg_error err;

    margs_init (&a);
    errno = 0;
    ok (margs_set (&a, MARG_LAYERS, "--num-layers", "x", &err) == -1 && errno == EINVAL
        && strstr (err.text, "--num-layers: \"x\""), "a word for a number");
    ok (margs_set (&a, MARG_LAYERS, "--num-layers", "0", &err) == -1 && errno == ERANGE,
        "0 for a size");
    ok (margs_set (&a, MARG_LAYOUT, "--layout", "", &err) == -1, "an empty text");
    ok (margs_set (&a, MARG_SWIGLU, "--swiglu", NULL, &err) == 0, "a flag");
}

struct seen {
    int count;
    char rules[300];
    char first[MG_ERROR_MAX];
};

static void note (void *arg, const char *rule, const char *text)
{
    struct seen *s = arg;
    size_t len = strlen (s->rules);

    snprintf (s->rules + len, sizeof (s->rules) - len, "%s%s", len ? " " : "", rule);
    if (s->count++ == 0)
        snprintf (s->first, sizeof (s->first), "%s", text);
    if (strchr (text, '\n') || !*text)
        s->count += 1000;
}

/* "tp 4 pp 2 world 16" */
static void set_geometry (struct geometry *g, const char *text)
{
    struct line l;

    geometry_init (g);
    cut (&l, text);
    for (int i = 0; i + 1 < l.argc; i += 2) {
        if (geometry_set (g, l.argv[i], l.argv[i], l.argv[i + 1], NULL) < 0)
            bail_out ("%s", text);
    }
}

enum { TASK = 2 };

static const struct {
    const char *geometry, *args;
    int fixed; /* TASK: as variables tell it to a task */
    int count;
    const char *text; /* in the first report */
} merge_cases[] = {
    { "tp 4", "--tensor-model-parallel-size 4", true, 0, NULL },
    { "tp 4", "--tensor-model-parallel-size 2", true, 1,
      "--tensor-model-parallel-size 2 contradicts the job's tp 4; give one of them, or "
      "--megatron-tp=2" },
    { "pp 4", "--tensor-model-parallel-size 2", true, 1, "the job's tp 1" },
    { "pp 4", "--tensor-model-parallel-size 2", false, 0, NULL },
    { "tp 4", "--expert-tensor-parallel-size 4", true, 0, NULL },
    { "tp 4", "--expert-tensor-parallel-size 1", true, 1, "the job's etp 4" },
    { "tp 4 etp 1", "--expert-tensor-parallel-size 1", true, 0, NULL },
    { "pp 2", "--num-virtual-stages-per-pipeline-rank 3", true, 0, NULL },
    { "pp 2 vpp 1", "--num-virtual-stages-per-pipeline-rank 3", true, 0, NULL },
    { "pp 2 vpp 2", "--num-virtual-stages-per-pipeline-rank 3", true, 1, "vpp 2" },
    { "pp 2", "--use-tp-pp-dp-mapping", true, 1, "the job's order tp-cp-ep-dp-pp" },
    { "pp 2 order tp-cp-ep-pp-dp", "--use-tp-pp-dp-mapping", true, 0, NULL },
    { "pp 2", "--use-tp-pp-dp-mapping", false, 0, NULL },
    { "tp 2", "--tensor-model-parallel-size 4", TASK, 1,
      "--tensor-model-parallel-size 4 contradicts the job's MEGATRON_TP_SIZE=2; give one of "
      "them" },
    { "tp 4", "--expert-tensor-parallel-size 1", TASK, 0, NULL },
    { "pp 2 vpp 1", "--num-virtual-stages-per-pipeline-rank 3", TASK, 0, NULL },
    { "pp 2 vpp 2", "--num-virtual-stages-per-pipeline-rank 3", TASK, 1,
      "the job's MEGATRON_VPP_SIZE=2" },
    { "pp 2", "--use-tp-pp-dp-mapping", TASK, 1,
      "contradicts the job's MEGATRON_RANK_ORDER=tp-cp-ep-dp-pp; give one of them" },
    { "tp 2 cp 2 pp 2 ep 2",
      "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 "
      "--context-parallel-size 1 --expert-model-parallel-size 1", true, 4, "tp 2" },
};

static void test_merge (void)
{
    static const struct margs_job jobs[] = {
        [true] = { .fixed = ~0u },
        [TASK] = { .fixed = ~(1u << GEOMETRY_ETP), .by_variables = true },
    };

    for (size_t i = 0; i < COUNT (merge_cases); i++) {
        struct seen seen = { .count = 0 };
        struct geometry g;
        struct margs a;
        struct line l;
        const struct margs_job *job = merge_cases[i].fixed ? &jobs[merge_cases[i].fixed] : NULL;
        int count;

        set_geometry (&g, merge_cases[i].geometry);
        scan (&a, &l, merge_cases[i].args);
        count = margs_merge (&a, &g, job, note, &seen);
        ok (count == merge_cases[i].count && seen.count == count
            && count == margs_merge (&a, &g, job, NULL, NULL),
            "%s, %s: %d contradictions", merge_cases[i].geometry, merge_cases[i].args,
            merge_cases[i].count);
        if (merge_cases[i].text && !ok (strstr (seen.first, merge_cases[i].text), "and says why"))
            diag ("%s", seen.first);
    }
}

static void test_merge_sizes (void)
{
    struct geometry g;
    struct margs a;
    struct line l;

    geometry_init (&g);
    scan (&a, &l, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 3 "
          "--context-parallel-size 4 --expert-model-parallel-size 5 "
          "--expert-tensor-parallel-size 6 --num-virtual-stages-per-pipeline-rank 7 "
          "--use-tp-pp-dp-mapping");
    margs_merge (&a, &g, NULL, NULL, NULL);
    ok (g.tp == 2 && g.pp == 3 && g.cp == 4 && g.ep == 5 && g.etp == 6 && g.vpp == 7
        && strcmp (g.order, "tp-cp-ep-pp-dp") == 0, "each argument has its own size");
}

static const struct {
    const char *geometry, *args;
    const char *rules; /* that are broken, "" for none */
    const char *text;  /* in the first report */
} rule_cases[] = {
    { "tp 4 world 8", "", "", NULL },
    { "tp 4", "--hidden-size 64 --num-attention-heads 8", "", NULL },
    { "tp 1", "--hidden-size 63 --num-attention-heads 8", "hidden-heads",
      "hidden-size 63 is not a multiple of num-attention-heads 8; use 56 or 64, or give "
      "kv-channels" },
    { "tp 1", "--hidden-size 63 --num-attention-heads 8 --kv-channels 7", "", NULL },
    { "tp 5", "--num-attention-heads 96", "heads-tp",
      "num-attention-heads 96 is not a multiple of tp 5; use 95 or 100, or tp 4 or 6" },
    { "tp 4", "--num-attention-heads 2", "heads-tp", "use 4, or tp 2" },
    { "tp 4", "--num-attention-heads 6", "heads-tp", "use 4 or 8, or tp 3 or 6" },
    { "tp 4", "--num-attention-heads 4", "", NULL },
    { "tp 4", "--num-query-groups 6", "query-groups", "num-query-groups 6 and tp 4" },
    { "tp 4", "--num-query-groups 2", "", NULL },
    { "tp 4", "--num-query-groups 2 --num-attention-heads 8 --kv-channels 2", "", NULL },
    { "tp 4", "--num-query-groups 1 --num-attention-heads 8 --kv-channels 3", "query-groups",
      "num-query-groups 1 is less than tp 4, and the (num-attention-heads 8 + 2 x 1) x "
      "kv-channels 3 rows" },
    { "tp 4", "--num-query-groups 1 --num-attention-heads 8 --hidden-size 24", "query-groups",
      "kv-channels 3 rows" },
    { "tp 4", "--group-query-attention --num-attention-heads 8 --kv-channels 3", "query-groups",
      "num-query-groups 1 is less than tp 4" },
    { "tp 4", "--group-query-attention --num-attention-heads 8 --kv-channels 6", "", NULL },
    { "tp 2", "--num-query-groups 2 --num-attention-heads 8 --kv-channels 3", "", NULL },
    { "tp 1", "--multi-latent-attention --hidden-size 63 --num-attention-heads 8", "", NULL },
    { "tp 3", "--multi-latent-attention --num-attention-heads 8", "heads-tp",
      "num-attention-heads 8 is not a multiple of tp 3" },
    { "tp 1", "--multi-latent-attention --group-query-attention", "query-groups",
      "exclude each other" },
    { "tp 4", "--num-query-groups 8", "", NULL },
    { "tp 1", "--num-query-groups 8 --num-attention-heads 12", "query-groups",
      "num-attention-heads 12 is not a multiple of num-query-groups 8; use 8 or 16" },
    { "tp 4", "--ffn-hidden-size 10", "ffn-tp",
      "ffn-hidden-size 10 is not a multiple of tp 4; use 8 or 12, or tp 2 or 5" },
    { "tp 3", "--hidden-size 64", "ffn-tp", "ffn-hidden-size (by default) 256" },
    { "tp 3", "--hidden-size 63", "", NULL },
    { "tp 5", "--hidden-size 512 --swiglu", "ffn-tp", "1344" },
    { "tp 8", "--hidden-size 512 --swiglu", "", NULL },
    { "tp 5", "--hidden-size 10 --swiglu", "", NULL },
    { "tp 1 etp 3 ep 2", "--num-experts 4 --moe-ffn-hidden-size 64 --disable-bias-linear",
      "expert-ffn-etp", "moe-ffn-hidden-size 64 is not a multiple of etp 3" },
    { "tp 3", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel --disable-bias-linear",
      "expert-ffn-etp", "ffn-hidden-size 64 is not a multiple of etp 3" },
    { "tp 3 etp 1", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel", "", NULL },
    { "tp 3 etp 1", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel --num-layers 4 "
      "--moe-layer-freq 1", "", NULL },
    { "tp 3 etp 1", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel --num-layers 4 "
      "--moe-layer-freq 2", "ffn-tp", "ffn-hidden-size 64 is not a multiple of tp 3" },
    { "tp 3 etp 1", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel --num-layers 4 "
      "--moe-layer-freq [0]*1+[1]*3", "ffn-tp", "ffn-hidden-size 64 is not a multiple of tp 3" },
    { "tp 3 etp 1", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel --num-layers 4 "
      "--moe-layer-freq [1]*4", "", NULL },
    { "tp 3 etp 1", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel --num-layers 4 "
      "--moe-layer-freq [1]*3", "", NULL },
    { "tp 3 etp 1", "--num-experts 4 --ffn-hidden-size 64 --sequence-parallel "
      "--moe-layer-freq [0,1]", "", NULL },
    { "tp 3 etp 1", "--num-experts 4 --moe-shared-expert-intermediate-size 64 --sequence-parallel "
      "--disable-bias-linear", "shared-ffn-tp",
      "moe-shared-expert-intermediate-size 64 is not a multiple of tp 3; use 63 or 66" },
    { "tp 3", "--moe-shared-expert-intermediate-size 64", "", NULL },
    { "tp 4", "--padded-vocab-size 50257", "vocab-tp", "use 50256 or 50260" },
    { "tp 4", "--padded-vocab-size 50304", "", NULL },
    { "tp 1", "--padded-vocab-size 50256 --vocab-size 50257", "vocab",
      "vocab-size 50257 is more than padded-vocab-size 50256" },
    { "tp 1", "--padded-vocab-size 50257 --vocab-size 50257", "", NULL },
    { "tp 2", "--vocab-size 50257", "", NULL },
    { "cp 2", "--seq-length 10", "seq-cp", "seq-length 10 is not a multiple of 2 x cp 2 = 4; "
      "use 8 or 12" },
    { "cp 2", "--seq-length 12", "", NULL },
    { "cp 4 tp 2", "--num-attention-heads 12 --cp-comm-type a2a", "heads-cp",
      "num-attention-heads 12 is not a multiple of tp 2 x cp 4 = 8, which cp-comm-type a2a needs; "
      "use 8 or 16" },
    { "cp 4 tp 2", "--num-attention-heads 16 --num-query-groups 4 --cp-comm-type a2a", "heads-cp",
      "num-query-groups 4 is not a multiple of tp 2 x cp 4 = 8" },
    { "cp 2", "--num-attention-heads 16 --group-query-attention --cp-comm-type a2a", "heads-cp",
      "num-query-groups 1" },
    { "cp 4", "--num-attention-heads 6 --cp-comm-type a2a+p2p "
      "--hierarchical-context-parallel-sizes 2 2", "", NULL },
    { "cp 4", "--num-attention-heads 6 --cp-comm-type a2a+p2p "
      "--hierarchical-context-parallel-sizes 4 1", "heads-cp", "tp 1 x cp 4 = 4" },
    { "cp 8", "--num-attention-heads 6 --cp-comm-type a2a+p2p "
      "--hierarchical-context-parallel-sizes 4 2", "heads-cp",
      "tp 1 x the first of the hierarchical sizes 4 = 4" },
    { "cp 4", "--num-attention-heads 6 --cp-comm-type p2p", "", NULL },
    { "cp 4", "--num-attention-heads 6 --cp-comm-type=allgather", "", NULL },
    { "cp 4", "--num-attention-heads 6 --cp-comm-type what", "", NULL },
    { "tp 2", "--num-attention-heads 6 --cp-comm-type a2a", "", NULL },
    { "cp 4", "--cp-comm-type p2p all_gather a2a+p2p a2a p2p --num-attention-heads 6 "
      "--hierarchical-context-parallel-sizes 2 2", "heads-cp", "tp 1 x cp 4 = 4" },
    { "cp 4", "--cp-comm-type p2p a2a+p2p --hierarchical-context-parallel-sizes 2 2 "
      "--num-attention-heads 5", "heads-cp", "the first of the hierarchical sizes 2" },
    { "cp 4", "--cp-comm-type p2p all_gather --num-attention-heads 6", "", NULL },
    { "cp 1", "--seq-length 11", "", NULL },
    { "tp 4", "--seq-length 10", "", NULL },
    { "tp 4", "--seq-length 10 --sequence-parallel", "seq-sp", "seq-length 10 is not a "
      "multiple of tp 4, which sequence-parallel needs; use 8 or 12" },
    { "tp 4 cp 2", "--seq-length 12 --sequence-parallel", "seq-sp", "cp 2 x tp 4 = 8" },
    { "tp 4 cp 2", "--seq-length 16 --sequence-parallel", "", NULL },
    { "tp 4 cp 2", "--seq-length 10 --sequence-parallel", "seq-cp", NULL },
    { "tp 1", "--seq-length 11 --sequence-parallel", "", NULL },
    { "tp 2", "--distribute-saved-activations", "", NULL },
    { "tp 1", "--distribute-saved-activations", "saved-activations",
      "distribute-saved-activations needs tp > 1, but tp is 1" },
    { "tp 2", "--distribute-saved-activations --sequence-parallel", "saved-activations",
      "distribute-saved-activations excludes sequence-parallel" },
    { "tp 1", "--seq-length 9 --max-position-embeddings 8", "positions",
      "max-position-embeddings 8 is less than seq-length 9" },
    { "tp 1", "--seq-length 8 --max-position-embeddings 8", "", NULL },
    { "pp 4", "--num-layers 10", "layers", "use 8 or 12" },
    { "pp 4", "--num-layers 12", "", NULL },
    { "pp 4 vpp 2", "--num-layers 12", "layers", "4 x 2 virtual stages" },
    { "pp 4 vpp 1", "--num-layers 12 --num-layers-per-virtual-pipeline-stage 1", "", NULL },
    { "pp 4", "--num-layers 10 --account-for-embedding-in-pipeline-split "
      "--account-for-loss-in-pipeline-split", "", NULL },
    { "pp 4", "--num-layers 11 --decoder-first-pipeline-num-layers 2", "", NULL },
    { "pp 4", "--num-layers 11 --decoder-last-pipeline-num-layers 4", "layers", NULL },
    { "pp 4", "--num-layers 5 --pipeline-model-parallel-layout Et|t|tt|tL", "", NULL },
    { "pp 4", "--num-layers 6 --pipeline-model-parallel-layout Et|t|tt|tL", "layers", NULL },
    { "pp 4", "--pipeline-model-parallel-layout Et|t|tt|tL", "", NULL },
    { "pp 4", "--num-layers 8 --num-virtual-stages-per-pipeline-rank 2 "
      "--num-layers-per-virtual-pipeline-stage 1", "layers", "exclude each other" },
    { "pp 1", "--num-layers 2 --pipeline-model-parallel-layout EttL", "", NULL },
    { "pp 1", "--num-layers 2 --pipeline-model-parallel-layout Et|tL", "layers",
      "\"Et|tL\" has 2 stages, which need pp > 1, but pp is 1" },
    { "pp 1", "--num-layers 5 --mtp-num-layers 1", "", NULL },
    { "pp 2", "--num-layers 4 --mtp-num-layers 1", "", NULL },
    { "pp 2", "--num-layers 2 --mtp-num-layers 1 --pipeline-model-parallel-layout Et|tmL", "",
      NULL },
    { "pp 2", "--num-layers 2 --mtp-num-layers 1 --pipeline-model-parallel-layout Etm|tL",
      "layers", "no layer (t) may follow an m" },
    { "pp 2", "--num-layers 2 --mtp-num-layers 2 --pipeline-model-parallel-layout Et|tmL",
      "layers", "has 1 layers for multi-token prediction (m), but mtp-num-layers is 2" },
    { "ep 4 etp 1", "--num-experts 6", "experts-ep", "num-experts 6 is not a multiple of ep 4; "
      "use 4 or 8, or ep 3 or 6" },
    { "ep 4 etp 1", "--num-experts 8", "", NULL },
    { "ep 4 etp 1", "--num-layers 2", "experts-ep", "ep 4 needs experts" },
    { "ep 4 etp 1", "--lr 2", "", NULL },
    { "tp 1", "--num-layers 2 --moe-ffn-hidden-size 8", "experts-ep",
      "moe-ffn-hidden-size 8 needs experts, and there is no --num-experts" },
    { "tp 1", "--num-layers 2 --num-experts 0 --moe-latent-size 8", "experts-ep",
      "moe-latent-size 8 needs experts, and there is no --num-experts" },
    { "tp 1", "--moe-latent-size 8", "", NULL },
    { "tp 1", "--num-layers 2 --num-experts 4 --moe-latent-size 8", "", NULL },
    { "tp 2 etp 1", "--num-experts 8", "experts-sp", "needs --sequence-parallel" },
    { "tp 2 etp 1", "--num-experts 8 --sequence-parallel", "", NULL },
    { "tp 2", "--num-experts 8 --sequence-parallel --disable-bias-linear", "", NULL },
    { "tp 2", "--num-experts 8 --sequence-parallel", "experts-bias",
      "num-experts 8 with etp 2 (it defaults to tp) needs --disable-bias-linear, or etp 1: biases "
      "of experts are not split" },
    { "tp 1 etp 2", "--num-experts 8", "experts-bias", "num-experts 8 with etp 2 needs" },
    { "tp 1", "--num-experts 8 --moe-shared-expert-intermediate-size 4", "experts-bias",
      "moe-shared-expert-intermediate-size 4 needs --disable-bias-linear" },
    { "tp 1", "--num-experts 8 --moe-shared-expert-intermediate-size 4 --disable-bias-linear", "",
      NULL },
    { "tp 1", "--num-experts 4 --moe-router-topk 4", "", NULL },
    { "tp 1", "--num-experts 4 --moe-router-topk 5", "router-topk",
      "moe-router-topk 5 is more than num-experts 4" },
    { "tp 1", "--num-experts 1", "router-topk",
      "moe-router-topk (by default) 2 is more than num-experts 1" },
    { "tp 1", "--num-experts 4 --moe-router-topk 1 --moe-apply-probs-on-input", "", NULL },
    { "tp 1", "--num-experts 4 --moe-apply-probs-on-input", "router-topk",
      "moe-apply-probs-on-input needs moe-router-topk 1, not 2 (by default)" },
    { "tp 1", "--num-experts 4 --moe-router-topk 4 --moe-router-load-balancing-type "
      "quantile_balancing", "router-topk",
      "quantile_balancing needs moe-router-topk 4 to be less than num-experts 4" },
    { "tp 1", "--num-experts 4 --moe-router-load-balancing-type=quantile_balancing "
      "--micro-batch-size 2 --seq-length 5", "", NULL },
    { "tp 1", "--num-experts 8 --moe-router-load-balancing-type quantile_balancing "
      "--micro-batch-size 2 --seq-length 5", "router-topk",
      "quantile_balancing needs num-experts 8 to divide the 20 choices of a microbatch "
      "(micro-batch-size 2 x seq-length 5 x moe-router-topk 2)" },
    { "tp 1", "--num-experts 8 --moe-router-load-balancing-type aux_loss "
      "--micro-batch-size 2 --seq-length 5", "", NULL },
    { "tp 1", "--num-experts 8 --moe-router-load-balancing-type quantile_balancing "
      "--micro-batch-size 2", "", NULL },
    { "tp 1", "--num-experts 8 --moe-router-num-groups 3", "router-groups", "num-experts 8" },
    { "tp 1", "--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 5",
      "router-groups", "topk 5" },
    { "tp 1", "--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 4", "",
      NULL },
    { "tp 1", "--num-experts 8 --moe-router-group-topk 4", "router-groups",
      "moe-router-group-topk 4 needs --moe-router-num-groups" },
    { "tp 1", "--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 1 "
      "--moe-router-topk 3", "router-groups",
      "moe-router-topk 3 is more than the 2 experts of moe-router-group-topk 1 of 4 groups" },
    { "tp 1", "--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 1", "", NULL },
    { "tp 2 world 8", "--global-batch-size 12 --micro-batch-size 2", "batch",
      "global-batch-size 12 is not a multiple of micro-batch-size 2 x dp 4 = 8; use 8 or 16" },
    { "tp 2 world 8", "--global-batch-size 4 --micro-batch-size 2", "batch", "use 8" },
    { "tp 2 world 8", "--global-batch-size 16 --micro-batch-size 2", "", NULL },
    { "tp 2", "--global-batch-size 13 --micro-batch-size 2", "", NULL },
    { "tp 2 world 8", "--global-batch-size 12 --micro-batch-size 2 "
      "--decrease-batch-size-if-needed", "", NULL },
    { "tp 2 world 8", "--global-batch-size 12 --micro-batch-size 2 --rampup-batch-size 4 4 9",
      "", NULL },
    { "pp 4 vpp 2 world 8", "--global-batch-size 6 --micro-batch-size 1", "microbatches-vpp",
      "3 microbatches (global-batch-size 6 / micro-batch-size 1 x dp 2)" },
    { "pp 4 vpp 2 world 8", "--global-batch-size 10 --micro-batch-size 1", "microbatches-vpp",
      "5 microbatches in groups of 4 leave 1, want none or at least 4 (the pipeline ranks); use "
      "4 or 8 microbatches" },
    { "pp 4 vpp 2 world 8", "--global-batch-size 16 --micro-batch-size 1", "", NULL },
    { "pp 4 vpp 2 world 8", "--global-batch-size 18 --micro-batch-size 1 "
      "--microbatch-group-size-per-virtual-pipeline-stage 5", "", NULL },
    { "pp 4 vpp 2 world 8", "--microbatch-group-size-per-virtual-pipeline-stage 3",
      "microbatches-vpp", "3 is less than pp 4" },
    { "pp 4 world 8", "--global-batch-size 6 --micro-batch-size 1", "", NULL },
    { "pp 4 world 8", "--global-batch-size 6 --micro-batch-size 1 --num-layers 16 "
      "--num-layers-per-virtual-pipeline-stage 2", "microbatches-vpp", "2 virtual stages" },
    { "tp 5", "--num-attention-heads 6 --ffn-hidden-size 6 --padded-vocab-size 6",
      "heads-tp ffn-tp vocab-tp", NULL },
    { "tp 16777216", "--num-attention-heads 16777215 --seq-length 16777215 "
      "--sequence-parallel", "heads-tp seq-sp", "use 16777216, or tp 16777215" },
};

static void test_rules (void)
{
    for (size_t i = 0; i < COUNT (rule_cases); i++) {
        struct seen seen = { .count = 0 };
        struct geometry g;
        struct margs a;
        struct line l;
        int count;

        set_geometry (&g, rule_cases[i].geometry);
        scan (&a, &l, rule_cases[i].args);
        count = margs_check (&a, &g, note, &seen);
        is_str (seen.rules, rule_cases[i].rules, "%s: %s", rule_cases[i].geometry,
                rule_cases[i].args);
        ok (count == seen.count && count == margs_check (&a, &g, NULL, NULL),
            "and so says the count");
        if (rule_cases[i].text && !ok (strstr (seen.first, rule_cases[i].text), "and why"))
            diag ("%s", seen.first);
    }
}

/* When the default of etp may surprise. */
static void test_note (void)
{
    static const struct {
        const char *geometry, *args;
        bool note;
    } rows[] = {
        { "tp 2 ep 4", "--num-experts 8", true },
        { "tp 2 ep 4 etp 2", "--num-experts 8", false },
        { "tp 2 ep 4 etp 1", "--num-experts 8", false },
        { "tp 2 ep 4", "--num-experts 8 --expert-tensor-parallel-size 2", false },
        { "tp 2", "--num-experts 8", false },
        { "ep 4", "--num-experts 8", false },
        { "tp 2 ep 4", "--num-layers 8", false },
    };

    for (size_t i = 0; i < COUNT (rows); i++) {
        struct mg_error text = { "" };
        struct geometry g;
        struct margs a;
        struct line l;

        set_geometry (&g, rows[i].geometry);
        scan (&a, &l, rows[i].args);
        ok (margs_note_etp (&a, &g, &text) == rows[i].note, "%s, %s", rows[i].geometry,
            rows[i].args);
        is_str (text.text, rows[i].note
                    ? "etp is not given and defaults to tp 2: each expert is split over 2 ranks, "
                      "and etp 2 x ep 4 = 8 ranks share the experts of a layer"
                    : "", "its text");
    }
}

int main (void)
{
    test_table ();
    test_scan ();
    test_set ();
    test_merge ();
    test_merge_sizes ();
    test_rules ();
    test_note ();
    return done_testing ();
}
