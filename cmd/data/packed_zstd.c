/* packed_zstd.c - zstd, by libzstd, which limits the memory of a frame to 128 MiB */

#include <errno.h>
#include <zstd.h>

#include "cmd/data/packed.h"

static int create (void **impl, struct mg_error *err)
{
    if (!(*impl = ZSTD_createDStream ()))
        return mg_error_set (err, ENOMEM, "libzstd: out of memory");
    return 0;
}

static int restart (void *impl, struct mg_error *err)
{
    if (ZSTD_isError (ZSTD_initDStream (impl)))
        return mg_error_set (err, ENOMEM, "libzstd: out of memory");
    return 0;
}

static int run (void *impl, struct packed_io *io, struct mg_error *err)
{
    ZSTD_inBuffer in = { io->in, io->in_size, 0 };
    ZSTD_outBuffer out = { io->out, io->out_size, 0 };
    size_t rc = ZSTD_decompressStream (impl, &out, &in);

    io->in += in.pos;
    io->in_size -= in.pos;
    io->out += out.pos;
    io->out_size -= out.pos;
    if (ZSTD_isError (rc))
        return mg_error_set (err, EINVAL, "the zstd data are damaged: %s",
                             ZSTD_getErrorName (rc));
    return rc == 0;
}

static void destroy (void *impl)
{
    ZSTD_freeDStream (impl);
}

const struct packed_ops packed_zstd_ops = {
    .library = "libzstd",
    .create = create,
    .restart = restart,
    .run = run,
    .destroy = destroy,
};
