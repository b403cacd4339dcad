/* data_copy.c - documents of datasets copied into other datasets */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cmd/data_copy.h"
#include "cmd/data_stop.h"

enum { CHUNK = 64 << 20 }; /* bytes, about, between two looks at signals */

/* The next documents of 'rest' that have CHUNK bytes, which are taken off it. */
static struct indexed_range take_chunk (const struct indexed *ix, struct indexed_range *rest)
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
        const struct indexed_range chunk = take_chunk (ix, &rest);

        if (data_stopped ())
            return mg_error_set (err, EINTR, "stopped by a signal");
        if (indexed_builder_copy (b, ix, &chunk, err) < 0)
            return -1;
        c->done += indexed_range_bytes (ix, &chunk);
        progress_show (&c->progress, c->done);
    }
    return 0;
}

static int check_file (const char *output, const char *input, const char *ending,
                       struct mg_error *err)
{
    char *names[2] = { NULL, NULL };
    struct stat st[2];
    int rc = 0;

    if (asprintf (&names[0], "%s%s", output, ending) < 0)
        names[0] = NULL;
    if (asprintf (&names[1], "%s%s", input, ending) < 0)
        names[1] = NULL;
    if (!names[0] || !names[1])
        rc = mg_error_set (err, ENOMEM, "out of memory");
    else if (stat (names[0], &st[0]) == 0 && stat (names[1], &st[1]) == 0
             && st[0].st_dev == st[1].st_dev && st[0].st_ino == st[1].st_ino)
        rc = mg_error_set (err, EINVAL, "%s is a file of the dataset %s, which is read: choose "
                           "another output", names[0], input);
    free (names[0]);
    free (names[1]);
    return rc;
}

int data_copy_check_output (const char *output, const char *input, struct mg_error *err)
{
    if (check_file (output, input, ".idx", err) < 0)
        return -1;
    return check_file (output, input, ".bin", err);
}
