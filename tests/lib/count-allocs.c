/* count-allocs.c - count a program's own memory allocations by their caller
 *
 * For LD_PRELOAD.  A call counts if its return address lies in the program itself or in one
 * of its modules (boot_*, comm_*): what libraries allocate for themselves is theirs.  At
 * the end a line "COUNT OBJECT+OFFSET" for every caller goes to $MG_COUNT_ALLOCS.PID.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/callers.h"

static void count (const void *address)
{
    struct caller *c = caller_of (address);

    if (c)
        c->count++;
}

void *malloc (size_t size)
{
    count (__builtin_return_address (0));
    return __libc_malloc (size);
}

void *calloc (size_t n, size_t size)
{
    count (__builtin_return_address (0));
    return __libc_calloc (n, size);
}

void *realloc (void *p, size_t size)
{
    count (__builtin_return_address (0));
    return __libc_realloc (p, size);
}

void *aligned_alloc (size_t alignment, size_t size)
{
    count (__builtin_return_address (0));
    return __libc_memalign (alignment, size);
}

int posix_memalign (void **p, size_t alignment, size_t size)
{
    void *got = __libc_memalign (alignment, size);

    count (__builtin_return_address (0));
    if (!got)
        return ENOMEM;
    *p = got;
    return 0;
}

/* What the C library would allocate in the caller's name. */
char *strdup (const char *s)
{
    size_t size = strlen (s) + 1;
    char *copy = __libc_malloc (size);

    count (__builtin_return_address (0));
    return copy ? memcpy (copy, s, size) : NULL;
}

char *strndup (const char *s, size_t n)
{
    size_t len = strnlen (s, n);
    char *copy = __libc_calloc (len + 1, 1);

    count (__builtin_return_address (0));
    return copy ? memcpy (copy, s, len) : NULL;
}

static void __attribute__ ((destructor)) report (void)
{
    const char *prefix = getenv ("MG_COUNT_ALLOCS");
    char path[500];
    int fd;

    if (!prefix)
        return;
    snprintf (path, sizeof (path), "%s.%d", prefix, (int)getpid ());
    if ((fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0666)) < 0)
        return;
    for (size_t i = 0; i < CALLERS; i++) {
        Dl_info info;

        if (callers[i].kind == 1 && dladdr ((void *)callers[i].address, &info))
            dprintf (fd, "%lu %s+%#lx\n", (unsigned long)callers[i].count, info.dli_fname,
                     (unsigned long)(callers[i].address - (uintptr_t)info.dli_fbase) - 1);
    }
    close (fd);
}
