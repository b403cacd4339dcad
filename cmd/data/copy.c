/* copy.c - documents of datasets copied into other datasets */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/data/copy.h"
#include "cmd/data/stop.h"
#include "libcore/file/outfile.h"

enum { CHUNK = 64 << 20 }; /* bytes, about, between two looks at signals */

/* Remove the next documents of about CHUNK bytes from 'rest', and return them. */
static struct indexed_range next_chunk (const struct indexed *ix, struct indexed_range *rest)
{
    struct indexed_range chunk = *rest;

    chunk.document_end = rest->document;
    chunk.sequence_end = rest->sequence;
    while (chunk.document_end < rest->document_end
           && indexed_range_bytes (ix, &chunk) < CHUNK) {
        chunk.document_end++;
        chunk.sequence_end = indexed_document_start (ix, chunk.document_end);
        if (chunk.document_end == rest->document_end)
            chunk.sequence_end = rest->sequence_end;
    }
    rest->document = chunk.document_end;
    rest->sequence = chunk.sequence_end;
    return chunk;
}

int data_copy_range (struct data_copy *c, struct indexed_builder *b, const struct indexed *ix,
                     const struct indexed_range *range, struct mg_error *err)
{
    struct indexed_range rest = *range;

    while (rest.document < rest.document_end) {
        const struct indexed_range chunk = next_chunk (ix, &rest);

        if (data_stopped ())
            return mg_error_set (err, EINTR, "stopped by a signal");
        if (indexed_builder_copy (b, ix, &chunk, err) < 0)
            return -1;
        c->done += indexed_range_bytes (ix, &chunk);
        progress_show (&c->progress, c->done);
    }
    return 0;
}

int data_copy_write (struct data_copy *c, const char *prefix, enum indexed_dtype dtype,
                     int (*copy) (void *arg, struct data_copy *c, struct indexed_builder *b,
                                  struct mg_error *err),
                     void *arg, struct mg_error *err)
{
    struct indexed_builder *b = indexed_builder_create (prefix, dtype, err);
    int rc;

    if (!b)
        return -1;
    rc = copy (arg, c, b, err);
    if (rc == 0)
        rc = indexed_builder_finalize (b, err);
    indexed_builder_destroy (b);
    return rc;
}

void data_copy_print (const char *prefix, size_t documents, int64_t tokens,
                      enum indexed_dtype dtype)
{
    printf ("%s: %zu documents, %" PRId64 " tokens, %s\n", prefix, documents, tokens,
            indexed_dtype_name (dtype));
}

int data_check_output (const char *prefix, const char *input, struct mg_error *err)
{
    return indexed_check_files (prefix, outfile_check_input, input, err);
}

static int check_input (const char *input, const char *prefix, struct mg_error *err)
{
    return data_check_output (prefix, input, err);
}

int data_copy_check_output (const char *output, const char *input, struct mg_error *err)
{
    return indexed_check_files (input, check_input, output, err);
}
