/* scratch.c - files of a test in a private directory */

#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

static char root[PATH_MAX - 300];
static pid_t maker;
static char **paths; /* handed out */
static size_t num_paths;

static void destroy (void)
{
    if (getpid () != maker)
        return;
    scratch_remove_tree (root);
    for (size_t i = 0; i < num_paths; i++)
        free (paths[i]);
    free (paths);
}

void scratch_create (void)
{
    const char *tmp = getenv ("TMPDIR");

    snprintf (root, sizeof (root), "%s/megatron-test.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp (root))
        bail_out ("cannot make a directory like %s", root);
    maker = getpid ();
    atexit (destroy);
}

static int remove_one (const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove (path);
}

void scratch_remove_tree (const char *path)
{
    nftw (path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path (const char *name)
{
    const size_t len = strlen (root) + 1;

    for (size_t i = 0; i < num_paths; i++) {
        if (strcmp (paths[i] + len, name) == 0)
            return paths[i];
    }
    if (!(paths = realloc (paths, (num_paths + 1) * sizeof (*paths)))
        || asprintf (&paths[num_paths], "%s/%s", root, name) < 0)
        bail_out ("out of memory");
    return paths[num_paths++];
}

const char *scratch_write (const char *name, const void *data, size_t len)
{
    const char *path = scratch_path (name);
    FILE *f = fopen (path, "w");

    if (!f || fwrite (data, 1, len, f) != len || fclose (f) != 0)
        bail_out ("cannot write %s", path);
    return path;
}

void *scratch_read (const char *path, size_t *len)
{
    FILE *f = fopen (path, "r");
    struct stat st;
    char *data;

    if (!f || fstat (fileno (f), &st) < 0 || !(data = malloc ((size_t)st.st_size + 1))
        || fread (data, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        bail_out ("cannot read %s", path);
    fclose (f);
    data[st.st_size] = '\0';
    *len = (size_t)st.st_size;
    return data;
}

const char *scratch_memory (const void *data, size_t len)
{
    static char path[64];
    static int fd = -1;

    if (fd < 0 && (fd = memfd_create ("scratch", MFD_CLOEXEC)) < 0)
        bail_out ("cannot make a file in memory");
    if (ftruncate (fd, 0) < 0 || pwrite (fd, data, len, 0) != (ssize_t)len)
        bail_out ("cannot write a file in memory");
    snprintf (path, sizeof (path), "/proc/self/fd/%d", fd);
    return path;
}

unsigned long scratch_random (unsigned long limit)
{
    static uint64_t state = 88172645463325252u;

    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned long)(state * 2685821657736338717u >> 32) % limit;
}
