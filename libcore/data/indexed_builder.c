/* indexed_builder - writer of PREFIX.bin and PREFIX.idx
 *
 * Tokens go to disk as they come; only one length a sequence and one index a document
 * are kept.  Both files are written under temporary names and renamed at the end.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/data/indexed.h"
#include "libcore/data/indexed_format.h"

struct output {
    char *path;     /* its name when finished */
    char *tmp_path; /* NULL: no file there */
    FILE *stream;
};

struct indexed_builder {
    struct output bin;
    struct output idx;
    enum indexed_dtype dtype;
    int64_t open_length; /* tokens of the sequence under way */
    int32_t *lengths;    /* [num_sequences] */
    size_t num_sequences, max_sequences;
    int64_t *starts;     /* [num_starts], starts[0] = 0 */
    size_t num_starts, max_starts;
};

static int out_of_memory (struct mg_error *err)
{
    return mg_error_set (err, ENOMEM, "indexed dataset: out of memory");
}

static int write_failed (const struct output *out, struct mg_error *err)
{
    return mg_error_set (err, errno, "cannot write %s: %s", out->tmp_path,
                         strerror (errno));
}

/* Create a new file beside 'path', however many other writers have one there. */
static int create_output (struct output *out, struct mg_error *err)
{
    int fd = -1;

    for (int attempt = 0; attempt < 100 && fd < 0; attempt++) {
        free (out->tmp_path);
        if (asprintf (&out->tmp_path, "%s.%ld.%d.tmp", out->path, (long)getpid (),
                      attempt) < 0) {
            out->tmp_path = NULL;
            return out_of_memory (err);
        }
        fd = open (out->tmp_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0) {
        mg_error_set (err, errno, "cannot create %s: %s", out->tmp_path,
                      strerror (errno));
        free (out->tmp_path); /* whoever owns a file of this name, it is not us */
        out->tmp_path = NULL;
        return -1;
    }
    if (!(out->stream = fdopen (fd, "w"))) {
        close (fd);
        return out_of_memory (err);
    }
    return 0;
}

static int sync_output (struct output *out, struct mg_error *err)
{
    FILE *stream = out->stream;
    int rc;

    if (fflush (stream) != 0 || fsync (fileno (stream)) < 0)
        return write_failed (out, err);
    out->stream = NULL;
    rc = fclose (stream);
    return rc == 0 ? 0 : write_failed (out, err);
}

static int publish_output (struct output *out, struct mg_error *err)
{
    if (rename (out->tmp_path, out->path) < 0)
        return mg_error_set (err, errno, "cannot rename %s to %s: %s", out->tmp_path,
                             out->path, strerror (errno));
    free (out->tmp_path);
    out->tmp_path = NULL;
    return 0;
}

/* Free; a file that was not published goes. */
static void drop_output (struct output *out)
{
    if (out->stream)
        fclose (out->stream);
    if (out->tmp_path)
        unlink (out->tmp_path);
    free (out->tmp_path);
    free (out->path);
}

/* Room for one more element of 'size' bytes. */
static int grow (void **array, size_t count, size_t *max, size_t size,
                 struct mg_error *err)
{
    size_t wanted = *max ? 2 * *max : 1024;
    void *p;

    if (count < *max)
        return 0;
    if (!(p = reallocarray (*array, wanted, size)))
        return out_of_memory (err);
    *array = p;
    *max = wanted;
    return 0;
}

static int push_start (struct indexed_builder *b, struct mg_error *err)
{
    void *array = b->starts;
    int rc = grow (&array, b->num_starts, &b->max_starts, sizeof (*b->starts), err);

    b->starts = array;
    if (rc == 0)
        b->starts[b->num_starts++] = b->num_sequences;
    return rc;
}

struct indexed_builder *indexed_builder_create (const char *prefix,
                                                enum indexed_dtype dtype,
                                                struct mg_error *err)
{
    struct indexed_builder *b;

    if (!(b = calloc (1, sizeof (*b)))) {
        out_of_memory (err);
        return NULL;
    }
    b->dtype = dtype;
    if ((unsigned)dtype >= DTYPE_ROWS || !dtype_table[dtype].store) {
        mg_error_set (err, EINVAL, "%s.bin: element type %s (%d) holds no tokens", prefix,
                      indexed_dtype_name (dtype), dtype);
        goto error;
    }
    if (asprintf (&b->bin.path, "%s.bin", prefix) < 0) {
        b->bin.path = NULL;
        out_of_memory (err);
        goto error;
    }
    if (asprintf (&b->idx.path, "%s.idx", prefix) < 0) {
        b->idx.path = NULL;
        out_of_memory (err);
        goto error;
    }
    if (push_start (b, err) < 0
        || create_output (&b->bin, err) < 0
        || create_output (&b->idx, err) < 0)
        goto error;
    return b;
error:
    indexed_builder_destroy (b);
    return NULL;
}

void indexed_builder_destroy (struct indexed_builder *b)
{
    if (b) {
        int saved_errno = errno;

        drop_output (&b->bin);
        drop_output (&b->idx);
        free (b->lengths);
        free (b->starts);
        free (b);
        errno = saved_errno;
    }
}

int indexed_builder_append (struct indexed_builder *b, const int32_t *tokens, size_t n,
                            struct mg_error *err)
{
    const struct dtype_info *type = &dtype_table[b->dtype];
    unsigned char piece[8192];
    size_t used = 0;

    if (n > (size_t)(INT32_MAX - b->open_length))
        return mg_error_set (err, ERANGE,
                             "%s: sequence %zu has more than %d tokens, split the "
                             "document", b->bin.path, b->num_sequences, INT32_MAX);
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] > type->max)
            return mg_error_set (err, ERANGE,
                                 "%s: token %" PRId64 " of sequence %zu is %d, want 0 to "
                                 "%" PRId64 " in %s", b->bin.path,
                                 b->open_length + (int64_t)i, b->num_sequences, tokens[i],
                                 type->max, type->name);
        type->store (piece + used, tokens[i]);
        used += type->size;
        if (used == sizeof (piece) || i == n - 1) {
            if (fwrite (piece, 1, used, b->bin.stream) != used)
                return write_failed (&b->bin, err);
            used = 0;
        }
    }
    b->open_length += n;
    return 0;
}

int indexed_builder_end_sequence (struct indexed_builder *b, struct mg_error *err)
{
    void *array = b->lengths;
    int rc = grow (&array, b->num_sequences, &b->max_sequences, sizeof (*b->lengths),
                   err);

    b->lengths = array;
    if (rc < 0)
        return -1;
    b->lengths[b->num_sequences++] = (int32_t)b->open_length;
    b->open_length = 0;
    return 0;
}

int indexed_builder_end_document (struct indexed_builder *b, struct mg_error *err)
{
    if (b->open_length > 0)
        return mg_error_set (err, EINVAL, "%s: document %zu ends inside a sequence",
                             b->bin.path, b->num_starts - 1);
    return push_start (b, err);
}

static int write_header (struct indexed_builder *b)
{
    unsigned char header[HEADER_SIZE];

    memcpy (header, index_magic, MAGIC_SIZE);
    store_u64 (header + VERSION_AT, INDEX_VERSION);
    header[DTYPE_AT] = (unsigned char)b->dtype;
    store_u64 (header + SEQUENCES_AT, b->num_sequences);
    store_u64 (header + DOCUMENTS_AT, b->num_starts);
    return fwrite (header, sizeof (header), 1, b->idx.stream) == 1 ? 0 : -1;
}

static int write_tables (struct indexed_builder *b)
{
    const size_t size = dtype_table[b->dtype].size;
    FILE *stream = b->idx.stream;
    unsigned char row[8];
    uint64_t pointer = 0;

    for (size_t i = 0; i < b->num_sequences; i++) {
        store_u32 (row, b->lengths[i]);
        if (fwrite (row, LENGTH_SIZE, 1, stream) != 1)
            return -1;
    }
    for (size_t i = 0; i < b->num_sequences; i++) {
        store_u64 (row, pointer);
        pointer += b->lengths[i] * size;
        if (fwrite (row, POINTER_SIZE, 1, stream) != 1)
            return -1;
    }
    for (size_t d = 0; d < b->num_starts; d++) {
        store_u64 (row, b->starts[d]);
        if (fwrite (row, START_SIZE, 1, stream) != 1)
            return -1;
    }
    return 0;
}

/* Make the renames last. Some file systems cannot sync a directory: then they decide. */
static int sync_directory (const struct output *out, struct mg_error *err)
{
    char *copy;
    int saved_errno;
    int fd;
    int rc;

    if (!(copy = strdup (out->path)))
        return out_of_memory (err);
    fd = open (dirname (copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free (copy);
    if (fd < 0 && errno == EACCES)
        return 0; /* may write there, but not read */
    if (fd < 0)
        return mg_error_set (err, errno, "cannot open the directory of %s: %s", out->path,
                             strerror (errno));
    rc = fsync (fd);
    saved_errno = errno;
    close (fd);
    if (rc < 0 && saved_errno != EINVAL)
        return mg_error_set (err, saved_errno, "cannot sync the directory of %s: %s",
                             out->path, strerror (saved_errno));
    return 0;
}

int indexed_builder_finalize (struct indexed_builder *b, struct mg_error *err)
{
    if (b->open_length > 0 || (size_t)b->starts[b->num_starts - 1] != b->num_sequences)
        return mg_error_set (err, EINVAL, "%s: the last document has no end",
                             b->bin.path);
    if (write_header (b) < 0 || write_tables (b) < 0)
        return write_failed (&b->idx, err);
    if (sync_output (&b->bin, err) < 0 || sync_output (&b->idx, err) < 0)
        return -1;
    if (unlink (b->idx.path) < 0 && errno != ENOENT)
        return mg_error_set (err, errno, "cannot replace %s: %s", b->idx.path,
                             strerror (errno));
    if (publish_output (&b->bin, err) < 0 || publish_output (&b->idx, err) < 0)
        return -1;
    return sync_directory (&b->idx, err);
}
