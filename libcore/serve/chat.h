/* chat - chats of a model: its template, and bodies with messages as prompts.
 *
 * The template is chat_template.jinja beside the weights, else "chat_template" of
 * tokenizer_config.json.  That is a text, or a list of {"name", "template"} with one that is named
 * "default".
 */
#ifndef LIBCORE_SERVE_CHAT_H
#define LIBCORE_SERVE_CHAT_H

#include <stdbool.h>

#include <jansson.h>

#include "libcore/serve/request.h"
#include "libcore/serve/template.h"
#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

struct chat {
    struct chat_template *template; /* NULL: there is none that can be used */
    json_t *variables;              /* special tokens: bos_token, eos_token ... */
    bool faulty;                    /* there is a template, and 'why' says what is wrong with it */
    struct mg_error why;            /* why there is no template */
};

/* Find and read the template of the weights at 'load'.  'config' is the object of
 * tokenizer_config.json.  A model without a template that can be used is no failure: 'why' then has
 * the reason.  -1 and ENOMEM; the chat is then empty.
 */
int chat_find (struct chat *chat, const char *load, const json_t *config, struct mg_error *err);
void chat_clear (struct chat *chat);

/* Append the prompt that the template makes of "messages" and the other fields of a body.  -1 and a
 * text: ENOTSUP if there is no template or content is not text, ENOMEM, EINVAL, E2BIG.
 */
int chat_prompt (const struct chat *chat, const json_t *body, struct text_buffer *to,
                 struct mg_error *err);

/* Read a body of /v1/chat/completions, as serve_request_read() reads others. */
int chat_request_read (struct serve_request *r, const struct chat *chat,
                       const struct serve_request_limits *limits, const char *body, size_t size,
                       struct mg_error *err);

#endif /* LIBCORE_SERVE_CHAT_H */
