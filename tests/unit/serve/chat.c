/* Templates of models, and prompts of messages. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/serve/chat.h"
#include "tests/tap/tap.h"

static char folder[] = "/tmp/chat.XXXXXX";

/* Write chat_template.jinja, or remove it. */
static void put (const char *text)
{
    char path[64];
    FILE *f;

    snprintf (path, sizeof (path), "%s/chat_template.jinja", folder);
    if (!text) {
        unlink (path);
        return;
    }
    if (!(f = fopen (path, "w")) || fputs (text, f) < 0 || fclose (f) != 0)
        bail_out ("%s cannot be written", path);
}

/* Find the template with this tokenizer_config.json, and render a body. */
static void check (const char *config, const char *body, const char *want)
{
    json_t *given = json_loads (config, 0, NULL), *value = json_loads (body, 0, NULL);
    struct text_buffer text = { NULL, 0, 0 };
    struct mg_error err = { "" };
    struct chat chat;

    if (!given || !value)
        bail_out ("no JSON: %s %s", config, body);
    if (chat_find (&chat, folder, given, &err) < 0)
        bail_out ("%s", err.text);
    if (chat_prompt (&chat, value, &text, &err) == 0) {
        text_buffer_append (&text, "", 1, NULL);
        is_str (text.data, want, "%s", body);
    } else {
        ok (text.size == 0 && strstr (err.text, want), "%s: %s", body, err.text);
    }
    chat_clear (&chat);
    text_buffer_clear (&text);
    json_decref (value);
    json_decref (given);
}

#define ONE "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"

static void test_find (void)
{
    put (NULL);
    check ("{}", ONE, "this model has no chat template: neither chat_template.jinja nor");
    check ("{\"chat_template\": null}", ONE, "this model has no chat template");
    check ("{\"chat_template\": 5}", ONE, "this model has no chat template");
    check ("{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"x\"}]}", ONE,
           "this model has no chat template");
    check ("{\"chat_template\": \"x{{ bos_token }}\", \"bos_token\": \"<s>\"}", ONE, "x<s>");
    check ("{\"chat_template\": \"{{ eos_token }}\", \"eos_token\": {\"content\": \"</s>\"}}", ONE,
           "</s>");
    check ("{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"x\"},"
           " {\"name\": \"default\", \"template\": \"y\"}]}", ONE, "y");
    check ("{\"chat_template\": \"\\n{% include 'x' %}\"}", ONE,
           "this model's chat template cannot be used: line 2: ");
    put ("z{{ messages[0].content }}");
    check ("{\"chat_template\": \"x\"}", ONE, "za");
    put ("{{");
    check ("{\"chat_template\": \"x\"}", ONE, "cannot be used: line 1: ");
    put (NULL);
}

static void test_bodies (void)
{
    static const char config[]
        = "{\"chat_template\": \"{% for m in messages %}{{ m.role }}:{{ m.content }};"
          "{% endfor %}{{ add_generation_prompt }}{{ tools is none }}{{ more }}\"}";
    static const struct {
        const char *body, *want;
    } rows[] = {
        { ONE, "user:a;TrueTrue" },
        { "{\"messages\": [{\"role\": \"a\", \"content\": null}, {\"role\": \"b\"}]}",
          "a:None;b:;TrueTrue" },
        { "{\"messages\": [{\"role\": \"a\", \"content\": [{\"type\": \"text\", \"text\": \"x\"},"
          " {\"type\": \"text\", \"text\": \"y\"}]}], \"add_generation_prompt\": false}",
          "a:x\ny;FalseTrue" },
        { "{\"messages\": [{\"role\": \"a\", \"content\": []}], \"chat_template_kwargs\":"
          " {\"more\": \"!\"}}", "a:;TrueTrue!" },
        { "{}", "messages: want a list" },
        { "{\"messages\": []}", "messages: want a list" },
        { "{\"messages\": {}}", "messages: want a list" },
        { "{\"messages\": [5]}", "messages[0]: want an object" },
        { "{\"messages\": [{\"role\": \"a\"}, {\"role\": 5}]}", "messages[1]: want an object" },
        { "{\"messages\": [{\"role\": \"a\", \"content\": {}}]}", "messages[0].content: want" },
        { "{\"messages\": [{\"role\": \"a\", \"content\": [{\"type\": \"text\"}]}]}",
          "messages[0].content[0]: only parts" },
        { "{\"messages\": [{\"role\": \"a\"}], \"add_generation_prompt\": 1}",
          "add_generation_prompt: want" },
        { "{\"messages\": [{\"role\": \"a\"}], \"chat_template_kwargs\": 1}",
          "chat_template_kwargs: want" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++)
        check (config, rows[i].body, rows[i].want);
    check ("{\"chat_template\": \"{{ raise_exception ('not so') }}\"}", ONE,
           "chat template: line 1: not so");
}

static void test_requests (void)
{
    static const struct {
        const char *fields;
        int64_t max_tokens;
        int logprobs;
        const char *why;
    } rows[] = {
        { "", -1, -1, NULL },
        { ", \"max_tokens\": 5", 5, -1, NULL },
        { ", \"max_completion_tokens\": 6, \"max_tokens\": 5", 6, -1, NULL },
        { ", \"logprobs\": true", -1, 0, NULL },
        { ", \"logprobs\": true, \"top_logprobs\": 3", -1, 3, NULL },
        { ", \"logprobs\": false, \"echo\": false, \"tool_choice\": \"auto\"", -1, -1, NULL },
        { ", \"max_tokens\": 0", 0, 0, "max_tokens: want an integer from 1" },
        { ", \"logprobs\": 1", 0, 0, "logprobs: want true or false" },
        { ", \"top_logprobs\": 3", 0, 0, "top_logprobs: want" },
        { ", \"logprobs\": true, \"top_logprobs\": 9", 0, 0, "want an integer from 0 to 5" },
        { ", \"echo\": true", 0, 0, "echo is not supported" },
        { ", \"add_special_tokens\": true", 0, 0, "add_special_tokens is not supported" },
        { ", \"suffix\": \"x\"", 0, 0, "suffix is not supported" },
        { ", \"n\": 9", 0, 0, "n: want an integer from 1 to 8" },
    };
    const struct serve_request_limits limits = { .texts = 8, .top = 5 };
    json_t *config = json_pack ("{s:s}", "chat_template", "<{{ messages[0].content }}>");
    struct serve_request none;
    struct mg_error err = { "" };
    struct chat chat;

    if (chat_find (&chat, folder, config, &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct serve_request r;
        char body[300];
        int rc;

        snprintf (body, sizeof (body),
                  "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]%s}", rows[i].fields);
        rc = chat_request_read (&r, &chat, &limits, body, strlen (body), &err);
        if (rows[i].why) {
            ok (rc < 0 && r.num_prompts == 0 && strstr (err.text, rows[i].why), "%s: %s",
                rows[i].fields, err.text);
            continue;
        }
        ok (rc == 0 && r.chat && r.max_tokens == rows[i].max_tokens
                && r.logprobs == rows[i].logprobs && r.num_prompts == 1 && r.prompt[0].is_text
                && r.prompt[0].text.size == 3 && memcmp (r.prompt[0].text.data, "<a>", 3) == 0,
            "a request%s", rows[i].fields);
        serve_request_clear (&r);
    }
    ok (chat_request_read (&none, &chat, &limits, "{", 1, &err) < 0 && errno == EINVAL,
        "no JSON: %s", err.text);
    ok (chat_request_read (&none, NULL, &limits, ONE, strlen (ONE), &err) < 0 && errno == ENOTSUP,
        "%s", err.text);
    chat_clear (&chat);
    json_decref (config);
}

int main (void)
{
    if (!mkdtemp (folder))
        bail_out ("no folder %s", folder);
    test_find ();
    test_bodies ();
    test_requests ();
    rmdir (folder);
    return done_testing ();
}
