/* outliers - which values are unexpectedly large, and the lines of them */

#include <math.h>
#include <string.h>

#include "libcore/train/outliers.h"
#include "tests/tap/tap.h"

/* Megatron-LM's rule, in one-microbatch steps. */
static void test_series (void)
{
    struct outliers_series s = { 0 };
    int early = 0;

    for (int i = 0; i < 99; i++)
        early += outliers_add (&s, i == 50 ? 3 : i == 60 ? 1e6 * NAN : 1, 1);
    ok (outliers_add (&s, INFINITY, 1) == false && s.count == 98, "what is no number is none");
    early += outliers_add (&s, -1, 1) + outliers_add (&s, -2, 1);
    is_int (early, 0, "nothing is large among the first 100");
    ok (s.largest == 3 && s.count == 100, "the largest of them is kept");
    ok (!outliers_add (&s, 29.9, 1) && outliers_add (&s, 30, 1) && outliers_add (&s, -31, 1),
        "10 times as much is large");
    ok (outliers_add (&s, 1e9, 1) && outliers_add (&s, 30, 1), "and stays so");
    s = (struct outliers_series){ 0 };
    outliers_add (&s, 1, 64);
    outliers_add (&s, 2, 64);
    ok (outliers_add (&s, 20, 64) && s.largest == 2, "microbatches are counted");
}

static void test_lines (void)
{
    struct job_config config = { .timeout = 60, .threads = 1 };
    struct outliers o = { .config.check = { true, true } }, none = { .series = { { 0 } } };
    const double usual[] = { 2, 0.5 }, large[] = { 20, 7 }, grads[] = { NAN, 7 };
    struct mg_error err = { "" };
    char text[600] = "";
    FILE *out = tmpfile ();
    struct job *job;

    geometry_init (&config.geometry);
    if (!out || !(job = job_create (&config, &err)))
        bail_out ("%s", err.text);
    is_int (outliers_check (&none, large, 100, 1, job, out, &err), 0, "nothing is asked for");
    is_int (outliers_check (&o, usual, 100, 1, job, out, &err), 0, "the first ones %s", err.text);
    is_int (outliers_check (&o, usual, 100, 2, job, out, &err), 0, "as usual");
    is_int (ftell (out), 0, "no line");
    is_int (outliers_check (&o, large, 100, 3, job, out, &err), 0, "both");
    is_int (outliers_check (&o, grads, 100, 4, job, out, &err), 0, "a rank without a loss");
    rewind (out);
    text[fread (text, 1, sizeof (text) - 1, out)] = '\0';
    is_str (text,
            "iteration 3: rank 0 has a spiky loss 20, at least 10 times the largest of its first "
            "100 microbatches, 2\n"
            "iteration 3: rank 0 has large gradients, of norm 7, at least 10 times the largest of "
            "its first 100 microbatches, 0.5\n"
            "iteration 4: rank 0 has large gradients, of norm 7, at least 10 times the largest of "
            "its first 100 microbatches, 0.5\n", "lines");
    fclose (out);
    job_destroy (job);
}

int main (void)
{
    test_series ();
    test_lines ();
    return done_testing ();
}
