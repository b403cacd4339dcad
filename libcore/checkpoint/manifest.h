/* manifest - the contents of a checkpoint, as one JSON file.
 *
 * {"format":"slurm-megatron checkpoint","version":1,"iteration":100,
 *  "save":"0123456789abcdef","slab_bytes":4194304,
 *  "values":{"consumed_samples":1600,"loss_scale":65536.0},
 *  "shards":[{"file":"shard_00003.bin","size":4160}],
 *  "tensors":[{"name":"x","dtype":"float32","shape":[64,16],
 *    "parts":[{"shard":3,"offset":64,"start":[0,0],"shape":[64,16],
 *              "checksums":["0123456789abcdef"]}]}],
 *  "checksum":"0123456789abcdef"}
 *
 * The last field is the XXH3 checksum of every byte before its comma, so that a reader
 * detects a file that was cut or changed.  Later versions keep this field and the first
 * two.  "save" is the same in the manifest and in all shards of one save.
 */
#ifndef LIBCORE_CHECKPOINT_MANIFEST_H
#define LIBCORE_CHECKPOINT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/shard.h"

struct json_t;

struct manifest_shard {
    int rank;
    int64_t size;
};

struct manifest {
    struct shard_id id;
    int64_t slab_bytes;
    struct manifest_shard *shards; /* by rank */
    size_t num_shards;
    struct roster *roster;
    struct json_t *values;
};

/* Frees the manifest and its roster. */
void manifest_destroy (struct manifest *m);

/* Returns the shard that a rank wrote, or NULL. */
const struct manifest_shard *manifest_shard (const struct manifest *m, int rank);

/* Set the trainer's values for encoding.  EINVAL if a name comes twice or a text is not
 * UTF-8.  NULL is an empty list.
 */
int manifest_set_values (struct manifest *m, const struct checkpoint_value *values,
                         struct mg_error *err);

/* Check that the manifest has all these values.  EINVAL if one is missing or has another
 * type. */
int manifest_check_values (const struct manifest *m,
                           const struct checkpoint_value *values, struct mg_error *err);

/* Fill in the values, which manifest_check_values() has accepted. */
void manifest_get_values (const struct manifest *m, struct checkpoint_value *values);

/* Returns the bytes of the file, which the caller frees, or NULL if out of memory. */
char *manifest_encode (const struct manifest *m, size_t *len, struct mg_error *err);

/* Decode the bytes of a file, and check everything.  EBADMSG if the bytes are no
 * manifest, are cut or damaged, or have values out of range; ENOTSUP if the format's
 * version is not ours.
 */
struct manifest *manifest_decode (const char *text, size_t len, struct mg_error *err);

/* The bytes of the manifest in a checkpoint's directory: free *text. ENOENT if there is
 * none.
 */
int manifest_read (const char *path, char **text, size_t *len, struct mg_error *err);

/* Check that the directory has every shard, with its length.  ENOENT or EBADMSG if not. */
int manifest_check_shards (const struct manifest *m, const char *path,
                           struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_MANIFEST_H */
