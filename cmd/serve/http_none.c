/* http_none.c - a build without libmicrohttpd has no server */

#include <errno.h>

#include "cmd/serve/http.h"

int http_check (struct mg_error *err)
{
    return mg_error_set (err, ENOTSUP, "a server needs the library libmicrohttpd, which this build "
                         "lacks: configure --with-microhttpd (Debian: libmicrohttpd-dev)");
}

struct http *http_start (const struct http_config *config, struct mg_error *err)
{
    (void)config;
    http_check (err);
    return NULL;
}

int http_port (const struct http *h)
{
    (void)h;
    return -1;
}

void http_close_slow (struct http *h)
{
    (void)h;
}

void http_stop_listening (struct http *h)
{
    (void)h;
}

void http_stop (struct http *h)
{
    (void)h;
}
