/* input.c - read documents of plain text and of JSON lines
 *
 * A reader calls back for each piece of text and for each end of a sequence and document, in the
 * order of the input.  A document of JSON lines is one line.  Every failure names the file and,
 * where there is one, the line.
 */

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/data/input.h"
#include "cmd/data/packed.h"
#include "libcore/text/json_text.h"

enum { PIECE = 1 << 14 }; /* bytes read at once where lines do not matter */

/* The bytes of the name, of a list up to NULL, with which text[0, n) ends in any case; 0 if there
 * is none.
 */
static size_t find_ending (const char *text, size_t n, const char *const *names)
{
    for (; *names; names++) {
        size_t m = strlen (*names);

        if (n >= m && strncasecmp (text + n - m, *names, m) == 0)
            return m;
    }
    return 0;
}

enum input_format input_format_by_name (const char *path)
{
    static const char *const packed[] = { ".gz", ".bz2", ".xz", ".zst", ".zstd", NULL };
    static const char *const lines[] = { ".jsonl", ".ndjson", ".jsonlines", ".json", NULL };
    size_t n = strlen (path);

    n -= find_ending (path, n, packed);
    return find_ending (path, n, lines) > 0 ? INPUT_JSONL : INPUT_TEXT;
}

static bool is_blank (const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!memchr (" \t\r\n\v\f", line[i], 6))
            return false;
    }
    return true;
}

static int end_document (const struct input_sink *sink, size_t key, struct mg_error *err)
{
    if (sink->end_sequence (sink->arg, key, err) < 0)
        return -1;
    return sink->end_document (sink->arg, key, err);
}

static int read_pieces (struct data_packed *in, const struct input_sink *sink,
                        struct mg_error *err)
{
    FILE *f = data_packed_stream (in);
    char piece[PIECE];
    bool empty = true;
    size_t size;

    while ((size = fread (piece, 1, sizeof (piece), f)) > 0) {
        if (sink->text (sink->arg, 0, piece, size, err) < 0)
            return -1;
        empty = false;
    }
    if (data_packed_check (in, err) < 0)
        return -1;
    return empty ? 0 : end_document (sink, 0, err);
}

static int read_lines (struct data_packed *in, enum input_cut cut, const struct input_sink *sink,
                       struct mg_error *err)
{
    FILE *f = data_packed_stream (in);
    bool have_text = false; /* the document under way has a line that is not blank */
    bool after_blank = false;
    bool empty = true;
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int rc = -1;

    while ((size = getline (&line, &room, f)) > 0) {
        bool blank = is_blank (line, size);

        if (!blank && have_text && (after_blank || cut == INPUT_CUT_LINE)) {
            if (end_document (sink, 0, err) < 0)
                goto done;
        }
        if (sink->text (sink->arg, 0, line, size, err) < 0)
            goto done;
        have_text = have_text || !blank;
        after_blank = blank;
        empty = false;
    }
    if (data_packed_check (in, err) < 0)
        goto done;
    rc = empty ? 0 : end_document (sink, 0, err);
done:
    free (line);
    return rc;
}

int input_read_text (const char *path, enum input_cut cut, const struct input_sink *sink,
                     struct mg_error *err)
{
    struct data_packed *in;
    int rc;

    if (!(in = data_packed_open (path, err)))
        return -1;
    if (cut == INPUT_CUT_NONE)
        rc = read_pieces (in, sink, err);
    else
        rc = read_lines (in, cut, sink, err);
    data_packed_close (in);
    return rc;
}

static const char *json_type_name (const json_t *value)
{
    switch (json_typeof (value)) {
        case JSON_OBJECT:
            return "an object";
        case JSON_ARRAY:
            return "an array";
        case JSON_STRING:
            return "a string";
        case JSON_INTEGER:
        case JSON_REAL:
            return "a number";
        case JSON_TRUE:
        case JSON_FALSE:
            return "a boolean";
        case JSON_NULL:
            return "null";
    }
    return "unknown";
}

static int put_string (const json_t *string, size_t key, const struct input_sink *sink,
                       struct mg_error *err)
{
    if (sink->text (sink->arg, key, json_string_value (string),
                    json_string_length (string), err) < 0)
        return -1;
    return sink->end_sequence (sink->arg, key, err);
}

/* Read the document of one key of one line. */
static int put_value (const json_t *value, const char *name, size_t key,
                      const struct input_sink *sink, struct mg_error *err)
{
    if (!value)
        return mg_error_set (err, EINVAL, "no key \"%.60s\"", name);
    if (!json_is_string (value) && !json_is_array (value))
        return mg_error_set (err, EINVAL,
                             "value of \"%.60s\" is %s, want a string or an array of "
                             "strings", name, json_type_name (value));
    if (json_is_string (value) && put_string (value, key, sink, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size (value); i++) {
        const json_t *element = json_array_get (value, i);

        if (!json_is_string (element))
            return mg_error_set (err, EINVAL,
                                 "element %zu of \"%.60s\" is %s, want a string", i, name,
                                 json_type_name (element));
        if (put_string (element, key, sink, err) < 0)
            return -1;
    }
    return sink->end_document (sink->arg, key, err);
}

int input_parse_line (const char *line, size_t size, char *const *keys, size_t num_keys,
                      const struct input_sink *sink, struct mg_error *err)
{
    struct json_text_fault fault;
    json_t **values, *other;
    int rc;

    if (is_blank (line, size))
        return 0;
    if (!(values = calloc (num_keys + 1, sizeof (*values))))
        return mg_error_set (err, ENOMEM, "out of memory");
    rc = json_text_members (line, size, keys, num_keys, values, &other, &fault);
    if (rc < 0)
        mg_error_set (err, errno, "no JSON object on this line: %s (at byte %zu)", fault.what,
                      fault.at + 1);
    else if (other)
        rc = mg_error_set (err, EINVAL, "%s, want an object", json_type_name (other));
    for (size_t key = 0; rc == 0 && key < num_keys; key++)
        rc = put_value (values[key], keys[key], key, sink, err);
    for (size_t key = 0; key < num_keys; key++)
        json_decref (values[key]);
    json_decref (other);
    free (values);
    return rc;
}

int input_read_lines (const char *path, input_line_f *take, void *arg,
                      struct mg_error *err)
{
    size_t number = 0;
    char *line = NULL;
    size_t room = 0;
    struct data_packed *in;
    ssize_t size;
    int rc = 0;

    if (!(in = data_packed_open (path, err)))
        return -1;
    while (rc == 0 && (size = getline (&line, &room, data_packed_stream (in))) > 0)
        rc = take (arg, path, ++number, line, size, err);
    if (rc == 0)
        rc = data_packed_check (in, err);
    free (line);
    data_packed_close (in);
    return rc;
}

/* A pipe can be read only once. */
static bool is_regular (const char *path)
{
    struct stat st;

    return stat (path, &st) == 0 && S_ISREG (st.st_mode);
}

int input_check (const char *path, struct mg_error *err)
{
    struct data_packed *in;

    if (!is_regular (path)) {
        if (access (path, R_OK) < 0)
            return mg_error_set (err, errno, "cannot open %s: %s", path, strerror (errno));
        return 0;
    }
    if (!(in = data_packed_open (path, err)))
        return -1;
    data_packed_close (in);
    return 0;
}

bool input_is_compressed (const char *path)
{
    struct data_packed *in = is_regular (path) ? data_packed_open (path, NULL) : NULL;
    bool compressed = in && data_packed_compressed (in);

    data_packed_close (in);
    return compressed;
}

bool input_looks_like_json (const char *path)
{
    struct data_packed *in = is_regular (path) ? data_packed_open (path, NULL) : NULL;
    struct json_text_fault fault;
    bool looks = false;
    char line[PIECE];
    json_t *value;

    if (in && fgets (line, sizeof (line), data_packed_stream (in)) && line[0] == '{') {
        value = json_text_parse (line, strlen (line), 0, &fault);
        looks = json_is_object (value);
        json_decref (value);
    }
    data_packed_close (in);
    return looks;
}
