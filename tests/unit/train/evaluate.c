/* What evaluation asks of the data, and of the other arguments. */

#include <errno.h>
#include <string.h>

#include "libcore/train/config.h"
#include "tests/tap/tap.h"

static char word[] = "p";

static struct evaluation_config make (int64_t interval, int64_t iters, bool skip_train)
{
    struct train_args args;
    struct run_config config;

    train_args_init (&args);
    args.eval_interval = interval;
    args.eval_iters = iters;
    args.skip_train = skip_train;
    run_config_init (&config, &args);
    return config.evaluation;
}

/* Megatron-LM's get_train_valid_test_num_samples(). */
static void test_samples (void)
{
    static const struct {
        int64_t interval, iters;
        bool skip_train;
        int64_t train_iters, batch, valid, test;
    } cases[] = {
        { TRAIN_UNSET, TRAIN_UNSET, false, 0, 1, 100, 100 },
        { TRAIN_UNSET, TRAIN_UNSET, false, 999, 8, 800, 800 },
        { TRAIN_UNSET, TRAIN_UNSET, false, 1000, 8, 1600, 800 },
        { TRAIN_UNSET, TRAIN_UNSET, false, 1001, 8, 1600, 800 },
        { 10, 3, false, 29, 4, 36, 12 },
        { 10, 3, false, 30, 4, 48, 12 },
        { 10, 3, true, 30, 4, 12, 12 },
        { 0, 3, false, 30, 4, 12, 12 },
        { 1, 1, false, 7, 1, 8, 1 },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        const struct evaluation_config config
            = make (cases[i].interval, cases[i].iters, cases[i].skip_train);

        is_int (evaluate_samples (&config, SPLIT_VALID, cases[i].train_iters, cases[i].batch,
                                  NULL),
                cases[i].valid, "case %zu: validation", i);
        is_int (evaluate_samples (&config, SPLIT_TEST, cases[i].train_iters, cases[i].batch,
                                  NULL),
                cases[i].test, "and test");
    }
}

/* A first iteration with a validation takes validations away, as Megatron-LM counts them. */
static void test_start (void)
{
    static const struct {
        int64_t start, samples;
    } cases[] = { { 0, 11 }, { 1, 11 }, { 9, 11 }, { 10, 10 }, { 35, 8 }, { 100, 1 }, { 999, 1 } };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct evaluation_config config = make (10, 1, false);

        config.start = cases[i].start;
        is_int (evaluate_samples (&config, SPLIT_VALID, 100, 1, NULL), cases[i].samples,
                "from iteration %d on", (int)cases[i].start);
        is_int (evaluate_samples (&config, SPLIT_TEST, 100, 1, NULL), 1, "but one test");
    }
}

/* Arguments of one row each, with validation data "a b" unless 'data' is something else. */
static void test_sets (void)
{
    static char a[] = "a", b[] = "b", quoted[] = "x\"y", long_name[100];
    static char *more[] = { b }, *numbers[] = { b };
    static char one[] = "1";
    const struct arg_list two = { a, more, 2 }, weighted = { one, numbers, 2 };
    const struct arg_list single = { a, NULL, 1 }, bad = { quoted, more, 2 };
    const struct arg_list too_long = { long_name, more, 2 }, none = { NULL, NULL, 0 };
    const struct {
        bool full, several;
        const struct arg_list *names, *data;
        const char *text; /* NULL: good */
    } cases[] = {
        { true, false, &none, &two, NULL },
        { true, true, &none, &two, NULL },
        { true, true, &two, &two, NULL },
        { true, true, &single, &single, NULL },
        { true, true, &two, &none, NULL },
        { false, true, &none, &two, "--multiple-validation-sets wants --full-validation" },
        { true, false, &two, &two, "--validation-set-names wants --multiple-validation-sets" },
        { true, true, &single, &two, "has 1 name, but there are 2 validation sets" },
        { true, true, &two, &single, "has 2 names, but there is 1 validation set" },
        { true, true, &bad, &two, "--validation-set-names: \"x\"y\" is no name" },
        { true, true, &too_long, &two, "is no name, want up to 63 bytes" },
        { true, true, &none, &weighted, "want --valid-data-path without weights" },
        { true, false, &none, &weighted, "want --valid-data-path without weights" },
        { false, false, &none, &weighted, NULL },
    };

    memset (long_name, 'n', sizeof (long_name) - 1);
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct evaluation_config config = make (TRAIN_UNSET, TRAIN_UNSET, false);
        struct data_config data = { .part[SPLIT_VALID] = *cases[i].data };
        struct mg_error err = { "" };
        int rc;

        config.full = cases[i].full;
        config.several = cases[i].several;
        config.names = *cases[i].names;
        rc = evaluate_check (&config, &data, &err);
        if (cases[i].text)
            ok (rc == -1 && errno == EINVAL && strstr (err.text, cases[i].text), "case %zu: %s",
                i, err.text);
        else
            ok (rc == 0, "case %zu is good%s", i, err.text);
    }
}

static void test_overflow (void)
{
    const struct evaluation_config config = make (1, INT64_C (1000000000000000), false);
    struct mg_error err = { "" };

    ok (evaluate_samples (&config, SPLIT_VALID, 9222, 1, &err) > 0, "just possible");
    ok (evaluate_samples (&config, SPLIT_VALID, 9223, 1, &err) == -1 && errno == ERANGE, "%s",
        err.text);
    ok (evaluate_samples (&config, SPLIT_TEST, 9223, 9224, &err) == -1 && errno == ERANGE, "%s",
        err.text);
}

static void test_check (void)
{
    static const struct {
        int64_t interval, iters;
        bool skip_train, all, valid, test; /* --data-path, --valid..., --test-data-path */
        const char *text;                  /* NULL: good */
    } cases[] = {
        { TRAIN_UNSET, TRAIN_UNSET, false, false, false, false, NULL },
        { TRAIN_UNSET, 5, false, false, false, false, NULL },
        { 0, 5, false, false, false, false, NULL },
        { 5, 0, false, false, false, false, NULL },
        { 5, TRAIN_UNSET, false, true, false, false, NULL },
        { 5, TRAIN_UNSET, false, false, true, false, NULL },
        { 5, TRAIN_UNSET, false, false, false, true, "--eval-interval wants validation data" },
        { 5, TRAIN_UNSET, true, false, false, true, NULL },
        { TRAIN_UNSET, TRAIN_UNSET, true, false, false, false, "--skip-train wants data" },
        { TRAIN_UNSET, 0, true, true, false, false, "--skip-train with --eval-iters 0" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        const struct evaluation_config config
            = make (cases[i].interval, cases[i].iters, cases[i].skip_train);
        const struct arg_list given = { word, NULL, 1 }, none = { NULL, NULL, 0 };
        struct data_config data = { .all = none, .split = "969,30,1" };
        struct mg_error err = { "" };
        int rc;

        data.all = cases[i].all ? given : none;
        data.part[SPLIT_VALID] = cases[i].valid ? given : none;
        data.part[SPLIT_TEST] = cases[i].test ? given : none;
        rc = evaluate_check (&config, &data, &err);
        if (cases[i].text)
            ok (rc == -1 && errno == EINVAL && strstr (err.text, cases[i].text), "case %zu: %s",
                i, err.text);
        else
            ok (rc == 0, "case %zu is good%s", i, err.text);
    }
}

static void test_split (void)
{
    const struct evaluation_config config = make (5, TRAIN_UNSET, false);
    struct data_config data = { .all = { word, NULL, 1 }, .split = "1,0,1" };
    struct mg_error err = { "" };

    ok (evaluate_check (&config, &data, &err) < 0 && errno == EINVAL, "no weight for validation");
    is_str (err.text, "--eval-interval wants validation data, and --split 1,0,1 gives it none",
            "is told");
    data.split = "1,1,0";
    ok (evaluate_check (&config, &data, &err) == 0, "some weight");
    data.split = "1,x";
    ok (evaluate_check (&config, &data, &err) == 0, "what cannot be read is refused elsewhere");
}

int main (void)
{
    test_samples ();
    test_start ();
    test_overflow ();
    test_sets ();
    test_check ();
    test_split ();
    return done_testing ();
}
