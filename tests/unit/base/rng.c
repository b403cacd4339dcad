/* rng - known answers of Philox4x32-10, distances of keys, moments of normals */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "tests/tap/tap.h"

/* Known answers of the authors' Random123 distribution (kat_vectors, philox4x32 10). */
static const struct {
    uint32_t counter[4], key[2], out[4];
} known[] = {
    { { 0, 0, 0, 0 },
      { 0, 0 },
      { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static void test_known_answers (void)
{
    for (size_t i = 0; i < sizeof (known) / sizeof (known[0]); i++) {
        const uint32_t *c = known[i].counter;
        uint32_t out[4];

        rng_philox (known[i].key[0] | (uint64_t)known[i].key[1] << 32, c[0], c[1],
                    c[2] | (uint64_t)c[3] << 32, out);
        ok (memcmp (out, known[i].out, sizeof (out)) == 0, "philox known answer %zu", i);
    }
}

static int compare (const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void test_keys (void)
{
    static const uint64_t values[] = { 0, 1, 2, 3, 7, 1234, UINT64_MAX };
    uint64_t keys[7 * 4 * 7 * 7];
    size_t n = 0, same = 0, near = 0;

    for (int s = 0; s < 7; s++)
        for (int purpose = RNG_INIT; purpose <= RNG_DROPOUT_ATTENTION; purpose++)
            for (int a = 0; a < 7; a++)
                for (int b = 0; b < 7; b++)
                    keys[n++] = rng_key (values[s], (enum rng_purpose)purpose, values[a],
                                         values[b]);
    for (size_t i = 1; i < n; i++)
        near += __builtin_popcountll (keys[i] ^ keys[i - 1]) < 8;
    qsort (keys, n, sizeof (keys[0]), compare);
    for (size_t i = 1; i < n; i++)
        same += keys[i] == keys[i - 1];
    is_int (same, 0, "%zu keys are different", n);
    is_int (near, 0, "keys of neighbouring arguments differ in many bits");
    ok (rng_key (1, RNG_INIT, 2, 3) == rng_key (1, RNG_INIT, 2, 3), "a key is a function");
    ok (rng_key (1, RNG_INIT, 2, 3) != rng_key (1, RNG_INIT, 3, 2),
        "the order of a key's parts matters");
}

/* Sample moments of n values lie within 5 deviations of their expectation. */
static void test_normal (void)
{
    enum { COUNT = 100000 };
    double sum[4] = { 0 }, largest = 0, cross = 0;
    uint64_t key = rng_key (42, RNG_INIT, 0, 0);

    for (uint32_t i = 0; i < COUNT / 4; i++) {
        double v[4];

        rng_normal (key, i, 5, 0, v);
        cross += v[0] * v[1] + v[2] * v[3];
        for (int j = 0; j < 4; j++) {
            double power = 1;

            largest = fmax (largest, fabs (v[j]));
            for (int m = 0; m < 4; m++)
                sum[m] += power *= v[j];
        }
    }
    is_near (sum[0] / COUNT, 0, 5 * sqrt (1.0 / COUNT), "mean of normals");
    is_near (sum[1] / COUNT, 1, 5 * sqrt (2.0 / COUNT), "variance of normals");
    is_near (sum[2] / COUNT, 0, 5 * sqrt (15.0 / COUNT), "third moment of normals");
    is_near (sum[3] / COUNT, 3, 5 * sqrt (96.0 / COUNT), "fourth moment of normals");
    is_near (cross / (COUNT / 2), 0, 5 * sqrt (2.0 / COUNT), "a pair is uncorrelated");
    ok (largest > 3.5 && largest < 7, "the tails are there (largest %.3f)", largest);
}

static void test_normal_definition (void)
{
    uint32_t bits[4];
    double v[4], radius, angle;

    rng_philox (9, 8, 7, 6, bits);
    rng_normal (9, 8, 7, 6, v);
    radius = sqrt (-2 * log ((bits[2] + 0.5) / 4294967296.0));
    angle = 2 * acos (-1.0) * (bits[3] + 0.5) / 4294967296.0;
    is_near (v[2], radius * cos (angle), 1e-14, "third normal is of values 2 and 3");
    is_near (v[3], radius * sin (angle), 1e-14, "fourth normal is of values 2 and 3");
}

static void test_threshold (void)
{
    static const struct {
        double p;
        uint32_t want;
    } cases[] = {
        { 0, 0 },
        { -1, 0 },
        { NAN, 0 },
        { 0x1p-33, 0 },
        { 0x1p-32, 1 },
        { 0.1, 429496729 },
        { 0.5, 0x80000000 },
        { 1 - 0x1p-32, 0xffffffff },
        { 1, 0xffffffff },
        { 2, 0xffffffff },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
        is_int (rng_threshold (cases[i].p), cases[i].want, "threshold of %g", cases[i].p);
}

int main (void)
{
    test_known_answers ();
    test_keys ();
    test_normal ();
    test_normal_definition ();
    test_threshold ();
    return done_testing ();
}
