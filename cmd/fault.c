/* fault.c - a SIGBUS handler
 *
 * The handler uses only functions that a signal handler may call, and a line that it builds in a
 * buffer of its own.  The first thread that faults reports and ends the process; other threads
 * wait for the end.
 */

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/fault.h"

enum { LINE_MAX_BYTES = PATH_MAX + 128 };

/* A line that is made without stdio. */
struct line {
    char text[LINE_MAX_BYTES + 512];
    size_t len;
};

static void add (struct line *line, const char *text)
{
    size_t n = strlen (text), room = sizeof (line->text) - line->len;

    if (n > room)
        n = room;
    memcpy (line->text + line->len, text, n);
    line->len += n;
}

/* Read the hexadecimal number at *at, and move *at behind it. */
static uintptr_t read_hex (const char **at)
{
    uintptr_t value = 0;

    for (;; ++*at) {
        char c = **at;

        if (c >= '0' && c <= '9')
            value = value * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uintptr_t)(c - 'a' + 10);
        else
            return value;
    }
}

/* The path in a line of /proc/self/maps, "begin-end rwxp offset device inode path", if 'address'
 * lies in the range, else NULL.  *offset becomes the place in the file of the byte at 'address'.
 */
static const char *file_of_line (const char *text, uintptr_t address, uintptr_t *offset)
{
    const char *at = text;
    uintptr_t begin = read_hex (&at), end;

    if (*at++ != '-')
        return NULL;
    end = read_hex (&at);
    if (address < begin || address >= end || strlen (at) < 6)
        return NULL;
    at += 6; // " rwxp "
    *offset = read_hex (&at) + (address - begin);
    at = strchr (at, '/');
    return at;
}

/* The same for all lines of /proc/self/maps.  The path lies in 'text'. */
static const char *find_file (uintptr_t address, char text[LINE_MAX_BYTES], uintptr_t *offset)
{
    int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const char *path = NULL;
    char piece[1024];
    size_t len = 0;
    ssize_t n;

    while (fd >= 0 && !path && (n = read (fd, piece, sizeof (piece))) > 0) {
        for (ssize_t i = 0; i < n && !path; i++) {
            if (piece[i] != '\n') {
                if (len < LINE_MAX_BYTES - 1)
                    text[len++] = piece[i];
                continue;
            }
            text[len] = '\0';
            len = 0;
            path = file_of_line (text, address, offset);
        }
    }
    if (fd >= 0)
        close (fd);
    return path;
}

/* Add "rank 3: " if the launcher has numbered this process. */
static void add_rank (struct line *line)
{
    extern char **environ;
    static const char *const variables[] = { "PMIX_RANK=", "OMPI_COMM_WORLD_RANK=",
                                             "SLURM_PROCID=" };

    for (size_t i = 0; i < sizeof (variables) / sizeof (variables[0]); i++) {
        for (char **e = environ; e && *e; e++) {
            if (strncmp (*e, variables[i], strlen (variables[i])) != 0)
                continue;
            add (line, "rank ");
            add (line, *e + strlen (variables[i]));
            add (line, ": ");
            return;
        }
    }
}

/* Several threads may fault at the same time.  The first one reports and ends the process; the
 * others wait for that.
 */
static void wait_for_turn (void)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT; // a handler can keep it nowhere else

    while (atomic_flag_test_and_set (&taken))
        pause ();
}

static void report (int number, siginfo_t *info, void *context)
{
    struct line line = { .len = 0 };
    char text[LINE_MAX_BYTES];
    uintptr_t offset = 0;
    const char *path = info->si_code > 0 // raised by the kernel: si_addr is an address
                           ? find_file ((uintptr_t)info->si_addr, text, &offset)
                           : NULL;
    struct stat st;

    (void)context;
    if (!path) { // no file is at fault: the signal ends the process
        signal (number, SIG_DFL);
        raise (number);
        return;
    }
    wait_for_turn ();
    add (&line, "megatron: ");
    add_rank (&line);
    add (&line, path);
    add (&line, stat (path, &st) == 0 && (uintptr_t)st.st_size > offset
                    ? ": it cannot be read: its disk or server failed"
                    : ": it has become shorter, or was removed, while it was in use");
    add (&line, "; restore it, and run the same command again\n");
    if (write (STDERR_FILENO, line.text, line.len) < 0)
        _exit (1); // nowhere to say it
    _exit (1);
}

void fault_watch (void)
{
    struct sigaction action = { .sa_sigaction = report, .sa_flags = SA_SIGINFO };

    sigemptyset (&action.sa_mask);
    sigaction (SIGBUS, &action, NULL);
    // UCX, which MPI may load, would put a handler of its own in this one's place
    setenv ("UCX_ERROR_SIGNALS", "SIGILL,SIGSEGV,SIGFPE", 0);
}
