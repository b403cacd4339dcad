/* Filters against the reference data, draws and log probabilities. */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/infer/sampling.h"
#include "tests/lib/npz.h"
#include "tests/tap/tap.h"

enum { N = 8, DRAWS = 40000 };

static const float logits[N] = { 1, 3, 3, 2, 3, 0, -1, 2 };

static int kept (double temperature, int64_t k, double top_p, double p[N])
{
    const struct sampling s = { temperature, k, top_p };
    int32_t order[N];
    double sum = 0;
    int n = 0;

    sampling_probabilities (&s, logits, N, p, order);
    for (int i = 0; i < N; i++) {
        n += p[i] > 0;
        sum += p[i];
    }
    is_near (sum, 1, 1e-12, "temperature %g, k %d, p %g", temperature, (int)k, top_p);
    return n;
}

static void test_filters (void)
{
    double p[N];

    is_int (kept (1, 0, 0, p), N, "all");
    is_near (p[0], exp (1) / (3 * exp (3) + 2 * exp (2) + exp (1) + 1 + exp (-1)), 1e-12,
             "the softmax");
    is_int (kept (1, 2, 0, p), 3, "ties with the k-th stay");
    is_int (kept (1, 4, 0, p), 5, "so do these");
    is_int (kept (0, 0, 0, p), 1, "temperature 0");
    ok (p[1] == 1, "the lowest id among equals");
    is_int (kept (2, 1, 0.9, p), 1, "top-k 1");
    is_int (kept (1, 0, 1e-9, p), 1, "the first is always kept");
    ok (p[1] == 1, "it is the lowest id");
    is_int (kept (1, 3, 0.5, p), 2, "top-p after top-k: two of three");
    ok (p[1] == 0.5 && p[2] == 0.5 && p[4] == 0, "equal logits have the order of ids");
    is_int (kept (1, 3, 1. / 3, p), 2, "a token behind a sum of exactly top-p stays");
}

static void test_draws (void)
{
    const struct sampling_draw at = { .seed = 5, .request = 1, .position = 7 };
    struct sampling_draw other = at;
    double p[N], chi = 0, u;
    int count[N] = { 0 }, seen;
    bool near;

    kept (0.7, 0, 0, p);
    for (int i = 0; i < DRAWS; i++) {
        other.position = i;
        u = sampling_uniform (&other);
        if (u < 0 || u >= 1)
            bail_out ("a draw of %g", u);
        count[sampling_choose (p, N, u, 0, &near)]++;
    }
    for (int i = 0; i < N; i++)
        chi += pow (count[i] - DRAWS * p[i], 2) / (DRAWS * p[i]);
    ok (chi < 24.3, "chi-square %.1f of 7 degrees of freedom", chi); // p = 1e-3
    other = at;
    ok (sampling_uniform (&other) == sampling_uniform (&at), "the same coordinates");
    other.choice = 1;
    seen = sampling_uniform (&other) != sampling_uniform (&at);
    other = at;
    other.request = 2;
    seen += sampling_uniform (&other) != sampling_uniform (&at);
    other = at;
    other.seed = 6;
    seen += sampling_uniform (&other) != sampling_uniform (&at);
    is_int (seen, 3, "other coordinates");
}

static void test_take (void)
{
    static const double p[4] = { 0.25, 0, 0.5, 0.25 };
    bool near;

    ok (sampling_choose (p, 4, 0, 1e-5, &near) == 0 && !near, "the lowest");
    ok (sampling_choose (p, 4, 0.25, 1e-5, &near) == 2 && near, "a boundary belongs to the next");
    ok (sampling_choose (p, 4, 0.249995, 1e-5, &near) == 0 && near, "near a boundary");
    ok (sampling_choose (p, 4, 0.5, 1e-5, &near) == 2 && !near, "far from it");
    ok (sampling_choose (p, 4, 1 - 1e-9, 1e-5, &near) == 3 && !near, "the end is no boundary");
}

static void test_largest (void)
{
    static const float close[3] = { 1, 2, 1.999995f };
    int32_t top[4];
    bool near;

    ok (sampling_largest (logits, N, 1e-5, &near) == 1 && near, "equals are near");
    ok (sampling_largest (close, 3, 1e-5, &near) == 1 && near, "so is a small margin");
    ok (sampling_largest (close, 2, 1e-5, &near) == 1 && !near, "1 is none");
    ok (sampling_largest (close, 2, 1.5, &near) == 1 && near, "but to a wider margin");
    ok (sampling_near (MG_FLOAT32) == 1e-5 && sampling_near (MG_FLOAT16) == 16.0 / (1 << 11)
            && sampling_near (MG_BFLOAT16) == 16.0 / (1 << 8), "margins of types");
    sampling_top (logits, N, top, 4);
    ok (top[0] == 1 && top[1] == 2 && top[2] == 4 && top[3] == 3, "the largest four");
    is_near (sampling_log_sum (logits, N),
             log (3 * exp (3) + 2 * exp (2) + exp (1) + 1 + exp (-1)), 1e-12, "log of the sum");
}

/* --- reference data --- */

/* The largest difference to the reference's probabilities, and whether the same tokens are kept. */
static double compare (const struct npz *npz, const char *step, size_t k,
                       const struct sampling *s, bool *same)
{
    char name[100];
    size_t n, m;
    float *row;
    double *want, *got, largest = 0;
    int32_t *order;
    struct mg_error err = { "" };

    snprintf (name, sizeof (name), "%s.logits", step);
    row = npz_floats (npz, name, &n, &err);
    snprintf (name, sizeof (name), "%s.p%zu", step, k);
    want = npz_doubles (npz, name, &m, &err);
    if (!row || !want || m != n)
        bail_out ("%s: %s", name, err.text);
    got = calloc (n, sizeof (*got));
    order = calloc (n, sizeof (*order));
    sampling_probabilities (s, row, (int64_t)n, got, order);
    for (size_t i = 0; i < n; i++) {
        largest = fmax (largest, fabs (got[i] - want[i]));
        *same &= (got[i] > 0) == (want[i] > 0);
    }
    free (row);
    free (want);
    free (got);
    free (order);
    return largest;
}

static void test_golden (void)
{
    char path[4096], step[64];
    struct mg_error err = { "" };
    struct npz *npz;
    json_t *json, *row;
    size_t k;

    if (!shared_file (path, sizeof (path), "golden/15_generate.json")) {
        skip (21, "no reference data");
        return;
    }
    json = json_load_file (path, 0, NULL);
    memcpy (strrchr (path, '.'), ".npz", 5);
    if (!json || !(npz = npz_open (path, &err)))
        bail_out ("%s: %s", path, err.text);
    json_array_foreach (json_object_get (json, "params"), k, row) {
        const struct sampling s = {
            .temperature = json_number_value (json_object_get (row, "temperature")),
            .top_k = json_integer_value (json_object_get (row, "top_k")),
            .top_p = json_number_value (json_object_get (row, "top_p")),
        };
        double largest = 0;
        bool same = true;

        for (int i = 0; i < 8; i++) {
            snprintf (step, sizeof (step), "%s.step%d", i < 4 ? "gpt2" : "llama", i % 4);
            largest = fmax (largest, compare (npz, step, k, &s, &same));
        }
        ok (same, "temperature %g, top-k %d, top-p %g: the tokens that are kept", s.temperature,
            (int)s.top_k, s.top_p);
        ok (largest < 1e-6, "probabilities: largest difference %.2g", largest);
    }
    is_int (k, 10, "all cases");
    npz_close (npz);
    json_decref (json);
}

static void refuse (double temperature, int64_t k, double p, const char *text)
{
    const struct sampling s = { temperature, k, p };
    struct mg_error err = { "" };

    errno = 0;
    ok (sampling_check (&s, N, &err) == -1 && errno == EINVAL && strstr (err.text, text), "%s",
        err.text);
}

int main (void)
{
    test_filters ();
    test_draws ();
    test_take ();
    test_largest ();
    test_golden ();
    refuse (-1, 0, 0, "temperature -1");
    refuse (NAN, 0, 0, "temperature");
    refuse (1, 9, 0, "top-k 9");
    refuse (1, -1, 0, "top-k -1");
    refuse (1, 0, 1.5, "top-p 1.5");
    return done_testing ();
}
