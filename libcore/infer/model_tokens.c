/* model_tokens.c - files beside the weights */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "libcore/args/file.h"
#include "libcore/infer/model_tokens.h"
#include "libcore/text/json_text.h"

enum { CONFIG_MAX = 1 << 20 };

/* The path of a file in the directory of the weights; the caller frees it. */
static char *beside (const char *load, const char *name, struct mg_error *err)
{
    const char *slash = strrchr (load, '/');
    size_t size = strlen (load) + strlen (name) + 2;
    char *path = malloc (size);
    struct stat st;

    if (!path) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    if (stat (load, &st) == 0 && S_ISDIR (st.st_mode))
        snprintf (path, size, "%s/%s", load, name);
    else
        snprintf (path, size, "%.*s%s", slash ? (int)(slash + 1 - load) : 0, load, name);
    return path;
}

int model_tokens_append (const json_t *value, const char *what, struct token_buffer *ids,
                         struct mg_error *err)
{
    size_t n = json_is_array (value) ? json_array_size (value) : value ? 1 : 0;

    if (json_is_null (value))
        return 0;
    if (token_buffer_reserve (ids, n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array (value) ? json_array_get (value, i) : value;

        if (!json_is_integer (id) || json_integer_value (id) < 0
            || json_integer_value (id) > INT32_MAX)
            return mg_error_set (err, EINVAL, "%s: want ids of tokens, 0 to %d", what, INT32_MAX);
        ids->ids[ids->count++] = (int32_t)json_integer_value (id);
    }
    return 0;
}

static json_t *read_object (const char *path, struct mg_error *err)
{
    struct json_text_fault fault;
    size_t size;
    char *text = args_file_bytes (path, CONFIG_MAX, &size, err);
    json_t *value = NULL;

    if (!text)
        return NULL;
    if (size > CONFIG_MAX)
        mg_error_set (err, EFBIG, "%s: more than %d bytes", path, CONFIG_MAX);
    else if (!(value = json_text_parse (text, size, 0, &fault)))
        mg_error_set (err, EINVAL, "%s: line %zu: %s", path, fault.line, fault.what);
    free (text);
    return value;
}

/* Read the tokens of generation_config.json, if there is one. */
static int read_generation (struct model_tokens *m, const char *load, struct mg_error *err)
{
    char *path = beside (load, "generation_config.json", err);
    struct token_buffer first = { 0 };
    struct stat st;
    json_t *config = NULL;
    int rc = path ? 0 : -1;

    if (path && stat (path, &st) == 0) {
        rc = (config = read_object (path, err)) ? 0 : -1;
        if (rc == 0)
            rc = model_tokens_append (json_object_get (config, "eos_token_id"), path, &m->ends,
                                      err);
        if (rc == 0)
            rc = model_tokens_append (json_object_get (config, "bos_token_id"), path, &first, err);
        if (rc == 0 && first.count > 0)
            m->first = first.ids[0];
    }
    json_decref (config);
    free (first.ids);
    free (path);
    return rc;
}

char *model_tokens_file (const char *load, const char *name, size_t max, size_t *size,
                         struct mg_error *err)
{
    char *path = beside (load, name, err), *text = path ? args_file_bytes (path, max, size, err)
                                                        : NULL;

    if (text && *size > max) {
        free (text);
        text = NULL;
        mg_error_set (err, EFBIG, "%s: more than %zu bytes", path, max);
    }
    free (path);
    return text;
}

json_t *model_tokens_config (const char *load, struct mg_error *err)
{
    char *path = beside (load, "tokenizer_config.json", err);
    json_t *config = NULL;
    struct stat st;

    if (path && stat (path, &st) < 0) {
        if (!(config = json_object ()))
            mg_error_set (err, ENOMEM, "out of memory");
    } else if (path && (config = read_object (path, err)) && !json_is_object (config)) {
        mg_error_set (err, EINVAL, "%s: want an object of JSON", path);
        json_decref (config);
        config = NULL;
    }
    free (path);
    return config;
}

static int make_tokenizer (struct model_tokens *m, const char *load,
                           const struct data_config *data, bool bare, struct mg_error *err)
{
    struct tokenizer_files files = data->tokenizer_files;
    const char *type = data->tokenizer;
    struct stat st;
    char *path = NULL;
    int rc = 0;

    files.no_eod = true;
    if (!type) {
        if (!(path = beside (load, "tokenizer.json", err)))
            return -1;
        files.model = path;
        files.vocab = files.merge = NULL;
        type = stat (path, &st) == 0 ? tokenizer_hf_ops.name : NULL;
    }
    files.no_special_tokens |= bare && type && strcasecmp (type, tokenizer_hf_ops.name) == 0;
    if (type && !(m->tokenizer = tokenizer_create (type, &files, err)))
        rc = -1;
    free (path);
    return rc;
}

/* Use the tokenizer's end of a document if nothing else is known. */
static int add_end (struct model_tokens *m, struct mg_error *err)
{
    int32_t eod = m->tokenizer ? tokenizer_eod (m->tokenizer) : -1;

    if (eod >= 0 && m->ends.count == 0) {
        if (token_buffer_reserve (&m->ends, 1, err) < 0)
            return -1;
        m->ends.ids[m->ends.count++] = eod;
    }
    if (m->first < 0)
        m->first = eod;
    if (m->first < 0 && m->ends.count > 0)
        m->first = m->ends.ids[0];
    return 0;
}

int model_tokens_find (struct model_tokens *m, const char *load, const struct data_config *data,
                       bool bare, struct mg_error *err)
{
    *m = (struct model_tokens){ .first = -1 };
    if (make_tokenizer (m, load, data, bare, err) == 0 && read_generation (m, load, err) == 0
        && add_end (m, err) == 0)
        return 0;
    model_tokens_clear (m);
    return -1;
}

void model_tokens_clear (struct model_tokens *m)
{
    int saved_errno = errno;

    tokenizer_destroy (m->tokenizer);
    free (m->ends.ids);
    *m = (struct model_tokens){ .first = -1 };
    errno = saved_errno;
}
