/* stages_layout.c - layouts: stages written out as a text
 *
 * As in Megatron-LM, a layout is rewritten twice before it is read: groups in parentheses
 * first, then single characters.
 */

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/stages_private.h"

/* A limit far above any model, and far below any harm. */
enum { ITEMS_MAX = 1 << 20 };

/* The most characters of a layout that a message shows. */
enum { SHOWN = 60 };

struct text {
    char *s;
    size_t len;
};

static int wrong (const struct stages_config *c, struct mg_error *err, const char *what)
{
    return mg_error_set (err, EINVAL, "pipeline-model-parallel-layout \"%.*s%s\": %s",
                         SHOWN, c->layout, strlen (c->layout) > SHOWN ? "..." : "", what);
}

/* Append 'n' characters 'times' times; false: too long. */
static bool append (struct text *t, const char *s, size_t n, size_t times)
{
    if (n > 0 && times > (ITEMS_MAX - t->len) / n)
        return false;
    for (size_t i = 0; i < times && n > 0; i++, t->len += n)
        memcpy (t->s + t->len, s, n);
    return true;
}

/* The "*n" at 's': its length, 0 if it is none; *n is cut at ITEMS_MAX + 1. */
static size_t repetition (const char *s, size_t *n)
{
    size_t len = 1;

    *n = 0;
    if (s[0] != '*' || !isdigit ((unsigned char)s[1]))
        return 0;
    for (; isdigit ((unsigned char)s[len]); len++) {
        *n = *n * 10 + (size_t)(s[len] - '0');
        if (*n > ITEMS_MAX)
            *n = ITEMS_MAX + 1;
    }
    return len;
}

/* Write each "(...)*n" out, and copy the rest. */
static bool expand_groups (const char *s, struct text *out)
{
    while (*s) {
        const char *end = *s == '(' ? strchr (s, ')') : NULL;
        size_t n = 1, inside = 0, len = 0;

        if (end && end > s + 1)
            len = repetition (end + 1, &n);
        if (len > 0)
            inside = (size_t)(end - s) - 1;
        if (!(len > 0 ? append (out, s + 1, inside, n) : append (out, s, 1, 1)))
            return false;
        s = len > 0 ? end + 1 + len : s + 1;
    }
    return true;
}

/* Write "x*n" out. */
static bool expand_items (const char *s, struct text *out)
{
    while (*s) {
        size_t n = 1, len = repetition (s + 1, &n);

        if (!append (out, s, 1, len > 0 ? n : 1))
            return false;
        s += 1 + len;
    }
    return true;
}

static int expand (const struct stages_config *c, struct text *t, struct mg_error *err)
{
    size_t len = strlen (c->layout);

    for (int i = 0; i < 3; i++) {
        if (!(t[i].s = calloc (1, ITEMS_MAX + 1)))
            return mg_error_set (err, ENOMEM,
                                 "pipeline-model-parallel-layout: out of memory");
    }
    if (len > ITEMS_MAX)
        return wrong (c, err, "is too long");
    for (size_t i = 0; i < len; i++) {
        if (c->layout[i] != ',')
            t[0].s[t[0].len++] = c->layout[i];
    }
    if (!expand_groups (t[0].s, &t[1]))
        return wrong (c, err, "has more than 1048576 items");
    t[1].s[t[1].len] = '\0';
    if (!expand_items (t[1].s, &t[2]))
        return wrong (c, err, "has more than 1048576 items");
    t[2].s[t[2].len] = '\0';
    return 0;
}

/* Every character is an item or a "|". */
static int check_items (const struct stages_config *c, const char *items,
                        struct mg_error *err)
{
    size_t good = strspn (items, "EtmL|");
    char what[80] = "\"?\" is not an item here; want E, t, m, L, |, x*n or (...)*n";

    if (items[good] == '\0')
        return 0;
    what[1] = isprint ((unsigned char)items[good]) ? items[good] : '?';
    return wrong (c, err, what);
}

static int count_stages (const struct stages_config *c, const char *items,
                         struct mg_error *err)
{
    int stages = 1;

    for (; *items; items++)
        stages += *items == '|';
    if (stages % c->pp != 0)
        return mg_error_set (
            err, EINVAL,
            "pipeline-model-parallel-layout \"%.*s%s\": %d stages are not "
            "a multiple of pipeline-model-parallel-size %d",
            SHOWN, c->layout, strlen (c->layout) > SHOWN ? "..." : "", stages, c->pp);
    return stages / c->pp;
}

int stages_layout_read (const struct stages_config *c, char **items, struct mg_error *err)
{
    struct text t[3] = { { NULL, 0 } };
    int vpp = -1;

    *items = NULL;
    if (expand (c, t, err) == 0 && check_items (c, t[2].s, err) == 0)
        vpp = count_stages (c, t[2].s, err);
    if (vpp > 0) {
        *items = t[2].s;
        t[2].s = NULL;
    }
    for (int i = 0; i < 3; i++)
        free (t[i].s);
    return vpp;
}

static int count (const char *items, char item)
{
    int n = 0;

    for (; *items; items++)
        n += *items == item;
    return n;
}

static int check_ends (const struct stages_config *c, const char *items,
                       struct mg_error *err)
{
    const char *first = items + strspn (items, "|");
    const char *last = items + strlen (items);

    while (last > first && last[-1] == '|')
        last--;
    if (*first != 'E')
        return wrong (c, err, "the first item must be E, the embedding");
    if (last[-1] != 'L')
        return wrong (c, err, "the last item must be L, the loss");
    if (count (items, 'E') != 1 || count (items, 'L') != 1)
        return wrong (c, err, "E and L must come once");
    return 0;
}

static int check_counts (const struct stages_config *c, const char *items,
                         struct mg_error *err)
{
    const char *m = strchr (items, 'm');

    if (count (items, 't') != c->num_layers)
        return mg_error_set (
            err, EINVAL,
            "pipeline-model-parallel-layout \"%.*s%s\": has %d layers (t), "
            "but num-layers is %d",
            SHOWN, c->layout, strlen (c->layout) > SHOWN ? "..." : "", count (items, 't'),
            c->num_layers);
    if (count (items, 'm') != c->mtp_layers)
        return mg_error_set (
            err, EINVAL,
            "pipeline-model-parallel-layout \"%.*s%s\": has %d layers for "
            "multi-token prediction (m), but mtp-num-layers is %d",
            SHOWN, c->layout, strlen (c->layout) > SHOWN ? "..." : "", count (items, 'm'),
            c->mtp_layers);
    if (m && strchr (m, 't'))
        return wrong (c, err, "no layer (t) may follow an m");
    return 0;
}

int stages_layout_fill (const struct stages_config *c, const char *items,
                        struct stages *s, struct mg_error *err)
{
    int stage = 0;

    if (check_ends (c, items, err) < 0 || check_counts (c, items, err) < 0)
        return -1;
    for (; *items; items++) {
        stage += *items == '|';
        s->stage[stage].num_layers += *items == 't';
        s->stage[stage].mtp_layers += *items == 'm';
    }
    for (stage = 0; stage < s->pp * s->vpp; stage++) {
        if (s->stage[stage].mtp_layers == 0)
            continue;
        if (stage < s->pp * (s->vpp - 1))
            return wrong (c, err, "m must be in the last virtual stage of its rank");
        if (s->stage[stage].mtp_layers != c->mtp_layers)
            return wrong (c, err, "all m must be in one stage");
    }
    return 0;
}
