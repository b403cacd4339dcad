/* chat.c - from messages to a prompt */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/infer/model_tokens.h"
#include "libcore/serve/chat.h"

/* --- the template --- */

/* The template in tokenizer_config.json, NULL: there is none. */
static const json_t *find_in_config (const json_t *config)
{
    const json_t *value = json_object_get (config, "chat_template");
    size_t n = json_is_array (value) ? json_array_size (value) : 0;

    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get (value, i);
        const char *name = json_string_value (json_object_get (row, "name"));

        if (name && strcmp (name, "default") == 0)
            return json_object_get (row, "template");
    }
    return json_is_array (value) || json_is_null (value) ? NULL : value;
}

/* Keep why there is no template.  0, or -1 if memory lacks. */
static int refuse (struct chat *chat, bool faulty, const struct mg_error *why,
                   struct mg_error *err)
{
    if (errno == ENOMEM)
        return mg_error_set (err, ENOMEM, "out of memory for a chat template");
    chat->faulty = faulty;
    mg_error_set (&chat->why, ENOTSUP, "this model's chat template cannot be used: %s", why->text);
    return 0;
}

static int read_template (struct chat *chat, const char *text, size_t size, struct mg_error *err)
{
    struct mg_error why = { "" };

    if ((chat->template = chat_template_create (text, size, &why)))
        return 0;
    return refuse (chat, true, &why, err);
}

static int find_template (struct chat *chat, const char *load, const json_t *config,
                          struct mg_error *err)
{
    const json_t *value = find_in_config (config);
    struct mg_error why = { "" };
    size_t size;
    char *text = model_tokens_file (load, "chat_template.jinja", TEMPLATE_BYTES_MAX, &size, &why);
    int rc;

    if (text) {
        rc = read_template (chat, text, size, err);
        free (text);
        return rc;
    }
    if (errno != ENOENT)
        return refuse (chat, true, &why, err);
    if (json_is_string (value))
        return read_template (chat, json_string_value (value), json_string_length (value), err);
    mg_error_set (&chat->why, ENOTSUP, "this model has no chat template: neither "
                  "chat_template.jinja nor a text \"chat_template\" in tokenizer_config.json");
    return 0;
}

/* Special tokens of tokenizer_config.json: texts, or objects with a text. */
static int find_variables (struct chat *chat, const json_t *config, struct mg_error *err)
{
    static const char *const names[] = { "bos_token", "eos_token", "unk_token", "pad_token",
                                         "sep_token", "cls_token", "mask_token" };
    int rc = (chat->variables = json_object ()) ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < sizeof (names) / sizeof (names[0]); i++) {
        json_t *value = json_object_get (config, names[i]);

        if (json_is_object (value))
            value = json_object_get (value, "content");
        if (json_is_string (value))
            rc = json_object_set (chat->variables, names[i], value);
    }
    return rc == 0 ? 0 : mg_error_set (err, ENOMEM, "out of memory for a chat template");
}

int chat_find (struct chat *chat, const char *load, const json_t *config, struct mg_error *err)
{
    *chat = (struct chat){ .template = NULL };
    if (find_variables (chat, config, err) == 0 && find_template (chat, load, config, err) == 0)
        return 0;
    chat_clear (chat);
    return -1;
}

void chat_clear (struct chat *chat)
{
    chat_template_destroy (chat->template);
    json_decref (chat->variables);
    *chat = (struct chat){ .template = NULL };
}

/* --- messages --- */

/* The text of a list of parts of type text, one line a part.  NULL and a text on failure. */
static json_t *join_parts (const json_t *parts, size_t message, struct mg_error *err)
{
    struct text_buffer text = { NULL, 0, 0 };
    json_t *joined = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < json_array_size (parts); i++) {
        const json_t *part = json_array_get (parts, i), *value = json_object_get (part, "text");
        const char *type = json_string_value (json_object_get (part, "type"));

        if (!type || strcmp (type, "text") != 0 || !json_is_string (value)) {
            rc = mg_error_set (err, ENOTSUP, "messages[%zu].content[%zu]: only parts of type text "
                               "are supported", message, i);
        } else if (i > 0)
            rc = text_buffer_append (&text, "\n", 1, err);
        if (rc == 0)
            rc = text_buffer_append (&text, json_string_value (value), json_string_length (value),
                                     err);
    }
    if (rc == 0 && !(joined = json_stringn (text.size > 0 ? text.data : "", text.size)))
        mg_error_set (err, ENOMEM, "out of memory for messages");
    text_buffer_clear (&text);
    return joined;
}

/* A message whose content is one text.  NULL and a text on failure. */
static json_t *flatten (json_t *message, size_t at, struct mg_error *err)
{
    json_t *content = json_object_get (message, "content"), *copy, *joined;

    if (!json_is_string (json_object_get (message, "role"))) {
        mg_error_set (err, EINVAL, "messages[%zu]: want an object with a text \"role\"", at);
        return NULL;
    }
    if (!content || json_is_null (content) || json_is_string (content))
        return json_incref (message);
    if (!json_is_array (content)) {
        mg_error_set (err, EINVAL, "messages[%zu].content: want a text, or a list of parts", at);
        return NULL;
    }
    if (!(joined = join_parts (content, at, err)))
        return NULL;
    copy = json_copy (message);
    if (copy && json_object_set_new (copy, "content", joined) == 0)
        return copy;
    if (!copy)
        json_decref (joined);
    json_decref (copy);
    mg_error_set (err, ENOMEM, "out of memory for messages");
    return NULL;
}

static json_t *flatten_all (const json_t *body, struct mg_error *err)
{
    json_t *messages = json_object_get (body, "messages"), *all;
    size_t n = json_is_array (messages) ? json_array_size (messages) : 0;

    if (n == 0) {
        mg_error_set (err, EINVAL, "messages: want a list of messages, one at least");
        return NULL;
    }
    if (!(all = json_array ()))
        mg_error_set (err, ENOMEM, "out of memory for messages");
    for (size_t i = 0; all && i < n; i++) {
        json_t *message = flatten (json_array_get (messages, i), i, err);

        if (message && json_array_append_new (all, message) < 0)
            mg_error_set (err, ENOMEM, "out of memory for messages");
        else if (message)
            continue;
        json_decref (all);
        all = NULL;
    }
    return all;
}

/* --- prompts --- */

/* Set what the template may ask for.  The body's own variables come last. */
static int set_variables (json_t *to, const struct chat *chat, const json_t *body, json_t *messages,
                          struct mg_error *err)
{
    json_t *prompt = json_object_get (body, "add_generation_prompt");
    json_t *more = json_object_get (body, "chat_template_kwargs");
    int rc;

    if (prompt && !json_is_null (prompt) && !json_is_boolean (prompt))
        return mg_error_set (err, EINVAL, "add_generation_prompt: want true or false");
    if (more && !json_is_null (more) && !json_is_object (more))
        return mg_error_set (err, EINVAL, "chat_template_kwargs: want an object");
    rc = json_object_update (to, chat->variables);
    rc |= json_object_set (to, "messages", messages);
    rc |= json_object_set_new (to, "add_generation_prompt", json_boolean (!json_is_false (prompt)));
    rc |= json_object_set_new (to, "tools", json_null ());
    rc |= json_object_set_new (to, "documents", json_null ());
    if (json_is_object (more))
        rc |= json_object_update (to, more);
    return rc == 0 ? 0 : mg_error_set (err, ENOMEM, "out of memory for messages");
}

int chat_prompt (const struct chat *chat, const json_t *body, struct text_buffer *to,
                 struct mg_error *err)
{
    json_t *messages, *variables;
    int rc;

    if (!chat || !chat->template)
        return mg_error_set (err, ENOTSUP, "%s; /v1/completions takes prompts",
                             chat ? chat->why.text : "this model has no chat template");
    if (!(messages = flatten_all (body, err)))
        return -1;
    if (!(variables = json_object ()))
        rc = mg_error_set (err, ENOMEM, "out of memory for messages");
    else
        rc = set_variables (variables, chat, body, messages, err);
    if (rc == 0 && chat_template_render (chat->template, variables, to, err) < 0)
        rc = mg_error_prefix (err, "chat template");
    json_decref (variables);
    json_decref (messages);
    return rc;
}

int chat_request_read (struct serve_request *r, const struct chat *chat,
                       const struct serve_request_limits *limits, const char *body, size_t size,
                       struct mg_error *err)
{
    struct text_buffer prompt = { NULL, 0, 0 };
    json_t *value = serve_request_object (body, size, err);
    int rc = value ? chat_prompt (chat, value, &prompt, err) : -1;

    *r = (struct serve_request){ .num_prompts = 0 };
    if (rc == 0)
        rc = serve_request_read_chat (r, limits, value, &prompt, err);
    text_buffer_clear (&prompt);
    json_decref (value);
    return rc;
}
