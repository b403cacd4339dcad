/* endpoint - a process listens, others connect by what it says; nobody there is an error in time */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libcore/job/endpoint.h"
#include "tests/tap/tap.h"

static void test_host (void)
{
    char host[ENDPOINT_HOST_MAX], name[ENDPOINT_HOST_MAX] = "", longest[2 * ENDPOINT_HOST_MAX];

    setenv ("SLURMD_NODENAME", "n17", 1);
    endpoint_host (host);
    is_str (host, "n17", "the node has Slurm's name");
    memset (longest, 'x', sizeof (longest) - 1);
    longest[sizeof (longest) - 1] = '\0';
    setenv ("SLURMD_NODENAME", longest, 1);
    endpoint_host (host);
    is_int (strlen (host), ENDPOINT_HOST_MAX - 1, "a long name is cut");
    setenv ("SLURMD_NODENAME", "", 1);
    gethostname (name, sizeof (name) - 1);
    endpoint_host (host);
    is_str (host, name, "without Slurm's that of the host");
    unsetenv ("SLURMD_NODENAME");
}

static bool is_quiet (int fd)
{
    return (fcntl (fd, F_GETFL) & O_NONBLOCK) && (fcntl (fd, F_GETFD) & FD_CLOEXEC);
}

/* A byte goes from the one that connects to the one that listens. */
static bool passes (int listener, int to)
{
    struct pollfd p = { .fd = listener, .events = POLLIN };
    char byte = 0;
    int from;
    bool good;

    if (poll (&p, 1, 10000) != 1 || (from = accept (listener, NULL, NULL)) < 0)
        return false;
    p.fd = from;
    good = send (to, "x", 1, 0) == 1 && poll (&p, 1, 10000) == 1
           && recv (from, &byte, 1, 0) == 1 && byte == 'x';
    close (from);
    return good;
}

static bool is_on_loopback (int listener)
{
    struct sockaddr_in own;
    socklen_t len = sizeof (own);

    return getsockname (listener, (struct sockaddr *)&own, &len) == 0 && own.sin_family == AF_INET
           && own.sin_addr.s_addr == htonl (INADDR_LOOPBACK);
}

int main (void)
{
    struct mg_error err = { "" };
    struct endpoint a, b, elsewhere;
    int first, second, fd;

    test_host ();
    first = endpoint_listen (&a, false, &err);
    second = endpoint_listen (&b, true, &err);
    if (first < 0 || second < 0)
        bail_out ("%s", err.text);
    ok (a.port && b.port && a.port != b.port, "each has a port of its own");
    ok (a.token != b.token, "and a token");
    ok (is_quiet (first), "nothing waits on the socket, and no child has it");
    fd = endpoint_connect (&a, 10, &err);
    ok (fd >= 0 && is_quiet (fd) && passes (first, fd), "another one connects %s", err.text);
    close (fd);
    fd = endpoint_connect (&b, 10, &err);
    ok (fd >= 0 && passes (second, fd) && b.num_addresses == 0 && is_on_loopback (second),
        "on one machine the loopback is enough %s", err.text);
    close (fd);
    elsewhere = a;
    strcpy (elsewhere.host, "elsewhere");
    elsewhere.num_addresses = 0;
    fd = endpoint_connect (&elsewhere, 10, &err);
    ok (fd >= 0 && passes (first, fd), "without addresses there is the host's own %s", err.text);
    close (fd);
    close (first);
    errno = 0;
    ok (endpoint_connect (&a, 1, &err) == -1 && errno != 0 && err.text[0],
        "nobody listens any more: %s", err.text);
    a.port = 0;
    errno = 0;
    ok (endpoint_connect (&a, 1, &err) == -1 && errno != 0, "no port: %s", err.text);
    close (second);
    return done_testing ();
}
