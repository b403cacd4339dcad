/* indexed_builder - writer of PREFIX.bin and PREFIX.idx
 *
 * Tokens go to disk as they come; only one length a sequence and one index a document
 * are kept.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/data/indexed.h"
#include "libcore/data/indexed_format.h"
#include "libcore/file/outfile.h"

enum { COPY_SIZE = 1 << 14 }; /* bytes that are copied at a time */

struct indexed_builder {
    struct outfile bin, idx;
    enum indexed_dtype dtype;
    int64_t open_length; /* tokens of the sequence under way */
    int32_t *lengths;    /* [num_sequences] */
    size_t num_sequences, max_sequences;
    bool has_modes;      /* as the first sequence has it */
    int8_t *modes;       /* [num_sequences], NULL without modes */
    size_t max_modes;
    int64_t *starts;     /* [num_starts], starts[0] = 0 */
    size_t num_starts, max_starts;
};

static int out_of_memory (struct mg_error *err)
{
    return mg_error_set (err, ENOMEM, "indexed dataset: out of memory");
}

static int create_output (struct outfile *out, const char *prefix, const char *suffix,
                          struct mg_error *err)
{
    char *name;
    int rc;

    if (asprintf (&name, "%s%s", prefix, suffix) < 0)
        return out_of_memory (err);
    rc = outfile_create (out, name, OUTFILE_WHOLE, err);
    free (name);
    return rc == 0 ? outfile_open_stream (out, err) : -1;
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
    if (push_start (b, err) < 0
        || create_output (&b->bin, prefix, ".bin", err) < 0
        || create_output (&b->idx, prefix, ".idx", err) < 0)
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

        outfile_drop (&b->bin);
        outfile_drop (&b->idx);
        free (b->lengths);
        free (b->starts);
        free (b->modes);
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
                             "document", b->bin.name, b->num_sequences, INT32_MAX);
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] > type->max)
            return mg_error_set (err, ERANGE,
                                 "%s: token %" PRId64 " of sequence %zu is %d, want 0 to "
                                 "%" PRId64 " in %s", b->bin.name,
                                 b->open_length + (int64_t)i, b->num_sequences, tokens[i],
                                 type->max, type->name);
        type->store (piece + used, tokens[i]);
        used += type->size;
        if (used == sizeof (piece) || i == n - 1) {
            if (fwrite (piece, 1, used, b->bin.stream) != used)
                return outfile_write_failed (&b->bin, err);
            used = 0;
        }
    }
    b->open_length += n;
    return 0;
}

/* One more sequence whose tokens are written; 'mode' counts if the sequences have modes. */
static int push_sequence (struct indexed_builder *b, int32_t length, int mode,
                          struct mg_error *err)
{
    void *lengths = b->lengths, *modes = b->modes;
    int rc = grow (&lengths, b->num_sequences, &b->max_sequences, sizeof (*b->lengths), err);

    b->lengths = lengths;
    if (rc == 0 && b->has_modes) {
        rc = grow (&modes, b->num_sequences, &b->max_modes, sizeof (*b->modes), err);
        b->modes = modes;
    }
    if (rc < 0)
        return -1;
    if (b->has_modes)
        b->modes[b->num_sequences] = (int8_t)mode;
    b->lengths[b->num_sequences++] = length;
    return 0;
}

int indexed_builder_end_sequence (struct indexed_builder *b, struct mg_error *err)
{
    if (push_sequence (b, (int32_t)b->open_length, 0, err) < 0)
        return -1;
    b->open_length = 0;
    return 0;
}

int indexed_builder_end_document (struct indexed_builder *b, struct mg_error *err)
{
    if (b->open_length > 0)
        return mg_error_set (err, EINVAL, "%s: document %zu ends inside a sequence",
                             b->bin.name, b->num_starts - 1);
    return push_start (b, err);
}

static int check_copy (struct indexed_builder *b, const struct indexed *ix,
                       struct mg_error *err)
{
    const bool modes = indexed_has_modes (ix);

    if (b->open_length > 0 || (size_t)b->starts[b->num_starts - 1] != b->num_sequences)
        return mg_error_set (err, EINVAL, "%s: a copy begins inside document %zu", b->bin.name,
                             b->num_starts - 1);
    if (indexed_dtype (ix) != b->dtype)
        return mg_error_set (err, EINVAL, "%s: it has %s tokens, want %s", b->bin.name,
                             dtype_table[b->dtype].name,
                             indexed_dtype_name (indexed_dtype (ix)));
    if (b->num_sequences == 0)
        b->has_modes = modes;
    if (b->has_modes != modes && indexed_num_sequences (ix) > 0)
        return mg_error_set (err, EINVAL, "%s: its sequences have %s, want %s", b->idx.name,
                             b->has_modes ? "modes" : "no modes",
                             modes ? "modes" : "no modes");
    return 0;
}

static int copy_bytes (struct indexed_builder *b, const struct indexed *ix, int64_t at,
                       int64_t count, struct mg_error *err)
{
    unsigned char piece[COPY_SIZE];

    while (count > 0) {
        size_t n = count < COPY_SIZE ? (size_t)count : COPY_SIZE;

        if (indexed_read (ix, at, n, piece, err) < 0)
            return -1;
        if (fwrite (piece, 1, n, b->bin.stream) != n)
            return outfile_write_failed (&b->bin, err);
        at += (int64_t)n;
        count -= (int64_t)n;
    }
    return 0;
}

int indexed_builder_copy (struct indexed_builder *b, const struct indexed *ix,
                          const struct indexed_range *range, struct mg_error *err)
{
    size_t i = range->sequence;

    if (check_copy (b, ix, err) < 0)
        return -1;
    if (range->sequence < range->sequence_end
        && copy_bytes (b, ix, indexed_pointer (ix, range->sequence),
                       indexed_range_bytes (ix, range), err) < 0)
        return -1;
    for (size_t d = range->document; d < range->document_end; d++) {
        size_t end = indexed_document_start (ix, d + 1);

        for (; i < end && i < range->sequence_end; i++) {
            if (push_sequence (b, indexed_length (ix, i), indexed_mode (ix, i), err) < 0)
                return -1;
        }
        if (push_start (b, err) < 0)
            return -1;
    }
    return 0;
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
    if (b->has_modes && fwrite (b->modes, 1, b->num_sequences, stream) != b->num_sequences)
        return -1;
    return 0;
}

int indexed_builder_finalize (struct indexed_builder *b, struct mg_error *err)
{
    if (b->open_length > 0 || (size_t)b->starts[b->num_starts - 1] != b->num_sequences)
        return mg_error_set (err, EINVAL, "%s: the last document has no end",
                             b->bin.name);
    if (write_header (b) < 0 || write_tables (b) < 0)
        return outfile_write_failed (&b->idx, err);
    if (outfile_finish (&b->bin, err) < 0 || outfile_finish (&b->idx, err) < 0)
        return -1;
    if (unlink (b->idx.path) < 0 && errno != ENOENT)
        return mg_error_set (err, errno, "cannot replace %s: %s", b->idx.path,
                             strerror (errno));
    if (outfile_publish (&b->bin, err) < 0 || outfile_publish (&b->idx, err) < 0)
        return -1;
    if (outfile_sync_dir (&b->bin, err) < 0) /* links may lead to two directories */
        return -1;
    return outfile_sync_dir (&b->idx, err);
}
