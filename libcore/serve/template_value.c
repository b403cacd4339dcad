/* template_value.c - making values, what they have in common, and their comparison */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_value.h"
#include "libcore/text/utf8.h"

const struct tpl_value tpl_undefined = { .kind = TPL_UNDEFINED }, tpl_none = { .kind = TPL_NONE },
                       tpl_true = { .kind = TPL_BOOL, .flag = true },
                       tpl_false = { .kind = TPL_BOOL, .flag = false };

/* --- errors and limits --- */

static void set_error (struct tpl_state *s, int errnum, const char *fmt, va_list ap)
{
    char text[MG_ERROR_MAX];

    vsnprintf (text, sizeof (text), fmt, ap);
    mg_error_set (s->err, errnum, "%s", text);
}

const struct tpl_value *tpl_fail (struct tpl_state *s, const char *fmt, ...)
{
    va_list ap;

    va_start (ap, fmt);
    set_error (s, EINVAL, fmt, ap);
    va_end (ap);
    return NULL;
}

const struct tpl_value *tpl_refuse (struct tpl_state *s, const char *fmt, ...)
{
    va_list ap;

    va_start (ap, fmt);
    set_error (s, ENOTSUP, fmt, ap);
    va_end (ap);
    return NULL;
}

int tpl_work (struct tpl_state *s, size_t bytes)
{
    size_t steps = 1 + bytes / 1024;

    if (s->steps < 0 || steps > (size_t)s->steps)
        return mg_error_set (s->err, E2BIG, "the template needs more than %d steps",
                             TEMPLATE_STEPS_MAX);
    s->steps -= (long)steps;
    return 0;
}

int tpl_enter (struct tpl_state *s)
{
    if (s->depth >= TEMPLATE_CALLS_MAX)
        return mg_error_set (s->err, E2BIG, "blocks, calls or values nested more than %d deep",
                             TEMPLATE_CALLS_MAX);
    if (tpl_work (s, 0) < 0)
        return -1;
    s->depth++;
    return 0;
}

void tpl_leave (struct tpl_state *s)
{
    s->depth--;
}

/* --- making values --- */

struct tpl_value *tpl_new (struct tpl_state *s, enum tpl_kind kind)
{
    struct tpl_value *v = tpl_arena_take (&s->arena, sizeof (*v), s->err);

    if (v)
        v->kind = kind;
    return v;
}

const struct tpl_value *tpl_bool (bool flag)
{
    return flag ? &tpl_true : &tpl_false;
}

const struct tpl_value *tpl_int (struct tpl_state *s, int64_t i)
{
    struct tpl_value *v = tpl_new (s, TPL_INT);

    if (v)
        v->integer = i;
    return v;
}

const struct tpl_value *tpl_float (struct tpl_state *s, double f)
{
    struct tpl_value *v = tpl_new (s, TPL_FLOAT);

    if (v)
        v->number = f;
    return v;
}

const struct tpl_value *tpl_string (struct tpl_state *s, const char *data, size_t size)
{
    struct tpl_value *v = tpl_new (s, TPL_STRING);

    if (v)
        v->text = (struct tpl_text){ data, size };
    return v;
}

const struct tpl_value *tpl_string_copy (struct tpl_state *s, const char *data, size_t size)
{
    char *copy = tpl_arena_take (&s->arena, size + 1, s->err);

    if (!copy)
        return NULL;
    if (size)
        memcpy (copy, data, size);
    return tpl_string (s, copy, size);
}

const struct tpl_value *tpl_string_take (struct tpl_state *s, struct text_buffer *b)
{
    const struct tpl_value *v = tpl_string_copy (s, b->data, b->size);

    text_buffer_clear (b);
    return v;
}

struct tpl_value *tpl_seq (struct tpl_state *s, enum tpl_kind kind, size_t count)
{
    struct tpl_value *v = tpl_new (s, kind);

    if (!v)
        return NULL;
    v->seq.item = tpl_arena_take (&s->arena, count * sizeof (v->seq.item[0]), s->err);
    v->seq.count = count;
    return v->seq.item ? v : NULL;
}

struct tpl_value *tpl_dict_new (struct tpl_state *s, enum tpl_kind kind, size_t room)
{
    struct tpl_value *v = tpl_new (s, kind);
    struct tpl_dict *d = tpl_arena_take (&s->arena, sizeof (*d), s->err);

    if (!v || !d)
        return NULL;
    d->pair = tpl_arena_take (&s->arena, room * sizeof (d->pair[0]), s->err);
    d->capacity = room;
    v->dict = d;
    return d->pair ? v : NULL;
}

/* --- JSON --- */

static const struct tpl_value *from_array (struct tpl_state *s, const json_t *json)
{
    struct tpl_value *v = tpl_seq (s, TPL_LIST, json_array_size (json));

    for (size_t i = 0; v && i < json_array_size (json); i++) {
        v->seq.item[i] = tpl_from_json (s, json_array_get (json, i));
        if (!v->seq.item[i])
            return NULL;
    }
    return v;
}

static const struct tpl_value *from_object (struct tpl_state *s, const json_t *json)
{
    struct tpl_value *v = tpl_dict_new (s, TPL_DICT, json_object_size (json));
    const char *key;
    json_t *value;

    if (!v)
        return NULL;
    json_object_foreach ((json_t *)json, key, value) {
        struct tpl_pair *p = &v->dict->pair[v->dict->count];

        p->key = tpl_string (s, key, strlen (key));
        p->value = tpl_from_json (s, value);
        if (!p->key || !p->value)
            return NULL;
        v->dict->count++;
    }
    return v;
}

const struct tpl_value *tpl_from_json (struct tpl_state *s, const json_t *json)
{
    const struct tpl_value *v;

    switch (json_typeof (json)) {
    case JSON_NULL:
        return &tpl_none;
    case JSON_TRUE:
    case JSON_FALSE:
        return tpl_bool (json_is_true (json));
    case JSON_INTEGER:
        return tpl_int (s, json_integer_value (json));
    case JSON_REAL:
        return tpl_float (s, json_real_value (json));
    case JSON_STRING:
        return tpl_string (s, json_string_value (json), json_string_length (json));
    default:
        break;
    }
    /* The number of values is bounded by the memory, not by the steps of the template. */
    if (tpl_enter (s) < 0)
        return NULL;
    s->steps++;
    v = json_is_array (json) ? from_array (s, json) : from_object (s, json);
    tpl_leave (s);
    return v;
}

/* --- what values have in common --- */

const char *tpl_kind_name (const struct tpl_value *v)
{
    static const char *const names[] = {
        [TPL_UNDEFINED] = "an undefined value", [TPL_NONE] = "none", [TPL_BOOL] = "a boolean",
        [TPL_INT] = "an integer", [TPL_FLOAT] = "a float", [TPL_STRING] = "a string",
        [TPL_LIST] = "a list", [TPL_TUPLE] = "a tuple", [TPL_RANGE] = "a range",
        [TPL_VIEW] = "a view of a dict", [TPL_GENERATOR] = "a generator", [TPL_DICT] = "a dict",
        [TPL_NAMESPACE] = "a namespace", [TPL_MACRO] = "a macro",
        [TPL_FUNCTION] = "a function", [TPL_LOOP] = "loop"
    };

    return names[v->kind];
}

bool tpl_same (struct tpl_text a, struct tpl_text b)
{
    return a.size == b.size && memcmp (a.data, b.data, a.size) == 0;
}

bool tpl_is_text (const struct tpl_value *v, const char *text)
{
    return v->kind == TPL_STRING && v->text.size == strlen (text)
           && memcmp (v->text.data, text, v->text.size) == 0;
}

bool tpl_truth (const struct tpl_value *v)
{
    switch (v->kind) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        return false;
    case TPL_BOOL:
        return v->flag;
    case TPL_INT:
        return v->integer != 0;
    case TPL_FLOAT:
        return v->number != 0;
    case TPL_STRING:
        return v->text.size > 0;
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_RANGE:
    case TPL_VIEW:
        return v->seq.count > 0;
    case TPL_DICT:
        return v->dict->count > 0;
    default:
        return true;
    }
}

bool tpl_is_integer (const struct tpl_value *v, int64_t *to)
{
    if (v->kind == TPL_INT)
        *to = v->integer;
    else if (v->kind == TPL_BOOL)
        *to = v->flag;
    else
        return false;
    return true;
}

bool tpl_is_number (const struct tpl_value *v)
{
    return v->kind == TPL_INT || v->kind == TPL_BOOL || v->kind == TPL_FLOAT;
}

double tpl_number (const struct tpl_value *v)
{
    int64_t i = 0;

    return tpl_is_integer (v, &i) ? (double)i : v->number;
}

/* --- comparison --- */

/* -1, 0 or 1; 2: one is no number. A long double has all integers of 64 bits. */
static int compare_numbers (const struct tpl_value *a, const struct tpl_value *b)
{
    int64_t i = 0, j = 0;
    long double x = tpl_is_integer (a, &i) ? (long double)i : (long double)a->number;
    long double y = tpl_is_integer (b, &j) ? (long double)j : (long double)b->number;

    return isnan (x) || isnan (y) ? 2 : x < y ? -1 : x > y;
}

static int compare_texts (struct tpl_text a, struct tpl_text b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int order = n ? memcmp (a.data, b.data, n) : 0;

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int equal_seqs (struct tpl_state *s, const struct tpl_value *a, const struct tpl_value *b)
{
    if (a->seq.count != b->seq.count)
        return 0;
    if (tpl_work (s, 16 * a->seq.count) < 0)
        return -1;
    for (size_t i = 0; i < a->seq.count; i++) {
        int equal = tpl_equal (s, a->seq.item[i], b->seq.item[i]);

        if (equal <= 0)
            return equal;
    }
    return 1;
}

static int equal_dicts (struct tpl_state *s, const struct tpl_dict *a, const struct tpl_dict *b)
{
    if (a->count != b->count)
        return 0;
    for (size_t i = 0; i < a->count; i++) {
        bool failed = false;
        const struct tpl_value *other = tpl_dict_get (s, b, a->pair[i].key, &failed);
        int equal = failed ? -1 : other ? tpl_equal (s, a->pair[i].value, other) : 0;

        if (equal <= 0)
            return equal;
    }
    return 1;
}

static int equal_same_kind (struct tpl_state *s, const struct tpl_value *a,
                            const struct tpl_value *b)
{
    switch (a->kind) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        return 1;
    case TPL_STRING:
        return tpl_same (a->text, b->text);
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_RANGE:
        return equal_seqs (s, a, b);
    case TPL_DICT:
        return equal_dicts (s, a->dict, b->dict);
    case TPL_NAMESPACE:
        return a->dict == b->dict;
    case TPL_VIEW:
    case TPL_FUNCTION:
        tpl_refuse (s, "comparing %s is not supported", tpl_kind_name (a));
        return -1;
    default:
        return a == b;
    }
}

int tpl_equal (struct tpl_state *s, const struct tpl_value *a, const struct tpl_value *b)
{
    int equal;

    if (tpl_is_number (a) && tpl_is_number (b))
        return compare_numbers (a, b) == 0;
    if (a->kind != b->kind)
        return 0;
    if (tpl_enter (s) < 0 || (a->kind == TPL_STRING && tpl_work (s, a->text.size) < 0))
        return -1;
    equal = equal_same_kind (s, a, b);
    tpl_leave (s);
    return equal;
}

static int compare_seqs (struct tpl_state *s, const struct tpl_value *a, const struct tpl_value *b,
                         int *order)
{
    size_t n = a->seq.count < b->seq.count ? a->seq.count : b->seq.count;

    for (size_t i = 0; i < n; i++) {
        int equal = tpl_equal (s, a->seq.item[i], b->seq.item[i]);

        if (equal < 0)
            return -1;
        if (!equal)
            return tpl_compare (s, a->seq.item[i], b->seq.item[i], order);
    }
    *order = (a->seq.count > b->seq.count) - (a->seq.count < b->seq.count);
    return 0;
}

int tpl_compare (struct tpl_state *s, const struct tpl_value *a, const struct tpl_value *b,
                 int *order)
{
    int rc;

    if (tpl_is_number (a) && tpl_is_number (b)) {
        *order = compare_numbers (a, b);
        if (*order != 2)
            return 0;
        tpl_refuse (s, "comparing nan is not supported");
        return -1;
    }
    if (a->kind == TPL_STRING && b->kind == TPL_STRING) {
        *order = compare_texts (a->text, b->text);
        return tpl_work (s, a->text.size);
    }
    if (a->kind != b->kind || (a->kind != TPL_LIST && a->kind != TPL_TUPLE)) {
        tpl_fail (s, "%s and %s have no order", tpl_kind_name (a), tpl_kind_name (b));
        return -1;
    }
    if (tpl_enter (s) < 0)
        return -1;
    rc = compare_seqs (s, a, b, order);
    tpl_leave (s);
    return rc;
}

/* --- dicts and sequences --- */

/* Check that a value can be a key. */
static int check_key (struct tpl_state *s, const struct tpl_value *key)
{
    if (key->kind == TPL_NONE || key->kind == TPL_STRING || tpl_is_number (key))
        return 0;
    tpl_refuse (s, "%s as a key of a dict is not supported", tpl_kind_name (key));
    return -1;
}

static struct tpl_pair *find_pair (struct tpl_state *s, const struct tpl_dict *d,
                                   const struct tpl_value *key, bool *failed)
{
    for (size_t i = 0; i < d->count; i++) {
        int equal;

        if (key->kind == TPL_STRING && d->pair[i].key->kind == TPL_STRING) {
            if (tpl_same (key->text, d->pair[i].key->text))
                return &d->pair[i];
            continue;
        }
        equal = tpl_equal (s, d->pair[i].key, key);
        *failed |= equal < 0;
        if (equal)
            return equal < 0 ? NULL : &d->pair[i];
    }
    return NULL;
}

const struct tpl_value *tpl_dict_get (struct tpl_state *s, const struct tpl_dict *d,
                                      const struct tpl_value *key, bool *failed)
{
    struct tpl_pair *p;

    *failed = check_key (s, key) < 0 || tpl_work (s, 16 * d->count) < 0;
    p = *failed ? NULL : find_pair (s, d, key, failed);
    return p ? p->value : NULL;
}

static int grow_dict (struct tpl_state *s, struct tpl_dict *d)
{
    size_t capacity = d->capacity ? 2 * d->capacity : 4;
    struct tpl_pair *pair = tpl_arena_take (&s->arena, capacity * sizeof (*pair), s->err);

    if (!pair)
        return -1;
    if (d->count)
        memcpy (pair, d->pair, d->count * sizeof (*pair));
    d->pair = pair;
    d->capacity = capacity;
    return 0;
}

int tpl_dict_set (struct tpl_state *s, struct tpl_dict *d, const struct tpl_value *key,
                  const struct tpl_value *value)
{
    bool failed = check_key (s, key) < 0 || tpl_work (s, 16 * d->count) < 0;
    struct tpl_pair *p = failed ? NULL : find_pair (s, d, key, &failed);

    if (failed || (!p && d->count == d->capacity && grow_dict (s, d) < 0))
        return -1;
    if (!p) {
        p = &d->pair[d->count++];
        p->key = key;
    }
    p->value = value;
    return 0;
}

int tpl_contains (struct tpl_state *s, const struct tpl_value *in, const struct tpl_value *v)
{
    const struct tpl_value *items;
    bool failed = false;

    if (in->kind == TPL_STRING) {
        if (v->kind != TPL_STRING) {
            tpl_fail (s, "in: %s in a string", tpl_kind_name (v));
            return -1;
        }
        return tpl_work (s, in->text.size) < 0 ? -1
               : memmem (in->text.data, in->text.size, v->text.data, v->text.size) != NULL;
    }
    if (in->kind == TPL_DICT) {
        const struct tpl_value *found = tpl_dict_get (s, in->dict, v, &failed);

        return failed ? -1 : found != NULL;
    }
    if (in->kind == TPL_GENERATOR) {
        tpl_refuse (s, "in a generator is not supported: make it a list");
        return -1;
    }
    items = tpl_iterate (s, in);
    if (items && tpl_work (s, 16 * items->seq.count) < 0)
        return -1;
    for (size_t i = 0; items && i < items->seq.count; i++) {
        int equal = tpl_equal (s, items->seq.item[i], v);

        if (equal)
            return equal;
    }
    return items ? 0 : -1;
}

static const struct tpl_value *characters_of (struct tpl_state *s, struct tpl_text t)
{
    struct tpl_value *v = tpl_seq (s, TPL_LIST, tpl_characters (t));

    for (size_t i = 0, at = 0, n; v && at < t.size; i++, at += n) {
        utf8_decode (t.data + at, &n);
        v->seq.item[i] = tpl_string (s, t.data + at, n);
        if (!v->seq.item[i])
            return NULL;
    }
    return v;
}

static const struct tpl_value *keys_of (struct tpl_state *s, const struct tpl_dict *d)
{
    struct tpl_value *v = tpl_seq (s, TPL_VIEW, d->count);

    for (size_t i = 0; v && i < d->count; i++)
        v->seq.item[i] = d->pair[i].key;
    return v;
}

const struct tpl_value *tpl_iterate (struct tpl_state *s, const struct tpl_value *v)
{
    struct tpl_value *copy;

    switch (v->kind) {
    case TPL_UNDEFINED:
        return tpl_seq (s, TPL_LIST, 0);
    case TPL_STRING:
        return characters_of (s, v->text);
    case TPL_DICT:
        return keys_of (s, v->dict);
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_RANGE:
    case TPL_VIEW:
        return v;
    case TPL_GENERATOR:
        copy = tpl_seq (s, TPL_LIST, 0);
        if (copy) {
            copy->seq = v->seq;
            ((struct tpl_value *)v)->seq.count = 0;
        }
        return copy;
    default:
        return tpl_fail (s, "%s cannot be iterated", tpl_kind_name (v));
    }
}

int tpl_length (struct tpl_state *s, const struct tpl_value *v, int64_t *to)
{
    switch (v->kind) {
    case TPL_UNDEFINED:
        *to = 0;
        return 0;
    case TPL_STRING:
        *to = (int64_t)tpl_characters (v->text);
        return tpl_work (s, v->text.size);
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_RANGE:
    case TPL_VIEW:
        *to = (int64_t)v->seq.count;
        return 0;
    case TPL_DICT:
        *to = (int64_t)v->dict->count;
        return 0;
    default:
        tpl_fail (s, "%s has no length", tpl_kind_name (v));
        return -1;
    }
}

/* --- characters --- */

size_t tpl_characters (struct tpl_text t)
{
    size_t n = 0;

    for (size_t i = 0; i < t.size; i++)
        n += ((unsigned char)t.data[i] & 0xc0) != 0x80;
    return n;
}

size_t tpl_offset (struct tpl_text t, size_t n)
{
    size_t at = 0;

    while (at < t.size && (n > 0 || ((unsigned char)t.data[at] & 0xc0) == 0x80)) {
        n -= ((unsigned char)t.data[at] & 0xc0) != 0x80;
        at++;
    }
    while (at < t.size && ((unsigned char)t.data[at] & 0xc0) == 0x80)
        at++;
    return at;
}

bool tpl_is_space (uint32_t c)
{
    return utf8_is_space (c) || (c >= 0x1c && c <= 0x1f);
}

bool tpl_in_ranges (uint32_t c, const struct tpl_range *range, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (c >= range[i].from && c <= range[i].to)
            return true;
    return false;
}
