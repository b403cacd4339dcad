/* audit - read a whole checkpoint and report all its faults.
 *
 * A load stops at the first fault.  An audit continues, file by file, so that one run
 * reports which parts can be repaired and which are lost.
 */
#ifndef LIBCORE_CHECKPOINT_AUDIT_H
#define LIBCORE_CHECKPOINT_AUDIT_H

#include <stdint.h>

#include "megatron/error.h"

enum audit_kind {
    AUDIT_MISSING,   /* the manifest lists the file, and it does not exist */
    AUDIT_TRUNCATED, /* shorter than it was written */
    AUDIT_DAMAGED,   /* a checksum is wrong, or bytes that should not be there */
    AUDIT_FOREIGN,   /* not a file of this save */
    AUDIT_VERSION,   /* of a format version that this program does not read */
    AUDIT_UNREADABLE /* the system cannot read the file */
};

/* "missing", "truncated", ... */
const char *audit_kind_name (enum audit_kind kind);

/* Called for every fault.  'file' is a name in the checkpoint's directory. */
typedef void (*audit_fault_f) (void *arg, enum audit_kind kind, const char *file,
                               const char *text);

struct audit {
    int64_t files, tensors; /* numbers that the manifest lists; 0 if the manifest is bad */
    int64_t bytes;          /* bytes that were read and are correct */
    int64_t faults;
};

/* Check the checkpoint of 'iteration' in the directory 'path': the manifest, the header
 * of every shard, the checksum of every slab, the zeros between parts, and that there are
 * no other files.  At most one fault is reported for each file, or for each part of a
 * damaged shard.  Local; reads every byte.  0 with the counts, even if there are faults;
 * -1 with errno and a text if the audit fails: no such directory, out of memory.
 */
int audit_checkpoint (const char *path, int64_t iteration, audit_fault_f fault, void *arg,
                      struct audit *audit, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_AUDIT_H */
