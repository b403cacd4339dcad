/* routes - the paths of the endpoint, and what each answers.
 *
 * Forms are those of OpenAI's API, and of vLLM where that has more.
 */
#ifndef LIBCORE_SERVE_ROUTES_H
#define LIBCORE_SERVE_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/serve/server.h"
#include "libcore/text/text_buffer.h"

struct routes_request {
    const char *method, *path;
    const char *body;
    size_t size;
    struct server_client client;
};

struct routes_answer {
    int status;
    const char *type;         /* of the body: a constant */
    const char *allow;        /* of status 405: the methods, a constant */
    struct text_buffer body;
    struct server_work *work; /* not NULL: the answer comes from server_take(), and ... */
    bool stream;              /* ... this says how */
};

/* true if everyone may ask for a path, without a key */
bool routes_open (const char *path);

/* Answer a request.  The caller clears the body and releases the work.  If the memory does not
 * suffice, the status is 500 and the body may be empty.
 */
void routes_run (struct server *s, const struct routes_request *request, struct routes_answer *a);

/* Set an answer to an error. */
void routes_refuse (struct routes_answer *a, int status, const char *text);

#endif /* LIBCORE_SERVE_ROUTES_H */
