/* sample_order.c - epochs in torch's order; a sample depends on its number alone */

#include <errno.h>

#include "libcore/data/sample_order.h"
#include "tests/unit/data/support.h"

/* torch.randperm (n, generator = torch.Generator ().manual_seed (epoch)) */
static void test_torch (void)
{
    static const struct {
        int n, epoch;
        int want[10];
    } cases[] = {
        { 10, 0, { 4, 1, 7, 5, 3, 9, 0, 8, 6, 2 } },
        { 10, 1, { 5, 6, 1, 2, 0, 8, 9, 3, 7, 4 } },
        { 7, 3, { 5, 3, 4, 6, 0, 2, 1 } },
        { 1, 5, { 0 } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct sample_order order;
        struct mg_error err = { "" };
        int n = cases[i].n, same = 0;

        if (sample_order_init (&order, n, &err) < 0)
            bail_out ("%s", err.text);
        for (int k = 0; k < n; k++)
            same += sample_order_at (&order, (int64_t)cases[i].epoch * n + k) == cases[i].want[k];
        is_int (same, n, "%d samples, epoch %d", n, cases[i].epoch);
        sample_order_clear (&order);
    }
}

/* Back and forth over epochs, and from anywhere. */
static void test_any (void)
{
    enum { N = 37, EPOCHS = 4 };
    struct sample_order order, other;
    int64_t all[N * EPOCHS];
    int seen[N] = { 0 }, right = 0, moved = 0;

    if (sample_order_init (&order, N, NULL) < 0)
        bail_out ("no order");
    for (int i = 0; i < N * EPOCHS; i++) {
        all[i] = sample_order_at (&order, i);
        seen[all[i]]++;
        moved += i >= N && all[i] != all[i - N];
    }
    for (int i = 0; i < N; i++)
        right += seen[i] == EPOCHS;
    is_int (right, N, "every sample once an epoch");
    ok (moved > N, "in another order each time");
    right = 0;
    for (int i = N * EPOCHS - 1; i >= 0; i--)
        right += sample_order_at (&order, i) == all[i];
    is_int (right, N * EPOCHS, "the same backwards");
    sample_order_init (&other, N, NULL);
    is_int (sample_order_at (&other, 2 * N + 5), all[2 * N + 5], "and from the middle");
    sample_order_clear (&other);
    sample_order_clear (&order);
    sample_order_clear (&order);
}

static void test_bad (void)
{
    static const int64_t counts[] = { 0, -1, INT64_C (1) << 32 };
    struct sample_order order;
    struct mg_error err;

    for (size_t i = 0; i < COUNT (counts); i++) {
        ok (sample_order_init (&order, counts[i], &err) == -1 && errno == ERANGE, "%s", err.text);
        sample_order_clear (&order);
    }
}

int main (void)
{
    test_torch ();
    test_any ();
    test_bad ();
    return done_testing ();
}
