/* device_absent.c - kernels of a device of tests that exists nowhere: plans ask them for scratch
 * memory, as they ask those of a GPU on a machine without one
 */

#include "libcore/device/device_ops.h"

enum { SCRATCH = 3 << 20 }; /* bytes that every call needs */

static int scratch_bytes (const struct kernels *k, const void *args, size_t *bytes,
                          struct mg_error *err)
{
    (void)k, (void)args, (void)err;
    *bytes = SCRATCH;
    return 0;
}

const struct kern_ops kern_absent_ops = {
    .name = "absent",
#define PLAN(OP, op) .scratch[KERN_##OP] = scratch_bytes,
    KERN_OPS (PLAN)
#undef PLAN
};
