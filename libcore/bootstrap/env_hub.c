/* env_hub.c - connections as small state machines, so that no stranger holds the others up
 *
 * A connection is read frame by frame.  Until it has proved that it belongs to the job it may send
 * nothing but what the start asks for, and its frames have known lengths.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "libcore/base/timed.h"
#include "libcore/bootstrap/env_hub.h"

enum {
    BACKLOG = 4096,
    STRANGERS_MAX = 256, /* connections at a time that have not proved anything yet */
    STRANGERS_MIN = 8,
    STRANGER_SECONDS = 10,
    CROWDED_SECONDS = 1, /* for each answer while no other connection can be accepted */
    FILES_SPARE = 64,    /* descriptors for the rest of the program */
    TELL_SECONDS = 2, /* to send the reason of a failure to all ranks */
    NAMED_MAX = 8,
    PAUSE_MS = 20,
    LOOK_MS = 200, /* until strangers whose time is over are looked for */
};

enum state { SAYS_HELLO, PROVES, BELONGS };

/* A connection, and the frame that it is sending. */
struct peer {
    int fd; /* -1: none */
    enum state state;
    struct timespec deadline; /* of a connection that has not proved anything */
    struct timespec crowded;  /* of its next frame, while there is no place for another one */
    struct env_header header;
    size_t have; /* bytes of the header and the body */
    char *body;  /* [header.len], once the header is whole */
    struct env_hello hello;
    uint8_t nonce[ENV_NONCE];
    char from[80];
};

struct env_hub {
    int fd, size;
    char *token;
    struct peer *rank;     /* [size] those that belong; 0 is not used */
    int max_strangers;
    struct peer *stranger; /* [max_strangers] */
    struct pollfd *polls;  /* [size + max_strangers + 1] */
    int strangers, wrong_tokens; /* that have come and gone */
    char last_stranger[80];
};

static void close_peer (struct peer *p)
{
    if (p->fd >= 0)
        close (p->fd);
    free (p->body);
    *p = (struct peer){ .fd = -1 };
}

void env_hub_destroy (struct env_hub *hub)
{
    if (!hub)
        return;
    for (int i = 0; hub->rank && i < hub->size; i++)
        close_peer (&hub->rank[i]);
    for (int i = 0; hub->stranger && i < hub->max_strangers; i++)
        close_peer (&hub->stranger[i]);
    if (hub->fd >= 0)
        close (hub->fd);
    free (hub->rank);
    free (hub->stranger);
    free (hub->polls);
    free (hub->token);
    free (hub);
}

static int open_listener (const struct sockaddr *address, socklen_t len, struct mg_error *err)
{
    int fd = socket (address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    if (fd >= 0 && setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof (one)) == 0
        && bind (fd, address, len) == 0 && listen (fd, BACKLOG) == 0)
        return fd;
    mg_error_set (err, errno, "bootstrap env: rank 0 cannot listen at MASTER_ADDR and MASTER_PORT: "
                  "%s%s", strerror (errno), errno == EADDRNOTAVAIL
                  ? "; the address is not one of this machine" : errno == EADDRINUSE
                  ? "; want a port that no other program uses" : "");
    if (fd >= 0)
        close (fd);
    return -1;
}

/* Each rank takes a descriptor of this process.  Raise the limit if it is too low for them.
 * Returns the number of strangers for which descriptors are left, or -1 and a text.
 */
static int make_room (int size, struct mg_error *err)
{
    struct rlimit files;
    rlim_t want = (rlim_t)size + FILES_SPARE + STRANGERS_MIN, all = want + STRANGERS_MAX;

    if (getrlimit (RLIMIT_NOFILE, &files) < 0)
        return mg_error_set (err, errno, "bootstrap env: no limit of open files: %s",
                             strerror (errno));
    if (files.rlim_cur < all && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max < all ? files.rlim_max : all;
        setrlimit (RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur < want)
        return mg_error_set (err, EMFILE, "bootstrap env: rank 0 may open %llu files (ulimit -n), "
                             "and needs %llu for %d ranks", (unsigned long long)files.rlim_cur,
                             (unsigned long long)want, size);
    return files.rlim_cur < all ? (int)(files.rlim_cur - want) + STRANGERS_MIN : STRANGERS_MAX;
}

struct env_hub *env_hub_create (const struct sockaddr *address, socklen_t len, int size,
                                const char *token, struct mg_error *err)
{
    struct env_hub *hub;
    int strangers = make_room (size, err);

    if (strangers < 0)
        return NULL;
    if ((hub = calloc (1, sizeof (*hub))))
        hub->fd = -1;
    if (!hub || !(hub->rank = calloc ((size_t)size, sizeof (*hub->rank)))
        || !(hub->stranger = calloc ((size_t)strangers, sizeof (*hub->stranger)))
        || !(hub->polls = calloc ((size_t)(size + strangers) + 1, sizeof (*hub->polls)))
        || !(hub->token = strdup (token))) {
        mg_error_set (err, ENOMEM, "bootstrap env: out of memory for %d ranks", size);
        goto error;
    }
    hub->size = size;
    hub->max_strangers = strangers;
    for (int i = 0; i < size; i++)
        hub->rank[i].fd = -1;
    for (int i = 0; i < strangers; i++)
        hub->stranger[i].fd = -1;
    if ((hub->fd = open_listener (address, len, err)) >= 0)
        return hub;
error:
    env_hub_destroy (hub);
    return NULL;
}

/* --- what is said to ranks --- */

/* Take what the other side is still sending, until it closes the connection. */
static void drain (const struct peer *p, const struct timespec *deadline)
{
    struct pollfd wait = { .fd = p->fd, .events = POLLIN };
    char unread[4096];
    ssize_t got;

    do
        got = recv (p->fd, unread, sizeof (unread), MSG_DONTWAIT);
    while (env_left_ms (deadline) > 0
           && (got > 0 || (got < 0 && errno == EAGAIN
                           && poll (&wait, 1, env_left_ms (deadline)) > 0)));
}

/* Send the reason to 'n' connections, then drain them: a connection that is closed with unread
 * bytes is reset, and the reason would be lost.  A rank that is stopped does not hold up others.
 */
static void send_failure (const struct peer *peers, int n, int errnum, const char *text)
{
    struct env_fail fail = { .errnum = (uint32_t)errnum };
    const struct timespec deadline = timed_deadline (TELL_SECONDS), now = timed_deadline (0);

    snprintf (fail.text, sizeof (fail.text), "%s", text);
    for (int i = 0; i < n; i++) {
        if (peers[i].fd >= 0 && env_send (peers[i].fd, ENV_FAIL, &fail, sizeof (fail), &now) == 0)
            shutdown (peers[i].fd, SHUT_WR);
    }
    for (int i = 0; i < n; i++) {
        if (peers[i].fd >= 0)
            drain (&peers[i], &deadline);
    }
}

/* Tell all ranks, and hand the failure on. */
static int fail_all (const struct env_hub *hub, const struct mg_error *err)
{
    int saved_errno = errno;

    send_failure (hub->rank + 1, hub->size - 1, saved_errno, err->text);
    errno = saved_errno;
    return -1;
}

/* --- reading --- */

/* True if a connection in its state may send the frame whose header has come. */
static bool is_allowed (const struct peer *p)
{
    const struct env_header *h = &p->header;

    if (h->magic != ENV_MAGIC)
        return false;
    switch (p->state) {
    case SAYS_HELLO:
        return h->kind == ENV_HELLO && h->len == sizeof (struct env_hello);
    case PROVES:
        return h->kind == ENV_PROOF && h->len == sizeof (struct env_proof);
    case BELONGS:
        return h->kind == ENV_DATA && h->len <= ENV_DATA_MAX;
    }
    return false;
}

/* Read the bytes of a frame that have come, and wait for none.  Returns 1 if the frame is whole, 0
 * if bytes are missing, -1 if the connection is over or the frame is not allowed.
 */
static int read_frame (struct peer *p)
{
    for (;;) {
        size_t head = sizeof (p->header), want = p->have < head ? head : head + p->header.len;
        char *at = p->have < head ? (char *)&p->header + p->have : p->body + (p->have - head);
        ssize_t got;

        if (p->have >= head && p->have == want)
            return 1;
        got = recv (p->fd, at, want - p->have, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return -1;
        p->have += (size_t)got;
        if (p->have == head && (!is_allowed (p) || !(p->body = malloc (p->header.len + 1))))
            return -1;
    }
}

static void next_frame (struct peer *p)
{
    free (p->body);
    p->body = NULL;
    p->have = 0;
}

/* --- the start --- */

/* A place for another connection; NULL: there is none. */
static struct peer *find_place (struct env_hub *hub)
{
    for (int i = 0; i < hub->max_strangers; i++) {
        if (hub->stranger[i].fd < 0)
            return &hub->stranger[i];
    }
    return NULL;
}

static void accept_peer (struct env_hub *hub, struct peer *p)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof (address);
    int fd = accept4 (hub->fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno != EAGAIN)
            poll (NULL, 0, PAUSE_MS); // no descriptor is free, say: the listener stays readable
        return;
    }
    env_set_nodelay (fd);
    *p = (struct peer){ .fd = fd, .state = SAYS_HELLO,
                        .deadline = timed_deadline (STRANGER_SECONDS),
                        .crowded = timed_deadline (CROWDED_SECONDS) };
    if (getnameinfo ((struct sockaddr *)&address, len, p->from, sizeof (p->from), NULL, 0,
                     NI_NUMERICHOST) != 0)
        snprintf (p->from, sizeof (p->from), "an unknown address");
}

static void drop_stranger (struct env_hub *hub, struct peer *p, bool wrong_token)
{
    hub->strangers += !wrong_token;
    hub->wrong_tokens += wrong_token;
    snprintf (hub->last_stranger, sizeof (hub->last_stranger), "%s", p->from);
    close_peer (p);
}

static int refuse_hello (struct env_hub *hub, struct peer *p, struct mg_error *err)
{
    const struct env_hello *h = &p->hello;

    if (h->world != (uint32_t)hub->size)
        mg_error_set (err, EINVAL, "bootstrap env: rank %u from %s has WORLD_SIZE %u, rank 0 has "
                      "%d", h->rank, p->from, h->world, hub->size);
    else if (h->rank == 0 || h->rank >= (uint32_t)hub->size)
        mg_error_set (err, EINVAL, "bootstrap env: rank %u is there twice, or is no rank of %d: "
                      "from %s", h->rank, hub->size, p->from);
    else
        mg_error_set (err, EINVAL, "bootstrap env: rank %u is there twice: from %s and from %s",
                      h->rank, hub->rank[h->rank].from, p->from);
    send_failure (p, 1, EINVAL, err->text);
    errno = EINVAL;
    return -1;
}

/* A connection that has not proved anything has sent a whole frame.  Waits for nothing.  -1 and a
 * text if a rank of the job has come that must not.
 */
static int read_stranger (struct env_hub *hub, struct peer *p, struct mg_error *err)
{
    struct timespec now = timed_deadline (0);
    struct env_challenge challenge;
    uint8_t mac[SHA256_SIZE];
    bool same;

    if (p->state == SAYS_HELLO) {
        memcpy (&p->hello, p->body, sizeof (p->hello));
        if (env_random (p->nonce, sizeof (p->nonce), err) < 0)
            return -1;
        memcpy (challenge.nonce, p->nonce, sizeof (p->nonce));
        env_prove (hub->token, "hub", &p->hello, p->nonce, challenge.mac);
        p->state = PROVES;
        p->crowded = timed_deadline (CROWDED_SECONDS);
        next_frame (p);
        if (env_send (p->fd, ENV_CHALLENGE, &challenge, sizeof (challenge), &now) < 0)
            drop_stranger (hub, p, false);
        return 0;
    }
    env_prove (hub->token, "rank", &p->hello, p->nonce, mac);
    same = env_is_same (mac, (const uint8_t *)p->body);
    next_frame (p);
    if (!same) { // a rank has seen by the challenge that the tokens differ
        drop_stranger (hub, p, true);
        return 0;
    }
    if (p->hello.world != (uint32_t)hub->size || p->hello.rank == 0
        || p->hello.rank >= (uint32_t)hub->size || hub->rank[p->hello.rank].fd >= 0)
        return refuse_hello (hub, p, err);
    p->state = BELONGS;
    env_send (p->fd, ENV_WELCOME, NULL, 0, &now); // read_frame() finds a failure
    hub->rank[p->hello.rank] = *p;
    *p = (struct peer){ .fd = -1 };
    return 0;
}

/* The ranks without a connection have not come; with 'data', those without a whole frame.  'others'
 * ends the text.  Returns -1, after all ranks have been told.
 */
static int refuse_missing (const struct env_hub *hub, bool data, double seconds,
                           const char *others, struct mg_error *err)
{
    char ranks[160] = "", more[32] = "";
    int missing = 0;
    size_t len = 0;

    for (int r = 1; r < hub->size; r++) {
        const struct peer *p = &hub->rank[r];
        bool whole = p->have >= sizeof (p->header) && p->have == sizeof (p->header) + p->header.len;

        if (p->fd >= 0 && (!data || whole))
            continue;
        if (missing++ < NAMED_MAX)
            len += (size_t)snprintf (ranks + len, sizeof (ranks) - len, "%s%d",
                                     missing > 1 ? ", " : "", r);
    }
    if (missing > NAMED_MAX)
        snprintf (more, sizeof (more), " and %d more", missing - NAMED_MAX);
    mg_error_set (err, ETIMEDOUT, "bootstrap env: rank%s %s%s of %d ha%s not come within %g s%s",
                  missing == 1 ? "" : "s", ranks, more, hub->size, missing == 1 ? "s" : "ve",
                  seconds, others);
    return fail_all (hub, err);
}

static int refuse_meeting (const struct env_hub *hub, double seconds, struct mg_error *err)
{
    char others[200] = "";

    if (hub->wrong_tokens > 0)
        snprintf (others, sizeof (others), "; %d connections had another "
                  "MEGATRON_BOOTSTRAP_TOKEN, the last from %s", hub->wrong_tokens,
                  hub->last_stranger);
    else if (hub->strangers > 0)
        snprintf (others, sizeof (others), "; %d connections were not of this program, the last "
                  "from %s", hub->strangers, hub->last_stranger);
    return refuse_missing (hub, false, seconds, others, err);
}

/* Wait for news of strangers and, if there is a place for another one, of the listener.  Returns
 * true for news of the listener.
 */
static bool poll_strangers (struct env_hub *hub, bool place, int ms)
{
    int n = 0;

    // no entry without a descriptor: poll() takes no more entries than a process may open files
    if (place)
        hub->polls[n++] = (struct pollfd){ .fd = hub->fd, .events = POLLIN };
    for (int i = 0; i < hub->max_strangers; i++) {
        if (hub->stranger[i].fd >= 0)
            hub->polls[n++] = (struct pollfd){ .fd = hub->stranger[i].fd, .events = POLLIN };
    }
    if (poll (hub->polls, (nfds_t)n, ms) < 0 && errno != EINTR)
        poll (NULL, 0, PAUSE_MS);
    return place && hub->polls[0].revents;
}

static bool is_late (const struct peer *p, bool crowded)
{
    return env_left_ms (crowded ? &p->crowded : &p->deadline) == 0;
}

/* Read what strangers have sent, and drop those whose time is over.  If it is 'crowded', those that
 * come later wait in the listener until there is a place, and strangers have less time for their
 * next frame.  A rank that is dropped so early tries again.
 */
static int read_strangers (struct env_hub *hub, bool crowded, struct mg_error *err)
{
    for (int i = 0; i < hub->max_strangers; i++) {
        struct peer *p = &hub->stranger[i];
        int rc = p->fd < 0 ? 0 : read_frame (p);

        if (rc > 0 && read_stranger (hub, p, err) < 0)
            return fail_all (hub, err);
        if (rc < 0 || (p->fd >= 0 && is_late (p, crowded)))
            drop_stranger (hub, p, false);
    }
    return 0;
}

int env_hub_meet (struct env_hub *hub, double seconds, struct mg_error *err)
{
    struct timespec deadline = timed_deadline (seconds);
    int left = hub->size - 1;

    while (left > 0) {
        struct peer *place = find_place (hub);
        int ms = env_left_ms (&deadline);

        if (ms == 0)
            return refuse_meeting (hub, seconds, err);
        if (poll_strangers (hub, place, ms < LOOK_MS ? ms : LOOK_MS))
            accept_peer (hub, place);
        if (read_strangers (hub, !place, err) < 0)
            return -1;
        left = 0;
        for (int r = 1; r < hub->size; r++)
            left += hub->rank[r].fd < 0;
    }
    for (int i = 0; i < hub->max_strangers; i++)
        close_peer (&hub->stranger[i]);
    close (hub->fd); // nobody else belongs to the job
    hub->fd = -1;
    return 0;
}

/* --- collective calls --- */

/* Tell each rank that rank 0 has come to the call, then read until each has given a whole frame. */
static int gather (struct env_hub *hub, double seconds, struct mg_error *err)
{
    const struct timespec deadline = timed_deadline (seconds);
    int left;

    for (int r = 1; r < hub->size; r++)
        env_send (hub->rank[r].fd, ENV_HERE, NULL, 0, &deadline); // read_frame() finds a failure
    for (;;) {
        int ms = env_left_ms (&deadline);

        left = 0;
        for (int r = 1; r < hub->size; r++) {
            struct peer *p = &hub->rank[r];
            int rc = read_frame (p);

            if (rc < 0) {
                mg_error_set (err, ECONNRESET, "bootstrap env: rank %d has ended", r);
                close_peer (p);
                return fail_all (hub, err);
            }
            hub->polls[r] = (struct pollfd){ .fd = rc == 0 ? p->fd : -1, .events = POLLIN };
            left += rc == 0;
        }
        if (left == 0)
            return 0;
        if (ms == 0)
            return refuse_missing (hub, true, seconds, "", err);
        hub->polls[0] = (struct pollfd){ .fd = -1 };
        poll (hub->polls, (nfds_t)hub->size, ms);
    }
}

static char *append (char *at, const void *data, size_t len)
{
    const uint64_t bytes = len;

    memcpy (at, &bytes, sizeof (bytes));
    if (len > 0)
        memcpy (at + sizeof (bytes), data, len);
    return at + sizeof (bytes) + len;
}

int env_hub_exchange (struct env_hub *hub, const void *own, size_t len, double seconds,
                      char **answer, size_t *answer_len, struct mg_error *err)
{
    struct timespec deadline;
    size_t total = len + sizeof (uint64_t) * (size_t)hub->size;
    char *at;

    if (gather (hub, seconds, err) < 0)
        return -1;
    for (int r = 1; r < hub->size; r++)
        total += hub->rank[r].header.len;
    if (total > ENV_ANSWER_MAX || !(*answer = malloc (total))) {
        mg_error_set (err, ENOMEM, "bootstrap env: the ranks exchange %zu bytes, want %d at most",
                      total, ENV_ANSWER_MAX);
        return fail_all (hub, err);
    }
    at = append (*answer, own, len);
    for (int r = 1; r < hub->size; r++) {
        at = append (at, hub->rank[r].body, hub->rank[r].header.len);
        next_frame (&hub->rank[r]);
    }
    *answer_len = total;
    deadline = timed_deadline (seconds);
    for (int r = 1; r < hub->size; r++) {
        if (env_send (hub->rank[r].fd, ENV_ANSWER, *answer, total, &deadline) == 0)
            continue;
        mg_error_set (err, errno, "bootstrap env: rank %d has ended", r);
        free (*answer);
        return fail_all (hub, err);
    }
    return 0;
}
