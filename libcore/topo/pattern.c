/* pattern.c - expressions of lists of 0 and 1
 *
 *   sum  = part { "+" part }
 *   part = ( "[" [ digit { "," digit } ] "]" | "(" sum ")" ) { "*" number }
 *
 * An expression is parsed for each value: a reader walks over it and counts elements.  A
 * repeated part is read once; the place in it follows from the place in all repetitions.
 * So no list is ever in memory.  A plain list, which other programs write for models of
 * many layers, is not parsed for each value: the place of an element in the text follows
 * from its number.
 *
 * Invariant: a part's count of elements never exceeds LIMIT.
 */

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/topo/pattern.h"

enum { LIMIT = 1 << 20, DEPTH = 8 };

struct reader {
    const char *at;
    int depth;
    const char *wrong; /* what was expected; NULL: no error */
};

/* The length of a part, and the value of the wanted element. */
struct sublist {
    int64_t length;
    int64_t want; /* the wanted element */
    bool value;   /* of it, if want < length */
};

static int read_sum (struct reader *r, struct sublist *p);

static int fail (struct reader *r, const char *wrong)
{
    if (!r->wrong)
        r->wrong = wrong;
    return -1;
}

static void skip_space (struct reader *r)
{
    while (isspace ((unsigned char)*r->at))
        r->at++;
}

/* True if this is the next character, which is then consumed. */
static bool take (struct reader *r, char c)
{
    skip_space (r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static int read_list (struct reader *r, struct sublist *p)
{
    if (take (r, ']'))
        return 0;
    do {
        skip_space (r);
        if (*r->at != '0' && *r->at != '1')
            return fail (r, "0 or 1");
        if (p->length == p->want)
            p->value = *r->at == '1';
        r->at++;
        if (++p->length > LIMIT)
            return fail (r, "a shorter list");
    } while (take (r, ','));
    return take (r, ']') ? 0 : fail (r, "\",\" or \"]\"");
}

static int read_factor (struct reader *r, int64_t *factor)
{
    char *end;

    skip_space (r);
    if (!isdigit ((unsigned char)*r->at))
        return fail (r, "a number");
    *factor = strtol (r->at, &end, 10);
    r->at = end;
    return *factor <= LIMIT ? 0 : fail (r, "a smaller number");
}

/* The factors stand behind the elements that they repeat: they are read first, without a place. */
static int read_part (struct reader *r, struct sublist *p)
{
    const char *start;
    struct sublist once = { .want = -1 };
    int64_t times = 1, factor;
    bool list = take (r, '[');
    int rc;

    if (!list && !take (r, '('))
        return fail (r, "\"[\" or \"(\"");
    if (++r->depth > DEPTH)
        return fail (r, "fewer brackets");
    start = r->at;
    for (int round = 0; round < 2; round++) {
        struct reader again = { .at = start, .depth = r->depth };
        struct reader *use = round == 0 ? r : &again;

        once.length = 0;
        rc = list ? read_list (use, &once) : read_sum (use, &once);
        if (rc == 0 && !list && !take (use, ')'))
            rc = fail (use, "\"+\", \"*\" or \")\"");
        if (rc < 0)
            return -1;
        while (round == 0 && take (r, '*')) {
            if (read_factor (r, &factor) < 0)
                return -1;
            times *= factor;
            if (times * once.length > LIMIT || times > LIMIT)
                return fail (r, "a shorter list");
        }
        if (once.length == 0 || p->want < p->length
            || p->want - p->length >= times * once.length)
            break;
        once.want = (p->want - p->length) % once.length;
        if (round == 1)
            p->value = once.value;
    }
    r->depth--;
    p->length += times * once.length;
    return p->length <= LIMIT ? 0 : fail (r, "a shorter list");
}

static int read_sum (struct reader *r, struct sublist *p)
{
    do {
        if (read_part (r, p) < 0)
            return -1;
    } while (take (r, '+'));
    return 0;
}

/* The stride of a text that has been read as 'layers' elements, or 0. */
static int stride_of (const char *text, int layers)
{
    const int stride = strncmp (text + 1, "0, ", 3) == 0 || strncmp (text + 1, "1, ", 3) == 0 ? 3
                                                                                              : 2;
    const char *at = text + 1;

    if (text[0] != '[' || strlen (text) != (size_t)stride * (size_t)(layers - 1) + 3)
        return 0;
    for (int i = 0; i < layers - 1; i++, at += stride) {
        if ((*at != '0' && *at != '1') || at[1] != ',' || (stride == 3 && at[2] != ' '))
            return 0;
    }
    return (*at == '0' || *at == '1') && at[1] == ']' ? stride : 0;
}

int pattern_parse (const char *what, const char *text, int layers, struct pattern *p,
                   struct mg_error *err)
{
    struct reader r = { .at = text };
    struct sublist all = { .want = -1 };

    *p = (struct pattern){ .every = 0 };
    if (!strchr (text, '['))
        return parse_int (what, text, 1, LIMIT, &p->every, err);
    if (read_sum (&r, &all) == 0) {
        skip_space (&r);
        if (*r.at)
            fail (&r, "\"+\", \"*\" or the end");
    }
    if (r.wrong)
        return mg_error_set (err, EINVAL, "%s \"%.60s\": want %s at character %d", what, text,
                             r.wrong, (int)(r.at - text) + 1);
    if (all.length != layers)
        return mg_error_set (err, EINVAL, "%s \"%.60s\" is of %lld layers, the model has %d", what,
                             text, (long long)all.length, layers);
    p->list = text;
    p->stride = layers > 0 ? stride_of (text, layers) : 0;
    if (p->stride == 0 && layers > 0 && strlen (text) > (size_t)(PATTERN_WORK_MAX / layers))
        return mg_error_set (err, EINVAL, "%s \"%.60s\" is of %zu characters, want at most %d for "
                             "%d layers, or the elements alone, as in [0,1,1]", what, text,
                             strlen (text), PATTERN_WORK_MAX / layers, layers);
    return 0;
}

bool pattern_at (const struct pattern *p, int layer, bool last)
{
    struct reader r = { .at = p->list };
    struct sublist all = { .want = layer };

    if (!p->list)
        return (layer + 1) % p->every == 0 ? last : !last;
    if (p->stride > 0)
        return p->list[1 + (ptrdiff_t)p->stride * layer] == '1';
    read_sum (&r, &all);
    return all.value;
}
