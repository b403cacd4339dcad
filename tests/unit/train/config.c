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
    const char *arg[5]; /* after the base, closed by NULL */
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
    { { "--batches", "f", NULL }, "exclude each other" },
    { { "--save-interval", "5", NULL }, "--save-interval wants --save" },
    { { "--save-interval", "5", "--save", "d", NULL }, NULL },
    { { "--context-parallel-size", "2", NULL }, "only 1 is available" },
    { { "--hidden-dropout", "1", NULL }, "--hidden-dropout: 1 is out of range" },
};

static int parse (const char *const *more, struct train_args *args, struct mg_error *err)
{
    const char *argv[MAX_ARGS] = { BASE };
    int argc = 0;

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
    test_environment ();
    test_fingerprint ();
    test_model ();
    return done_testing ();
}
