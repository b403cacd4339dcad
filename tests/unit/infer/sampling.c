/* Filters, draws and log probabilities.  t4000 compares them with the reference data. */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "libcore/infer/sampling.h"
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
        count[sampling_take (p, N, u, &near)]++;
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

    ok (sampling_take (p, 4, 0, &near) == 0 && !near, "the lowest");
    ok (sampling_take (p, 4, 0.25, &near) == 2 && near, "a boundary belongs to the next");
    ok (sampling_take (p, 4, 0.249995, &near) == 0 && near, "near a boundary");
    ok (sampling_take (p, 4, 0.5, &near) == 2 && !near, "far from it");
    ok (sampling_take (p, 4, 1 - 1e-9, &near) == 3 && !near, "the end is no boundary");
}

static void test_largest (void)
{
    static const float close[3] = { 1, 2, 1.999995f };
    int32_t top[4];
    bool near;

    ok (sampling_largest (logits, N, &near) == 1 && near, "equals are near");
    ok (sampling_largest (close, 3, &near) == 1 && near, "so is a small margin");
    ok (sampling_largest (close, 2, &near) == 1 && !near, "1 is none");
    sampling_top (logits, N, top, 4);
    ok (top[0] == 1 && top[1] == 2 && top[2] == 4 && top[3] == 3, "the largest four");
    is_near (sampling_log_sum (logits, N),
             log (3 * exp (3) + 2 * exp (2) + exp (1) + 1 + exp (-1)), 1e-12, "log of the sum");
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
    refuse (-1, 0, 0, "temperature -1");
    refuse (NAN, 0, 0, "temperature");
    refuse (1, 9, 0, "top-k 9");
    refuse (1, -1, 0, "top-k -1");
    refuse (1, 0, 1.5, "top-p 1.5");
    return done_testing ();
}
