/* num_microbatches.c - batch sizes, against Megatron-LM's */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/num_microbatches.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

/* The schedules of the cases below. */
enum { CONSTANT, ROUNDED, STEPS, UNITS, TOKENS, RAMP, SHORT_RAMP, NUM_CONFIGS };

static const struct batch_config configs[NUM_CONFIGS] = {
    [CONSTANT] = { .micro_batch = 2, .dp = 3, .global_batch = 12 },
    [ROUNDED] = { .micro_batch = 2, .dp = 3, .global_batch = 13, .round_down = true },
    [STEPS] = { .micro_batch = 1, .dp = 2, .steps = "0:4 10:8,20:16" },
    [UNITS] = { .micro_batch = 1, .dp = 1, .steps = " 1.5k:2 ,, 0:1 2t:1K " },
    [TOKENS] = { .micro_batch = 1, .dp = 1, .steps = "0:1 1e3:2.9", .seq_length = 300 },
    [RAMP] = { .micro_batch = 1,
               .dp = 1,
               .global_batch = 8,
               .ramp_start = 2,
               .ramp_increment = 3,
               .ramp_samples = 10 },
    [SHORT_RAMP] = { .micro_batch = 1,
                     .dp = 1,
                     .global_batch = 8,
                     .ramp_start = 2,
                     .ramp_increment = 1,
                     .ramp_samples = 2 },
};

static void test_sizes (void)
{
    static const struct {
        int config;
        int64_t consumed, global, running, microbatches;
    } cases[] = {
        { CONSTANT, 0, 12, 12, 2 },
        { CONSTANT, 99, 12, 12, 2 },
        { ROUNDED, 7, 13, 12, 2 },
        { STEPS, 0, 4, 4, 2 },
        { STEPS, 9, 4, 4, 2 },
        { STEPS, 10, 8, 8, 4 },
        { STEPS, 19, 8, 8, 4 },
        { STEPS, 20, 16, 16, 8 },
        { STEPS, INT64_MAX, 16, 16, 8 },
        { UNITS, 1499, 1, 1, 1 },
        { UNITS, 1500, 2, 2, 2 },
        { UNITS, 2000000000000, 1000, 1000, 1000 },
        { TOKENS, 2, 1, 1, 1 },
        { TOKENS, 3, 2, 2, 2 },
        { RAMP, 4, 2, 2, 2 },
        { RAMP, 5, 5, 5, 5 },
        { RAMP, 10, 8, 8, 8 },
        { SHORT_RAMP, 1, 5, 5, 5 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        struct num_microbatches *n
            = num_microbatches_create (&configs[cases[i].config], &err);
        struct batch_size size = { 0 };

        if (n)
            num_microbatches_at (n, cases[i].consumed, &size);
        ok (n && size.global_batch == cases[i].global && size.running == cases[i].running
                && size.num_microbatches == cases[i].microbatches,
            "%zu: after %lld samples: %lld, %lld, %lld %s", i,
            (long long)cases[i].consumed, (long long)size.global_batch,
            (long long)size.running, (long long)size.num_microbatches, err.text);
        is_int (n ? num_microbatches_check (n, &size, NULL) : -1, 0, "which can be run");
        num_microbatches_destroy (n);
    }
}

static void test_steps (void)
{
    struct batch_config c = { .micro_batch = 2, .dp = 2, .steps = "0:4 8:6 16:3 24:8" };
    struct num_microbatches *n = num_microbatches_create (&c, NULL);
    static const int64_t from[] = { 0, 8, 16, 24 };
    struct mg_error err = { .text = "" };
    struct batch_size size;

    if (!n)
        bail_out ("no steps");
    is_int (num_microbatches_count (n), 4, "four steps");
    for (size_t i = 0; i < 4; i++)
        is_int (num_microbatches_from (n, i), from[i], "step %zu", i);
    num_microbatches_at (n, 8, &size);
    is_int (num_microbatches_check (n, &size, &err), -1, "a size that does not divide");
    is_str (err.text, "global-batch-size 6 is not a multiple of micro-batch-size 2 x "
            "dp 2 = 4; use 4 or 8", "is refused once it is reached");
    num_microbatches_at (n, 16, &size);
    is_int (num_microbatches_check (n, &size, &err), -1, "one that is too small");
    is_str (err.text,
            "global-batch-size 3 is not a multiple of micro-batch-size 2 x dp 2 = 4; use 4",
            "too");
    num_microbatches_destroy (n);
}

/* Against a loop. */
static void test_progress (void)
{
    static const struct batch_config runs[] = {
        { .micro_batch = 1, .dp = 2, .global_batch = 6 },
        { .micro_batch = 1, .dp = 2, .steps = "0:2 5:4 6:8 30:6 31:2 32:10" },
        { .micro_batch = 2, .dp = 2, .global_batch = 23, .round_down = true,
          .ramp_start = 5, .ramp_increment = 3, .ramp_samples = 61 },
        { .micro_batch = 2, .dp = 2, .steps = "0:4 8:1 17:8" }, /* too small in between */
    };

    for (size_t i = 0; i < COUNT (runs); i++) {
        struct num_microbatches *n = num_microbatches_create (&runs[i], NULL);
        int64_t samples = 0;
        int bad = 0;

        for (int64_t k = 0; k < 60 && n; k++) {
            struct batch_size size;

            bad += num_microbatches_samples (n, k) != samples;
            bad += num_microbatches_iterations (n, samples) != k;
            bad += num_microbatches_iterations (n, samples + 1) != k + 1;
            bad += num_microbatches_after (n, samples, 5)
                   != num_microbatches_samples (n, k + 5);
            num_microbatches_at (n, samples, &size);
            samples += size.running;
        }
        ok (n && bad == 0, "samples and iterations of schedule %zu", i);
        if (n)
            is_int (num_microbatches_samples (n, INT64_MAX), INT64_MAX,
                    "without overflow");
        num_microbatches_destroy (n);
    }
}

static const struct {
    struct batch_config c;
    const char *want;
} refusals[] = {
    { { .micro_batch = 0, .dp = 1, .global_batch = 1 },
      "micro-batch-size 0 and data-parallel size 1: want at least 1 of both" },
    { { .micro_batch = 1, .dp = 0, .global_batch = 1 },
      "micro-batch-size 1 and data-parallel size 0: want at least 1 of both" },
    { { .micro_batch = 1, .dp = 1 }, "global-batch-size is 0, want at least 1" },
    { { .micro_batch = 4, .dp = 2, .global_batch = 12 },
      "global-batch-size 12 is not a multiple of micro-batch-size 4 x dp 2 = 8; use 8 or 16" },
    { { .micro_batch = 4, .dp = 2, .global_batch = 7, .round_down = true },
      "global-batch-size 7 is not a multiple of micro-batch-size 4 x dp 2 = 8; use 8" },
    { { .micro_batch = 1, .dp = 1, .steps = "0:1", .global_batch = 1 },
      "step-batch-size-schedule excludes global-batch-size, rampup-batch-size and "
      "decrease-batch-size-if-needed" },
    { { .micro_batch = 1, .dp = 1, .steps = "0:1", .round_down = true },
      "step-batch-size-schedule excludes global-batch-size, rampup-batch-size and "
      "decrease-batch-size-if-needed" },
    { { .micro_batch = 1, .dp = 1, .steps = " ," },
      "step-batch-size-schedule is empty, want THRESHOLD:SIZE ..." },
    { { .micro_batch = 1, .dp = 1, .steps = "0:1 5" },
      "step-batch-size-schedule: \"5\" is not THRESHOLD:SIZE" },
    { { .micro_batch = 1, .dp = 1, .steps = "0:1 5:0" },
      "step-batch-size-schedule: batch size in \"5:0\" is less than 1" },
    { { .micro_batch = 1, .dp = 1, .steps = "3:1 5:2" },
      "step-batch-size-schedule: the first threshold is 3 samples, want 0" },
    { { .micro_batch = 1, .dp = 1, .steps = "0:1 5:2 5:3" },
      "step-batch-size-schedule: two thresholds are 5 samples" },
    { { .micro_batch = 1, .dp = 1, .steps = "0:1 5:2", .seq_length = 8 },
      "step-batch-size-schedule: two thresholds are 0 samples" },
    { { .micro_batch = 1,
        .dp = 1,
        .global_batch = 8,
        .ramp_start = 2,
        .ramp_increment = 4,
        .ramp_samples = 10 },
      "batch size ramp from 2 by 4 does not lead to global-batch-size 8" },
    { { .micro_batch = 1,
        .dp = 1,
        .global_batch = 8,
        .ramp_start = 8,
        .ramp_increment = 4,
        .ramp_samples = 10 },
      "batch size ramp from 8 by 4 does not lead to global-batch-size 8" },
    { { .micro_batch = 1,
        .dp = 1,
        .global_batch = 8,
        .ramp_start = 4,
        .ramp_increment = 4 },
      "batch size ramp from 4 by 4 over 0 samples: want at least 1 of each" },
};

static void test_refusals (void)
{
    static const char *const no_numbers[]
        = { "0:x",        "0:",        ":1",        "0:1KK",        "0:-1",
            "0:1 1e99:2", "0:1 nan:2", "0:1 0x5:2", "0:1 900000T:1" };

    for (size_t i = 0; i < COUNT (refusals); i++) {
        struct mg_error err = { .text = "" };

        errno = 0;
        ok (!num_microbatches_create (&refusals[i].c, &err) && errno == EINVAL, "refused");
        is_str (err.text, refusals[i].want, "with a text");
    }
    for (size_t i = 0; i < COUNT (no_numbers); i++) {
        struct batch_config c = { .micro_batch = 1, .dp = 1, .steps = no_numbers[i] };
        struct mg_error err = { .text = "" };

        ok (!num_microbatches_create (&c, &err), "refused: %s: %s", no_numbers[i],
            err.text);
    }
    num_microbatches_destroy (NULL);
}

/* --- the reference --- */

static int64_t get_int (json_t *object, const char *key)
{
    return json_integer_value (json_object_get (object, key));
}

static struct batch_config config_of (json_t *args)
{
    return (struct batch_config){
        .micro_batch = (int)get_int (args, "micro_batch_size"),
        .dp = (int)get_int (args, "data_parallel_size"),
        .global_batch = get_int (args, "global_batch_size"),
        .round_down
        = json_is_true (json_object_get (args, "decrease_batch_size_if_needed")),
        .steps = json_string_value (json_object_get (args, "schedule")),
        .seq_length = get_int (args, "seq_length"),
        .ramp_start = get_int (args, "start_global_batch_size"),
        .ramp_increment = get_int (args, "batch_size_increment"),
        .ramp_samples = get_int (args, "ramup_samples"),
    };
}

/* Rows [samples, microbatches, size, running size, ...]; null: at the start.  A row may
 * be a refusal, after which there is none.
 */
static int count_wrong (const struct num_microbatches *n, json_t *one)
{
    bool checks = json_is_true (json_object_get (one, "consistency_check"));
    int64_t consumed = 0;
    json_t *row;
    int wrong = 0;
    size_t i;

    json_array_foreach (json_object_get (one, "rows"), i, row)
    {
        struct batch_size size;
        bool refused = json_is_object (json_array_get (row, 1)) || json_is_object (row);

        if (json_is_array (row))
            consumed = json_integer_value (json_array_get (row, 0));
        num_microbatches_at (n, consumed, &size);
        if (refused) {
            wrong += num_microbatches_check (n, &size, NULL) == 0;
            continue;
        }
        wrong += size.num_microbatches != json_integer_value (json_array_get (row, 1))
                 || size.global_batch != json_integer_value (json_array_get (row, 2))
                 || size.running != json_integer_value (json_array_get (row, 3));
        // the reference goes on without any microbatch
        if (checks && i > 0 && size.num_microbatches > 0)
            wrong += num_microbatches_check (n, &size, NULL) != 0;
    }
    return wrong;
}

static void check_case (size_t number, json_t *one)
{
    struct batch_config c = config_of (json_object_get (one, "args"));
    struct mg_error err = { .text = "" };
    struct num_microbatches *n = num_microbatches_create (&c, &err);

    if (json_object_get (one, "error"))
        ok (!n, "reference %zu is refused: %s", number, err.text);
    else if (!n)
        ok (false, "reference %zu: %s", number, err.text);
    else
        is_int (count_wrong (n, one), 0, "reference %zu: %s, %zu rows", number,
                json_string_value (json_object_get (one, "class")),
                json_array_size (json_object_get (one, "rows")));
    num_microbatches_destroy (n);
}

/* Numbers as thresholds. */
static void check_number (json_t *pair)
{
    const char *text = json_string_value (json_array_get (pair, 0));
    int64_t want = json_integer_value (json_array_get (pair, 1));
    char steps[200];
    struct batch_config c = { .micro_batch = 1, .dp = 1, .steps = steps };
    struct num_microbatches *n;

    while (*text == ' ')
        text++;
    snprintf (steps, sizeof (steps), "%s%.*s:2", want ? "0:1 " : "",
              (int)strcspn (text, " "), text);
    n = num_microbatches_create (&c, NULL);
    is_int (n ? num_microbatches_from (n, num_microbatches_count (n) - 1) : -1, want,
            "reference number %s", text);
    num_microbatches_destroy (n);
}

static void test_reference (void)
{
    json_error_t json_error;
    json_t *root, *one;
    char path[4096];
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/07_num_microbatches.json")) {
        skip (1, "no reference batch sizes at %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, &json_error)))
        bail_out ("%s: %s", path, json_error.text);
    json_array_foreach (json_object_get (root, "cases"), i, one)
        check_case (i, one);
    json_array_foreach (json_object_get (root, "parse_numeric_value"), i, one)
        check_number (one);
    json_decref (root);
}

int main (void)
{
    test_sizes ();
    test_steps ();
    test_progress ();
    test_refusals ();
    test_reference ();
    return done_testing ();
}
