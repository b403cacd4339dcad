/* packed - read a file that may be compressed, and decompress its bytes
 *
 * The first bytes of the file, not its name, decide about the compression: gzip, bzip2,
 * xz or zstd.  Several compressed streams, one after the other, are read as one, as the
 * tools of these names do.  Zeros after a stream are skipped.  Memory does not grow with
 * the file.
 */
#ifndef CMD_DATA_PACKED_H
#define CMD_DATA_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "megatron/error.h"

/* The most bytes of a line of a compressed file: a few kilobytes can hold gigabytes of zeros. */
enum { DATA_PACKED_LINE = 1 << 30 };

/* The input and the output of a decompressor, which advances both pointers. */
struct packed_io {
    const unsigned char *in;
    size_t in_size;
    unsigned char *out;
    size_t out_size;
};

/* A decompressor. */
struct packed_ops {
    const char *library; /* for texts */
    /* Make *impl, at the beginning of a stream. */
    int (*create) (void **impl, struct mg_error *err);
    /* Begin the next stream. */
    int (*restart) (void *impl, struct mg_error *err);
    /* Decompress input until there is no more input or no more room.  1: at the end of a
     * stream, 0: not yet, -1 and a text: errno EINVAL (not such data), ENOMEM. */
    int (*run) (void *impl, struct packed_io *io, struct mg_error *err);
    void (*destroy) (void *impl);
};

extern const struct packed_ops packed_gzip_ops, packed_bzip2_ops, packed_xz_ops, packed_zstd_ops;

struct data_packed; /* opaque */

/* Open a file.  NULL with errno of open and read; ENOTSUP and a text that names the compression if
 * this build lacks its library, or if the file is an archive or a table.  The caller owns it. */
struct data_packed *data_packed_open (const char *path, struct mg_error *err);

/* Returns the stream of decompressed bytes, valid until data_packed_close().
 * data_packed_check() describes read errors. */
FILE *data_packed_stream (struct data_packed *packed);

/* Call this after reading has stopped.  0 at the end of the file.  Otherwise -1 with
 * errno and a text; for compressed data, the text has the place of the damage, or says
 * that the data end too early. */
int data_packed_check (struct data_packed *packed, struct mg_error *err);

/* Close and free; NULL is allowed; errno is kept. */
void data_packed_close (struct data_packed *packed);

/* true if the file is compressed */
bool data_packed_compressed (const struct data_packed *packed);

#endif /* CMD_DATA_PACKED_H */
