/* lr.c - learning rate and weight decay, against Megatron-LM's */

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libcore/optim/lr.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static const struct lr_config base = {
    .style = LR_COSINE,
    .max = 1e-3,
    .min = 1e-5,
    .warmup = 10,
    .decay = 100,
    .wd_start = 0.01,
    .wd_end = 0.01,
};

/* Around every corner: the start, the end of the warm-up, the end of the decay. */
static void test_lr (void)
{
    static const struct {
        enum lr_style style;
        double init;
        double warmup;
        int64_t samples;
        double want;
    } cases[] = {
        { LR_CONSTANT, 0, 10, 0, 0 },
        { LR_CONSTANT, 0, 10, 1, 1e-4 },
        { LR_CONSTANT, 0, 10, 9, 9e-4 },
        { LR_CONSTANT, 0, 10, 10, 1e-3 },
        { LR_CONSTANT, 0, 10, 11, 1e-3 },
        { LR_CONSTANT, 0, 10, 1000, 1e-3 },
        { LR_CONSTANT, 0, 0, 0, 1e-3 },
        { LR_CONSTANT, 1e-4, 10, 0, 1e-4 },
        { LR_CONSTANT, 1e-4, 10, 5, 5.5e-4 },
        { LR_CONSTANT, 1e-4, 10, 10, 1e-3 },
        { LR_LINEAR, 0, 10, 4, 4e-4 },
        { LR_LINEAR, 0, 10, 10, 1e-3 },
        { LR_LINEAR, 0, 10, 11, 9.89e-4 },
        { LR_LINEAR, 0, 10, 55, 5.05e-4 },
        { LR_LINEAR, 0, 10, 99, 2.1e-5 },
        { LR_LINEAR, 0, 10, 100, 1e-5 },
        { LR_LINEAR, 0, 10, 101, 1e-5 },
        { LR_LINEAR, 0, 0, 0, 1e-3 },
        { LR_LINEAR, 0, 0, 2, 9.802e-4 },
        { LR_COSINE, 0, 10, 4, 4e-4 },
        { LR_COSINE, 0, 10, 10, 1e-3 },
        { LR_COSINE, 0, 10, 12, 9.98794204878613e-4 },
        { LR_COSINE, 0, 10, 55, 5.05e-4 },
        { LR_COSINE, 0, 10, 100, 1e-5 },
        { LR_COSINE, 0, 10, 101, 1e-5 },
        { LR_COSINE, 0, 0, 0, 1e-3 },
        { LR_COSINE, 0, 0, 2, 9.990232305719944e-4 },
        { LR_COSINE, 0, 0, 4, 9.960967771506667e-4 },
        { LR_INVERSE_SQUARE_ROOT, 0, 10, 5, 5e-4 },
        { LR_INVERSE_SQUARE_ROOT, 0, 10, 40, 5e-4 },
        { LR_INVERSE_SQUARE_ROOT, 0, 1, 100, 1e-4 },
        { LR_INVERSE_SQUARE_ROOT, 0, 0, 0, 1e-3 },
        { LR_INVERSE_SQUARE_ROOT, 0, 0, 1, 1e-3 },
        { LR_INVERSE_SQUARE_ROOT, 0, 0, 4, 5e-4 },
        { LR_INVERSE_SQUARE_ROOT, 0, 10, 101, 1e-5 },
        { LR_LINEAR, 0, 2.5, 1, 4e-4 },
        { LR_LINEAR, 0, 2.5, 2, 8e-4 },
        { LR_LINEAR, 0, 2.5, 3, 1e-5 + 9.9e-4 * (1 - 0.5 / 97.5) },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct lr_config c = base;

        c.style = cases[i].style;
        c.init = cases[i].init;
        c.warmup = cases[i].warmup;
        is_near (lr_at (&c, cases[i].samples), cases[i].want, 1e-17,
                 "%s, warm-up %g from %g: at %d", lr_style_name (c.style), c.warmup,
                 c.init, (int)cases[i].samples);
    }
}

/* The last decay of 40 samples, from 60 to 100. */
static void test_wsd (void)
{
    static const struct {
        enum wsd_style style;
        int64_t samples;
        double left; /* of the way from max down to min */
    } cases[] = {
        { WSD_LINEAR, 10, 1 },         { WSD_LINEAR, 60, 1 },
        { WSD_LINEAR, 61, 0.975 },     { WSD_LINEAR, 80, 0.5 },
        { WSD_LINEAR, 100, 0 },        { WSD_LINEAR, 101, 0 },
        { WSD_COSINE, 80, 0.5 },       { WSD_COSINE, 70, 0.8535533905932737 },
        { WSD_EXPONENTIAL, 60, 1 },    { WSD_EXPONENTIAL, 80, 0.41421356237309515 },
        { WSD_EXPONENTIAL, 100, 0 },   { WSD_MINUS_SQRT, 60, 1 },
        { WSD_MINUS_SQRT, 70, 0.5 },   { WSD_MINUS_SQRT, 100, 0 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct lr_config c = base;

        c.style = LR_WSD;
        c.wsd_style = cases[i].style;
        c.wsd_decay = 40;
        is_int (lr_check (&c, NULL), 0, "%s is legal", wsd_style_name (c.wsd_style));
        is_near (lr_at (&c, cases[i].samples), c.min + cases[i].left * (c.max - c.min),
                 1e-17, "WSD, %s: at %d", wsd_style_name (c.wsd_style),
                 (int)cases[i].samples);
    }
}

static void test_wd (void)
{
    static const struct {
        enum wd_style style;
        double start;
        int64_t samples;
        double want;
    } cases[] = {
        { WD_CONSTANT, 0.1, 0, 0.1 }, { WD_CONSTANT, 0.1, 51, 0.1 },
        { WD_LINEAR, 0, 0, 0 },       { WD_LINEAR, 0, 2, 0.004 },
        { WD_LINEAR, 0, 49, 0.098 },  { WD_LINEAR, 0, 50, 0.1 },
        { WD_LINEAR, 0, 51, 0.1 },    { WD_LINEAR, 0.05, 25, 0.075 },
        { WD_COSINE, 0, 0, 0 },       { WD_COSINE, 0, 2, 0.0003942649342761118 },
        { WD_COSINE, 0, 25, 0.05 },   { WD_COSINE, 0, 4, 0.0015708419435684464 },
        { WD_COSINE, 0, 50, 0.1 },    { WD_COSINE, 0, 51, 0.1 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct lr_config c = base;

        c.wd_style = cases[i].style;
        c.wd_start = cases[i].start;
        c.wd_end = 0.1;
        c.wd_incr = 50;
        is_int (lr_check (&c, NULL), 0, "%s is legal", wd_style_name (c.wd_style));
        is_near (lr_weight_decay_at (&c, cases[i].samples), cases[i].want, 1e-16,
                 "weight decay, %s from %g: at %d", wd_style_name (c.wd_style),
                 c.wd_start, (int)cases[i].samples);
    }
}

/* Sample counts of real runs: far beyond 32 bits, and still exact at the corners. */
static void test_large (void)
{
    const int64_t tera = INT64_C (1000000000000);
    struct lr_config c = base;

    c.warmup = tera;
    c.decay = 4 * tera;
    is_near (lr_at (&c, tera / 2), 5e-4, 1e-18, "half the warm-up");
    is_near (lr_at (&c, tera), 1e-3, 1e-18, "its end");
    is_near (lr_at (&c, tera + 1), 1e-3, 1e-18, "the sample after");
    is_near (lr_at (&c, 4 * tera), 1e-5, 1e-18, "the end of the decay");
    is_near (lr_at (&c, INT64_MAX), 1e-5, 0, "long after");
}

/* A schedule without another rate of the vocabulary. */
#define ROW(...) { __VA_ARGS__, false, 0, 0 }

static const struct {
    const char *what;
    struct lr_config c;
    bool good;
} checks[] = {
    { "all equal", ROW (LR_LINEAR, 1, 1, 1, 0, 1, WD_LINEAR, 1, 1, 1, 0, 0), true },
    { "zero rates", ROW (LR_LINEAR, 0, 0, 0, 0, 1, WD_LINEAR, 0, 0, 1, 0, 0), true },
    { "init = max",
      ROW (LR_COSINE, 1e-3, 1e-3, 0, 9, 10, WD_CONSTANT, 0, 0, 0, 0, 0),
      true },
    { "min > max",
      ROW (LR_LINEAR, 0, 1e-3, 2e-3, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0),
      false },
    { "min < 0",
      ROW (LR_LINEAR, 0, 1e-3, -1e-9, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0),
      false },
    { "init > max",
      ROW (LR_LINEAR, 2e-3, 1e-3, 0, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0),
      false },
    { "init < 0",
      ROW (LR_LINEAR, -1, 1e-3, 0, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0),
      false },
    { "max inf", ROW (LR_LINEAR, 0, INFINITY, 0, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0), false },
    { "max nan", ROW (LR_LINEAR, 0, NAN, 0, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0), false },
    { "min nan", ROW (LR_LINEAR, 0, 1, NAN, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0), false },
    { "init nan", ROW (LR_LINEAR, NAN, 1, 0, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0), false },
    { "decay 0", ROW (LR_LINEAR, 0, 1, 0, 0, 0, WD_CONSTANT, 0, 0, 0, 0, 0), false },
    { "warmup -1", ROW (LR_LINEAR, 0, 1, 0, -1, 1, WD_CONSTANT, 0, 0, 0, 0, 0), false },
    { "warmup = decay",
      ROW (LR_LINEAR, 0, 1, 0, 9, 9, WD_CONSTANT, 0, 0, 0, 0, 0),
      false },
    { "style -1", ROW (-1, 0, 1, 0, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0), false },
    { "wsd style -1", ROW (LR_WSD, 0, 1, 0, 0, 9, WD_CONSTANT, 0, 0, 0, -1, 1), false },
    { "wsd style 4",
      ROW (LR_WSD, 0, 1, 0, 0, 9, WD_CONSTANT, 0, 0, 0, WSD_NUM_STYLES, 1),
      false },
    { "wsd 0",
      ROW (LR_WSD, 0, 1, 0, 0, 9, WD_CONSTANT, 0, 0, 0, WSD_LINEAR, 0),
      false },
    { "wsd 1", ROW (LR_WSD, 0, 1, 0, 0, 9, WD_CONSTANT, 0, 0, 0, WSD_LINEAR, 1), true },
    { "wsd 99",
      ROW (LR_WSD, 0, 1, 0, 0, 9, WD_CONSTANT, 0, 0, 0, WSD_LINEAR, 99),
      true },
    { "not wsd", ROW (LR_LINEAR, 0, 1, 0, 0, 9, WD_CONSTANT, 0, 0, 0, -1, 0), true },
    { "warmup nan",
      ROW (LR_LINEAR, 0, 1, 0, NAN, 9, WD_CONSTANT, 0, 0, 0, 0, 0),
      false },
    { "warmup 8.9",
      ROW (LR_LINEAR, 0, 1, 0, 8.9, 9, WD_CONSTANT, 0, 0, 0, 0, 0),
      true },
    { "style 5",
      ROW (LR_NUM_STYLES, 0, 1, 0, 0, 1, WD_CONSTANT, 0, 0, 0, 0, 0),
      false },
    { "wd style -1", ROW (LR_LINEAR, 0, 1, 0, 0, 1, -1, 0, 0, 0, 0, 0), false },
    { "wd style 3",
      ROW (LR_LINEAR, 0, 1, 0, 0, 1, WD_NUM_STYLES, 0, 0, 1, 0, 0),
      false },
    { "wd < 0", ROW (LR_LINEAR, 0, 1, 0, 0, 1, WD_CONSTANT, -1, -1, 0, 0, 0), false },
    { "wd falls",
      ROW (LR_LINEAR, 0, 1, 0, 0, 1, WD_LINEAR, 0.1, 0.01, 1, 0, 0),
      false },
    { "wd nan", ROW (LR_LINEAR, 0, 1, 0, 0, 1, WD_CONSTANT, NAN, NAN, 0, 0, 0), false },
    { "wd inf",
      ROW (LR_LINEAR, 0, 1, 0, 0, 1, WD_CONSTANT, INFINITY, INFINITY, 0, 0, 0),
      false },
    { "wd not constant",
      ROW (LR_LINEAR, 0, 1, 0, 0, 1, WD_CONSTANT, 0, 1, 1, 0, 0),
      false },
    { "wd_incr 0", ROW (LR_LINEAR, 0, 1, 0, 0, 1, WD_LINEAR, 0, 1, 0, 0, 0), false },
};

static void test_check (void)
{
    for (size_t i = 0; i < COUNT (checks); i++) {
        struct mg_error err = { .text = "" };

        errno = 0;
        if (checks[i].good) {
            is_int (lr_check (&checks[i].c, &err), 0, "%s is legal %s", checks[i].what,
                    err.text);
            continue;
        }
        ok (lr_check (&checks[i].c, &err) == -1 && errno == EINVAL && err.text[0],
            "%s: %s", checks[i].what, err.text);
    }
}

static void test_names (void)
{
    struct mg_error err;
    enum lr_style lr = LR_COSINE;
    enum wd_style wd = WD_COSINE;
    enum wsd_style wsd = WSD_COSINE;

    for (int i = 0; i < LR_NUM_STYLES; i++)
        ok (lr_style_parse ("x", lr_style_name (i), &lr, &err) == 0 && (int)lr == i,
            "learning rate style %s", lr_style_name (i));
    for (int i = 0; i < WD_NUM_STYLES; i++)
        ok (wd_style_parse ("x", wd_style_name (i), &wd, &err) == 0 && (int)wd == i,
            "weight decay style %s", wd_style_name (i));
    for (int i = 0; i < WSD_NUM_STYLES; i++)
        ok (wsd_style_parse ("x", wsd_style_name (i), &wsd, &err) == 0 && (int)wsd == i,
            "style %s of the last decay", wsd_style_name (i));
    is_int (wsd_style_parse ("x", "sqrt", &wsd, &err), -1, "an unknown one is refused");
    is_str (wsd_style_name (WSD_NUM_STYLES), "unknown", "outside the enum");
    lr = LR_LINEAR;
    errno = 0;
    ok (lr_style_parse ("--lr-decay-style", "foo", &lr, &err) == -1 && errno == EINVAL
            && lr == LR_LINEAR,
        "an unknown style is refused");
    is_str (err.text,
            "--lr-decay-style: unknown style \"foo\", want constant, linear, cosine, "
            "inverse-square-root or WSD",
            "and the text lists what there is");
    is_int (wd_style_parse ("--weight-decay-incr-style", "Linear", &wd, &err), -1,
            "so is a capital");
    is_str (err.text,
            "--weight-decay-incr-style: unknown style \"Linear\", want constant, linear "
            "or cosine",
            "with a text");
    is_int (lr_style_parse ("x", NULL, &lr, NULL), -1, "and NULL");
    is_str (lr_style_name (LR_NUM_STYLES), "unknown", "outside the enum");
    is_str (wd_style_name (-1), "unknown", "outside the enum");
}

static double get_real (json_t *object, const char *key, double otherwise)
{
    json_t *value = json_object_get (object, key);

    return value ? json_number_value (value) : otherwise;
}

/* The reference's arguments; false: a style that there is none of. */
static bool read_config (json_t *args, struct lr_config *c)
{
    json_t *style = json_object_get (args, "lr_decay_style");
    json_t *wd_style = json_object_get (args, "wd_incr_style");
    json_t *wsd_style = json_object_get (args, "lr_wsd_decay_style");

    c->init = get_real (args, "init_lr", c->init);
    c->max = get_real (args, "max_lr", c->max);
    c->min = get_real (args, "min_lr", c->min);
    c->warmup = get_real (args, "lr_warmup_steps", c->warmup);
    c->decay = (int64_t)get_real (args, "lr_decay_steps", (double)c->decay);
    c->wd_start = get_real (args, "start_wd", c->wd_start);
    c->wd_end = get_real (args, "end_wd", c->wd_end);
    c->wd_incr = (int64_t)get_real (args, "wd_incr_steps", (double)c->wd_incr);
    c->wsd_decay = (int64_t)get_real (args, "wsd_decay_steps", (double)c->wsd_decay);
    return (!style || !lr_style_parse ("", json_string_value (style), &c->style, NULL))
           && (!wd_style
               || !wd_style_parse ("", json_string_value (wd_style), &c->wd_style, NULL))
           && (!wsd_style
               || !wsd_style_parse ("", json_string_value (wsd_style), &c->wsd_style,
                                    NULL));
}

static double off (double got, double want)
{
    return got == want ? 0 : fabs (got - want) / fabs (want);
}

/* Rows [samples, [lr, wd] of each parameter group]; a group may have rates of its own. */
static void check_rows (size_t number, const struct lr_config *config, json_t *one)
{
    json_t *groups = json_object_get (one, "param_groups"), *group, *row;
    double worst = 0;
    size_t g, i, n = 0;

    json_array_foreach (groups, g, group)
    {
        struct lr_config c = *config;
        double mult = get_real (group, "wd_mult", 1.0);

        read_config (group, &c);
        if (lr_check (&c, NULL) != 0)
            worst = INFINITY;
        json_array_foreach (json_object_get (one, "rows"), i, row)
        {
            int64_t samples = json_integer_value (json_array_get (row, 0));
            json_t *want = json_array_get (row, g + 1);
            double lr = json_number_value (json_array_get (want, 0));
            double wd = json_number_value (json_array_get (want, 1));

            worst = fmax (worst, off (lr_at (&c, samples), lr));
            worst = fmax (worst, off (lr_weight_decay_at (&c, samples) * mult, wd));
            n++;
        }
    }
    // equal, where the compiler does not fuse a product and a sum
    ok (n > 0 && worst <= 1e-15,
        "reference %zu: %s, weight decay %s: %zu values, off by %g", number,
        lr_style_name (config->style), wd_style_name (config->wd_style), n, worst);
}

static void check_case (size_t number, json_t *one)
{
    json_t *args = json_object_get (one, "args");
    json_t *loaded = json_object_get (one, "state_after_load");
    struct lr_config c = { 0 };
    bool known = read_config (args, &c);

    if (json_object_get (one, "load_state_dict") && !loaded) {
        struct lr_config saved = { 0 };

        ok (read_config (json_object_get (one, "load_state_dict"), &saved)
                && lr_resume (&c, &saved, LR_WANT_SAME, NULL) == -1,
            "reference %zu: another schedule of a checkpoint is refused", number);
    } else if (json_object_get (one, "error")) {
        ok (!known || lr_check (&c, NULL) == -1, "reference %zu is refused", number);
    } else if (!known) {
        ok (false, "reference %zu: style %s is not here", number,
            json_string_value (json_object_get (args, "lr_decay_style")));
    } else {
        read_config (loaded, &c);
        check_rows (number, &c, one);
    }
}

/* A schedule, and what its checkpoint may have of another. */
static void test_resume (void)
{
    const struct lr_config saved = {
        .style = LR_COSINE, .init = 0.5, .max = 2, .min = 1, .warmup = 4, .decay = 50,
        .wd_style = WD_LINEAR, .wd_start = 0.25, .wd_end = 0.5, .wd_incr = 60,
    };
    struct lr_config c = saved, other;
    struct mg_error err = { "" };

    c.init = 0.125;
    ok (lr_resume (&c, &saved, LR_WANT_SAME, &err) == 0 && c.init == 0.125,
        "the same schedule goes on, at the run's own first value");
    other = (struct lr_config){ .style = LR_LINEAR, .max = 3, .warmup = 5, .decay = 40,
                                .wd_style = WD_COSINE, .wd_start = 0.1, .wd_end = 0.2,
                                .wd_incr = 70 };
    errno = 0;
    ok (lr_resume (&other, &saved, LR_WANT_SAME, &err) == -1 && errno == EINVAL,
        "another is refused");
    is_str (err.text,
        "learning rate 3 (checkpoint: 2), least learning rate 0 (checkpoint: 1), samples of "
        "warm-up 5 (checkpoint: 4), samples of decay 40 (checkpoint: 50), style of decay linear "
        "(checkpoint: cosine), weight decay at the start 0.1 (checkpoint: 0.25), at the end 0.2 "
        "(checkpoint: 0.5), samples of its growth 70 (checkpoint: 60), style of its growth "
        "cosine (checkpoint: linear)", "with every difference");
    c = other;
    ok (lr_resume (&c, &saved, LR_PREFER_OWN, &err) == 0 && c.max == 3 && c.decay == 40
            && c.wd_incr == 70, "or overrides");
    c.init = 0.75;
    ok (lr_resume (&c, &saved, LR_PREFER_SAVED, &err) == 0 && c.style == LR_COSINE && c.max == 2
            && c.min == 1 && c.warmup == 4 && c.decay == 50 && c.wd_style == WD_LINEAR
            && c.wd_start == 0.25 && c.wd_end == 0.5 && c.wd_incr == 60 && c.init == 0.75,
        "or gives way");
    c.init = 5;
    ok (lr_resume (&c, &saved, LR_PREFER_SAVED, &err) == -1 && c.init == 5,
        "not where the two do not go together: %s", err.text);
    c = (struct lr_config){ .style = LR_CONSTANT, .max = 1, .decay = 10, .wd_incr = 10 };
    other = c;
    other.decay = other.wd_incr = 20;
    other.min = 0.5;
    ok (lr_resume (&c, &other, LR_WANT_SAME, &err) == 0, "what is not used may differ");
}

/* The rate of the vocabulary: warm-up from the same first value, then down in the same time. */
static void test_decoupled (void)
{
    struct lr_config c = { .style = LR_LINEAR, .init = 0.5, .max = 2, .min = 1, .warmup = 4,
                           .decay = 12, .decoupled = true, .decoupled_max = 0.25 };
    const double want[] = { 0.5, 0.4375, 0.375, 0.3125, 0.25, 0.21875, 0.1875 };
    struct lr_config other = c, plain = c;
    struct mg_error err = { "" };

    plain.decoupled = false;
    for (int64_t i = 0; i < 7; i++)
        is_near (lr_decoupled_at (&c, i), want[i], 1e-15, "decoupled rate at %d", (int)i);
    is_near (lr_decoupled_at (&c, 13), 0, 0, "after the decay");
    ok (lr_at (&c, 5) == lr_at (&plain, 5) && lr_decoupled_at (&plain, 5) == lr_at (&plain, 5),
        "the other rate is as without");
    is_int (lr_check (&c, &err), 0, "a warm-up may begin above it %s", err.text);
    other.decoupled_min = 0.5;
    ok (lr_check (&other, &err) < 0 && strstr (err.text, "decoupled learning rate: from 0.25"),
        "%s", err.text);
    other.style = LR_CONSTANT;
    is_int (lr_check (&other, &err), 0, "constant: its least value is not used");
    ok (lr_resume (&plain, &c, LR_WANT_SAME, &err) < 0
            && strcmp (err.text, "decoupled learning rate 2 (checkpoint: 0.25), least decoupled "
                                 "learning rate 1 (checkpoint: 0)") == 0, "%s", err.text);
    ok (lr_resume (&plain, &c, LR_PREFER_SAVED, &err) == 0 && plain.decoupled
            && plain.decoupled_max == 0.25, "the checkpoint's");
    ok (lr_resume (&c, &plain, LR_WANT_SAME, &err) == 0, "the same");
}

static void test_reference (void)
{
    json_error_t json_error;
    json_t *root, *one;
    char path[4096];
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/05_lr_wd_schedule.json")) {
        skip (1, "no reference learning rates at %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, &json_error)))
        bail_out ("%s: %s", path, json_error.text);
    json_array_foreach (json_object_get (root, "cases"), i, one)
        check_case (i, one);
    json_decref (root);
}

int main (void)
{
    test_lr ();
    test_wsd ();
    test_wd ();
    test_large ();
    test_resume ();
    test_decoupled ();
    test_check ();
    test_names ();
    test_reference ();
    return done_testing ();
}
