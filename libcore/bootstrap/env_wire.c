/* env_wire.c - frames over sockets that do not block */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libcore/bootstrap/env_wire.h"

void env_prove (const char *token, const char *side, const struct env_hello *hello,
                const uint8_t nonce[ENV_NONCE], uint8_t mac[SHA256_SIZE])
{
    uint8_t message[8 + ENV_NONCE + sizeof (*hello)] = { 0 };

    _Static_assert (sizeof (message) <= SHA256_MESSAGE_MAX, "a proof is of few bytes");
    strncpy ((char *)message, side, 8);
    memcpy (message + 8, nonce, ENV_NONCE);
    memcpy (message + 8 + ENV_NONCE, hello, sizeof (*hello));
    sha256_hmac (token, strlen (token), message, sizeof (message), mac);
}

int env_random (uint8_t *bytes, size_t n, struct mg_error *err)
{
    if (getrandom (bytes, n, 0) == (ssize_t)n)
        return 0;
    return mg_error_set (err, errno, "bootstrap env: no random bytes: %s", strerror (errno));
}

bool env_is_same (const uint8_t a[SHA256_SIZE], const uint8_t b[SHA256_SIZE])
{
    uint8_t differs = 0;

    for (int i = 0; i < SHA256_SIZE; i++)
        differs |= (uint8_t)(a[i] ^ b[i]);
    return differs == 0;
}

int env_left_ms (const struct timespec *deadline)
{
    struct timespec now;
    double left;

    clock_gettime (CLOCK_MONOTONIC, &now);
    left = (double)(deadline->tv_sec - now.tv_sec) * 1e3
           + (double)(deadline->tv_nsec - now.tv_nsec) / 1e6;
    return left <= 0 ? 0 : left > 1e9 ? 1000000000 : (int)left + 1;
}

/* Wait until the socket can go on. */
static int wait_for (int fd, short events, const struct timespec *deadline)
{
    struct pollfd p = { .fd = fd, .events = events };
    int rc;

    do
        rc = poll (&p, 1, env_left_ms (deadline));
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        errno = ETIMEDOUT;
    return rc > 0 ? 0 : -1;
}

void env_set_nodelay (int fd)
{
    const int one = 1;

    // without it frames are slower, and nothing else
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof (one));
}

static int send_bytes (int fd, const void *data, size_t n, int flags,
                       const struct timespec *deadline)
{
    const char *at = data;

    while (n > 0) {
        ssize_t done = send (fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT | flags);

        if (done > 0) {
            at += done;
            n -= (size_t)done;
        } else if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wait_for (fd, POLLOUT, deadline) < 0)
                return -1;
        } else {
            errno = ECONNRESET;
            return -1;
        }
    }
    return 0;
}

int env_send (int fd, enum env_frame kind, const void *body, size_t len,
              const struct timespec *deadline)
{
    const struct env_header header = { ENV_MAGIC, kind, len };

    // a header leaves with its body
    return send_bytes (fd, &header, sizeof (header), len > 0 ? MSG_MORE : 0, deadline) < 0
                   || send_bytes (fd, body, len, 0, deadline) < 0 ? -1 : 0;
}

int env_recv (int fd, void *data, size_t n, const struct timespec *deadline)
{
    char *at = data;

    while (n > 0) {
        ssize_t done = recv (fd, at, n, MSG_DONTWAIT);

        if (done > 0) {
            at += done;
            n -= (size_t)done;
        } else if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wait_for (fd, POLLIN, deadline) < 0)
                return -1;
        } else {
            errno = ECONNRESET;
            return -1;
        }
    }
    return 0;
}
