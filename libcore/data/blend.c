/* blend.c - the words of a blend, its weights, the share of each dataset
 *
 * The arithmetic is Megatron-LM's to the last bit, numpy's order of summation included, since one
 * sample more or less would change an index.
 */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/data/blend.h"

/* A copy without blanks around it. */
static char *strip (const char *text)
{
    size_t n;

    while (isspace ((unsigned char)*text))
        text++;
    n = strlen (text);
    while (n > 0 && isspace ((unsigned char)text[n - 1]))
        n--;
    return strndup (text, n);
}

/* True if the text is a number, whatever its value. */
static bool is_number (const char *text, double *value)
{
    char *word = strip (text);
    bool yes
        = word && parse_double ("weight", word, -HUGE_VAL, HUGE_VAL, value, NULL) == 0;

    free (word);
    return yes;
}

/* Count the numbers among the words that would be weights. */
static size_t count_numbers (const char *const *words, size_t n, size_t *other)
{
    size_t numbers = 0;
    double value;

    for (size_t i = 0; i < n; i += 2) {
        if (is_number (words[i], &value))
            numbers++;
        else
            *other = i;
    }
    return numbers;
}

static int read_weights (const char *const *words, struct blend *b, struct mg_error *err)
{
    if (!(b->weights = calloc (b->count, sizeof (*b->weights))))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (size_t i = 0; i < b->count; i++) {
        if (!is_number (words[2 * i], &b->weights[i]) || !(b->weights[i] > 0.))
            return mg_error_set (err, EINVAL,
                                 "weight of %.200s is %.40s, want more than 0",
                                 words[2 * i + 1], words[2 * i]);
    }
    return 0;
}

static int read_prefixes (const char *const *words, size_t step, struct blend *b,
                          struct mg_error *err)
{
    if (!(b->prefixes = calloc (b->count, sizeof (*b->prefixes))))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (size_t i = 0; i < b->count; i++) {
        if (!(b->prefixes[i] = strip (words[step * i + step - 1])))
            return mg_error_set (err, ENOMEM, "out of memory");
        if (b->prefixes[i][0] == '\0')
            return mg_error_set (err, EINVAL, "the name of dataset %zu is empty", i + 1);
    }
    return 0;
}

int blend_parse (const char *const *words, size_t n, struct blend *b,
                 struct mg_error *err)
{
    size_t other = 0;
    size_t numbers = n % 2 == 0 ? count_numbers (words, n, &other) : 0;

    *b = (struct blend){ 0 };
    if (n == 0)
        return mg_error_set (err, EINVAL,
                             "no dataset, want PREFIX... or WEIGHT PREFIX ...");
    if ((numbers ? n / 2 : n) > BLEND_MAX)
        return mg_error_set (err, EINVAL, "%zu datasets, want at most %d",
                             numbers ? n / 2 : n, BLEND_MAX);
    if (numbers > 0 && numbers < n / 2)
        return mg_error_set (err, EINVAL,
                             "\"%.200s\" stands where a weight should, as there "
                             "are others: want WEIGHT PREFIX WEIGHT PREFIX ...",
                             words[other]);
    b->count = numbers ? n / 2 : n;
    if ((numbers > 0 && read_weights (words, b, err) < 0)
        || read_prefixes (words, numbers ? 2 : 1, b, err) < 0) {
        blend_clear (b);
        return -1;
    }
    return 0;
}

void blend_clear (struct blend *b)
{
    int saved_errno = errno;

    for (size_t i = 0; b->prefixes && i < b->count; i++)
        free (b->prefixes[i]);
    free (b->prefixes);
    free (b->weights);
    *b = (struct blend){ 0 };
    errno = saved_errno;
}

/* numpy.sum of doubles: up to 7 in a row; up to 128 in eight sums, added up by pairs;
 * more in two halves, the first a multiple of 8. */
static double pairwise_sum (const double *x, size_t n)
{
    double sum[8];
    double all = 0.;
    size_t i;

    if (n < 8) {
        for (i = 0; i < n; i++)
            all += x[i];
        return all;
    }
    if (n > 128) {
        size_t half = n / 2 - n / 2 % 8;

        return pairwise_sum (x, half) + pairwise_sum (x + half, n - half);
    }
    memcpy (sum, x, sizeof (sum));
    for (i = 8; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++)
            sum[k] += x[i + k];
    }
    all = ((sum[0] + sum[1]) + (sum[2] + sum[3]))
          + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    for (; i < n; i++)
        all += x[i];
    return all;
}

void blend_normalize (double *weights, size_t n)
{
    double sum = pairwise_sum (weights, n);

    for (size_t i = 0; i < n; i++)
        weights[i] /= sum;
}

int64_t blend_share (int64_t size, double weight, double surplus, struct mg_error *err)
{
    double share = ceil (ceil ((double)size * weight) * (1. + surplus));

    if (!(share >= 0. && share <= 0x1p53))
        return mg_error_set (err, ERANGE,
                             "a blend of %" PRId64 " samples, weight %g, surplus "
                             "%g: a share of %g is out of range",
                             size, weight, surplus, share);
    return (int64_t)share;
}
