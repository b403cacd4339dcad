/* Paths, methods and forms of answers that need no model. */

#include <stdio.h>
#include <string.h>

#include "libcore/serve/routes.h"
#include "tests/tap/tap.h"

static struct tokenizer *bytes;
static struct token_text *names;

static struct server *make (struct tokenizer *tokenizer, json_t *info)
{
    struct server_config c = {
        .model = "a/m", .root = "/a/m", .started = 7,
        .planned = { .requests = 1, .length = 20, .top = 5 }, .vocab_size = 300,
        .tokenizer = tokenizer, .bare = tokenizer, .texts = names, .tokenizer_info = info,
        .first = 256, .prompt_max = 21, .queue_max = 4,
    };

    return server_create (&c, NULL);
}

static void check (struct server *s, const char *method, const char *path, const char *body,
                   int status, const char *want)
{
    const struct routes_request r = { .method = method, .path = path, .body = body,
                                      .size = strlen (body) };
    struct routes_answer a;

    routes_run (s, &r, &a);
    text_buffer_append (&a.body, "", 1, NULL);
    ok (a.status == status && !a.work && strstr (a.body.data, want), "%s %s %s: %d %s", method,
        path, body, a.status, a.body.data);
    text_buffer_clear (&a.body);
}

/* Of a large body, which is not printed: status 400. */
static void check_quietly (struct server *s, const char *path, const char *body, const char *want)
{
    const struct routes_request r = { .method = "POST", .path = path, .body = body,
                                      .size = strlen (body) };
    struct routes_answer a;

    routes_run (s, &r, &a);
    text_buffer_append (&a.body, "", 1, NULL);
    ok (a.status == 400 && strstr (a.body.data, want), "%s: %d %.200s", path, a.status,
        a.body.data);
    text_buffer_clear (&a.body);
}

static void test_model (struct server *s)
{
    static const char model[]
        = "{\"id\":\"a/m\",\"object\":\"model\",\"created\":7,\"owned_by\":\"slurm-megatron\","
          "\"root\":\"/a/m\",\"parent\":null,\"max_model_len\":21}";
    char list[400];

    snprintf (list, sizeof (list), "{\"object\":\"list\",\"data\":[%s]}", model);
    check (s, "GET", "/v1/models", "", 200, list);
    check (s, "GET", "/v1/models/a/m", "", 200, model);
    check (s, "GET", "/v1/models/b", "", 404, "no such model");
    check (s, "HEAD", "/health", "", 200, "");
    check (s, "GET", "/metrics", "", 200, "\nmegatron_requests_total 0\n");
    check (s, "GET", "/tokenizer_info", "", 200, "{\"x\":1}");
    check (s, "GET", "/v1/completions", "", 405, "wants POST");
    check (s, "POST", "/health", "", 405, "wants GET");
    check (s, "GET", "/", "", 404, "no such path");
    check (s, "GET", "/v1/models2", "", 404, "no such path");
    ok (routes_open ("/health") && !routes_open ("/metrics") && !routes_open ("/x"),
        "health needs no key");
}

static void test_bodies (struct server *s)
{
    check (s, "POST", "/v1/completions", "{", 400, "no JSON");
    check (s, "POST", "/v1/completions", "{\"prompt\": \"a\", \"tools\": [1]}", 400,
           "tools is not supported");
    check (s, "POST", "/v1/completions", "{\"prompt\": \"a\", \"model\": \"b\"}", 404, "want");
    check (s, "POST", "/v1/chat/completions", "{}", 400, "no chat template");
    check (s, "POST", "/tokenize", "{\"prompt\": \"h\\u00e9\"}", 200,
           "{\"count\":3,\"max_model_len\":21,\"tokens\":[104,195,169],\"token_strs\":null}");
    check (s, "POST", "/tokenize",
           "{\"prompt\": \"h\\u00e9\", \"return_token_strs\": true, \"add_special_tokens\": false}",
           200, "\"token_strs\":[\"h\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\"]");
    check (s, "POST", "/tokenize", "{\"prompt\": \"\"}", 200, "\"tokens\":[]");
    check (s, "POST", "/tokenize", "{\"prompt\": [1]}", 400, "prompt: want a text");
    check (s, "POST", "/tokenize", "{\"prompt\": \"a\", \"add_special_tokens\": 1}", 400,
           "want true or false");
    check (s, "POST", "/tokenize", "{\"messages\": []}", 400, "no chat template");
    check (s, "POST", "/detokenize", "{\"tokens\": [104, 195, 169, 255, 256, 280]}", 200,
           "{\"prompt\":\"h\xc3\xa9\xef\xbf\xbd\"}");
    check (s, "POST", "/detokenize", "{\"tokens\": []}", 200, "{\"prompt\":\"\"}");
    check (s, "POST", "/tokenize", "{\"prompt\": \"1234567890123456789012\"}", 200,
           "\"count\":22");
    check (s, "POST", "/detokenize", "{\"tokens\": [300]}", 400, "300 is not in the vocabulary");
    check (s, "POST", "/detokenize", "{\"tokens\": 5}", 400, "want a list");
    check (s, "POST", "/detokenize", "[]", 400, "no object");
}

/* Documents may be longer than a prompt, but not without a limit. */
static void test_many_tokens (struct server *s)
{
    enum { MANY = (1 << 18) + 1 };
    static char body[2 * MANY + 40];
    const char *const want = "262145 tokens, want 262144 at most";
    char *to = body + sprintf (body, "{\"prompt\": \"");

    memset (to, 'a', MANY);
    strcpy (to + MANY, "\"}");
    check_quietly (s, "/tokenize", body, want);
    to = body + sprintf (body, "{\"tokens\": [1");
    for (int i = 1; i < MANY; i++)
        to += sprintf (to, ",1");
    strcpy (to, "]}");
    check_quietly (s, "/detokenize", body, want);
}

static void test_stopping (void)
{
    struct server *s = make (NULL, NULL);

    check (s, "POST", "/tokenize", "{\"prompt\": \"a\"}", 501, "no tokenizer");
    check (s, "POST", "/detokenize", "{\"tokens\": [1]}", 501, "no tokenizer");
    check (s, "GET", "/tokenizer_info", "", 501, "no tokenizer");
    check (s, "POST", "/v1/completions", "{\"prompt\": \"a\"}", 400, "no tokenizer");
    server_drain (s, 1);
    check (s, "GET", "/health", "", 503, "stopping");
    check (s, "POST", "/v1/completions", "{\"prompt\": [1]}", 503, "stopping");
    server_destroy (s);
}

int main (void)
{
    json_t *info = json_pack ("{s:i}", "x", 1);
    struct server *s;

    bytes = tokenizer_create ("ByteLevel", NULL, NULL);
    names = token_text_create (bytes, NULL);
    s = make (bytes, info);
    test_model (s);
    test_bodies (s);
    test_many_tokens (s);
    server_destroy (s);
    test_stopping ();
    json_decref (info);
    token_text_destroy (names);
    tokenizer_destroy (bytes);
    return done_testing ();
}
