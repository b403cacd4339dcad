/* shard - one rank's part of a checkpoint: a file of raw pieces.
 *
 * 64 bytes of header (magic, version, rank, iteration, id of the save, size of the file,
 * checksum of the header), then every owned part, row-major, each starting at a multiple
 * of 64 bytes, zeros between.  A part is written and read in slabs (box_next_slab); XXH3
 * checksums of the slabs and the places of the parts stand in the manifest.
 */
#ifndef LIBCORE_CHECKPOINT_SHARD_H
#define LIBCORE_CHECKPOINT_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/checkpoint/box.h"
#include "libcore/file/durable.h"
#include "libcore/tensor/piece.h"
#include "megatron/error.h"

enum {
    SHARD_HEADER_BYTES = 64,
    SHARD_SLAB_BYTES = 4 << 20, /* bytes of a slab that we write */
    SHARD_NAME_MAX = 32
};

struct shard_id { /* the save that a shard belongs to */
    int64_t iteration;
    char save[DURABLE_ID_MAX];
};

/* "shard_00003.bin" into name[SHARD_NAME_MAX]. */
void shard_name (char *name, int rank);

/* Returns the rank in the name of a shard, or -1 if the name is no shard's. */
int shard_rank (const char *name);

/* Elements of a slab of at most 'bytes'; at least one. */
int64_t shard_slab (int64_t bytes, size_t element);

/* Set *offset to the start of a part of 'bytes' bytes.  The parts before it end at *end,
 * 0 if there are none; *end becomes the end of this part.  False on overflow.
 */
bool shard_place (int64_t *end, int64_t bytes, int64_t *offset);

/* Write the owned pieces' parts, in their order, and fsync.  The slabs' checksums, in the
 * order written, are put into *sums (free it).  If no piece is owned, no file is made.  A
 * file that could not be completed is removed.
 */
int shard_write (const char *path, const struct shard_id *id, int rank,
                 const struct piece *pieces, size_t n, uint64_t **sums, size_t *num_sums,
                 struct mg_error *err);

struct shard; /* open for reading */

/* Open and check length and header.  On failure NULL, a text, and errno: ENOENT if the
 * file is missing, EBADMSG if it is truncated, damaged, or of another save or rank,
 * ENOTSUP if it has another format version.
 */
struct shard *shard_open (const char *path, const struct shard_id *id, int rank,
                          int64_t size, struct mg_error *err);
void shard_close (struct shard *shard);

/* Read 'len' bytes at 'offset' and check them: EBADMSG if the checksum is wrong. */
int shard_read (struct shard *shard, int64_t offset, void *data, size_t len, uint64_t sum,
                struct mg_error *err);

/* Check that the bytes [from, to), which no part has, are the zeros that were written.  0, or -1
 * with errno EBADMSG if they are not.
 */
int shard_read_zeros (struct shard *shard, int64_t from, int64_t to, struct mg_error *err);

/* Of a file that shard_open() refused with EBADMSG: true if it is no shard, or one of another
 * save or rank; false if it is a damaged shard of this save and rank.
 */
bool shard_is_foreign (const char *path, const struct shard_id *id, int rank);

#endif /* LIBCORE_CHECKPOINT_SHARD_H */
