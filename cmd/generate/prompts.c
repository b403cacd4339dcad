/* prompts.c - what texts begin with, and the tokens that end them */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/generate/generate.h"
#include "libcore/args/file.h"
#include "libcore/base/parse.h"
#include "libcore/text/json_text.h"

enum { PROMPT_FILE_MAX = 1 << 28 };

const struct token_buffer *generate_terminations (const struct generate_job *job)
{
    const struct token_buffer *given = &job->options.terminations;

    return given->count > 0 ? given : &job->use.tokens.ends;
}

int generate_check_tokens (const struct generate_job *job, struct mg_error *err)
{
    const struct token_buffer *given = &job->options.terminations;
    int32_t vocab = job->use.infer.config.model.config.vocab_size;

    for (size_t i = 0; i < given->count; i++) {
        if (given->ids[i] >= vocab)
            return mg_error_set (err, EINVAL, "--termination-id %d, want 0 to %d",
                                 (int)given->ids[i], (int)vocab - 1);
    }
    if (job->options.num_stops > 0 && !job->use.tokens.tokenizer)
        return mg_error_set (err, EINVAL, "--stop wants a tokenizer: --tokenizer-type, or "
                             "tokenizer.json beside the weights");
    return 0;
}

/* --- prompts --- */

static struct generate_text *add (struct generate_job *job, struct mg_error *err)
{
    struct generate_text *more = realloc (job->text, (job->num_texts + 1) * sizeof (*more));

    if (!more) {
        mg_error_set (err, ENOMEM, "out of memory for %zu prompts", job->num_texts + 1);
        return NULL;
    }
    job->text = more;
    more += job->num_texts++;
    *more = (struct generate_text){ .of = job };
    return more;
}

/* The token of an empty prompt; -1: none is known. */
static int32_t first_token (const struct generate_job *job)
{
    const struct token_buffer *given = &job->options.terminations;

    return job->use.tokens.first < 0 && given->count > 0 ? given->ids[0] : job->use.tokens.first;
}

/* The tokens of a prompt are there. */
static int complete (struct generate_job *job, struct generate_text *t, struct mg_error *err)
{
    int64_t length = job->use.infer.given.generator.length, tokens = job->options.tokens;
    size_t room = (size_t)(tokens < length ? tokens : length) + 1;
    size_t top = (size_t)job->options.top;

    if (token_buffer_reserve (&t->tokens, room, err) < 0)
        return -1;
    if (t->tokens.count == 0) {
        int32_t first = first_token (job);

        if (first < 0)
            return mg_error_set (err, EINVAL, "prompt %zu is empty, and no token is known that "
                                 "begins or ends a document", job->num_texts - 1);
        t->tokens.ids[t->tokens.count++] = first;
    }
    t->num_prompt = t->tokens.count;
    room += t->num_prompt;
    if (!(t->log_prob = calloc (room, sizeof (*t->log_prob)))
        || !(t->top_ids = calloc (room * top + 1, sizeof (*t->top_ids)))
        || !(t->top_log_probs = calloc (room * top + 1, sizeof (*t->top_log_probs))))
        return mg_error_set (err, ENOMEM, "out of memory for a prompt");
    return 0;
}

int generate_add_text (struct generate_job *job, const char *text, size_t size,
                       struct mg_error *err)
{
    struct generate_text *t = add (job, err);
    struct tokenizer *tokenizer = job->use.tokens.tokenizer;

    if (!t)
        return -1;
    t->has_prompt = true;
    if (!tokenizer && size > 0)
        return mg_error_set (err, EINVAL, "prompt %zu is a text, and there is no tokenizer: want "
                             "--tokenizer-type, tokenizer.json beside the weights, or tokens",
                             job->num_texts - 1);
    if (text_buffer_append (&t->prompt, text, size, err) < 0
        || (size > 0 && tokenizer_encode (tokenizer, text, size, &t->tokens, err) < 0))
        return -1;
    return complete (job, t, err);
}

/* "1,2,3" */
static int add_ids (struct generate_job *job, const char *list, struct mg_error *err)
{
    struct generate_text *t = add (job, err);
    char word[32];

    while (t && *list) {
        size_t n = strcspn (list, ",");
        int id;

        snprintf (word, sizeof (word), "%.*s", n < 31 ? (int)n : 31, list);
        if (parse_int ("--prompt-tokens", word, 0, INT32_MAX, &id, err) < 0
            || token_buffer_reserve (&t->tokens, 1, err) < 0)
            return -1;
        t->tokens.ids[t->tokens.count++] = id;
        list += n + (list[n] == ',');
    }
    return t ? complete (job, t, err) : -1;
}

/* A line of a prompt file. */
static int add_line (struct generate_job *job, const char *line, size_t size, size_t number,
                     struct mg_error *err)
{
    const char *path = job->options.prompt_file;
    struct json_text_fault fault;
    json_t *value = json_text_parse (line, size, JSON_TEXT_NULS, &fault);
    const json_t *text = json_object_get (value, "text");
    const json_t *tokens = json_object_get (value, "tokens");
    struct text_buffer bytes = { 0 };
    struct generate_text *t;
    char what[80];
    int rc;

    snprintf (what, sizeof (what), "line %zu", number);
    if (!value)
        return mg_error_set (err, EINVAL, "%s:%zu: %s", path, number, fault.what);
    if (json_is_string (text) && !tokens) {
        rc = json_text_append (&bytes, json_string_value (text), err);
        if (rc == 0)
            rc = generate_add_text (job, bytes.size > 0 ? bytes.data : "", bytes.size, err);
    } else if (json_is_array (tokens) && !text) {
        rc = (t = add (job, err)) ? model_tokens_append (tokens, what, &t->tokens, err) : -1;
        if (rc == 0)
            rc = complete (job, t, err);
    } else
        rc = mg_error_set (err, EINVAL, "line %zu: want an object with \"text\", a string, or "
                           "\"tokens\", a list", number);
    text_buffer_clear (&bytes);
    json_decref (value);
    return rc < 0 ? mg_error_prefix (err, "%s", path) : 0;
}

static int read_file (struct generate_job *job, struct mg_error *err)
{
    size_t size, number = 1;
    char *text = args_file_bytes (job->options.prompt_file, PROMPT_FILE_MAX, &size, err);
    const char *at = text, *end = text + (text ? size : 0);
    int rc = text ? 0 : mg_error_prefix (err, "--prompt-file");

    if (text && size > PROMPT_FILE_MAX)
        rc = mg_error_set (err, EFBIG, "%s: more than %d bytes", job->options.prompt_file,
                           PROMPT_FILE_MAX);
    for (; rc == 0 && at < end; number++) {
        const char *newline = memchr (at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) : (size_t)(end - at);

        if (strspn (at, " \t\r") < n)
            rc = add_line (job, at, n, number, err);
        at += n + (newline != NULL);
    }
    free (text);
    return rc;
}

int generate_prompts (struct generate_job *job, struct mg_error *err)
{
    const struct generate_options *o = &job->options;

    for (int i = 0; i < o->prompts.n; i++) {
        if (generate_add_text (job, o->prompts.word[i], strlen (o->prompts.word[i]), err) < 0)
            return -1;
    }
    for (int i = 0; i < o->prompt_tokens.n; i++) {
        if (add_ids (job, o->prompt_tokens.word[i], err) < 0)
            return -1;
    }
    return o->prompt_file ? read_file (job, err) : 0;
}

void generate_clear_texts (struct generate_job *job)
{
    for (size_t i = 0; i < job->num_texts; i++) {
        struct generate_text *t = &job->text[i];

        text_buffer_clear (&t->prompt);
        text_buffer_clear (&t->text);
        free (t->tokens.ids);
        free (t->log_prob);
        free (t->top_ids);
        free (t->top_log_probs);
    }
    free (job->text);
    job->text = NULL;
    job->num_texts = job->printed = 0;
}
