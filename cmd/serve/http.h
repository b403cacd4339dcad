/* http - connections of clients: one thread, which libmicrohttpd runs.
 *
 * A connection whose answer is not there yet is suspended, and resumed when the server has more of
 * it.
 */
#ifndef CMD_SERVE_HTTP_H
#define CMD_SERVE_HTTP_H

#include <stddef.h>

#include "cmd/serve/keys.h"
#include "libcore/serve/server.h"
#include "megatron/error.h"

struct http_config {
    const char *host;
    int port;        /* 0: any that is free */
    int connections; /* at most */
    size_t body_max; /* bytes of a body */
    int seconds;     /* for a request to arrive whole, and for a client that takes nothing */
    const struct keys *keys; /* NULL: no key is wanted */
    struct server *server;
};

struct http;

/* 0 if this build has a server; else -1, ENOTSUP and a text. */
int http_check (struct mg_error *err);

/* Listen and answer.  What 'config' points to must outlive the result.  NULL and a text on failure.
 */
struct http *http_start (const struct http_config *config, struct mg_error *err);

/* The port. */
int http_port (const struct http *h);

/* Close connections whose requests take too long to arrive. */
void http_close_slow (struct http *h);

/* Accept no further connections. */
void http_stop_listening (struct http *h);

/* Close all connections, and release their works.  NULL is allowed. */
void http_stop (struct http *h);

#endif /* CMD_SERVE_HTTP_H */
