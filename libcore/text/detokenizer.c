/* detokenizer.c - replacements of strings and of what stands in brackets
 *
 * The order of the steps decides the result: a step works on the text that the step before made.
 */

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "libcore/text/detokenizer.h"
#include "libcore/text/utf8.h"

/* Replaces each 'from' by 'to', or, if 'from' is NULL, removes the white space inside each pair of
 * the characters 'open' and 'close'.
 */
struct step {
    const char *from, *to;
    char open, close;
};

/* Python's pattern "/' [0-9]/" has slashes in it, which are ordinary characters, and so has the
 * replacement its brackets.  Texts do not have such strings, yet the step is Megatron-LM's.
 */
#define SLASHES "/' [0-9]/"

static const struct step wiki[] = {
    { .from = "s '", .to = "s'" },
    { .from = SLASHES, .to = "/'[0-9]/" },
    { .from = " @-@ ", .to = "-" },
    { .from = " @,@ ", .to = "," },
    { .from = " @.@ ", .to = "." },
    { .from = " : ", .to = ": " },
    { .from = " ; ", .to = "; " },
    { .from = " . ", .to = ". " },
    { .from = " ! ", .to = "! " },
    { .from = " ? ", .to = "? " },
    { .from = " , ", .to = ", " },
    { .open = '(', .close = ')' },
    { .open = '[', .close = ']' },
    { .open = '{', .close = '}' },
    { .open = '"', .close = '"' },
    { .open = '\'', .close = '\'' },
    { .from = "= = = =", .to = "====" },
    { .from = "= = =", .to = "===" },
    { .from = "= =", .to = "==" },
    { .from = " \xc2\xb0 ", .to = "\xc2\xb0" }, // the sign of degrees
    { .from = " \n", .to = "\n" },
    { .from = "\n ", .to = "\n" },
    { .from = " N ", .to = " 1 " },
    { .from = " 's", .to = "'s" },
};

static const struct step ptb[] = {
    { .from = " '", .to = "'" },
    { .from = " \n", .to = "\n" },
    { .from = "\n ", .to = "\n" },
    { .from = " n't", .to = "n't" },
    { .from = " N ", .to = "1 " },
    { .from = "$ 1", .to = "$1" },
    { .from = "# 1", .to = "#1" },
};

static bool is_space (const char *p)
{
    size_t size;
    uint32_t c = utf8_decode (p, &size);

    return utf8_is_space (c) || (c >= 0x1c && c <= 0x1f);
}

size_t detokenizer_strip (const char *text, size_t *size)
{
    size_t from = 0, to = *size, step;

    while (from < to && is_space (text + from)) {
        utf8_decode (text + from, &step);
        from += step;
    }
    while (to > from && is_space (text + utf8_previous (text, to)))
        to = utf8_previous (text, to);
    *size = to - from;
    return from;
}

size_t detokenizer_last_word (const char *text, size_t size)
{
    size_t at = size;

    while (at > 0 && !is_space (text + utf8_previous (text, at)))
        at = utf8_previous (text, at);
    return at;
}

int64_t detokenizer_words (const char *text, size_t size)
{
    size_t from = detokenizer_strip (text, &size);
    int64_t words = 1;

    for (size_t i = 0; i < size; i++)
        words += text[from + i] == ' ';
    return words;
}

/* Returns the place of the next string to be replaced, or NULL. */
static const char *find (const struct step *s, const char *at, const char *end, size_t *size)
{
    *size = strlen (s->from);
    if (strcmp (s->from, SLASHES) != 0)
        return memmem (at, (size_t)(end - at), s->from, *size);
    *size = strlen ("/' 0/");
    while ((at = memmem (at, (size_t)(end - at), "/' ", 3))) {
        if ((size_t)(end - at) >= *size && at[3] >= '0' && at[3] <= '9' && at[4] == '/')
            return at;
        at++;
    }
    return NULL;
}

static int replace (const struct step *s, const struct text_buffer *in, struct text_buffer *out,
                    struct mg_error *err)
{
    const char *at = in->data, *end = at + in->size, *found;
    size_t size;

    while (at < end && (found = find (s, at, end, &size))) {
        if (text_buffer_append (out, at, (size_t)(found - at), err) < 0
            || text_buffer_append (out, s->to, strlen (s->to), err) < 0)
            return -1;
        at = found + size;
    }
    return text_buffer_append (out, at, (size_t)(end - at), err);
}

/* A pair ends with the first character that closes it, whatever opens in between. */
static int tighten (const struct step *s, const struct text_buffer *in, struct text_buffer *out,
                    struct mg_error *err)
{
    const char *at = in->data, *end = at + in->size, *open, *close;

    while ((open = memchr (at, s->open, (size_t)(end - at)))
           && (close = memchr (open + 1, s->close, (size_t)(end - open - 1)))) {
        size_t size = (size_t)(close - open - 1), skip = detokenizer_strip (open + 1, &size);

        if (text_buffer_append (out, at, (size_t)(open + 1 - at), err) < 0
            || text_buffer_append (out, open + 1 + skip, size, err) < 0
            || text_buffer_append (out, close, 1, err) < 0)
            return -1;
        at = close + 1;
    }
    return text_buffer_append (out, at, (size_t)(end - at), err);
}

/* Make the steps; two buffers take turns. */
static int run_steps (const struct step *step, size_t n, struct text_buffer *text,
                      struct mg_error *err)
{
    struct text_buffer other = { 0 };
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0 && text->size > 0; i++) {
        struct text_buffer before = *text;

        *text = other;
        text->size = 0;
        rc = step[i].from ? replace (&step[i], &before, text, err)
                          : tighten (&step[i], &before, text, err);
        other = before;
    }
    text_buffer_clear (&other);
    return rc;
}

int detokenizer_run (enum detokenizer kind, const char *text, size_t size,
                     struct text_buffer *out, struct mg_error *err)
{
    size_t stray = kind == DETOKENIZER_NONE ? size : utf8_find_stray (text, size, 0);

    if (stray < size)
        return mg_error_set (err, EINVAL, "byte %zu is not UTF-8", stray);
    out->size = 0;
    if (text_buffer_append (out, text, size, err) < 0)
        return -1;
    if (kind == DETOKENIZER_WIKI)
        return run_steps (wiki, sizeof (wiki) / sizeof (wiki[0]), out, err);
    if (kind == DETOKENIZER_PTB)
        return run_steps (ptb, sizeof (ptb) / sizeof (ptb[0]), out, err);
    return 0;
}
