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
    .learning_rate = 1.5e-4, .weight_decay = 0.01, .milliseconds = 12.345,
    .mean_milliseconds = 23.456,
};

static void test_print (void)
{
    /* Megatron-LM's training_log */
    static const char want[]
        = "] iteration        7/    1000 | consumed samples:          112"
          " | elapsed time per iteration (ms): 23.5 | learning rate: 1.500000E-04"
          " | global batch size:    16 | lm loss: 5.123457E+00 | loss scale: 1.0"
          " | grad norm: 2.718 | number of skipped iterations:   0"
          " | number of nan iterations:   0 |\n";
    char *text = NULL;
    size_t size = 0;
    int year = 0, rest = 0;
    FILE *f = open_memstream (&text, &size);

    metrics_print (f, &metrics);
    fclose (f);
    ok (sscanf (text, " [%4d-%*2d-%*2d %*2d:%*2d:%*2d.%*6d%n", &year, &rest) == 1
        && year > 2000 && rest == 28, "the time: %.30s", text);
    is_str (text + rest, want, "the line");
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
    is_int (metrics_write_json (f, "f", &m, &err), 0, "written");
    fclose (f);
    is_str (text,
            "{\"iteration\": 7, \"consumed samples\": 112, \"global batch size\": 16, "
            "\"lm loss\": 5.12345679, \"lm loss tokens\": 0.333333333, \"grad norm\": 2.71828, "
            "\"learning rate\": 0.00015, \"weight decay\": 0.01, "
            "\"elapsed time per iteration (ms)\": 12.345}\n"
            "{\"iteration\": 7, \"consumed samples\": 112, \"global batch size\": 16, "
            "\"lm loss\": null, \"lm loss tokens\": 0.333333333, \"grad norm\": null, "
            "\"learning rate\": 0.00015, \"weight decay\": 0.01, "
            "\"elapsed time per iteration (ms)\": 12.345}\n",
            "a line each, what is no number is null");
    free (text);
    f = fopen ("/dev/full", "w");
    if (f) {
        ok (metrics_write_json (f, "m.json", &m, &err) < 0
            && strstr (err.text, "m.json: cannot write metrics: No space left"), "%s", err.text);
        fclose (f);
    }
}

int main (void)
{
    test_print ();
    test_json ();
    return done_testing ();
}
