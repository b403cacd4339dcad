/* request.c - fields of a body, one function for each kind of value */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/infer/model_tokens.h"
#include "libcore/serve/request.h"
#include "libcore/text/json_text.h"

/* Fields that would change the text, and the values with which they do not, as JSON.  null has no
 * effect in any of them.
 */
struct unsupported {
    const char *name;
    const char *neutral[3];
};

static const struct unsupported unsupported[] = {
    { "suffix", { "\"\"" } },
    { "logit_bias", { "{}" } },
    { "presence_penalty", { "0", "0.0" } },
    { "frequency_penalty", { "0", "0.0" } },
    { "repetition_penalty", { "1", "1.0" } },
    { "best_of", { "1" } },
    { "tools", { "[]" } },
    { "functions", { "[]" } },
    { "response_format", { "{\"type\":\"text\"}" } },
    { "min_p", { "0", "0.0" } },
    { "min_tokens", { "0" } },
    { "length_penalty", { "1", "1.0" } },
    { "use_beam_search", { "false" } },
    { "stop_token_ids", { "[]" } },
    { "bad_words", { "[]" } },
    { "allowed_token_ids", { NULL } },
    { "logits_processors", { "[]" } },
    { "structured_outputs", { NULL } },
    { "guided_json", { NULL } },
    { "guided_regex", { NULL } },
    { "guided_choice", { NULL } },
    { "guided_grammar", { NULL } },
    { "truncate_prompt_tokens", { NULL } },
    { "prompt_embeds", { NULL } },
    { "prompt_logprobs", { NULL } },
    { "spaces_between_special_tokens", { "true" } },
    { "include_stop_str_in_output", { "false" } },
    { NULL, { NULL } },
};

/* Members that bodies with prompts may only have with these values. */
static const struct unsupported unsupported_prompts[] = {
    { "add_special_tokens", { "true" } },
    { NULL, { NULL } },
};

/* Members that bodies with messages may only have with these values. */
static const struct unsupported unsupported_chats[] = {
    { "add_special_tokens", { "false" } },
    { "echo", { "false" } },
    { "tool_choice", { "\"none\"", "\"auto\"" } },
    { "function_call", { "\"none\"", "\"auto\"" } },
    { "continue_final_message", { "false" } },
    { "chat_template", { NULL } },
    { "documents", { "[]" } },
    { "audio", { NULL } },
    { "modalities", { "[\"text\"]" } },
    { NULL, { NULL } },
};

static bool is_neutral (const json_t *value, const char *const neutral[3])
{
    char *text = json_dumps (value, JSON_COMPACT | JSON_ENCODE_ANY);
    bool found = false;

    for (int i = 0; text && i < 3 && neutral[i]; i++)
        found |= strcmp (text, neutral[i]) == 0;
    free (text);
    return found;
}

static int check_unsupported (const json_t *body, const struct unsupported *rows,
                              struct mg_error *err)
{
    for (; rows->name; rows++) {
        const json_t *value = json_object_get (body, rows->name);

        if (value && !json_is_null (value) && !is_neutral (value, rows->neutral))
            return mg_error_set (err, ENOTSUP, "%s is not supported", rows->name);
    }
    return 0;
}

/* --- values; a field that is missing or null leaves *to as it is --- */

static const json_t *field (const json_t *body, const char *name)
{
    const json_t *value = json_object_get (body, name);

    return json_is_null (value) ? NULL : value;
}

static int read_integer (const json_t *body, const char *name, int64_t min, int64_t max,
                         int64_t *to, struct mg_error *err)
{
    const json_t *value = field (body, name);

    if (!value)
        return 0;
    if (!json_is_integer (value) || json_integer_value (value) < min
        || json_integer_value (value) > max)
        return mg_error_set (err, EINVAL, "%s: want an integer from %" PRId64 " to %" PRId64, name,
                             min, max);
    *to = json_integer_value (value);
    return 0;
}

static int read_number (const json_t *body, const char *name, double min, double max, double *to,
                        struct mg_error *err)
{
    const json_t *value = field (body, name);

    if (!value)
        return 0;
    if (!json_is_number (value) || !(json_number_value (value) >= min)
        || !(json_number_value (value) <= max))
        return mg_error_set (err, EINVAL, "%s: want a number from %g to %g", name, min, max);
    *to = json_number_value (value);
    return 0;
}

static int read_flag (const json_t *body, const char *name, bool *to, struct mg_error *err)
{
    const json_t *value = field (body, name);

    if (!value)
        return 0;
    if (!json_is_boolean (value))
        return mg_error_set (err, EINVAL, "%s: want true or false", name);
    *to = json_is_true (value);
    return 0;
}

static int append_string (struct text_buffer *to, const json_t *value, struct mg_error *err)
{
    return text_buffer_append (to, json_string_value (value), json_string_length (value), err);
}

/* --- fields --- */

static int read_model (struct serve_request *r, const json_t *body, struct mg_error *err)
{
    const json_t *value = field (body, "model");

    if (!value)
        return 0;
    if (!json_is_string (value) || strlen (json_string_value (value)) != json_string_length (value))
        return mg_error_set (err, EINVAL, "model: want a text");
    r->model = strdup (json_string_value (value));
    return r->model ? 0 : mg_error_set (err, ENOMEM, "out of memory");
}

/* true if the prompt is one list of ids, false if it is a list of prompts */
static bool is_ids (const json_t *prompt)
{
    return json_is_array (prompt) && json_is_integer (json_array_get (prompt, 0));
}

static int read_prompt (struct serve_prompt *p, const json_t *value, struct mg_error *err)
{
    p->is_text = json_is_string (value);
    if (p->is_text)
        return append_string (&p->text, value, err);
    if (!json_is_array (value) || json_array_size (value) == 0)
        return mg_error_set (err, EINVAL, "prompt: want a text, a list of ids, a list of either");
    return model_tokens_append (value, "prompt", &p->ids, err);
}

static int read_prompts (struct serve_request *r, const json_t *body, int texts,
                         struct mg_error *err)
{
    const json_t *value = field (body, "prompt");
    bool one = json_is_string (value) || is_ids (value);
    size_t n = one ? 1 : json_array_size (value);

    if (n == 0)
        return mg_error_set (err, EINVAL, "prompt: want a text, a list of ids, a list of either");
    if (n > (size_t)(texts / r->choices))
        return mg_error_set (err, EINVAL, "prompt: %zu prompts of %d texts each, want %d texts at "
                             "most", n, r->choices, texts);
    if (!(r->prompt = calloc (n, sizeof (*r->prompt))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu prompts", n);
    r->num_prompts = n;
    for (size_t i = 0; i < n; i++) {
        if (read_prompt (&r->prompt[i], one ? value : json_array_get (value, i), err) < 0)
            return -1;
    }
    return 0;
}

static int read_stop (struct serve_request *r, const json_t *body, struct mg_error *err)
{
    const json_t *value = field (body, "stop");
    size_t n = json_is_array (value) ? json_array_size (value) : value ? 1 : 0;

    if (n > REQUEST_STOPS_MAX)
        return mg_error_set (err, EINVAL, "stop: %zu texts, want %d at most", n,
                             REQUEST_STOPS_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *stop = json_is_array (value) ? json_array_get (value, i) : value;
        size_t size = json_string_length (stop);

        if (!json_is_string (stop) || size == 0 || size > REQUEST_STOP_BYTES_MAX)
            return mg_error_set (err, EINVAL, "stop: want a text, or a list of texts, of 1 to %d "
                                 "bytes", REQUEST_STOP_BYTES_MAX);
        if (append_string (&r->stop[r->num_stops++], stop, err) < 0)
            return -1;
    }
    return 0;
}

static int read_stream (struct serve_request *r, const json_t *body, struct mg_error *err)
{
    const json_t *options = field (body, "stream_options");

    if (read_flag (body, "stream", &r->stream, err) < 0)
        return -1;
    if (options && !json_is_object (options))
        return mg_error_set (err, EINVAL, "stream_options: want an object");
    if (options && !r->stream)
        return mg_error_set (err, EINVAL, "stream_options: want \"stream\": true with them");
    return options ? read_flag (options, "include_usage", &r->include_usage, err) : 0;
}

static int read_sampling (struct serve_request *r, const json_t *body, struct mg_error *err)
{
    struct sampling *s = &r->sampling;

    if (read_number (body, "temperature", 0, 1e6, &s->temperature, err) < 0
        || read_number (body, "top_p", 0, 1, &s->top_p, err) < 0
        || read_integer (body, "top_k", -1, INT32_MAX, &s->top_k, err) < 0)
        return -1;
    if (field (body, "top_p") && s->top_p == 0)
        return mg_error_set (err, EINVAL, "top_p: want a number above 0, up to 1");
    if (s->top_p == 1) // all tokens
        s->top_p = 0;
    if (s->top_k < 0)
        s->top_k = 0;
    r->has_seed = field (body, "seed") != NULL;
    return read_integer (body, "seed", INT64_MIN, INT64_MAX, &r->seed, err);
}

/* Read the members that bodies with prompts and bodies with messages share. */
static int read_common (struct serve_request *r, const struct serve_request_limits *limits,
                        const json_t *body, struct mg_error *err)
{
    int64_t choices = 1;

    if (check_unsupported (body, unsupported, err) < 0 || read_model (r, body, err) < 0
        || read_integer (body, "n", 1, limits->texts, &choices, err) < 0
        || read_flag (body, "ignore_eos", &r->ignore_eos, err) < 0
        || read_flag (body, "skip_special_tokens", &r->skip_special, err) < 0
        || read_sampling (r, body, err) < 0 || read_stop (r, body, err) < 0
        || read_stream (r, body, err) < 0)
        return -1;
    r->choices = (int)choices;
    return 0;
}

static int read_fields (struct serve_request *r, const struct serve_request_limits *limits,
                        const json_t *body, struct mg_error *err)
{
    int64_t logprobs = -1;

    if (check_unsupported (body, unsupported_prompts, err) < 0
        || read_common (r, limits, body, err) < 0
        || read_integer (body, "max_tokens", 0, REQUEST_TOKENS_MAX, &r->max_tokens, err) < 0
        || read_integer (body, "logprobs", 0, limits->top, &logprobs, err) < 0
        || read_flag (body, "echo", &r->echo, err) < 0)
        return -1;
    r->logprobs = (int)logprobs;
    if (r->max_tokens == 0 && !r->echo)
        return mg_error_set (err, EINVAL, "max_tokens: 0 wants \"echo\": true");
    return read_prompts (r, body, limits->texts, err);
}

/* "logprobs": true, with "top_logprobs" alternatives */
static int read_chat_logprobs (struct serve_request *r, const json_t *body, int top,
                               struct mg_error *err)
{
    int64_t alternatives = 0;
    bool wanted = false;

    if (read_flag (body, "logprobs", &wanted, err) < 0
        || read_integer (body, "top_logprobs", 0, top, &alternatives, err) < 0)
        return -1;
    if (alternatives > 0 && !wanted)
        return mg_error_set (err, EINVAL, "top_logprobs: want \"logprobs\": true with them");
    r->logprobs = wanted ? (int)alternatives : -1;
    return 0;
}

static int read_chat_fields (struct serve_request *r, const struct serve_request_limits *limits,
                             const json_t *body, const struct text_buffer *prompt,
                             struct mg_error *err)
{
    if (check_unsupported (body, unsupported_chats, err) < 0
        || read_common (r, limits, body, err) < 0
        || read_integer (body, "max_tokens", 1, REQUEST_TOKENS_MAX, &r->max_tokens, err) < 0
        || read_integer (body, "max_completion_tokens", 1, REQUEST_TOKENS_MAX, &r->max_tokens, err)
               < 0
        || read_chat_logprobs (r, body, limits->top, err) < 0)
        return -1;
    if (!(r->prompt = calloc (1, sizeof (*r->prompt))))
        return mg_error_set (err, ENOMEM, "out of memory for a prompt");
    r->num_prompts = 1;
    r->prompt[0].is_text = true;
    return text_buffer_append (&r->prompt[0].text, prompt->data, prompt->size, err);
}

json_t *serve_request_object (const char *body, size_t size, struct mg_error *err)
{
    struct json_text_fault fault;
    json_t *value = json_text_parse (body, size, JSON_TEXT_STRICT, &fault);

    if (!value) {
        mg_error_set (err, errno, "the body is no JSON: line %zu: %s", fault.line, fault.what);
        return NULL;
    }
    if (!json_is_object (value)) {
        json_decref (value);
        mg_error_set (err, EINVAL, "the body is no object of JSON");
        return NULL;
    }
    return value;
}

int serve_request_read (struct serve_request *r, const struct serve_request_limits *limits,
                        const char *body, size_t size, struct mg_error *err)
{
    json_t *value = serve_request_object (body, size, err);
    int rc;

    *r = (struct serve_request){ .max_tokens = 16, .sampling = { .temperature = 1 },
                                  .skip_special = true };
    rc = value ? read_fields (r, limits, value, err) : -1;
    json_decref (value);
    if (rc < 0)
        serve_request_clear (r);
    return rc;
}

int serve_request_read_chat (struct serve_request *r, const struct serve_request_limits *limits,
                             const json_t *body, const struct text_buffer *prompt,
                             struct mg_error *err)
{
    *r = (struct serve_request){ .max_tokens = -1, .sampling = { .temperature = 1 },
                                 .skip_special = true, .chat = true };
    if (read_chat_fields (r, limits, body, prompt, err) == 0)
        return 0;
    serve_request_clear (r);
    return -1;
}

void serve_request_clear (struct serve_request *r)
{
    int saved_errno = errno;

    for (size_t i = 0; i < r->num_prompts; i++) {
        text_buffer_clear (&r->prompt[i].text);
        free (r->prompt[i].ids.ids);
    }
    for (int i = 0; i < r->num_stops; i++)
        text_buffer_clear (&r->stop[i]);
    free (r->prompt);
    free (r->model);
    *r = (struct serve_request){ .num_prompts = 0 };
    errno = saved_errno;
}
