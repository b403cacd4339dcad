/* template_print.c - values as text: Python's str() and repr() */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_value.h"
#include "libcore/text/utf8.h"

static int print_repr (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v);

int tpl_append (struct tpl_state *s, struct text_buffer *to, const char *data, size_t size)
{
    if (size > s->text_left || to->size + size > TEMPLATE_OUTPUT_MAX)
        return mg_error_set (s->err, E2BIG, "a text of more than %d bytes", TEMPLATE_OUTPUT_MAX);
    s->text_left -= size;
    return text_buffer_append (to, data, size, s->err);
}

static int append_text (struct tpl_state *s, struct text_buffer *to, const char *text)
{
    return tpl_append (s, to, text, strlen (text));
}

/* Add one to the last digit of a number D.DDDe-XX, unless all its digits are 9. */
static void step_up (char *text)
{
    char *p = strchr (text, 'e') - 1;

    while (p > text && (*p == '9' || *p == '.'))
        p--;
    if (*p == '9')
        return;
    (*p)++;
    while (*++p != 'e') {
        if (*p == '9')
            *p = '0';
    }
}

/* The digits of the shortest decimal number that reads as 'f', without the point; 0.DDD is the
 * value times 10^-*point. */
static void shortest_digits (double f, char digits[32], int *point)
{
    char text[40];
    size_t n = 0;
    for (int precision = 0; precision < 17; precision++) {
        snprintf (text, sizeof (text), "%.*e", precision, f);
        if (strtod (text, NULL) == f)
            break;
        // below a power of two doubles are closer, so the next number above may read as f
        step_up (text);
        if (strtod (text, NULL) == f)
            break;
    }
    for (char *p = text; *p != 'e'; p++)
        if (*p != '.')
            digits[n++] = *p;
    digits[n] = '\0';
    *point = atoi (strchr (text, 'e') + 1) + 1;
}

int tpl_print_float (struct tpl_state *s, struct text_buffer *to, double f)
{
    char digits[32], text[80];
    int point, n;

    if (isnan (f) || isinf (f))
        return append_text (s, to, isnan (f) ? "nan" : f > 0 ? "inf" : "-inf");
    shortest_digits (fabs (f), digits, &point);
    n = (int)strlen (digits);
    if (point > 16 || point < -3)
        snprintf (text, sizeof (text), "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                  point > 0 ? '+' : '-', abs (point - 1));
    else if (point <= 0)
        snprintf (text, sizeof (text), "0.%.*s%s", -point, "0000", digits);
    else if (point >= n)
        snprintf (text, sizeof (text), "%s%.*s.0", digits, point - n, "0000000000000000");
    else
        snprintf (text, sizeof (text), "%.*s.%s", point, digits, digits + point);
    return (signbit (f) && append_text (s, to, "-") < 0) || append_text (s, to, text) < 0 ? -1 : 0;
}

/* --- repr --- */

static const struct tpl_range printable[] = {
    { 0x20, 0x7e },       { 0xa1, 0xac },       { 0xae, 0x377 },      { 0x400, 0x52f },
    { 0x5d0, 0x5ea },     { 0x620, 0x64a },     { 0x905, 0x939 },     { 0x1e00, 0x1f15 },
    { 0x2010, 0x2027 },   { 0x2190, 0x23ff },   { 0x2500, 0x27bf },   { 0x3041, 0x3096 },
    { 0x30a0, 0x30ff },   { 0x4e00, 0x9fef },   { 0xac00, 0xd7a3 },   { 0xff01, 0xff5e },
    { 0x1f300, 0x1f64f },
};

static bool is_printable (uint32_t c)
{
    return tpl_in_ranges (c, printable, sizeof (printable) / sizeof (printable[0]));
}

static int print_character (struct tpl_state *s, struct text_buffer *to, const char *data,
                            size_t size, uint32_t c, char quote)
{
    char text[16];

    if (c == (uint32_t)quote || c == '\\')
        snprintf (text, sizeof (text), "\\%c", (int)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf (text, sizeof (text), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (is_printable (c))
        return tpl_append (s, to, data, size);
    else if (c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad)
        snprintf (text, sizeof (text), "\\x%02x", (unsigned int)c);
    else {
        tpl_refuse (s, "Python's form of U+%04X in a list or a dict is not supported",
                    (unsigned int)c);
        return -1;
    }
    return append_text (s, to, text);
}

static int print_quoted (struct tpl_state *s, struct text_buffer *to, struct tpl_text t)
{
    bool apostrophe = memchr (t.data, '\'', t.size), quotes = memchr (t.data, '"', t.size);
    char quote = apostrophe && !quotes ? '"' : '\'';

    if (tpl_append (s, to, &quote, 1) < 0)
        return -1;
    for (size_t at = 0, n; at < t.size; at += n) {
        uint32_t c = utf8_decode (t.data + at, &n);

        if (print_character (s, to, t.data + at, n, c, quote) < 0)
            return -1;
    }
    return tpl_append (s, to, &quote, 1);
}

static int print_items (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v)
{
    bool tuple = v->kind == TPL_TUPLE;

    if (append_text (s, to, tuple ? "(" : "[") < 0)
        return -1;
    for (size_t i = 0; i < v->seq.count; i++)
        if ((i && append_text (s, to, ", ") < 0) || print_repr (s, to, v->seq.item[i]) < 0)
            return -1;
    return append_text (s, to, !tuple ? "]" : v->seq.count == 1 ? ",)" : ")");
}

static int print_dict (struct tpl_state *s, struct text_buffer *to, const struct tpl_dict *d)
{
    if (append_text (s, to, "{") < 0)
        return -1;
    for (size_t i = 0; i < d->count; i++)
        if ((i && append_text (s, to, ", ") < 0) || print_repr (s, to, d->pair[i].key) < 0
            || append_text (s, to, ": ") < 0 || print_repr (s, to, d->pair[i].value) < 0)
            return -1;
    return append_text (s, to, "}");
}

static int print_nested (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v)
{
    if (v->kind == TPL_STRING)
        return print_quoted (s, to, v->text);
    if (v->kind == TPL_LIST || v->kind == TPL_TUPLE)
        return print_items (s, to, v);
    if (v->kind == TPL_DICT)
        return print_dict (s, to, v->dict);
    return tpl_print (s, to, v);
}

static int print_repr (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v)
{
    int rc;

    if (v->kind == TPL_UNDEFINED)
        return append_text (s, to, "Undefined");
    if (tpl_enter (s) < 0)
        return -1;
    rc = print_nested (s, to, v);
    tpl_leave (s);
    return rc;
}

int tpl_print (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v)
{
    char text[32];

    switch (v->kind) {
    case TPL_UNDEFINED:
        return 0;
    case TPL_NONE:
        return append_text (s, to, "None");
    case TPL_BOOL:
        return append_text (s, to, v->flag ? "True" : "False");
    case TPL_INT:
        snprintf (text, sizeof (text), "%" PRId64, v->integer);
        return append_text (s, to, text);
    case TPL_FLOAT:
        return tpl_print_float (s, to, v->number);
    case TPL_STRING:
        return tpl_append (s, to, v->text.data, v->text.size);
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_DICT:
        return print_repr (s, to, v);
    default:
        tpl_refuse (s, "the text of %s is not supported", tpl_kind_name (v));
        return -1;
    }
}

int tpl_text_of (struct tpl_state *s, const struct tpl_value *v, struct tpl_text *to)
{
    struct text_buffer b = { .data = NULL };
    const struct tpl_value *copy;

    if (v->kind == TPL_STRING) {
        *to = v->text;
        return 0;
    }
    if (tpl_print (s, &b, v) < 0) {
        text_buffer_clear (&b);
        return -1;
    }
    copy = tpl_string_take (s, &b);
    if (!copy)
        return -1;
    *to = copy->text;
    return 0;
}
