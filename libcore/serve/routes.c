/* routes.c - a table of paths, one function for each */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/infer/model_tokens.h"
#include "libcore/serve/answer.h"
#include "libcore/serve/routes.h"
#include "libcore/text/utf8.h"

enum { TOKENS_MAX = 1 << 18 }; /* of /tokenize and /detokenize, if prompts may have fewer */

static const char type_json[] = "application/json";

void routes_refuse (struct routes_answer *a, int status, const char *text)
{
    a->status = status;
    a->type = type_json;
    a->body.size = 0;
    if (answer_error (&a->body, status, text, NULL) == 0)
        text_buffer_append (&a->body, "\n", 1, NULL);
}

/* Set an answer to a value, which is freed. */
static void give (struct routes_answer *a, json_t *value)
{
    a->status = 200;
    a->type = type_json;
    if (answer_json (&a->body, value, NULL) < 0 || text_buffer_append (&a->body, "\n", 1, NULL) < 0)
        routes_refuse (a, 500, "out of memory for an answer");
}

/* --- the model --- */

static json_t *model_of (const struct server_config *c)
{
    return json_pack ("{s:s, s:s, s:I, s:s, s:s, s:n, s:I}", "id", c->model, "object", "model",
                      "created", (json_int_t)c->started, "owned_by", "slurm-megatron", "root",
                      c->root, "parent", "max_model_len", (json_int_t)c->planned.length + 1);
}

static void models (struct server *s, const struct routes_request *r, struct routes_answer *a)
{
    (void)r;
    give (a, json_pack ("{s:s, s:[o]}", "object", "list", "data",
                        model_of (server_config_of (s))));
}

/* /v1/models/NAME */
static void model (struct server *s, const struct routes_request *r, struct routes_answer *a)
{
    const struct server_config *c = server_config_of (s);

    if (strcmp (strchr (r->path + 4, '/') + 1, c->model) == 0)
        give (a, model_of (c));
    else
        routes_refuse (a, 404, "there is no such model here");
}

static void health (struct server *s, const struct routes_request *r, struct routes_answer *a)
{
    (void)r;
    if (!server_accepts (s))
        routes_refuse (a, 503, "the server is stopping");
    else
        *a = (struct routes_answer){ .status = 200, .type = "text/plain" };
}

static void metrics (struct server *s, const struct routes_request *r, struct routes_answer *a)
{
    (void)r;
    a->status = 200;
    a->type = "text/plain; version=0.0.4";
    if (server_metrics (s, &a->body, NULL) < 0)
        routes_refuse (a, 500, "out of memory for an answer");
}

/* --- texts --- */

/* Submit a request; rc < 0: reading it has failed, with errno and a text. */
static void submit (struct server *s, struct serve_request *request, int rc,
                    const struct routes_request *r, struct routes_answer *a, struct mg_error *err)
{
    int status;

    if (rc < 0) {
        routes_refuse (a, errno == ENOMEM ? 500 : 400, err->text);
        return;
    }
    a->stream = request->stream;
    a->type = a->stream ? "text/event-stream" : type_json;
    a->status = 200;
    if ((status = server_submit (s, request, &r->client, &a->work, err)) != 0)
        routes_refuse (a, status, err->text);
}

static void completions (struct server *s, const struct routes_request *r,
                         struct routes_answer *a)
{
    const struct serve_request_limits limits = server_limits (s);
    struct serve_request request;
    struct mg_error err;
    int rc = serve_request_read (&request, &limits, r->body, r->size, &err);

    submit (s, &request, rc, r, a, &err);
}

static void chats (struct server *s, const struct routes_request *r, struct routes_answer *a)
{
    const struct serve_request_limits limits = server_limits (s);
    struct serve_request request;
    struct mg_error err;
    int rc = chat_request_read (&request, server_config_of (s)->chat, &limits, r->body, r->size,
                                &err);

    submit (s, &request, rc, r, a, &err);
}

/* --- the tokenizer --- */

/* Read the body, whose value is an object; NULL: the answer is an error. */
static json_t *read_object (struct server *s, const struct routes_request *r,
                            struct routes_answer *a)
{
    struct mg_error err;
    json_t *body;

    if (!server_config_of (s)->tokenizer) {
        routes_refuse (a, 501, "this model has no tokenizer");
        return NULL;
    }
    if (!(body = serve_request_object (r->body, r->size, &err)))
        routes_refuse (a, errno == ENOMEM ? 500 : 400, err.text);
    return body;
}

/* A member that is true or false, or missing. */
static int read_flag (const json_t *body, const char *name, bool *value, struct mg_error *err)
{
    const json_t *member = json_object_get (body, name);

    if (!member || json_is_null (member))
        return 0;
    if (!json_is_boolean (member))
        return mg_error_set (err, EINVAL, "%s: want true or false", name);
    *value = json_is_true (member);
    return 0;
}

static json_t *id_list (const struct token_buffer *ids)
{
    json_t *list = json_array ();

    for (size_t i = 0; i < ids->count; i++) {
        if (json_array_append_new (list, json_integer (ids->ids[i])) < 0) {
            json_decref (list);
            return NULL;
        }
    }
    return list;
}

static json_t *text_list (const struct server_config *c, const struct token_buffer *ids)
{
    struct text_buffer text = { NULL, 0, 0 };
    json_t *list = json_array ();
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ids->count; i++) {
        text.size = 0;
        rc = token_text_append (c->texts, ids->ids[i], &text, NULL);
        if (rc == 0)
            rc = json_array_append_new (list, json_stringn (text.size > 0 ? text.data : "",
                                                            text.size));
    }
    text_buffer_clear (&text);
    if (rc == 0)
        return list;
    json_decref (list);
    return NULL;
}

/* Clients may tokenize documents that are longer than a prompt, but not without a limit. */
static int check_count (const struct server_config *c, const char *what, size_t count,
                        struct mg_error *err)
{
    size_t most = c->prompt_max > TOKENS_MAX ? (size_t)c->prompt_max : TOKENS_MAX;

    if (count <= most)
        return 0;
    return mg_error_set (err, EINVAL, "%s: %zu tokens, want %zu at most", what, count, most);
}

/* The prompt of a body: a text, or what the template makes of messages.  0, or -1 and a text. */
static int find_prompt (const struct server_config *c, const json_t *body, bool chat,
                        struct text_buffer *to, struct mg_error *err)
{
    const json_t *prompt = json_object_get (body, "prompt");

    if (chat)
        return chat_prompt (c->chat, body, to, err);
    if (!json_is_string (prompt))
        return mg_error_set (err, EINVAL, "prompt: want a text");
    return text_buffer_append (to, json_string_value (prompt), json_string_length (prompt), err);
}

/* The tokens of the prompt of a body.  A template writes special tokens itself.  0, or -1 and a
 * text.
 */
static int encode (const struct server_config *c, const json_t *body, struct token_buffer *ids,
                   bool *names, struct mg_error *err)
{
    bool chat = json_object_get (body, "messages") != NULL, special = !chat;
    struct text_buffer text = { NULL, 0, 0 };
    int rc = -1;

    if (read_flag (body, "add_special_tokens", &special, err) < 0
        || read_flag (body, "return_token_strs", names, err) < 0)
        return -1;
    if ((rc = find_prompt (c, body, chat, &text, err)) == 0 && text.size > 0)
        rc = tokenizer_encode (special ? c->tokenizer : c->bare, text.data, text.size, ids, err);
    text_buffer_clear (&text);
    return rc < 0 ? -1 : check_count (c, "prompt", ids->count, err);
}

static void tokenize (struct server *s, const struct routes_request *r, struct routes_answer *a)
{
    const struct server_config *c = server_config_of (s);
    json_t *body = read_object (s, r, a);
    struct token_buffer ids = { NULL, 0, 0 };
    struct mg_error err;
    bool names = false;

    if (!body)
        return;
    if (encode (c, body, &ids, &names, &err) < 0)
        routes_refuse (a, errno == ENOMEM ? 500 : 400, err.text);
    else
        give (a, json_pack ("{s:I, s:I, s:o, s:o}", "count", (json_int_t)ids.count,
                            "max_model_len", (json_int_t)c->planned.length + 1, "tokens",
                            id_list (&ids), "token_strs",
                            names ? text_list (c, &ids) : json_null ()));
    free (ids.ids);
    json_decref (body);
}

/* The text of the tokens of a body.  0, or -1 and a text. */
static int decode (const struct server_config *c, const json_t *body, struct text_buffer *valid,
                   struct mg_error *err)
{
    const json_t *tokens = json_object_get (body, "tokens");
    struct token_buffer ids = { NULL, 0, 0 };
    struct text_buffer text = { NULL, 0, 0 };
    int rc = json_is_array (tokens) ? model_tokens_append (tokens, "tokens", &ids, err)
                                    : mg_error_set (err, EINVAL, "tokens: want a list of ids");

    if (rc == 0)
        rc = check_count (c, "tokens", ids.count, err);
    for (size_t i = 0; rc == 0 && i < ids.count; i++) {
        const char *bytes;
        size_t size;

        if (ids.ids[i] >= c->vocab_size) {
            rc = mg_error_set (err, EINVAL, "tokens: %d is not in the vocabulary, want 0 to %"
                               PRId64, (int)ids.ids[i], c->vocab_size - 1);
        } else if (ids.ids[i] < tokenizer_vocab_size (c->bare)) {
            bytes = tokenizer_token (c->bare, ids.ids[i], &size);
            rc = text_buffer_append (&text, bytes, size, err);
        }
    }
    if (rc == 0)
        rc = utf8_append_valid (valid, text.data, text.size, err);
    text_buffer_clear (&text);
    free (ids.ids);
    return rc;
}

static void detokenize (struct server *s, const struct routes_request *r,
                        struct routes_answer *a)
{
    json_t *body = read_object (s, r, a);
    struct text_buffer text = { NULL, 0, 0 };
    struct mg_error err;

    if (!body)
        return;
    if (decode (server_config_of (s), body, &text, &err) < 0)
        routes_refuse (a, errno == ENOMEM ? 500 : 400, err.text);
    else
        give (a, json_pack ("{s:o}", "prompt",
                            json_stringn (text.size > 0 ? text.data : "", text.size)));
    text_buffer_clear (&text);
    json_decref (body);
}

static void tokenizer_info (struct server *s, const struct routes_request *r,
                            struct routes_answer *a)
{
    const struct server_config *c = server_config_of (s);

    (void)r;
    if (!c->tokenizer)
        routes_refuse (a, 501, "this model has no tokenizer");
    else
        give (a, json_incref (c->tokenizer_info));
}

/* --- the table --- */

static const struct route {
    const char *path; /* one that ends with a slash has further words */
    bool post;        /* else GET and HEAD */
    bool open;        /* without a key */
    void (*run) (struct server *s, const struct routes_request *r, struct routes_answer *a);
} routes[] = {
    { "/v1/completions", true, false, completions },
    { "/v1/chat/completions", true, false, chats },
    { "/v1/models", false, false, models },
    { "/v1/models/", false, false, model },
    { "/health", false, true, health },
    { "/metrics", false, false, metrics },
    { "/tokenize", true, false, tokenize },
    { "/detokenize", true, false, detokenize },
    { "/tokenizer_info", false, false, tokenizer_info },
};

static const struct route *find_route (const char *path)
{
    for (size_t i = 0; i < sizeof (routes) / sizeof (routes[0]); i++) {
        size_t n = strlen (routes[i].path);

        if (routes[i].path[n - 1] == '/' ? strncmp (path, routes[i].path, n) == 0
                                         : strcmp (path, routes[i].path) == 0)
            return &routes[i];
    }
    return NULL;
}

bool routes_open (const char *path)
{
    const struct route *route = find_route (path);

    return route && route->open;
}

void routes_run (struct server *s, const struct routes_request *request, struct routes_answer *a)
{
    const struct route *route = find_route (request->path);
    bool get = strcmp (request->method, "GET") == 0 || strcmp (request->method, "HEAD") == 0;

    *a = (struct routes_answer){ .status = 500 };
    if (!route) {
        routes_refuse (a, 404, "there is no such path here");
    } else if (route->post ? strcmp (request->method, "POST") != 0 : !get) {
        a->allow = route->post ? "POST" : "GET, HEAD";
        routes_refuse (a, 405, route->post ? "this path wants POST" : "this path wants GET");
    } else
        route->run (s, request, a);
}
