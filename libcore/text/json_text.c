/* json_text - a parser by recursive descent, which can pass over a value without making it */

#include <errno.h>
#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/json_text.h"
#include "libcore/text/utf8.h"

enum { INTEGER_DIGITS = 18, REPLACEMENT = 0xfffd };

struct parser {
    const char *text;
    size_t size, at;
    unsigned flags;
    int depth;
    char *const *keys; /* the only members of the outermost object that are kept; NULL: all */
    size_t num_keys;
    json_t **values;   /* of these */
    struct text_buffer string;
    struct json_text_fault *fault;
};

static int parse_value (struct parser *p, json_t **value);

static int fail_at (struct parser *p, size_t at, const char *what)
{
    p->fault->what = what;
    p->fault->at = at;
    return errno = EINVAL, -1;
}

static int fail (struct parser *p, const char *what)
{
    return fail_at (p, p->at, what);
}

static int fail_memory (struct parser *p)
{
    fail (p, "out of memory");
    return errno = ENOMEM, -1;
}

/* Set *to to a value, which is NULL if there was no memory for it. */
static int put (struct parser *p, json_t **to, json_t *value)
{
    *to = value;
    return value ? 0 : fail_memory (p);
}

static char peek (const struct parser *p)
{
    return p->at < p->size ? p->text[p->at] : '\0';
}

static void skip_space (struct parser *p)
{
    while (p->at < p->size && memchr (" \t\r\n", p->text[p->at], 4))
        p->at++;
}

static bool take_word (struct parser *p, const char *word)
{
    size_t n = strlen (word);

    if (p->size - p->at < n || memcmp (p->text + p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* ---- strings ---- */

/* The four digits at p->at as a number, -1: they are none. */
static int32_t read_hex (const struct parser *p)
{
    int32_t n = 0;

    if (p->size - p->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p->text[p->at + (size_t)i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

        if (digit < 0)
            return -1;
        n = 16 * n + digit;
    }
    return n;
}

/* Join a surrogate 'c', whose digits have been read, with its other half, which is read here, to
 * one character.
 */
static int32_t join_surrogates (struct parser *p, int32_t c)
{
    const size_t before = p->at;
    int32_t low;

    if (c < 0xdc00 && take_word (p, "\\u")) {
        low = read_hex (p);
        if (low >= 0xdc00 && low < 0xe000) {
            p->at += 4;
            return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
        p->at = before;
    }
    return -1;
}

static int append (struct parser *p, const char *text, size_t size)
{
    return text_buffer_append (&p->string, text, size, NULL) < 0 ? fail_memory (p) : 0;
}

/* Read the digits of "\uNNNN", and of a surrogate's other half.  "\u" has been read. */
static int read_unicode (struct parser *p, bool key, bool kept)
{
    const size_t begin = p->at - 2;
    int32_t c = read_hex (p);
    char bytes[UTF8_MAX];
    size_t n;

    if (c < 0)
        return fail_at (p, begin, "an escape \\u without four hexadecimal digits");
    p->at += 4;
    if (c >= 0xd800 && c < 0xe000 && (c = join_surrogates (p, c)) < 0) {
        if (p->flags & JSON_TEXT_STRICT || (p->keys && kept && !key))
            return fail_at (p, begin, "a surrogate without its other half");
        c = REPLACEMENT;
    }
    if (c == 0 && p->flags & JSON_TEXT_NULS)
        return append (p, JSON_TEXT_NUL, sizeof (JSON_TEXT_NUL) - 1);
    if (c == 0 && key)
        c = REPLACEMENT;
    n = utf8_encode ((uint32_t)c, bytes);
    return append (p, bytes, n);
}

static int read_escape (struct parser *p, bool key, bool kept)
{
    static const char letters[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    const char *letter = p->at < p->size && p->text[p->at] ? strchr (letters, p->text[p->at])
                                                           : NULL;

    if (letter) {
        p->at++;
        return append (p, &meaning[letter - letters], 1);
    }
    if (peek (p) != 'u')
        return fail_at (p, p->at - 1, "an unknown escape");
    p->at++;
    return read_unicode (p, key, kept);
}

/* A string, whose quotation mark is read, into p->string. */
static int read_string (struct parser *p, bool key, bool kept)
{
    const size_t begin = p->at - 1;

    p->string.size = 0;
    while (p->at < p->size) {
        size_t from = p->at;
        unsigned char c = 0;

        while (p->at < p->size && (c = (unsigned char)p->text[p->at]) >= ' ' && c != '"'
               && c != '\\')
            p->at++;
        if (append (p, p->text + from, p->at - from) < 0)
            return -1;
        if (p->at == p->size)
            break;
        if (c < ' ')
            return fail (p, "a control character in a string");
        p->at++;
        if (c == '"')
            return 0;
        if (read_escape (p, key, kept) < 0)
            return -1;
    }
    return fail_at (p, begin, "a string without end");
}

/* ---- numbers ---- */

static size_t skip_digits (struct parser *p)
{
    const size_t from = p->at;

    while (p->at < p->size && p->text[p->at] >= '0' && p->text[p->at] <= '9')
        p->at++;
    return p->at - from;
}

/* Let jansson convert the digits: it does so in any locale. */
static json_t *make_real (const struct parser *p, size_t from)
{
    const size_t n = p->at - from;
    json_t *value = json_loadb (p->text + from, n, JSON_DECODE_ANY, NULL);

    if (!value)
        value = json_loadb (p->text + from, n, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    if (!value && !(p->flags & JSON_TEXT_STRICT))
        value = json_real (p->text[from] == '-' ? -DBL_MAX : DBL_MAX);
    return value;
}

static json_t *make_integer (const struct parser *p, size_t from)
{
    const bool minus = p->text[from] == '-';
    json_int_t n = 0;

    for (size_t i = from + minus; i < p->at; i++)
        n = 10 * n + (p->text[i] - '0');
    return json_integer (minus ? -n : n);
}

static int parse_number (struct parser *p, json_t **value)
{
    const size_t from = p->at;
    size_t digits;
    bool whole = true;

    p->at += p->text[p->at] == '-';
    digits = p->at;
    if (skip_digits (p) == 0)
        return fail_at (p, from, "no value");
    if (p->text[digits] == '0' && p->at > digits + 1)
        return fail_at (p, from, "a number that begins with 0");
    if (peek (p) == '.') {
        whole = false;
        p->at++;
        if (skip_digits (p) == 0)
            return fail_at (p, from, "a number without digits after its point");
    }
    if (peek (p) == 'e' || peek (p) == 'E') {
        whole = false;
        p->at++;
        p->at += peek (p) == '+' || peek (p) == '-';
        if (skip_digits (p) == 0)
            return fail_at (p, from, "a number without digits in its exponent");
    }
    if (!value)
        return 0;
    *value = whole && p->at - digits <= INTEGER_DIGITS ? make_integer (p, from)
                                                       : make_real (p, from);
    return *value ? 0 : fail_at (p, from, "a number that is too large");
}

/* ---- values ---- */

static int parse_array (struct parser *p, json_t **value)
{
    json_t *array = NULL;

    if (value && put (p, &array, json_array ()) < 0)
        return -1;
    p->at++;
    skip_space (p);
    for (bool first = true; first || peek (p) != ']'; first = false) {
        json_t *element = NULL;

        if (first && peek (p) == ']')
            break;
        if (!first && peek (p) != ',') {
            fail (p, "no \",\" or \"]\" behind an element");
            goto error;
        }
        p->at += !first;
        if (parse_value (p, value ? &element : NULL) < 0)
            goto error;
        if (array && json_array_append_new (array, element) < 0) {
            fail_memory (p);
            goto error;
        }
        skip_space (p);
    }
    p->at++;
    if (value)
        *value = array;
    return 0;
error:
    json_decref (array);
    return -1;
}

/* The place of the value of a member that is kept, NULL: it is not. */
static json_t **kept_value (struct parser *p, const char *name)
{
    for (size_t i = 0; i < p->num_keys; i++) {
        if (strcmp (p->keys[i], name) == 0)
            return &p->values[i];
    }
    return NULL;
}

/* A member, whose name is in p->string. */
static int parse_member (struct parser *p, json_t *object, size_t name_at)
{
    bool outermost = p->keys && p->depth == 1;
    json_t **kept = outermost ? kept_value (p, p->string.data) : NULL;
    json_t *value = NULL;
    char *name = NULL;
    int rc;

    if (outermost || !object) {
        rc = parse_value (p, kept ? &value : NULL);
        if (kept && rc == 0) {
            json_decref (*kept);
            *kept = value;
        }
        return rc;
    }
    if (!(name = strdup (p->string.data)))
        return fail_memory (p);
    rc = parse_value (p, &value);
    if (rc == 0 && p->flags & JSON_TEXT_UNIQUE && json_object_get (object, name)) {
        json_decref (value);
        rc = fail_at (p, name_at, "duplicate object key");
    } else if (rc == 0 && json_object_set_new_nocheck (object, name, value) < 0) {
        rc = fail_memory (p);
    }
    free (name);
    return rc;
}

static int parse_name (struct parser *p, bool kept)
{
    skip_space (p);
    if (peek (p) != '"')
        return fail (p, "no name of a member in quotation marks");
    p->at++;
    if (read_string (p, true, kept) < 0 || append (p, "", 1) < 0)
        return -1;
    skip_space (p);
    if (peek (p) != ':')
        return fail (p, "no \":\" behind the name of a member");
    p->at++;
    return 0;
}

static int parse_object (struct parser *p, json_t **value)
{
    json_t *object = NULL;

    if (value && put (p, &object, json_object ()) < 0)
        return -1;
    p->at++;
    skip_space (p);
    for (bool first = true; first || peek (p) != '}'; first = false) {
        size_t name_at;

        if (first && peek (p) == '}')
            break;
        if (!first && peek (p) != ',') {
            fail (p, "no \",\" or \"}\" behind a member");
            goto error;
        }
        p->at += !first;
        name_at = p->at;
        if (parse_name (p, object != NULL) < 0 || parse_member (p, object, name_at) < 0)
            goto error;
        skip_space (p);
    }
    p->at++;
    if (value)
        *value = object;
    return 0;
error:
    json_decref (object);
    return -1;
}

static int parse_string (struct parser *p, json_t **value)
{
    p->at++;
    if (read_string (p, false, value != NULL) < 0)
        return -1;
    if (!value)
        return 0;
    return put (p, value, json_stringn_nocheck (p->string.data ? p->string.data : "",
                                                p->string.size));
}

/* true, false, null, and the words that stand for numbers. */
static int parse_word (struct parser *p, json_t **value)
{
    static const char *const numbers[] = { "NaN", "Infinity", "-Infinity" };
    static const char *const words[] = { "true", "false", "null" };

    for (int i = 0; i < 3; i++) {
        if (take_word (p, words[i]))
            return !value ? 0 : put (p, value, i == 0 ? json_true () : i == 1 ? json_false ()
                                                                            : json_null ());
    }
    for (int i = 0; i < 3 && !(p->flags & JSON_TEXT_STRICT); i++) {
        if (!take_word (p, numbers[i]))
            continue;
        if (p->keys && value)
            return fail (p, "NaN or Infinity in a value that is used");
        return value ? put (p, value, json_string (numbers[i])) : 0;
    }
    return p->at < p->size && p->text[p->at] == '-' ? parse_number (p, value)
                                                    : fail (p, "no value");
}

static int parse_value (struct parser *p, json_t **value)
{
    int rc;
    char c;

    skip_space (p);
    c = peek (p);
    if (c == '"')
        return parse_string (p, value);
    if (c >= '0' && c <= '9')
        return parse_number (p, value);
    if (c != '[' && c != '{')
        return parse_word (p, value);
    if (p->depth == JSON_TEXT_DEPTH)
        return fail (p, "too many values inside one another");
    p->depth++;
    rc = c == '[' ? parse_array (p, value) : parse_object (p, value);
    p->depth--;
    return rc;
}

/* Strings take bytes as they are, so the whole text is looked through first. */
static int parse_text (struct parser *p, json_t **value)
{
    size_t stray = utf8_find_stray (p->text, p->size, 0);
    int rc;

    if (stray < p->size)
        return fail_at (p, stray, "a byte that is no UTF-8");
    rc = parse_value (p, value);
    if (rc == 0) {
        skip_space (p);
        if (p->at < p->size) {
            json_decref (*value);
            *value = NULL;
            rc = fail (p, "something behind the value");
        }
    }
    return rc;
}

static void count_lines (const struct parser *p)
{
    const char *end = p->text + p->fault->at, *at = p->text;

    p->fault->line = 1;
    while (at < end && (at = memchr (at, '\n', (size_t)(end - at)))) {
        p->fault->line++;
        at++;
    }
}

json_t *json_text_parse (const char *text, size_t size, unsigned flags,
                         struct json_text_fault *fault)
{
    struct parser p = { .text = text, .size = size, .flags = flags, .fault = fault };
    json_t *value = NULL;

    *fault = (struct json_text_fault){ .what = "" };
    if (parse_text (&p, &value) < 0)
        count_lines (&p);
    text_buffer_clear (&p.string);
    return value;
}

int json_text_members (const char *text, size_t size, char *const *keys, size_t num_keys,
                       json_t **values, json_t **other, struct json_text_fault *fault)
{
    struct parser p = { .text = text, .size = size, .fault = fault, .keys = keys,
                        .num_keys = num_keys, .values = values };
    int rc;

    *other = NULL;
    *fault = (struct json_text_fault){ .what = "" };
    for (size_t i = 0; i < num_keys; i++)
        values[i] = NULL;
    rc = parse_text (&p, other);
    if (rc < 0) {
        count_lines (&p);
        for (size_t i = 0; i < num_keys; i++) {
            json_decref (values[i]);
            values[i] = NULL;
        }
    }
    if (json_is_object (*other)) {
        json_decref (*other);
        *other = NULL;
    }
    text_buffer_clear (&p.string);
    return rc;
}

int json_text_append (struct text_buffer *to, const char *string, struct mg_error *err)
{
    const char *nul;

    while ((nul = strstr (string, JSON_TEXT_NUL))) {
        if (text_buffer_append (to, string, (size_t)(nul - string), err) < 0
            || text_buffer_append (to, "", 1, err) < 0)
            return -1;
        string = nul + sizeof (JSON_TEXT_NUL) - 1;
    }
    return text_buffer_append (to, string, strlen (string), err);
}
