/* indexed - reader of PREFIX.bin and PREFIX.idx
 *
 * PREFIX.idx is mapped.  PREFIX.bin is read with pread(), which reports a file that has become
 * shorter, or a disk that fails, as an error; a map would raise SIGBUS.  A read of a sample's
 * tokens costs about a microsecond where the page cache has them.
 *
 * The tables of an index begin at byte 34, so nothing in it is aligned: every number is
 * put together from its bytes.  All checks are made once, in indexed_open; what the
 * accessors return is then true.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/data/indexed.h"
#include "libcore/data/indexed_format.h"

/* One of the two files, mapped or open. */
struct map {
    char *path; /* owned, for messages */
    const unsigned char *bytes; /* NULL: not mapped, or empty */
    int fd;                     /* -1: closed */
    size_t size;
    size_t mark; /* of a mapped file: place of the last byte that is not 0 */
};

enum { READ_MAX = 16384 }; /* bytes of PREFIX.bin that are read at a time */

struct indexed {
    struct map bin;
    struct map idx;
    enum indexed_dtype dtype;
    size_t num_sequences;
    size_t num_starts; /* documents + 1 */
    int64_t num_tokens;
    const unsigned char *lengths;  /* tables inside idx */
    const unsigned char *pointers;
    const unsigned char *starts;
    const unsigned char *modes;    /* NULL: none */
};

static int32_t length_at (const struct indexed *ix, size_t i)
{
    return (int32_t)load_u32 (ix->lengths + i * LENGTH_SIZE);
}

static int64_t pointer_at (const struct indexed *ix, size_t i)
{
    return (int64_t)load_u64 (ix->pointers + i * POINTER_SIZE);
}

static int64_t start_at (const struct indexed *ix, size_t d)
{
    return (int64_t)load_u64 (ix->starts + d * START_SIZE);
}

/* Say that a dataset cannot be opened.  If the user says "book", and the dataset is called
 * "book_text_document", the message names that.
 */
static int refuse_open (const char *path, const char *prefix, struct mg_error *err)
{
    int saved_errno = errno;
    char *other = NULL;

    if (saved_errno == ENOENT && asprintf (&other, "%s_text_document.idx", prefix) < 0)
        other = NULL;
    if (other && access (other, R_OK) == 0)
        mg_error_set (err, saved_errno, "cannot open %s: %s; there is a dataset "
                      "%s_text_document", path, strerror (saved_errno), prefix);
    else
        mg_error_set (err, saved_errno, "cannot open %s: %s", path, strerror (saved_errno));
    free (other);
    errno = saved_errno;
    return -1;
}

/* Open 'prefix' + 'ending' and learn its size. */
static int open_file (struct map *map, const char *prefix, const char *ending,
                      struct mg_error *err)
{
    struct stat st;

    if (asprintf (&map->path, "%s%s", prefix, ending) < 0) {
        map->path = NULL;
        return mg_error_set (err, ENOMEM, "out of memory");
    }
    map->fd = open (map->path, O_RDONLY | O_CLOEXEC);
    if (map->fd < 0)
        return refuse_open (map->path, prefix, err);
    if (fstat (map->fd, &st) < 0)
        return mg_error_set (err, errno, "cannot stat %s: %s", map->path, strerror (errno));
    if (!S_ISREG (st.st_mode))
        return mg_error_set (err, EINVAL, "%s is not a regular file", map->path);
    map->size = st.st_size;
    return 0;
}

/* Map a file that is open, and close it. An empty file has no bytes to map. */
static int map_file (struct map *map, struct mg_error *err)
{
    void *bytes;

    if (map->size > 0) {
        bytes = mmap (NULL, map->size, PROT_READ, MAP_SHARED, map->fd, 0);
        if (bytes == MAP_FAILED)
            return mg_error_set (err, errno, "cannot map %s: %s", map->path, strerror (errno));
        map->bytes = bytes;
        map->mark = map->size - 1;
        while (map->mark > 0 && map->bytes[map->mark] == 0)
            map->mark--;
    }
    close (map->fd);
    map->fd = -1;
    return 0;
}

/* Fail if the file has become shorter within its last page.  Missing bytes then read as zeros, also
 * the byte at 'mark', which was not 0.  Whole pages that are missing raise SIGBUS.
 */
static int check_map (const struct map *map, struct mg_error *err)
{
    const volatile unsigned char *mark = map->bytes + map->mark;

    if (!map->bytes || map->mark == 0 || *mark != 0)
        return 0;
    return mg_error_set (err, EIO, "%s: it has become shorter than the %zu bytes that it had when "
                         "it was opened; restore it, and run the same command again", map->path,
                         map->size);
}

static void close_file (struct map *map)
{
    if (map->bytes)
        munmap ((void *)map->bytes, map->size);
    if (map->fd >= 0)
        close (map->fd);
    free (map->path);
}

static int check_header (const struct indexed *ix, struct mg_error *err)
{
    const struct map *idx = &ix->idx;
    uint64_t version;
    unsigned code;

    if (idx->size < HEADER_SIZE)
        return mg_error_set (err, EINVAL, "%s: %zu bytes, want at least %d (the header)",
                             idx->path, idx->size, HEADER_SIZE);
    if (memcmp (idx->bytes, index_magic, MAGIC_SIZE) != 0)
        return mg_error_set (err, EINVAL,
                             "%s: bytes 0-8 are not the magic \"MMIDIDX\" of an index",
                             idx->path);
    version = load_u64 (idx->bytes + VERSION_AT);
    if (version != INDEX_VERSION)
        return mg_error_set (err, EINVAL, "%s: version is %" PRIu64 ", want %d",
                             idx->path, version, INDEX_VERSION);
    code = idx->bytes[DTYPE_AT];
    if (code == INDEXED_FLOAT32 || code == INDEXED_FLOAT64)
        return mg_error_set (err, ENOTSUP,
                             "%s: dtype code %u is %s, want an integer type for tokens "
                             "(1-5 or 8)", idx->path, code, indexed_dtype_name (code));
    if (indexed_dtype_size (code) == 0)
        return mg_error_set (err, EINVAL, "%s: dtype code is %u, want 1-5 or 8",
                             idx->path, code);
    return 0;
}

/* Lay the tables over the index, if its size is exactly theirs. */
static int check_tables (struct indexed *ix, struct mg_error *err)
{
    const struct map *idx = &ix->idx;
    const uint64_t room = idx->size - HEADER_SIZE;
    const uint64_t n = load_u64 (idx->bytes + SEQUENCES_AT);
    const uint64_t d = load_u64 (idx->bytes + DOCUMENTS_AT);
    const uint64_t max_n = room / (LENGTH_SIZE + POINTER_SIZE);
    uint64_t rest;

    if (n > max_n)
        return mg_error_set (err, EINVAL,
                             "%s: sequence count is %" PRIu64 ", but the %zu bytes of "
                             "the file hold at most %" PRIu64 " (is it truncated?)",
                             idx->path, n, idx->size, max_n);
    rest = room - n * (LENGTH_SIZE + POINTER_SIZE);
    if (d < 1 || d > rest / START_SIZE)
        return mg_error_set (err, EINVAL,
                             "%s: document index count is %" PRIu64 ", want 1 to %" PRIu64
                             ", what the %zu bytes of the file hold (is it truncated?)",
                             idx->path, d, rest / START_SIZE, idx->size);
    rest -= d * START_SIZE;
    if (rest != 0 && rest != n)
        return mg_error_set (err, EINVAL,
                             "%s: %" PRIu64 " bytes behind the tables, want 0 or the "
                             "modes of %" PRIu64 " sequences (is it truncated?)",
                             idx->path, rest, n);
    ix->num_sequences = n;
    ix->num_starts = d;
    ix->lengths = idx->bytes + HEADER_SIZE;
    ix->pointers = ix->lengths + n * LENGTH_SIZE;
    ix->starts = ix->pointers + n * POINTER_SIZE;
    ix->modes = rest ? ix->starts + d * START_SIZE : NULL;
    return 0;
}

static int check_sequences (struct indexed *ix, struct mg_error *err)
{
    const uint64_t size = indexed_dtype_size (ix->dtype);
    uint64_t at = 0; /* never beyond bin.size */

    for (size_t i = 0; i < ix->num_sequences; i++) {
        int32_t length = length_at (ix, i);
        int64_t pointer = pointer_at (ix, i);

        if (length < 0)
            return mg_error_set (err, EINVAL,
                                 "%s: length of sequence %zu is %d, want 0 or more",
                                 ix->idx.path, i, length);
        if (pointer < 0 || (uint64_t)pointer != at)
            return mg_error_set (err, EINVAL,
                                 "%s: pointer of sequence %zu is %" PRId64 ", want "
                                 "%" PRIu64 ", where the one before it ends",
                                 ix->idx.path, i, pointer, at);
        if (length * size > ix->bin.size - at)
            return mg_error_set (err, EINVAL,
                                 "%s: sequence %zu of %d tokens begins at byte %" PRIu64
                                 " of %s, which has %zu (is it truncated?)", ix->idx.path,
                                 i, length, at, ix->bin.path, ix->bin.size);
        at += length * size;
    }
    if (at != ix->bin.size)
        return mg_error_set (err, EINVAL, "%s: %zu bytes, want the %" PRIu64 " of %s",
                             ix->bin.path, ix->bin.size, at, ix->idx.path);
    ix->num_tokens = at / size;
    return 0;
}

static int check_documents (const struct indexed *ix, struct mg_error *err)
{
    const int64_t n = ix->num_sequences;
    const size_t last = ix->num_starts - 1;
    int64_t previous = 0;

    if (start_at (ix, 0) != 0)
        return mg_error_set (err, EINVAL, "%s: document index 0 is %" PRId64 ", want 0",
                             ix->idx.path, start_at (ix, 0));
    for (size_t d = 1; d <= last; d++) {
        int64_t start = start_at (ix, d);

        if (start < previous || start > n)
            return mg_error_set (err, EINVAL,
                                 "%s: document index %zu is %" PRId64 ", want %" PRId64
                                 " to %" PRId64, ix->idx.path, d, start, previous, n);
        previous = start;
    }
    if (previous != n)
        return mg_error_set (err, EINVAL,
                             "%s: last document index is %" PRId64 ", want the sequence "
                             "count %" PRId64, ix->idx.path, previous, n);
    return 0;
}

struct indexed *indexed_open (const char *prefix, struct mg_error *err)
{
    struct indexed *ix;

    if (!(ix = calloc (1, sizeof (*ix)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    ix->idx.fd = ix->bin.fd = -1;
    if (open_file (&ix->idx, prefix, ".idx", err) < 0 || map_file (&ix->idx, err) < 0
        || open_file (&ix->bin, prefix, ".bin", err) < 0
        || check_header (ix, err) < 0)
        goto error;
    ix->dtype = ix->idx.bytes[DTYPE_AT];
    if (check_tables (ix, err) < 0
        || check_sequences (ix, err) < 0
        || check_documents (ix, err) < 0)
        goto error;
    return ix;
error:
    indexed_close (ix);
    return NULL;
}

void indexed_close (struct indexed *ix)
{
    if (ix) {
        int saved_errno = errno;

        close_file (&ix->bin);
        close_file (&ix->idx);
        free (ix);
        errno = saved_errno;
    }
}

enum indexed_dtype indexed_dtype (const struct indexed *ix)
{
    return ix->dtype;
}

size_t indexed_num_sequences (const struct indexed *ix)
{
    return ix->num_sequences;
}

size_t indexed_num_documents (const struct indexed *ix)
{
    return ix->num_starts - 1;
}

int64_t indexed_num_tokens (const struct indexed *ix)
{
    return ix->num_tokens;
}

int32_t indexed_length (const struct indexed *ix, size_t i)
{
    return i < ix->num_sequences ? length_at (ix, i) : 0;
}

int64_t indexed_pointer (const struct indexed *ix, size_t i)
{
    return i < ix->num_sequences ? pointer_at (ix, i) : 0;
}

size_t indexed_document_start (const struct indexed *ix, size_t d)
{
    return d < ix->num_starts ? (size_t)start_at (ix, d) : ix->num_sequences;
}

int indexed_mode (const struct indexed *ix, size_t i)
{
    return ix->modes && i < ix->num_sequences ? (int8_t)ix->modes[i] : 0;
}

int indexed_has_modes (const struct indexed *ix)
{
    return ix->modes != NULL;
}

/* 'n' bytes of PREFIX.bin from 'at' on. */
static int read_bytes (const struct map *bin, unsigned char *to, size_t n, int64_t at,
                       struct mg_error *err)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = pread (bin->fd, to + done, n - done, at + (off_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mg_error_set (err, errno, "cannot read %s: %s", bin->path, strerror (errno));
        if (got == 0)
            return mg_error_set (err, EIO, "%s: it ends at byte %" PRId64 ", and had %zu bytes "
                                 "when it was opened; restore it, and run the same command "
                                 "again", bin->path, at + (int64_t)done, bin->size);
        done += (size_t)got;
    }
    return 0;
}

/* 'n' tokens, of READ_MAX bytes at most, from byte 'at' of PREFIX.bin on; they are number 'first'
 * and up of a sequence.
 */
static int read_tokens (const struct indexed *ix, int64_t at, size_t n, int32_t *out,
                        size_t sequence, size_t first, struct mg_error *err)
{
    const struct dtype_info *type = &dtype_table[ix->dtype];
    unsigned char bytes[READ_MAX];

    if (read_bytes (&ix->bin, bytes, n * type->size, at, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        int64_t token = type->load (bytes + i * type->size);

        if (token < 0 || token > INT32_MAX)
            return mg_error_set (err, ERANGE,
                                 "%s: token %zu of sequence %zu is %" PRId64
                                 ", want 0 to %d", ix->bin.path, first + i, sequence,
                                 token, INT32_MAX);
        out[i] = (int32_t)token;
    }
    return 0;
}

int indexed_get (const struct indexed *ix, size_t sequence, size_t offset, size_t length,
                 int32_t *out, struct mg_error *err)
{
    const size_t size = dtype_table[ix->dtype].size, most = READ_MAX / size;
    size_t have;

    if (check_map (&ix->idx, err) < 0)
        return -1;
    if (sequence >= ix->num_sequences)
        return mg_error_set (err, EINVAL, "%s: no sequence %zu, it has %zu", ix->bin.path,
                             sequence, ix->num_sequences);
    have = length_at (ix, sequence);
    if (offset > have || length > have - offset)
        return mg_error_set (err, EINVAL,
                             "%s: tokens %zu-%zu of sequence %zu, which has %zu",
                             ix->bin.path, offset, offset + length, sequence, have);
    for (size_t i = 0; i < length; i += most) {
        size_t n = length - i < most ? length - i : most;

        if (read_tokens (ix, pointer_at (ix, sequence) + (int64_t)((offset + i) * size), n,
                         out + i, sequence, offset + i, err) < 0)
            return -1;
    }
    return 0;
}

int indexed_read (const struct indexed *ix, int64_t at, size_t n, void *out,
                  struct mg_error *err)
{
    const uint64_t size = ix->bin.size;

    if (check_map (&ix->idx, err) < 0)
        return -1;
    if (at < 0 || (uint64_t)at > size || n > size - (uint64_t)at)
        return mg_error_set (err, EINVAL, "%s: %zu bytes from byte %" PRId64 " on, it has %zu",
                             ix->bin.path, n, at, ix->bin.size);
    return read_bytes (&ix->bin, out, n, at, err);
}

struct indexed_range indexed_documents (const struct indexed *ix, size_t first, size_t end)
{
    return (struct indexed_range){
        .document = first,
        .document_end = end,
        .sequence = indexed_document_start (ix, first),
        .sequence_end = indexed_document_start (ix, end),
    };
}

/* First byte of sequence 'i', the end of the file for the number of sequences. */
static int64_t byte_of (const struct indexed *ix, size_t i)
{
    return i < ix->num_sequences ? pointer_at (ix, i) : (int64_t)ix->bin.size;
}

int64_t indexed_range_bytes (const struct indexed *ix, const struct indexed_range *range)
{
    return byte_of (ix, range->sequence_end) - byte_of (ix, range->sequence);
}

int indexed_check_files (const char *prefix, indexed_check_f check, const char *other,
                         struct mg_error *err)
{
    static const char *const endings[] = { ".idx", ".bin" };
    int rc = 0;

    for (int i = 0; rc == 0 && i < 2; i++) {
        char *file;

        if (asprintf (&file, "%s%s", prefix, endings[i]) < 0)
            return mg_error_set (err, ENOMEM, "out of memory");
        rc = check (file, other, err);
        free (file);
    }
    return rc;
}
