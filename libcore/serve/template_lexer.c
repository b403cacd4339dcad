/* template_lexer.c - texts between tags, trimmed as Jinja does, and the tokens of tags */

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "libcore/serve/template_lexer.h"
#include "libcore/text/utf8.h"

struct lexer {
    struct tpl_tokens *to;
    struct tpl_text s;
    size_t at;
    int line;
    bool line_starts; /* the last tag took the end of its line */
    struct tpl_arena *arena;
    struct mg_error *err;
};

static int wrong (struct lexer *l, const char *what)
{
    return mg_error_set (l->err, EINVAL, "line %d: %s", l->line, what);
}

static bool looking_at (const struct lexer *l, const char *text)
{
    size_t n = strlen (text);

    return l->s.size - l->at >= n && memcmp (l->s.data + l->at, text, n) == 0;
}

static void advance (struct lexer *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        l->line += l->s.data[l->at + i] == '\n';
    l->at += n;
}

static struct tpl_token *add (struct lexer *l, enum tpl_token_kind kind, const char *data,
                              size_t size)
{
    struct tpl_tokens *t = l->to;

    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        struct tpl_token *more = realloc (t->token, capacity * sizeof (*more));

        if (!more) {
            mg_error_set (l->err, ENOMEM, "no memory for a template");
            return NULL;
        }
        t->token = more;
        t->capacity = capacity;
    }
    t->token[t->count] = (struct tpl_token){ kind, l->line, { data, size }, 0, 0 };
    return &t->token[t->count++];
}

/* --- texts --- */

static size_t skip_spaces (const struct lexer *l, size_t at)
{
    while (at < l->s.size) {
        size_t n;

        if (!tpl_is_space (utf8_decode (l->s.data + at, &n)))
            break;
        at += n;
    }
    return at;
}

/* The size of a text without blanks at its end; 'from' is where the blanks may begin. */
static size_t trimmed (const char *text, size_t size, size_t from)
{
    while (size > from) {
        size_t n, before = utf8_previous (text, size);

        if (!tpl_is_space (utf8_decode (text + before, &n)))
            break;
        size = before;
    }
    return size;
}

/* The size of the text in front of a tag without the blanks that its line begins with. */
static size_t lstripped (const struct lexer *l, const char *text, size_t size)
{
    size_t from = size;

    while (from > 0 && text[from - 1] != '\n')
        from--;
    if (from == 0 && !l->line_starts)
        return size;
    return trimmed (text, size, from) == from ? from : size;
}

/* Offset of the next "{{", "{%" or "{#", or the end. */
static size_t next_tag (const struct lexer *l)
{
    for (size_t i = l->at; i + 1 < l->s.size; i++)
        if (l->s.data[i] == '{' && strchr ("{%#", l->s.data[i + 1]) && l->s.data[i + 1])
            return i;
    return l->s.size;
}

static int lex_text (struct lexer *l)
{
    const char *text = l->s.data + l->at;
    size_t end = next_tag (l), size = end - l->at, keep = size;
    char sign = end + 2 < l->s.size ? l->s.data[end + 2] : 0;

    if (end < l->s.size && sign == '-')
        keep = trimmed (text, size, 0);
    else if (end < l->s.size && sign != '+' && l->s.data[end + 1] != '{')
        keep = lstripped (l, text, size);
    if (keep && !add (l, TPL_TOKEN_TEXT, text, keep))
        return -1;
    advance (l, size);
    return 0;
}

/* Pass the end of a tag, of two characters, and what it trims. */
static void pass_end (struct lexer *l, bool signs, bool newline)
{
    bool trims = l->s.data[l->at] == '-';
    size_t end;

    if (trims || (signs && l->s.data[l->at] == '+')) {
        end = l->at + 3;
        newline = false;
    } else
        end = l->at + 2;
    if (trims)
        end = skip_spaces (l, end);
    else if (newline && end < l->s.size && l->s.data[end] == '\n')
        end++;
    l->line_starts = l->s.data[end - 1] == '\n';
    advance (l, end - l->at);
}

static int lex_comment (struct lexer *l)
{
    size_t at = l->at + 2;

    if (at < l->s.size && (l->s.data[at] == '-' || l->s.data[at] == '+'))
        at++;
    for (size_t i = at; i + 1 < l->s.size; i++)
        if (l->s.data[i] == '#' && l->s.data[i + 1] == '}') {
            bool sign = i > at && (l->s.data[i - 1] == '-' || l->s.data[i - 1] == '+');

            advance (l, i - sign - l->at);
            pass_end (l, true, true);
            return 0;
        }
    return wrong (l, "the comment does not end");
}

/* --- tokens of tags --- */

static int lex_name (struct lexer *l)
{
    size_t n = 0;

    while (l->at + n < l->s.size
           && (isalnum ((unsigned char)l->s.data[l->at + n]) || l->s.data[l->at + n] == '_'))
        n++;
    if (!add (l, TPL_TOKEN_NAME, l->s.data + l->at, n))
        return -1;
    l->at += n;
    return 0;
}

static size_t digits (const struct lexer *l, size_t at)
{
    size_t n = 0;

    while (at + n < l->s.size && isdigit ((unsigned char)l->s.data[at + n]))
        n++;
    return n;
}

/* Bytes of a fraction and an exponent at 'at'. */
static size_t float_part (const struct lexer *l, size_t at)
{
    size_t end = at, exponent;

    if (end < l->s.size && l->s.data[end] == '.' && digits (l, end + 1))
        end += 1 + digits (l, end + 1);
    if (end < l->s.size && (l->s.data[end] == 'e' || l->s.data[end] == 'E')) {
        exponent = end + 1;
        if (exponent < l->s.size && (l->s.data[exponent] == '+' || l->s.data[exponent] == '-'))
            exponent++;
        if (digits (l, exponent))
            end = exponent + digits (l, exponent);
    }
    return end - at;
}

static int lex_number (struct lexer *l)
{
    size_t n = digits (l, l->at), more = float_part (l, l->at + n);
    const char *text = l->s.data + l->at;
    char copy[64];
    struct tpl_token *t;

    if (n + more >= sizeof (copy) || (n > 1 && text[0] == '0' && !more)
        || (n + more < l->s.size - l->at
            && (isalpha ((unsigned char)text[n + more]) || text[n + more] == '_')))
        return wrong (l, "a number in a form that is not supported");
    memcpy (copy, text, n + more);
    copy[n + more] = '\0';
    t = add (l, more ? TPL_TOKEN_FLOAT : TPL_TOKEN_INT, text, n + more);
    if (!t)
        return -1;
    errno = 0;
    if (more)
        t->number = strtod (copy, NULL);
    else
        t->integer = strtoll (copy, NULL, 10);
    if (!more && errno)
        return wrong (l, "an integer beyond 64 bits");
    l->at += n + more;
    return 0;
}

/* The value of 'n' hexadecimal digits, or -1. */
static int64_t hex (struct tpl_text t, size_t at, int n)
{
    int64_t value = 0;

    for (int i = 0; i < n; i++, at++) {
        if (at >= t.size || !isxdigit ((unsigned char)t.data[at]))
            return -1;
        value = value * 16 + (isdigit ((unsigned char)t.data[at]) ? t.data[at] - '0'
                              : (t.data[at] | 32) - 'a' + 10);
    }
    return value;
}

/* A character that is written as a number: \x41, \u00e9, \U0001f600, \101. Returns the bytes of
 * the escape behind the backslash, or 0. */
static size_t numeric_escape (struct tpl_text t, size_t at, int64_t *value)
{
    int n = t.data[at] == 'x' ? 2 : t.data[at] == 'u' ? 4 : t.data[at] == 'U' ? 8 : 0;
    size_t octal = 0;

    if (n) {
        *value = hex (t, at + 1, n);
        return *value < 0 ? 0 : (size_t)n + 1;
    }
    *value = 0;
    while (octal < 3 && at + octal < t.size && t.data[at + octal] >= '0'
           && t.data[at + octal] <= '7')
        *value = *value * 8 + t.data[at + octal++] - '0';
    return octal;
}

/* Write the escape whose character behind the backslash is at 'at'. Returns bytes read, or 0. */
static size_t escape (struct lexer *l, struct tpl_text t, size_t at, char *to, size_t *size)
{
    static const char from[] = "nrtabfv\\'\"", value[] = "\n\r\t\a\b\f\v\\'\"";
    const char *known = t.data[at] ? strchr (from, t.data[at]) : NULL;
    int64_t c = 0;
    size_t n;

    if (known) {
        to[(*size)++] = value[known - from];
        return 1;
    }
    if (t.data[at] == '\n')
        return 1;
    n = numeric_escape (t, at, &c);
    if (n && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff)) {
        *size += utf8_encode ((uint32_t)c, to + *size);
        return n;
    }
    if (n || strchr ("xuUN", t.data[at])) {
        wrong (l, "an escape in a string that is not supported");
        return 0;
    }
    to[(*size)++] = '\\';
    return (size_t)-1;
}

static int unescape (struct lexer *l, struct tpl_token *token)
{
    struct tpl_text t = token->text;
    size_t size = 0, n;
    char *to;

    if (!memchr (t.data, '\\', t.size))
        return 0;
    to = tpl_arena_take (l->arena, 2 * t.size + UTF8_MAX, l->err);
    if (!to)
        return -1;
    for (size_t i = 0; i < t.size;) {
        if (t.data[i] != '\\') {
            to[size++] = t.data[i++];
            continue;
        }
        n = escape (l, t, i + 1, to, &size);
        if (n == 0)
            return -1;
        i += n == (size_t)-1 ? 1 : n + 1;
    }
    token->text = (struct tpl_text){ to, size };
    return 0;
}

static int lex_string (struct lexer *l)
{
    char quote = l->s.data[l->at];
    size_t n = 1;
    struct tpl_token *t;

    while (l->at + n < l->s.size && l->s.data[l->at + n] != quote)
        n += l->s.data[l->at + n] == '\\' ? 2 : 1;
    if (l->at + n >= l->s.size)
        return wrong (l, "the string does not end");
    t = add (l, TPL_TOKEN_STRING, l->s.data + l->at + 1, n - 1);
    if (!t || unescape (l, t) < 0)
        return -1;
    advance (l, n + 1);
    return 0;
}

static int lex_operator (struct lexer *l)
{
    static const char *const operators[] = { "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*",
                                             "%",  "~",  "[",  "]",  "(",  ")",  "{", "}", ">", "<",
                                             "=",  ".",  ":",  "|",  "," };

    for (size_t i = 0; i < sizeof (operators) / sizeof (operators[0]); i++)
        if (looking_at (l, operators[i])) {
            if (!add (l, TPL_TOKEN_OPERATOR, operators[i], strlen (operators[i])))
                return -1;
            l->at += strlen (operators[i]);
            return 0;
        }
    return wrong (l, "a character that does not belong there");
}

static int lex_token (struct lexer *l)
{
    unsigned char c = (unsigned char)l->s.data[l->at];

    if (isdigit (c))
        return lex_number (l);
    if (isalpha (c) || c == '_')
        return lex_name (l);
    if (c == '\'' || c == '"')
        return lex_string (l);
    return lex_operator (l);
}

/* True if the tag ends here. */
static bool ends (const struct lexer *l, bool output)
{
    if (output)
        return looking_at (l, "}}") || looking_at (l, "-}}");
    return looking_at (l, "%}") || looking_at (l, "-%}") || looking_at (l, "+%}");
}

/* Changes of the number of open brackets by the last token. */
static int brackets (const struct tpl_token *t)
{
    if (t->kind != TPL_TOKEN_OPERATOR || t->text.size != 1)
        return 0;
    return strchr ("([{", t->text.data[0]) ? 1 : strchr (")]}", t->text.data[0]) ? -1 : 0;
}

static int lex_tag (struct lexer *l, bool output)
{
    int open = 0, begins = l->line;

    if (!add (l, output ? TPL_TOKEN_OUTPUT : TPL_TOKEN_TAG, l->s.data + l->at, 2))
        return -1;
    l->at += 2;
    if (l->at < l->s.size && (l->s.data[l->at] == '-' || l->s.data[l->at] == '+'))
        l->at++;
    for (;;) {
        advance (l, skip_spaces (l, l->at) - l->at);
        if (l->at >= l->s.size) {
            l->line = begins;
            return wrong (l, output ? "{{ does not end" : "{% does not end");
        }
        if (open == 0 && ends (l, output))
            break;
        if (lex_token (l) < 0)
            return -1;
        open += brackets (&l->to->token[l->to->count - 1]);
        if (open < 0)
            return wrong (l, "a bracket that was not opened");
    }
    if (!add (l, output ? TPL_TOKEN_OUTPUT_END : TPL_TOKEN_TAG_END, l->s.data + l->at, 2))
        return -1;
    pass_end (l, !output, !output);
    return 0;
}

int tpl_lex (struct tpl_tokens *to, struct tpl_text source, struct tpl_arena *arena,
             struct mg_error *err)
{
    struct lexer l = { .to = to, .s = source, .line = 1, .line_starts = true, .arena = arena,
                       .err = err };

    while (l.at < source.size) {
        int rc;

        if (lex_text (&l) < 0)
            return -1;
        if (l.at >= source.size)
            break;
        rc = looking_at (&l, "{#") ? lex_comment (&l) : lex_tag (&l, looking_at (&l, "{{"));
        if (rc < 0)
            return -1;
    }
    return add (&l, TPL_TOKEN_END, "", 0) ? 0 : -1;
}

void tpl_tokens_clear (struct tpl_tokens *t)
{
    free (t->token);
    *t = (struct tpl_tokens){ .token = NULL };
}
