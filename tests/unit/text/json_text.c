/* json_text: what Python's json reads and jansson does not; what is kept of a line */

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/json_text.h"
#include "tests/tap/tap.h"

static const struct {
    const char *text;
    unsigned flags;
    const char *want; /* dumped by jansson, its keys sorted; NULL: refused */
    const char *what; /* part of the reason */
    size_t at;
} texts[] = {
    { "{\"a\":NaN,\"b\":Infinity,\"c\":-Infinity}", 0,
      "{\"a\":\"NaN\",\"b\":\"Infinity\",\"c\":\"-Infinity\"}", NULL, 0 },
    { "{\"a\":NaN}", JSON_TEXT_STRICT, NULL, "no value", 5 },
    { "[1e400]", JSON_TEXT_STRICT, NULL, "too large", 1 },
    { "[\"\\ud83d\"]", JSON_TEXT_STRICT, NULL, "surrogate", 2 },
    { "[\"\\ud83d\"]", 0, "[\"\\uFFFD\"]", NULL, 0 },
    { "[\"\\ud83dx\\ude00\"]", 0, "[\"\\uFFFDx\\uFFFD\"]", NULL, 0 },
    { "[\"\\ud83d\\ude00\\ud83d\\u0041\"]", 0, "[\"\\uD83D\\uDE00\\uFFFDA\"]", NULL, 0 },
    { "{\"a\":1,\"a\":2}", 0, "{\"a\":2}", NULL, 0 },
    { "{\"a\":1,\"a\":2}", JSON_TEXT_UNIQUE, NULL, "duplicate object key", 7 },
    { " [ 1 , -0.5 , 1e2 , true , false , null , { } , [ ] ] \r\n\t", 0,
      "[1,-0.5,100.0,true,false,null,{},[]]", NULL, 0 },
    { "[123456789012345678,-9223372036854775807]", 0,
      "[123456789012345678,-9223372036854775807]", NULL, 0 },
    { "\"\\b\\f\\n\\r\\t\\/\\\\\\\"\"", 0, "\"\\b\\f\\n\\r\\t/\\\\\\\"\"", NULL, 0 },
    { "[01]", 0, NULL, "begins with 0", 1 },
    { "[1.]", 0, NULL, "after its point", 1 },
    { "[.5]", 0, NULL, "no value", 1 },
    { "[1e]", 0, NULL, "exponent", 1 },
    { "[-]", 0, NULL, "no value", 1 },
    { "[+1]", 0, NULL, "no value", 1 },
    { "[nan]", 0, NULL, "no value", 1 },
    { "[1,]", 0, NULL, "no value", 3 },
    { "[1 2]", 0, NULL, "no \",\" or \"]\"", 3 },
    { "{\"a\":1,}", 0, NULL, "no name", 7 },
    { "{\"a\" 1}", 0, NULL, "no \":\"", 5 },
    { "{1:2}", 0, NULL, "no name", 1 },
    { "{\"a\":1 \"b\":2}", 0, NULL, "no \",\" or \"}\"", 7 },
    { "[\"a\nb\"]", 0, NULL, "control character", 3 },
    { "[\"a\\qb\"]", 0, NULL, "unknown escape", 3 },
    { "[\"\\u12g4\"]", 0, NULL, "\\u without", 2 },
    { "[\"ab", 0, NULL, "string without end", 1 },
    { "[\"a\xff\"]", 0, NULL, "no UTF-8", 3 },
    { "1 2", 0, NULL, "behind the value", 2 },
    { "", 0, NULL, "no value", 0 },
    { "[", 0, NULL, "no value", 1 },
    { "{", 0, NULL, "no name", 1 },
};

static char *dump (const json_t *value)
{
    return json_dumps (value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
}

static void test_texts (void)
{
    for (size_t i = 0; i < sizeof (texts) / sizeof (texts[0]); i++) {
        struct json_text_fault fault;
        json_t *value = json_text_parse (texts[i].text, strlen (texts[i].text), texts[i].flags,
                                         &fault);
        char *have = value ? dump (value) : NULL;

        if (texts[i].want)
            ok (have && strcmp (have, texts[i].want) == 0, "%s is %s", texts[i].text,
                have ? have : fault.what);
        else
            ok (!value && errno == EINVAL && strstr (fault.what, texts[i].what)
                && fault.at == texts[i].at, "%s: %s at %zu", texts[i].text,
                value ? "accepted" : fault.what, fault.at);
        free (have);
        json_decref (value);
    }
}

static void test_numbers (void)
{
    static const char text[] = "[1e999,-1e999,123456789012345678901234567890]";
    struct json_text_fault fault;
    json_t *value = json_text_parse (text, sizeof (text) - 1, 0, &fault);

    ok (json_real_value (json_array_get (value, 0)) == DBL_MAX
        && json_real_value (json_array_get (value, 1)) == -DBL_MAX
        && json_real_value (json_array_get (value, 2)) == 123456789012345678901234567890.0,
        "numbers that are too large");
    json_decref (value);
}

static void test_nul (void)
{
    static const char text[] = "{\"a\\u0000\":\"\\u0000b\"}";
    struct text_buffer bytes = { NULL, 0, 0 };
    struct json_text_fault fault;
    json_t *value = json_text_parse (text, sizeof (text) - 1, JSON_TEXT_NULS, &fault);
    const char *string = json_string_value (json_object_get (value, "a" JSON_TEXT_NUL));

    ok (string && strcmp (string, JSON_TEXT_NUL "b") == 0, "NUL in a key and a string");
    ok (string && json_text_append (&bytes, string, NULL) == 0 && bytes.size == 2
        && memcmp (bytes.data, "\0b", 2) == 0, "its bytes");
    json_decref (value);
    text_buffer_clear (&bytes);
    value = json_text_parse (text, sizeof (text) - 1, 0, &fault);
    ok (json_string_length (json_object_get (value, "a\xef\xbf\xbd")) == 2,
        "a string with a NUL inside");
    json_decref (value);
}

static void test_depth (void)
{
    char text[2 * JSON_TEXT_DEPTH + 4];
    struct json_text_fault fault;
    json_t *value;

    memset (text, '[', JSON_TEXT_DEPTH);
    memset (text + JSON_TEXT_DEPTH, ']', JSON_TEXT_DEPTH);
    value = json_text_parse (text, 2 * JSON_TEXT_DEPTH, 0, &fault);
    ok (value != NULL, "%d arrays inside one another", JSON_TEXT_DEPTH);
    json_decref (value);
    memset (text, '[', JSON_TEXT_DEPTH + 1);
    memset (text + JSON_TEXT_DEPTH + 1, ']', JSON_TEXT_DEPTH + 1);
    ok (!json_text_parse (text, 2 * JSON_TEXT_DEPTH + 2, 0, &fault)
        && strstr (fault.what, "inside one another"), "one more is refused");
}

static const struct {
    const char *line;
    const char *text; /* value of "text", dumped; NULL: none */
    const char *what; /* NULL: accepted */
} lines[] = {
    { "{\"text\":\"ab\",\"x\":NaN}", "\"ab\"", NULL },
    { "{\"x\":[{\"y\":[Infinity,-Infinity,1e999]}],\"text\":\"ab\"}", "\"ab\"", NULL },
    { "{\"x\":\"\\ud83d\",\"\\ud83d\":1,\"\\u0000\":2,\"text\":\"ab\"}", "\"ab\"", NULL },
    { "{\"text\":\"a\",\"text\":\"b\"}", "\"b\"", NULL },
    { "{\"x\":{\"text\":\"a\"}}", NULL, NULL },
    { "{\"text\":\"\\ud83d\"}", NULL, "surrogate" },
    { "{\"text\":NaN}", NULL, "NaN or Infinity" },
    { "{\"text\":[\"a\",-Infinity]}", NULL, "NaN or Infinity" },
    { "{\"text\":\"a\",\"x\":[1,}", NULL, "no value" },
    { "{\"text\":\"a\",\"x\":01}", NULL, "begins with 0" },
    { "{\"x\":\"\xc3\",\"text\":\"a\"}", NULL, "no UTF-8" },
};

static void test_members (void)
{
    static char key[] = "text";
    char *const keys[] = { key };

    for (size_t i = 0; i < sizeof (lines) / sizeof (lines[0]); i++) {
        struct json_text_fault fault;
        json_t *value, *other;
        int rc = json_text_members (lines[i].line, strlen (lines[i].line), keys, 1, &value,
                                    &other, &fault);
        char *have = value ? dump (value) : NULL;

        if (lines[i].what)
            ok (rc < 0 && !value && !other && strstr (fault.what, lines[i].what), "%s: %s",
                lines[i].line, fault.what);
        else
            ok (rc == 0 && !other && (lines[i].text ? have && strcmp (have, lines[i].text) == 0
                                                    : !value), "%s", lines[i].line);
        free (have);
        json_decref (value);
    }
}

static void test_other (void)
{
    static char key[] = "text";
    char *const keys[] = { key };
    struct json_text_fault fault;
    json_t *value, *other;

    ok (json_text_members ("[1]", 3, keys, 1, &value, &other, &fault) == 0 && !value
        && json_is_array (other), "a value that is no object");
    json_decref (other);
}

int main (void)
{
    test_texts ();
    test_numbers ();
    test_nul ();
    test_depth ();
    test_members ();
    test_other ();
    return done_testing ();
}
