/* template_text.c - texts as Python's str changes them */

#include "libcore/serve/template_functions.h"
#include "libcore/text/utf8.h"

/* --- strip --- */

static bool in_chars (uint32_t c, const struct tpl_value *chars)
{
    if (!chars)
        return tpl_is_space (c);
    for (size_t at = 0, n; at < chars->text.size; at += n)
        if (utf8_decode (chars->text.data + at, &n) == c)
            return true;
    return false;
}

const struct tpl_value *tpl_text_trim (struct tpl_state *s, struct tpl_text t,
                                       const struct tpl_value *chars, bool left, bool right)
{
    size_t from = 0, to = t.size, n;

    if (chars && chars->kind == TPL_NONE)
        chars = NULL;
    if (chars && chars->kind != TPL_STRING)
        return tpl_fail (s, "characters to strip: %s is no string", tpl_kind_name (chars));
    if (chars && tpl_work (s, t.size * (1 + chars->text.size / 8)) < 0)
        return NULL;
    while (left && from < to && in_chars (utf8_decode (t.data + from, &n), chars))
        from += n;
    while (right && to > from) {
        size_t before = utf8_previous (t.data, to);

        if (!in_chars (utf8_decode (t.data + before, &n), chars))
            break;
        to = before;
    }
    return tpl_work (s, t.size) < 0 ? NULL : tpl_string (s, t.data + from, to - from);
}

/* --- case --- */

/* Characters without case that are not ASCII. */
static const struct tpl_range caseless[] = {
    { 0x80, 0xa9 },     { 0xab, 0xb4 },     { 0xb6, 0xb9 },     { 0xbb, 0xbf },
    { 0xd7, 0xd7 },     { 0xf7, 0xf7 },     { 0x2010, 0x206f }, { 0x2190, 0x23ff },
    { 0x2500, 0x2bff }, { 0x3000, 0x9fff }, { 0xac00, 0xd7a3 }, { 0xff5f, 0xffef },
    { 0x1f300, 0x1faff },
};

static bool is_caseless (uint32_t c)
{
    return tpl_in_ranges (c, caseless, sizeof (caseless) / sizeof (caseless[0]));
}

static bool is_lower (char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper (char c)
{
    return c >= 'A' && c <= 'Z';
}

/* True if a word of the filter "title" begins behind this text. */
static bool begins_word (struct tpl_text t, size_t at)
{
    size_t before, n;
    uint32_t c;

    if (at == 0)
        return true;
    before = utf8_previous (t.data, at);
    c = utf8_decode (t.data + before, &n);
    return tpl_is_space (c) || (c < 0x80 && strchr ("-({[<", (int)c));
}

static bool wants_upper (struct tpl_text t, size_t at, enum tpl_case how)
{
    switch (how) {
    case TPL_UPPER:
        return true;
    case TPL_CAPITALIZE:
        return at == 0;
    case TPL_TITLE_METHOD:
        return at == 0 || !(is_lower (t.data[at - 1]) || is_upper (t.data[at - 1]));
    case TPL_TITLE_FILTER:
        return begins_word (t, at);
    default:
        return false;
    }
}

const struct tpl_value *tpl_text_case (struct tpl_state *s, struct tpl_text t, enum tpl_case how)
{
    const struct tpl_value *v = tpl_string_copy (s, t.data, t.size);
    char *to = v ? (char *)v->text.data : NULL;

    if (!v || tpl_work (s, t.size) < 0)
        return NULL;
    for (size_t at = 0, n; at < t.size; at += n) {
        uint32_t c = utf8_decode (t.data + at, &n);

        if (c >= 0x80 && !is_caseless (c))
            return tpl_refuse (s, "the case of U+%04X, which is not ASCII, is not supported",
                               (unsigned int)c);
        if (c >= 0x80)
            continue;
        if (is_lower (t.data[at]) && wants_upper (t, at, how))
            to[at] = (char)(t.data[at] - 'a' + 'A');
        else if (is_upper (t.data[at]) && !wants_upper (t, at, how))
            to[at] = (char)(t.data[at] - 'A' + 'a');
    }
    return v;
}

/* --- replace, split, reverse --- */

/* Offset of 'what' from 'at' on, or the size. */
static size_t find (struct tpl_text t, size_t at, struct tpl_text what)
{
    const char *found = memmem (t.data + at, t.size - at, what.data, what.size);

    return found ? (size_t)(found - t.data) : t.size;
}

/* An empty 'from' stands in front of each character, and at the end. */
static int replace_nothing (struct tpl_state *s, struct text_buffer *b, struct tpl_text t,
                            struct tpl_text by, int64_t count)
{
    size_t at = 0, n;

    for (; count != 0 && at < t.size; at += n, count--) {
        utf8_decode (t.data + at, &n);
        if (tpl_append (s, b, by.data, by.size) < 0 || tpl_append (s, b, t.data + at, n) < 0)
            return -1;
    }
    if (count != 0)
        return tpl_append (s, b, by.data, by.size);
    return tpl_append (s, b, t.data + at, t.size - at);
}

static int replace (struct tpl_state *s, struct text_buffer *b, struct tpl_text t,
                    struct tpl_text from, struct tpl_text by, int64_t count)
{
    size_t at = 0;

    if (from.size == 0)
        return replace_nothing (s, b, t, by, count);
    for (; count != 0 && at < t.size; count--) {
        size_t found = find (t, at, from);

        if (tpl_append (s, b, t.data + at, found - at) < 0)
            return -1;
        if (found == t.size)
            return 0;
        if (tpl_append (s, b, by.data, by.size) < 0)
            return -1;
        at = found + from.size;
    }
    return tpl_append (s, b, t.data + at, t.size - at);
}

const struct tpl_value *tpl_text_replace (struct tpl_state *s, struct tpl_text t,
                                          struct tpl_text from, struct tpl_text by, int64_t count)
{
    struct text_buffer b = { .data = NULL };

    if (tpl_work (s, t.size) < 0 || replace (s, &b, t, from, by, count) < 0) {
        text_buffer_clear (&b);
        return NULL;
    }
    return tpl_string_take (s, &b);
}

/* The end of the part that begins at 'at'; '*next' is where the next one begins. */
static size_t part_end (struct tpl_text t, size_t at, const struct tpl_text *separator,
                        size_t *next)
{
    size_t n = 1;

    if (separator) {
        size_t found = find (t, at, *separator);

        *next = found + separator->size;
        return found;
    }
    while (at < t.size && !tpl_is_space (utf8_decode (t.data + at, &n)))
        at += n;
    *next = at;
    return at;
}

static size_t skip_spaces (struct tpl_text t, size_t at)
{
    size_t n;

    while (at < t.size && tpl_is_space (utf8_decode (t.data + at, &n)))
        at += n;
    return at;
}

/* The parts of a text: into 'to', unless it is NULL. Returns how many, (size_t)-1 on failure. */
static size_t split (struct tpl_state *s, struct tpl_value *to, struct tpl_text t,
                     const struct tpl_text *separator, int64_t count)
{
    size_t parts = 0, at = separator ? 0 : skip_spaces (t, 0), end, next = 0;

    while (separator || at < t.size) {
        bool last = count >= 0 && parts == (size_t)count;

        end = last ? t.size : part_end (t, at, separator, &next);
        if (to && !(to->seq.item[parts] = tpl_string (s, t.data + at, end - at)))
            return (size_t)-1;
        parts++;
        if (last || end == t.size)
            break;
        at = separator ? next : skip_spaces (t, next);
    }
    return parts;
}

const struct tpl_value *tpl_text_split (struct tpl_state *s, struct tpl_text t,
                                        const struct tpl_text *separator, int64_t count)
{
    struct tpl_value *v;
    size_t parts;

    if (separator && separator->size == 0)
        return tpl_fail (s, "split: an empty separator");
    if (tpl_work (s, 2 * t.size) < 0)
        return NULL;
    parts = split (s, NULL, t, separator, count);
    v = parts == (size_t)-1 ? NULL : tpl_seq (s, TPL_LIST, parts);
    return v && split (s, v, t, separator, count) == parts ? v : NULL;
}

const struct tpl_value *tpl_text_reverse (struct tpl_state *s, struct tpl_text t)
{
    const struct tpl_value *v = tpl_string_copy (s, t.data, t.size);
    char *to = v ? (char *)v->text.data + t.size : NULL;

    for (size_t at = 0, n; v && at < t.size; at += n) {
        utf8_decode (t.data + at, &n);
        to -= n;
        memcpy (to, t.data + at, n);
    }
    return v;
}
