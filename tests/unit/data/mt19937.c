/* mt19937.c - draws and shuffles are those of numpy.random.RandomState */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/mt19937.h"
#include "tests/unit/data/support.h"

static void test_draws (void)
{
    static const struct {
        uint32_t seed;
        uint32_t first[4];
    } cases[] = {
        { 0, { 2357136044u, 2546248239u, 3071714933u, 3626093760u } },
        { 1, { 1791095845u, 4282876139u, 3093770124u, 4005303368u } },
        { 5489, { 3499211612u, 581869302u, 3890346734u, 3586334585u } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mt19937 mt;

        mt19937_seed (&mt, cases[i].seed, NULL);
        for (int j = 0; j < 4; j++)
            is_int (mt19937_next (&mt), cases[i].first[j], "seed %u, draw %d",
                    cases[i].seed, j);
    }
}

/* The 10000th draw of the authors' default seed, known from the C++ standard. */
static void test_long_run (void)
{
    struct mt19937 mt;
    uint32_t last = 0;

    mt19937_seed (&mt, 5489, NULL);
    for (int i = 0; i < 10000; i++)
        last = mt19937_next (&mt);
    is_int (last, 4123659995u, "draw 10000 of seed 5489");
}

static void test_seed_range (void)
{
    static const struct {
        int64_t seed;
        bool good;
    } cases[] = {
        { -1, false },
        { 0, true },
        { UINT32_MAX, true },
        { (int64_t)UINT32_MAX + 1, false },
        { INT64_MIN, false },
        { INT64_MAX, false },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        struct mt19937 mt;
        int rc;

        errno = 0;
        rc = mt19937_seed (&mt, cases[i].seed, &err);
        is_int (rc, cases[i].good ? 0 : -1, "seed %lld is %s", (long long)cases[i].seed,
                cases[i].good ? "taken" : "refused");
        if (!cases[i].good) {
            is_int (errno, ERANGE, "with errno");
            ok (strstr (err.text, "want 0 to 4294967295"), "and a text: %s", err.text);
        }
    }
}

static void test_interval (void)
{
    struct mt19937 mt;
    struct mt19937 copy;
    uint64_t wide = ((uint64_t)1 << 40) - 1;
    uint64_t high;

    mt19937_seed (&mt, 7, NULL);
    copy = mt;
    is_int (mt19937_interval (&mt, 0), 0, "nothing to choose");
    ok (memcmp (&mt, &copy, sizeof (mt)) == 0, "takes no draw");
    is_int (mt19937_interval (&mt, UINT32_MAX), mt19937_next (&copy),
            "2^32 - 1 is one whole draw");
    high = (uint64_t)mt19937_next (&copy) << 32;
    is_int (mt19937_interval (&mt, wide), (high | mt19937_next (&copy)) & wide,
            "2^40 - 1 is two, high word first");
    for (uint64_t max = 1; max < 70; max++) {
        uint64_t largest = 0;

        for (int i = 0; i < 1500; i++) {
            uint64_t value = mt19937_interval (&mt, max);

            largest = value > largest ? value : largest;
        }
        if (largest != max)
            ok (false, "interval %d reaches %d", (int)max, (int)largest);
    }
    mt19937_interval (&mt, (uint64_t)UINT32_MAX + 1);
    ok (mt19937_interval (&mt, UINT64_MAX) > 0, "the widest interval works");
}

static void test_shuffle (void)
{
    static const int32_t want[10] = { 2, 8, 4, 9, 1, 6, 7, 3, 0, 5 };
    int32_t i32[10];
    uint32_t u32[10];
    int64_t i64[10];
    struct mt19937 mt;
    int same = 0;

    for (int i = 0; i < 10; i++)
        i32[i] = u32[i] = i64[i] = i;
    mt19937_seed (&mt, 0, NULL);
    mt19937_shuffle_int32 (&mt, i32, 10);
    is_int (mt19937_next (&mt), 1879422756u, "the draws that ten elements take");
    mt19937_seed (&mt, 0, NULL);
    mt19937_shuffle_uint32 (&mt, u32, 10);
    mt19937_seed (&mt, 0, NULL);
    mt19937_shuffle_int64 (&mt, i64, 10);
    for (int i = 0; i < 10; i++)
        same += i32[i] == want[i] && u32[i] == (uint32_t)want[i] && i64[i] == want[i];
    is_int (same, 10, "three element types, one order");
    mt19937_seed (&mt, 0, NULL);
    mt19937_shuffle_int32 (&mt, i32, 0);
    mt19937_shuffle_int32 (&mt, i32, 1);
    is_int (mt19937_next (&mt), 2357136044u, "none and one element take no draw");
}

/* The shuffle of an array of the type that the reference names. */
static bool shuffle_is (struct mt19937 *mt, const char *dtype, const int64_t *want,
                        size_t n)
{
    int32_t *i32 = calloc (n + 1, sizeof (*i32));
    uint32_t *u32 = calloc (n + 1, sizeof (*u32));
    int64_t *i64 = calloc (n + 1, sizeof (*i64));
    bool same = true;

    for (size_t i = 0; i < n; i++)
        i32[i] = u32[i] = i64[i] = i;
    if (strcmp (dtype, "int32") == 0)
        mt19937_shuffle_int32 (mt, i32, n);
    else if (strcmp (dtype, "uint32") == 0)
        mt19937_shuffle_uint32 (mt, u32, n);
    else
        mt19937_shuffle_int64 (mt, i64, n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp (dtype, "int32") == 0)
            same = same && i32[i] == want[i];
        else if (strcmp (dtype, "uint32") == 0)
            same = same && u32[i] == want[i];
        else
            same = same && i64[i] == want[i];
    }
    free (i32);
    free (u32);
    free (i64);
    return same;
}

static void test_golden (void)
{
    json_t *golden = load_golden ();
    json_t *cases = json_object_get (golden, "numpy_randomstate");
    json_t *one;
    size_t i;

    json_array_foreach (cases, i, one) {
        json_t *shuffles = json_object_get (one, "shuffles");
        json_t *shuffle;
        size_t j;

        json_array_foreach (shuffles, j, shuffle) {
            struct mt19937 mt;
            size_t n;
            int64_t *want = json_numbers (json_object_get (shuffle, "out"), &n);
            const char *dtype = json_text (shuffle, "dtype");

            mt19937_seed (&mt, json_int (one, "seed"), NULL);
            ok (shuffle_is (&mt, dtype, want, n)
                && mt19937_next (&mt) == json_int (shuffle, "next_raw32"),
                "reference: seed %lld, %zu of %s", (long long)json_int (one, "seed"), n,
                dtype);
            free (want);
        }
    }
    json_decref (golden);
}

int main (void)
{
    test_draws ();
    test_long_run ();
    test_seed_range ();
    test_interval ();
    test_shuffle ();
    test_golden ();
    return done_testing ();
}
