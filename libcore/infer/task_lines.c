/* task_lines.c - lines of JSON as samples */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/infer/model_tokens.h"
#include "libcore/infer/task_private.h"
#include "libcore/text/detokenizer.h"
#include "libcore/text/json_text.h"

/* A line that is being read. */
struct line {
    struct task *task;
    struct tokenizer *tokenizer;
    const json_t *value;
    size_t begin; /* tokens of the lines before */
};

static int append_text (const struct line *l, const char *text, size_t size, struct mg_error *err)
{
    if (!l->tokenizer)
        return mg_error_set (err, EINVAL, "a text, and there is no tokenizer: want "
                             "--tokenizer-type, tokenizer.json beside the weights, or tokens");
    return size > 0 ? tokenizer_encode (l->tokenizer, text, size, &l->task->tokens, err) : 0;
}

static int begin (struct line *l, struct mg_error *err)
{
    struct token_buffer *tokens = &l->task->tokens;

    l->begin = tokens->count;
    if (!l->task->config.add_bos)
        return 0;
    if (token_buffer_reserve (tokens, 1, err) < 0)
        return -1;
    tokens->ids[tokens->count++] = l->task->config.bos;
    return 0;
}

/* The tokens of the line are a sample, whose last 'labels' tokens count. */
static int complete (const struct line *l, size_t labels, struct mg_error *err)
{
    struct task *t = l->task;
    size_t count = t->tokens.count - l->begin;

    if (labels == 0)
        return mg_error_set (err, EINVAL, "no token is to be predicted");
    if (count == labels)
        return mg_error_set (err, EINVAL, "no token is before the first one that is to be "
                             "predicted: want --add-bos");
    if (count > (size_t)t->config.seq_length + 1)
        return mg_error_set (err, EINVAL, "%zu tokens, want one more than the sequence length %d "
                             "at most", count, t->config.seq_length);
    return task_add_sample (t, count, count - 1 - labels, err);
}

/* --- LAMBADA --- */

/* The context without the white space around it, then a blank and the last word, each by itself. */
static int add_strict (struct line *l, const char *text, size_t size, struct mg_error *err)
{
    struct text_buffer word = { 0 };
    size_t from = detokenizer_strip (text, &size), last, context, before, skip;
    int rc;

    if (size == 0)
        return mg_error_set (err, EINVAL, "the text has no word");
    text += from;
    last = context = detokenizer_last_word (text, size);
    skip = detokenizer_strip (text, &context);
    if (append_text (l, text + skip, context, err) < 0)
        return -1;
    before = l->task->tokens.count;
    rc = text_buffer_append (&word, " ", 1, err) < 0
                 || text_buffer_append (&word, text + last, size - last, err) < 0
             ? -1 : append_text (l, word.data, word.size, err);
    text_buffer_clear (&word);
    return rc < 0 ? -1 : complete (l, l->task->tokens.count - before, err);
}

static int add_lambada (struct line *l, struct mg_error *err)
{
    const json_t *text = json_object_get (l->value, "text");
    const json_t *tokens = json_object_get (l->value, "tokens");
    const json_t *labels = json_object_get (l->value, "labels");
    struct token_buffer *ids = &l->task->tokens;

    if (begin (l, err) < 0)
        return -1;
    if (json_is_array (tokens) && json_is_array (labels) && !text)
        return model_tokens_append (tokens, "\"tokens\"", ids, err) < 0
                       || model_tokens_append (labels, "\"labels\"", ids, err) < 0
                   ? -1 : complete (l, json_array_size (labels), err);
    if (!json_is_string (text) || tokens || labels)
        return mg_error_set (err, EINVAL, "want an object with \"text\", a string, or \"tokens\" "
                             "and \"labels\", lists of ids");
    if (l->task->config.strict)
        return add_strict (l, json_string_value (text), json_string_length (text), err);
    if (append_text (l, json_string_value (text), json_string_length (text), err) < 0)
        return -1;
    return complete (l, ids->count > l->begin, err);
}

/* --- HELLASWAG --- */

/* Read the number of the right ending, which some files have as a string. */
static int read_label (const json_t *label, size_t endings, struct mg_error *err)
{
    const char *text = json_string_value (label);
    json_int_t right = json_is_integer (label) ? json_integer_value (label) : -1;

    if (text && strlen (text) == 1 && *text >= '0' && *text <= '9')
        right = *text - '0';
    if (right < 0 || (size_t)right >= endings)
        return mg_error_set (err, EINVAL, "\"label\": want the number of an ending, 0 to %zu",
                             endings - 1);
    return (int)right;
}

static int64_t count_characters (const char *text, size_t size)
{
    int64_t n = 0;

    for (size_t i = 0; i < size; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* As lm-evaluation-harness cuts them: context and ending are encoded together, and the tokens
 * behind as many as the context alone has are those of the ending.  Blanks at the end of the
 * context belong to the ending.
 */
static int add_ending (struct line *l, const json_t *context, const json_t *ending,
                       struct mg_error *err)
{
    const char *text = json_string_value (context);
    size_t size = json_string_length (context), cut = size, skip = detokenizer_strip (text, &cut);
    struct token_buffer *tokens = &l->task->tokens;
    struct text_buffer whole = { 0 };
    size_t alone;
    int rc;

    if (begin (l, err) < 0 || append_text (l, text, skip + cut, err) < 0)
        return -1;
    alone = tokens->count;
    tokens->count = l->begin;
    rc = begin (l, err) < 0 || text_buffer_append (&whole, text, size, err) < 0
                 || text_buffer_append (&whole, " ", 1, err) < 0
                 || text_buffer_append (&whole, json_string_value (ending),
                                        json_string_length (ending), err) < 0
             ? -1 : append_text (l, whole.data, whole.size, err);
    text_buffer_clear (&whole);
    if (rc < 0 || complete (l, tokens->count > alone ? tokens->count - alone : 0, err) < 0)
        return -1;
    l->task->sample[l->task->num_samples - 1].characters
        = count_characters (json_string_value (ending), json_string_length (ending));
    return 0;
}

static int add_question (struct task *t, int endings, int right, struct mg_error *err)
{
    size_t n = (size_t)t->num_questions + 1;
    struct task_question *more = realloc (t->question, n * sizeof (*more));

    if (!more)
        return mg_error_set (err, ENOMEM, "out of memory for %zu questions", n);
    t->question = more;
    t->question[t->num_questions++] = (struct task_question){ t->num_samples, endings, right };
    return 0;
}

static int add_hellaswag (struct line *l, struct mg_error *err)
{
    const json_t *context = json_object_get (l->value, "ctx");
    const json_t *endings = json_object_get (l->value, "endings"), *ending;
    size_t n = json_array_size (endings), i;
    int right;

    if (!json_is_string (context) || n < 2 || n > 1000)
        return mg_error_set (err, EINVAL, "want an object with \"ctx\", a string, \"endings\", a "
                             "list of 2 to 1000 strings, and \"label\"");
    if ((right = read_label (json_object_get (l->value, "label"), n, err)) < 0
        || add_question (l->task, (int)n, right, err) < 0)
        return -1;
    json_array_foreach (endings, i, ending) {
        if (!json_is_string (ending) || json_string_length (ending) == 0)
            return mg_error_set (err, EINVAL, "ending %zu: want a string that is not empty", i);
        if (add_ending (l, context, ending, err) < 0)
            return mg_error_prefix (err, "ending %zu", i);
    }
    return 0;
}

/* --- lines --- */

static int add_line (struct task *t, struct tokenizer *tokenizer, const char *text, size_t size,
                     struct mg_error *err)
{
    struct json_text_fault fault;
    json_t *value = json_text_parse (text, size, 0, &fault);
    struct line line = { .task = t, .tokenizer = tokenizer, .value = value };
    int rc;

    if (!value)
        return mg_error_set (err, EINVAL, "%s", fault.what);
    rc = t->config.kind == TASK_LAMBADA ? add_lambada (&line, err) : add_hellaswag (&line, err);
    json_decref (value);
    return rc;
}

int task_add_lines (struct task *t, struct tokenizer *tokenizer, const char *text, size_t size,
                    struct mg_error *err)
{
    const char *at = text, *end = text + size;

    for (size_t number = 1; at < end; number++) {
        const char *newline = memchr (at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) : (size_t)(end - at), blank = 0;

        while (blank < n && memchr (" \t\r", at[blank], 3))
            blank++;
        if (blank < n && add_line (t, tokenizer, at, n, err) < 0)
            return mg_error_prefix (err, "line %zu", number);
        at += n + (newline != NULL);
    }
    return 0;
}
