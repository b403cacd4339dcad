/* limit - memory that the control groups of this process leave to it. */
#ifndef LIBCORE_DEVICE_LIMIT_H
#define LIBCORE_DEVICE_LIMIT_H

#include <stddef.h>

/* Bytes that may still be charged to the control group of the process, and to every one
 * above it: limit less use, where pages of files that were not used lately do not count,
 * since they make way.  'groups' is /proc/self/cgroup, 'root' /sys/fs/cgroup.  Version 2, or
 * the memory controller of version 1 ("Control Group v2", "Memory Resource Controller", Linux
 * documentation).  SIZE_MAX where there is no limit, or none can be read.
 */
size_t limit_available (const char *groups, const char *root);

#endif /* LIBCORE_DEVICE_LIMIT_H */
