/* rope - angles of rotary positions: by hand, and against Megatron-LM's own tables (12_modern_rope
 * of the reference data)
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/nn/rope.h"
#include "tests/lib/npz.h"
#include "tests/tap/tap.h"

enum { MAX_PAIRS = 64 };

/* --- by hand --- */

static void test_plain (void)
{
    struct rope_config c;
    double f[4];
    float row[8];

    rope_config_init (&c);
    c.percent = 0.5;
    c.interpolation = 2;
    is_int (rope_pairs (&c, 16), 4, "half of a head of 16 has 4 pairs");
    rope_frequencies (&c, 16, f);
    ok (f[0] == 1 && fabs (f[1] - 0.1) < 1e-15 && fabs (f[3] - 1e-3) < 1e-15,
        "they turn by powers of the base");
    rope_row (&c, f, 4, 30, row);
    ok (fabs ((double)row[1] - cos (1.5)) < 1e-7 && fabs ((double)row[5] - sin (1.5)) < 1e-7,
        "positions are divided by the interpolation factor");
}

/* An odd number of chosen elements has a pair more than its half, and exponents over itself. */
static void test_odd (void)
{
    struct rope_config c;
    struct mg_error err;
    double f[5], worst = 0;

    rope_config_init (&c);
    c.percent = 0.75;
    is_int (rope_elements (&c, 12), 9, "three quarters of a head of 12 are 9 elements");
    is_int (rope_pairs (&c, 12), 5, "which are 5 pairs");
    is_int (rope_config_check (&c, 12, &err), 0, "and legal");
    rope_frequencies (&c, 12, f);
    for (int i = 0; i < 5; i++)
        worst = fmax (worst, fabs (f[i] / pow (10000, -2 * i / 9.0) - 1));
    ok (worst < 1e-15, "exponents are over 9 (%.2g)", worst);
    c.percent = 0.34;
    is_int (rope_pairs (&c, 3), 1, "1 element of 3 is a pair");
    is_int (rope_config_check (&c, 3, &err), 0, "for which there is room");
    c.percent = 1;
    ok (rope_config_check (&c, 9, &err) < 0
            && strstr (err.text, "9 elements, which are 5 pairs, want pairs that the head has "
                                 "room for"), "%s", err.text);
}

static void test_yarn (void)
{
    struct rope_config c;
    double plain[32], f[32];
    bool kept, slow;

    rope_config_init (&c);
    rope_frequencies (&c, 64, plain);
    c.scaling = ROPE_YARN;
    c.factor = 8;
    rope_frequencies (&c, 64, f);
    kept = f[0] == plain[0];
    slow = fabs (f[31] - plain[31] / 8) < 1e-15;
    ok (kept && slow, "YaRN keeps fast pairs and stretches slow ones");
    c.original = 131072; // pairs 22 to 35 are between, and there are 32
    rope_frequencies (&c, 64, f);
    ok (fabs (f[31] / plain[31] - (9 / 13. / 8 + 4 / 13.)) < 1e-12,
        "the last pair is not stretched as a whole after long sequences");
    c.original = 4096;
    ok (fabs (rope_concentration (&c) - (0.1 * log (8) + 1)) < 1e-15, "its concentration");
    ok (rope_softmax_factor (&c) == 1, "no softmax factor without mscale-all-dim");
    c.mscale_all_dim = 1;
    ok (rope_concentration (&c) == 1
            && fabs (rope_softmax_factor (&c) - pow (0.1 * log (8) + 1, 2)) < 1e-15,
        "with it the factor is the softmax's");
}

/* An mscale that comes back as the same concentration: to the last bit, if any mscale does. */
static void test_concentration (void)
{
    static const double wanted[] = { 1, 0.75, 1.2079441541679836, 1.1, 1.7, 3.3, 9.25, 0.5 };
    struct rope_config c;
    int wrong = 0;

    rope_config_init (&c);
    c.scaling = ROPE_YARN;
    c.factor = 8;
    for (int all = 0; all < 3; all++) {
        double least = 0;

        c.mscale_all_dim = all;
        c.mscale = 0;
        least = rope_concentration (&c);
        for (size_t i = 0; i < sizeof (wanted) / sizeof (wanted[0]); i++) {
            bool found = rope_set_concentration (&c, wanted[i]);

            wrong += found != (wanted[i] >= least)
                     || (found && fabs (rope_concentration (&c) / wanted[i] - 1) > 4e-16);
        }
        for (c.mscale = 0.125; c.mscale < 100; c.mscale *= 1.7) {
            struct rope_config d = c;

            wrong += !rope_set_concentration (&d, rope_concentration (&c))
                     || rope_concentration (&d) != rope_concentration (&c);
        }
    }
    is_int (wrong, 0, "mscale by what cosines and sines are multiplied by");
    c.mscale_all_dim = 0;
    ok (rope_set_concentration (&c, 0.1 * log (8) + 1) && c.mscale == 1, "1 where it can be");
    ok (!rope_set_concentration (&c, 0) && !rope_set_concentration (&c, -1)
            && !rope_set_concentration (&c, NAN) && !rope_set_concentration (&c, INFINITY),
        "no mscale for what is no factor");
    c.factor = 1;
    ok (rope_set_concentration (&c, 1) && !rope_set_concentration (&c, 1.5),
        "with a factor of 1 there is but 1");
}

static void test_refusals (void)
{
    static const struct {
        size_t offset;
        double value;
        const char *text;
    } rows[] = {
#define AT(f) offsetof (struct rope_config, f)
        { AT (base), 0, "rotary-base is 0" },
        { AT (base), NAN, "rotary-base is nan" },
        { AT (percent), 0, "rotary-percent is 0" },
        { AT (percent), 1.5, "rotary-percent is 1.5" },
        { AT (percent), 0.05, "0 elements, want 1 or more" },
        { AT (interpolation), 0.5, "interpolation-factor is 0.5, want 1 or more" },
        { AT (factor), 0, "scaling factor" },
        { AT (original), INFINITY, "original length" },
        { AT (beta_slow), 33, "beta-fast 32 and yarn-beta-slow 33" },
        { AT (beta_slow), 0, "beta-slow 0" },
#undef AT
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct rope_config c;
        struct mg_error err = { "" };

        rope_config_init (&c);
        c.scaling = ROPE_YARN;
        *(double *)((char *)&c + rows[i].offset) = rows[i].value;
        ok (rope_config_check (&c, 16, &err) < 0 && strstr (err.text, rows[i].text), "%s",
            err.text);
    }
}

/* --- Megatron-LM's tables --- */

static double number (json_t *args, const char *name, double preset)
{
    json_t *v = json_object_get (args, name);

    return v ? json_number_value (v) : preset;
}

static struct rope_config config_of (json_t *item)
{
    json_t *args = json_object_get (item, "args");
    bool yarn = strcmp (json_string_value (json_object_get (item, "kind")), "yarn") == 0;
    struct rope_config c;

    rope_config_init (&c);
    c.base = number (args, "rotary_base", 10000);
    c.percent = number (args, "rotary_percent", 1);
    c.interpolation = number (args, "seq_len_interpolation_factor", 1);
    c.interleaved = json_is_true (json_object_get (args, "rotary_interleaved"));
    if (json_is_true (json_object_get (args, "rope_scaling"))) {
        c.scaling = ROPE_LLAMA3;
        c.original = 8192;
        c.factor = number (args, "rope_scaling_factor", 8);
    }
    if (yarn) {
        c.scaling = ROPE_YARN;
        c.factor = number (args, "scaling_factor", 1);
        c.mscale = number (args, "mscale", 1);
        c.mscale_all_dim = number (args, "mscale_all_dim", 0);
        c.exact_range = json_is_false (json_object_get (args, "correction_range_round_to_int"));
    }
    return c;
}

/* Column of cosine or sine i in the tables. */
static size_t column (const struct rope_config *c, int i)
{
    return (size_t)(c->interleaved ? 2 * i : i);
}

static void test_case (const struct npz *npz, json_t *item)
{
    const struct rope_config c = config_of (item);
    json_t *args = json_object_get (item, "args");
    json_t *positions = json_object_get (item, "positions");
    json_t *want = json_object_get (item, "inv_freq_f64");
    int id = (int)json_integer_value (json_object_get (item, "id"));
    int kv_channels = (int)number (args, "kv_channels", 0);
    int pairs = rope_pairs (&c, kv_channels);
    double f[MAX_PAIRS], worst = 0, *table[2];
    float row[2 * MAX_PAIRS];
    char name[2][40];
    size_t n;

    is_int (rope_config_check (&c, kv_channels, NULL), 0, "case %d is legal", id);
    rope_frequencies (&c, kv_channels, f);
    for (int i = 0; want && i < pairs; i++)
        worst = fmax (worst, fabs (f[i] / json_number_value (json_array_get (want, (size_t)i))
                                   - 1));
    ok (worst < 1e-12, "case %d: frequencies (%.2g)", id, worst);
    for (int s = 0; s < 2; s++) {
        snprintf (name[s], sizeof (name[s]), "c%03d.%s_f64", id, s ? "sin" : "cos");
        if (!(table[s] = npz_doubles (npz, name[s], &n, NULL)))
            bail_out ("no array %s", name[s]);
    }
    worst = 0;
    for (size_t p = 0; p < json_array_size (positions); p++) {
        int64_t position = json_integer_value (json_array_get (positions, p));

        rope_row (&c, f, pairs, position, row);
        for (int i = 0; i < 2 * pairs; i++) {
            const double *t = table[i / pairs] + p * (size_t)(2 * pairs);

            worst = fmax (worst, fabs ((double)row[i] - t[column (&c, i % pairs)]));
        }
    }
    ok (worst < 2e-7, "case %d: cosines and sines at %zu positions (%.2g)", id,
        json_array_size (positions), worst);
    free (table[0]);
    free (table[1]);
}

static void test_golden (void)
{
    char path[512];
    struct npz *npz;
    json_t *root, *item;
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/12_modern_rope.json")) {
        skip (1, "no %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, NULL)))
        bail_out ("%s is no JSON", path);
    if (!shared_file (path, sizeof (path), "golden/12_modern_rope.npz")
        || !(npz = npz_open (path, NULL)))
        bail_out ("%s cannot be read", path);
    json_array_foreach (json_object_get (root, "cases"), i, item)
        test_case (npz, item);
    npz_close (npz);
    json_decref (root);
}

int main (void)
{
    test_plain ();
    test_odd ();
    test_yarn ();
    test_concentration ();
    test_refusals ();
    test_golden ();
    return done_testing ();
}
