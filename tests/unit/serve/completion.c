/* Texts of a request: answers and streams of tokens that a test makes, lists of echoed prompts,
 * characters and stop strings in pieces.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/serve/completion.h"
#include "tests/tap/tap.h"

static const struct serve_request_limits limits = { .texts = 8, .top = 5 };
static struct tokenizer *bytes;
static struct token_text *names;

/* Make a completion of a body, whose texts have the bytes as tokens. */
static int make_quietly (struct completion *c, const char *body)
{
    struct serve_request r;
    struct mg_error err = { "" };

    *c = (struct completion){ .texts = names, .tokenizer = bytes, .id = "cmpl-1", .created = 7,
                              .model = "m" };
    if (serve_request_read (&r, &limits, body, strlen (body), &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < r.num_prompts; i++) {
        if (r.prompt[i].is_text)
            tokenizer_encode (bytes, r.prompt[i].text.data, r.prompt[i].text.size,
                              &r.prompt[i].ids, NULL);
    }
    return completion_init (c, &r, NULL) == 0 && r.num_prompts == 0 ? 0 : -1;
}

static void make (struct completion *c, const char *body)
{
    is_int (make_quietly (c, body), 0, "%s", body);
}

/* Note a token of a byte, 256 for the end of a document; its alternative is the byte before. */
static void note (struct completion *c, int text, int64_t position, bool prompt, int32_t id)
{
    const int32_t top[5] = { id, (id + 1) % 256, 3, 4, 5 };
    const double log_probs[5] = { -0.5, -1.5, -2, -3, -4 };
    const struct generator_token token = { position, prompt, id, -0.5, 5, top, log_probs };
    char byte = (char)id;

    completion_note (&c->text[text], &token, &byte, id < 256 && !prompt);
}

static void note_text (struct completion *c, int text, const char *what)
{
    for (; *what; what++)
        note (c, text, 0, false, (unsigned char)*what);
}

/* The answer, parsed. */
static json_t *answer (struct completion *c)
{
    struct text_buffer to = { NULL, 0, 0 };
    json_t *value = NULL;

    if (completion_answer (c, &to, NULL) == 0)
        value = json_loadb (to.data, to.size, 0, NULL);
    text_buffer_clear (&to);
    return value;
}

/* What is at a path of an answer, as a text. */
static void is_at (json_t *answer, int choice, const char *path, const char *want)
{
    json_t *value = json_array_get (json_object_get (answer, "choices"), (size_t)choice);
    char word[64], *got;

    for (; *path; path += path[0] == '.') {
        size_t n = strcspn (path, ".");

        memcpy (word, path, n);
        word[n] = '\0';
        value = json_object_get (value, word);
        path += n;
    }
    got = json_dumps (value, JSON_COMPACT | JSON_ENCODE_ANY);
    is_str (got ? got : "nothing", want, "choice %d: %s", choice, want);
    free (got);
}

static void test_answer (void)
{
    struct completion c;
    struct text_plan_text plan;
    json_t *value;

    make (&c, "{\"prompt\": [[65, 66], \"x\"], \"n\": 2, \"seed\": 9,"
             "\"max_tokens\": 3}");
    plan = completion_plan (&c.text[3], 5);
    is_int (c.num_texts, 4, "texts of prompts and choices");
    ok (plan.num_prompt == 1 && plan.prompt[0] == 'x' && plan.max_tokens == 3
            && plan.draw.seed == 9 && plan.draw.request == 1 && plan.draw.choice == 1
            && !plan.scores && plan.top == 0, "what the ranks are told of the last one");
    note_text (&c, 0, "abc");
    note_text (&c, 1, "\xc3\xa9");
    note_text (&c, 2, "\xc3");
    note (&c, 3, 1, false, 256);
    for (int i = 0; i < 4; i++) {
        ok (!completion_ended (&c), "a text runs");
        completion_end (&c.text[i], i == 3);
    }
    ok (completion_ended (&c), "all have ended");
    value = answer (&c);
    is_at (value, 0, "text", "\"abc\"");
    is_at (value, 1, "text", "\"\xc3\xa9\"");
    is_at (value, 2, "text", "\"\xef\xbf\xbd\"");
    is_at (value, 3, "text", "\"\"");
    is_at (value, 0, "finish_reason", "\"length\"");
    is_at (value, 3, "finish_reason", "\"stop\"");
    is_at (value, 3, "logprobs", "null");
    is_int ((int)json_integer_value (json_object_get (json_object_get (value, "usage"),
                                                      "completion_tokens")), 7, "tokens");
    is_int ((int)json_integer_value (json_object_get (json_object_get (value, "usage"),
                                                      "prompt_tokens")), 3, "of prompts");
    json_decref (value);
    completion_clear (&c);
}

/* The harness's request: ids, echo, log probabilities, one token. */
static void test_echo (void)
{
    struct completion c;
    struct text_plan_text plan;
    json_t *value;

    make (&c, "{\"prompt\": [65, 195, 169, 66], \"echo\": true, \"logprobs\": 2,"
             "\"max_tokens\": 1}");
    plan = completion_plan (&c.text[0], 5);
    ok (plan.scores && plan.top == 2 && plan.draw.seed == 5, "prompts are scored");
    note (&c, 0, 1, true, 195);
    note (&c, 0, 2, true, 169);
    note (&c, 0, 3, true, 66);
    note (&c, 0, 4, false, 256);
    completion_end (&c.text[0], true);
    value = answer (&c);
    is_at (value, 0, "text", "\"A\xc3\xa9""B\"");
    is_at (value, 0, "logprobs.tokens",
           "[\"A\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"B\",\"token_id:256\"]");
    is_at (value, 0, "logprobs.token_logprobs", "[null,-0.5,-0.5,-0.5,-0.5]");
    is_at (value, 0, "logprobs.text_offset", "[0,1,2,2,3]");
    is_at (value, 0, "logprobs.top_logprobs",
           "[null,{\"bytes:\\\\xc3\":-0.5,\"bytes:\\\\xc4\":-1.5},"
           "{\"bytes:\\\\xa9\":-0.5,\"bytes:\\\\xaa\":-1.5},{\"B\":-0.5,\"C\":-1.5},"
           "{\"token_id:256\":-0.5,\"\\u0001\":-1.5}]");
    json_decref (value);
    completion_clear (&c);

    make (&c, "{\"prompt\": \"AB\", \"echo\": true, \"max_tokens\": 0}");
    completion_end (&c.text[0], false);
    value = answer (&c);
    is_at (value, 0, "text", "\"AB\"");
    json_decref (value);
    completion_clear (&c);
}

/* Tokens that are no part of a prompt's text, beside those that are. */
static void test_echo_changed (void)
{
    static const struct {
        const char *text, *tokens, *offsets;
    } rows[] = {
        { "AB", "AB", "[0,1,2]" },
        { "AB", "zAB", "[0,0,1,2]" },     /* one is added before the text */
        { "AB", "ABz", "[0,1,2,2]" },     /* behind it */
        { "AB", "aAB", "[0,0,1,2]" },
        { "A B", "AB", "[0,1,3]" },       /* a space is left out */
        { "AB", "ab", "[0,0,2]" },        /* what follows begins behind the prompt */
        { "\u00e9B", "zyB", "[0,0,0,2]" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        size_t n = strlen (rows[i].tokens);
        struct serve_request r;
        struct completion c = { .texts = names, .tokenizer = bytes, .model = "m" };
        char body[100];
        json_t *value;

        snprintf (body, sizeof (body), "{\"prompt\": \"%s\", \"echo\": true, \"logprobs\": 0}",
                  rows[i].text);
        if (serve_request_read (&r, &limits, body, strlen (body), NULL) < 0
            || tokenizer_encode (bytes, rows[i].tokens, n, &r.prompt[0].ids, NULL) < 0
            || completion_init (&c, &r, NULL) < 0)
            bail_out ("%s", body);
        for (size_t k = 1; k < n; k++)
            note (&c, 0, (int64_t)k, true, rows[i].tokens[k]);
        note (&c, 0, (int64_t)n, false, 'x');
        completion_end (&c.text[0], false);
        value = answer (&c);
        is_at (value, 0, "logprobs.text_offset", rows[i].offsets);
        json_decref (value);
        completion_clear (&c);
    }
}

static bool is_big (const void *impl, int32_t id)
{
    (void)impl;
    return id < 'a';
}

/* Special tokens of a prompt of ids, and the plan. */
static void test_special (void)
{
    static const char *const bodies[] = {
        "{\"prompt\": [65, 98, 66, 99], \"echo\": true, \"logprobs\": 0}",
        "{\"prompt\": [65, 98, 66, 99], \"echo\": true, \"skip_special_tokens\": false}",
        "{\"prompt\": \"AbB\", \"echo\": true}",
    };
    static const char *const texts[] = { "\"bc\"", "\"AbBc\"", "\"AbB\"" };
    struct tokenizer_ops ops = *bytes->ops;
    struct tokenizer other = { &ops, bytes->impl }, *saved = bytes;

    ops.is_special = is_big;
    bytes = &other;
    for (int i = 0; i < 3; i++) {
        struct completion c;
        json_t *value;

        make (&c, bodies[i]);
        ok (completion_plan (&c.text[0], 1).skip_special == (i != 1), "the ranks know it");
        for (int k = 1; i == 0 && k < 4; k++)
            note (&c, 0, k, true, 'x');
        completion_end (&c.text[0], false);
        value = answer (&c);
        is_at (value, 0, "text", texts[i]);
        if (i == 0) {
            is_at (value, 0, "logprobs.tokens", "[\"A\",\"b\",\"B\",\"c\"]");
            is_at (value, 0, "logprobs.text_offset", "[0,0,1,1]");
        }
        json_decref (value);
        completion_clear (&c);
    }
    bytes = saved;
}

static void test_stop (void)
{
    struct completion c;
    json_t *value;

    make (&c, "{\"prompt\": [65], \"logprobs\": 0, \"stop\": [\"bc\"]}");
    note_text (&c, 0, "abbc");
    completion_end (&c.text[0], true);
    value = answer (&c);
    is_at (value, 0, "text", "\"ab\"");
    is_at (value, 0, "logprobs.tokens", "[\"a\",\"b\"]");
    is_at (value, 0, "logprobs.top_logprobs", "[{\"a\":-0.5},{\"b\":-0.5}]");
    json_decref (value);
    completion_clear (&c);
}

/* What is between "text":" and the next quote of the last event. */
static const char *last_text (struct text_buffer *to, char found[64])
{
    const char *at = NULL, *end, *next = to->data;

    text_buffer_append (to, "", 1, NULL);
    to->size--;
    while ((next = strstr (next, "\"text\":\""))) {
        at = next + 8;
        next = at;
    }
    found[0] = '\0';
    if (at && (end = strchr (at, '"')))
        snprintf (found, 64, "%.*s", (int)(end - at), at);
    return found;
}

static void test_stream (void)
{
    struct completion c;
    struct text_buffer to = { NULL, 0, 0 };
    char found[64];

    make (&c, "{\"prompt\": \"A\", \"n\": 2, \"stream\": true, \"stop\": \"stop\","
             "\"stream_options\": {\"include_usage\": true}}");
    is_int (completion_stream (&c, &to, NULL), 1, "nothing yet");
    is_int ((int)to.size, 0, "nothing is sent");
    note_text (&c, 0, "x\xc3");
    is_int (completion_stream (&c, &to, NULL), 1, "a text begins");
    is_str (last_text (&to, found), "x", "a character is not cut");
    to.size = 0;
    is_int (completion_stream (&c, &to, NULL), 1, "nothing new");
    is_int ((int)to.size, 0, "nothing is sent again");
    note_text (&c, 0, "\xa9st");
    completion_stream (&c, &to, NULL);
    is_str (last_text (&to, found), "\xc3\xa9", "nor is a part of a stop string shown");
    to.size = 0;
    note_text (&c, 0, "op");
    completion_end (&c.text[0], true);
    is_int (completion_stream (&c, &to, NULL), 1, "one text has ended");
    is_str (last_text (&to, found), "", "its stop string is not sent");
    ok (strstr (to.data, "\"finish_reason\":\"stop\"") && strstr (to.data, "\"index\":0")
            && !strstr (to.data, "\"index\":1"), "but why it ended");
    ok (strstr (to.data, "\"usage\":null"), "usage comes later");
    to.size = 0;
    completion_end (&c.text[1], false);
    is_int (completion_stream (&c, &to, NULL), 0, "the end");
    last_text (&to, found);
    ok (strstr (to.data, "\"index\":1") && strstr (to.data, "\"choices\":[],\"usage\":{")
            && strcmp (to.data + to.size - 14, "data: [DONE]\n\n") == 0, "usage and the end");
    text_buffer_clear (&to);
    completion_clear (&c);
}

/* An echoed prompt comes with its log probabilities, as a whole. */
static void test_stream_echo (void)
{
    struct completion c;
    struct text_buffer to = { NULL, 0, 0 };
    char found[64];

    make (&c, "{\"prompt\": \"AB\", \"stream\": true, \"echo\": true,"
             "\"logprobs\": 1}");
    completion_stream (&c, &to, NULL);
    is_int ((int)to.size, 0, "the prompt waits for its log probabilities");
    note (&c, 0, 1, true, 'B');
    completion_stream (&c, &to, NULL);
    is_str (last_text (&to, found), "AB", "then it is sent");
    ok (strstr (to.data, "\"tokens\":[\"A\",\"B\"]"), "with its tokens");
    to.size = 0;
    note (&c, 0, 2, false, 'c');
    completion_stream (&c, &to, NULL);
    is_str (last_text (&to, found), "c", "and what follows");
    ok (strstr (to.data, "\"tokens\":[\"c\"]") && strstr (to.data, "\"text_offset\":[2]"),
        "with its token");
    text_buffer_clear (&to);
    completion_clear (&c);
}

/* Append the texts and tokens of an answer's, or an event's, choice to 'to'. */
static void collect (const char *json, size_t size, struct text_buffer *texts,
                     struct text_buffer *tokens)
{
    json_t *value = json_loadb (json, size, 0, NULL);
    const json_t *choices = json_object_get (value, "choices");
    const json_t *choice = json_array_get (choices, 0);
    const json_t *text = json_object_get (choice, "text");
    const json_t *lists = json_object_get (choice, "logprobs");

    if (!value || (json_array_size (choices) > 0 && !json_is_string (text)))
        bail_out ("no answer: %.*s", (int)size, json);
    text_buffer_append (texts, json_string_value (text), json_string_length (text), NULL);
    for (size_t i = 0; i < json_array_size (json_object_get (lists, "tokens")); i++) {
        const json_t *name = json_array_get (json_object_get (lists, "tokens"), i);
        const json_t *offset = json_array_get (json_object_get (lists, "text_offset"), i);
        char word[64];
        int n = snprintf (word, sizeof (word), "%s@%d ", json_string_value (name),
                          (int)json_integer_value (offset));

        text_buffer_append (tokens, word, (size_t)n, NULL);
    }
    json_decref (value);
}

/* The events of a stream. */
static void collect_events (const struct text_buffer *events, struct text_buffer *texts,
                            struct text_buffer *tokens)
{
    const char *at = events->data, *end = events->data + events->size;

    while (at < end) {
        const char *next = memmem (at, (size_t)(end - at), "\n\n", 2);

        if (!next || strncmp (at, "data: ", 6) != 0)
            bail_out ("no event: %s", at);
        if (strncmp (at + 6, "[DONE]", 6) != 0)
            collect (at + 6, (size_t)(next - at) - 6, texts, tokens);
        at = next + 2;
    }
}

/* Feed the same random tokens to a text that is streamed and to one that is not.  True if both
 * become the same.
 */
static bool same_as_whole (uint32_t *random)
{
    static const int32_t alphabet[] = { 'a', 'b', 0xc3, 0xa9, 0xe2, 0x82, 0xac, 'a' };
    static const char *const bodies[] = {
        "{\"prompt\": [97, 195], \"stop\": [\"ab\", \"\u00e9a\", \"bb\"]",
        "{\"prompt\": [97, 195], \"echo\": true, \"logprobs\": 1, \"stop\": \"aba\"",
        "{\"prompt\": \"\u00e9\", \"echo\": true", "{\"prompt\": [226], \"logprobs\": 0",
    };
    struct text_buffer events = { NULL, 0, 0 }, whole = { NULL, 0, 0 };
    struct text_buffer text[2] = { { NULL, 0, 0 } }, tokens[2] = { { NULL, 0, 0 } };
    struct completion c[2];
    char body[160];
    bool same;

    *random = *random * 1664525 + 1013904223;
    for (int i = 0; i < 2; i++) {
        snprintf (body, sizeof (body), "%s, \"stream\": %s}", bodies[*random >> 30],
                  i == 0 ? "false" : "true");
        make_quietly (&c[i], body);
        if (c[i].request.echo && c[i].request.logprobs >= 0)
            note (&c[i], 0, 1, true, 195);
    }
    for (int n = 0; n < 12 && !c[0].text[0].text.stopped; n++) {
        *random = *random * 1664525 + 1013904223;
        for (int i = 0; i < 2; i++)
            note (&c[i], 0, n, false, alphabet[*random >> 29]);
        if (*random & 0x10000)
            completion_stream (&c[1], &events, NULL);
    }
    for (int i = 0; i < 2; i++)
        completion_end (&c[i].text[0], c[i].text[0].text.stopped);
    same = completion_stream (&c[1], &events, NULL) == 0
           && completion_answer (&c[0], &whole, NULL) == 0;
    collect (whole.data, whole.size, &text[0], &tokens[0]);
    collect_events (&events, &text[1], &tokens[1]);
    same = same && text[0].size == text[1].size && tokens[0].size == tokens[1].size
           && (text[0].size == 0 || memcmp (text[0].data, text[1].data, text[0].size) == 0)
           && (tokens[0].size == 0 || memcmp (tokens[0].data, tokens[1].data, tokens[0].size) == 0);
    if (!same)
        diag ("%s: %.*s and %.*s, %.*s and %.*s", body, (int)text[0].size, text[0].data,
              (int)text[1].size, text[1].data, (int)tokens[0].size, tokens[0].data,
              (int)tokens[1].size, tokens[1].data);
    for (int i = 0; i < 2; i++) {
        text_buffer_clear (&text[i]);
        text_buffer_clear (&tokens[i]);
        completion_clear (&c[i]);
    }
    text_buffer_clear (&events);
    text_buffer_clear (&whole);
    return same;
}

static void test_random (void)
{
    uint32_t random = 1;
    int wrong = 0;

    for (int i = 0; i < 600; i++)
        wrong += !same_as_whole (&random);
    is_int (wrong, 0, "streams of random tokens become the texts of answers");
}

int main (void)
{
    bytes = tokenizer_create ("ByteLevel", NULL, NULL);
    names = token_text_create (bytes, NULL);
    test_answer ();
    test_echo ();
    test_echo_changed ();
    test_special ();
    test_stop ();
    test_stream ();
    test_stream_echo ();
    test_random ();
    token_text_destroy (names);
    tokenizer_destroy (bytes);
    return done_testing ();
}
