/* safetensors.c - open a safetensors file, check all of its header, find tensors
 *
 * Format (huggingface/safetensors, README "Format"): 8 bytes little-endian header length
 * N; N bytes of JSON, an object that starts with '{' and may end in blanks; then the
 * tensors' bytes, without holes or overlaps, to the end of the file.  Keys are tensor
 * names, and "__metadata__", an object of strings.  Duplicate keys are not allowed.
 */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/checkpoint/safetensors_format.h"

enum { MAX_NOTES = 1000 }; /* that are kept */

struct stored_tensor { /* one tensor of the file */
    struct safetensors_entry entry;
    char *type;     /* as written in the file, for messages */
    bool supported; /* type and number of dimensions fit 'entry' */
};

struct safetensors {
    char *path;
    struct notes notes;
    unsigned char *map;
    size_t map_size;
    const unsigned char *data; /* after the header */
    uint64_t data_size;
    struct stored_tensor *records; /* by place in the file */
    size_t num_records;
    struct stored_tensor **by_name; /* all records */
    struct stored_tensor **listed;  /* the supported ones, by place */
    size_t num_listed;
};

/* Types of the format that we cannot hold but whose size we can still check. */
static const struct {
    const char *name;
    unsigned int size;
} other_types[] = {
    { "BOOL", 1 }, { "I8", 1 },  { "F8_E5M2", 1 }, { "I16", 2 },     { "U16", 2 },
    { "U32", 4 },  { "U64", 8 }, { "C64", 8 },     { "F8_E8M0", 1 },
};

static const char *const type_names[MG_NUM_DTYPES] = {
    [MG_FLOAT32] = "F32", [MG_FLOAT64] = "F64", [MG_BFLOAT16] = "BF16",
    [MG_FLOAT16] = "F16", [MG_INT32] = "I32",   [MG_INT64] = "I64",
    [MG_UINT8] = "U8",    [MG_FLOAT8_E4M3] = "F8_E4M3",
};

const char *safetensors_type_name (enum mg_dtype dtype)
{
    return type_names[dtype];
}

/* Element size of a type by its name in the file, 0 if unknown. */
static size_t find_type (const char *name, enum mg_dtype *dtype, bool *supported)
{
    *supported = false;
    for (int i = 0; i < MG_NUM_DTYPES; i++) {
        if (strcmp (name, type_names[i]) == 0) {
            *supported = true;
            *dtype = (enum mg_dtype)i;
            return mg_dtype_size (*dtype);
        }
    }
    for (size_t i = 0; i < sizeof (other_types) / sizeof (other_types[0]); i++) {
        if (strcmp (name, other_types[i].name) == 0)
            return other_types[i].size;
    }
    return 0;
}

void safetensors_close (struct safetensors *st)
{
    if (st) {
        int saved_errno = errno;

        for (size_t i = 0; st->records && i < st->num_records; i++) {
            free ((char *)st->records[i].entry.name);
            free (st->records[i].type);
        }
        free (st->records);
        free (st->by_name);
        free (st->listed);
        if (st->map)
            munmap (st->map, st->map_size);
        notes_clear (&st->notes);
        free (st->path);
        free (st);
        errno = saved_errno;
    }
}

static int map_file (struct safetensors *st, struct mg_error *err)
{
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int fd = open (st->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    void *map;
    int rc = -1;

    if (fd < 0)
        return mg_error_set (err, errno, "%s: cannot open: %s", st->path,
                             strerror (errno));
    if (fstat (fd, &info) < 0) {
        mg_error_set (err, errno, "%s: %s", st->path, strerror (errno));
        goto done;
    }
    if (!S_ISREG (info.st_mode)) {
        mg_error_set (err, EINVAL, "%s: not a regular file", st->path);
        goto done;
    }
    if (info.st_size < 10 || (uintmax_t)info.st_size > SIZE_MAX) {
        mg_error_set (err, EINVAL, "%s: %jd bytes cannot be a safetensors file, the "
                      "smallest has 10", st->path, (intmax_t)info.st_size);
        goto done;
    }
    map = mmap (NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        mg_error_set (err, errno, "%s: cannot map: %s", st->path, strerror (errno));
        goto done;
    }
    st->map = map;
    st->map_size = (size_t)info.st_size;
    rc = 0;
done:
    close (fd);
    return rc;
}

static json_t *read_header (struct safetensors *st, struct mg_error *err)
{
    char text[BOX_NAME_MAX];
    json_error_t why;
    json_t *root;
    uint64_t len;

    memcpy (&len, st->map, sizeof (len));
    len = le64toh (len);
    if (len > SAFETENSORS_HEADER_MAX || len > st->map_size - sizeof (len)) {
        mg_error_set (err, EINVAL, "%s: header length %" PRIu64 ", at most %" PRIu64
                      " is possible here (truncated, or not a safetensors file)",
                      st->path, len,
                      st->map_size - sizeof (len) < SAFETENSORS_HEADER_MAX
                          ? (uint64_t)(st->map_size - sizeof (len))
                          : (uint64_t)SAFETENSORS_HEADER_MAX);
        return NULL;
    }
    st->data = st->map + sizeof (len) + len;
    st->data_size = st->map_size - sizeof (len) - len;
    if (len < 2 || st->map[sizeof (len)] != '{') {
        mg_error_set (err, EINVAL, "%s: header does not start with '{': not a "
                      "safetensors file", st->path);
        return NULL;
    }
    root = json_loadb ((const char *)st->map + sizeof (len), len, JSON_REJECT_DUPLICATES,
                       &why);
    if (!root)
        mg_error_set (err, EINVAL, "%s: header is not valid JSON: byte %d: %s",
                      st->path, why.position, box_name_text (text, why.text));
    return root;
}

static int read_metadata (struct safetensors *st, json_t *value, struct mg_error *err)
{
    const char *key;
    json_t *item;

    if (!json_is_object (value))
        return mg_error_set (err, EINVAL, "%s: __metadata__ is not an object", st->path);
    json_object_foreach (value, key, item) {
        char name[BOX_NAME_MAX];

        if (!json_is_string (item))
            return mg_error_set (err, EINVAL, "%s: __metadata__: \"%s\" is not a string",
                                 st->path, box_name_text (name, key));
        if (st->notes.num < MAX_NOTES
            && notes_set (&st->notes, key, json_string_value (item), err) < 0)
            return mg_error_prefix (err, "%s", st->path);
    }
    return 0;
}

/* Shape of one tensor into the entry; *count gets the number of elements. */
static int read_shape (json_t *shape, struct stored_tensor *rec, uint64_t *count)
{
    size_t ndims = json_array_size (shape);
    json_t *item;
    size_t i;

    *count = 1;
    json_array_foreach (shape, i, item) {
        json_int_t dim = json_integer_value (item);

        if (!json_is_integer (item) || dim < 0
            || __builtin_mul_overflow (*count, (uint64_t)dim, count))
            return -1;
        if (i < SAFETENSORS_MAX_DIMS)
            rec->entry.shape[i] = dim;
    }
    if (ndims > SAFETENSORS_MAX_DIMS)
        rec->supported = false;
    rec->entry.ndims = ndims > SAFETENSORS_MAX_DIMS ? SAFETENSORS_MAX_DIMS : (int)ndims;
    return 0;
}

static int read_offsets (const struct safetensors *st, json_t *offsets,
                         struct stored_tensor *rec)
{
    json_t *first = json_array_get (offsets, 0), *last = json_array_get (offsets, 1);
    json_int_t begin = json_integer_value (first), end = json_integer_value (last);

    if (json_array_size (offsets) != 2 || !json_is_integer (first)
        || !json_is_integer (last) || begin < 0 || end < begin
        || (uint64_t)end > st->data_size)
        return -1;
    rec->entry.data = st->data + begin;
    rec->entry.size = (size_t)(end - begin);
    return 0;
}

static int read_tensor (const struct safetensors *st, const char *key, json_t *value,
                        struct stored_tensor *rec, struct mg_error *err)
{
    const char *type = json_string_value (json_object_get (value, "dtype"));
    json_t *shape = json_object_get (value, "shape");
    json_t *offsets = json_object_get (value, "data_offsets");
    char name[BOX_NAME_MAX];
    uint64_t count, bytes;
    size_t size;

    box_name_text (name, key);
    if (!type || !json_is_array (shape) || !json_is_array (offsets))
        return mg_error_set (err, EINVAL, "%s: tensor %s: not an object with the fields "
                             "dtype, shape and data_offsets", st->path, name);
    if (!(rec->entry.name = strdup (key)) || !(rec->type = strdup (type)))
        return mg_error_set (err, ENOMEM, "%s: out of memory", st->path);
    size = find_type (type, &rec->entry.dtype, &rec->supported);
    if (read_shape (shape, rec, &count) < 0)
        return mg_error_set (err, EINVAL, "%s: tensor %s: shape is not a list of sizes",
                             st->path, name);
    if (read_offsets (st, offsets, rec) < 0)
        return mg_error_set (err, EINVAL, "%s: tensor %s: data_offsets are not a range "
                             "inside the %" PRIu64 " bytes of data (truncated?)",
                             st->path, name, st->data_size);
    if (size != 0 && (__builtin_mul_overflow (count, (uint64_t)size, &bytes)
                      || bytes != rec->entry.size))
        return mg_error_set (err, EINVAL, "%s: tensor %s: data_offsets hold %zu bytes, "
                             "shape and dtype want %" PRIu64 " x %zu", st->path, name,
                             rec->entry.size, count, size);
    return 0;
}

static int read_tensors (struct safetensors *st, json_t *root, struct mg_error *err)
{
    const char *key;
    json_t *value;

    if (!(st->records = calloc (json_object_size (root) + 1, sizeof (*st->records))))
        return mg_error_set (err, ENOMEM, "%s: out of memory", st->path);
    json_object_foreach (root, key, value) {
        if (strcmp (key, "__metadata__") == 0) {
            if (read_metadata (st, value, err) < 0)
                return -1;
        }
        else if (read_tensor (st, key, value, &st->records[st->num_records++], err) < 0)
            return -1;
    }
    return 0;
}

static int compare_place (const void *a, const void *b)
{
    const struct safetensors_entry *x = &((const struct stored_tensor *)a)->entry;
    const struct safetensors_entry *y = &((const struct stored_tensor *)b)->entry;

    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->size == y->size ? strcmp (x->name, y->name) : x->size < y->size ? -1 : 1;
}

static int compare_name (const void *a, const void *b)
{
    return strcmp ((*(struct stored_tensor *const *)a)->entry.name,
                   (*(struct stored_tensor *const *)b)->entry.name);
}

/* The format allows neither holes nor overlaps, so in order of place each tensor begins
 * where the one before ended.
 */
static int check_places (const struct safetensors *st, struct mg_error *err)
{
    const unsigned char *end = st->data;
    char name[BOX_NAME_MAX];

    for (size_t i = 0; i < st->num_records; i++) {
        const struct safetensors_entry *e = &st->records[i].entry;
        const unsigned char *begin = e->data;

        if (begin != end)
            return mg_error_set (err, EINVAL, "%s: tensor %s: data begins at %td, %s "
                                 "what stands before it, which ends at %td", st->path,
                                 box_name_text (name, e->name), begin - st->data,
                                 begin < end ? "overlapping" : "with a hole after",
                                 end - st->data);
        end += e->size;
    }
    if (end != st->data + st->data_size)
        return mg_error_set (err, EINVAL, "%s: %td bytes after the last tensor", st->path,
                             st->data + st->data_size - end);
    return 0;
}

static int make_lists (struct safetensors *st, struct mg_error *err)
{
    size_t n = st->num_records;

    if (!(st->by_name = calloc (n + 1, sizeof (*st->by_name)))
        || !(st->listed = calloc (n + 1, sizeof (*st->listed))))
        return mg_error_set (err, ENOMEM, "%s: out of memory", st->path);
    for (size_t i = 0; i < n; i++) {
        st->by_name[i] = &st->records[i];
        if (st->records[i].supported)
            st->listed[st->num_listed++] = &st->records[i];
    }
    if (n > 1)
        qsort (st->by_name, n, sizeof (*st->by_name), compare_name);
    return 0;
}

struct safetensors *safetensors_open (const char *path, struct mg_error *err)
{
    struct safetensors *st;
    json_t *root = NULL;

    if (!(st = calloc (1, sizeof (*st))) || !(st->path = strdup (path))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
        goto error;
    }
    if (map_file (st, err) < 0)
        goto error;
    if (!(root = read_header (st, err)))
        goto error;
    if (read_tensors (st, root, err) < 0)
        goto error;
    json_decref (root);
    root = NULL;
    if (st->num_records > 1)
        qsort (st->records, st->num_records, sizeof (*st->records), compare_place);
    if (check_places (st, err) < 0 || make_lists (st, err) < 0)
        goto error;
    return st;
error:
    json_decref (root);
    safetensors_close (st);
    return NULL;
}

const char *safetensors_path (const struct safetensors *st)
{
    return st->path;
}

const struct notes *safetensors_notes (const struct safetensors *st)
{
    return &st->notes;
}

size_t safetensors_count (const struct safetensors *st)
{
    return st->num_listed;
}

const struct safetensors_entry *safetensors_at (const struct safetensors *st, size_t i)
{
    return i < st->num_listed ? &st->listed[i]->entry : NULL;
}

size_t safetensors_count_names (const struct safetensors *st)
{
    return st->num_records;
}

const char *safetensors_name_at (const struct safetensors *st, size_t i)
{
    return i < st->num_records ? st->records[i].entry.name : NULL;
}

/* The record of a name, supported or not. */
static const struct stored_tensor *find_record (const struct safetensors *st, const char *name)
{
    struct stored_tensor key = { .entry.name = name }, *keyp = &key;
    struct stored_tensor **found;

    found = bsearch (&keyp, st->by_name, st->num_records, sizeof (*st->by_name),
                     compare_name);
    return found ? *found : NULL;
}

const struct safetensors_entry *safetensors_find (const struct safetensors *st,
                                                  const char *name)
{
    const struct stored_tensor *rec = find_record (st, name);

    if (!rec || !rec->supported) {
        errno = rec ? ENOTSUP : ENOENT;
        return NULL;
    }
    return &rec->entry;
}

const char *safetensors_type (const struct safetensors *st, const char *name)
{
    const struct stored_tensor *rec = find_record (st, name);

    return rec ? rec->type : NULL;
}
