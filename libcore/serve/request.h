/* request - the body of a request for a text, in the form of OpenAI's completions.
 *
 * Fields and their defaults are those of vLLM's /v1/completions.  A field that would change the
 * text, and that is not supported, is refused by name unless its value has no effect.  Other
 * unknown fields are ignored.
 */
#ifndef LIBCORE_SERVE_REQUEST_H
#define LIBCORE_SERVE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "libcore/infer/sampling.h"
#include "libcore/text/text_buffer.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

enum {
    REQUEST_STOPS_MAX = 16,        /* stop strings */
    REQUEST_STOP_BYTES_MAX = 1024, /* of a stop string */
    REQUEST_TOKENS_MAX = 1 << 30   /* max_tokens */
};

struct serve_prompt {
    bool is_text;
    struct text_buffer text; /* of a text */
    struct token_buffer ids; /* of a list of ids; of a text, room for its tokens */
};

struct serve_request {
    char *model; /* NULL: not given */
    struct serve_prompt *prompt;
    size_t num_prompts;
    int64_t max_tokens;       /* -1: as many as positions are left */
    struct sampling sampling; /* top_k may be larger than the vocabulary */
    int choices;              /* texts for each prompt: n */
    bool has_seed;
    int64_t seed;
    struct text_buffer stop[REQUEST_STOPS_MAX];
    int num_stops;
    bool stream, include_usage, echo, ignore_eos, skip_special;
    int logprobs; /* alternatives of a token; -1: no log probabilities */
    bool chat;    /* the prompt is a rendered template, and the answer is a message */
};

/* What a request may ask for. */
struct serve_request_limits {
    int texts; /* prompts times n */
    int top;   /* logprobs */
};

/* Read a body.  -1 and a text on failure: EINVAL if a field is wrong, ENOTSUP if it is not
 * supported, ENOMEM.  The request is then empty.
 */
int serve_request_read (struct serve_request *r, const struct serve_request_limits *limits,
                        const char *body, size_t size, struct mg_error *err);
void serve_request_clear (struct serve_request *r);

/* Read the fields of a body of /v1/chat/completions.  'prompt' is what the template made of its
 * messages.  Fields and defaults are those of vLLM.  Errors as above.
 */
int serve_request_read_chat (struct serve_request *r, const struct serve_request_limits *limits,
                             const json_t *body, const struct text_buffer *prompt,
                             struct mg_error *err);

/* Read a body whose value is an object.  The caller owns it.  NULL, EINVAL or ENOMEM and a text. */
json_t *serve_request_object (const char *body, size_t size, struct mg_error *err);

#endif /* LIBCORE_SERVE_REQUEST_H */
