/* manifest - what a checkpoint holds, as one JSON file.
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
 * The last field is the XXH3 checksum of every byte before its comma, so that a file that
 * was cut or changed is known by its end; any later version keeps that and the first two
 * fields.  "save" is the same in the manifest and in all shards of one save.
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

/* Frees all of it, the roster too. */
void manifest_destroy (struct manifest *m);

/* The shard that a rank wrote, NULL if it wrote none. */
const struct manifest_shard *manifest_shard (const struct manifest *m, int rank);

/* Take the trainer's values for encoding: EINVAL if a name comes twice or a text is not
 * UTF-8.  NULL is an empty list.
 */
int manifest_set_values (struct manifest *m, const struct checkpoint_value *values,
                         struct mg_error *err);

/* Can these be filled by name? EINVAL if one is missing or of another type. */
int manifest_check_values (const struct manifest *m,
                           const struct checkpoint_value *values, struct mg_error *err);

/* Fill them, once checked. */
void manifest_get_values (const struct manifest *m, struct checkpoint_value *values);

/* The file's bytes; free them. NULL: out of memory. */
char *manifest_encode (const struct manifest *m, size_t *len, struct mg_error *err);

/* From the file's bytes, everything checked: EBADMSG if they are not a manifest, cut,
 * damaged, or make no sense; ENOTSUP if the format's version is not ours.
 */
struct manifest *manifest_decode (const char *text, size_t len, struct mg_error *err);

/* The bytes of the manifest in a checkpoint's directory: free *text. ENOENT if there is
 * none.
 */
int manifest_read (const char *path, char **text, size_t *len, struct mg_error *err);

/* Is every shard in the directory, with its length? ENOENT, EBADMSG. */
int manifest_check_shards (const struct manifest *m, const char *path,
                           struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_MANIFEST_H */
