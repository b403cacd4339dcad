/* completion.c - texts of a request as they grow */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/serve/answer.h"
#include "libcore/serve/completion.h"
#include "libcore/text/utf8.h"

/* --- texts --- */

static int top_of (const struct completion *c)
{
    return c->request.logprobs > 0 ? c->request.logprobs : 0;
}

/* Make room for another listed token. */
static int reserve_token (struct completion_text *t, struct mg_error *err)
{
    size_t room = t->room > 0 ? 2 * t->room : 32, top = (size_t)top_of (t->of);
    void *more;

    if (t->num_tokens < t->room)
        return 0;
    if (!(more = realloc (t->token, room * sizeof (*t->token))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu tokens", room);
    t->token = more;
    if (!(more = realloc (t->top_ids, (room * top + 1) * sizeof (*t->top_ids))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu tokens", room);
    t->top_ids = more;
    if (!(more = realloc (t->top_log_probs, (room * top + 1) * sizeof (*t->top_log_probs))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu tokens", room);
    t->top_log_probs = more;
    t->room = room;
    return 0;
}

static int list_token (struct completion_text *t, int32_t id, size_t end, struct mg_error *err)
{
    if (reserve_token (t, err) < 0)
        return -1;
    t->token[t->num_tokens++] = (struct completion_token){ id, end, NAN };
    return 0;
}

/* The bytes of a token, lent by the tokenizer. */
static const char *bytes_of (const struct completion *c, int32_t id, size_t *size)
{
    *size = 0;
    if (!c->tokenizer || id >= tokenizer_vocab_size (c->tokenizer))
        return NULL;
    return tokenizer_token (c->tokenizer, id, size);
}

static bool is_at (const struct text_buffer *text, size_t at, const char *bytes, size_t size)
{
    return at <= text->size && size <= text->size - at
           && (size == 0 || memcmp (text->data + at, bytes, size) == 0);
}

/* The end of a token that may be at an offset of a text.  The tokenizer may have put a space before
 * the token, or have left one out.  A token with other bytes, which the tokenizer has added or
 * changed, ends where it begins.
 */
static size_t follow (const struct text_buffer *text, size_t at, const char *bytes, size_t size)
{
    if (is_at (text, at, bytes, size))
        return at + size;
    if (size > 1 && bytes[0] == ' ' && is_at (text, at, bytes + 1, size - 1))
        return at + size - 1;
    if (is_at (text, at, " ", 1) && is_at (text, at + 1, bytes, size))
        return at + 1 + size;
    return at;
}

/* Put the prompt before the text: the bytes that were given, or those of its tokens. */
static int echo_prompt (struct completion_text *t, struct mg_error *err)
{
    const struct completion *c = t->of;
    const struct serve_prompt *p = t->prompt;
    struct text_buffer *text = &t->text.text;
    size_t end = 0;

    if (p->is_text && text_buffer_append (text, p->text.data, p->text.size, err) < 0)
        return -1;
    for (size_t i = 0; i < p->ids.count; i++) {
        size_t size;
        const char *bytes = bytes_of (c, p->ids.ids[i], &size);

        if (!p->is_text && c->request.skip_special && size > 0
            && tokenizer_is_special (c->tokenizer, p->ids.ids[i]))
            size = 0;
        if (!p->is_text && size > 0 && text_buffer_append (text, bytes, size, err) < 0)
            return -1;
        end = p->is_text && i + 1 < p->ids.count ? follow (text, end, bytes, size) : text->size;
        if (c->request.logprobs >= 0 && list_token (t, p->ids.ids[i], end, err) < 0)
            return -1;
    }
    t->text.from = text->size;
    t->scored = t->num_tokens > 0; // the first has no log probability
    return 0;
}

int completion_init (struct completion *c, struct serve_request *request, struct mg_error *err)
{
    struct serve_request *r = &c->request;

    *r = *request;
    *request = (struct serve_request){ .num_prompts = 0 };
    c->num_texts = c->num_ended = 0;
    c->usage_told = c->lost = false;
    if (!(c->text = calloc (r->num_prompts * (size_t)r->choices, sizeof (*c->text)))) {
        mg_error_set (err, ENOMEM, "out of memory for %zu prompts", r->num_prompts);
        goto error;
    }
    c->num_texts = (int)r->num_prompts * r->choices;
    for (int i = 0; i < c->num_texts; i++) {
        struct completion_text *t = &c->text[i];

        *t = (struct completion_text){ .of = c, .prompt = &r->prompt[i / r->choices], .index = i };
        if (r->echo && echo_prompt (t, err) < 0)
            goto error;
    }
    return 0;
error:
    completion_clear (c);
    return -1;
}

void completion_clear (struct completion *c)
{
    int saved_errno = errno;

    for (int i = 0; i < c->num_texts; i++) {
        struct completion_text *t = &c->text[i];

        text_buffer_clear (&t->text.text);
        free (t->token);
        free (t->top_ids);
        free (t->top_log_probs);
    }
    free (c->text);
    c->text = NULL;
    c->num_texts = 0;
    serve_request_clear (&c->request);
    errno = saved_errno;
}

struct text_plan_text completion_plan (const struct completion_text *t, uint64_t seed)
{
    const struct serve_request *r = &t->of->request;
    struct text_plan_text plan = {
        .prompt = t->prompt->ids.ids,
        .num_prompt = (int64_t)t->prompt->ids.count,
        .max_tokens = r->max_tokens,
        .sampling = r->sampling,
        .draw = { .seed = r->has_seed ? (uint64_t)r->seed : seed,
                  .request = (uint64_t)(t->index / r->choices),
                  .choice = (uint64_t)(t->index % r->choices) },
        .scores = r->echo && r->logprobs >= 0,
        .ignore_eos = r->ignore_eos,
        .skip_special = r->skip_special,
        .top = top_of (t->of),
        .num_stops = r->num_stops,
    };

    for (int i = 0; i < r->num_stops; i++)
        plan.stop[i] = r->stop[i];
    return plan;
}

/* --- tokens --- */

static void note_log_probs (struct completion_text *t, size_t at,
                            const struct generator_token *token)
{
    size_t top = (size_t)top_of (t->of);

    t->token[at].log_prob = token->log_prob;
    for (size_t k = 0; k < top; k++) {
        t->top_ids[at * top + k] = token->top_ids[k];
        t->top_log_probs[at * top + k] = token->top_log_probs[k];
    }
    t->scored = at + 1;
}

void completion_note (struct completion_text *t, const struct generator_token *token,
                      const char *bytes, size_t size)
{
    struct completion *c = t->of;
    const struct serve_request *r = &c->request;

    if (token->prompt) {
        if ((size_t)token->position < t->num_tokens)
            note_log_probs (t, (size_t)token->position, token);
        return;
    }
    t->num_generated++;
    if (r->logprobs >= 0 && list_token (t, token->id, t->text.text.size + size, NULL) < 0) {
        c->lost = true;
        return;
    }
    if (stream_text_append (&t->text, bytes, size, r->stop, r->num_stops, NULL) < 0)
        c->lost = true;
    if (r->logprobs >= 0)
        note_log_probs (t, t->num_tokens - 1, token);
}

void completion_end (struct completion_text *t, bool stopped)
{
    t->ended = true;
    t->stopped = stopped;
    t->of->num_ended++;
}

bool completion_ended (const struct completion *c)
{
    return c->num_ended == c->num_texts;
}

/* --- what may be sent --- */

/* Bytes of the text that may be sent, and listed tokens that end in them. */
static size_t ready_bytes (const struct completion_text *t, size_t *tokens)
{
    const struct serve_request *r = &t->of->request;
    size_t prompt = r->echo ? t->prompt->ids.count : 0;
    size_t ready = stream_text_ready (&t->text, r->stop, r->num_stops, t->ended);

    *tokens = t->sent_tokens;
    if (r->logprobs >= 0 && t->scored < prompt && !t->ended)
        return 0; // the prompt's log probabilities come with it
    while (*tokens < t->scored && t->token[*tokens].end <= ready)
        ++*tokens;
    return ready;
}

/* Count the characters that begin before an offset.  Offsets do not decrease from call to call. */
static size_t count_characters (struct completion_text *t, size_t offset)
{
    const struct text_buffer *text = &t->text.text;
    size_t end = offset < text->size ? offset : text->size;

    while (t->walked < end) {
        size_t size = utf8_size (text->data + t->walked, text->size - t->walked);

        t->walked += size > 0 ? size : 1;
        t->characters++;
    }
    return t->characters;
}

/* --- log probabilities --- */

static json_t *number (double log_prob)
{
    return json_real (log_prob > -9999 ? log_prob : -9999);
}

/* Set *bytes to the text of a token, with a zero behind. */
static int name_token (const struct completion *c, int32_t id, struct text_buffer *bytes,
                       struct mg_error *err)
{
    bytes->size = 0;
    if (token_text_append (c->texts, id, bytes, err) < 0
        || text_buffer_append (bytes, "", 1, err) < 0)
        return -1;
    bytes->size--;
    return 0;
}

/* The alternatives of a listed token, and the token itself. */
static json_t *alternatives (const struct completion_text *t, size_t at, struct text_buffer *name,
                             struct mg_error *err)
{
    size_t top = (size_t)top_of (t->of);
    json_t *list = json_object ();
    int rc = 0;

    for (size_t k = at * top; rc == 0 && k < (at + 1) * top; k++) {
        rc = name_token (t->of, t->top_ids[k], name, err);
        if (rc == 0)
            rc = json_object_set_new_nocheck (list, name->data, number (t->top_log_probs[k]));
    }
    if (rc == 0)
        rc = name_token (t->of, t->token[at].id, name, err);
    if (rc == 0)
        rc = json_object_set_new_nocheck (list, name->data, number (t->token[at].log_prob));
    if (rc == 0)
        return list;
    json_decref (list);
    return NULL;
}

/* Append what is known of a listed token to the four lists. */
static int append_token (struct completion_text *t, size_t at, json_t *const list[4],
                         struct text_buffer *name, struct mg_error *err)
{
    size_t begin = at > 0 ? t->token[at - 1].end : 0;
    bool first = isnan (t->token[at].log_prob);
    int rc = name_token (t->of, t->token[at].id, name, err);

    if (rc < 0)
        return -1;
    rc = json_array_append_new (list[0], json_stringn_nocheck (name->data, name->size));
    rc |= json_array_append_new (list[1], first ? json_null () : number (t->token[at].log_prob));
    rc |= json_array_append_new (list[2], first ? json_null () : alternatives (t, at, name, err));
    rc |= json_array_append_new (list[3], json_integer ((json_int_t)count_characters (t, begin)));
    return rc < 0 ? mg_error_set (err, ENOMEM, "out of memory for log probabilities") : 0;
}

/* The listed tokens from sent_tokens to 'end'; null without log probabilities; NULL: failed. */
static json_t *log_probs (struct completion_text *t, size_t end, struct mg_error *err)
{
    json_t *list[4] = { json_array (), json_array (), json_array (), json_array () };
    struct text_buffer name = { NULL, 0, 0 };
    json_t *value;
    int rc = 0;

    for (size_t i = t->sent_tokens; rc == 0 && i < end; i++)
        rc = append_token (t, i, list, &name, err);
    text_buffer_clear (&name);
    value = json_pack ("{s:o, s:o, s:o, s:o}", "tokens", list[0], "token_logprobs", list[1],
                       "top_logprobs", list[2], "text_offset", list[3]);
    if (rc == 0)
        return value;
    json_decref (value);
    return NULL;
}

/* --- log probabilities of chats --- */

/* A token with its bytes and log probability, as OpenAI's API for chats has it.  NULL: failed. */
static json_t *chat_token (const struct completion *c, int32_t id, double log_prob,
                           struct text_buffer *name, struct mg_error *err)
{
    size_t size;
    const char *bytes = bytes_of (c, id, &size);
    json_t *list;

    if (name_token (c, id, name, err) < 0)
        return NULL;
    list = json_array ();
    for (size_t i = 0; i < size; i++) {
        if (json_array_append_new (list, json_integer ((unsigned char)bytes[i])) < 0) {
            json_decref (list);
            return NULL;
        }
    }
    return json_pack ("{s:o, s:o, s:o}", "token", json_stringn_nocheck (name->data, name->size),
                      "logprob", number (log_prob), "bytes", list);
}

/* A listed token with its alternatives.  NULL: failed. */
static json_t *chat_choice_token (const struct completion_text *t, size_t at,
                                  struct text_buffer *name, struct mg_error *err)
{
    size_t top = (size_t)top_of (t->of);
    json_t *token = chat_token (t->of, t->token[at].id, t->token[at].log_prob, name, err);
    json_t *list = json_array ();
    int rc = token && list ? 0 : -1;

    for (size_t k = at * top; rc == 0 && k < (at + 1) * top; k++)
        rc = json_array_append_new (list, chat_token (t->of, t->top_ids[k], t->top_log_probs[k],
                                                      name, err));
    if (rc == 0 && json_object_set_new (token, "top_logprobs", list) == 0)
        return token;
    if (rc < 0)
        json_decref (list);
    json_decref (token);
    return NULL;
}

/* As log_probs(). */
static json_t *chat_log_probs (const struct completion_text *t, size_t end, struct mg_error *err)
{
    struct text_buffer name = { NULL, 0, 0 };
    json_t *list = json_array ();
    int rc = 0;

    for (size_t i = t->sent_tokens; rc == 0 && i < end; i++)
        rc = json_array_append_new (list, chat_choice_token (t, i, &name, err));
    text_buffer_clear (&name);
    if (rc == 0)
        return json_pack ("{s:o}", "content", list);
    json_decref (list);
    return NULL;
}

/* --- answers --- */

/* Put a text into a choice: "text", or the message of a chat, or a part of this message.  0, or -1:
 * out of memory.
 */
static int set_text (struct completion_text *t, json_t *choice, json_t *text)
{
    const struct serve_request *r = &t->of->request;
    bool first = !t->spoke;

    t->spoke = true;
    if (!r->chat)
        return json_object_set_new (choice, "text", text);
    return json_object_set_new (
        choice, r->stream ? "delta" : "message",
        first ? json_pack ("{s:s, s:o}", "role", "assistant", "content", text)
              : json_pack ("{s:o}", "content", text));
}

/* A choice with what may be sent of a text and was not.  NULL: out of memory. */
static json_t *choice_of (struct completion_text *t, struct mg_error *err)
{
    const struct serve_request *r = &t->of->request;
    size_t tokens, ready = ready_bytes (t, &tokens);
    struct text_buffer valid = { NULL, 0, 0 };
    json_t *lists = r->logprobs < 0 ? json_null ()
                    : r->chat       ? chat_log_probs (t, tokens, err)
                                    : log_probs (t, tokens, err);
    json_t *text = NULL, *reason = t->ended ? json_string (t->stopped ? "stop" : "length")
                                            : json_null ();
    json_t *choice = json_pack ("{s:i}", "index", t->index);

    if (ready == t->sent
        || utf8_append_valid (&valid, t->text.text.data + t->sent, ready - t->sent, err) == 0)
        text = json_stringn_nocheck (valid.size > 0 ? valid.data : "", valid.size);
    text_buffer_clear (&valid);
    t->sent = ready;
    t->sent_tokens = tokens;
    t->told = t->ended;
    if ((set_text (t, choice, text) | json_object_set_new (choice, "logprobs", lists)
         | json_object_set_new (choice, "finish_reason", reason)) == 0)
        return choice;
    json_decref (choice);
    return NULL;
}

static json_t *usage_of (const struct completion *c)
{
    json_int_t prompt = 0, generated = 0;

    for (size_t i = 0; i < c->request.num_prompts; i++)
        prompt += (json_int_t)c->request.prompt[i].ids.count;
    for (int i = 0; i < c->num_texts; i++)
        generated += c->text[i].num_generated;
    return json_pack ("{s:I, s:I, s:I}", "prompt_tokens", prompt, "completion_tokens", generated,
                      "total_tokens", prompt + generated);
}

/* An answer with these choices and usage, which it takes; usage NULL: none. */
static json_t *wrap (const struct completion *c, json_t *choices, json_t *usage)
{
    const char *object = !c->request.chat    ? "text_completion"
                         : c->request.stream ? "chat.completion.chunk"
                                             : "chat.completion";
    json_t *answer = json_pack ("{s:s, s:s, s:I, s:s, s:o}", "id", c->id, "object", object,
                                "created", (json_int_t)c->created, "model", c->model, "choices",
                                choices);

    if (usage && json_object_set_new (answer, "usage", usage) < 0) {
        json_decref (answer);
        return NULL;
    }
    return answer;
}

/* Append a value, which is freed, between two texts. */
static int append_json (json_t *value, const char *before, const char *behind,
                        struct text_buffer *to, struct mg_error *err)
{
    if (text_buffer_append (to, before, strlen (before), err) < 0) {
        json_decref (value);
        return -1;
    }
    if (answer_json (to, value, err) < 0)
        return -1;
    return text_buffer_append (to, behind, strlen (behind), err);
}

int completion_answer (struct completion *c, struct text_buffer *to, struct mg_error *err)
{
    json_t *choices = json_array ();

    for (int i = 0; i < c->num_texts; i++) {
        if (json_array_append_new (choices, choice_of (&c->text[i], err)) < 0) {
            json_decref (choices);
            return mg_error_set (err, ENOMEM, "out of memory for an answer");
        }
    }
    return append_json (wrap (c, choices, usage_of (c)), "", "\n", to, err);
}

/* Append an event with what may be sent of a text, if there is anything. */
static int stream_text_of (struct completion_text *t, struct text_buffer *to, struct mg_error *err)
{
    const struct completion *c = t->of;
    size_t tokens, ready = ready_bytes (t, &tokens);
    json_t *choice;

    if (t->told || (!t->ended && ready <= t->sent && tokens == t->sent_tokens))
        return 0;
    if (!(choice = choice_of (t, err)))
        return mg_error_set (err, ENOMEM, "out of memory for an answer");
    return append_json (wrap (c, json_pack ("[o]", choice),
                              c->request.include_usage ? json_null () : NULL),
                        "data: ", "\n\n", to, err);
}

int completion_stream (struct completion *c, struct text_buffer *to, struct mg_error *err)
{
    bool all = true;

    for (int i = 0; i < c->num_texts; i++) {
        if (stream_text_of (&c->text[i], to, err) < 0)
            return -1;
        all &= c->text[i].told;
    }
    if (!all)
        return 1;
    if (c->request.include_usage && !c->usage_told
        && append_json (wrap (c, json_array (), usage_of (c)), "data: ", "\n\n", to, err) < 0)
        return -1;
    c->usage_told = true;
    return text_buffer_append (to, "data: [DONE]\n\n", 14, err) < 0 ? -1 : 0;
}
