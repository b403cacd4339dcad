/* packed_xz.c - xz, by liblzma */

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "cmd/data/packed.h"

enum { MEMORY_MAX = 1 << 28 }; /* bytes; the largest preset of xz, -9, wants a quarter of this */

static int begin (lzma_stream *z, struct mg_error *err)
{
    if (lzma_stream_decoder (z, MEMORY_MAX, 0) != LZMA_OK)
        return mg_error_set (err, ENOMEM, "liblzma: out of memory");
    return 0;
}

static int create (void **impl, struct mg_error *err)
{
    lzma_stream *z = malloc (sizeof (*z));

    if (!z)
        return mg_error_set (err, ENOMEM, "liblzma: out of memory");
    *z = (lzma_stream)LZMA_STREAM_INIT;
    if (begin (z, err) < 0) {
        free (z);
        return -1;
    }
    *impl = z;
    return 0;
}

static int restart (void *impl, struct mg_error *err)
{
    return begin (impl, err);
}

static int run (void *impl, struct packed_io *io, struct mg_error *err)
{
    lzma_stream *z = impl;
    lzma_ret rc;

    z->next_in = io->in;
    z->avail_in = io->in_size;
    z->next_out = io->out;
    z->avail_out = io->out_size;
    rc = lzma_code (z, LZMA_RUN);
    io->in = z->next_in;
    io->in_size = z->avail_in;
    io->out = z->next_out;
    io->out_size = z->avail_out;
    if (rc == LZMA_OK || rc == LZMA_BUF_ERROR || rc == LZMA_STREAM_END)
        return rc == LZMA_STREAM_END;
    if (rc == LZMA_MEM_ERROR)
        return mg_error_set (err, ENOMEM, "liblzma: out of memory");
    if (rc == LZMA_MEMLIMIT_ERROR)
        return mg_error_set (err, EFBIG, "the xz data want more than %d MiB of memory",
                             MEMORY_MAX >> 20);
    return mg_error_set (err, EINVAL, "the xz data are damaged: error %d of liblzma", (int)rc);
}

static void destroy (void *impl)
{
    lzma_end (impl);
    free (impl);
}

const struct packed_ops packed_xz_ops = {
    .library = "liblzma",
    .create = create,
    .restart = restart,
    .run = run,
    .destroy = destroy,
};
