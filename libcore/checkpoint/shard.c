/* shard.c - one rank's part of a checkpoint
 *
 * Parts are written in the order of the pieces, each aligned, with zeros between.  A reader
 * checks header, size and rank first, and each slab by its checksum, so that a damaged
 * file differs from one of another save.
 */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "libcore/base/parse.h"
#include "libcore/checkpoint/shard.h"

enum { VERSION = 1, ALIGN = 64, MAX_RANK = 99999999 };

static const char magic[8] = "MGSHARD";

struct header { /* little-endian in the file */
    char magic[8];
    uint32_t version, rank;
    int64_t iteration;
    char save[16];
    int64_t size; /* of the whole file */
    uint64_t unused;
    uint64_t sum; /* XXH3 of what stands before it */
};

struct shard {
    char *path;
    int fd;
};

struct writer {
    const char *path;
    int fd;
    char *buf;    /* one slab, for parts that are not contiguous in memory, or are read */
    uint64_t *sums;
    size_t num_sums, max_sums;
};

_Static_assert (sizeof (struct header) == SHARD_HEADER_BYTES, "a header without gaps");

void shard_name (char *name, int rank)
{
    snprintf (name, SHARD_NAME_MAX, "shard_%05d.bin", rank);
}

int shard_rank (const char *name)
{
    char digits[16] = "", again[SHARD_NAME_MAX];
    int rank;

    if (sscanf (name, "shard_%15[0-9].bin", digits) != 1
        || parse_int ("rank", digits, 0, MAX_RANK, &rank, NULL) < 0)
        return -1;
    shard_name (again, rank); /* the only way to write it */
    return strcmp (name, again) == 0 ? rank : -1;
}

int64_t shard_slab (int64_t bytes, size_t element)
{
    return bytes > (int64_t)element ? bytes / (int64_t)element : 1;
}

bool shard_place (int64_t *end, int64_t bytes, int64_t *offset)
{
    int64_t start = *end == 0 ? SHARD_HEADER_BYTES : *end;

    if (start > INT64_MAX - ALIGN)
        return false;
    start = (start + ALIGN - 1) / ALIGN * ALIGN;
    *offset = start;
    return !__builtin_add_overflow (start, bytes, end);
}

static void fill_header (struct header *h, const struct shard_id *id, int rank,
                         int64_t size)
{
    *h = (struct header){
        .version = htole32 (VERSION),
        .rank = htole32 ((uint32_t)rank),
        .iteration = (int64_t)htole64 ((uint64_t)id->iteration),
        .size = (int64_t)htole64 ((uint64_t)size),
    };
    memcpy (h->magic, magic, sizeof (h->magic));
    memcpy (h->save, id->save, sizeof (h->save));
    h->sum = htole64 (XXH3_64bits (h, offsetof (struct header, sum)));
}

/* Size of the file that holds the owned parts; *count gets the number of slabs. */
static int measure (const struct piece *pieces, size_t n, int64_t *size, size_t *count,
                    struct mg_error *err)
{
    *size = 0;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t element = mg_dtype_size (pieces[i].dtype);
        const struct box part = box_of_inside (&pieces[i]);
        int64_t offset;

        if (!pieces[i].owner || box_count (part) == 0)
            continue;
        if (!shard_place (size, box_count (part) * (int64_t)element, &offset))
            return mg_error_set (err, EFBIG, "the size of a shard overflows");
        *count += (size_t)box_num_slabs (part, shard_slab (SHARD_SLAB_BYTES, element));
    }
    return 0;
}

static int write_part (struct writer *w, const struct piece *p, int64_t *end,
                       struct mg_error *err)
{
    static const char zeros[ALIGN];
    const size_t element = mg_dtype_size (p->dtype);
    const struct box have = box_of_piece (p), part = box_of_inside (p);
    int64_t before = *end ? *end : SHARD_HEADER_BYTES, offset, done = 0;
    struct box slab;

    shard_place (end, box_count (part) * (int64_t)element, &offset);
    if (durable_write (w->fd, w->path, zeros, (size_t)(offset - before), err) < 0)
        return -1;
    while (box_next_slab (part, shard_slab (SHARD_SLAB_BYTES, element), &done, &slab)) {
        const size_t len = (size_t)box_count (slab) * element;
        const void *data = w->buf;

        if (p->data && (slab.rows == 1 || slab.cols == have.cols))
            data = (const char *)p->data
                   + (size_t)((slab.row - have.row) * have.cols + slab.col - have.col)
                         * element;
        else if (box_copy_piece (w->buf, slab, p, slab, err) < 0)
            return -1;
        w->sums[w->num_sums++] = XXH3_64bits (data, len);
        if (durable_write (w->fd, w->path, data, len, err) < 0)
            return -1;
    }
    return 0;
}

static int write_all (struct writer *w, const struct shard_id *id, int rank, int64_t size,
                      const struct piece *pieces, size_t n, struct mg_error *err)
{
    struct header h;
    int64_t end = 0;

    fill_header (&h, id, rank, size);
    if (durable_write (w->fd, w->path, &h, sizeof (h), err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].owner && box_count (box_of_inside (&pieces[i])) > 0
            && write_part (w, &pieces[i], &end, err) < 0)
            return -1;
    }
    return 0;
}

int shard_write (const char *path, const struct shard_id *id, int rank,
                 const struct piece *pieces, size_t n, uint64_t **sums, size_t *num_sums,
                 struct mg_error *err)
{
    struct writer w = { .path = path, .fd = -1 };
    int64_t size;
    size_t count;
    int rc;

    *sums = NULL;
    *num_sums = 0;
    if (measure (pieces, n, &size, &count, err) < 0)
        return -1;
    if (size == 0)
        return 0;
    if (!(w.buf = malloc (SHARD_SLAB_BYTES))
        || !(w.sums = calloc (count, sizeof (*w.sums)))) {
        mg_error_set (err, ENOMEM, "out of memory for %s", path);
        goto error;
    }
    if ((w.fd = durable_create (path, err)) < 0)
        goto error;
    rc = write_all (&w, id, rank, size, pieces, n, err);
    if (durable_close (w.fd, path, rc < 0 ? NULL : err) < 0)
        rc = -1;
    if (rc < 0)
        goto error;
    free (w.buf);
    *sums = w.sums;
    *num_sums = w.num_sums;
    return 0;
error:
    rc = errno;
    if (w.fd >= 0)
        unlink (path);
    free (w.buf);
    free (w.sums);
    errno = rc;
    return -1;
}

static int read_at (const struct shard *shard, int64_t offset, void *data, size_t len,
                    struct mg_error *err)
{
    char *at = data;

    while (len > 0) {
        ssize_t n = pread (shard->fd, at, len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mg_error_set (err, errno, "cannot read %s: %s", shard->path,
                                 strerror (errno));
        if (n == 0)
            return mg_error_set (err, EBADMSG, "shard %s is truncated at %" PRId64
                                 " bytes", shard->path, offset);
        at += n;
        offset += n;
        len -= (size_t)n;
    }
    return 0;
}

static int check_header (const struct shard *shard, const struct shard_id *id, int rank,
                         int64_t size, struct mg_error *err)
{
    struct header h, want;

    if (read_at (shard, 0, &h, sizeof (h), err) < 0)
        return -1;
    if (memcmp (h.magic, magic, sizeof (magic)) != 0)
        return mg_error_set (err, EBADMSG, "shard %s is not a file of a checkpoint",
                             shard->path);
    if (h.sum != htole64 (XXH3_64bits (&h, offsetof (struct header, sum))))
        return mg_error_set (err, EBADMSG, "shard %s: the checksum of its header is "
                             "wrong", shard->path);
    if (le32toh (h.version) != VERSION)
        return mg_error_set (err, ENOTSUP, "shard %s has format version %" PRIu32
                             ", this program reads %d", shard->path, le32toh (h.version),
                             VERSION);
    fill_header (&want, id, rank, size);
    if (memcmp (&h, &want, sizeof (h)) != 0)
        return mg_error_set (err, EBADMSG, "shard %s is of another save: iteration "
                             "%" PRId64 ", rank %" PRIu32 ", id %.16s; want %" PRId64
                             ", %d, %s", shard->path,
                             (int64_t)le64toh ((uint64_t)h.iteration),
                             le32toh (h.rank), h.save, id->iteration, rank, id->save);
    return 0;
}

static int check_size (const struct shard *shard, int64_t size, struct mg_error *err)
{
    struct stat st;

    if (fstat (shard->fd, &st) < 0)
        return mg_error_set (err, errno, "cannot read %s: %s", shard->path,
                             strerror (errno));
    if (!S_ISREG (st.st_mode))
        return mg_error_set (err, EBADMSG, "shard %s is not a regular file", shard->path);
    if (st.st_size < size)
        return mg_error_set (err, EBADMSG, "shard %s is truncated: %jd bytes of %" PRId64,
                             shard->path, (intmax_t)st.st_size, size);
    if (st.st_size > size)
        return mg_error_set (err, EBADMSG, "shard %s has %jd bytes, want %" PRId64,
                             shard->path, (intmax_t)st.st_size, size);
    return 0;
}

struct shard *shard_open (const char *path, const struct shard_id *id, int rank,
                          int64_t size, struct mg_error *err)
{
    struct shard *shard;

    if (!(shard = calloc (1, sizeof (*shard)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    shard->fd = -1;
    if (!(shard->path = strdup (path))) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto error;
    }
    shard->fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (shard->fd < 0) {
        if (errno == ENOENT)
            mg_error_set (err, ENOENT, "shard %s is missing", path);
        else
            mg_error_set (err, errno, "cannot open shard %s: %s", path, strerror (errno));
        goto error;
    }
    if (check_size (shard, size, err) < 0
        || check_header (shard, id, rank, size, err) < 0)
        goto error;
    return shard;
error:
    shard_close (shard);
    return NULL;
}

void shard_close (struct shard *shard)
{
    if (shard) {
        int saved_errno = errno;

        if (shard->fd >= 0)
            close (shard->fd);
        free (shard->path);
        free (shard);
        errno = saved_errno;
    }
}

int shard_read (struct shard *shard, int64_t offset, void *data, size_t len, uint64_t sum,
                struct mg_error *err)
{
    if (read_at (shard, offset, data, len, err) < 0)
        return -1;
    if (XXH3_64bits (data, len) != sum)
        return mg_error_set (err, EBADMSG, "shard %s: checksum of %zu bytes at %" PRId64
                             " is wrong: damaged", shard->path, len, offset);
    return 0;
}

int shard_read_zeros (struct shard *shard, int64_t from, int64_t to, struct mg_error *err)
{
    static const char zeros[4096];
    char buf[sizeof (zeros)];

    while (from < to) {
        size_t n = to - from < (int64_t)sizeof (buf) ? (size_t)(to - from) : sizeof (buf);

        if (read_at (shard, from, buf, n, err) < 0)
            return -1;
        if (memcmp (buf, zeros, n) != 0)
            return mg_error_set (err, EBADMSG, "shard %s: bytes between %" PRId64 " and %"
                                 PRId64 " that no tensor has are not zero: damaged",
                                 shard->path, from, to);
        from += (int64_t)n;
    }
    return 0;
}

bool shard_is_foreign (const char *path, const struct shard_id *id, int rank)
{
    struct shard shard = { .path = (char *)path };
    struct header h, want;
    struct stat st;
    bool foreign = false;

    shard.fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (shard.fd < 0)
        return false;
    if (fstat (shard.fd, &st) < 0 || !S_ISREG (st.st_mode))
        foreign = true;
    else if (st.st_size > 0) {
        size_t len = st.st_size < (off_t)sizeof (h) ? (size_t)st.st_size : sizeof (h);

        if (read_at (&shard, 0, &h, len, NULL) == 0) {
            foreign = memcmp (h.magic, magic,
                              len < sizeof (magic) ? len : sizeof (magic)) != 0;
            if (!foreign && len == sizeof (h)
                && h.sum == htole64 (XXH3_64bits (&h, offsetof (struct header, sum)))) {
                fill_header (&want, id, rank, (int64_t)le64toh ((uint64_t)h.size));
                foreign = memcmp (&h, &want, sizeof (h)) != 0;
            }
        }
    }
    close (shard.fd);
    return foreign;
}
