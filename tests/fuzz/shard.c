/* shard.c - one rank's file of a checkpoint
 *
 * Input: a number that chooses; an offset and a length to read, of two bytes each; then the
 * file, whose header gets a fitting checksum and a fitting size if the first number is odd.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/checkpoint/shard.h"
#include "tests/fuzz/fuzz.h"

enum { RANK = 3, SIZE_AT = 40, SUM_AT = 56 };

static const struct shard_id id = { .iteration = 100, .save = "0123456789abcdef" };

static void store (unsigned char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static void read_part (struct shard *shard, const unsigned char *file, size_t size,
                       size_t offset, size_t length)
{
    bool inside = offset <= size && length <= size - offset;
    char *data = malloc (length + 1);
    uint64_t sum = inside ? XXH3_64bits (file + offset, length) : 0;
    bool zeros = inside;

    fuzz_check (data, "out of memory");
    fuzz_check ((shard_read (shard, (int64_t)offset, data, length, sum, NULL) == 0) == inside
                    || length == 0,
                "%zu bytes at %zu of %zu", length, offset, size);
    fuzz_check (!inside || length == 0
                    || shard_read (shard, (int64_t)offset, data, length, ~sum, NULL) < 0,
                "a wrong checksum is accepted");
    for (size_t i = 0; inside && i < length; i++)
        zeros = zeros && file[offset + i] == 0;
    fuzz_check ((shard_read_zeros (shard, (int64_t)offset, (int64_t)(offset + length), NULL)
                 == 0) == zeros || length == 0,
                "zeros at %zu", offset);
    free (data);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    bool fit = fuzz_number (&in, 1) % 2 == 1;
    size_t offset = fuzz_number (&in, 2), length = fuzz_number (&in, 2);
    unsigned char *file = fuzz_copy (in);
    const char *path;
    struct shard *shard;

    if (fit && in.left >= SHARD_HEADER_BYTES) {
        store (file + SIZE_AT, in.left);
        store (file + SUM_AT, XXH3_64bits (file, SUM_AT));
    }
    path = fuzz_file ("shard", (struct fuzz_input){ file, in.left });
    shard = shard_open (path, &id, RANK, (int64_t)in.left, NULL);
    if (shard)
        read_part (shard, file, in.left, offset, length);
    else if (errno == EBADMSG)
        shard_is_foreign (path, &id, RANK);
    fuzz_check (!shard || !shard_is_foreign (path, &id, RANK), "its own shard is foreign");
    shard_close (shard);
    free (file);
}

const struct fuzz_target fuzz_shard = { "shard", run };
