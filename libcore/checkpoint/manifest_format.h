/* manifest_format - declarations that encoding and decoding of the manifest share. */
#ifndef LIBCORE_CHECKPOINT_MANIFEST_FORMAT_H
#define LIBCORE_CHECKPOINT_MANIFEST_FORMAT_H

#include <inttypes.h>

#define MANIFEST_NAME "manifest.json"
#define MANIFEST_FORMAT "slurm-megatron checkpoint"
#define MANIFEST_BEGIN "{\"format\":\"" MANIFEST_FORMAT "\",\"version\":"
#define MANIFEST_END_FORMAT ",\"checksum\":\"%016" PRIx64 "\"}\n"

enum {
    MANIFEST_VERSION = 1,
    MANIFEST_SUM_MAX = 17,
    MANIFEST_END = sizeof (",\"checksum\":\"0123456789abcdef\"}\n") - 1
};

#endif /* LIBCORE_CHECKPOINT_MANIFEST_FORMAT_H */
