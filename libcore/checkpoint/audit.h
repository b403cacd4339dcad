/* audit - read all of a checkpoint and tell everything that is wrong with it.
 *
 * A load stops at the first fault; this one goes on, file by file, so that one run tells
 * what can be mended and what is lost.
 */
#ifndef LIBCORE_CHECKPOINT_AUDIT_H
#define LIBCORE_CHECKPOINT_AUDIT_H

#include <stdint.h>

#include "megatron/error.h"

enum audit_kind {
    AUDIT_MISSING,   /* listed, and not there */
    AUDIT_TRUNCATED, /* shorter than it was written */
    AUDIT_DAMAGED,   /* a checksum is wrong, or bytes that should not be there */
    AUDIT_FOREIGN,   /* not a file of this save */
    AUDIT_VERSION,   /* of a format version that this program does not read */
    AUDIT_UNREADABLE /* the system refuses */
};

/* "missing", "truncated", ... */
const char *audit_kind_name (enum audit_kind kind);

/* Told of every fault: 'file' is a name in the checkpoint's directory. */
typedef void (*audit_fault_f) (void *arg, enum audit_kind kind, const char *file,
                               const char *text);

struct audit {
    int64_t files, tensors; /* that should be there; 0 if the manifest is bad */
    int64_t bytes;          /* read and found good */
    int64_t faults;
};

/* Check the checkpoint in the directory 'path', which should be of 'iteration': manifest,
 * header of every shard, checksum of every slab, zeros between parts, and that nothing
 * else is there.  At most one fault a file is told, but for damaged shards one a part.
 * Local; reads every byte.  0 with the counts, faults or not; -1 with errno and a text if
 * it cannot be done: no such directory, out of memory.
 */
int audit_checkpoint (const char *path, int64_t iteration, audit_fault_f fault, void *arg,
                      struct audit *audit, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_AUDIT_H */
