/* limit.c - limits of control groups, from the process's own up to the root
 *
 * A process may use the least that any group above it leaves.  Limits that cannot be read do not
 * count.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "libcore/device/limit.h"

/* The names of the files in the two versions. */
static const struct version {
    const char *dir; /* below the root */
    const char *limit, *used, *inactive;
} versions[] = {
    { "", "memory.max", "memory.current", "inactive_file" },
    { "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file" },
};

/* A number in a file: the whole of it, or behind 'key'.  False if there is none ("max"). */
static bool read_number (const char *dir, const char *name, const char *key, uint64_t *value)
{
    char path[PATH_MAX], line[256];
    size_t len = key ? strlen (key) : 0;
    bool found = false;
    FILE *file;

    if (snprintf (path, sizeof (path), "%s/%s", dir, name) >= (int)sizeof (path)
        || !(file = fopen (path, "re")))
        return false;
    while (!found && fgets (line, sizeof (line), file)) {
        if (!key || (strncmp (line, key, len) == 0 && line[len] == ' '))
            found = sscanf (line + len, "%" SCNu64, value) == 1;
    }
    fclose (file);
    return found;
}

static size_t left_in (const char *dir, const struct version *v)
{
    uint64_t limit, used, inactive;

    if (!read_number (dir, v->limit, NULL, &limit) || !read_number (dir, v->used, NULL, &used))
        return SIZE_MAX;
    if (read_number (dir, "memory.stat", v->inactive, &inactive))
        used -= inactive < used ? inactive : used;
    return limit > used ? limit - used : 0;
}

/* The process's group of the memory controller: its path, and by which version. */
static const struct version *find_group (const char *groups, char *path, size_t n)
{
    const struct version *version = NULL;
    FILE *file = fopen (groups, "re");
    char line[PATH_MAX + 64];

    while (file && fgets (line, sizeof (line), file)) {
        char *controllers = strchr (line, ':');
        char *group = controllers ? strchr (controllers + 1, ':') : NULL;
        bool unified, memory;

        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn (group, "\n")] = '\0';
        unified = controllers[1] == '\0';
        memory = strcmp (controllers + 1, "memory") == 0;
        if (!memory && (!unified || version)) // version 1 has the memory where it is listed
            continue;
        version = &versions[memory];
        if (snprintf (path, n, "%s", group) >= (int)n)
            version = NULL;
        if (memory)
            break;
    }
    if (file)
        fclose (file);
    return version;
}

size_t limit_available (const char *groups, const char *root)
{
    char group[PATH_MAX / 2], dir[PATH_MAX];
    const struct version *v;
    size_t least = SIZE_MAX;
    int saved_errno = errno;

    if (!(v = find_group (groups, group, sizeof (group))))
        return SIZE_MAX;
    for (;;) {
        char *slash;
        size_t left;

        if (snprintf (dir, sizeof (dir), "%s%s%s", root, v->dir, group) < (int)sizeof (dir)) {
            left = left_in (dir, v);
            least = left < least ? left : least;
        }
        if (!(slash = strrchr (group, '/')))
            break;
        *slash = '\0';
    }
    errno = saved_errno;
    return least;
}
