/* npy.c - NumPy's files of one array: map one with its header checked, write one whole
 *
 * The header is Python text from a file: it is parsed with bounds, and anything unknown is
 * refused with the word that was found.  The length of the file must be exactly what the header
 * says.
 */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/base/parse.h"
#include "libcore/data/npy.h"
#include "libcore/file/outfile.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORDER "<"
#else
#define ORDER ">"
#endif

enum { MAGIC = 6, HEADER_AT_1 = 10, HEADER_AT_2 = 12, ALIGN = 64, HEADER_MAX = 1 << 16 };

static const char magic[MAGIC + 1] = "\x93NUMPY";

static const struct {
    const char *descr;
    size_t size;
} types[NPY_NUM_TYPES] = {
    [NPY_INT16] = { ORDER "i2", 2 },
    [NPY_INT32] = { ORDER "i4", 4 },
    [NPY_UINT32] = { ORDER "u4", 4 },
    [NPY_INT64] = { ORDER "i8", 8 },
};

size_t npy_size (enum npy_type type)
{
    return types[type].size;
}

/* ---- reading ---- */

/* The rest of a header.  Messages name 'path'. */
struct text {
    const char *path;
    const char *at, *end;
};

static void skip_blanks (struct text *t)
{
    while (t->at < t->end && isspace ((unsigned char)*t->at))
        t->at++;
}

/* Step over a mark, if it comes next. */
static bool accept (struct text *t, char mark)
{
    skip_blanks (t);
    if (t->at == t->end || *t->at != mark)
        return false;
    t->at++;
    return true;
}

/* A word for a message: the text from here on, up to a comma. */
static const char *here (const struct text *t, char to[24])
{
    const char *at = t->at;
    int n = 0;

    while (at < t->end && isspace ((unsigned char)*at))
        at++;
    while (n < 20 && at < t->end && *at != ',') {
        to[n++] = isprint ((unsigned char)*at) ? *at : '?';
        at++;
    }
    while (n > 0 && to[n - 1] == ' ')
        n--;
    to[n] = '\0';
    return to;
}

static int refuse (const struct text *t, const char *field, const char *want,
                   struct mg_error *err)
{
    char word[24];

    return mg_error_set (err, EINVAL, "%s: header: %s is \"%s\", want %s", t->path, field,
                         here (t, word), want);
}

/* A quoted string, without its quotes. */
static bool read_string (struct text *t, char to[24])
{
    const char *close;
    size_t n;

    skip_blanks (t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"')
        || !(close = memchr (t->at + 1, *t->at, t->end - t->at - 1))
        || (n = close - t->at - 1) >= 24)
        return false;
    memcpy (to, t->at + 1, n);
    to[n] = '\0';
    t->at = close + 1;
    return true;
}

static int read_type (struct text *t, struct npy_array *array, struct mg_error *err)
{
    const struct text before = *t;
    char descr[24];

    if (read_string (t, descr)) {
        for (int i = 0; i < NPY_NUM_TYPES; i++) {
            if (strcmp (descr, types[i].descr) == 0) {
                array->type = i;
                return 0;
            }
        }
    }
    return refuse (&before, "descr", "'" ORDER "i2', '" ORDER "i4', '" ORDER "u4' or '"
                   ORDER "i8'", err);
}

static int read_order (struct text *t, struct mg_error *err)
{
    static const char no[] = "False";

    skip_blanks (t);
    if ((size_t)(t->end - t->at) < strlen (no) || memcmp (t->at, no, strlen (no)) != 0)
        return refuse (t, "fortran_order", "False", err);
    t->at += strlen (no);
    return 0;
}

/* "(14,)", "(14, 2)" */
static int read_shape (struct text *t, struct npy_array *array, struct mg_error *err)
{
    const struct text before = *t;
    bool closed = false;

    if (!accept (t, '('))
        return refuse (&before, "shape", "a tuple", err);
    for (array->dims = 0; !closed && array->dims < NPY_MAX_DIMS; array->dims++) {
        char digits[24];
        int n = 0;

        skip_blanks (t);
        while (n < 20 && t->at < t->end && isdigit ((unsigned char)*t->at))
            digits[n++] = *t->at++;
        digits[n] = '\0';
        if (parse_int64 ("shape", digits, 0, INT64_MAX, &array->shape[array->dims],
                         NULL) < 0)
            return refuse (&before, "shape", "one or two sizes", err);
        if (!accept (t, ',') && array->dims == 0)
            return refuse (&before, "shape", "one or two sizes", err);
        closed = accept (t, ')');
    }
    if (!closed)
        return refuse (&before, "shape", "one or two sizes", err);
    if (array->dims == 1)
        array->shape[1] = 1;
    return 0;
}

static int read_header (struct text *t, struct npy_array *array, struct mg_error *err)
{
    bool have_type = false, have_order = false, have_shape = false;

    if (!accept (t, '{'))
        return refuse (t, "its beginning", "{", err);
    while (!accept (t, '}')) {
        const struct text before = *t;
        char key[24];
        int rc;

        if (!read_string (t, key) || !accept (t, ':'))
            return refuse (&before, "a key", "a quoted name and a colon", err);
        if (strcmp (key, "descr") == 0 && !have_type) {
            rc = read_type (t, array, err);
            have_type = true;
        }
        else if (strcmp (key, "fortran_order") == 0 && !have_order) {
            rc = read_order (t, err);
            have_order = true;
        }
        else if (strcmp (key, "shape") == 0 && !have_shape) {
            rc = read_shape (t, array, err);
            have_shape = true;
        }
        else
            return refuse (&before, "a key", "descr, fortran_order and shape, each once",
                           err);
        if (rc < 0)
            return -1;
        accept (t, ',');
    }
    skip_blanks (t);
    if (t->at < t->end)
        return refuse (t, "what follows", "blanks", err);
    if (!have_type || !have_order || !have_shape)
        return mg_error_set (err, EINVAL,
                             "%s: header: want descr, fortran_order and shape", t->path);
    return 0;
}

/* Where the header is: -1, or its first byte and '*end'. */
static ssize_t find_header (const struct npy *npy, size_t *end, struct mg_error *err)
{
    const unsigned char *p = npy->map;
    size_t begin, length;

    if (npy->map_size < HEADER_AT_2 || memcmp (p, magic, MAGIC) != 0)
        return mg_error_set (err, EINVAL,
                             "%s: not a file of NumPy: it does not begin with "
                             "\"\\x93NUMPY\" and a header",
                             npy->path);
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return mg_error_set (err, EINVAL, "%s: version is %u.%u, want 1.0 to 3.0",
                             npy->path, p[6], p[7]);
    begin = p[6] == 1 ? HEADER_AT_1 : HEADER_AT_2;
    length = p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (length > HEADER_MAX || length > npy->map_size - begin)
        return mg_error_set (err, EINVAL, "%s: header length is %zu, want at most %zu",
                             npy->path, length, npy->map_size - begin < HEADER_MAX
                                                ? npy->map_size - begin
                                                : (size_t)HEADER_MAX);
    *end = begin + length;
    return (ssize_t)begin;
}

static int check_file (struct npy *npy, struct mg_error *err)
{
    struct npy_array *array = &npy->array;
    struct text text;
    size_t end = 0, room, size;
    ssize_t begin = find_header (npy, &end, err);
    uint64_t bytes;

    if (begin < 0)
        return -1;
    text = (struct text){ npy->path, (char *)npy->map + begin, (char *)npy->map + end };
    if (read_header (&text, array, err) < 0)
        return -1;
    size = npy_size (array->type);
    room = npy->map_size - end;
    if (__builtin_mul_overflow ((uint64_t)array->shape[0], (uint64_t)array->shape[1],
                                &bytes)
        || __builtin_mul_overflow (bytes, (uint64_t)size, &bytes) || bytes != room)
        return mg_error_set (err, EINVAL,
                             "%s: shape %" PRId64 " x %" PRId64 " of %zu bytes "
                             "each, but %zu bytes behind the header (is it truncated?)",
                             npy->path, array->shape[0], array->shape[1], size, room);
    if (end % size != 0)
        return mg_error_set (err, EINVAL,
                             "%s: header length is %zu: elements of %zu bytes "
                             "begin at byte %zu, want a multiple",
                             npy->path, end - (size_t)begin, size, end);
    array->data = (char *)npy->map + end;
    return 0;
}

int npy_open (const char *path, struct npy *npy, struct mg_error *err)
{
    struct stat st;
    int fd;

    *npy = (struct npy){ .path = strdup (path) };
    if (!npy->path)
        return mg_error_set (err, ENOMEM, "out of memory");
    fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat (fd, &st) < 0) {
        mg_error_set (err, errno, "cannot open %s: %s", path, strerror (errno));
        goto error;
    }
    if (!S_ISREG (st.st_mode) || st.st_size == 0) {
        mg_error_set (err, EINVAL, "%s: %s", path,
                      S_ISREG (st.st_mode) ? "an empty file" : "not a regular file");
        goto error;
    }
    npy->map_size = st.st_size;
    npy->map = mmap (NULL, npy->map_size, PROT_READ, MAP_SHARED, fd, 0);
    if (npy->map == MAP_FAILED) {
        npy->map = NULL;
        mg_error_set (err, errno, "cannot map %s: %s", path, strerror (errno));
        goto error;
    }
    if (check_file (npy, err) < 0)
        goto error;
    npy->mark = npy->map_size - 1;
    while (((const unsigned char *)npy->map)[npy->mark] == 0) // the magic is not 0
        npy->mark--;
    close (fd);
    return 0;
error:
    npy_close (npy);
    if (fd >= 0) {
        int saved_errno = errno;

        close (fd);
        errno = saved_errno;
    }
    return -1;
}

int npy_check (const struct npy *npy, struct mg_error *err)
{
    const volatile unsigned char *mark = (const unsigned char *)npy->map + npy->mark;

    if (!npy->map || *mark != 0)
        return 0;
    return mg_error_set (err, EIO, "%s: it has become shorter than the %zu bytes that it had when "
                         "it was opened; remove the file, and run the same command again: it is "
                         "made anew", npy->path, npy->map_size);
}

void npy_close (struct npy *npy)
{
    int saved_errno = errno;

    if (npy->map)
        munmap (npy->map, npy->map_size);
    free (npy->path);
    memset (npy, 0, sizeof (*npy));
    errno = saved_errno;
}

/* ---- writing ---- */

/* As NumPy pads it: elements begin at a multiple of 64 bytes. */
static size_t make_header (const struct npy_array *array, unsigned char header[2 * ALIGN])
{
    char *text = (char *)header + HEADER_AT_1;
    size_t size;
    int n;

    if (array->dims == 1)
        n = sprintf (text, "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64
                     ",), }", types[array->type].descr, array->shape[0]);
    else
        n = sprintf (text, "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64
                     ", %" PRId64 "), }", types[array->type].descr, array->shape[0],
                     array->shape[1]);
    size = (HEADER_AT_1 + (size_t)n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset (text + n, ' ', size - HEADER_AT_1 - n);
    header[size - 1] = '\n';
    memcpy (header, magic, MAGIC);
    header[6] = 1;
    header[7] = 0;
    header[8] = (unsigned char)(size - HEADER_AT_1);
    header[9] = (unsigned char)((size - HEADER_AT_1) >> 8);
    return size;
}

int npy_write (const char *path, const struct npy_array *array, struct mg_error *err)
{
    const size_t bytes = (size_t)array->shape[0]
                         * (array->dims == 2 ? array->shape[1] : 1)
                         * npy_size (array->type);
    unsigned char header[2 * ALIGN];
    size_t size = make_header (array, header);
    const struct iovec parts[] = { { header, size }, { (void *)array->data, bytes } };

    return outfile_replace_parts (path, parts, 2, err);
}
