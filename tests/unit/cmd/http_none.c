/* A build without libmicrohttpd has no server, and says what is missing. */

#include <errno.h>
#include <string.h>

#include "cmd/serve/http.h"
#include "tests/tap/tap.h"

int main (void)
{
    const struct http_config config = { .port = 0 };
    struct mg_error err = { "" };

    ok (http_check (&err) == -1 && errno == ENOTSUP, "there is no server");
    is_str (err.text, "a server needs the library libmicrohttpd, which this build lacks: configure "
            "--with-microhttpd (Debian: libmicrohttpd-dev)", "a line says what is missing");
    ok (!http_start (&config, &err) && errno == ENOTSUP, "none starts");
    http_stop_listening (NULL);
    http_close_slow (NULL);
    http_stop (NULL);
    is_int (http_port (NULL), -1, "nor has it a port");
    return done_testing ();
}
