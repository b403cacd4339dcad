/* endpoint.c - listen and connect
 *
 * A listening socket takes any free port, on all interfaces or on the loopback alone.  Its
 * addresses, and a random token that connections must name, go to the other ranks.  Connecting
 * tries one address after the other, each with a time limit.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libcore/job/endpoint.h"

enum { BACKLOG = 4096 };

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

void endpoint_host (char host[ENDPOINT_HOST_MAX])
{
    const char *node = getenv ("SLURMD_NODENAME");

    if (node && *node)
        snprintf (host, ENDPOINT_HOST_MAX, "%s", node);
    else if (gethostname (host, ENDPOINT_HOST_MAX) < 0)
        snprintf (host, ENDPOINT_HOST_MAX, "unknown");
    host[ENDPOINT_HOST_MAX - 1] = '\0';
}

/* An interface's address in our form; false if others cannot use it. */
static bool read_address (const struct ifaddrs *ifa, uint8_t out[16])
{
    if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP) || (ifa->ifa_flags & IFF_LOOPBACK))
        return false;
    if (ifa->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in a;

        memcpy (&a, ifa->ifa_addr, sizeof (a));
        memcpy (out, mapped, sizeof (mapped));
        memcpy (out + 12, &a.sin_addr, 4);
        return true;
    }
    if (ifa->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 a;

        memcpy (&a, ifa->ifa_addr, sizeof (a));
        memcpy (out, &a.sin6_addr, 16);
        return !IN6_IS_ADDR_LINKLOCAL (&a.sin6_addr);
    }
    return false;
}

static void list_addresses (struct endpoint *e)
{
    struct ifaddrs *list = NULL;

    if (getifaddrs (&list) == 0) {
        for (struct ifaddrs *i = list; i && e->num_addresses < ENDPOINT_ADDRESSES;
             i = i->ifa_next) {
            if (read_address (i, e->address[e->num_addresses]))
                e->num_addresses++;
        }
        freeifaddrs (list);
    }
}

static int bind_four (uint32_t address, uint16_t *port)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (address) };
    socklen_t len = sizeof (four);
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && bind (fd, (struct sockaddr *)&four, sizeof (four)) == 0
        && getsockname (fd, (struct sockaddr *)&four, &len) == 0) {
        *port = ntohs (four.sin_port);
        return fd;
    }
    if (fd >= 0)
        close (fd);
    return -1;
}

/* Both families with one socket, or IPv4 where the kernel has no other. */
static int bind_any (uint16_t *port)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT };
    socklen_t len = sizeof (six);
    int off = 0, fd = socket (AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && setsockopt (fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof (off)) == 0
        && bind (fd, (struct sockaddr *)&six, sizeof (six)) == 0
        && getsockname (fd, (struct sockaddr *)&six, &len) == 0) {
        *port = ntohs (six.sin6_port);
        return fd;
    }
    if (fd >= 0)
        close (fd);
    return bind_four (INADDR_ANY, port);
}

int endpoint_listen (struct endpoint *e, bool here_alone, struct mg_error *err)
{
    int fd;

    *e = (struct endpoint){ .port = 0 };
    fd = here_alone ? bind_four (INADDR_LOOPBACK, &e->port) : bind_any (&e->port);
    if (fd < 0 || listen (fd, BACKLOG) < 0
        || getrandom (&e->token, sizeof (e->token), 0) != sizeof (e->token)) {
        mg_error_set (err, errno, "cannot listen for other ranks: %s", strerror (errno));
        if (fd >= 0)
            close (fd);
        e->port = 0;
        return -1;
    }
    endpoint_host (e->host);
    if (!here_alone)
        list_addresses (e);
    return fd;
}

static int connect_to (const uint8_t address[16], uint16_t port, double seconds)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons (port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons (port) };
    bool is_four = memcmp (address, mapped, sizeof (mapped)) == 0;
    int one = 1, error = 0, fd, rc;
    socklen_t len = sizeof (error);
    struct pollfd p;

    memcpy (&six.sin6_addr, address, 16);
    memcpy (&four.sin_addr, address + 12, 4);
    fd = socket (is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    rc = is_four ? connect (fd, (struct sockaddr *)&four, sizeof (four))
                 : connect (fd, (struct sockaddr *)&six, sizeof (six));
    p = (struct pollfd){ .fd = fd, .events = POLLOUT };
    if (rc < 0 && errno != EINPROGRESS)
        error = errno;
    else if (rc < 0 && poll (&p, 1, (int)(seconds * 1000)) != 1)
        error = ETIMEDOUT;
    else if (rc < 0 && getsockopt (fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error) {
        close (fd);
        errno = error;
        return -1;
    }
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof (one));
    return fd;
}

int endpoint_connect (const struct endpoint *e, double seconds, struct mg_error *err)
{
    static const uint8_t loopback[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff,
                                          127, 0, 0, 1 };
    char here[ENDPOINT_HOST_MAX];
    int fd = -1;

    endpoint_host (here);
    errno = EHOSTUNREACH;
    if (e->port && strncmp (here, e->host, sizeof (here)) == 0)
        fd = connect_to (loopback, e->port, seconds);
    for (int i = 0; fd < 0 && i < e->num_addresses && i < ENDPOINT_ADDRESSES; i++)
        fd = connect_to (e->address[i], e->port, seconds);
    if (fd < 0 && e->port && e->num_addresses == 0) // it has no other
        fd = connect_to (loopback, e->port, seconds);
    if (fd < 0)
        return mg_error_set (err, errno, "cannot connect to %.60s: %s", e->host,
                             strerror (errno));
    return fd;
}
