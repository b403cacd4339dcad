/* http.c - an exchange for each request, a line for each connection
 *
 * 'lock' guards the lines and whether an exchange is suspended.  It is taken inside the server's
 * lock, so no function of the server is called with it.
 */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>

#include "cmd/serve/http.h"
#include "libcore/serve/routes.h"

enum { BACKLOG = 1024, BLOCK = 16384, HTTP_TOO_LARGE = 413, HTTP_CLIENT_LEFT = 499 };

struct line {
    struct line *next;
    int fd;
    double since;   /* when it began to wait for a request */
    bool answering; /* a request has arrived */
};

struct http {
    struct http_config config;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    struct line *lines;
    int port;
    int quiet; /* the socket, once it does not listen any more; -1: it does */
    bool stopping;
};

struct exchange {
    struct http *of;
    struct MHD_Connection *connection;
    struct line *line;
    struct text_buffer body;
    bool too_large;
    struct server_work *work; /* NULL: not yet, or answered at once */
    bool stream;
    bool counted;             /* among the answers */
    bool suspended, ready;    /* with the lock; ready: there is more to take */
    struct text_buffer out;   /* of a stream */
    size_t sent;              /* of 'out' */
    bool ended;
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int http_check (struct mg_error *err)
{
    (void)err;
    return 0;
}

/* --- waiting for the server: called with the server's lock --- */

static void ready (void *arg)
{
    struct exchange *x = arg;

    pthread_mutex_lock (&x->of->lock);
    x->ready = true;
    if (x->suspended) {
        x->suspended = false;
        MHD_resume_connection (x->connection);
    }
    pthread_mutex_unlock (&x->of->lock);
}

/* libmicrohttpd does not look at a connection that is suspended. */
static bool left (void *arg)
{
    struct exchange *x = arg;
    struct pollfd p = { .events = POLLRDHUP };
    bool gone = false;

    pthread_mutex_lock (&x->of->lock);
    if (x->suspended) {
        p.fd = x->line->fd;
        gone = poll (&p, 1, 0) > 0; // whatever else the client has sent before
    }
    pthread_mutex_unlock (&x->of->lock);
    return gone;
}

/* Forget that there was more, before looking. */
static void expect_more (struct exchange *x)
{
    pthread_mutex_lock (&x->of->lock);
    x->ready = false;
    pthread_mutex_unlock (&x->of->lock);
}

/* Suspend the connection unless there is more since expect_more(): true if it is suspended. */
static bool suspend (struct exchange *x)
{
    bool waits;

    pthread_mutex_lock (&x->of->lock);
    waits = x->suspended = !x->ready && !x->of->stopping;
    if (waits)
        MHD_suspend_connection (x->connection);
    pthread_mutex_unlock (&x->of->lock);
    return waits; // which holds even if ready() has resumed it since
}

static bool is_stopping (struct http *h)
{
    bool stopping;

    pthread_mutex_lock (&h->lock);
    stopping = h->stopping;
    pthread_mutex_unlock (&h->lock);
    return stopping;
}

/* --- answers --- */

/* Count an answer, once. */
static void count (struct exchange *x, int status)
{
    if (!x->counted)
        server_count (x->of->config.server, status);
    x->counted = true;
}

/* Send a response, which is freed. */
static enum MHD_Result send_response (struct exchange *x, int status, const char *type,
                                      const char *allow, struct MHD_Response *response)
{
    enum MHD_Result rc = MHD_NO;

    if (!response)
        return MHD_NO;
    if (type)
        MHD_add_response_header (response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (allow)
        MHD_add_response_header (response, MHD_HTTP_HEADER_ALLOW, allow);
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header (response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header (response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    rc = MHD_queue_response (x->connection, (unsigned)status, response);
    MHD_destroy_response (response);
    if (!x->stream)
        count (x, status);
    return rc;
}

/* Send an answer, whose body is empty afterwards. */
static enum MHD_Result send_answer (struct exchange *x, struct routes_answer *a)
{
    bool empty = a->body.size == 0;
    struct MHD_Response *response;

    response = MHD_create_response_from_buffer (a->body.size, empty ? (void *)"" : a->body.data,
                                                empty ? MHD_RESPMEM_PERSISTENT
                                                      : MHD_RESPMEM_MUST_FREE);
    if (response && !empty)
        a->body = (struct text_buffer){ NULL, 0, 0 };
    text_buffer_clear (&a->body);
    return send_response (x, a->status, a->type, a->allow, response);
}

static enum MHD_Result send_error (struct exchange *x, int status, const char *text)
{
    struct routes_answer a = { .status = status };

    routes_refuse (&a, status, text);
    return send_answer (x, &a);
}

/* Take bytes of a stream; a MHD_ContentReaderCallback. */
static ssize_t read_stream (void *arg, uint64_t position, char *to, size_t max)
{
    struct exchange *x = arg;
    int status;
    size_t n;

    (void)position;
    while (x->sent == x->out.size) {
        int rc;

        if (x->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (is_stopping (x->of))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        x->sent = x->out.size = 0;
        expect_more (x);
        rc = server_take (x->work, &x->out, &status);
        if (rc <= 0)
            count (x, rc == 0 ? status : 500);
        if (rc < 0 || status == HTTP_CLIENT_LEFT)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        x->ended = rc == 0;
        if (x->out.size == 0 && !x->ended && suspend (x))
            return 0;
    }
    n = x->out.size - x->sent < max ? x->out.size - x->sent : max;
    memcpy (to, x->out.data + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

/* The answer of a work that is no stream: send it, or wait for it. */
static enum MHD_Result answer_whole (struct exchange *x)
{
    struct routes_answer a = { .type = "application/json" };
    int rc;

    do {
        if (is_stopping (x->of))
            return MHD_NO;
        expect_more (x);
        a.body.size = 0;
        rc = server_take (x->work, &a.body, &a.status);
        if (rc > 0 && suspend (x))
            return MHD_YES;
    } while (rc > 0);
    if (rc == 0 && a.status != HTTP_CLIENT_LEFT)
        return send_answer (x, &a);
    text_buffer_clear (&a.body);
    if (a.status == HTTP_CLIENT_LEFT)
        return MHD_NO;
    return send_error (x, 500, "out of memory for an answer");
}

static enum MHD_Result answer_work (struct exchange *x)
{
    if (!x->stream)
        return answer_whole (x);
    return send_response (x, MHD_HTTP_OK, "text/event-stream", NULL,
                          MHD_create_response_from_callback (MHD_SIZE_UNKNOWN, BLOCK, read_stream,
                                                             x, NULL));
}

/* --- requests --- */

/* A request has arrived whole. */
static enum MHD_Result answer (struct exchange *x, const char *method, const char *path)
{
    const struct routes_request request = {
        .method = method, .path = path, .body = x->body.size > 0 ? x->body.data : "",
        .size = x->body.size, .client = { ready, left, x },
    };
    struct routes_answer a;

    pthread_mutex_lock (&x->of->lock);
    x->line->answering = true;
    pthread_mutex_unlock (&x->of->lock);
    if (x->too_large)
        return send_error (x, HTTP_TOO_LARGE, "the body is too large");
    routes_run (x->of->config.server, &request, &a);
    text_buffer_clear (&x->body);
    if (!a.work)
        return send_answer (x, &a);
    text_buffer_clear (&a.body);
    x->work = a.work;
    x->stream = a.stream;
    return answer_work (x);
}

/* Refuse a request by its head: a result, or -1 if it may go on. */
static int check_head (struct exchange *x, const char *path)
{
    const struct http_config *c = &x->of->config;
    const char *length = MHD_lookup_connection_value (x->connection, MHD_HEADER_KIND,
                                                      MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *key = MHD_lookup_connection_value (x->connection, MHD_HEADER_KIND,
                                                   MHD_HTTP_HEADER_AUTHORIZATION);
    char text[120];

    if (c->keys && !routes_open (path) && !keys_allow (c->keys, key))
        return (int)send_error (x, MHD_HTTP_UNAUTHORIZED, "want a key of this server: "
                                "Authorization: Bearer KEY");
    if (!length || strtoull (length, NULL, 10) <= c->body_max)
        return -1;
    snprintf (text, sizeof (text), "the body is too large, want %zu bytes at most", c->body_max);
    return (int)send_error (x, HTTP_TOO_LARGE, text);
}

static enum MHD_Result begin (struct http *h, struct MHD_Connection *connection, const char *path,
                              void **mine)
{
    const union MHD_ConnectionInfo *info
        = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *x = calloc (1, sizeof (*x));
    int rc;

    if (!x || !info || !info->socket_context) {
        free (x);
        return MHD_NO;
    }
    x->of = h;
    x->connection = connection;
    x->line = info->socket_context;
    *mine = x;
    return (rc = check_head (x, path)) >= 0 ? (enum MHD_Result)rc : MHD_YES;
}

/* Add a piece of a body.  A client that sends twice what is allowed is cut off. */
static enum MHD_Result take_piece (struct exchange *x, const char *piece, size_t size)
{
    size_t max = x->of->config.body_max;

    if (x->too_large) {
        x->sent += size;
        return x->sent > max ? MHD_NO : MHD_YES;
    }
    if (size > max - x->body.size) {
        x->too_large = true;
        text_buffer_clear (&x->body);
        return MHD_YES;
    }
    return text_buffer_append (&x->body, piece, size, NULL) < 0 ? MHD_NO : MHD_YES;
}

/* A MHD_AccessHandlerCallback. */
static enum MHD_Result handle (void *arg, struct MHD_Connection *connection, const char *path,
                               const char *method, const char *version, const char *piece,
                               size_t *size, void **mine)
{
    struct exchange *x = *mine;
    enum MHD_Result rc;

    (void)version;
    if (!x)
        return begin (arg, connection, path, mine);
    if (*size > 0) {
        rc = take_piece (x, piece, *size);
        *size = 0;
        return rc;
    }
    x->sent = 0;
    return x->work ? answer_work (x) : answer (x, method, path);
}

/* A MHD_RequestCompletedCallback. */
static void complete (void *arg, struct MHD_Connection *connection, void **mine,
                      enum MHD_RequestTerminationCode how)
{
    struct http *h = arg;
    struct exchange *x = *mine;

    (void)connection;
    if (!x)
        return;
    if (x->work && how != MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN)
        count (x, HTTP_CLIENT_LEFT); // whose answer has not been counted
    server_release (x->work); // ready() and left() are not called any more
    pthread_mutex_lock (&h->lock);
    x->line->answering = false;
    x->line->since = now ();
    pthread_mutex_unlock (&h->lock);
    text_buffer_clear (&x->body);
    text_buffer_clear (&x->out);
    free (x);
    *mine = NULL;
}

/* A MHD_NotifyConnectionCallback. */
static void note_connection (void *arg, struct MHD_Connection *connection, void **mine,
                             enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info
        = MHD_get_connection_info (connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http *h = arg;
    struct line *line = *mine;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (!info || !(line = calloc (1, sizeof (*line))))
            return; // its requests are refused
        *line = (struct line){ .fd = info->connect_fd, .since = now () };
        *mine = line;
        pthread_mutex_lock (&h->lock);
        line->next = h->lines;
        h->lines = line;
        pthread_mutex_unlock (&h->lock);
    } else if (line) {
        pthread_mutex_lock (&h->lock);
        for (struct line **at = &h->lines; *at; at = &(*at)->next) {
            if (*at == line) {
                *at = line->next;
                break;
            }
        }
        pthread_mutex_unlock (&h->lock);
        free (line);
        *mine = NULL;
    }
}

void http_close_slow (struct http *h)
{
    double time = now ();

    pthread_mutex_lock (&h->lock);
    for (struct line *line = h->lines; line; line = line->next) {
        if (!line->answering && time - line->since > h->config.seconds)
            shutdown (line->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock (&h->lock);
}

/* --- the socket --- */

static int port_of (int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof (address);

    if (getsockname (fd, (struct sockaddr *)&address, &size) < 0)
        return -1;
    if (address.ss_family == AF_INET6)
        return ntohs (((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs (((struct sockaddr_in *)&address)->sin_port);
}

/* A socket that listens at one address, or -1. */
static int listen_at (const struct addrinfo *at)
{
    int fd = socket (at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                     at->ai_protocol);
    int on = 1, saved_errno;

    if (fd < 0)
        return -1;
    setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof (on));
    if (bind (fd, at->ai_addr, at->ai_addrlen) == 0 && listen (fd, BACKLOG) == 0)
        return fd;
    saved_errno = errno;
    close (fd);
    errno = saved_errno;
    return -1;
}

static int open_socket (const struct http_config *c, struct mg_error *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    char port[16];
    int fd = -1, rc;

    snprintf (port, sizeof (port), "%d", c->port);
    if ((rc = getaddrinfo (c->host, port, &hints, &list)) != 0)
        return mg_error_set (err, EINVAL, "--host %s: %s", c->host, gai_strerror (rc));
    for (const struct addrinfo *at = list; fd < 0 && at; at = at->ai_next)
        fd = listen_at (at);
    rc = errno;
    freeaddrinfo (list);
    return fd >= 0 ? fd : mg_error_set (err, rc, "cannot listen at %s, port %d: %s", c->host,
                                        c->port, strerror (rc));
}

static struct MHD_Daemon *start_daemon (struct http *h, int fd)
{
    return MHD_start_daemon (MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                             handle, h,
                             MHD_OPTION_LISTEN_SOCKET, fd,
                             MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->config.connections,
                             MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->config.seconds,
                             MHD_OPTION_NOTIFY_COMPLETED, complete, h,
                             MHD_OPTION_NOTIFY_CONNECTION, note_connection, h,
                             MHD_OPTION_END);
}

struct http *http_start (const struct http_config *config, struct mg_error *err)
{
    struct http *h = calloc (1, sizeof (*h));
    int fd;

    if (!h) {
        mg_error_set (err, ENOMEM, "out of memory for a server");
        return NULL;
    }
    h->config = *config;
    h->quiet = -1;
    pthread_mutex_init (&h->lock, NULL);
    if ((fd = open_socket (config, err)) < 0)
        goto error;
    h->port = port_of (fd);
    if (!(h->daemon = start_daemon (h, fd))) {
        mg_error_set (err, EIO, "libmicrohttpd does not start, of %d connections at most",
                      config->connections);
        close (fd);
        goto error;
    }
    return h;
error:
    pthread_mutex_destroy (&h->lock);
    free (h);
    return NULL;
}

int http_port (const struct http *h)
{
    return h->port;
}

void http_stop_listening (struct http *h)
{
    if (h->quiet >= 0)
        return;
    h->quiet = MHD_quiesce_daemon (h->daemon);
    if (h->quiet >= 0)
        shutdown (h->quiet, SHUT_RDWR); // the thread of the clients may use it until it ends
}

void http_stop (struct http *h)
{
    if (!h)
        return;
    pthread_mutex_lock (&h->lock);
    h->stopping = true;
    pthread_mutex_unlock (&h->lock);
    server_fail (h->config.server, "the server is stopping"); // which resumes who is suspended
    MHD_stop_daemon (h->daemon);
    if (h->quiet >= 0)
        close (h->quiet);
    pthread_mutex_destroy (&h->lock);
    free (h);
}
