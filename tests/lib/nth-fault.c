/* nth-fault.c - make the n-th of a program's own calls fail
 *
 * For LD_PRELOAD.  A call counts if it is one of the class $MG_NTH_CLASS and its return address
 * lies in the program itself or in one of its modules (boot_*, comm_*):
 *
 *     memory   allocations, and threads
 *     file     opening, reading, writing, syncing, renaming, removing files and folders
 *     short    reads and writes that may do less than was asked for: such a call does half
 *     signal   the same: such a call is interrupted before it does anything (EINTR)
 *
 * Call number $MG_NTH fails, and no other; 0: none.  At the end of the program, or where the
 * call fails, a line goes to the file $MG_NTH_LOG: "calls N" or "FUNCTION ERROR OBJECT+OFFSET".
 * A stream that fails (fwrite, fflush, fclose, fread, getline) goes on failing, as one whose
 * disk is full does: its descriptor becomes one of /dev/full, or of a folder.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/lib/callers.h"

enum class { UNKNOWN, NONE, MEMORY, FILES, SHORT, SIGNAL };

static _Atomic int chosen = UNKNOWN;
static long fault;
static atomic_long calls;
static _Thread_local bool busy; /* in a function here, which may call others */

static void choose (void)
{
    static const char *const names[] = { "", "", "memory", "file", "short", "signal" };
    const char *name = getenv ("MG_NTH_CLASS"), *nth = getenv ("MG_NTH");

    fault = nth ? atol (nth) : 0;
    for (int i = MEMORY; name && i <= SIGNAL; i++) {
        if (strcmp (name, names[i]) == 0) {
            chosen = i;
            return;
        }
    }
    chosen = NONE;
}

static bool called_by_us (const void *address)
{
    const struct caller *c = caller_of (address);

    return c && c->kind == 1;
}

static void report (const char *text, int size)
{
    const char *path = getenv ("MG_NTH_LOG");
    int fd = path ? (int)syscall (SYS_openat, AT_FDCWD, path,
                                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

    if (fd < 0)
        return;
    if (syscall (SYS_write, fd, text, size) != size)
        abort ();
    syscall (SYS_close, fd);
}

/* Is this the call that fails? Then errno is set, and told. */
static bool fails (enum class class, const char *function, int errnum, const void *address)
{
    char line[400];
    Dl_info info = { .dli_fname = "?" };
    int size;

    if (chosen == UNKNOWN)
        choose ();
    if ((int)class != chosen || busy || !called_by_us (address)
        || atomic_fetch_add (&calls, 1) + 1 != fault)
        return false;
    busy = true;
    dladdr (address, &info);
    size = snprintf (line, sizeof (line), "%s %d %s+%#lx\n", function, errnum, info.dli_fname,
                     (unsigned long)((uintptr_t)address - (uintptr_t)info.dli_fbase) - 1);
    report (line, size);
    busy = false;
    errno = errnum;
    return true;
}

/* One of several errors, in turn by the number of the call that fails. */
static int one_of (int a, int b, int c)
{
    return fault % 3 == 0 ? a : fault % 3 == 1 ? b : c;
}

static void __attribute__ ((destructor)) tell_calls (void)
{
    char line[64];

    if (chosen > NONE && fault == 0)
        report (line, snprintf (line, sizeof (line), "calls %ld\n", (long)calls));
}

#define HERE __builtin_return_address (0)
#define NEXT(name) ((__typeof__ (&name))dlsym (RTLD_NEXT, #name))

/* --- memory --- */

void *malloc (size_t size)
{
    return fails (MEMORY, "malloc", ENOMEM, HERE) ? NULL : __libc_malloc (size);
}

void *calloc (size_t n, size_t size)
{
    return fails (MEMORY, "calloc", ENOMEM, HERE) ? NULL : __libc_calloc (n, size);
}

void *realloc (void *p, size_t size)
{
    return fails (MEMORY, "realloc", ENOMEM, HERE) ? NULL : __libc_realloc (p, size);
}

void *aligned_alloc (size_t alignment, size_t size)
{
    return fails (MEMORY, "aligned_alloc", ENOMEM, HERE) ? NULL
                                                         : __libc_memalign (alignment, size);
}

int posix_memalign (void **p, size_t alignment, size_t size)
{
    void *got;

    if (fails (MEMORY, "posix_memalign", ENOMEM, HERE)
        || !(got = __libc_memalign (alignment, size)))
        return ENOMEM;
    *p = got;
    return 0;
}

char *strdup (const char *s)
{
    size_t size = strlen (s) + 1;
    char *copy = fails (MEMORY, "strdup", ENOMEM, HERE) ? NULL : __libc_malloc (size);

    return copy ? memcpy (copy, s, size) : NULL;
}

char *strndup (const char *s, size_t n)
{
    size_t len = strnlen (s, n);
    char *copy = fails (MEMORY, "strndup", ENOMEM, HERE) ? NULL : __libc_calloc (len + 1, 1);

    return copy ? memcpy (copy, s, len) : NULL;
}

int vasprintf (char **text, const char *fmt, va_list ap)
{
    if (fails (MEMORY, "vasprintf", ENOMEM, HERE))
        return -1;
    return NEXT (vasprintf) (text, fmt, ap);
}

int asprintf (char **text, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (fails (MEMORY, "asprintf", ENOMEM, HERE))
        return -1;
    va_start (ap, fmt);
    n = NEXT (vasprintf) (text, fmt, ap);
    va_end (ap);
    return n;
}

FILE *open_memstream (char **text, size_t *size)
{
    return fails (MEMORY, "open_memstream", ENOMEM, HERE) ? NULL
                                                          : NEXT (open_memstream) (text, size);
}

int pthread_create (pthread_t *thread, const pthread_attr_t *attr, void *(*start) (void *),
                    void *arg)
{
    return fails (MEMORY, "pthread_create", EAGAIN, HERE)
               ? EAGAIN : NEXT (pthread_create) (thread, attr, start, arg);
}

void *mmap (void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (fails (flags & MAP_ANONYMOUS ? MEMORY : FILES, "mmap", ENOMEM, HERE))
        return MAP_FAILED;
    return (void *)syscall (SYS_mmap, at, size, protection, flags, fd, offset);
}

/* --- descriptors --- */

static int open_any (int dir, const char *path, int flags, va_list ap)
{
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg (ap, int) : 0;

    return (int)syscall (SYS_openat, dir, path, flags, mode);
}

static int open_error (int flags)
{
    return flags & O_CREAT ? one_of (ENOSPC, EMFILE, EACCES) : one_of (EIO, EMFILE, EACCES);
}

int open (const char *path, int flags, ...)
{
    va_list ap;
    int fd;

    if (fails (FILES, "open", open_error (flags), HERE))
        return -1;
    va_start (ap, flags);
    fd = open_any (AT_FDCWD, path, flags, ap);
    va_end (ap);
    return fd;
}

int openat (int dir, const char *path, int flags, ...)
{
    va_list ap;
    int fd;

    if (fails (FILES, "openat", open_error (flags), HERE))
        return -1;
    va_start (ap, flags);
    fd = open_any (dir, path, flags, ap);
    va_end (ap);
    return fd;
}

/* Of 'size' bytes, those that a call may do; -1: it has failed. */
static ssize_t allow (const char *function, int errnum, size_t size, const void *address)
{
    if (fails (FILES, function, errnum, address)
        || (size > 0 && fails (SIGNAL, function, EINTR, address)))
        return -1;
    if (size > 1 && fails (SHORT, function, 0, address))
        return (ssize_t)(size / 2);
    return (ssize_t)size;
}

ssize_t read (int fd, void *data, size_t size)
{
    ssize_t n = allow ("read", EIO, size, HERE);

    return n < 0 ? -1 : syscall (SYS_read, fd, data, n);
}

ssize_t pread (int fd, void *data, size_t size, off_t at)
{
    ssize_t n = allow ("pread", EIO, size, HERE);

    return n < 0 ? -1 : syscall (SYS_pread64, fd, data, n, at);
}

ssize_t write (int fd, const void *data, size_t size)
{
    ssize_t n = allow ("write", one_of (ENOSPC, EIO, EDQUOT), size, HERE);

    return n < 0 ? -1 : syscall (SYS_write, fd, data, n);
}

ssize_t pwrite (int fd, const void *data, size_t size, off_t at)
{
    ssize_t n = allow ("pwrite", one_of (ENOSPC, EIO, EDQUOT), size, HERE);

    return n < 0 ? -1 : syscall (SYS_pwrite64, fd, data, n, at);
}

ssize_t writev (int fd, const struct iovec *parts, int count)
{
    size_t size = 0;
    ssize_t n;

    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    n = allow ("writev", one_of (ENOSPC, EIO, EDQUOT), size, HERE);
    if (n >= 0 && (size_t)n < size) // less than all: part of the first
        return syscall (SYS_write, fd, parts[0].iov_base,
                        (size_t)n < parts[0].iov_len ? (size_t)n : parts[0].iov_len);
    return n < 0 ? -1 : syscall (SYS_writev, fd, parts, count);
}

int fsync (int fd)
{
    return fails (FILES, "fsync", one_of (EIO, ENOSPC, EDQUOT), HERE)
               ? -1 : (int)syscall (SYS_fsync, fd);
}

int fdatasync (int fd)
{
    return fails (FILES, "fdatasync", one_of (EIO, ENOSPC, EDQUOT), HERE)
               ? -1 : (int)syscall (SYS_fdatasync, fd);
}

int ftruncate (int fd, off_t size)
{
    return fails (FILES, "ftruncate", one_of (EIO, ENOSPC, EDQUOT), HERE)
               ? -1 : (int)syscall (SYS_ftruncate, fd, size);
}

int close (int fd)
{
    int errnum = one_of (EIO, ENOSPC, EDQUOT);
    bool failed = fails (FILES, "close", errnum, HERE);
    int rc = (int)syscall (SYS_close, fd);

    errno = failed ? errnum : errno;
    return failed ? -1 : rc;
}

int fstat (int fd, struct stat *st)
{
    return fails (FILES, "fstat", EIO, HERE) ? -1 : NEXT (fstat) (fd, st);
}

int stat (const char *path, struct stat *st)
{
    return fails (FILES, "stat", one_of (EIO, EACCES, EIO), HERE) ? -1 : NEXT (stat) (path, st);
}

int lstat (const char *path, struct stat *st)
{
    return fails (FILES, "lstat", one_of (EIO, EACCES, EIO), HERE) ? -1
                                                                    : NEXT (lstat) (path, st);
}

/* --- names --- */

int access (const char *path, int mode)
{
    return fails (FILES, "access", one_of (EIO, EACCES, EIO), HERE)
               ? -1 : (int)syscall (SYS_access, path, mode);
}

int rename (const char *from, const char *to)
{
    return fails (FILES, "rename", one_of (EIO, ENOSPC, EACCES), HERE)
               ? -1 : (int)syscall (SYS_rename, from, to);
}

int link (const char *from, const char *to)
{
    return fails (FILES, "link", one_of (EIO, ENOSPC, EACCES), HERE)
               ? -1 : (int)syscall (SYS_link, from, to);
}

int unlink (const char *path)
{
    return fails (FILES, "unlink", one_of (EIO, EBUSY, EACCES), HERE)
               ? -1 : (int)syscall (SYS_unlink, path);
}

int unlinkat (int dir, const char *path, int flags)
{
    return fails (FILES, "unlinkat", one_of (EIO, EBUSY, EACCES), HERE)
               ? -1 : (int)syscall (SYS_unlinkat, dir, path, flags);
}

int rmdir (const char *path)
{
    return fails (FILES, "rmdir", one_of (EIO, EBUSY, EACCES), HERE)
               ? -1 : (int)syscall (SYS_rmdir, path);
}

int mkdir (const char *path, mode_t mode)
{
    return fails (FILES, "mkdir", one_of (EIO, ENOSPC, EACCES), HERE)
               ? -1 : (int)syscall (SYS_mkdir, path, mode);
}

DIR *opendir (const char *path)
{
    return fails (FILES, "opendir", one_of (EIO, EMFILE, EACCES), HERE) ? NULL
                                                                         : NEXT (opendir) (path);
}

struct dirent *readdir (DIR *dir)
{
    return fails (FILES, "readdir", EIO, HERE) ? NULL : NEXT (readdir) (dir);
}

/* --- streams --- */

/* From now on the file under a stream fails. */
static void spoil (FILE *f)
{
    bool writes = (fcntl (fileno (f), F_GETFL) & O_ACCMODE) != O_RDONLY;
    int fd = (int)syscall (SYS_openat, AT_FDCWD, writes ? "/dev/full" : "/",
                           (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC, 0);

    dup2 (fd, fileno (f));
    syscall (SYS_close, fd);
}

static bool spoils (FILE *f, const char *function, const void *address)
{
    struct stat st;
    int saved_errno = errno;
    bool file = fileno (f) > 2 && NEXT (fstat) (fileno (f), &st) == 0 && S_ISREG (st.st_mode);

    errno = saved_errno;
    if (!file)
        return false;
    if (!fails (FILES, function, (fcntl (fileno (f), F_GETFL) & O_ACCMODE) == O_RDONLY
                                     ? EISDIR : ENOSPC, address))
        return false;
    spoil (f);
    return true;
}

FILE *fopen (const char *path, const char *mode)
{
    int errnum = *mode == 'r' ? one_of (EIO, EMFILE, EACCES) : one_of (ENOSPC, EMFILE, EACCES);

    return fails (FILES, "fopen", errnum, HERE) ? NULL : NEXT (fopen) (path, mode);
}

FILE *fdopen (int fd, const char *mode)
{
    return fails (MEMORY, "fdopen", ENOMEM, HERE) ? NULL : NEXT (fdopen) (fd, mode);
}

size_t fwrite (const void *data, size_t size, size_t n, FILE *f)
{
    bool spoilt = spoils (f, "fwrite", HERE);
    size_t done = NEXT (fwrite) (data, size, n, f);

    return spoilt && NEXT (fflush) (f) != 0 ? 0 : done;
}

size_t fread (void *data, size_t size, size_t n, FILE *f)
{
    spoils (f, "fread", HERE);
    return NEXT (fread) (data, size, n, f);
}

ssize_t getline (char **line, size_t *size, FILE *f)
{
    if (fails (MEMORY, "getline", ENOMEM, HERE))
        return -1;
    spoils (f, "getline", HERE);
    return NEXT (getline) (line, size, f);
}

int fflush (FILE *f)
{
    if (f && spoils (f, "fflush", HERE)) {
        NEXT (fflush) (f);
        errno = ENOSPC; // also where nothing was left to write
        return EOF;
    }
    return NEXT (fflush) (f);
}

int fclose (FILE *f)
{
    bool spoilt = spoils (f, "fclose", HERE);
    int rc = NEXT (fclose) (f);

    if (spoilt)
        errno = ENOSPC;
    return spoilt ? EOF : rc;
}
