/* hf_index.c - which file has which tensor */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/hf_index.h"
#include "libcore/data/json_text.h"

enum { MAX_FILES = 10000 };

static json_t *weight_map (const struct hf_index *index)
{
    return json_object_get (index->root, "weight_map");
}

static bool is_plain (const char *name)
{
    return *name && *name != '.' && !strchr (name, '/') && strlen (name) < 256;
}

static int add_file (struct hf_index *index, const char *name, struct mg_error *err)
{
    char text[BOX_NAME_MAX];

    /* Tensors of a file mostly follow each other. */
    for (size_t i = index->num_files; i-- > 0;) {
        if (strcmp (index->file[i], name) == 0)
            return 0;
    }
    if (!is_plain (name))
        return mg_error_set (err, EINVAL, "weight_map: \"%s\" is no name of a file beside it",
                             box_name_text (text, name));
    if (index->num_files == MAX_FILES)
        return mg_error_set (err, EINVAL, "weight_map names more than %d files", MAX_FILES);
    index->file[index->num_files++] = name;
    return 0;
}

static int read_map (struct hf_index *index, struct mg_error *err)
{
    char text[BOX_NAME_MAX];
    const char *name;
    json_t *file;

    if (json_object_size (weight_map (index)) == 0)
        return mg_error_set (err, EINVAL, "weight_map is not there, or empty");
    if (!(index->file = calloc (MAX_FILES, sizeof (*index->file))))
        return mg_error_set (err, ENOMEM, "out of memory for an index");
    json_object_foreach (weight_map (index), name, file) {
        if (!json_is_string (file))
            return mg_error_set (err, EINVAL, "weight_map: %s has no name of a file",
                                 box_name_text (text, name));
        if (add_file (index, json_string_value (file), err) < 0)
            return -1;
    }
    return 0;
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

/* Has a file only tensors that the index says are in it?  Adds their number to *found.  A tensor
 * that cannot be read, such as a mask, may be there without the index.
 */
static int check_file (const struct hf_index *index, size_t i, const struct safetensors *file,
                       size_t *found, struct mg_error *err)
{
    char text[BOX_NAME_MAX], said[BOX_NAME_MAX];

    for (size_t k = 0; k < safetensors_count_names (file); k++) {
        const char *name = safetensors_name_at (file, k);
        const char *where = json_string_value (json_object_get (weight_map (index), name));

        if (!where && !safetensors_find (file, name))
            continue;
        if (!where)
            return mg_error_set (err, EINVAL, "tensor %s of %s is not in the index",
                                 box_name_text (text, name), index->file[i]);
        if (strcmp (where, index->file[i]) != 0)
            return mg_error_set (err, EINVAL, "tensor %s is in %s, the index says %s",
                                 box_name_text (text, name), index->file[i],
                                 box_name_text (said, where));
        ++*found;
    }
    return 0;
}

int hf_index_check (const struct hf_index *index, struct safetensors *const *file,
                    struct mg_error *err)
{
    size_t found = 0, said = json_object_size (weight_map (index));
    char text[BOX_NAME_MAX], where[BOX_NAME_MAX];
    const char *name;
    json_t *value;

    for (size_t i = 0; i < index->num_files; i++) {
        if (check_file (index, i, file[i], &found, err) < 0)
            return -1;
    }
    if (found == said)
        return 0;
    json_object_foreach (weight_map (index), name, value) {
        bool there = false;

        for (size_t i = 0; !there && i < index->num_files; i++)
            there = safetensors_type (file[i], name);
        if (!there)
            return mg_error_set (err, EINVAL, "tensor %s is not in %s, as the index says",
                                 box_name_text (text, name),
                                 box_name_text (where, json_string_value (value)));
    }
    return 0;
}
