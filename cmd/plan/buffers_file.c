/* buffers_file.c - the list of parameters that megatron plan buffers --params reads
 *
 * The file is JSON, an array of objects with name, shape and flags.  It comes from a user: every
 * key, type and size is checked, and names must differ.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "cmd/plan/buffers.h"

static const struct type {
    const char *name;
    enum mg_dtype logical, storage;
} types[] = {
    { "bf16", MG_BFLOAT16, MG_BFLOAT16 },  { "bfloat16", MG_BFLOAT16, MG_BFLOAT16 },
    { "fp32", MG_FLOAT32, MG_FLOAT32 },    { "float32", MG_FLOAT32, MG_FLOAT32 },
    { "fp16", MG_FLOAT16, MG_FLOAT16 },    { "float16", MG_FLOAT16, MG_FLOAT16 },
    { "fp8", MG_BFLOAT16, MG_UINT8 },      { "uint8", MG_BFLOAT16, MG_UINT8 },
};
enum { NUM_TYPES = sizeof (types) / sizeof (types[0]) };

static const char *const keys[] = { "name", "shape", "dtype", "shared_embedding", "expert" };
enum { NUM_KEYS = sizeof (keys) / sizeof (keys[0]) };

int plan_buffers_allocate (struct plan_buffers *b, size_t n, struct mg_error *err)
{
    b->n = n;
    b->param = calloc (n + 1, sizeof (*b->param));
    b->name = calloc (n + 1, sizeof (*b->name));
    return b->param && b->name ? 0 : mg_error_set (err, ENOMEM, "out of memory");
}

static int check_keys (const json_t *row, struct mg_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)row, key, value) {
        int i = 0;

        while (i < NUM_KEYS && strcmp (keys[i], key) != 0)
            i++;
        if (i == NUM_KEYS)
            return mg_error_set (err, EINVAL, "\"%.40s\" is none of name, shape, dtype, "
                                 "shared_embedding, expert", key);
    }
    return 0;
}

static int read_type (const json_t *dtype, struct layout_param *p, struct mg_error *err)
{
    const char *text = dtype ? json_string_value (dtype) : "bf16", *name = text;

    if (!text)
        return mg_error_set (err, EINVAL, "its dtype is not a text");
    if (strncmp (name, "torch.", 6) == 0)
        name += 6;
    for (int i = 0; i < NUM_TYPES; i++) {
        if (strcmp (types[i].name, name) == 0) {
            p->logical = types[i].logical;
            p->storage = types[i].storage;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "its dtype \"%.40s\" is none of bf16, fp16, fp32, fp8",
                         text);
}

static int read_shape (const json_t *shape, int64_t *numel, struct mg_error *err)
{
    *numel = 1;
    if (!json_is_array (shape))
        return mg_error_set (err, EINVAL, "its shape is %s", shape ? "not a list" : "missing");
    for (size_t d = 0; d < json_array_size (shape); d++) {
        const json_t *size = json_array_get (shape, d);

        if (!json_is_integer (size))
            return mg_error_set (err, EINVAL, "size %zu of its shape is not a whole number", d);
        if (json_integer_value (size) < 0)
            return mg_error_set (err, EINVAL, "size %zu of its shape is %" JSON_INTEGER_FORMAT
                                 ", below 0", d, json_integer_value (size));
        if (__builtin_mul_overflow (*numel, json_integer_value (size), numel))
            return mg_error_set (err, EOVERFLOW, "its shape has more elements than %" PRId64,
                                 INT64_MAX);
    }
    return 0;
}

static int read_flag (const json_t *row, const char *key, bool *flag, struct mg_error *err)
{
    const json_t *value = json_object_get (row, key);

    *flag = json_is_true (value);
    if (value && !json_is_boolean (value))
        return mg_error_set (err, EINVAL, "its %s is neither true nor false", key);
    return 0;
}

static int read_param (const json_t *row, struct layout_param *p, char **name,
                       struct mg_error *err)
{
    const char *text = json_string_value (json_object_get (row, "name"));

    if (!json_is_object (row))
        return mg_error_set (err, EINVAL, "it is not an object");
    if (!text || !*text)
        return mg_error_set (err, EINVAL, "it has no name");
    if (check_keys (row, err) < 0
        || read_shape (json_object_get (row, "shape"), &p->numel, err) < 0
        || read_type (json_object_get (row, "dtype"), p, err) < 0
        || read_flag (row, "shared_embedding", &p->shared_embedding, err) < 0
        || read_flag (row, "expert", &p->expert, err) < 0)
        return mg_error_prefix (err, "%.80s", text);
    if (!(*name = strdup (text)))
        return mg_error_set (err, ENOMEM, "out of memory");
    return 0;
}

/* Keep the first parameter of a name in "seen", so that the message can name its place. */
static int check_name (json_t *seen, const char *name, size_t i, struct mg_error *err)
{
    const json_t *before = json_object_get (seen, name);

    if (before)
        return mg_error_set (err, EINVAL, "%.80s: parameter %" JSON_INTEGER_FORMAT
                             " has this name", name, json_integer_value (before));
    if (json_object_set_new (seen, name, json_integer ((json_int_t)i)) < 0)
        return mg_error_set (err, ENOMEM, "out of memory");
    return 0;
}

static int read_list (struct plan_buffers *b, const json_t *list, struct mg_error *err)
{
    json_t *seen;
    int rc = 0;

    if (!json_is_array (list))
        return mg_error_set (err, EINVAL, "it is not a list of parameters");
    if (plan_buffers_allocate (b, json_array_size (list), err) < 0)
        return -1;
    if (!(seen = json_object ()))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < b->n; i++) {
        if (read_param (json_array_get (list, i), &b->param[i], &b->name[i], err) < 0
            || check_name (seen, b->name[i], i, err) < 0)
            rc = mg_error_prefix (err, "parameter %zu", i);
    }
    json_decref (seen);
    return rc;
}

int plan_buffers_read_file (struct plan_buffers *b, const char *path, struct mg_error *err)
{
    FILE *f = fopen (path, "re");
    struct stat st;
    json_error_t why;
    json_t *list;
    int rc;

    if (!f)
        return mg_error_set (err, errno, "%s: %s", path, strerror (errno));
    if (fstat (fileno (f), &st) == 0 && S_ISDIR (st.st_mode)) {
        fclose (f);
        return mg_error_set (err, EISDIR, "%s: %s", path, strerror (EISDIR));
    }
    list = json_loadf (f, JSON_REJECT_DUPLICATES, &why);
    fclose (f);
    if (!list)
        return mg_error_set (err, EINVAL, "%s: line %d: not JSON: %s", path, why.line, why.text);
    rc = read_list (b, list, err);
    json_decref (list);
    return rc < 0 ? mg_error_prefix (err, "%s", path) : 0;
}
