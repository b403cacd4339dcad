/* server - requests for completions, from their bodies to their answers.
 *
 * Two threads use a server.  The thread of the clients submits requests and takes answers; it also
 * tokenizes prompts.  The thread that runs the engine begins texts as places become free, first
 * come, first served, and ends those whose client has left or whose time is over.  One lock guards
 * what both threads use.
 */
#ifndef LIBCORE_SERVE_SERVER_H
#define LIBCORE_SERVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "libcore/infer/generator.h"
#include "libcore/serve/chat.h"
#include "libcore/serve/engine.h"
#include "libcore/serve/request.h"
#include "libcore/serve/token_text.h"
#include "libcore/text/text_buffer.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

/* Between two looks at clients that wait, which may have left. */
#define SERVER_LOOK_SECONDS 0.1

struct server_config {
    const char *model; /* the name by which clients call it */
    const char *root;  /* where it comes from */
    int64_t started;   /* seconds since 1970 */
    const struct generator *generator;
    struct generator_config planned; /* of the generator */
    int64_t vocab_size;
    /* For the thread of the clients: the model's tokenizer, and one that puts no special tokens
     * around a text, which may be the same.  NULL: there is none, prompts are ids.
     */
    struct tokenizer *tokenizer, *bare;
    const struct token_text *texts; /* of tokens, for the same thread */
    json_t *tokenizer_info;         /* what is known of the tokenizer, for clients */
    const struct chat *chat;        /* the model's template; NULL: there is none */
    int32_t first;                  /* token of an empty prompt; -1: none */
    int64_t prompt_max;             /* tokens of a prompt */
    int queue_max;                  /* texts that wait; with those that run, or whose answer is
                                     * not taken, they are as many more as there are places */
    double seconds_max;             /* of a request; 0: no limit */
};

/* Who waits for an answer.  Both are called from the engine's thread, with the server's lock, so
 * they must not call a function of the server.
 */
struct server_client {
    void (*ready) (void *arg); /* there is more to take */
    bool (*left) (void *arg);  /* true if the client has gone */
    void *arg;
};

struct server;
struct server_work; /* a request that is accepted */

/* What 'config' points to must outlive the server.  NULL and a text on failure. */
struct server *server_create (const struct server_config *config, struct mg_error *err);
/* No work may be left. */
void server_destroy (struct server *s);
const struct server_config *server_config_of (const struct server *s);

/* --- for the thread of the clients --- */

/* What a request may ask for. */
struct serve_request_limits server_limits (const struct server *s);

/* Accept a request, which is empty afterwards: 0 and *work; else the status of HTTP and a text.
 * The caller releases the work.  Prompts that are texts get their tokens here, so whatever makes a
 * text of something else, as a template of a chat does, comes before.
 */
int server_submit (struct server *s, struct serve_request *request,
                   const struct server_client *client, struct server_work **work,
                   struct mg_error *err);

/* Append what there is of the answer: 1 if more will follow, 0 at the end, -1 if the memory did not
 * suffice.  *status is the status of HTTP, known at the end; a stream that fails ends with an event
 * that says why.
 */
int server_take (struct server_work *work, struct text_buffer *to, int *status);

/* The client needs nothing more.  Texts that still run end before the next pass.  NULL is allowed.
 */
void server_release (struct server_work *work);

/* true until server_drain() */
bool server_accepts (struct server *s);

/* Count an answer by its status. */
void server_count (struct server *s, int status);

/* Append the metrics, in the text format of Prometheus.  -1 and ENOMEM. */
int server_metrics (struct server *s, struct text_buffer *to, struct mg_error *err);

/* --- for the thread of the engine --- */

/* The source of the engine's texts. */
struct engine_source server_source (struct server *s);

/* Accept no further requests.  The engine ends as soon as all texts have ended, after 'seconds' at
 * the latest; texts that have not ended by then fail.  Later calls change nothing.
 */
void server_drain (struct server *s, double seconds);

/* Fail all requests with a text. */
void server_fail (struct server *s, const char *why);

/* Wait until all works are released, for 'seconds' at most. */
void server_wait_released (struct server *s, double seconds);

#endif /* LIBCORE_SERVE_SERVER_H */
