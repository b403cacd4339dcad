/* lr.c - learning rate and weight decay
 *
 * The operations stand in the order in which Megatron-LM does them, so that the last bit
 * agrees.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "libcore/optim/lr.h"

static double lr_constant (const struct lr_config *c, int64_t samples)
{
    (void)samples;
    return c->max;
}

static double decay_ratio (const struct lr_config *c, int64_t samples)
{
    return ((double)samples - c->warmup) / ((double)c->decay - c->warmup);
}

static double lr_linear (const struct lr_config *c, int64_t samples)
{
    if (samples > c->decay)
        return c->min;
    return c->min + (1.0 - decay_ratio (c, samples)) * (c->max - c->min);
}

static double lr_cosine (const struct lr_config *c, int64_t samples)
{
    double coeff;

    if (samples > c->decay)
        return c->min;
    coeff = 0.5 * (cos (M_PI * decay_ratio (c, samples)) + 1.0);
    return c->min + coeff * (c->max - c->min);
}

static double lr_inverse_square_root (const struct lr_config *c, int64_t samples)
{
    double warmup = fmax (c->warmup, 1.0), lr;

    if (samples > c->decay)
        return c->min;
    lr = c->max * pow (warmup, 0.5) / pow (fmax ((double)samples, 1.0), 0.5);
    return fmax (c->min, lr);
}

static double wsd_exponential (double ratio)
{
    return 2.0 * pow (0.5, ratio) - 1.0;
}

static double wsd_linear (double ratio)
{
    return 1.0 - ratio;
}

static double wsd_cosine (double ratio)
{
    return 0.5 * (cos (M_PI * ratio) + 1.0);
}

static double wsd_minus_sqrt (double ratio)
{
    return 1.0 - sqrt (ratio);
}

/* A style is its name and a function: the part of the decay that is still to come after a share of
 * its steps.
 */
static const struct {
    const char *name;
    double (*left) (double ratio);
} wsd_styles[WSD_NUM_STYLES] = {
    [WSD_EXPONENTIAL] = { "exponential", wsd_exponential },
    [WSD_LINEAR] = { "linear", wsd_linear },
    [WSD_COSINE] = { "cosine", wsd_cosine },
    [WSD_MINUS_SQRT] = { "minus_sqrt", wsd_minus_sqrt },
};

static double lr_wsd (const struct lr_config *c, int64_t samples)
{
    int64_t start = c->decay - c->wsd_decay;
    double coeff = 1.0;

    if (samples > c->decay)
        return c->min;
    if (samples > start)
        coeff = wsd_styles[c->wsd_style].left ((double)(samples - start)
                                               / (double)c->wsd_decay);
    return c->min + coeff * (c->max - c->min);
}

/* A style is its name and its learning rate after the warm-up. */
static const struct {
    const char *name;
    double (*at) (const struct lr_config *c, int64_t samples);
} lr_styles[LR_NUM_STYLES] = {
    [LR_CONSTANT] = { "constant", lr_constant },
    [LR_LINEAR] = { "linear", lr_linear },
    [LR_COSINE] = { "cosine", lr_cosine },
    [LR_INVERSE_SQUARE_ROOT] = { "inverse-square-root", lr_inverse_square_root },
    [LR_WSD] = { "WSD", lr_wsd },
};

static double wd_constant (double ratio)
{
    (void)ratio;
    return 1.0;
}

static double wd_linear (double ratio)
{
    return ratio;
}

static double wd_cosine (double ratio)
{
    return 0.5 * (cos (M_PI * (1.0 - ratio)) + 1.0);
}

/* A style is its name and a function: the part of the increase that is done after a share of its
 * steps.
 */
static const struct {
    const char *name;
    double (*share) (double ratio);
} wd_styles[WD_NUM_STYLES] = {
    [WD_CONSTANT] = { "constant", wd_constant },
    [WD_LINEAR] = { "linear", wd_linear },
    [WD_COSINE] = { "cosine", wd_cosine },
};

double lr_at (const struct lr_config *c, int64_t samples)
{
    if (c->warmup > 0 && (double)samples <= c->warmup)
        return c->init + (c->max - c->init) * (double)samples / c->warmup;
    return lr_styles[c->style].at (c, samples);
}

double lr_decoupled_at (const struct lr_config *c, int64_t samples)
{
    struct lr_config own = *c;

    if (c->decoupled) {
        own.max = c->decoupled_max;
        own.min = c->decoupled_min;
    }
    return lr_at (&own, samples);
}

double lr_weight_decay_at (const struct lr_config *c, int64_t samples)
{
    if (c->wd_style == WD_CONSTANT || samples > c->wd_incr)
        return c->wd_end;
    return c->wd_start
           + wd_styles[c->wd_style].share ((double)samples / (double)c->wd_incr)
                 * (c->wd_end - c->wd_start);
}

static int check_lr (const struct lr_config *c, struct mg_error *err)
{
    if ((int)c->style < 0 || c->style >= LR_NUM_STYLES)
        return mg_error_set (err, EINVAL, "learning rate: unknown decay style %d",
                             (int)c->style);
    if (!(c->min >= 0.0) || !isfinite (c->max) || !(c->max >= c->min))
        return mg_error_set (err, EINVAL,
                             "learning rate: from %g down to %g, want both finite, not "
                             "negative and in this order",
                             c->max, c->min);
    if (!(c->init >= 0.0) || !(c->init <= c->max))
        return mg_error_set (err, EINVAL,
                             "learning rate: warm-up starts at %g, want 0 to %g", c->init,
                             c->max);
    if (c->decay < 1)
        return mg_error_set (err, EINVAL,
                             "learning rate: decays over %" PRId64 " samples, want at "
                             "least 1",
                             c->decay);
    if (!(c->warmup >= 0) || !(c->warmup < (double)c->decay))
        return mg_error_set (
            err, EINVAL,
            "learning rate: warm-up of %.15g samples, want from 0 to less "
            "than the %" PRId64 " of the decay",
            c->warmup, c->decay);
    return 0;
}

/* The warm-up may begin above a decoupled rate, as in Megatron-LM. */
static int check_decoupled (const struct lr_config *c, struct mg_error *err)
{
    if (!c->decoupled)
        return 0;
    if (!(c->decoupled_min >= 0.0) || !isfinite (c->decoupled_max) || !(c->decoupled_max >= 0.0)
        || (c->style != LR_CONSTANT && !(c->decoupled_max >= c->decoupled_min)))
        return mg_error_set (err, EINVAL, "decoupled learning rate: from %g down to %g, want both "
                             "finite, not negative and in this order", c->decoupled_max,
                             c->decoupled_min);
    return 0;
}

static int check_wsd (const struct lr_config *c, struct mg_error *err)
{
    if (c->style != LR_WSD)
        return 0;
    if ((int)c->wsd_style < 0 || c->wsd_style >= WSD_NUM_STYLES)
        return mg_error_set (err, EINVAL, "learning rate: unknown style %d of the last "
                             "decay", (int)c->wsd_style);
    if (c->wsd_decay < 1)
        return mg_error_set (err, EINVAL,
                             "learning rate: WSD decays over the last %" PRId64
                             " samples, "
                             "want at least 1",
                             c->wsd_decay);
    return 0;
}

static int check_wd (const struct lr_config *c, struct mg_error *err)
{
    if ((int)c->wd_style < 0 || c->wd_style >= WD_NUM_STYLES)
        return mg_error_set (err, EINVAL, "weight decay: unknown style %d",
                             (int)c->wd_style);
    if (!(c->wd_start >= 0.0) || !isfinite (c->wd_end) || !(c->wd_end >= c->wd_start))
        return mg_error_set (err, EINVAL,
                             "weight decay: from %g to %g (--start-weight-decay and "
                             "--end-weight-decay), want both finite, not negative, and the "
                             "second not below the first",
                             c->wd_start, c->wd_end);
    if (c->wd_style == WD_CONSTANT && c->wd_start != c->wd_end)
        return mg_error_set (err, EINVAL,
                             "weight decay: constant, but from %g to %g; give one value "
                             "or another style",
                             c->wd_start, c->wd_end);
    if (c->wd_style != WD_CONSTANT && c->wd_incr < 1)
        return mg_error_set (err, EINVAL,
                             "weight decay: rises over %" PRId64 " samples, want at "
                             "least 1",
                             c->wd_incr);
    return 0;
}

int lr_check (const struct lr_config *c, struct mg_error *err)
{
    int rc = check_lr (c, err);

    if (rc == 0)
        rc = check_decoupled (c, err);
    if (rc == 0)
        rc = check_wsd (c, err);
    return rc < 0 ? rc : check_wd (c, err);
}

const char *lr_style_name (enum lr_style style)
{
    return (int)style >= 0 && style < LR_NUM_STYLES ? lr_styles[style].name : "unknown";
}

const char *wsd_style_name (enum wsd_style style)
{
    return (int)style >= 0 && style < WSD_NUM_STYLES ? wsd_styles[style].name : "unknown";
}

const char *wd_style_name (enum wd_style style)
{
    return (int)style >= 0 && style < WD_NUM_STYLES ? wd_styles[style].name : "unknown";
}

/* Index of 'name' among the n names that name_of() gives, or -1 and a text. */
static int parse_style (const char *what, const char *name,
                        const char *(*name_of) (int index), int n, struct mg_error *err)
{
    char list[200] = "";
    size_t used = 0;

    for (int i = 0; i < n; i++) {
        if (name && strcmp (name, name_of (i)) == 0)
            return i;
        used += snprintf (list + used, sizeof (list) - used, "%s%s",
                          i == 0 ? "" : i == n - 1 ? " or " : ", ", name_of (i));
    }
    return mg_error_set (err, EINVAL, "%s: unknown style \"%s\", want %s", what,
                         name ? name : "(null)", list);
}

static const char *lr_name_of (int index)
{
    return lr_styles[index].name;
}

static const char *wsd_name_of (int index)
{
    return wsd_styles[index].name;
}

static const char *wd_name_of (int index)
{
    return wd_styles[index].name;
}

int lr_style_parse (const char *what, const char *name, enum lr_style *style,
                    struct mg_error *err)
{
    int i = parse_style (what, name, lr_name_of, LR_NUM_STYLES, err);

    if (i < 0)
        return -1;
    *style = i;
    return 0;
}

int wsd_style_parse (const char *what, const char *name, enum wsd_style *style,
                     struct mg_error *err)
{
    int i = parse_style (what, name, wsd_name_of, WSD_NUM_STYLES, err);

    if (i < 0)
        return -1;
    *style = i;
    return 0;
}

int wd_style_parse (const char *what, const char *name, enum wd_style *style,
                    struct mg_error *err)
{
    int i = parse_style (what, name, wd_name_of, WD_NUM_STYLES, err);

    if (i < 0)
        return -1;
    *style = i;
    return 0;
}

/* A value of two schedules, a number or the index of a name. */
struct compared {
    const char *what;
    bool used;
    double own, saved;
    const char *(*name_of) (int index);
};

/* Append a value that differs to the list of differences.  Returns the list's new length. */
static size_t append_difference (const struct compared *c, char *list, size_t used, size_t size)
{
    const char *comma = used > 0 ? ", " : "";

    if (!c->used || c->own == c->saved || used >= size)
        return used;
    if (c->name_of)
        return used + snprintf (list + used, size - used, "%s%s %s (checkpoint: %s)", comma,
                                c->what, c->name_of ((int)c->own), c->name_of ((int)c->saved));
    return used + snprintf (list + used, size - used, "%s%s %.10g (checkpoint: %.10g)", comma,
                            c->what, c->own, c->saved);
}

/* The bounds of the rate of embeddings and output layer. */
static double decoupled_max (const struct lr_config *c)
{
    return c->decoupled ? c->decoupled_max : c->max;
}

static double decoupled_min (const struct lr_config *c)
{
    return c->decoupled ? c->decoupled_min : c->min;
}

static int want_same (const struct lr_config *a, const struct lr_config *b,
                      struct mg_error *err)
{
    const bool decays = a->style != LR_CONSTANT, grows = a->wd_style != WD_CONSTANT;
    const bool decoupled = a->decoupled || b->decoupled;
    const struct compared values[] = {
        { "learning rate", true, a->max, b->max, NULL },
        { "least learning rate", decays, a->min, b->min, NULL },
        { "decoupled learning rate", decoupled, decoupled_max (a), decoupled_max (b), NULL },
        { "least decoupled learning rate", decoupled && decays, decoupled_min (a),
          decoupled_min (b), NULL },
        { "samples of warm-up", true, a->warmup, b->warmup, NULL },
        { "samples of decay", decays, (double)a->decay, (double)b->decay, NULL },
        { "style of decay", true, a->style, b->style, lr_name_of },
        { "weight decay at the start", true, a->wd_start, b->wd_start, NULL },
        { "at the end", grows, a->wd_end, b->wd_end, NULL },
        { "samples of its growth", grows, (double)a->wd_incr, (double)b->wd_incr, NULL },
        { "style of its growth", true, a->wd_style, b->wd_style, wd_name_of },
    };
    char list[MG_ERROR_MAX] = "";
    size_t used = 0;

    for (size_t i = 0; i < sizeof (values) / sizeof (values[0]); i++)
        used = append_difference (&values[i], list, used, sizeof (list));
    return used > 0 ? mg_error_set (err, EINVAL, "%s", list) : 0;
}

int lr_resume (struct lr_config *config, const struct lr_config *saved,
               enum lr_prefer prefer, struct mg_error *err)
{
    struct lr_config both = *saved;

    if (prefer == LR_PREFER_OWN)
        return 0;
    if (prefer == LR_WANT_SAME)
        return want_same (config, saved, err);
    both.init = config->init;
    both.wsd_style = config->wsd_style;
    both.wsd_decay = config->wsd_decay;
    if (lr_check (&both, err) < 0)
        return -1;
    *config = both;
    return 0;
}
