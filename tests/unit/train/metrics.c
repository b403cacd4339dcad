/* Iteration lines, byte by byte but for the time. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/metrics.h"
#include "tests/tap/tap.h"

static const struct metrics metrics = {
    .iteration = 7, .train_iters = 1000, .consumed_samples = 112, .global_batch_size = 16,
    .lm_loss = 5.12345678949, .lm_loss_tokens = 1.0 / 3, .grad_norm = 2.71828,
    .num_zeros = -1, .params_norm = -1,
    .learning_rate = 1.5e-4, .learning_rate_used = 1.25e-4, .weight_decay = 0.01,
    .milliseconds = 12.345,
    .rate = { 20736.25, 0.125 }, .mean_milliseconds = 23.456, .mean_lm_loss = 5.5,
    .num_updates = 1,
    .mean = { 10913.73, 0.0654321 }, .loss_scale = 1,
};

static void test_print (void)
{
    /* Megatron-LM's training_log */
    static const char want[]
        = "] iteration        7/    1000 | consumed samples:          112"
          " | elapsed time per iteration (ms): 23.5 | learning rate: 1.500000E-04"
          " | global batch size:    16 | lm loss: 5.500000E+00 | loss scale: 1.0"
          " | grad norm: 2.718 | number of skipped iterations:   0"
          " | number of nan iterations:   0 |\n";
    char *text = NULL;
    size_t size = 0;
    int year = 0, rest = 0;
    struct metrics skipped = metrics;
    FILE *f = open_memstream (&text, &size);

    metrics_print (f, &metrics, false);
    fclose (f);
    ok (sscanf (text, " [%4d-%*2d-%*2d %*2d:%*2d:%*2d.%*6d%n", &year, &rest) == 1
        && year > 2000 && rest == 28, "the time: %.30s", text);
    is_str (text + rest, want, "the line");
    free (text);
    skipped.skipped = true;
    skipped.num_skipped = 3;
    skipped.loss_scale = 4294967296;
    f = open_memstream (&text, &size);
    metrics_print (f, &skipped, false);
    fclose (f);
    ok (strstr (text, " | lm loss: 5.500000E+00 | loss scale: 4294967296.0 | number of skipped "
                      "iterations:   3 | "),
        "of a skipped iteration, without a norm");
    free (text);
    skipped.num_updates = 0;
    skipped.params_norm = 7.0625;
    f = open_memstream (&text, &size);
    metrics_print (f, &skipped, false);
    fclose (f);
    ok (strstr (text, " | global batch size:    16 | loss scale: 4294967296.0 | params norm: "
                      "7.062 | number"),
        "without a loss where all were skipped");
    free (text);
}

static void test_throughput (void)
{
    struct metrics m = metrics;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream (&text, &size);

    metrics_print (f, &m, true);
    m.mean.tflops = 408.76;
    metrics_print (f, &m, true);
    fclose (f);
    ok (strstr (text, "iteration (ms): 23.5 | throughput per GPU (TFLOP/s/GPU): 0.065432 | "
                      "tokens per second: 10913.7 | learning rate: "),
        "rates of a CPU");
    ok (strstr (text, "throughput per GPU (TFLOP/s/GPU): 408.8 | tokens per second"), "of a GPU");
    free (text);
}

static void test_json (void)
{
    struct metrics m = metrics;
    struct mg_error err = { "" };
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream (&text, &size);

    is_int (metrics_write_json (f, "f", &m, &err), 0, "written");
    m.lm_loss = NAN;
    m.grad_norm = INFINITY;
    m.num_zeros = 12345678901;
    m.params_norm = 12.5;
    m.loss_scale = 65536;
    m.skipped = true;
    is_int (metrics_write_json (f, "f", &m, &err), 0, "written");
    fclose (f);
    is_str (text,
            "{\"iteration\": 7, \"consumed samples\": 112, \"global batch size\": 16, "
            "\"lm loss\": 5.12345679, \"lm loss tokens\": 0.333333333, \"grad norm\": 2.71828, "
            "\"loss scale\": 1, \"skipped\": false, "
            "\"learning rate\": 0.00015, \"learning rate used\": 0.000125, \"weight decay\": 0.01, "
            "\"elapsed time per iteration (ms)\": 12.345, \"tokens per second\": 20736.25, "
            "\"throughput per GPU (TFLOP/s/GPU)\": 0.125}\n"
            "{\"iteration\": 7, \"consumed samples\": 112, \"global batch size\": 16, "
            "\"lm loss\": null, \"lm loss tokens\": 0.333333333, \"grad norm\": null, "
            "\"num zeros\": 12345678901, \"params norm\": 12.5, \"loss scale\": 65536, "
            "\"skipped\": true, "
            "\"learning rate\": 0.00015, \"learning rate used\": 0.000125, \"weight decay\": 0.01, "
            "\"elapsed time per iteration (ms)\": 12.345, \"tokens per second\": 20736.25, "
            "\"throughput per GPU (TFLOP/s/GPU)\": 0.125}\n",
            "a line each, what is no number is null");
    free (text);
    f = fopen ("/dev/full", "w");
    if (f) {
        ok (metrics_write_json (f, "m.json", &m, &err) < 0
            && strstr (err.text, "m.json: cannot write metrics: No space left"), "%s", err.text);
        fclose (f);
    }
}

static void test_evaluation (void)
{
    struct metrics_evaluation m = {
        .part = "test", .set = " on test set", .iteration = 20, .consumed_samples = 320,
        .samples = 1600, .lm_loss = 2.5, .milliseconds = 33.5,
    };
    struct mg_error err = { "" };
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream (&text, &size);

    metrics_print_evaluation (f, &m);
    is_int (metrics_write_evaluation (f, "f", &m, &err), 0, "written");
    m.lm_loss = NAN;
    is_int (metrics_write_evaluation (f, "f", &m, &err), 0, "written");
    fclose (f);
    /* Megatron-LM's evaluate_and_print_results */
    is_str (text,
            "---------------------------------------------------------------------------------"
            "-------------------------\n"
            " validation loss at iteration 20 on test set | lm loss value: 2.500000E+00 | "
            "lm loss PPL: 1.218249E+01 | \n"
            "---------------------------------------------------------------------------------"
            "-------------------------\n"
            "{\"evaluation\": \"test\", \"iteration\": 20, \"consumed samples\": 320, "
            "\"samples\": 1600, \"lm loss value\": 2.5, \"lm loss PPL\": 12.182494, "
            "\"elapsed time (ms)\": 33.5}\n"
            "{\"evaluation\": \"test\", \"iteration\": 20, \"consumed samples\": 320, "
            "\"samples\": 1600, \"lm loss value\": null, \"lm loss PPL\": null, "
            "\"elapsed time (ms)\": 33.5}\n",
            "lines and objects");
    free (text);
    is_near (metrics_perplexity (19), exp (19), 1, "perplexity");
    is_near (metrics_perplexity (21), exp (20), 1, "has an end");
}

int main (void)
{
    test_print ();
    test_throughput ();
    test_json ();
    test_evaluation ();
    return done_testing ();
}
