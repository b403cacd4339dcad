/* template_operators.c - arithmetic, attributes, items and slices */

#include <math.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_functions.h"

/* --- arithmetic --- */

static const struct tpl_value *overflow (struct tpl_state *s)
{
    return tpl_refuse (s, "integers beyond 64 bits are not supported");
}

static const struct tpl_value *int_power (struct tpl_state *s, int64_t a, int64_t b)
{
    int64_t result = 1;

    for (; b > 0; b >>= 1) {
        if ((b & 1) && __builtin_mul_overflow (result, a, &result))
            return overflow (s);
        if (b > 1 && __builtin_mul_overflow (a, a, &a))
            return overflow (s);
    }
    return tpl_int (s, result);
}

static const struct tpl_value *int_floor (struct tpl_state *s, int64_t a, int64_t b, bool rest)
{
    int64_t q, r;

    if (b == 0)
        return tpl_fail (s, "division by zero");
    if (b == -1)
        return rest ? tpl_int (s, 0) : a == INT64_MIN ? overflow (s) : tpl_int (s, -a);
    q = a / b;
    r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) {
        q--;
        r += b;
    }
    return tpl_int (s, rest ? r : q);
}

static const struct tpl_value *divide (struct tpl_state *s, const struct tpl_value *a,
                                       const struct tpl_value *b)
{
    static const int64_t exact = (int64_t)1 << 53;
    int64_t i = 0, j = 0;

    if (tpl_number (b) == 0)
        return tpl_fail (s, "division by zero");
    if ((tpl_is_integer (a, &i) && (i > exact || i < -exact))
        || (tpl_is_integer (b, &j) && (j > exact || j < -exact)))
        return tpl_refuse (s, "dividing integers beyond 53 bits is not supported");
    return tpl_float (s, tpl_number (a) / tpl_number (b));
}

static const struct tpl_value *binary_ints (struct tpl_state *s, char op, bool twice, int64_t a,
                                            int64_t b)
{
    int64_t result;
    bool over = false;

    switch (op) {
    case '+':
        over = __builtin_add_overflow (a, b, &result);
        break;
    case '-':
        over = __builtin_sub_overflow (a, b, &result);
        break;
    case '%':
    case '/':
        return int_floor (s, a, b, op == '%');
    default:
        if (twice)
            return int_power (s, a, b);
        over = __builtin_mul_overflow (a, b, &result);
    }
    return over ? overflow (s) : tpl_int (s, result);
}

/* Python's a // b and a % b of floats. */
static const struct tpl_value *float_floor (struct tpl_state *s, double a, double b, bool rest)
{
    double r, q;

    if (b == 0)
        return tpl_fail (s, "division by zero");
    r = fmod (a, b);
    q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) {
        r += b;
        q -= 1;
    } else if (r == 0)
        r = copysign (0, b);
    if (rest)
        return tpl_float (s, r);
    if (q == 0)
        return tpl_float (s, copysign (0, a / b));
    return tpl_float (s, q - floor (q) > 0.5 ? floor (q) + 1 : floor (q));
}

static const struct tpl_value *float_power (struct tpl_state *s, double a, double b)
{
    double result = pow (a, b);

    if (a == 0 && b < 0)
        return tpl_fail (s, "zero to a negative power");
    if (a < 0 && b != floor (b))
        return tpl_refuse (s, "complex numbers are not supported");
    if (isinf (result) && !isinf (a) && !isinf (b))
        return tpl_fail (s, "the power is too large");
    return tpl_float (s, result);
}

static const struct tpl_value *binary_floats (struct tpl_state *s, char op, bool twice, double a,
                                              double b)
{
    switch (op) {
    case '+':
        return tpl_float (s, a + b);
    case '-':
        return tpl_float (s, a - b);
    case '%':
    case '/':
        return float_floor (s, a, b, op == '%');
    default:
        return twice ? float_power (s, a, b) : tpl_float (s, a * b);
    }
}

static const struct tpl_value *binary_numbers (struct tpl_state *s, char op, bool twice,
                                               const struct tpl_value *a,
                                               const struct tpl_value *b)
{
    int64_t i = 0, j = 0;

    if (op == '/' && !twice)
        return divide (s, a, b);
    if (tpl_is_integer (a, &i) && tpl_is_integer (b, &j) && !(op == '*' && twice && j < 0))
        return binary_ints (s, op, twice, i, j);
    return binary_floats (s, op, twice, tpl_number (a), tpl_number (b));
}

/* --- texts and sequences --- */

static const struct tpl_value *join_texts (struct tpl_state *s, struct tpl_text a,
                                           struct tpl_text b)
{
    char *to = tpl_arena_take (&s->arena, a.size + b.size + 1, s->err);

    if (!to)
        return NULL;
    memcpy (to, a.data, a.size);
    memcpy (to + a.size, b.data, b.size);
    return tpl_string (s, to, a.size + b.size);
}

static const struct tpl_value *join_seqs (struct tpl_state *s, const struct tpl_value *a,
                                          const struct tpl_value *b)
{
    struct tpl_value *v = tpl_seq (s, a->kind, a->seq.count + b->seq.count);

    if (!v)
        return NULL;
    memcpy (v->seq.item, a->seq.item, a->seq.count * sizeof (a->seq.item[0]));
    memcpy (v->seq.item + a->seq.count, b->seq.item, b->seq.count * sizeof (b->seq.item[0]));
    return v;
}

static const struct tpl_value *repeat_text (struct tpl_state *s, struct tpl_text t, int64_t times)
{
    size_t n = times < 0 || t.size == 0 ? 0 : (size_t)times;
    char *to;

    if (n > TEMPLATE_OUTPUT_MAX / (t.size + 1))
        return tpl_refuse (s, "* makes a text of more than %d bytes", TEMPLATE_OUTPUT_MAX);
    to = tpl_arena_take (&s->arena, n * t.size + 1, s->err);
    for (size_t i = 0; to && i < n; i++)
        memcpy (to + i * t.size, t.data, t.size);
    return to && tpl_work (s, n * (t.size + 16)) == 0 ? tpl_string (s, to, n * t.size) : NULL;
}

static const struct tpl_value *repeat_seq (struct tpl_state *s, const struct tpl_value *a,
                                           int64_t times)
{
    size_t n = times < 0 || a->seq.count == 0 ? 0 : (size_t)times;
    struct tpl_value *v;

    if (n > TEMPLATE_MEMORY_MAX / 8 / (a->seq.count + 1))
        return tpl_refuse (s, "* makes a list that is too long");
    v = tpl_seq (s, a->kind, n * a->seq.count);
    for (size_t i = 0; v && i < n; i++)
        memcpy (v->seq.item + i * a->seq.count, a->seq.item,
                a->seq.count * sizeof (a->seq.item[0]));
    return v;
}

static bool is_joinable (const struct tpl_value *v)
{
    return v->kind == TPL_LIST || v->kind == TPL_TUPLE;
}

static const struct tpl_value *repeat (struct tpl_state *s, const struct tpl_value *a,
                                       int64_t times)
{
    return a->kind == TPL_STRING ? repeat_text (s, a->text, times) : repeat_seq (s, a, times);
}

const struct tpl_value *tpl_binary (struct tpl_state *s, struct tpl_text op,
                                    const struct tpl_value *a, const struct tpl_value *b)
{
    struct tpl_text x, y;
    int64_t n = 0;
    char c = op.data[0];

    if (c == '~')
        return tpl_text_of (s, a, &x) < 0 || tpl_text_of (s, b, &y) < 0 ? NULL
               : join_texts (s, x, y);
    if (tpl_is_number (a) && tpl_is_number (b))
        return binary_numbers (s, c, op.size == 2, a, b);
    if (c == '+' && a->kind == TPL_STRING && b->kind == TPL_STRING)
        return join_texts (s, a->text, b->text);
    if (c == '+' && a->kind == b->kind && is_joinable (a))
        return join_seqs (s, a, b);
    if (c == '*' && op.size == 1 && (a->kind == TPL_STRING || is_joinable (a))
        && tpl_is_integer (b, &n))
        return repeat (s, a, n);
    if (c == '*' && op.size == 1 && (b->kind == TPL_STRING || is_joinable (b))
        && tpl_is_integer (a, &n))
        return repeat (s, b, n);
    if (c == '%' && a->kind == TPL_STRING)
        return tpl_refuse (s, "%% of a string is not supported");
    return tpl_fail (s, "%.*s of %s and %s", (int)op.size, op.data, tpl_kind_name (a),
                     tpl_kind_name (b));
}

const struct tpl_value *tpl_negative (struct tpl_state *s, const struct tpl_value *v, bool minus)
{
    int64_t i = 0;

    if (tpl_is_integer (v, &i))
        return minus && i == INT64_MIN ? overflow (s) : tpl_int (s, minus ? -i : i);
    if (v->kind == TPL_FLOAT)
        return tpl_float (s, minus ? -v->number : v->number);
    return tpl_fail (s, "a sign in front of %s", tpl_kind_name (v));
}

/* --- attributes and items --- */

/* Attributes that Python's objects have, and that a template could see. */
static bool is_python_attribute (const struct tpl_value *v, struct tpl_text name)
{
    static const char *const dict[] = { "clear", "copy", "fromkeys", "get", "items", "keys", "pop",
                                        "popitem", "setdefault", "update", "values", NULL };
    static const char *const list[] = { "append", "clear", "copy", "count", "extend", "index",
                                        "insert", "pop", "remove", "reverse", "sort", NULL };
    static const char *const number[] = { "as_integer_ratio", "bit_count", "bit_length",
                                          "conjugate", "denominator", "from_bytes", "fromhex",
                                          "hex", "imag", "is_integer", "numerator", "real",
                                          "to_bytes", NULL };
    static const char *const string[] = {
        "capitalize", "casefold", "center", "count", "encode", "endswith", "expandtabs", "find",
        "format", "format_map", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
        "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper",
        "join", "ljust", "lower", "lstrip", "maketrans", "partition", "removeprefix",
        "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip",
        "split", "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper",
        "zfill", NULL };
    const char *const *names = v->kind == TPL_DICT ? dict
                               : v->kind == TPL_STRING ? string
                               : tpl_is_number (v) ? number : is_joinable (v) ? list : NULL;

    for (; names && *names; names++)
        if (tpl_same (name, (struct tpl_text){ *names, strlen (*names) }))
            return true;
    return false;
}

static bool is_opaque (const struct tpl_value *v)
{
    return v->kind == TPL_RANGE || v->kind == TPL_VIEW || v->kind == TPL_GENERATOR
           || v->kind == TPL_MACRO || v->kind == TPL_FUNCTION;
}

static const struct tpl_value *find_member (struct tpl_state *s, const struct tpl_value *v,
                                            struct tpl_text name)
{
    const struct tpl_value key = { .kind = TPL_STRING, .text = name }, *found;
    bool failed = false;

    if (v->kind != TPL_DICT && v->kind != TPL_NAMESPACE)
        return &tpl_undefined;
    found = tpl_dict_get (s, v->dict, &key, &failed);
    return failed ? NULL : found ? found : &tpl_undefined;
}

const struct tpl_value *tpl_attribute (struct tpl_state *s, const struct tpl_value *v,
                                       struct tpl_text name)
{
    if (v->kind == TPL_UNDEFINED)
        return tpl_fail (s, "attribute %.*s of an undefined value", (int)name.size, name.data);
    if (v->kind == TPL_LOOP)
        return tpl_loop_attribute (s, v->loop, name);
    if (is_opaque (v) || is_python_attribute (v, name))
        return tpl_refuse (s, "attribute %.*s of %s is not supported", (int)name.size, name.data,
                           tpl_kind_name (v));
    return find_member (s, v, name);
}

static const struct tpl_value *nth_item (struct tpl_state *s, const struct tpl_value *v, int64_t i)
{
    int64_t length = 0;
    size_t from, to;

    if (tpl_length (s, v, &length) < 0)
        return NULL;
    if (i < 0)
        i += length;
    if (i < 0 || i >= length)
        return &tpl_undefined;
    if (v->kind != TPL_STRING)
        return v->seq.item[i];
    from = tpl_offset (v->text, (size_t)i);
    to = tpl_offset (v->text, (size_t)i + 1);
    return tpl_string (s, v->text.data + from, to - from);
}

static bool is_indexed (const struct tpl_value *v)
{
    return v->kind == TPL_STRING || is_joinable (v) || v->kind == TPL_RANGE;
}

const struct tpl_value *tpl_item (struct tpl_state *s, const struct tpl_value *v,
                                  const struct tpl_value *key)
{
    const struct tpl_value *found;
    bool failed = false;
    int64_t i = 0;

    if (v->kind == TPL_UNDEFINED)
        return tpl_fail (s, "an item of an undefined value");
    if (is_indexed (v) && tpl_is_integer (key, &i))
        return nth_item (s, v, i);
    if (v->kind == TPL_DICT) {
        found = tpl_dict_get (s, v->dict, key, &failed);
        if (found || failed)
            return found;
    }
    return key->kind == TPL_STRING ? tpl_attribute (s, v, key->text) : &tpl_undefined;
}

/* --- slices, as PySlice_AdjustIndices() --- */

/* A bound, or what it is without one. -1 on failure. */
static int slice_bound (struct tpl_state *s, const struct tpl_value *v, int64_t length,
                        int64_t step, int64_t missing, int64_t *to)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;

    *to = missing;
    if (!v || v->kind == TPL_NONE)
        return 0;
    if (!tpl_is_integer (v, to)) {
        tpl_fail (s, "%s as a bound of a slice", tpl_kind_name (v));
        return -1;
    }
    if (*to < 0)
        *to += length;
    *to = *to < low ? low : *to > high ? high : *to;
    return 0;
}

static const struct tpl_value *slice_text (struct tpl_state *s, struct tpl_text t, int64_t from,
                                           int64_t step, size_t count)
{
    struct text_buffer b = { .data = NULL };
    size_t begin = tpl_offset (t, (size_t)from);

    if (step == 1)
        return tpl_string (s, t.data + begin,
                           tpl_offset ((struct tpl_text){ t.data + begin, t.size - begin }, count));
    for (size_t i = 0; i < count; i++, from += step) {
        size_t at = tpl_offset (t, (size_t)from), next = tpl_offset (t, (size_t)from + 1);

        if (tpl_work (s, t.size) < 0 || tpl_append (s, &b, t.data + at, next - at) < 0) {
            text_buffer_clear (&b);
            return NULL;
        }
    }
    return tpl_string_take (s, &b);
}

static const struct tpl_value *slice (struct tpl_state *s, const struct tpl_value *v, int64_t from,
                                      int64_t step, size_t count)
{
    struct tpl_value *to;

    if (count == 0 && v->kind == TPL_STRING)
        return tpl_string (s, "", 0);
    if (v->kind == TPL_STRING)
        return slice_text (s, v->text, from, step, count);
    to = tpl_seq (s, v->kind, count);
    for (size_t i = 0; to && i < count; i++)
        to->seq.item[i] = v->seq.item[from + (int64_t)i * step];
    return to;
}

const struct tpl_value *tpl_slice (struct tpl_state *s, const struct tpl_value *v,
                                   const struct tpl_value *const bound[3])
{
    int64_t length = 0, from, to, step = 1, count = 0;

    if (v->kind == TPL_UNDEFINED)
        return tpl_fail (s, "a slice of an undefined value");
    if (!is_indexed (v))
        return tpl_refuse (s, "a slice of %s is not supported", tpl_kind_name (v));
    if (bound[2] && bound[2]->kind != TPL_NONE && !tpl_is_integer (bound[2], &step))
        return tpl_fail (s, "%s as the step of a slice", tpl_kind_name (bound[2]));
    if (step == 0)
        return tpl_fail (s, "the step of a slice is 0");
    if (tpl_length (s, v, &length) < 0)
        return NULL;
    step = step < -length - 1 ? -length - 1 : step > length + 1 ? length + 1 : step;
    if (slice_bound (s, bound[0], length, step, step < 0 ? length - 1 : 0, &from) < 0
        || slice_bound (s, bound[1], length, step, step < 0 ? -1 : length, &to) < 0)
        return NULL;
    if (step > 0 && to > from)
        count = (to - from - 1) / step + 1;
    else if (step < 0 && from > to)
        count = (from - to - 1) / -step + 1;
    return slice (s, v, from, step, (size_t)count);
}
