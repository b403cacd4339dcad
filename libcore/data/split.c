/* split.c - weights to ranges of documents
 *
 * Rounding is Python's, in the same order of operations, so that the bounds are Megatron-LM's.
 * Parts do not overlap, and together have all documents.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/data/split.h"

static const char blanks[] = " \t";
static const char digits[] = "0123456789.";

static const char *const part_names[SPLIT_NUM_PARTS] = {
    [SPLIT_TRAIN] = "train",
    [SPLIT_VALID] = "valid",
    [SPLIT_TEST] = "test",
};

const char *split_part_name (enum split_part part)
{
    return part_names[part];
}

int split_part_by_name (const char *name, enum split_part *part, struct mg_error *err)
{
    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        if (strcmp (name, part_names[i]) == 0) {
            *part = i;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "part: \"%.40s\" is not train, valid or test",
                         name);
}

/* Read a weight at *text, and move *text behind it. */
static int parse_weight (const char **text, double *weight, struct mg_error *err)
{
    char number[64];
    size_t len = strspn (*text, digits);

    if (len == 0 || len >= sizeof (number))
        return mg_error_set (err, EINVAL, "no weight at \"%.40s\"", *text);
    memcpy (number, *text, len);
    number[len] = '\0';
    *text += len;
    return parse_double ("weight", number, 0., HUGE_VAL, weight, err);
}

/* Move *text behind a separator: blanks, at most one mark. */
static void skip_separator (const char **text)
{
    *text += strspn (*text, blanks);
    if (**text && strchr (",/;:", **text))
        (*text)++;
    *text += strspn (*text, blanks);
}

static int parse_weights (const char *text, double weight[SPLIT_NUM_PARTS],
                          struct mg_error *err)
{
    int n = 0;

    text += strspn (text, blanks);
    do {
        if (n == SPLIT_NUM_PARTS)
            return mg_error_set (err, EINVAL, "more than 3 weights");
        if (parse_weight (&text, &weight[n++], err) < 0)
            return -1;
        if (text[strspn (text, blanks)] == '\0')
            return 0;
        skip_separator (&text);
    } while (1);
}

int split_parse (const char *text, struct split *split, struct mg_error *err)
{
    double weight[SPLIT_NUM_PARTS] = { 0. };
    double sum;

    if (parse_weights (text, weight, err) < 0)
        return mg_error_prefix (err,
                                "split \"%.60s\", want up to 3 weights as in 969,30,1",
                                text);
    /* the order of these sums decides where a bound is rounded to */
    sum = weight[SPLIT_TRAIN] + weight[SPLIT_VALID] + weight[SPLIT_TEST];
    if (!(sum > 0.) || !isfinite (sum))
        return mg_error_set (err, EINVAL,
                             "split \"%.60s\": the sum of the weights is %g, want more "
                             "than 0", text, sum);
    split->bound[0] = 0.;
    for (int i = 0; i < SPLIT_NUM_PARTS; i++)
        split->bound[i + 1] = split->bound[i] + weight[i] / sum;
    return 0;
}

/* Python's int (round (share * float (count))), kept inside the documents there are. */
static int64_t bound_at (double share, int64_t count)
{
    int64_t at = (int64_t)nearbyint (share * (double)count);

    return at > count ? count : at;
}

void split_range (const struct split *split, enum split_part part, int64_t count,
                  int64_t *begin, int64_t *end)
{
    *begin = bound_at (split->bound[part], count);
    *end = bound_at (split->bound[part + 1], count);
}

int split_documents (const char *text, enum split_part part, int64_t count,
                     int64_t *begin, int64_t *end, struct mg_error *err)
{
    struct split split;

    *begin = 0;
    *end = count;
    if (text) {
        if (split_parse (text, &split, err) < 0)
            return -1;
        split_range (&split, part, count, begin, end);
    }
    if (*begin == *end)
        return mg_error_set (err, ENODATA,
                             "split %.60s leaves no document for %s: it is [%" PRId64
                             ", %" PRId64 ") of %" PRId64, text ? text : "(none)",
                             part_names[part], *begin, *end, count);
    return 0;
}
