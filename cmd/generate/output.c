/* output.c - tokens as they come, stop strings, and what is printed */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "cmd/generate/generate.h"
#include "libcore/infer/stop_text.h"
#include "libcore/text/utf8.h"

/* --- tokens --- */

int generate_append (const struct generate_job *job, struct text_buffer *to, int32_t id,
                     struct mg_error *err)
{
    const struct tokenizer *tokenizer = job->use.tokens.tokenizer;
    const char *bytes;
    size_t size;

    if (!tokenizer || id >= tokenizer_vocab_size (tokenizer))
        return 0;
    bytes = tokenizer_token (tokenizer, id, &size);
    return size > 0 ? text_buffer_append (to, bytes, size, err) : 0;
}

static bool is_termination (const struct generate_job *job, int32_t id)
{
    const struct token_buffer *ends = generate_terminations (job);

    for (size_t i = 0; !job->options.ignore_eos && i < ends->count; i++) {
        if (ends->ids[i] == id)
            return true;
    }
    return false;
}

/* Put what is known of a token into the lists. */
static void note (struct generate_text *t, const struct generator_token *token)
{
    size_t at = (size_t)token->position;

    t->log_prob[at] = token->log_prob;
    for (int k = 0; k < token->top; k++) {
        t->top_ids[at * (size_t)token->top + (size_t)k] = token->top_ids[k];
        t->top_log_probs[at * (size_t)token->top + (size_t)k] = token->top_log_probs[k];
    }
}

bool generate_token (void *arg, const struct generator_token *token)
{
    struct generate_text *t = arg;
    const struct generate_options *o = &t->of->options;

    note (t, token);
    if (token->prompt)
        return false;
    if (is_termination (t->of, token->id))
        return t->stopped = true;
    t->tokens.ids[t->tokens.count++] = token->id;
    if (generate_append (t->of, &t->text, token->id, NULL) < 0)
        return t->lost = true;
    return t->stopped = o->num_stops > 0
                        && stop_text_cut (&t->text, &t->searched, o->stops, o->num_stops);
}

/* --- lines --- */

static json_t *json_text (const struct text_buffer *text, struct mg_error *err)
{
    struct text_buffer valid = { 0 };
    json_t *value = NULL;

    if (utf8_append_valid (&valid, text->data, text->size, err) == 0)
        value = json_stringn (valid.size > 0 ? valid.data : "", valid.size);
    text_buffer_clear (&valid);
    return value;
}

static json_t *json_ids (const int32_t *ids, size_t n)
{
    json_t *list = json_array ();

    for (size_t i = 0; i < n; i++)
        json_array_append_new (list, json_integer (ids[i]));
    return list;
}

static json_t *json_numbers (const double *numbers, size_t n)
{
    json_t *list = json_array ();

    for (size_t i = 0; i < n; i++)
        json_array_append_new (list, json_real (numbers[i]));
    return list;
}

/* For each token a list of [id, log probability]. */
static json_t *json_tops (const struct generate_text *t, size_t first, size_t n, size_t top)
{
    json_t *list = json_array ();

    for (size_t i = first; i < first + n; i++) {
        json_t *tokens = json_array ();

        for (size_t k = i * top; k < (i + 1) * top; k++)
            json_array_append_new (tokens, json_pack ("[i,f]", (int)t->top_ids[k],
                                                      t->top_log_probs[k]));
        json_array_append_new (list, tokens);
    }
    return list;
}

/* The prompt as a text, by its tokens if it was given as such. */
static json_t *json_prompt (struct generate_job *job, const struct generate_text *t,
                            struct mg_error *err)
{
    struct text_buffer text = { 0 };
    json_t *value = NULL;
    int rc = 0;

    if (t->has_prompt)
        return json_text (&t->prompt, err);
    if (!job->use.tokens.tokenizer)
        return json_null ();
    for (size_t i = 0; rc == 0 && i < t->num_prompt; i++)
        rc = generate_append (job, &text, t->tokens.ids[i], err);
    if (rc == 0)
        value = json_text (&text, err);
    text_buffer_clear (&text);
    return value;
}

static int print_json (struct generate_job *job, size_t i, struct mg_error *err)
{
    const struct generate_text *t = &job->text[i];
    size_t n = t->num_prompt, more = t->tokens.count - n, top = (size_t)job->options.top;
    json_t *line = json_object ();
    int rc;

    json_object_set_new (line, "index", json_integer ((json_int_t)i));
    json_object_set_new (line, "prompt", json_prompt (job, t, err));
    json_object_set_new (line, "prompt_tokens", json_ids (t->tokens.ids, n));
    json_object_set_new (line, "text", job->use.tokens.tokenizer ? json_text (&t->text, err)
                                                                 : json_null ());
    json_object_set_new (line, "tokens", json_ids (t->tokens.ids + n, more));
    if (job->options.log_probs) {
        json_object_set_new (line, "log_probs", json_numbers (t->log_prob + n, more));
        json_object_set_new (line, "prompt_log_probs", json_numbers (t->log_prob + 1, n - 1));
    }
    if (top > 0) {
        json_object_set_new (line, "top_log_probs", json_tops (t, n, more, top));
        if (job->options.log_probs)
            json_object_set_new (line, "prompt_top_log_probs", json_tops (t, 1, n - 1, top));
    }
    rc = json_object_set_new (line, "finish_reason", json_string (t->stopped ? "stop" : "length"));
    if (rc == 0)
        rc = json_dumpf (line, stdout, JSON_COMPACT);
    json_decref (line);
    putchar ('\n');
    return rc < 0 ? mg_error_set (err, ENOMEM, "prompt %zu: out of memory", i) : 0;
}

static int print_plain (struct generate_job *job, size_t i, struct mg_error *err)
{
    const struct generate_text *t = &job->text[i];
    struct text_buffer valid = { 0 };
    double sum = 0;

    if (job->use.tokens.tokenizer) {
        if (utf8_append_valid (&valid, t->text.data, t->text.size, err) < 0)
            return -1;
        fwrite (valid.data ? valid.data : "", 1, valid.size, stdout);
        text_buffer_clear (&valid);
    } else {
        for (size_t k = t->num_prompt; k < t->tokens.count; k++)
            printf ("%s%d", k > t->num_prompt ? " " : "", (int)t->tokens.ids[k]);
    }
    putchar ('\n');
    if (!job->options.log_probs)
        return 0;
    for (size_t k = 1; k < t->num_prompt; k++)
        sum += t->log_prob[k];
    printf ("prompt %zu: %zu tokens, log probability of all but the first %.6f\n", i,
            t->num_prompt, sum);
    return 0;
}

int generate_print (struct generate_job *job, struct mg_error *err)
{
    for (; job->printed < job->num_texts && job->text[job->printed].done; job->printed++) {
        if (job->text[job->printed].lost)
            return mg_error_set (err, ENOMEM, "prompt %zu: out of memory", job->printed);
        if (job_rank (job->use.infer.session.job) != 0)
            continue;
        if ((job->options.json ? print_json : print_plain) (job, job->printed, err) < 0)
            return -1;
        fflush (stdout);
    }
    return 0;
}
