/* json_place - messages name the file and the place; members of the wrong type are refused */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/json_place.h"
#include "tests/tap/tap.h"

static void test_quote (void)
{
    char to[JSON_PLACE_QUOTE], text[100];

    is_str (json_place_quote (to, "plain", 5), "plain", "a text");
    is_str (json_place_quote (to, "a\nb\tc", 5), "a?b?c", "is one line");
    memset (text, 'x', sizeof (text));
    json_place_quote (to, text, sizeof (text));
    ok (strlen (to) == JSON_PLACE_QUOTE - 1 && strcmp (to + strlen (to) - 4, "x...") == 0,
        "a long one ends with dots");
    memcpy (text + JSON_PLACE_QUOTE - 5, "\xc3\xa4", 2); /* the cut is between them */
    json_place_quote (to, text, sizeof (text));
    ok (strlen (to) == JSON_PLACE_QUOTE - 2 && strcmp (to + strlen (to) - 4, "x...") == 0,
        "no character is cut");
}

static void test_error (void)
{
    const struct json_place file = { .file = "tokenizer.json" };
    const struct json_place model = json_place_key (&file, "model");
    const struct json_place merges = json_place_key (&model, "merges");
    const struct json_place third = json_place_index (&merges, 3);
    struct json_place deep[50];
    struct mg_error err = { "" };

    errno = 0;
    is_int (json_place_error (&third, &err, "want %d words", 2), -1, "an error");
    is_int (errno, EINVAL, "errno");
    is_str (err.text, "tokenizer.json: model.merges[3]: want 2 words", "names the place");
    json_place_error (&file, &err, "is empty");
    is_str (err.text, "tokenizer.json: is empty", "the whole file has no path");
    deep[0] = json_place_key (&file, "part");
    for (int i = 1; i < 50; i++)
        deep[i] = json_place_key (&deep[i - 1], "part");
    json_place_error (&deep[49], &err, "too deep");
    ok (strstr (err.text, "part.part") && strstr (err.text, ": too deep"), "a long path is cut: %s",
        err.text);
}

static void test_parse (void)
{
    const char *const bad[][2] = {
        { "[1]", "f.json: want a JSON object" },
        { "{\n\"a\": 1,\n", "f.json:" },
        { "", "f.json:" },
    };
    struct mg_error err;
    json_t *object = json_place_parse ("f.json", "{\"a\": true}", 11, 0, &err);

    ok (object && json_is_true (json_object_get (object, "a")), "an object");
    json_decref (object);
    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++) {
        errno = 0;
        ok (!json_place_parse ("f.json", bad[i][0], strlen (bad[i][0]), 0, &err)
                && errno == EINVAL && strncmp (err.text, bad[i][1], strlen (bad[i][1])) == 0,
            "refused: %s", err.text);
    }
}

static void test_members (void)
{
    const struct json_place at = { .file = "f.json" };
    json_t *object = json_pack ("{s:b, s:n, s:s, s:i, s:s}", "yes", 1, "null", "text", "word",
                                "number", 7, "type", "BPE");
    struct mg_error err;
    bool value = false;
    const char *text = "before";

    ok (json_place_bool (&at, object, "yes", &value, &err) == 0 && value, "a truth value");
    value = true;
    ok (json_place_bool (&at, object, "null", &value, &err) == 0
            && json_place_bool (&at, object, "absent", &value, &err) == 0 && value,
        "null and nothing leave the value");
    is_int (json_place_bool (&at, object, "number", &value, &err), -1, "a number is none");
    is_str (err.text, "f.json: number: want true or false", "and where it is");
    ok (json_place_string (&at, object, "text", &text, &err) == 0 && strcmp (text, "word") == 0,
        "a string");
    ok (json_place_string (&at, object, "null", &text, &err) == 0 && strcmp (text, "word") == 0,
        "null leaves it");
    is_int (json_place_string (&at, object, "yes", &text, &err), -1, "a truth value is none");
    is_str (err.text, "f.json: yes: want a string", "and where it is");
    ok (json_place_type (&at, object, &text, &err) == 0 && strcmp (text, "BPE") == 0, "a type");
    json_object_del (object, "type");
    is_int (json_place_type (&at, object, &text, &err), -1, "which has to be there");
    is_str (err.text, "f.json: no \"type\"", "and what is missing");
    is_int (json_place_type (&at, json_object_get (object, "number"), &text, &err), -1,
            "a number has no type");
    is_str (err.text, "f.json: want an object", "and what is wanted");
    json_decref (object);
}

/* Count the strings; an object is a sequence again. */
static int count (void *arg, const struct json_place *place, const json_t *value, int depth,
                  struct mg_error *err)
{
    if (json_is_object (value))
        return json_place_sequence (place, value, "list", depth, count, arg, err);
    if (!json_is_string (value))
        return json_place_error (place, err, "want a string");
    (*(int *)arg)++;
    return 0;
}

static int count_in (const char *text, int *n, struct mg_error *err)
{
    const struct json_place at = { .file = "f.json" };
    json_t *value = json_loads (text, 0, NULL);
    int rc;

    *n = 0;
    rc = count (n, &at, value, 0, err);
    json_decref (value);
    return rc;
}

/* A text of 'n' sequences in one another. */
static char *nest (int n)
{
    char *text = calloc ((size_t)n + 1, sizeof ("{\"list\":[]}"));

    for (int i = 0; i < n; i++)
        strcat (text, "{\"list\":[");
    for (int i = 0; i < n; i++)
        strcat (text, "]}");
    return text;
}

static void test_sequence (void)
{
    char *most = nest (JSON_PLACE_DEPTH), *more = nest (JSON_PLACE_DEPTH + 1);
    struct mg_error err;
    int n;

    ok (count_in ("{\"list\":[\"a\",{\"list\":[\"b\",\"c\"]},{\"list\":[]}]}", &n, &err) == 0,
        "sequences");
    is_int (n, 3, "every element is read once");
    is_int (count_in ("{\"list\":[\"a\",{\"list\":[7,\"c\"]}]}", &n, &err), -1,
            "a wrong element");
    is_str (err.text, "f.json: list[1].list[0]: want a string", "and where it is");
    is_int (n, 1, "the elements behind it are not read");
    is_int (count_in ("{\"list\":{}}", &n, &err), -1, "an object in place of a list");
    is_str (err.text, "f.json: list: want an array", "and where it is");
    is_int (count_in ("{}", &n, &err), -1, "no list");
    is_int (count_in (most, &n, &err), 0, "as many in one another as there may be");
    is_int (count_in (more, &n, &err), -1, "one more");
    ok (strstr (err.text, "more than 8 sequences in one another"), "and why: %s", err.text);
    free (most);
    free (more);
}

int main (void)
{
    test_quote ();
    test_error ();
    test_parse ();
    test_members ();
    test_sequence ();
    return done_testing ();
}
