/* packed_bzip2.c - bzip2, by libbz2 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <bzlib.h>

#include "cmd/data/packed.h"

static int create (void **impl, struct mg_error *err)
{
    bz_stream *z = calloc (1, sizeof (*z));

    if (!z || BZ2_bzDecompressInit (z, 0, 0) != BZ_OK) {
        free (z);
        return mg_error_set (err, ENOMEM, "libbz2: out of memory");
    }
    *impl = z;
    return 0;
}

static int restart (void *impl, struct mg_error *err)
{
    bz_stream *z = impl;

    BZ2_bzDecompressEnd (z);
    *z = (bz_stream){ .next_in = NULL };
    if (BZ2_bzDecompressInit (z, 0, 0) != BZ_OK)
        return mg_error_set (err, ENOMEM, "libbz2: out of memory");
    return 0;
}

static int run (void *impl, struct packed_io *io, struct mg_error *err)
{
    const size_t in = io->in_size < INT_MAX ? io->in_size : INT_MAX;
    const size_t out = io->out_size < INT_MAX ? io->out_size : INT_MAX;
    bz_stream *z = impl;
    int rc;

    z->next_in = (char *)io->in;
    z->avail_in = (unsigned)in;
    z->next_out = (char *)io->out;
    z->avail_out = (unsigned)out;
    rc = BZ2_bzDecompress (z);
    io->in += in - z->avail_in;
    io->in_size -= in - z->avail_in;
    io->out += out - z->avail_out;
    io->out_size -= out - z->avail_out;
    if (rc == BZ_OK || rc == BZ_STREAM_END)
        return rc == BZ_STREAM_END;
    if (rc == BZ_MEM_ERROR)
        return mg_error_set (err, ENOMEM, "libbz2: out of memory");
    return mg_error_set (err, EINVAL, "the bzip2 data are damaged: error %d of libbz2", rc);
}

static void destroy (void *impl)
{
    BZ2_bzDecompressEnd (impl);
    free (impl);
}

const struct packed_ops packed_bzip2_ops = {
    .library = "libbz2",
    .create = create,
    .restart = restart,
    .run = run,
    .destroy = destroy,
};
