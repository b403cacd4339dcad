/* completion - the texts of one request for completions, and the answers that are made of them.
 *
 * A completion has a text for each prompt and choice, in this order.  Tokens of the texts come from
 * one thread, answers are made by another; the caller keeps the two apart.
 *
 * Lists of tokens have the tokens of an echoed prompt, and the generated ones: also one that ends a
 * text, but none that has a part of a stop string.
 */
#ifndef LIBCORE_SERVE_COMPLETION_H
#define LIBCORE_SERVE_COMPLETION_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/infer/generator.h"
#include "libcore/serve/request.h"
#include "libcore/serve/stream_text.h"
#include "libcore/serve/text_plan.h"
#include "libcore/serve/token_text.h"
#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

enum { COMPLETION_ID_SIZE = 40 };

struct completion_token {
    int32_t id;
    size_t end; /* offset behind its last byte */
    double log_prob;
};

struct completion_text {
    struct completion *of;
    const struct serve_prompt *prompt;
    int index;               /* among the texts of the request */
    struct stream_text text; /* the echoed prompt, then what is generated */
    /* With log probabilities: the listed tokens, and the alternatives of each. */
    struct completion_token *token;
    int32_t *top_ids;
    double *top_log_probs;
    size_t num_tokens, room;
    size_t scored;         /* tokens whose log probabilities are known */
    int64_t num_generated;
    size_t sent, sent_tokens; /* of a stream */
    size_t walked, characters; /* so many characters are before offset 'walked' */
    bool ended, stopped, told; /* told: the stream has said that it ended */
    bool spoke;                /* the role of a chat's message was sent */
};

struct completion {
    struct serve_request request; /* prompts have their ids */
    const struct token_text *texts; /* of the tokens */
    const struct tokenizer *tokenizer; /* for the bytes of prompts; NULL: there is none */
    char id[COMPLETION_ID_SIZE];
    int64_t created; /* seconds since 1970 */
    const char *model;
    struct completion_text *text; /* [num_texts] */
    int num_texts, num_ended;
    bool usage_told, lost; /* lost: out of memory */
};

/* Make the texts of a request, which the completion then owns; the request is empty afterwards, on
 * failure too.  'completion' has texts, tokenizer, id, created and model.  -1 and ENOMEM; the
 * completion is then empty.
 */
int completion_init (struct completion *c, struct serve_request *request, struct mg_error *err);
void completion_clear (struct completion *c);

/* The plan of a text.  'seed' is for requests without one. */
struct text_plan_text completion_plan (const struct completion_text *t, uint64_t seed);

/* Note a token of a text, and its bytes. */
void completion_note (struct completion_text *t, const struct generator_token *token,
                      const char *bytes, size_t size);
/* The text has ended. */
void completion_end (struct completion_text *t, bool stopped);

/* All texts have ended. */
bool completion_ended (const struct completion *c);

/* Append the answer, an object of JSON, of a completion whose texts have ended.  -1 and ENOMEM. */
int completion_answer (struct completion *c, struct text_buffer *to, struct mg_error *err);

/* Append the events (data: ...) of what may be sent now and was not.  1 if more will follow, 0 at
 * the end, -1 and ENOMEM.
 */
int completion_stream (struct completion *c, struct text_buffer *to, struct mg_error *err);

#endif /* LIBCORE_SERVE_COMPLETION_H */
