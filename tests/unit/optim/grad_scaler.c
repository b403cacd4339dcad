/* Loss scales: the reference's trajectories, boundaries, going on, refusals. */

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "libcore/optim/grad_scaler.h"
#include "tests/tap/tap.h"

static const struct grad_scaler_config usual = {
    .initial = 1024, .min = 1, .growth = 2, .backoff = 0.5, .growth_interval = 3,
    .hysteresis = 2,
};

static struct grad_scaler create (const struct grad_scaler_config *config)
{
    struct grad_scaler s;
    struct mg_error err;

    if (grad_scaler_init (&s, config, &err) < 0)
        bail_out ("%s", err.text);
    return s;
}

/* g: a good iteration, o: an overflow; the scale after them. */
static void test_steps (void)
{
    static const struct {
        const char *steps;
        float scale;
    } cases[] = {
        { "", 1024 },      { "gg", 1024 },     { "ggg", 2048 },   { "gggggg", 4096 },
        { "ggoggg", 2048 },  { "ggogg", 1024 }, { "o", 1024 },     { "oo", 512 },
        { "ooo", 256 },    { "oggo", 512 },    { "ogggo", 2048 }, { "ogggoo", 1024 },
        { "ooggg", 1024 }, { "oooooooooooooooooooo", 1 },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct grad_scaler s = create (&usual);

        for (const char *p = cases[i].steps; *p; p++)
            grad_scaler_update (&s, *p == 'o');
        ok (s.scale == cases[i].scale && grad_scaler_inverse (&s) == 1 / cases[i].scale,
            "after \"%s\": %g", cases[i].steps, (double)s.scale);
    }
}

/* From 1024, with hysteresis 2, the eleventh overflow in a row leaves 1. */
static void test_end (void)
{
    static const struct {
        const char *steps;
        bool at_end;
    } cases[] = {
        { "", false },
        { "oooooooooo", false },      /* 2 */
        { "ooooooooooo", true },      /* 1 */
        { "oooooooooooo", true },
        { "oooooooooooog", false },   /* not in a row */
        { "oooooooooooogo", true },
        { "oooooooooooogggo", false } /* grown */
    };
    const struct grad_scaler_config constant = { .constant = true, .initial = 1 };
    struct grad_scaler s;

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        s = create (&usual);
        for (const char *p = cases[i].steps; *p; p++)
            grad_scaler_update (&s, *p == 'o');
        ok (grad_scaler_is_at_end (&s) == cases[i].at_end, "after \"%s\", %g, %s the end",
            cases[i].steps, (double)s.scale, cases[i].at_end ? "at" : "before");
    }
    s = create (&constant);
    grad_scaler_update (&s, true);
    ok (!grad_scaler_is_at_end (&s), "a constant scale has no end");
}

static void test_constant (void)
{
    const struct grad_scaler_config config = { .constant = true, .initial = 3 };
    struct grad_scaler s = create (&config);

    for (int i = 0; i < 9; i++)
        grad_scaler_update (&s, i % 3 == 0);
    ok (s.scale == 3 && grad_scaler_inverse (&s) == 1.0f / 3, "a constant scale stays");
    ok (grad_scaler_restore (&s, 7, 0, 0, NULL) == 0 && s.scale == 3, "on going on too");
}

static void test_restore (void)
{
    struct grad_scaler a = create (&usual), b;
    struct mg_error err = { "" };
    bool same = true;

    for (int i = 0; i < 60; i++) {
        grad_scaler_update (&a, i * i % 7 == 2);
        b = create (&usual);
        grad_scaler_restore (&b, a.scale, a.growth_tracker, a.hysteresis_tracker, NULL);
        same = same && b.scale == a.scale && b.growth_tracker == a.growth_tracker
               && b.hysteresis_tracker == a.hysteresis_tracker;
    }
    ok (same, "goes on where it was");
    b = create (&usual);
    grad_scaler_restore (&b, 16, 1000, 1000, NULL);
    grad_scaler_update (&b, false);
    ok (b.scale == 32 && b.hysteresis_tracker == 2, "with a shorter window it grows at once");
    ok (grad_scaler_restore (&b, 0, 0, 0, &err) < 0 && errno == EINVAL, "scale 0: %s", err.text);
    ok (grad_scaler_restore (&b, NAN, 0, 0, &err) < 0, "NaN: %s", err.text);
    ok (grad_scaler_restore (&b, 1, -1, 0, &err) < 0, "-1 iterations: %s", err.text);
}

static void test_badparam (void)
{
    struct grad_scaler_config bad[] = { usual, usual, usual, usual, usual, usual,
                                        usual, usual, usual, usual, usual };

    bad[0].initial = 0;
    bad[1].initial = INFINITY;
    bad[2].initial = 1e39;
    bad[3].min = 0;
    bad[4].min = 1025;
    bad[5].growth = 1;
    bad[6].growth = NAN;
    bad[7].backoff = 0;
    bad[8].backoff = 1;
    bad[9].growth_interval = 0;
    bad[10].hysteresis = 0;
    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++) {
        struct grad_scaler s;
        struct mg_error err = { "" };

        ok (grad_scaler_init (&s, &bad[i], &err) < 0 && errno == EINVAL, "%s", err.text);
    }
}

static double number (json_t *object, const char *name)
{
    return json_number_value (json_object_get (object, name));
}

/* Rows of scale, inverse, trackers: the first before, each further one after an entry of
 * found_inf.  Returns the first that differs, or -1.
 */
static int compare (struct grad_scaler *s, json_t *rows, json_t *overflows)
{
    size_t i;
    json_t *row;

    json_array_foreach (rows, i, row) {
        if (i > 0) {
            json_t *overflow = json_array_get (overflows, i - 1);

            grad_scaler_update (s, json_is_true (overflow) || json_number_value (overflow) > 0);
        }
        if (json_number_value (json_array_get (row, 0)) != (double)s->scale
            || json_number_value (json_array_get (row, 1)) != (double)grad_scaler_inverse (s)
            || json_number_value (json_array_get (row, 2)) != (double)s->growth_tracker
            || json_number_value (json_array_get (row, 3)) != (double)s->hysteresis_tracker)
            return (int)i;
    }
    return -1;
}

static void test_golden (void)
{
    char path[4096];
    json_t *root, *c;
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/06_grad_scaler.json")) {
        skip (1, "no %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, NULL)))
        bail_out ("%s: not JSON", path);
    json_array_foreach (json_object_get (root, "cases"), i, c) {
        json_t *args = json_object_get (c, "args"), *rows = json_object_get (c, "rows");
        struct grad_scaler_config config = {
            .initial = number (args, "initial_scale"),
            .min = number (args, "min_scale"),
            .growth = number (args, "growth_factor"),
            .backoff = number (args, "backoff_factor"),
            .growth_interval = (int64_t)number (args, "growth_interval"),
            .hysteresis = (int64_t)number (args, "hysteresis"),
        };
        struct grad_scaler s;
        struct mg_error err = { "" };
        int rc = grad_scaler_init (&s, &config, &err), wrong;

        if (json_object_get (c, "error")) {
            ok (rc < 0, "case %zu is refused: %s", i, err.text);
            continue;
        }
        wrong = rc < 0 ? 0 : compare (&s, rows, json_object_get (c, "found_inf"));
        ok (json_array_size (rows) > 1 && wrong < 0, "case %zu: %zu rows, wrong %d %s", i,
            json_array_size (rows), wrong, err.text);
    }
    json_decref (root);
}

int main (void)
{
    test_steps ();
    test_end ();
    test_constant ();
    test_restore ();
    test_badparam ();
    test_golden ();
    return done_testing ();
}
