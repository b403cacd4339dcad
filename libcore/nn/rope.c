/* rope.c - the angles of rotary position embeddings */

#include <errno.h>
#include <float.h>
#include <math.h>

#include "libcore/nn/rope.h"

void rope_config_init (struct rope_config *c)
{
    *c = (struct rope_config){ .base = 10000, .percent = 1, .interpolation = 1, .factor = 1,
                               .original = 4096, .low = 1, .high = 4, .beta_fast = 32,
                               .beta_slow = 1, .mscale = 1 };
}

static int check_positive (const char *name, double value, double least, struct mg_error *err)
{
    if (isfinite (value) && value >= least && value > 0)
        return 0;
    if (least > 0)
        return mg_error_set (err, EINVAL, "%s is %g, want %g or more", name, value, least);
    return mg_error_set (err, EINVAL, "%s is %g, want more than 0", name, value);
}

int rope_config_check (const struct rope_config *c, int head_dim, struct mg_error *err)
{
    if (check_positive ("rotary-base", c->base, 0, err) < 0
        || check_positive ("rotary-seq-len-interpolation-factor", c->interpolation, 1, err) < 0
        || check_positive ("the scaling factor of rotary positions", c->factor, 1, err) < 0
        || check_positive ("the original length of rotary positions", c->original, 1, err) < 0)
        return -1;
    if (!(c->percent > 0 && c->percent <= 1))
        return mg_error_set (err, EINVAL, "rotary-percent is %g, want more than 0 and at most 1",
                             c->percent);
    if (rope_pairs (c, head_dim) < 1)
        return mg_error_set (err, EINVAL, "rotary-percent %g of a head of %d is %d elements, want "
                             "1 or more", c->percent, head_dim, rope_elements (c, head_dim));
    if (2 * rope_pairs (c, head_dim) > head_dim)
        return mg_error_set (err, EINVAL, "rotary-percent %g of a head of %d is %d elements, which "
                             "are %d pairs, want pairs that the head has room for", c->percent,
                             head_dim, rope_elements (c, head_dim), rope_pairs (c, head_dim));
    if (c->scaling == ROPE_YARN && !(c->beta_fast >= c->beta_slow && c->beta_slow > 0))
        return mg_error_set (err, EINVAL, "yarn-beta-fast %g and yarn-beta-slow %g: want the "
                             "second above 0 and at most the first", c->beta_fast, c->beta_slow);
    if (c->scaling == ROPE_YARN && !(c->base > 1))
        return mg_error_set (err, EINVAL, "rotary-base is %g, want more than 1 for YaRN", c->base);
    return 0;
}

int rope_elements (const struct rope_config *c, int head_dim)
{
    return (int)(head_dim * c->percent);
}

int rope_pairs (const struct rope_config *c, int head_dim)
{
    return (rope_elements (c, head_dim) + 1) / 2;
}

/* Wavelengths between original / high and original / low are blended. */
static double scale_llama3 (const struct rope_config *c, double f)
{
    double turns = c->original * f / (2 * M_PI); // over the original length
    double smooth = (turns - c->low) / (c->high - c->low);

    if (turns < c->low)
        return f / c->factor;
    if (turns > c->high)
        return f;
    return (1 - smooth) * f / c->factor + smooth * f;
}

/* The index of the pair, a fraction, that turns so often over the original length. */
static double pair_of (const struct rope_config *c, int pairs, double turns)
{
    return 2.0 * pairs * log (c->original / (turns * 2 * M_PI)) / (2 * log (c->base));
}

static void scale_yarn (const struct rope_config *c, int pairs, double *frequency)
{
    double low = pair_of (c, pairs, c->beta_fast), high = pair_of (c, pairs, c->beta_slow);

    if (!c->exact_range) {
        low = floor (low);
        high = ceil (high);
    }
    low = fmax (low, 0);
    high = fmin (high, 2 * pairs - 1);
    if (low == high)
        high += 0.001;
    for (int i = 0; i < pairs; i++) {
        double slow = fmin (fmax ((i - low) / (high - low), 0), 1);

        frequency[i] *= slow / c->factor + (1 - slow);
    }
}

void rope_frequencies (const struct rope_config *c, int head_dim, double *frequency)
{
    int pairs = rope_pairs (c, head_dim);
    double elements = rope_elements (c, head_dim);

    for (int i = 0; i < pairs; i++) {
        frequency[i] = pow (c->base, -2.0 * i / elements);
        if (c->scaling == ROPE_LLAMA3)
            frequency[i] = scale_llama3 (c, frequency[i]);
    }
    if (c->scaling == ROPE_YARN)
        scale_yarn (c, pairs, frequency);
}

static double mscale_of (double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log (factor) + 1;
}

double rope_concentration (const struct rope_config *c)
{
    if (c->scaling != ROPE_YARN)
        return 1;
    return mscale_of (c->factor, c->mscale) / mscale_of (c->factor, c->mscale_all_dim);
}

/* rope_concentration() rounds several times: of the numbers next to the solution, one is taken that
 * comes back as exactly the same concentration.
 */
bool rope_set_concentration (struct rope_config *c, double concentration)
{
    static const double usual[] = { 1, 0 };
    double lower = mscale_of (c->factor, c->mscale_all_dim), solution;

    for (int i = 0; i < 2; i++) {
        c->mscale = usual[i];
        if (rope_concentration (c) == concentration)
            return true;
    }
    solution = (concentration * lower - 1) / (0.1 * log (c->factor));
    if (c->factor <= 1 || !isfinite (solution) || solution < 0)
        return false;
    c->mscale = solution * (1 - 8 * DBL_EPSILON);
    for (int i = 0; i < 32 && rope_concentration (c) != concentration; i++)
        c->mscale = nextafter (c->mscale, INFINITY);
    if (rope_concentration (c) != concentration)
        c->mscale = solution;
    return true;
}

double rope_softmax_factor (const struct rope_config *c)
{
    double m = mscale_of (c->factor, c->mscale_all_dim);

    return m * m;
}

void rope_row (const struct rope_config *c, const double *frequency, int pairs, int64_t position,
               float *row)
{
    double factor = rope_concentration (c), at = (double)position / c->interpolation;

    for (int i = 0; i < pairs; i++) {
        row[i] = (float)(factor * cos (at * frequency[i]));
        row[pairs + i] = (float)(factor * sin (at * frequency[i]));
    }
}
