/* packed_gzip.c - gzip, by zlib */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "cmd/data/packed.h"

enum { GZIP_BITS = 15 + 16 }; /* the largest window, gzip's header */

static int create (void **impl, struct mg_error *err)
{
    z_stream *z = calloc (1, sizeof (*z));

    if (!z || inflateInit2 (z, GZIP_BITS) != Z_OK) {
        free (z);
        return mg_error_set (err, ENOMEM, "zlib: out of memory");
    }
    *impl = z;
    return 0;
}

static int restart (void *impl, struct mg_error *err)
{
    if (inflateReset (impl) != Z_OK)
        return mg_error_set (err, ENOMEM, "zlib: out of memory");
    return 0;
}

static int run (void *impl, struct packed_io *io, struct mg_error *err)
{
    const size_t in = io->in_size < INT_MAX ? io->in_size : INT_MAX;
    const size_t out = io->out_size < INT_MAX ? io->out_size : INT_MAX;
    z_stream *z = impl;
    int rc;

    z->next_in = (Bytef *)io->in;
    z->avail_in = (uInt)in;
    z->next_out = io->out;
    z->avail_out = (uInt)out;
    rc = inflate (z, Z_NO_FLUSH);
    io->in += in - z->avail_in;
    io->in_size -= in - z->avail_in;
    io->out += out - z->avail_out;
    io->out_size -= out - z->avail_out;
    if (rc == Z_OK || rc == Z_BUF_ERROR || rc == Z_STREAM_END)
        return rc == Z_STREAM_END;
    if (rc == Z_MEM_ERROR)
        return mg_error_set (err, ENOMEM, "zlib: out of memory");
    return mg_error_set (err, EINVAL, "the gzip data are damaged: %s",
                         z->msg ? z->msg : "no such data");
}

static void destroy (void *impl)
{
    inflateEnd (impl);
    free (impl);
}

const struct packed_ops packed_gzip_ops = {
    .library = "zlib",
    .create = create,
    .restart = restart,
    .run = run,
    .destroy = destroy,
};
