/* parse.c - checked text to number */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "libcore/base/c_locale.h"
#include "libcore/base/parse.h"

int parse_int64 (const char *what, const char *text, int64_t min, int64_t max,
                 int64_t *out, struct mg_error *err)
{
    char *end;
    long long value;
    const char *digits = text && *text == '-' ? text + 1 : text;

    if (!text || !isdigit ((unsigned char)*digits))
        goto inval;
    errno = 0;
    value = strtoll (text, &end, 10);
    if (*end != '\0')
        goto inval;
    if (errno == ERANGE || value < min || value > max || (*text == '-' && min >= 0))
        return mg_error_set (err, ERANGE, "%s: %.40s is out of range, want %" PRId64 " to %" PRId64,
                             what, text, min, max);
    *out = value;
    return 0;
inval:
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is not a whole number, want %" PRId64
                         " to %" PRId64, what, text ? text : "", min, max);
}

int parse_int (const char *what, const char *text, int min, int max, int *out,
               struct mg_error *err)
{
    int64_t value;

    if (parse_int64 (what, text, min, max, &value, err) < 0)
        return -1;
    *out = (int)value;
    return 0;
}

int parse_bytes (const char *what, const char *text, int64_t *out, struct mg_error *err)
{
    static const char prefixes[] = "KMGT";
    const char *unit, *prefix;
    char number[24];
    int64_t factor = 1, value;
    size_t digits;

    if (!text)
        text = "";
    digits = strspn (text, "0123456789");
    unit = text + digits;
    if (digits == 0 || digits >= sizeof (number))
        goto inval;
    if (*unit && (prefix = strchr (prefixes, toupper ((unsigned char)*unit)))) {
        int64_t base = tolower ((unsigned char)unit[1]) == 'i' ? 1024 : 1000;

        for (const char *p = prefixes; p <= prefix; p++)
            factor *= base;
        unit += base == 1024 ? 2 : 1;
    }
    if (*unit && strcasecmp (unit, "B") != 0)
        goto inval;
    memcpy (number, text, digits);
    number[digits] = '\0';
    if (parse_int64 (what, number, 1, INT64_MAX / factor, &value, NULL) < 0)
        goto inval;
    *out = value * factor;
    return 0;
inval:
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is no number of bytes, want one such as "
                         "1000000, 40G, 5GB or 2GiB", what, text);
}

int parse_double (const char *what, const char *text, double min, double max,
                  double *out, struct mg_error *err)
{
    locale_t before;
    double value;
    char *end;

    if (!text || !*text || text[strspn (text, "0123456789+-.eE")] != '\0')
        goto inval;
    before = c_locale_enter ();
    value = strtod (text, &end);
    c_locale_leave (before);
    if (*end != '\0')
        goto inval;
    if (!isfinite (value) || value < min || value > max)
        return mg_error_set (err, ERANGE, "%s: %.40s is out of range, want %g to %g", what,
                             text, min, max);
    *out = value;
    return 0;
inval:
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is not a number, want %g to %g", what,
                         text ? text : "", min, max);
}

int parse_bool (const char *what, const char *text, bool *out, struct mg_error *err)
{
    static const struct {
        const char *name;
        bool value;
    } words[] = {
        { "yes", true }, { "true", true }, { "on", true }, { "1", true },
        { "no", false }, { "false", false }, { "off", false }, { "0", false },
    };

    for (size_t i = 0; text && i < sizeof (words) / sizeof (words[0]); i++) {
        if (strcasecmp (text, words[i].name) == 0) {
            *out = words[i].value;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is not yes or no", what,
                         text ? text : "");
}
