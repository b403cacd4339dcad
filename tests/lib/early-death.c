/* early-death.c - a rank that ends by a signal before its first iteration
 *
 * For LD_PRELOAD.  The rank of the launcher that EARLY_DEATH_RANK names raises
 * EARLY_DEATH_SIGNAL in the call of bind() with number EARLY_DEATH_BIND, from 1, or, if there is
 * none, when it opens a file whose path has EARLY_DEATH_FILE in it.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void end_here (void)
{
    const char *rank = getenv ("PMIX_RANK"), *which = getenv ("EARLY_DEATH_RANK");

    if (rank && which && strcmp (rank, which) == 0)
        raise (atoi (getenv ("EARLY_DEATH_SIGNAL")));
}

int bind (int fd, const struct sockaddr *address, socklen_t size)
{
    static int calls;
    const char *when = getenv ("EARLY_DEATH_BIND");
    int (*real) (int, const struct sockaddr *, socklen_t);

    *(void **)&real = dlsym (RTLD_NEXT, "bind");
    if (when && ++calls == atoi (when))
        end_here ();
    return real (fd, address, size);
}

int open (const char *path, int flags, ...)
{
    const char *part = getenv ("EARLY_DEATH_FILE");
    int (*real) (const char *, int, ...);
    va_list more;
    int mode;

    va_start (more, flags);
    mode = flags & O_CREAT ? va_arg (more, int) : 0;
    va_end (more);
    *(void **)&real = dlsym (RTLD_NEXT, "open");
    if (part && strstr (path, part))
        end_here ();
    return real (path, flags, mode);
}
