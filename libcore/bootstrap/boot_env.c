/* boot_env.c - find the other ranks by variables of the environment
 *
 * RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT say what PyTorch's
 * launchers say.  Rank 0 listens at MASTER_ADDR, and every collective call is one gathering and one
 * answer over its connections (env_wire.h).  Ranks of one node are those of one host name.
 */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libcore/base/parse.h"
#include "libcore/base/timed.h"
#include "libcore/bootstrap/bootstrap_ops.h"
#include "libcore/bootstrap/env_hub.h"
#include "libcore/bootstrap/nodes.h"

enum {
    SIZE_MAX_RANKS = 1 << 16,
    RETRY_MS = 50,
    ANSWER_SECONDS = 4, /* that rank 0 has to name what is missing, after the timeout */
    HERE_SECONDS = 2,   /* the same, as long as it has not come to the call */
};

struct env {
    const struct bootstrap_host *host;
    double timeout;
    int size, task, local_rank, local_size;
    char token[1024];
    struct sockaddr_storage address; /* of rank 0 */
    socklen_t address_len;
    struct env_hub *hub; /* of rank 0 */
    int fd;              /* of the others, -1: none */
    bool connected;      /* a connection to rank 0 was made */
    bool proved;         /* rank 0 has proved that it knows the token */
    bool closed;         /* rank 0 has closed the connection, and given no reason */
    struct nodes_placed *placed; /* [size] by logical rank */
    char *answer;        /* of the last exchange ... */
    char **data;         /* [size] by task: ... the bytes of each, behind their length */
    bool failed;
};

/* --- variables --- */

static int read_number (const char *name, int min, int max, int *value, struct mg_error *err)
{
    const char *text = getenv (name);

    if (!text || !*text)
        return mg_error_set (err, EINVAL, "MEGATRON_BOOTSTRAP=env wants %s: it is not set", name);
    return parse_int (name, text, min, max, value, err);
}

static bool is_loopback (const struct sockaddr_storage *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

    if (address->ss_family == AF_INET)
        return ntohl (four->sin_addr.s_addr) >> 24 == 127;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK (&six->sin6_addr);
}

static int find_master (struct env *e, struct mg_error *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const char *name = getenv ("MASTER_ADDR");
    struct addrinfo *found = NULL;
    char service[16];
    int port, rc;

    if (!name || !*name)
        return mg_error_set (err, EINVAL, "MEGATRON_BOOTSTRAP=env wants MASTER_ADDR: it is not "
                             "set");
    if (read_number ("MASTER_PORT", 1, 65535, &port, err) < 0)
        return -1;
    snprintf (service, sizeof (service), "%d", port);
    if ((rc = getaddrinfo (name, service, &hints, &found)) != 0)
        return mg_error_set (err, EINVAL, "MASTER_ADDR %.80s has no address: %s", name,
                             gai_strerror (rc));
    memcpy (&e->address, found->ai_addr, found->ai_addrlen);
    e->address_len = found->ai_addrlen;
    freeaddrinfo (found);
    return 0;
}

/* Other users of the machines can connect to the port, so ranks prove that they know a secret. */
static int read_token (struct env *e, struct mg_error *err)
{
    const char *token = getenv ("MEGATRON_BOOTSTRAP_TOKEN");
    size_t len = token ? strlen (token) : 0;

    if (len == 0 && is_loopback (&e->address))
        return 0;
    if (len == 0)
        return mg_error_set (err, EACCES, "MASTER_ADDR %.80s is beyond this machine: want "
                             "MEGATRON_BOOTSTRAP_TOKEN, the same secret of %d characters or more "
                             "for all ranks", getenv ("MASTER_ADDR"), ENV_TOKEN_MIN);
    if (len < ENV_TOKEN_MIN || len >= sizeof (e->token))
        return mg_error_set (err, EINVAL, "MEGATRON_BOOTSTRAP_TOKEN has %zu characters, want %d to "
                             "%zu", len, ENV_TOKEN_MIN, sizeof (e->token) - 1);
    memcpy (e->token, token, len);
    return 0;
}

static int read_variables (struct env *e, struct mg_error *err)
{
    if (read_number ("WORLD_SIZE", 1, SIZE_MAX_RANKS, &e->size, err) < 0
        || read_number ("RANK", 0, e->size - 1, &e->task, err) < 0
        || read_number ("LOCAL_WORLD_SIZE", 1, e->size, &e->local_size, err) < 0
        || read_number ("LOCAL_RANK", 0, e->local_size - 1, &e->local_rank, err) < 0)
        return -1;
    if (e->size == 1)
        return 0;
    return find_master (e, err) < 0 ? -1 : read_token (e, err);
}

/* --- a rank's side of the connection --- */

/* The connection has failed, with this errno.  Returns -1 and a text. */
static int lose_hub (struct env *e, int failed, struct mg_error *err)
{
    e->closed = failed != ETIMEDOUT;
    if (!e->closed)
        return e->host->error_set (err, ETIMEDOUT, "bootstrap env: rank 0 does not answer within "
                                   "%g s", e->timeout);
    return e->host->error_set (err, ECONNRESET, "bootstrap env: rank 0 has ended");
}

/* The body of the next frame, which must be of this kind, and of 'want' bytes unless that is 0.
 * A failure that rank 0 tells is this rank's, too.
 */
static void *next_body (struct env *e, enum env_frame kind, size_t want, size_t *len,
                        const struct timespec *deadline, struct mg_error *err)
{
    struct env_header h;
    struct env_fail fail;
    void *body = NULL;

    if (env_recv (e->fd, &h, sizeof (h), deadline) < 0)
        goto lost;
    if (h.magic == ENV_MAGIC && h.kind == ENV_FAIL && h.len == sizeof (fail)) {
        if (env_recv (e->fd, &fail, sizeof (fail), deadline) < 0)
            goto lost;
        fail.text[sizeof (fail.text) - 1] = '\0';
        e->host->error_set (err, fail.errnum ? (int)fail.errnum : EPROTO, "%s", fail.text);
        return NULL;
    }
    if (h.magic != ENV_MAGIC || h.kind != kind || (want && h.len != want)
        || h.len > ENV_ANSWER_MAX) {
        e->host->error_set (err, EPROTO, "bootstrap env: what answers at MASTER_ADDR and "
                            "MASTER_PORT is not rank 0 of this program");
        return NULL;
    }
    if (!(body = malloc (h.len + 1))) {
        e->host->error_set (err, ENOMEM, "bootstrap env: out of memory for %llu bytes",
                            (unsigned long long)h.len);
        return NULL;
    }
    if (env_recv (e->fd, body, h.len, deadline) < 0)
        goto lost;
    *len = h.len;
    return body;
lost:
    lose_hub (e, errno, err);
    free (body);
    return NULL;
}

/* Try once, until the deadline at most.  0, or errno. */
static int try_connect (struct env *e, const struct timespec *deadline)
{
    struct pollfd p = { .events = POLLOUT };
    socklen_t len = sizeof (int);
    int failed = 0;

    e->fd = socket (e->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (e->fd < 0)
        return errno;
    env_set_nodelay (e->fd);
    if (connect (e->fd, (struct sockaddr *)&e->address, e->address_len) == 0)
        return 0;
    failed = errno;
    p.fd = e->fd;
    if (failed == EINPROGRESS && poll (&p, 1, env_left_ms (deadline)) <= 0)
        failed = ETIMEDOUT;
    else if (failed == EINPROGRESS && getsockopt (e->fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0)
        failed = errno;
    if (failed == 0)
        return 0;
    close (e->fd);
    e->fd = -1;
    return failed;
}

/* Rank 0 has not let this rank in; the last try failed with this errno.  Returns -1 and a text. */
static int miss_hub (const struct env *e, int last, struct mg_error *err)
{
    return mg_error_set (err, ETIMEDOUT, "bootstrap env: rank 0 at %.80s port %.10s %s within %g "
                         "s: %s", getenv ("MASTER_ADDR"), getenv ("MASTER_PORT"),
                         e->connected ? "was there, but has not let this rank in" : "has not come",
                         e->timeout, strerror (last));
}

/* Connect, again and again until rank 0 listens: it often does a few milliseconds later. */
static int connect_hub (struct env *e, const struct timespec *deadline, struct mg_error *err)
{
    int last, ms = 1;

    do {
        if ((last = try_connect (e, deadline)) == 0) {
            e->connected = true;
            return 0;
        }
        if (last == ECONNREFUSED && e->proved) // rank 0 listens until all ranks have come
            return lose_hub (e, last, err);
        poll (NULL, 0, ms);
        ms = 2 * ms < RETRY_MS ? 2 * ms : RETRY_MS;
    } while (env_left_ms (deadline) > 0);
    return miss_hub (e, last, err);
}

/* Prove to each other that both know the token.  -1 and a text on failure; e->closed: it is the end
 * of the connection, for which rank 0 has given no reason.
 */
static int greet_hub (struct env *e, struct mg_error *err)
{
    const struct timespec deadline = timed_deadline (e->timeout);
    struct env_hello hello = { .rank = (uint32_t)e->task, .world = (uint32_t)e->size };
    struct env_challenge *challenge;
    struct env_proof proof;
    uint8_t mac[SHA256_SIZE];
    size_t len;
    void *welcome;
    bool same;
    int rc;

    e->closed = false;
    if (env_random (hello.nonce, sizeof (hello.nonce), err) < 0)
        return -1;
    if (env_send (e->fd, ENV_HELLO, &hello, sizeof (hello), &deadline) < 0)
        return lose_hub (e, errno, err);
    if (!(challenge = next_body (e, ENV_CHALLENGE, sizeof (*challenge), &len, &deadline, err)))
        return -1;
    env_prove (e->token, "hub", &hello, challenge->nonce, mac);
    same = env_is_same (mac, challenge->mac);
    env_prove (e->token, "rank", &hello, challenge->nonce, proof.mac);
    free (challenge);
    if (!same)
        memset (&proof, 0, sizeof (proof)); // so that rank 0 counts it
    rc = env_send (e->fd, ENV_PROOF, &proof, sizeof (proof), &deadline);
    if (!same)
        return mg_error_set (err, EACCES, "bootstrap env: rank 0 has another "
                             "MEGATRON_BOOTSTRAP_TOKEN");
    e->proved = true;
    if (rc < 0)
        return lose_hub (e, errno, err);
    if (!(welcome = next_body (e, ENV_WELCOME, 0, &len, &deadline, err)))
        return -1;
    free (welcome);
    return 0;
}

/* Connect and greet.  Try again if rank 0 closes the connection without a reason, as it may while
 * strangers take all of its places.
 */
static int join_hub (struct env *e, struct mg_error *err)
{
    const struct timespec deadline = timed_deadline (e->timeout);

    while (connect_hub (e, &deadline, err) == 0) {
        if (greet_hub (e, err) == 0)
            return 0;
        if (!e->closed)
            return -1;
        close (e->fd);
        e->fd = -1;
        poll (NULL, 0, RETRY_MS);
        if (env_left_ms (&deadline) == 0)
            return miss_hub (e, ECONNRESET, err);
    }
    return -1;
}

/* --- collective calls --- */

/* Cut an answer into the parts of the ranks. */
static int cut_answer (struct env *e, char *answer, size_t len, struct mg_error *err)
{
    size_t at = 0;

    free (e->answer);
    e->answer = answer;
    for (int r = 0; r < e->size; r++) {
        uint64_t bytes = 0;

        if (len - at >= sizeof (bytes))
            memcpy (&bytes, answer + at, sizeof (bytes));
        if (len - at < sizeof (bytes) || bytes > len - at - sizeof (bytes))
            return e->host->error_set (err, EPROTO, "bootstrap env: an answer of %zu bytes is cut "
                                       "short", len);
        e->data[r] = answer + at;
        at += sizeof (bytes) + bytes;
    }
    return 0;
}

/* Send this rank's data to rank 0, and wait for the answer.  Returns the answer, which the caller
 * frees, or NULL and a text.
 */
static char *ask_hub (struct env *e, const void *data, size_t len, size_t *answer_len,
                      struct mg_error *err)
{
    // a rank that has not come to the start is named by rank 0, at its deadline
    struct timespec deadline = timed_deadline (e->timeout + HERE_SECONDS);
    size_t empty;
    void *here;

    if (env_send (e->fd, ENV_DATA, data, len, &deadline) < 0) {
        lose_hub (e, errno, err);
        return NULL;
    }
    if (!(here = next_body (e, ENV_HERE, 0, &empty, &deadline, err)))
        return NULL;
    free (here);
    // rank 0 waits for the other ranks for the timeout, then says which of them are missing
    deadline = timed_deadline (e->timeout + ANSWER_SECONDS);
    return next_body (e, ENV_ANSWER, 0, answer_len, &deadline, err);
}

static int collect (struct env *e, const void *data, size_t len, struct mg_error *err)
{
    char *answer = NULL;
    size_t answer_len;

    if (e->failed)
        return e->host->error_set (err, ECONNRESET, "bootstrap env: an earlier call has failed");
    if (len > ENV_DATA_MAX)
        return e->host->error_set (err, EMSGSIZE, "bootstrap env: %zu bytes of a rank, want %d at "
                                   "most", len, ENV_DATA_MAX);
    e->failed = true;
    if (e->size == 1) {
        if (!(answer = malloc (answer_len = len + sizeof (uint64_t))))
            return e->host->error_set (err, ENOMEM, "bootstrap env: out of memory");
        memcpy (answer, &(uint64_t){ len }, sizeof (uint64_t));
        memcpy (answer + sizeof (uint64_t), data, len);
    } else if (e->task == 0) {
        if (env_hub_exchange (e->hub, data, len, e->timeout, &answer, &answer_len, err) < 0)
            return -1;
    } else if (!(answer = ask_hub (e, data, len, &answer_len, err)))
        return -1;
    if (cut_answer (e, answer, answer_len, err) < 0)
        return -1;
    e->failed = false;
    return 0;
}

static int env_exchange (void *impl, const void *data, size_t len, struct mg_error *err)
{
    return collect (impl, data, len, err);
}

static int env_barrier (void *impl, struct mg_error *err)
{
    struct env *e = impl;
    char *kept = e->answer, **data = e->data;
    int rc;

    // what the ranks have exchanged stays
    e->answer = NULL;
    if (!(e->data = calloc ((size_t)e->size, sizeof (*e->data)))) {
        e->answer = kept;
        e->data = data;
        return e->host->error_set (err, ENOMEM, "bootstrap env: out of memory");
    }
    rc = collect (e, "", 0, err);
    free (e->answer);
    free (e->data);
    e->answer = kept;
    e->data = data;
    return rc;
}

static int env_peer_data (void *impl, int rank, void *data, size_t max, size_t *len,
                          struct mg_error *err)
{
    const struct env *e = impl;
    const char *at = e->data[e->placed[rank].task];
    uint64_t bytes;

    memcpy (&bytes, at, sizeof (bytes));
    *len = bytes;
    if (bytes > max)
        return e->host->error_set (err, EMSGSIZE, "bootstrap: rank %d gave %zu bytes, want at most "
                                   "%zu", rank, *len, max);
    memcpy (data, at + sizeof (bytes), bytes);
    return 0;
}

static int env_task_of (void *impl, int rank)
{
    return ((struct env *)impl)->placed[rank].task;
}

/* --- the start and the end --- */

/* The host name that a task has given; NULL if it is none. */
static char *host_of (const struct env *e, int task)
{
    char *name = e->data[task] + sizeof (uint64_t);
    uint64_t len;

    memcpy (&len, e->data[task], sizeof (len));
    return len == ENV_HOST_MAX && name[len - 1] == '\0' ? name : NULL;
}

/* The logical ranks of all tasks, by their host names. */
static int place_ranks (struct env *e, struct mg_error *err)
{
    size_t n = (size_t)e->size;
    char **host = calloc (n, sizeof (*host));
    uint32_t *node = calloc (n, sizeof (*node));
    int rc = -1;

    if (!host || !node)
        goto nomem;
    for (int r = 0; r < e->size; r++) {
        if ((host[r] = host_of (e, r)))
            continue;
        e->host->error_set (err, EPROTO, "bootstrap env: rank %d has given no host name", r);
        goto out;
    }
    if (nodes_number (host, n, NULL, node) < 0)
        goto nomem;
    for (int r = 0; r < e->size; r++)
        e->placed[r] = (struct nodes_placed){ node[r], r };
    nodes_sort (e->placed, e->size);
    rc = 0;
    goto out;
nomem:
    e->host->error_set (err, ENOMEM, "bootstrap env: out of memory for %d ranks", e->size);
out:
    free (host);
    free (node);
    return rc;
}

/* The variables must say what the host names say. */
static int check_place (const struct env *e, const struct bootstrap_info *info,
                        struct mg_error *err)
{
    if (info->local_size == e->local_size && info->local_rank == e->local_rank)
        return 0;
    return e->host->error_set (err, EINVAL, "bootstrap env: rank %d has LOCAL_RANK %d of "
                               "LOCAL_WORLD_SIZE %d, but is %d of %d ranks with this host name",
                               e->task, e->local_rank, e->local_size, info->local_rank,
                               info->local_size);
}

static int meet (struct env *e, struct mg_error *err)
{
    if (e->task > 0)
        return join_hub (e, err);
    e->hub = env_hub_create ((struct sockaddr *)&e->address, e->address_len, e->size, e->token,
                             err);
    return e->hub ? env_hub_meet (e->hub, e->timeout, err) : -1;
}

static void env_destroy (void *impl)
{
    struct env *e = impl;
    int saved_errno = errno;

    env_hub_destroy (e->hub);
    if (e->fd >= 0)
        close (e->fd);
    free (e->placed);
    free (e->answer);
    free (e->data);
    free (e);
    errno = saved_errno;
}

static void *env_create (const struct bootstrap_host *host, double timeout,
                         struct bootstrap_info *info, struct mg_error *err)
{
    struct env *e = calloc (1, sizeof (*e));
    char name[ENV_HOST_MAX] = { 0 };

    if (!e) {
        host->error_set (err, ENOMEM, "bootstrap: out of memory");
        return NULL;
    }
    e->host = host;
    e->timeout = timeout;
    e->fd = -1;
    if (read_variables (e, err) < 0)
        goto error;
    if (!(e->placed = calloc ((size_t)e->size, sizeof (*e->placed)))
        || !(e->data = calloc ((size_t)e->size, sizeof (*e->data)))) {
        host->error_set (err, ENOMEM, "bootstrap env: out of memory for %d ranks", e->size);
        goto error;
    }
    if (e->size > 1 && meet (e, err) < 0)
        goto error;
    if (gethostname (name, sizeof (name) - 1) < 0) {
        host->error_set (err, errno, "bootstrap env: this machine has no host name");
        goto error;
    }
    if (collect (e, name, sizeof (name), err) < 0 || place_ranks (e, err) < 0)
        goto error;
    nodes_fill_info (e->placed, e->size, e->task, info);
    if (check_place (e, info, err) < 0)
        goto error;
    return e;
error:
    env_destroy (e);
    return NULL;
}

/* The launcher, or the job's monitor on the other ranks, ends the others. */
static void __attribute__ ((noreturn)) env_abort (void *impl, int code)
{
    (void)impl;
    _exit (code);
}

const struct bootstrap_ops boot_env_ops = {
    .name = "env",
    .create = env_create,
    .destroy = env_destroy,
    .exchange = env_exchange,
    .peer_data = env_peer_data,
    .task_of = env_task_of,
    .barrier = env_barrier,
    .abort = env_abort,
};
