/* Arguments of megatron train: parsing, defaults, contradictions. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/config.h"
#include "tests/tap/tap.h"

#define BASE \
    "train", "--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", \
        "--seq-length", "16", "--micro-batch-size", "2", "--train-iters", "10", "--lr", "1e-3", \
        "--data-path", "p", "--vocab-size", "257"

enum { MAX_ARGS = 40 };

struct row {
    const char *arg[6]; /* after the base, closed by NULL */
    const char *text;   /* part of the message, NULL: accepted */
};

static const struct row rows[] = {
    { { NULL }, NULL },
    { { "--lr=1e-4", NULL }, NULL },
    { { "--lr=", NULL }, "--lr: \"\" is not a number" },
    { { "--lr", "nan", NULL }, "--lr: \"nan\" is not a number" },
    { { "--lr", NULL }, "--lr wants a value" },
    { { "--num-layers", "0", NULL }, "--num-layers: 0 is out of range, want 1 to" },
    { { "--num-layers", "2x", NULL }, "--num-layers: \"2x\" is not a whole number" },
    { { "--no-such", "1", NULL }, "unknown argument --no-such" },
    { { "--num-layer", "1", NULL }, "unknown argument --num-layer;" },
    { { "word", NULL }, "\"word\" is not an argument" },
    { { "--use-tp-pp-dp-mapping", NULL }, NULL },
    { { "--use-tp-pp-dp-mapping=yes", NULL }, "takes no value" },
    { { "--data-path=", NULL }, "--data-path: the value is empty" },
    { { "--data-path", NULL }, "--data-path wants a value" },
    { { "--data-path", "a", "b", "c", NULL }, NULL },
    { { "--data-path", "1", "a", "2", "b" }, NULL },
    { { "--data-path", "1", "a", "x", "b" },
      "--data-path: \"x\" stands where a weight should" },
    { { "--data-path=0", "a", NULL }, "--data-path: weight of a is 0, want more than 0" },
    { { "--batches", "f", NULL }, "--data-path and --batches exclude each other" },
    { { "--train-data-path", "a", NULL }, "--data-path and --train-data-path exclude" },
    { { "--valid-data-path", "a", NULL }, "--data-path and --valid-data-path exclude" },
    { { "--mid-level-dataset-surplus", "-1", NULL }, "--mid-level-dataset-surplus: -1 is" },
    { { "--tokenizer-type", "ByteLevel", NULL }, NULL },
    { { "--tokenizer-type", "Bytes", NULL }, "tokenizer type: \"Bytes\" is unknown" },
    { { "--tokenizer-type", "GPT2BPETokenizer", NULL }, "needs --vocab-file and --merge" },
    { { "--vocab-file", "v", NULL }, "--vocab-file wants --tokenizer-type" },
    { { "--merge-file", "m", NULL }, "--merge-file wants --tokenizer-type" },
    { { "--save-interval", "5", NULL }, "--save-interval wants --save" },
    { { "--save-interval", "5", "--save", "d", NULL }, NULL },
    { { "--context-parallel-size", "2", NULL }, "only 1 is available" },
    { { "--hidden-dropout", "1", NULL }, "--hidden-dropout: 1 is out of range" },
};

/* The arguments point into the vector, which lives until the fifth call after this one. */
static int parse (const char *const *more, struct train_args *args, struct mg_error *err)
{
    static const char *const base[MAX_ARGS] = { BASE };
    static const char *vectors[5][MAX_ARGS];
    static int turn;
    const char **argv = vectors[turn++ % 5];
    int argc = 0;

    memcpy (argv, base, sizeof (base));
    while (argv[argc])
        argc++;
    while (*more)
        argv[argc++] = *more++;
    return train_args_parse (argc, (char **)argv, args, err);
}

static void test_parse (void)
{
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct train_args args;
        struct mg_error err = { "" };
        int rc = parse (rows[i].arg, &args, &err);

        if (!rows[i].text)
            is_int (rc, 0, "%s is accepted", rows[i].arg[0] ? rows[i].arg[0] : "the base");
        else
            ok (rc < 0 && strstr (err.text, rows[i].text), "%s", err.text);
    }
}

static void test_required (void)
{
    static const char *const all[] = { BASE, NULL };

    /* leave out one pair at a time */
    for (int skip_at = 1; all[skip_at]; skip_at += 2) {
        const char *argv[MAX_ARGS];
        struct train_args args;
        struct mg_error err = { "" };
        int argc = 0;

        for (int i = 0; all[i]; i++)
            if (i != skip_at && i != skip_at + 1)
                argv[argc++] = all[i];
        ok (train_args_parse (argc, (char **)argv, &args, &err) < 0
                && strstr (err.text, "is required") && strstr (err.text, all[skip_at]),
            "without %s: %s", all[skip_at], err.text);
    }
}

static bool list_is (const struct train_list *list, const char *const *words, int n)
{
    bool same = list->count == n;

    for (int i = 0; same && i < n; i++)
        same = strcmp (train_list_word (list, i), words[i]) == 0;
    return same;
}

static void test_lists (void)
{
    static const char *const words[] = { "1", "a", "2", "b" };
    static const char *const apart[] = { "--data-path", "1", "a", "2", "b", NULL };
    static const char *const joined[] = { "--data-path=1", "a", "2", "b", "--untie-embeddings"
                                          "-and-output-weights", NULL };
    static const char *const other[] = { "--data-path", "1", "a", "3", "b", NULL };
    static const char *const none[] = { NULL };
    struct train_args args[4];

    parse (apart, &args[0], NULL);
    parse (joined, &args[1], NULL);
    parse (other, &args[2], NULL);
    parse (none, &args[3], NULL);
    ok (list_is (&args[0].data_path, words, 4), "words up to the end");
    ok (list_is (&args[1].data_path, words, 4) && args[1].untied, "or to the next argument");
    ok (list_is (&args[3].data_path, (const char *const[]){ "p" }, 1), "or one");
    is_int (args[0].valid_data_path.count, 0, "none where it is not given");
    args[1].untied = false;
    ok (train_args_fingerprint (&args[0]) == train_args_fingerprint (&args[1]),
        "the same words have the same fingerprint");
    ok (train_args_fingerprint (&args[0]) != train_args_fingerprint (&args[2]),
        "others have another");
}

static void test_environment (void)
{
    static const char *const none[] = { NULL };
    static const char *const tp4[] = { "--tensor-model-parallel-size", "4", NULL };
    struct train_args args;
    struct geometry g;
    struct mg_error err = { "" };

    parse (none, &args, NULL);
    is_int (train_geometry (&args, &g, &err), 0, "no environment");
    is_int (g.tp, 1, "tp is 1");
    setenv ("MEGATRON_TP_SIZE", "2", 1);
    setenv ("MEGATRON_PP_SIZE", "3", 1);
    setenv ("MEGATRON_RANK_ORDER", "tp-cp-ep-pp-dp", 1);
    is_int (train_geometry (&args, &g, &err), 0, "sizes from the job");
    ok (g.tp == 2 && g.pp == 3 && strcmp (g.order, "tp-cp-ep-pp-dp") == 0, "are taken");
    parse (tp4, &args, NULL);
    ok (train_geometry (&args, &g, &err) < 0 && strstr (err.text, "contradicts"), "%s",
        err.text);
    setenv ("MEGATRON_TP_SIZE", "4", 1);
    is_int (train_geometry (&args, &g, &err), 0, "the same twice is no contradiction");
    setenv ("MEGATRON_TP_SIZE", "x", 1);
    ok (train_geometry (&args, &g, &err) < 0 && strstr (err.text, "MEGATRON_TP_SIZE"), "%s",
        err.text);
    unsetenv ("MEGATRON_TP_SIZE");
    setenv ("MEGATRON_CP_SIZE", "2", 1);
    ok (train_geometry (&args, &g, &err) < 0 && errno == ENOTSUP, "%s", err.text);
    unsetenv ("MEGATRON_CP_SIZE");
    unsetenv ("MEGATRON_PP_SIZE");
    unsetenv ("MEGATRON_RANK_ORDER");
}

static void test_fingerprint (void)
{
    static const char *const none[] = { NULL };
    static const char *const other[] = { "--seed", "7", NULL };
    static const char *const text[] = { "--split", "1,1,1", NULL };
    struct train_args a, b;

    parse (none, &a, NULL);
    parse (none, &b, NULL);
    ok (train_args_fingerprint (&a) == train_args_fingerprint (&b), "equal arguments");
    parse (other, &b, NULL);
    ok (train_args_fingerprint (&a) != train_args_fingerprint (&b), "another seed");
    parse (text, &b, NULL);
    ok (train_args_fingerprint (&a) != train_args_fingerprint (&b), "another split");
}

static void test_model (void)
{
    static const char *const none[] = { NULL };
    static const char *const byte[] = { "--tokenizer-type", "ByteLevel", NULL };
    struct train_args args;
    struct model_config m;
    struct lr_config lr;
    struct mg_error err = { "" };

    parse (none, &args, NULL);
    is_int (train_model (&args, 2, 0, &m, &err), 0, "model of the base");
    ok (m.ffn_hidden_size == 256 && m.kv_channels == 16 && m.max_positions == 16
            && m.vocab_size == 257 && m.padded_vocab_size == 512 && m.tied_embeddings,
        "has Megatron's defaults");
    ok (train_model (&args, 1, 17, &m, &err) < 0, "%s", err.text);
    parse (byte, &args, NULL);
    is_int (train_model (&args, 1, 16, &m, &err), 0, "with a tokenizer");
    args.hidden_size = 66;
    ok (train_model (&args, 1, 0, &m, &err) < 0 && strstr (err.text, "kv-channels"), "%s",
        err.text);
    is_int (train_lr (&args, 8, &lr, &err), 0, "learning rate");
    ok (lr.decay == 80 && lr.style == LR_LINEAR && lr.warmup == 0, "in samples");
    args.lr_warmup_fraction = 0.1;
    is_int (train_lr (&args, 8, &lr, &err), 0, "warm-up as a fraction");
    is_int (lr.warmup, 8, "of the decay");
    args.lr_warmup_iters = 1;
    ok (train_lr (&args, 8, &lr, &err) < 0, "%s", err.text);
    args.lr_warmup_fraction = TRAIN_UNSET;
    args.lr_warmup_iters = 9;
    is_int (train_lr (&args, 8, &lr, &err), 0, "9 iterations of warm-up in a decay of 10");
    args.lr_warmup_iters = 10;
    ok (train_lr (&args, 8, &lr, &err) < 0 && strstr (err.text, "--lr-warmup-iters 10"), "%s",
        err.text);
}

int main (void)
{
    test_parse ();
    test_required ();
    test_lists ();
    test_environment ();
    test_fingerprint ();
    test_model ();
    return done_testing ();
}
