/* safetensors_format - declarations that the reader and the writer of safetensors files
 * share. */
#ifndef LIBCORE_CHECKPOINT_SAFETENSORS_FORMAT_H
#define LIBCORE_CHECKPOINT_SAFETENSORS_FORMAT_H

#include "libcore/checkpoint/safetensors.h"

enum {
    SAFETENSORS_HEADER_MAX = 100000000, /* bytes; the limit of the reference reader */
    SAFETENSORS_MAX_DIMS = 8            /* dimensions of an entry */
};

/* "F32", ... of a valid data type. */
const char *safetensors_type_name (enum mg_dtype dtype);

#endif /* LIBCORE_CHECKPOINT_SAFETENSORS_FORMAT_H */
