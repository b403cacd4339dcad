/* limit - memory that the control groups of this process still allow. */
#ifndef LIBCORE_DEVICE_LIMIT_H
#define LIBCORE_DEVICE_LIMIT_H

#include <stddef.h>

/* Bytes that may still be charged to the control group of the process, and to every one
 * above it: the limit less the use.  Pages of files that were not used lately do not
 * count as used, since the kernel frees them if necessary.  'groups' is
 * /proc/self/cgroup, 'root' /sys/fs/cgroup.  Version 2, or the memory controller of
 * version 1 ("Control Group v2", "Memory Resource Controller", Linux documentation).
 * SIZE_MAX if there is no limit, or if no limit can be read.
 */
size_t limit_available (const char *groups, const char *root);

#endif /* LIBCORE_DEVICE_LIMIT_H */
