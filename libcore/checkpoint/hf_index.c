/* hf_index.c - the file of each tensor */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/hf_index.h"
#include "libcore/text/json_text.h"

enum { MAX_FILES = 10000 };

static json_t *weight_map (const struct hf_index *index)
{
    return json_object_get (index->root, "weight_map");
}

static bool is_plain (const char *name)
{
    return *name && *name != '.' && !strchr (name, '/') && strlen (name) < 256;
}

static int compare_names (const void *a, const void *b)
{
    return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* Sort the names, and drop those that are there twice. */
static int sort_files (struct hf_index *index, struct mg_error *err)
{
    char text[BOX_NAME_MAX];
    size_t n = 0;

    qsort (index->file, index->num_files, sizeof (*index->file), compare_names);
    for (size_t i = 0; i < index->num_files; i++) {
        if (n > 0 && strcmp (index->file[n - 1], index->file[i]) == 0)
            continue;
        if (!is_plain (index->file[i]))
            return mg_error_set (err, EINVAL, "weight_map: \"%s\" is no name of a file beside it",
                                 box_name_text (text, index->file[i]));
        if (n == MAX_FILES)
            return mg_error_set (err, EINVAL, "weight_map names more than %d files", MAX_FILES);
        index->file[n++] = index->file[i];
    }
    index->num_files = n;
    return 0;
}

static int read_map (struct hf_index *index, struct mg_error *err)
{
    const size_t most = json_object_size (weight_map (index));
    char text[BOX_NAME_MAX];
    const char *name;
    json_t *file;

    if (most == 0)
        return mg_error_set (err, EINVAL, "weight_map is not there, or empty");
    if (!(index->file = calloc (most, sizeof (*index->file))))
        return mg_error_set (err, ENOMEM, "out of memory for an index");
    json_object_foreach (weight_map (index), name, file) {
        if (!json_is_string (file))
            return mg_error_set (err, EINVAL, "weight_map: %s has no name of a file",
                                 box_name_text (text, name));
        index->file[index->num_files++] = json_string_value (file);
    }
    return sort_files (index, err);
}

int hf_index_parse (const char *text, size_t len, struct hf_index *index, struct mg_error *err)
{
    struct json_text_fault why;

    *index = (struct hf_index){ .root = json_text_parse (text, len, 0, &why) };
    if (!index->root)
        return mg_error_set (err, errno, "not valid JSON: line %zu: %s", why.line, why.what);
    if (read_map (index, err) < 0) {
        hf_index_clear (index);
        return -1;
    }
    return 0;
}

void hf_index_clear (struct hf_index *index)
{
    int saved_errno = errno;

    json_decref (index->root);
    free (index->file);
    *index = (struct hf_index){ .root = NULL };
    errno = saved_errno;
}

/* True if any file has the tensor. */
static bool is_somewhere (const struct hf_index *index, struct safetensors *const *file,
                          const char *name)
{
    bool found = false;

    for (size_t i = 0; !found && i < index->num_files; i++)
        found = safetensors_type (file[i], name);
    return found;
}

int hf_index_check (const struct hf_index *index, struct safetensors *const *file,
                    struct mg_error *err)
{
    char text[BOX_NAME_MAX], where[BOX_NAME_MAX];
    const char *name;
    json_t *value;

    json_object_foreach (weight_map (index), name, value) {
        const char *said = json_string_value (value);
        const char *const *at = bsearch (&said, index->file, index->num_files, sizeof (*at),
                                         compare_names);

        if (!safetensors_type (file[at - index->file], name) && !is_somewhere (index, file, name))
            return mg_error_set (err, EINVAL, "tensor %s is not in %s, as the index says",
                                 box_name_text (text, name), box_name_text (where, said));
    }
    return 0;
}
