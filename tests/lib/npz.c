/* npz.c - read numpy .npz files (ZIP: PKWARE APPNOTE 4.3; NPY: numpy.lib.format) */

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/npz.h"

enum {
    END_SIZE = 22,     /* end of central directory, without its comment */
    ENTRY_SIZE = 46,   /* entry of the central directory, without name and extra field */
    LOCAL_SIZE = 30,   /* header in front of a file, the same */
    NPY_SIZE = 10,     /* magic, version, length of the header (version 1) */
    MAX_HEADER = 4096  /* of a .npy header's text */
};

struct npz {
    unsigned char *image;
    size_t size;
    struct npz_array *arrays;
    size_t count;
};

/* A part of the image. */
struct span {
    const unsigned char *p;
    size_t size;
};

static uint64_t number (const unsigned char *p, int size)
{
    uint64_t value = 0;

    for (int i = size - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

static int broken (struct mg_error *err, const char *what)
{
    return mg_error_set (err, EINVAL, "npz: %s", what);
}

/* [offset, offset + size) of the image. */
static int part (const struct npz *npz, uint64_t offset, uint64_t size, struct span *span,
                 struct mg_error *err)
{
    *span = (struct span){ npz->image, 0 };
    if (offset > npz->size || size > npz->size - offset)
        return mg_error_set (err, EINVAL, "npz: %llu bytes at %llu are beyond the end",
                             (unsigned long long)size, (unsigned long long)offset);
    *span = (struct span){ npz->image + offset, (size_t)size };
    return 0;
}

/* Sizes and offset of an entry, from its zip64 extra field where 32 bits say so. */
static int wide_fields (struct span extra, uint64_t fields[3], struct mg_error *err)
{
    while (extra.size >= 4) {
        size_t id = number (extra.p, 2), size = number (extra.p + 2, 2);
        const unsigned char *p = extra.p + 4;

        if (size > extra.size - 4)
            break;
        if (id == 1) {
            size_t used = 0;

            for (int i = 0; i < 3; i++) {
                if (fields[i] != 0xffffffff)
                    continue;
                if (used + 8 > size)
                    return broken (err, "short zip64 field");
                fields[i] = number (p + used, 8);
                used += 8;
            }
        }
        extra = (struct span){ p + size, extra.size - 4 - size };
    }
    for (int i = 0; i < 3; i++)
        if (fields[i] == 0xffffffff)
            return broken (err, "no zip64 field where one must be");
    return 0;
}

/* What follows 'key' (with its quotes and colon) in a .npy header. */
static const char *after (const char *text, const char *key)
{
    const char *p = strstr (text, key);

    if (!p)
        return NULL;
    for (p += strlen (key); *p == ' '; p++)
        ;
    return p;
}

static int parse_shape (const char *p, struct npz_array *a, struct mg_error *err)
{
    a->count = 1;
    if (!p || *p++ != '(')
        return broken (err, "no shape");
    while (*p != ')') {
        char *end;

        if (!isdigit ((unsigned char)*p) || a->ndim == NPZ_MAX_DIMS)
            return broken (err, "bad shape");
        errno = 0;
        a->shape[a->ndim] = strtoll (p, &end, 10);
        if (errno
            || __builtin_mul_overflow (a->count, (size_t)a->shape[a->ndim], &a->count))
            return broken (err, "shape is too large");
        a->ndim++;
        for (p = end; *p == ' ' || *p == ','; p++)
            ;
    }
    return 0;
}

/* A .npy file: its type, shape and data. */
static int parse_npy (struct span file, struct npz_array *a, struct mg_error *err)
{
    char text[MAX_HEADER + 1];
    const char *descr, *order;
    size_t prefix = NPY_SIZE, length;

    if (file.size < NPY_SIZE + 2 || memcmp (file.p, "\x93NUMPY", 6) != 0)
        return broken (err, "not a .npy file");
    length = number (file.p + 8, 2);
    if (file.p[6] > 1) { /* versions 2 and 3 have 4 bytes for the length */
        length = number (file.p + 8, 4);
        prefix += 2;
    }
    if (length > MAX_HEADER || length > file.size - prefix)
        return broken (err, "header of a .npy file is too long");
    memcpy (text, file.p + prefix, length);
    text[length] = '\0';
    descr = after (text, "'descr':");
    order = after (text, "'fortran_order':");
    if (!descr || descr[0] != '\'' || (descr[1] != '<' && descr[1] != '|')
        || !strchr ("fiu", descr[2]) || !isdigit ((unsigned char)descr[3])
        || descr[4] != '\'')
        return broken (err, "type is not a little endian number");
    if (!order || strncmp (order, "False", 5) != 0)
        return broken (err, "not in C order");
    a->type = descr[2];
    a->size = descr[3] - '0';
    if (parse_shape (after (text, "'shape':"), a, err) < 0)
        return -1;
    a->data = file.p + prefix + length;
    if (a->size == 0 || a->count > (file.size - prefix - length) / (size_t)a->size)
        return broken (err, "data ends early");
    return 0;
}

/* The entry at 'offset' of the central directory; '*next' is the offset behind it. */
static int parse_entry (struct npz *npz, uint64_t offset, uint64_t *next,
                        struct mg_error *err)
{
    struct npz_array *a = &npz->arrays[npz->count];
    struct span entry, name, extra, local, file;
    uint64_t fields[3]; /* real size, stored size, offset of the local header */

    if (part (npz, offset, ENTRY_SIZE, &entry, err) < 0)
        return -1;
    if (number (entry.p, 4) != 0x02014b50 || number (entry.p + 10, 2) != 0)
        return broken (err, "bad directory entry, or a compressed file");
    fields[0] = number (entry.p + 24, 4);
    fields[1] = number (entry.p + 20, 4);
    fields[2] = number (entry.p + 42, 4);
    if (part (npz, offset + ENTRY_SIZE, number (entry.p + 28, 2), &name, err) < 0
        || part (npz, offset + ENTRY_SIZE + name.size, number (entry.p + 30, 2), &extra,
                 err)
               < 0
        || wide_fields (extra, fields, err) < 0
        || part (npz, fields[2], LOCAL_SIZE, &local, err) < 0)
        return -1;
    *next = offset + ENTRY_SIZE + name.size + extra.size + number (entry.p + 32, 2);
    if (number (local.p, 4) != 0x04034b50 || fields[0] != fields[1])
        return broken (err, "bad local header");
    if (part (npz, fields[2] + LOCAL_SIZE + number (local.p + 26, 2)
                       + number (local.p + 28, 2),
              fields[1], &file, err)
        < 0)
        return -1;
    if (name.size < 4 || memcmp (name.p + name.size - 4, ".npy", 4) != 0)
        return broken (err, "a file that is not .npy");
    if (parse_npy (file, a, err) < 0)
        return -1;
    if (!(a->name = strndup ((const char *)name.p, name.size - 4)))
        return mg_error_set (err, ENOMEM, "npz: out of memory");
    npz->count++;
    return 0;
}

static int parse_zip (struct npz *npz, struct mg_error *err)
{
    const unsigned char *end;
    uint64_t offset, entries;

    if (npz->size < END_SIZE)
        return broken (err, "too short for an archive");
    /* savez writes no comment, so the end record is the very end. */
    end = npz->image + npz->size - END_SIZE;
    if (number (end, 4) != 0x06054b50)
        return broken (err, "no end record");
    entries = number (end + 10, 2);
    offset = number (end + 16, 4);
    if (!(npz->arrays = calloc (entries + 1, sizeof (*npz->arrays))))
        return mg_error_set (err, ENOMEM, "npz: out of memory");
    for (uint64_t i = 0; i < entries; i++)
        if (parse_entry (npz, offset, &offset, err) < 0)
            return -1;
    return 0;
}

static int read_file (struct npz *npz, const char *path, struct mg_error *err)
{
    FILE *f = fopen (path, "rb");
    long size = -1;

    if (f && fseek (f, 0, SEEK_END) == 0)
        size = ftell (f);
    if (size >= 0 && fseek (f, 0, SEEK_SET) == 0
        && (npz->image = malloc ((size_t)size + 1)))
        npz->size = fread (npz->image, 1, (size_t)size, f);
    if (f)
        fclose (f);
    if (size < 0 || npz->size != (size_t)size)
        return mg_error_set (err, EIO, "npz: cannot read %.300s", path);
    return 0;
}

struct npz *npz_open (const char *path, struct mg_error *err)
{
    struct npz *npz = calloc (1, sizeof (*npz));

    if (!npz) {
        mg_error_set (err, ENOMEM, "npz: out of memory");
        return NULL;
    }
    if (read_file (npz, path, err) < 0 || parse_zip (npz, err) < 0)
        goto error;
    return npz;
error:
    npz_close (npz);
    return NULL;
}

void npz_close (struct npz *npz)
{
    if (npz) {
        int saved_errno = errno;

        for (size_t i = 0; i < npz->count; i++)
            free (npz->arrays[i].name);
        free (npz->arrays);
        free (npz->image);
        free (npz);
        errno = saved_errno;
    }
}

const struct npz_array *npz_find (const struct npz *npz, const char *name)
{
    for (size_t i = 0; i < npz->count; i++)
        if (strcmp (npz->arrays[i].name, name) == 0)
            return &npz->arrays[i];
    return NULL;
}

size_t npz_count (const struct npz *npz, const char *prefix)
{
    size_t n = 0;

    for (size_t i = 0; i < npz->count; i++)
        n += strncmp (npz->arrays[i].name, prefix, strlen (prefix)) == 0;
    return n;
}

/* Element i; the type has been checked. */
static double element (const struct npz_array *a, size_t i)
{
    const unsigned char *p = (const unsigned char *)a->data + i * (size_t)a->size;
    uint64_t bits = number (p, a->size);

    if (a->type == 'f' && a->size == 8) {
        double value;

        memcpy (&value, &bits, sizeof (value));
        return value;
    }
    if (a->type == 'f') {
        uint32_t half = (uint32_t)bits;
        float value;

        memcpy (&value, &half, sizeof (value));
        return value;
    }
    if (a->type == 'u')
        return (double)bits;
    return a->size == 8 ? (double)(int64_t)bits : (double)(int32_t)bits;
}

double *npz_doubles (const struct npz *npz, const char *name, size_t *count,
                     struct mg_error *err)
{
    const struct npz_array *a = npz_find (npz, name);
    double *out;

    if (!a) {
        mg_error_set (err, ENOENT, "npz: no array %.100s", name);
        return NULL;
    }
    if (!(a->type == 'u' ? a->size == 1 : a->size == 4 || a->size == 8)) {
        mg_error_set (err, ENOTSUP, "npz: %.100s is of type %c%d", name, a->type,
                      a->size);
        return NULL;
    }
    if (!(out = calloc (a->count + 1, sizeof (*out)))) {
        mg_error_set (err, ENOMEM, "npz: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < a->count; i++)
        out[i] = element (a, i);
    *count = a->count;
    return out;
}

float *npz_floats (const struct npz *npz, const char *name, size_t *count,
                   struct mg_error *err)
{
    double *wide = npz_doubles (npz, name, count, err);
    float *out = wide ? calloc (*count + 1, sizeof (*out)) : NULL;

    for (size_t i = 0; out && i < *count; i++)
        out[i] = (float)wide[i];
    if (wide && !out)
        mg_error_set (err, ENOMEM, "npz: out of memory");
    free (wide);
    return out;
}
