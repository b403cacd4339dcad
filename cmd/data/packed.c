/* packed.c - first bytes, and a stream over a decompressor */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/data/packed.h"
#include "cmd/data/stop.h"
#include "config.h"

enum { CHUNK = 1 << 16, SNIFF = 512, TAR_AT = 257 };

/* The first bytes of each kind of file.  'ops' NULL: this build cannot read it. */
static const struct kind {
    const char *name;
    const char *magic;
    size_t size;
    const struct packed_ops *ops;
    const char *library; /* that reads it, NULL: none */
} kinds[] = {
#if HAVE_ZLIB
    { "gzip", "\x1f\x8b\x08", 3, &packed_gzip_ops, "zlib" },
#else
    { "gzip", "\x1f\x8b\x08", 3, NULL, "zlib" },
#endif
#if HAVE_BZIP2
    { "bzip2", "BZh?1AY&SY", 10, &packed_bzip2_ops, "libbz2" },
    { "bzip2", "BZh?\x17\x72\x45\x38\x50\x90", 10, &packed_bzip2_ops, "libbz2" },
#else
    { "bzip2", "BZh?1AY&SY", 10, NULL, "libbz2" },
    { "bzip2", "BZh?\x17\x72\x45\x38\x50\x90", 10, NULL, "libbz2" },
#endif
#if HAVE_LZMA
    { "xz", "\xfd" "7zXZ\0", 6, &packed_xz_ops, "liblzma" },
#else
    { "xz", "\xfd" "7zXZ\0", 6, NULL, "liblzma" },
#endif
#if HAVE_ZSTD
    { "zstd", "\x28\xb5\x2f\xfd", 4, &packed_zstd_ops, "libzstd" },
    { "zstd", "P\x2a\x4d\x18", 4, &packed_zstd_ops, "libzstd" }, /* a frame to be skipped */
#else
    { "zstd", "\x28\xb5\x2f\xfd", 4, NULL, "libzstd" },
    { "zstd", "P\x2a\x4d\x18", 4, NULL, "libzstd" },
#endif
    { "lz4", "\x04\x22\x4d\x18", 4, NULL, NULL },
    { "lzip", "LZIP\x01", 5, NULL, NULL },
    { "compress", "\x1f\x9d", 2, NULL, NULL },
    { "ZIP", "PK\x03\x04", 4, NULL, NULL },
    { "7-Zip", "7z\xbc\xaf\x27\x1c", 6, NULL, NULL },
    { "Parquet", "PAR1\x15", 5, NULL, NULL },
    { "Arrow", "ARROW1\0\0", 8, NULL, NULL },
};

struct data_packed {
    char *path;
    int fd;
    FILE *stream;
    const struct packed_ops *ops; /* NULL: not compressed */
    void *impl;
    unsigned char in[CHUNK]; /* what is read and not decompressed yet */
    size_t at, size;
    bool end;     /* of the file */
    bool full;    /* the last call filled all room: there may be more without further input */
    bool between; /* streams: the next byte that is not 0 begins one */
    bool begun;   /* bytes have been handed over */
    size_t line;  /* bytes of the line under way */
    bool failed;
    int errnum;
    struct mg_error fault;
};

static bool begins_with (const struct kind *kind, const unsigned char *data, size_t size)
{
    size_t i = 0;

    while (i < kind->size && i < size
           && (data[i] == (unsigned char)kind->magic[i]
               || (kind->magic[i] == '?' && data[i] >= '1' && data[i] <= '9')))
        i++;
    return i == kind->size;
}

/* Fill the buffer. */
static int fill (struct data_packed *p, struct mg_error *err)
{
    memmove (p->in, p->in + p->at, p->size - p->at);
    p->size -= p->at;
    p->at = 0;
    while (!p->end && p->size < SNIFF) {
        ssize_t n = read (p->fd, p->in + p->size, CHUNK - p->size);

        if (n < 0 && errno == EINTR && !data_stopped ())
            continue;
        if (n < 0)
            return mg_error_set (err, errno, "cannot read %s: %s", p->path, strerror (errno));
        p->end = n == 0;
        p->size += (size_t)n;
    }
    return 0;
}

static int find_kind (struct data_packed *p, struct mg_error *err)
{
    for (size_t i = 0; i < sizeof (kinds) / sizeof (kinds[0]); i++) {
        const struct kind *kind = &kinds[i];

        if (!begins_with (kind, p->in, p->size))
            continue;
        p->ops = kind->ops;
        if (p->ops)
            return p->ops->create (&p->impl, err);
        if (kind->library)
            return mg_error_set (err, ENOTSUP, "%s is compressed with %s, which this build cannot "
                                 "read: it was made without %s; decompress the file first",
                                 p->path, kind->name, kind->library);
        return mg_error_set (err, ENOTSUP, "%s is a file of %s, want text, or text that is "
                             "compressed with gzip, bzip2, xz or zstd", p->path, kind->name);
    }
    return 0;
}

/* ---- reading ---- */

/* Decompress once.  The number of bytes, 0 if there are none yet, -1. */
static ssize_t decompress (struct data_packed *p, char *to, size_t size, struct mg_error *err)
{
    struct packed_io io = { .out = (unsigned char *)to, .out_size = size };
    int rc;

    while (p->between && p->at < p->size && p->in[p->at] == 0)
        p->at++;
    if (p->at == p->size && !p->full)
        return 0;
    if (p->between && p->ops->restart (p->impl, err) < 0)
        return -1;
    p->between = false;
    io.in = p->in + p->at;
    io.in_size = p->size - p->at;
    rc = p->ops->run (p->impl, &io, err);
    p->at = p->size - io.in_size;
    if (rc < 0)
        return mg_error_prefix (err, "%s", p->path);
    p->between = rc > 0;
    p->full = io.out_size == 0 && rc == 0;
    return (ssize_t)(size - io.out_size);
}

/* Decompress until there is something, or the end. */
static ssize_t unpack (struct data_packed *p, char *to, size_t size, struct mg_error *err)
{
    ssize_t n = 0;

    while (n == 0) {
        const size_t left = p->size - p->at;

        if (left < SNIFF && !p->end && fill (p, err) < 0)
            return -1;
        n = decompress (p, to, size, err);
        if (n == 0 && p->at == p->size && p->end && !p->between && !p->full)
            return mg_error_set (err, EINVAL, "%s: the compressed data end too early: the file is "
                                 "not whole", p->path);
        if (n == 0 && p->at == p->size && p->end)
            break;
    }
    return n;
}

static ssize_t copy (struct data_packed *p, char *to, size_t size, struct mg_error *err)
{
    size_t n;

    if (p->at == p->size && fill (p, err) < 0)
        return -1;
    n = p->size - p->at < size ? p->size - p->at : size;
    memcpy (to, p->in + p->at, n);
    p->at += n;
    return (ssize_t)n;
}

static int check_line (struct data_packed *p, const char *data, size_t size, struct mg_error *err)
{
    const char *feed = memrchr (data, '\n', size);

    p->line = feed ? (size_t)(data + size - feed - 1) : p->line + size;
    if (!p->ops || p->line <= DATA_PACKED_LINE)
        return 0;
    return mg_error_set (err, EFBIG, "%s: a line of the compressed text has more than %d bytes",
                         p->path, DATA_PACKED_LINE);
}

/* A tape archive has a header of its first file in front of each. */
static int check_begin (struct data_packed *p, const char *data, size_t size,
                        struct mg_error *err)
{
    if (p->begun || size < TAR_AT + 5 || memcmp (data + TAR_AT, "ustar", 5) != 0)
        return 0;
    return mg_error_set (err, ENOTSUP, "%s is a tar archive, want the files that are in it",
                         p->path);
}

static ssize_t read_cookie (void *cookie, char *to, size_t size)
{
    struct data_packed *p = cookie;
    ssize_t n = -1;

    if (!p->failed) {
        n = p->ops ? unpack (p, to, size, &p->fault) : copy (p, to, size, &p->fault);
        if (n > 0 && (check_begin (p, to, (size_t)n, &p->fault) < 0
                      || check_line (p, to, (size_t)n, &p->fault) < 0))
            n = -1;
        p->begun = p->begun || n > 0;
        p->failed = n < 0;
        p->errnum = errno;
    }
    errno = p->failed ? p->errnum : errno;
    return n;
}

struct data_packed *data_packed_open (const char *path, struct mg_error *err)
{
    const cookie_io_functions_t functions = { .read = read_cookie };
    struct data_packed *p = calloc (1, sizeof (*p));

    if (!p || !(p->path = strdup (path))) {
        free (p);
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    if ((p->fd = open (path, O_RDONLY | O_CLOEXEC)) < 0) {
        mg_error_set (err, errno, "cannot open %s: %s", path, strerror (errno));
        goto error;
    }
    if (fill (p, err) < 0 || find_kind (p, err) < 0)
        goto error;
    if (!(p->stream = fopencookie (p, "r", functions))) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto error;
    }
    setvbuf (p->stream, NULL, _IOFBF, CHUNK);
    return p;
error:
    data_packed_close (p);
    return NULL;
}

FILE *data_packed_stream (struct data_packed *packed)
{
    return packed->stream;
}

bool data_packed_compressed (const struct data_packed *packed)
{
    return packed->ops != NULL;
}

/* If there is no memory for a line, reading stops, and the stream has no error. */
int data_packed_check (struct data_packed *p, struct mg_error *err)
{
    if (p->failed)
        return mg_error_set (err, p->errnum, "%s", p->fault.text);
    if (ferror (p->stream) || !feof (p->stream))
        return mg_error_set (err, errno, "cannot read %s: %s", p->path, strerror (errno));
    return 0;
}

void data_packed_close (struct data_packed *p)
{
    if (p) {
        int saved_errno = errno;

        if (p->stream)
            fclose (p->stream);
        if (p->impl)
            p->ops->destroy (p->impl);
        if (p->fd >= 0)
            close (p->fd);
        free (p->path);
        free (p);
        errno = saved_errno;
    }
}
