/* template_json.c - values as JSON: json.dumps() of Python */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_functions.h"
#include "libcore/text/utf8.h"

struct writer {
    struct tpl_state *s;
    struct text_buffer *to;
    const struct tpl_json_form *form;
    int64_t level;
};

static int put (struct writer *w, const char *text)
{
    return tpl_append (w->s, w->to, text, strlen (text));
}

static int put_character (struct writer *w, const char *data, size_t size, uint32_t c)
{
    static const char from[] = "\"\\\n\r\t\b\f", letter[] = "\"\\nrtbf";
    const char *known = c && c < 0x80 ? strchr (from, (int)c) : NULL;
    char text[32];

    if (known)
        snprintf (text, sizeof (text), "\\%c", letter[known - from]);
    else if (c < 0x20)
        snprintf (text, sizeof (text), "\\u%04x", (unsigned int)c);
    else if (!w->form->ascii || c < 0x7f)
        return tpl_append (w->s, w->to, data, size);
    else if (c < 0x10000)
        snprintf (text, sizeof (text), "\\u%04x", (unsigned int)c);
    else
        snprintf (text, sizeof (text), "\\u%04x\\u%04x",
                  (unsigned int)(0xd800 + ((c - 0x10000) >> 10)),
                  (unsigned int)(0xdc00 + ((c - 0x10000) & 0x3ff)));
    return put (w, text);
}

static int put_string (struct writer *w, struct tpl_text t)
{
    if (put (w, "\"") < 0)
        return -1;
    for (size_t at = 0, n; at < t.size; at += n) {
        uint32_t c = utf8_decode (t.data + at, &n);

        if (put_character (w, t.data + at, n, c) < 0)
            return -1;
    }
    return put (w, "\"");
}

/* The end of a line and the indent of the next one, if lines are asked for. */
static int put_line (struct writer *w)
{
    static const char blanks[] = "                                ";
    int64_t n = w->form->indent < 0 ? 0 : w->form->indent * w->level;

    if (w->form->indent < 0)
        return 0;
    if (put (w, "\n") < 0)
        return -1;
    for (; n > 0; n -= (int64_t)sizeof (blanks) - 1) {
        size_t size = n < (int64_t)sizeof (blanks) - 1 ? (size_t)n : sizeof (blanks) - 1;

        if (tpl_append (w->s, w->to, blanks, size) < 0)
            return -1;
    }
    return 0;
}

static int put_separator (struct writer *w, size_t i)
{
    if (i && put (w, w->form->indent < 0 ? ", " : ",") < 0)
        return -1;
    return put_line (w);
}

static int put_value (struct writer *w, const struct tpl_value *v);

static int put_list (struct writer *w, const struct tpl_value *v)
{
    if (v->seq.count == 0)
        return put (w, "[]");
    w->level++;
    if (put (w, "[") < 0)
        return -1;
    for (size_t i = 0; i < v->seq.count; i++)
        if (put_separator (w, i) < 0 || put_value (w, v->seq.item[i]) < 0)
            return -1;
    w->level--;
    return put_line (w) < 0 ? -1 : put (w, "]");
}

static int put_key (struct writer *w, const struct tpl_value *key)
{
    if (key->kind == TPL_STRING)
        return put_string (w, key->text);
    return put (w, "\"") < 0 || put_value (w, key) < 0 || put (w, "\"") < 0 ? -1 : 0;
}

static int compare_keys (const void *a, const void *b)
{
    const struct tpl_text x = ((const struct tpl_pair *)a)->key->text;
    const struct tpl_text y = ((const struct tpl_pair *)b)->key->text;
    int order = memcmp (x.data, y.data, x.size < y.size ? x.size : y.size);

    return order ? order : (x.size > y.size) - (x.size < y.size);
}

/* The pairs in the order in which they are written. */
static const struct tpl_pair *ordered (struct writer *w, const struct tpl_dict *d)
{
    struct tpl_pair *pair;

    if (!w->form->sorted)
        return d->pair;
    for (size_t i = 0; i < d->count; i++)
        if (d->pair[i].key->kind != TPL_STRING) {
            tpl_refuse (w->s, "tojson: sorting keys that are no strings is not supported");
            return NULL;
        }
    pair = tpl_arena_take (&w->s->arena, d->count * sizeof (*pair), w->s->err);
    if (!pair || tpl_work (w->s, 64 * d->count) < 0)
        return NULL;
    memcpy (pair, d->pair, d->count * sizeof (*pair));
    qsort (pair, d->count, sizeof (*pair), compare_keys);
    return pair;
}

static int put_dict (struct writer *w, const struct tpl_dict *d)
{
    const struct tpl_pair *pair;

    if (d->count == 0)
        return put (w, "{}");
    pair = ordered (w, d);
    w->level++;
    if (!pair || put (w, "{") < 0)
        return -1;
    for (size_t i = 0; i < d->count; i++)
        if (put_separator (w, i) < 0 || put_key (w, pair[i].key) < 0 || put (w, ": ") < 0
            || put_value (w, pair[i].value) < 0)
            return -1;
    w->level--;
    return put_line (w) < 0 ? -1 : put (w, "}");
}

static int put_float (struct writer *w, double f)
{
    if (isnan (f))
        return put (w, "NaN");
    if (isinf (f))
        return put (w, f > 0 ? "Infinity" : "-Infinity");
    return tpl_print_float (w->s, w->to, f);
}

static int put_any (struct writer *w, const struct tpl_value *v)
{
    switch (v->kind) {
    case TPL_NONE:
        return put (w, "null");
    case TPL_BOOL:
        return put (w, v->flag ? "true" : "false");
    case TPL_INT:
        return tpl_print (w->s, w->to, v);
    case TPL_FLOAT:
        return put_float (w, v->number);
    case TPL_STRING:
        return put_string (w, v->text);
    case TPL_LIST:
    case TPL_TUPLE:
        return put_list (w, v);
    case TPL_DICT:
        return put_dict (w, v->dict);
    default:
        tpl_fail (w->s, "tojson: %s has no form in JSON", tpl_kind_name (v));
        return -1;
    }
}

static int put_value (struct writer *w, const struct tpl_value *v)
{
    int rc;

    if (tpl_enter (w->s) < 0)
        return -1;
    rc = put_any (w, v);
    tpl_leave (w->s);
    return rc;
}

int tpl_print_json (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v,
                    const struct tpl_json_form *form)
{
    struct writer w = { s, to, form, 0 };

    return put_value (&w, v);
}
