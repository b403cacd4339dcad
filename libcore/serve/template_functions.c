/* template_functions.c - filters, tests and methods: a row for each */

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_functions.h"
#include "libcore/text/utf8.h"

/* --- arguments --- */

/* An integer argument; 'missing' if it was not given. -1 on failure. */
static int get_integer (struct tpl_state *s, const struct tpl_value *v, int64_t missing,
                        int64_t *to)
{
    *to = missing;
    if (!v || tpl_is_integer (v, to))
        return 0;
    tpl_fail (s, "an argument is %s, not an integer", tpl_kind_name (v));
    return -1;
}

static const struct tpl_value *want_string (struct tpl_state *s, const struct tpl_value *v)
{
    return v->kind == TPL_STRING ? v
           : tpl_fail (s, "an argument is %s, not a string", tpl_kind_name (v));
}

/* An argument that counts as not given if it is none. */
static const struct tpl_value *unless_none (const struct tpl_value *v)
{
    return v && v->kind == TPL_NONE ? NULL : v;
}

/* --- filters of texts --- */

static const struct tpl_value *change_case (struct tpl_state *s, const struct tpl_value *v,
                                            enum tpl_case how)
{
    struct tpl_text t;

    return tpl_text_of (s, v, &t) < 0 ? NULL : tpl_text_case (s, t, how);
}

static const struct tpl_value *filter_upper (struct tpl_state *s, const struct tpl_args *v)
{
    return change_case (s, v->of[0], TPL_UPPER);
}

static const struct tpl_value *filter_lower (struct tpl_state *s, const struct tpl_args *v)
{
    return change_case (s, v->of[0], TPL_LOWER);
}

static const struct tpl_value *filter_capitalize (struct tpl_state *s, const struct tpl_args *v)
{
    return change_case (s, v->of[0], TPL_CAPITALIZE);
}

static const struct tpl_value *filter_title (struct tpl_state *s, const struct tpl_args *v)
{
    return change_case (s, v->of[0], TPL_TITLE_FILTER);
}

static const struct tpl_value *filter_trim (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_text t;

    return tpl_text_of (s, v->of[0], &t) < 0 ? NULL : tpl_text_trim (s, t, v->of[1], true, true);
}

static const struct tpl_value *filter_string (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_text t;

    return tpl_text_of (s, v->of[0], &t) < 0 ? NULL : tpl_string (s, t.data, t.size);
}

static const struct tpl_value *filter_replace (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_text t, from, by;
    int64_t count;

    if (tpl_text_of (s, v->of[0], &t) < 0 || tpl_text_of (s, v->of[1], &from) < 0
        || tpl_text_of (s, v->of[2], &by) < 0
        || get_integer (s, unless_none (v->of[3]), -1, &count) < 0)
        return NULL;
    return tpl_text_replace (s, t, from, by, count);
}

/* Append the lines of a text, indented. */
static int indent_lines (struct tpl_state *s, struct text_buffer *b, struct tpl_text t,
                         struct tpl_text by, bool first, bool blank)
{
    bool begin = true;

    while (begin || t.size) {
        const char *end = t.size ? memchr (t.data, '\n', t.size) : NULL;
        size_t size = end ? (size_t)(end - t.data) : t.size;
        bool indents = begin ? first : blank || size > 0;

        if ((indents && tpl_append (s, b, by.data, by.size) < 0)
            || tpl_append (s, b, t.data, size + (end != NULL)) < 0)
            return -1;
        begin = false;
        t.data += size + (end != NULL);
        t.size -= size + (end != NULL);
    }
    return 0;
}

/* A text whose lines end in other ways than "\n" would be split by Python. */
static bool has_other_lines (struct tpl_text t)
{
    for (size_t at = 0, n; at < t.size; at += n) {
        uint32_t c = utf8_decode (t.data + at, &n);

        if ((c >= 0xb && c <= 0xd) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028
            || c == 0x2029)
            return true;
    }
    return false;
}

static const struct tpl_value *filter_indent (struct tpl_state *s, const struct tpl_args *v)
{
    struct text_buffer b = { .data = NULL };
    const struct tpl_value *four = tpl_int (s, 4), *space = tpl_string (s, " ", 1), *width;
    struct tpl_text t;

    if (!four || !space || !want_string (s, v->of[0]))
        return NULL;
    t = v->of[0]->text;
    if (tpl_work (s, t.size) < 0)
        return NULL;
    width = v->of[1] ? v->of[1] : four;
    if (width->kind != TPL_STRING)
        width = tpl_binary (s, (struct tpl_text){ "*", 1 }, space, width);
    if (!width)
        return NULL;
    if (has_other_lines (t) || (t.size && t.data[t.size - 1] == '\n'))
        return tpl_refuse (s, "indent of a text with such ends of lines is not supported");
    if (indent_lines (s, &b, t, width->text, v->of[2] && tpl_truth (v->of[2]),
                      v->of[3] && tpl_truth (v->of[3])) < 0) {
        text_buffer_clear (&b);
        return NULL;
    }
    return tpl_string_take (s, &b);
}

static const struct tpl_value *filter_safe (struct tpl_state *s, const struct tpl_args *v)
{
    return filter_string (s, v);
}

static const struct tpl_value *filter_tojson (struct tpl_state *s, const struct tpl_args *v)
{
    struct text_buffer b = { .data = NULL };
    struct tpl_json_form form = { .ascii = v->of[1] && tpl_truth (v->of[1]),
                                  .sorted = v->of[4] && tpl_truth (v->of[4]) };

    if (unless_none (v->of[3]))
        return tpl_refuse (s, "tojson: separators are not supported");
    if (get_integer (s, unless_none (v->of[2]), -1, &form.indent) < 0)
        return NULL;
    if (unless_none (v->of[2]) && (form.indent < 0 || form.indent > 1000))
        return tpl_refuse (s, "tojson: an indent of %lld is not supported",
                           (long long)form.indent);
    if (tpl_print_json (s, &b, v->of[0], &form) < 0) {
        text_buffer_clear (&b);
        return NULL;
    }
    return tpl_string_take (s, &b);
}

/* --- filters of numbers and defaults --- */

static const struct tpl_value *filter_default (struct tpl_state *s, const struct tpl_args *v)
{
    bool or_false = v->of[2] && tpl_truth (v->of[2]);
    bool missing = v->of[0]->kind == TPL_UNDEFINED || (or_false && !tpl_truth (v->of[0]));

    return !missing ? v->of[0] : v->of[1] ? v->of[1] : tpl_string (s, "", 0);
}

/* A decimal integer with blanks around it, as int() reads. */
static bool read_integer (const struct tpl_value *v, int64_t *to)
{
    char copy[32], *end;
    size_t from = 0, size = v->text.size;

    while (from < size && tpl_is_space ((unsigned char)v->text.data[from]))
        from++;
    while (size > from && tpl_is_space ((unsigned char)v->text.data[size - 1]))
        size--;
    if (size - from == 0 || size - from > 18)
        return false;
    memcpy (copy, v->text.data + from, size - from);
    copy[size - from] = '\0';
    *to = strtoll (copy, &end, 10);
    return *end == '\0' && copy[0] != ' ';
}

static const struct tpl_value *int_of_text (struct tpl_state *s, const struct tpl_value *v,
                                            const struct tpl_value *missing)
{
    int64_t i = 0;

    if (read_integer (v, &i))
        return tpl_int (s, i);
    for (size_t k = 0; k < v->text.size; k++)
        if ((v->text.data[k] >= '0' && v->text.data[k] <= '9') || (v->text.data[k] & 0x80))
            return tpl_refuse (s, "int of such a text is not supported");
    for (size_t k = 0; k + 3 <= v->text.size; k++)
        if (strncasecmp (v->text.data + k, "inf", 3) == 0
            || strncasecmp (v->text.data + k, "nan", 3) == 0)
            return tpl_refuse (s, "int of such a text is not supported");
    return missing;
}

static const struct tpl_value *filter_int (struct tpl_state *s, const struct tpl_args *v)
{
    const struct tpl_value *missing = v->of[1] ? v->of[1] : tpl_int (s, 0);
    int64_t i = 0;

    if (!missing)
        return NULL;
    if (tpl_is_integer (v->of[0], &i))
        return tpl_int (s, i);
    if (v->of[0]->kind == TPL_FLOAT)
        return fabs (v->of[0]->number) < 9e18 ? tpl_int (s, (int64_t)v->of[0]->number)
               : tpl_refuse (s, "int of a float beyond 64 bits is not supported");
    if (v->of[0]->kind == TPL_STRING)
        return int_of_text (s, v->of[0], missing);
    if (v->of[0]->kind == TPL_UNDEFINED)
        return tpl_fail (s, "int of an undefined value");
    return missing;
}

/* --- filters of sequences --- */

/* The items of a value for map, selectattr and rejectattr.  A false value of any kind has none. */
static const struct tpl_value *items_if_true (struct tpl_state *s, const struct tpl_value *v)
{
    return tpl_truth (v) ? tpl_iterate (s, v) : tpl_seq (s, TPL_LIST, 0);
}

static const struct tpl_value *filter_length (struct tpl_state *s, const struct tpl_args *v)
{
    int64_t n;

    return tpl_length (s, v->of[0], &n) < 0 ? NULL : tpl_int (s, n);
}

static const struct tpl_value *filter_first (struct tpl_state *s, const struct tpl_args *v)
{
    const struct tpl_value *items = tpl_iterate (s, v->of[0]);

    return items && items->seq.count == 0 ? &tpl_undefined : items ? items->seq.item[0] : NULL;
}

static const struct tpl_value *filter_last (struct tpl_state *s, const struct tpl_args *v)
{
    const struct tpl_value *items;

    if (v->of[0]->kind == TPL_GENERATOR)
        return tpl_fail (s, "last of a generator: make it a list");
    items = tpl_iterate (s, v->of[0]);
    return items && items->seq.count == 0 ? &tpl_undefined
           : items ? items->seq.item[items->seq.count - 1] : NULL;
}

static const struct tpl_value *filter_list (struct tpl_state *s, const struct tpl_args *v)
{
    const struct tpl_value *items = tpl_iterate (s, v->of[0]);
    struct tpl_value *to = items ? tpl_seq (s, TPL_LIST, items->seq.count) : NULL;

    if (to && items->seq.count)
        memcpy (to->seq.item, items->seq.item, items->seq.count * sizeof (items->seq.item[0]));
    return to;
}

static const struct tpl_value *filter_reverse (struct tpl_state *s, const struct tpl_args *v)
{
    const struct tpl_value *items;
    struct tpl_value *to;

    if (v->of[0]->kind == TPL_STRING)
        return tpl_text_reverse (s, v->of[0]->text);
    items = tpl_iterate (s, v->of[0]);
    to = items ? tpl_seq (s, TPL_GENERATOR, items->seq.count) : NULL;
    for (size_t i = 0; to && i < items->seq.count; i++)
        to->seq.item[i] = items->seq.item[items->seq.count - 1 - i];
    return to;
}

/* x.a.b of the filters that take an attribute, "a.b" */
static const struct tpl_value *path_of (struct tpl_state *s, const struct tpl_value *v,
                                        const struct tpl_value *path)
{
    size_t at = 0;

    if (tpl_is_number (path))
        return tpl_item (s, v, path);
    if (path->kind != TPL_STRING)
        return tpl_refuse (s, "%s as an attribute is not supported", tpl_kind_name (path));
    while (v && at <= path->text.size) {
        const char *dot = memchr (path->text.data + at, '.', path->text.size - at);
        size_t end = dot ? (size_t)(dot - path->text.data) : path->text.size;
        struct tpl_value name = { .kind = TPL_STRING,
                                  .text = { path->text.data + at, end - at } };

        if (end > at && name.text.data[0] >= '0' && name.text.data[0] <= '9')
            return tpl_refuse (s, "an attribute that is a number is not supported");
        v = tpl_item (s, v, &name);
        at = end + 1;
    }
    return v;
}

static const struct tpl_value *filter_map (struct tpl_state *s, const struct tpl_args *v)
{
    const struct tpl_value *items = items_if_true (s, v->of[0]);
    struct tpl_value *to = items ? tpl_seq (s, TPL_GENERATOR, items->seq.count) : NULL;

    for (size_t i = 0; to && i < items->seq.count; i++) {
        const struct tpl_value *found = path_of (s, items->seq.item[i], v->of[1]);

        to->seq.item[i] = found && found->kind == TPL_UNDEFINED && v->of[2] ? v->of[2] : found;
        if (!found || tpl_work (s, 0) < 0)
            return NULL;
    }
    return to;
}

/* Returns the value true if an item's attribute passes the test, else false.  NULL on failure. */
static const struct tpl_value *item_passes (struct tpl_state *s, const struct tpl_args *v,
                                            const struct tpl_function *test,
                                            const struct tpl_value *item)
{
    const struct tpl_args args = { { path_of (s, item, v->of[1]), v->of[3] } };

    if (!args.of[0] || tpl_work (s, 0) < 0)
        return NULL;
    return test ? test->call (s, &args) : tpl_bool (tpl_truth (args.of[0]));
}

static const struct tpl_value *select_items (struct tpl_state *s, const struct tpl_args *v,
                                             bool wanted)
{
    const struct tpl_value *items = items_if_true (s, v->of[0]);
    struct tpl_value *to = items ? tpl_seq (s, TPL_GENERATOR, items->seq.count) : NULL;
    const struct tpl_function *test = NULL;

    if (!to)
        return NULL;
    if (v->of[2]) {
        test = v->of[2]->kind == TPL_STRING ? tpl_find_test (v->of[2]->text) : NULL;
        if (!test || (test->required && !v->of[3]) || (!test->required && v->of[3]))
            return tpl_refuse (s, "selectattr, rejectattr: such a test is not supported");
    }
    to->seq.count = 0;
    for (size_t i = 0; i < items->seq.count; i++) {
        const struct tpl_value *passes = item_passes (s, v, test, items->seq.item[i]);

        if (!passes)
            return NULL;
        if (tpl_truth (passes) == wanted)
            to->seq.item[to->seq.count++] = items->seq.item[i];
    }
    return to;
}

static const struct tpl_value *filter_selectattr (struct tpl_state *s, const struct tpl_args *v)
{
    return select_items (s, v, true);
}

static const struct tpl_value *filter_rejectattr (struct tpl_state *s, const struct tpl_args *v)
{
    return select_items (s, v, false);
}

static int join (struct tpl_state *s, struct text_buffer *b, const struct tpl_value *items,
                 struct tpl_text by, const struct tpl_value *attribute)
{
    for (size_t i = 0; i < items->seq.count; i++) {
        const struct tpl_value *item = items->seq.item[i];

        if (attribute)
            item = path_of (s, item, attribute);
        if (!item || (i && tpl_append (s, b, by.data, by.size) < 0) || tpl_work (s, 0) < 0
            || tpl_print (s, b, item) < 0)
            return -1;
    }
    return 0;
}

static const struct tpl_value *filter_join (struct tpl_state *s, const struct tpl_args *v)
{
    struct text_buffer b = { .data = NULL };
    const struct tpl_value *items = tpl_iterate (s, v->of[0]);
    struct tpl_text by = { "", 0 };

    if (!items || (v->of[1] && tpl_text_of (s, v->of[1], &by) < 0)
        || join (s, &b, items, by, v->of[2]) < 0) {
        text_buffer_clear (&b);
        return NULL;
    }
    return tpl_string_take (s, &b);
}

/* --- dicts --- */

/* The pairs of a dict, as tuples. */
static struct tpl_value *pairs_of (struct tpl_state *s, const struct tpl_value *v,
                                   enum tpl_kind kind)
{
    struct tpl_value *to;

    if (v->kind != TPL_DICT)
        return (tpl_fail (s, "the items of %s", tpl_kind_name (v)), NULL);
    to = tpl_seq (s, kind, v->dict->count);
    for (size_t i = 0; to && i < v->dict->count; i++) {
        struct tpl_value *pair = tpl_seq (s, TPL_TUPLE, 2);

        if (!pair)
            return NULL;
        pair->seq.item[0] = v->dict->pair[i].key;
        pair->seq.item[1] = v->dict->pair[i].value;
        to->seq.item[i] = pair;
    }
    return to;
}

static const struct tpl_value *filter_items (struct tpl_state *s, const struct tpl_args *v)
{
    if (v->of[0]->kind == TPL_UNDEFINED)
        return tpl_seq (s, TPL_GENERATOR, 0);
    return pairs_of (s, v->of[0], TPL_GENERATOR);
}

/* Order of the pairs by item 'by', as the filter dictsort has it. -1 on failure. */
static int compare_pairs (struct tpl_state *s, const struct tpl_value *a,
                          const struct tpl_value *b, int by, bool cased, int *order)
{
    const struct tpl_value *x = a->seq.item[by], *y = b->seq.item[by];

    if (!cased && x->kind == TPL_STRING)
        x = tpl_text_case (s, x->text, TPL_LOWER);
    if (!cased && y->kind == TPL_STRING)
        y = tpl_text_case (s, y->text, TPL_LOWER);
    return x && y ? tpl_compare (s, x, y, order) : -1;
}

static const struct tpl_value *filter_dictsort (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_value *to = pairs_of (s, v->of[0], TPL_LIST);
    bool cased = v->of[1] && tpl_truth (v->of[1]), reverse = v->of[3] && tpl_truth (v->of[3]);
    int by = v->of[2] && tpl_is_text (v->of[2], "value");

    if (v->of[2] && !by && !tpl_is_text (v->of[2], "key"))
        return tpl_fail (s, "dictsort: by is \"key\" or \"value\"");
    for (size_t i = 1; to && i < to->seq.count; i++)
        for (size_t k = i; k > 0; k--) {
            const struct tpl_value **pair = &to->seq.item[k - 1], *swap = pair[0];
            int order = 0;

            if (tpl_work (s, 0) < 0 || compare_pairs (s, pair[0], pair[1], by, cased, &order) < 0)
                return NULL;
            if (reverse ? order >= 0 : order <= 0)
                break;
            pair[0] = pair[1];
            pair[1] = swap;
        }
    return to;
}

/* --- tests --- */

static const struct tpl_value *test_defined (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind != TPL_UNDEFINED);
}

static const struct tpl_value *test_undefined (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_UNDEFINED);
}

static const struct tpl_value *test_none (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_NONE);
}

static const struct tpl_value *test_string (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_STRING);
}

static const struct tpl_value *test_mapping (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_DICT);
}

static const struct tpl_value *test_iterable (struct tpl_state *s, const struct tpl_args *v)
{
    if (v->of[0]->kind == TPL_FUNCTION || v->of[0]->kind == TPL_NAMESPACE)
        return tpl_refuse (s, "iterable of %s is not supported", tpl_kind_name (v->of[0]));
    return tpl_bool (v->of[0]->kind == TPL_UNDEFINED || v->of[0]->kind == TPL_LOOP
                     || (v->of[0]->kind >= TPL_STRING && v->of[0]->kind <= TPL_DICT));
}

static const struct tpl_value *test_sequence (struct tpl_state *s, const struct tpl_args *v)
{
    enum tpl_kind kind = v->of[0]->kind;

    if (kind == TPL_FUNCTION || kind == TPL_NAMESPACE || kind == TPL_UNDEFINED || kind == TPL_LOOP)
        return tpl_refuse (s, "sequence of %s is not supported", tpl_kind_name (v->of[0]));
    return tpl_bool (kind == TPL_STRING || kind == TPL_LIST || kind == TPL_TUPLE
                     || kind == TPL_RANGE || kind == TPL_DICT);
}

static const struct tpl_value *test_number (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (tpl_is_number (v->of[0]));
}

static const struct tpl_value *test_integer (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_INT);
}

static const struct tpl_value *test_float (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_FLOAT);
}

static const struct tpl_value *test_boolean (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_BOOL);
}

static const struct tpl_value *test_true (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_BOOL && v->of[0]->flag);
}

static const struct tpl_value *test_false (struct tpl_state *s, const struct tpl_args *v)
{
    (void)s;
    return tpl_bool (v->of[0]->kind == TPL_BOOL && !v->of[0]->flag);
}

static const struct tpl_value *test_callable (struct tpl_state *s, const struct tpl_args *v)
{
    enum tpl_kind kind = v->of[0]->kind;

    if (kind == TPL_LOOP || kind == TPL_NAMESPACE || kind == TPL_UNDEFINED)
        return tpl_refuse (s, "callable of %s is not supported", tpl_kind_name (v->of[0]));
    return tpl_bool (v->of[0]->kind == TPL_FUNCTION || v->of[0]->kind == TPL_MACRO);
}

static const struct tpl_value *from_answer (int answer, bool wanted)
{
    return answer < 0 ? NULL : tpl_bool ((answer != 0) == wanted);
}

static const struct tpl_value *test_eq (struct tpl_state *s, const struct tpl_args *v)
{
    return from_answer (tpl_equal (s, v->of[0], v->of[1]), true);
}

static const struct tpl_value *test_ne (struct tpl_state *s, const struct tpl_args *v)
{
    return from_answer (tpl_equal (s, v->of[0], v->of[1]), false);
}

static const struct tpl_value *test_in (struct tpl_state *s, const struct tpl_args *v)
{
    return from_answer (tpl_contains (s, v->of[1], v->of[0]), true);
}

static const struct tpl_value *test_rest (struct tpl_state *s, const struct tpl_value *v,
                                          int64_t wanted)
{
    int64_t i = 0;

    if (!tpl_is_integer (v, &i))
        return tpl_refuse (s, "odd or even of %s is not supported", tpl_kind_name (v));
    return tpl_bool ((i & 1) == wanted);
}

static const struct tpl_value *test_odd (struct tpl_state *s, const struct tpl_args *v)
{
    return test_rest (s, v->of[0], 1);
}

static const struct tpl_value *test_even (struct tpl_state *s, const struct tpl_args *v)
{
    return test_rest (s, v->of[0], 0);
}

/* --- methods --- */

/* Check that a method of strings, or of dicts, has a value of that kind. */
static int check_method (struct tpl_state *s, const struct tpl_args *v, enum tpl_kind kind)
{
    if (v->of[0]->kind == kind)
        return 0;
    tpl_fail (s, "a method of %s on %s", kind == TPL_STRING ? "strings" : "dicts",
              tpl_kind_name (v->of[0]));
    return -1;
}

static const struct tpl_value *strip (struct tpl_state *s, const struct tpl_args *v, bool left,
                                      bool right)
{
    return check_method (s, v, TPL_STRING) < 0 ? NULL
           : tpl_text_trim (s, v->of[0]->text, v->of[1], left, right);
}

static const struct tpl_value *method_strip (struct tpl_state *s, const struct tpl_args *v)
{
    return strip (s, v, true, true);
}

static const struct tpl_value *method_lstrip (struct tpl_state *s, const struct tpl_args *v)
{
    return strip (s, v, true, false);
}

static const struct tpl_value *method_rstrip (struct tpl_state *s, const struct tpl_args *v)
{
    return strip (s, v, false, true);
}

static const struct tpl_value *method_upper (struct tpl_state *s, const struct tpl_args *v)
{
    return check_method (s, v, TPL_STRING) < 0 ? NULL
           : tpl_text_case (s, v->of[0]->text, TPL_UPPER);
}

static const struct tpl_value *method_lower (struct tpl_state *s, const struct tpl_args *v)
{
    return check_method (s, v, TPL_STRING) < 0 ? NULL
           : tpl_text_case (s, v->of[0]->text, TPL_LOWER);
}

static const struct tpl_value *method_capitalize (struct tpl_state *s, const struct tpl_args *v)
{
    return check_method (s, v, TPL_STRING) < 0 ? NULL
           : tpl_text_case (s, v->of[0]->text, TPL_CAPITALIZE);
}

static const struct tpl_value *method_title (struct tpl_state *s, const struct tpl_args *v)
{
    return check_method (s, v, TPL_STRING) < 0 ? NULL
           : tpl_text_case (s, v->of[0]->text, TPL_TITLE_METHOD);
}

static const struct tpl_value *method_split (struct tpl_state *s, const struct tpl_args *v)
{
    bool blanks = !v->of[1] || v->of[1]->kind == TPL_NONE;
    int64_t count;

    if (check_method (s, v, TPL_STRING) < 0 || get_integer (s, v->of[2], -1, &count) < 0
        || (!blanks && !want_string (s, v->of[1])))
        return NULL;
    return tpl_text_split (s, v->of[0]->text, blanks ? NULL : &v->of[1]->text, count);
}

static const struct tpl_value *method_replace (struct tpl_state *s, const struct tpl_args *v)
{
    int64_t count;

    if (check_method (s, v, TPL_STRING) < 0 || !want_string (s, v->of[1])
        || !want_string (s, v->of[2]) || get_integer (s, v->of[3], -1, &count) < 0)
        return NULL;
    return tpl_text_replace (s, v->of[0]->text, v->of[1]->text, v->of[2]->text, count);
}

static const struct tpl_value *method_find (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_text t = v->of[0]->text;
    const char *found;

    if (check_method (s, v, TPL_STRING) < 0 || !want_string (s, v->of[1])
        || tpl_work (s, t.size) < 0)
        return NULL;
    found = memmem (t.data, t.size, v->of[1]->text.data, v->of[1]->text.size);
    if (!found)
        return tpl_int (s, -1);
    t.size = (size_t)(found - t.data);
    return tpl_int (s, (int64_t)tpl_characters (t));
}

static const struct tpl_value *method_startswith (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_text t = v->of[0]->text;
    size_t n;

    if (check_method (s, v, TPL_STRING) < 0 || !want_string (s, v->of[1]))
        return NULL;
    n = v->of[1]->text.size;
    return tpl_bool (t.size >= n && memcmp (t.data, v->of[1]->text.data, n) == 0);
}

static const struct tpl_value *method_endswith (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_text t = v->of[0]->text;
    size_t n;

    if (check_method (s, v, TPL_STRING) < 0 || !want_string (s, v->of[1]))
        return NULL;
    n = v->of[1]->text.size;
    return tpl_bool (t.size >= n && memcmp (t.data + t.size - n, v->of[1]->text.data, n) == 0);
}

static const struct tpl_value *method_join (struct tpl_state *s, const struct tpl_args *v)
{
    struct text_buffer b = { .data = NULL };
    const struct tpl_value *items;

    if (check_method (s, v, TPL_STRING) < 0)
        return NULL;
    items = tpl_iterate (s, v->of[1]);
    for (size_t i = 0; items && i < items->seq.count; i++)
        if (!want_string (s, items->seq.item[i]))
            return NULL;
    if (!items || join (s, &b, items, v->of[0]->text, NULL) < 0) {
        text_buffer_clear (&b);
        return NULL;
    }
    return tpl_string_take (s, &b);
}

static const struct tpl_value *method_items (struct tpl_state *s, const struct tpl_args *v)
{
    return check_method (s, v, TPL_DICT) < 0 ? NULL : pairs_of (s, v->of[0], TPL_VIEW);
}

static const struct tpl_value *method_keys (struct tpl_state *s, const struct tpl_args *v)
{
    return check_method (s, v, TPL_DICT) < 0 ? NULL : tpl_iterate (s, v->of[0]);
}

static const struct tpl_value *method_values (struct tpl_state *s, const struct tpl_args *v)
{
    struct tpl_value *to;

    if (check_method (s, v, TPL_DICT) < 0)
        return NULL;
    to = tpl_seq (s, TPL_VIEW, v->of[0]->dict->count);
    for (size_t i = 0; to && i < v->of[0]->dict->count; i++)
        to->seq.item[i] = v->of[0]->dict->pair[i].value;
    return to;
}

static const struct tpl_value *method_get (struct tpl_state *s, const struct tpl_args *v)
{
    const struct tpl_value *found;
    bool failed = false;

    if (check_method (s, v, TPL_DICT) < 0)
        return NULL;
    found = tpl_dict_get (s, v->of[0]->dict, v->of[1], &failed);
    return failed ? NULL : found ? found : v->of[2] ? v->of[2] : &tpl_none;
}

/* --- tables --- */

static const struct tpl_function filters[] = {
    { "capitalize", filter_capitalize, 0, { NULL } },
    { "count", filter_length, 0, { NULL } },
    { "d", filter_default, 0, { "default_value", "boolean" } },
    { "default", filter_default, 0, { "default_value", "boolean" } },
    { "dictsort", filter_dictsort, 0, { "case_sensitive", "by", "reverse" } },
    { "first", filter_first, 0, { NULL } },
    { "indent", filter_indent, 0, { "width", "first", "blank" } },
    { "int", filter_int, 0, { "default" } },
    { "items", filter_items, 0, { NULL } },
    { "join", filter_join, 0, { "d", "attribute" } },
    { "last", filter_last, 0, { NULL } },
    { "length", filter_length, 0, { NULL } },
    { "list", filter_list, 0, { NULL } },
    { "lower", filter_lower, 0, { NULL } },
    { "map", filter_map, 1, { "attribute", "default" } },
    { "rejectattr", filter_rejectattr, 1, { "attribute", "test", "value" } },
    { "replace", filter_replace, 2, { "old", "new", "count" } },
    { "reverse", filter_reverse, 0, { NULL } },
    { "safe", filter_safe, 0, { NULL } },
    { "selectattr", filter_selectattr, 1, { "attribute", "test", "value" } },
    { "string", filter_string, 0, { NULL } },
    { "title", filter_title, 0, { NULL } },
    { "tojson", filter_tojson, 0, { "ensure_ascii", "indent", "separators", "sort_keys" } },
    { "trim", filter_trim, 0, { "chars" } },
    { "upper", filter_upper, 0, { NULL } },
};

static const struct tpl_function tests[] = {
    { "boolean", test_boolean, 0, { NULL } },
    { "callable", test_callable, 0, { NULL } },
    { "defined", test_defined, 0, { NULL } },
    { "eq", test_eq, 1, { "other" } },
    { "equalto", test_eq, 1, { "other" } },
    { "even", test_even, 0, { NULL } },
    { "false", test_false, 0, { NULL } },
    { "float", test_float, 0, { NULL } },
    { "in", test_in, 1, { "seq" } },
    { "integer", test_integer, 0, { NULL } },
    { "iterable", test_iterable, 0, { NULL } },
    { "mapping", test_mapping, 0, { NULL } },
    { "ne", test_ne, 1, { "other" } },
    { "none", test_none, 0, { NULL } },
    { "number", test_number, 0, { NULL } },
    { "odd", test_odd, 0, { NULL } },
    { "sequence", test_sequence, 0, { NULL } },
    { "string", test_string, 0, { NULL } },
    { "true", test_true, 0, { NULL } },
    { "undefined", test_undefined, 0, { NULL } },
};

static const struct tpl_function methods[] = {
    { "capitalize", method_capitalize, 0, { NULL } },
    { "endswith", method_endswith, 1, { "suffix" } },
    { "find", method_find, 1, { "sub" } },
    { "get", method_get, 1, { "key", "default" } },
    { "items", method_items, 0, { NULL } },
    { "join", method_join, 1, { "iterable" } },
    { "keys", method_keys, 0, { NULL } },
    { "lower", method_lower, 0, { NULL } },
    { "lstrip", method_lstrip, 0, { "chars" } },
    { "replace", method_replace, 2, { "old", "new", "count" } },
    { "rstrip", method_rstrip, 0, { "chars" } },
    { "split", method_split, 0, { "sep", "maxsplit" } },
    { "startswith", method_startswith, 1, { "prefix" } },
    { "strip", method_strip, 0, { "chars" } },
    { "title", method_title, 0, { NULL } },
    { "upper", method_upper, 0, { NULL } },
    { "values", method_values, 0, { NULL } },
};

static const struct tpl_function *find_row (const struct tpl_function *rows, size_t count,
                                            struct tpl_text name)
{
    for (size_t i = 0; i < count; i++)
        if (tpl_same (name, (struct tpl_text){ rows[i].name, strlen (rows[i].name) }))
            return &rows[i];
    return NULL;
}

const struct tpl_function *tpl_find_filter (struct tpl_text name)
{
    return find_row (filters, sizeof (filters) / sizeof (filters[0]), name);
}

const struct tpl_function *tpl_find_test (struct tpl_text name)
{
    return find_row (tests, sizeof (tests) / sizeof (tests[0]), name);
}

const struct tpl_function *tpl_find_method (struct tpl_text name)
{
    return find_row (methods, sizeof (methods) / sizeof (methods[0]), name);
}
