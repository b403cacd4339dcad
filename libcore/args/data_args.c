/* data_args.c - from JSON to the words of three lists */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/args/data_args.h"

/* A copy of a word, which the caller frees: a string as it is, a number in digits.  NULL and a text
 * if it is neither.
 */
static char *copy_word (const char *path, const char *key, const json_t *value,
                        struct mg_error *err)
{
    char *word = NULL;

    if (json_is_string (value))
        word = strdup (json_string_value (value));
    else if (json_is_number (value))
        word = json_dumps (value, JSON_ENCODE_ANY);
    else {
        mg_error_set (err, EINVAL, "%s: \"%s\" has a word that is neither a string nor a number",
                      path, key);
        return NULL;
    }
    if (!word)
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
    else if (word[strspn (word, " \t\n\v\f\r")] == '\0') {
        mg_error_set (err, EINVAL, "%s: \"%s\" has a word that is empty", path, key);
        free (word);
        word = NULL;
    }
    return word;
}

/* Append a word and its zero to *text, of *size bytes. */
static int append (char **text, size_t *size, const char *word, struct mg_error *err)
{
    size_t n = strlen (word) + 1;
    char *more = realloc (*text, *size + n);

    if (!more)
        return mg_error_set (err, ENOMEM, "out of memory");
    memcpy (more + *size, word, n);
    *text = more;
    *size += n;
    return 0;
}

/* All words of a list, each with its zero. */
static int join (const char *path, const char *key, const json_t *list, char **text, size_t *size,
                 struct mg_error *err)
{
    for (size_t i = 0; i < json_array_size (list); i++) {
        char *word = copy_word (path, key, json_array_get (list, i), err);
        int rc = word ? append (text, size, word, err) : -1;

        free (word);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* The words of a string, each with its zero. */
static int divide (const char *string, char **text, size_t *size, struct mg_error *err)
{
    static const char blanks[] = " \t\n\v\f\r";

    for (const char *at = string + strspn (string, blanks); *at; at += strspn (at, blanks)) {
        size_t n = strcspn (at, blanks);
        char *word = strndup (at, n);
        int rc = word ? append (text, size, word, err)
                      : mg_error_set (err, ENOMEM, "out of memory");

        free (word);
        if (rc < 0)
            return -1;
        at += n;
    }
    return 0;
}

/* Words that point into 'text', which the result owns, also after a failure. */
static struct args_file *make_words (const char *path, char *text, size_t size,
                                     struct mg_error *err)
{
    struct args_file *f = calloc (1, sizeof (*f));

    if (!f) {
        free (text);
        goto error;
    }
    f->text = text;
    for (size_t i = 0; i < size; i += strlen (text + i) + 1)
        f->count++;
    if (!(f->path = strdup (path)) || !(f->word = calloc ((size_t)f->count + 1, sizeof (*f->word))))
        goto error;
    for (int i = 0; i < f->count; i++) {
        f->word[i] = text;
        text += strlen (text) + 1;
    }
    return f;
error:
    args_file_destroy (f);
    mg_error_set (err, ENOMEM, "%s: out of memory", path);
    return NULL;
}

static int read_part (const char *path, const char *key, const json_t *value,
                      struct args_file **part, struct mg_error *err)
{
    char *text = NULL;
    size_t size = 0;
    int rc;

    if (!value || json_is_null (value))
        return 0;
    if (json_is_string (value))
        rc = divide (json_string_value (value), &text, &size, err);
    else if (json_is_array (value))
        rc = join (path, key, value, &text, &size, err);
    else
        rc = mg_error_set (err, EINVAL, "%s: \"%s\" is neither a list nor a string", path, key);
    if (rc == 0 && size == 0)
        rc = mg_error_set (err, EINVAL, "%s: \"%s\" has no word; null names no data", path, key);
    if (rc < 0) {
        free (text);
        return -1;
    }
    *part = make_words (path, text, size, err);
    return *part ? 0 : -1;
}

static int read_parts (const char *path, json_t *root, struct data_args *data,
                       struct mg_error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object (root))
        return mg_error_set (err, EINVAL, "%s: no JSON object, want one with the keys train, valid "
                             "and test", path);
    json_object_foreach (root, key, value) {
        enum split_part part;

        if (split_part_by_name (key, &part, NULL) < 0)
            return mg_error_set (err, EINVAL, "%s: key \"%.40s\" is unknown, want train, valid and "
                                 "test", path, key);
        if (read_part (path, key, value, &data->part[part], err) < 0)
            return -1;
    }
    return 0;
}

struct data_args *data_args_parse (const char *path, const char *text, size_t size,
                                   struct mg_error *err)
{
    struct data_args *data = NULL;
    json_error_t why;
    json_t *root;

    if (size > DATA_ARGS_MAX) {
        mg_error_set (err, EFBIG, "%s: more than %d bytes are too many for names of data", path,
                      (int)DATA_ARGS_MAX);
        return NULL;
    }
    if (!(root = json_loadb (text, size, JSON_REJECT_DUPLICATES, &why))) {
        mg_error_set (err, EINVAL, "%s:%d: no JSON: %s", path, why.line, why.text);
        return NULL;
    }
    if (!(data = calloc (1, sizeof (*data))))
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
    else if (read_parts (path, root, data, err) < 0) {
        data_args_destroy (data);
        data = NULL;
    }
    json_decref (root);
    return data;
}

struct data_args *data_args_read (const char *path, struct mg_error *err)
{
    struct data_args *data;
    size_t size;
    char *text = args_file_bytes (path, DATA_ARGS_MAX, &size, err);

    if (!text)
        return NULL;
    data = data_args_parse (path, text, size, err);
    free (text);
    return data;
}

void data_args_destroy (struct data_args *data)
{
    if (data) {
        int saved_errno = errno;

        for (int i = 0; i < SPLIT_NUM_PARTS; i++)
            args_file_destroy (data->part[i]);
        free (data);
        errno = saved_errno;
    }
}
