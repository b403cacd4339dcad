/* callers.h - find out whose a call is, for libraries that are loaded by LD_PRELOAD
 *
 * A function that replaces one of the C library's passes its return address to caller_of().  The
 * object that the address lies in decides: the command and its modules are ours, the rest
 * (MPI, PMIx, oneDNN, the C library) is not.  Nothing here allocates.
 */
#ifndef TESTS_LIB_CALLERS_H
#define TESTS_LIB_CALLERS_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The C library's own functions, under names that such libraries do not replace. */
void *__libc_malloc (size_t size);
void *__libc_calloc (size_t n, size_t size);
void *__libc_realloc (void *p, size_t size);
void *__libc_memalign (size_t alignment, size_t size);

enum { CALLERS = 1 << 14 };

static struct caller {
    _Atomic (uintptr_t) address; /* 0: free */
    atomic_int kind;             /* 0: not known yet, 1: ours, -1: not */
    atomic_ulong count;          /* for the user of this file */
} callers[CALLERS];

static bool is_ours (const char *object)
{
    const char *name = strrchr (object, '/');

    name = name ? name + 1 : object;
    return strcmp (name, "megatron") == 0 || strncmp (name, "comm_", 5) == 0
           || strncmp (name, "boot_", 5) == 0;
}

/* The entry of a return address, made at its first call; NULL if the table is full. */
static struct caller *caller_of (const void *address)
{
    uintptr_t key = (uintptr_t)address;
    size_t i = key * 0x9e3779b97f4a7c15 >> 50;
    Dl_info info;

    for (size_t tries = 0; tries < CALLERS; tries++, i = (i + 1) % CALLERS) {
        struct caller *c = &callers[i];
        uintptr_t found = 0;

        if (!atomic_compare_exchange_strong (&c->address, &found, key) && found != key)
            continue;
        if (c->kind == 0)
            c->kind = dladdr (address, &info) && is_ours (info.dli_fname) ? 1 : -1;
        return c;
    }
    return NULL;
}

#endif /* TESTS_LIB_CALLERS_H */
