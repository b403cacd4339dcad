/* manifest_decode.c - a manifest from a file's bytes, trusting none of them
 *
 * Every key, type, count and range is checked before it is used, and a roster is built with its
 * own checks (roster.h).  A manifest of another version is told apart from a damaged one.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"

enum { SLAB_BYTES_MAX = 1 << 30 };

/* 16 lower-case hexadecimal digits, exactly. */
static bool read_sum (const char *text, uint64_t *sum)
{
    if (!text || strlen (text) != 16 || strspn (text, "0123456789abcdef") != 16)
        return false;
    *sum = strtoull (text, NULL, 16);
    return true;
}

static int check_ends (const char *text, size_t len, struct mg_error *err)
{
    const size_t first = sizeof (MANIFEST_BEGIN) - 1;
    char digits[MANIFEST_SUM_MAX] = "", end[MANIFEST_END + 1];
    uint64_t sum;
    size_t n;

    if (memcmp (text, MANIFEST_BEGIN, len < first ? len : first) != 0)
        return mg_error_set (err, EBADMSG, "not the manifest of a checkpoint");
    if (len < first + MANIFEST_END)
        return mg_error_set (err, EBADMSG, "truncated at %zu bytes", len);
    n = len - MANIFEST_END;
    memcpy (digits, text + len - 3 - 16, 16);
    if (!read_sum (digits, &sum))
        return mg_error_set (err, EBADMSG, "truncated at %zu bytes", len);
    snprintf (end, sizeof (end), MANIFEST_END_FORMAT, sum);
    if (memcmp (text + n, end, MANIFEST_END) != 0)
        return mg_error_set (err, EBADMSG, "truncated at %zu bytes", len);
    if (XXH3_64bits (text, n) != sum)
        return mg_error_set (err, EBADMSG, "its checksum is wrong: damaged");
    return 0;
}

static bool read_int (json_t *object, const char *key, int64_t min, int64_t max,
                      int64_t *out)
{
    json_t *item = json_object_get (object, key);

    *out = json_integer_value (item);
    return json_is_integer (item) && *out >= min && *out <= max;
}

/* A list of exactly ndims sizes, each 0 or more. */
static bool read_sizes (json_t *list, int64_t *sizes, int ndims)
{
    if (!json_is_array (list) || json_array_size (list) != (size_t)ndims)
        return false;
    for (int i = 0; i < ndims; i++) {
        json_t *item = json_array_get (list, (size_t)i);

        sizes[i] = json_integer_value (item);
        if (!json_is_integer (item) || sizes[i] < 0)
            return false;
    }
    return true;
}

static int decode_head (struct manifest *m, json_t *root, struct mg_error *err)
{
    const char *save = json_string_value (json_object_get (root, "save"));
    int64_t version;
    uint64_t unused;

    if (!read_int (root, "version", INT64_MIN, INT64_MAX, &version))
        return mg_error_set (err, EBADMSG, "no format version");
    if (version != MANIFEST_VERSION)
        return mg_error_set (err, ENOTSUP, "format version %" PRId64
                             ", this program reads %d", version, MANIFEST_VERSION);
    if (!read_int (root, "iteration", 0, INT64_MAX, &m->id.iteration)
        || !read_int (root, "slab_bytes", 1, SLAB_BYTES_MAX, &m->slab_bytes)
        || !read_sum (save, &unused))
        return mg_error_set (err, EBADMSG,
                             "iteration, save or slab_bytes makes no sense");
    memcpy (m->id.save, save, sizeof (m->id.save));
    m->values = json_incref (json_object_get (root, "values"));
    if (!json_is_object (m->values))
        return mg_error_set (err, EBADMSG, "values are not an object");
    return 0;
}

static int decode_shards (struct manifest *m, json_t *list, struct mg_error *err)
{
    json_t *item;
    size_t i;

    if (!json_is_array (list))
        return mg_error_set (err, EBADMSG, "shards are not a list");
    if (!(m->shards = calloc (json_array_size (list) + 1, sizeof (*m->shards))))
        return mg_error_set (err, ENOMEM, "out of memory");
    json_array_foreach (list, i, item) {
        const char *file = json_string_value (json_object_get (item, "file"));
        struct manifest_shard *shard = &m->shards[i];

        shard->rank = file ? shard_rank (file) : -1;
        if (shard->rank < 0 || (i > 0 && shard->rank <= shard[-1].rank)
            || !read_int (item, "size", SHARD_HEADER_BYTES, INT64_MAX, &shard->size))
            return mg_error_set (err, EBADMSG, "shard %zu makes no sense", i);
        m->num_shards++;
    }
    return 0;
}

static int decode_sums (json_t *list, int64_t want, struct roster_part *part,
                        const char *what, struct mg_error *err)
{
    json_t *item;
    size_t i;

    if (!json_is_array (list) || (int64_t)json_array_size (list) != want)
        return mg_error_set (err, EBADMSG, "%s: a part has not %" PRId64 " checksums",
                             what, want);
    if (!(part->sums = calloc ((size_t)want, sizeof (*part->sums))))
        return mg_error_set (err, ENOMEM, "out of memory");
    json_array_foreach (list, i, item) {
        if (!read_sum (json_string_value (item), &part->sums[i])) {
            free (part->sums);
            return mg_error_set (err, EBADMSG, "%s: a checksum is not 16 hexadecimal "
                                 "digits", what);
        }
    }
    part->num_sums = want;
    return 0;
}

static int decode_part (const struct manifest *m, struct roster_tensor *t, json_t *item,
                        const char *what, struct mg_error *err)
{
    struct piece p = { .name = "part", .dtype = t->dtype, .ndims = t->ndims, .data = &p };
    const size_t size = mg_dtype_size (t->dtype);
    struct roster_part part = { .index = t->num_parts };
    const struct manifest_shard *shard;
    int64_t rank, end;

    memcpy (p.global, t->global, sizeof (p.global));
    if (!read_sizes (json_object_get (item, "start"), p.offset, t->ndims)
        || !read_sizes (json_object_get (item, "shape"), p.extent, t->ndims)
        || box_check_piece (&p, NULL) < 0 || box_count (box_of_piece (&p)) == 0
        || box_count (box_of_piece (&p)) != box_count (box_of_inside (&p)))
        return mg_error_set (err, EBADMSG, "%s: a part is not inside the tensor", what);
    part.box = box_of_piece (&p);
    if (!read_int (item, "shard", 0, INT32_MAX, &rank)
        || !(shard = manifest_shard (m, (int)rank)))
        return mg_error_set (err, EBADMSG, "%s: a part is in no listed shard", what);
    if (!read_int (item, "offset", SHARD_HEADER_BYTES, INT64_MAX, &part.offset)
        || __builtin_add_overflow (part.offset, box_count (part.box) * (int64_t)size,
                                   &end)
        || end > shard->size)
        return mg_error_set (err, EBADMSG, "%s: a part reaches beyond its shard", what);
    part.rank = (int)rank;
    if (decode_sums (json_object_get (item, "checksums"),
                     box_num_slabs (part.box, shard_slab (m->slab_bytes, size)), &part,
                     what, err) < 0)
        return -1;
    return roster_add_part (t, &part, err);
}

static bool find_dtype (const char *name, enum mg_dtype *dtype)
{
    for (int i = 0; name && i < MG_NUM_DTYPES; i++) {
        if (strcmp (name, mg_dtype_name ((enum mg_dtype)i)) == 0) {
            *dtype = (enum mg_dtype)i;
            return true;
        }
    }
    return false;
}

static int decode_tensor (struct manifest *m, json_t *item, struct mg_error *err)
{
    const char *name = json_string_value (json_object_get (item, "name"));
    const char *type = json_string_value (json_object_get (item, "dtype"));
    json_t *shape = json_object_get (item, "shape"), *part;
    json_t *parts = json_object_get (item, "parts");
    char what[BOX_NAME_MAX];
    struct piece p = { .ndims = (int)json_array_size (shape), .data = &p };
    struct roster_tensor *t;
    size_t i;

    if (!name || *name == '\0' || strlen (name) >= PIECE_NAME_MAX)
        return mg_error_set (err, EBADMSG, "a tensor has no name, or one of more than %d "
                             "bytes", PIECE_NAME_MAX - 1);
    box_name_text (what, name);
    memcpy (p.name, name, strlen (name));
    if (!find_dtype (type, &p.dtype) || json_array_size (shape) > PIECE_MAX_DIMS
        || !read_sizes (shape, p.global, p.ndims) || box_check_piece (&p, NULL) < 0
        || !json_is_array (parts))
        return mg_error_set (err, EBADMSG, "%s: data type, shape or parts make no sense",
                             what);
    if (roster_find (m->roster, name))
        return mg_error_set (err, EBADMSG, "%s: listed twice", what);
    if (!(t = roster_add (m->roster, name, p.dtype, p.ndims, p.global, "it", err)))
        return -1;
    json_array_foreach (parts, i, part) {
        if (decode_part (m, t, part, what, err) < 0)
            return -1;
    }
    return 0;
}

static int decode_all (struct manifest *m, json_t *root, struct mg_error *err)
{
    json_t *tensors = json_object_get (root, "tensors"), *item;
    size_t i;

    if (decode_head (m, root, err) < 0
        || decode_shards (m, json_object_get (root, "shards"), err) < 0)
        return -1;
    if (!json_is_array (tensors))
        return mg_error_set (err, EBADMSG, "tensors are not a list");
    json_array_foreach (tensors, i, item) {
        if (decode_tensor (m, item, err) < 0)
            return -1;
    }
    if (roster_check_cover (m->roster, err) < 0) {
        errno = EBADMSG;
        return -1;
    }
    return 0;
}

struct manifest *manifest_decode (const char *text, size_t len, struct mg_error *err)
{
    struct manifest *m = NULL;
    json_t *root = NULL;
    json_error_t why;

    if (check_ends (text, len, err) < 0)
        return NULL;
    if (!(root = json_loadb (text, len, JSON_REJECT_DUPLICATES, &why))) {
        char shown[BOX_NAME_MAX];

        mg_error_set (err, EBADMSG, "byte %d: %s", why.position,
                      box_name_text (shown, why.text));
        goto error;
    }
    if (!(m = calloc (1, sizeof (*m)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto error;
    }
    if (!(m->roster = roster_create (err)) || decode_all (m, root, err) < 0)
        goto error;
    json_decref (root);
    return m;
error:
    json_decref (root);
    manifest_destroy (m);
    return NULL;
}
