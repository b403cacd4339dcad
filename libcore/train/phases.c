/* phases.c - the ends of phases, in order */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/train/phases.h"

static const char name[] = "--phase-transition-iterations";

static int compare (const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static bool is_space (char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The number in text[0..size-1]. */
static int read_number (const char *text, size_t size, int64_t *value, struct mg_error *err)
{
    char number[32];

    while (size > 0 && is_space (*text)) {
        text++;
        size--;
    }
    while (size > 0 && is_space (text[size - 1]))
        size--;
    if (size == 0 || size >= sizeof (number))
        return mg_error_set (err, EINVAL, "%s: \"%.*s\" is no iteration, want numbers with commas "
                             "between", name, (int)(size > 40 ? 40 : size), text);
    memcpy (number, text, size);
    number[size] = '\0';
    return parse_int64 (name, number, 1, (int64_t)1e15, value, err);
}

int phases_parse (const char *text, struct phases *phases, struct mg_error *err)
{
    size_t commas = 0;

    *phases = (struct phases){ NULL, 0 };
    if (!text)
        return 0;
    for (const char *c = text; *c; c++)
        commas += *c == ',';
    if (!(phases->ends = calloc (commas + 1, sizeof (*phases->ends))))
        return mg_error_set (err, ENOMEM, "%s: out of memory", name);
    for (size_t i = 0; i <= commas; i++) {
        size_t size = strcspn (text, ",");

        if (read_number (text, size, &phases->ends[i], err) < 0) {
            phases_clear (phases);
            return -1;
        }
        text += size + 1;
    }
    phases->count = commas + 1;
    qsort (phases->ends, phases->count, sizeof (*phases->ends), compare);
    return 0;
}

void phases_clear (struct phases *phases)
{
    int saved_errno = errno;

    free (phases->ends);
    *phases = (struct phases){ NULL, 0 };
    errno = saved_errno;
}

int64_t phases_begin (const struct phases *phases, int64_t done)
{
    int64_t begin = 0;

    for (size_t i = 0; i < phases->count && phases->ends[i] <= done; i++)
        begin = phases->ends[i];
    return begin;
}

int64_t phases_end (const struct phases *phases, int64_t done, int64_t all)
{
    for (size_t i = 0; i < phases->count; i++) {
        if (phases->ends[i] > done)
            return phases->ends[i] < all ? phases->ends[i] : all;
    }
    return all;
}

bool phases_end_at (const struct phases *phases, int64_t done)
{
    return phases->count > 0 && done > 0 && phases_begin (phases, done) == done;
}
