/* manifest.c - the manifest as an object: values, shards, its way to a file's bytes
 *
 * Values are exact: reals are written with 17 digits, and numbers that JSON lacks as texts.
 * Reading a manifest's bytes is manifest_decode.c's.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>
#include <xxhash.h>

#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"
#include "libcore/file/durable.h"

enum { MANIFEST_MAX = INT32_MAX }; /* bytes */

void manifest_destroy (struct manifest *m)
{
    if (m) {
        int saved_errno = errno;

        roster_destroy (m->roster);
        json_decref (m->values);
        free (m->shards);
        free (m);
        errno = saved_errno;
    }
}

const struct manifest_shard *manifest_shard (const struct manifest *m, int rank)
{
    size_t low = 0, high = m->num_shards;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (m->shards[mid].rank == rank)
            return &m->shards[mid];
        if (m->shards[mid].rank < rank)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* JSON has no numbers that are not finite. */
static json_t *make_real (double real)
{
    if (isnan (real))
        return json_string ("nan");
    if (isinf (real))
        return json_string (real > 0 ? "inf" : "-inf");
    return json_real (real);
}

static json_t *make_value (const struct checkpoint_value *v)
{
    switch (v->type) {
    case CHECKPOINT_INT:
        return json_integer (v->integer);
    case CHECKPOINT_REAL:
        return make_real (v->real);
    case CHECKPOINT_TEXT:
        if (v->long_text)
            return json_string (v->long_text);
        return json_stringn (v->text, strnlen (v->text, sizeof (v->text)));
    }
    return NULL;
}

int manifest_set_values (struct manifest *m, const struct checkpoint_value *values,
                         struct mg_error *err)
{
    char name[BOX_NAME_MAX];

    for (const struct checkpoint_value *v = values; v && v->name; v++) {
        if (json_object_get (m->values, v->name))
            return mg_error_set (err, EINVAL, "value %s is given twice",
                                 box_name_text (name, v->name));
        if (json_object_set_new (m->values, v->name, make_value (v)) < 0)
            return mg_error_set (err, EINVAL, "value %s, or its name, is not UTF-8",
                                 box_name_text (name, v->name));
    }
    return 0;
}

static bool read_real (json_t *item, double *real)
{
    const char *word = json_string_value (item);

    if (json_is_real (item)) {
        *real = json_real_value (item);
        return true;
    }
    if (!word)
        return false;
    *real = strcmp (word, "nan") == 0    ? NAN
            : strcmp (word, "inf") == 0  ? INFINITY
            : strcmp (word, "-inf") == 0 ? -INFINITY
                                         : 0;
    return *real != 0;
}

static bool read_value (json_t *item, struct checkpoint_value *v)
{
    switch (v->type) {
    case CHECKPOINT_INT:
        v->integer = json_integer_value (item);
        return json_is_integer (item);
    case CHECKPOINT_REAL:
        return read_real (item, &v->real);
    case CHECKPOINT_TEXT:
        if (!json_is_string (item) || json_string_length (item) >= sizeof (v->text))
            return false;
        snprintf (v->text, sizeof (v->text), "%s", json_string_value (item));
        return true;
    }
    return false;
}

int manifest_check_values (const struct manifest *m,
                           const struct checkpoint_value *values, struct mg_error *err)
{
    static const char *const types[] = {
        [CHECKPOINT_INT] = "an integer",
        [CHECKPOINT_REAL] = "a real number",
        [CHECKPOINT_TEXT] = "a text of at most 255 bytes",
    };
    char name[BOX_NAME_MAX];

    for (const struct checkpoint_value *v = values; v && v->name; v++) {
        struct checkpoint_value trial = *v;
        json_t *item = json_object_get (m->values, v->name);

        if (!item && v->optional)
            continue;
        if (!item)
            return mg_error_set (err, EINVAL, "value %s is not in the checkpoint",
                                 box_name_text (name, v->name));
        if (!read_value (item, &trial))
            return mg_error_set (err, EINVAL, "value %s in the checkpoint is not %s",
                                 box_name_text (name, v->name), types[v->type]);
    }
    return 0;
}

void manifest_get_values (const struct manifest *m, struct checkpoint_value *values)
{
    for (struct checkpoint_value *v = values; v && v->name; v++) {
        json_t *item = json_object_get (m->values, v->name);

        if (item)
            read_value (item, v);
    }
}

static json_t *encode_part (const struct roster_tensor *t, const struct roster_part *p)
{
    json_t *start = json_array (), *shape = json_array (), *sums = json_array ();
    char digits[MANIFEST_SUM_MAX];

    if (t->ndims == 2) {
        json_array_append_new (start, json_integer (p->box.row));
        json_array_append_new (shape, json_integer (p->box.rows));
    }
    json_array_append_new (start, json_integer (p->box.col));
    json_array_append_new (shape, json_integer (p->box.cols));
    for (int64_t i = 0; i < p->num_sums; i++) {
        snprintf (digits, sizeof (digits), "%016" PRIx64, p->sums[i]);
        json_array_append_new (sums, json_string (digits));
    }
    return json_pack ("{s:i, s:I, s:o, s:o, s:o}", "shard", p->rank, "offset",
                      (json_int_t)p->offset, "start", start, "shape", shape, "checksums",
                      sums);
}

static json_t *encode_tensor (const struct roster_tensor *t)
{
    json_t *shape = json_array (), *parts = json_array ();

    for (int i = 0; i < t->ndims; i++)
        json_array_append_new (shape, json_integer (t->global[i]));
    for (size_t i = 0; i < t->num_parts; i++)
        json_array_append_new (parts, encode_part (t, &t->parts[i]));
    return json_pack ("{s:s, s:s, s:o, s:o}", "name", t->name, "dtype",
                      mg_dtype_name (t->dtype), "shape", shape, "parts", parts);
}

static json_t *encode_shard (const struct manifest_shard *shard)
{
    char name[SHARD_NAME_MAX];

    shard_name (name, shard->rank);
    return json_pack ("{s:s, s:I}", "file", name, "size", (json_int_t)shard->size);
}

/* True if every append succeeded.  (Jansson's functions drop NULL values and return an
 * error.) */
static bool complete (const struct manifest *m, json_t *shards, json_t *tensors)
{
    if (json_array_size (shards) != m->num_shards
        || json_array_size (tensors) != m->roster->num_tensors)
        return false;
    for (size_t i = 0; i < m->roster->num_tensors; i++) {
        const struct roster_tensor *t = &m->roster->tensors[i];
        json_t *parts = json_object_get (json_array_get (tensors, i), "parts");

        if (json_array_size (parts) != t->num_parts)
            return false;
        for (size_t k = 0; k < t->num_parts; k++) {
            json_t *part = json_array_get (parts, k);

            if ((int64_t)json_array_size (json_object_get (part, "checksums"))
                != t->parts[k].num_sums)
                return false;
        }
    }
    return true;
}

char *manifest_encode (const struct manifest *m, size_t *len, struct mg_error *err)
{
    json_t *shards = json_array (), *tensors = json_array (), *root = NULL;
    char *text = NULL, *longer;
    size_t n;

    for (size_t i = 0; i < m->num_shards; i++)
        json_array_append_new (shards, encode_shard (&m->shards[i]));
    for (size_t i = 0; i < m->roster->num_tensors; i++)
        json_array_append_new (tensors, encode_tensor (&m->roster->tensors[i]));
    if (complete (m, shards, tensors))
        root = json_pack ("{s:s, s:i, s:I, s:s, s:I, s:O, s:O, s:O}", "format",
                          MANIFEST_FORMAT, "version", MANIFEST_VERSION, "iteration",
                          (json_int_t)m->id.iteration, "save", m->id.save, "slab_bytes",
                          (json_int_t)m->slab_bytes, "values", m->values, "shards",
                          shards, "tensors", tensors);
    if (root)
        text = json_dumps (root, JSON_COMPACT | JSON_REAL_PRECISION (17));
    json_decref (root);
    json_decref (shards);
    json_decref (tensors);
    if (!text || !(longer = realloc (text, strlen (text) + MANIFEST_END + 1))) {
        free (text);
        mg_error_set (err, ENOMEM, "out of memory for the manifest");
        return NULL;
    }
    text = longer;
    n = strlen (text) - 1; /* the closing brace moves behind the checksum */
    snprintf (text + n, MANIFEST_END + 1, MANIFEST_END_FORMAT, XXH3_64bits (text, n));
    *len = n + MANIFEST_END;
    return text;
}

int manifest_read (const char *path, char **text, size_t *len, struct mg_error *err)
{
    char *file;
    int rc;

    if (!(file = durable_path (err, "%s/" MANIFEST_NAME, path)))
        return -1;
    rc = durable_read (file, MANIFEST_MAX, text, len, err);
    free (file);
    return rc;
}

int manifest_check_shards (const struct manifest *m, const char *path,
                           struct mg_error *err)
{
    for (size_t i = 0; i < m->num_shards; i++) {
        char name[SHARD_NAME_MAX];
        struct stat st;
        char *file;
        int rc;

        shard_name (name, m->shards[i].rank);
        if (!(file = durable_path (err, "%s/%s", path, name)))
            return -1;
        rc = stat (file, &st);
        free (file);
        if (rc < 0 && errno == ENOENT)
            return mg_error_set (err, ENOENT, "%s: %s is missing (each node must see the "
                                 "same directory)", path, name);
        if (rc < 0)
            return mg_error_set (err, errno, "%s: %s: %s", path, name, strerror (errno));
        if (st.st_size != m->shards[i].size)
            return mg_error_set (err, EBADMSG, "%s: %s has %jd bytes, want %" PRId64,
                                 path, name, (intmax_t)st.st_size, m->shards[i].size);
    }
    return 0;
}
