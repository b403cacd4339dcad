/* regex - from Oniguruma's syntax to PCRE2's, and matches
 *
 * A text that ends with a stray byte or has some inside is no valid UTF-8 for PCRE2, which
 * is told not to check: a surrogate has the form of a character of three bytes, and PCRE2
 * decodes it as one.
 */

#define PCRE2_CODE_UNIT_WIDTH 8

#include <errno.h>
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "libcore/text/json_text.h"
#include "libcore/text/regex.h"
#include "libcore/text/text_buffer.h"
#include "libcore/text/utf8.h"

enum { PATTERN_MAX = 1 << 16, CLASS_DEPTH = 16 };

/* Bytes and steps that a search has for free, and those that all searches of a text have. */
enum {
    WINDOW = 4096,          /* bytes */
    STEPS = 4096,           /* of PCRE2 */
    WIDEN = 4,              /* how much more it may each time that this was too little */
    WINDOW_COST = 8,        /* bytes that cost as much as a step */
    BUDGET_MIN = 1 << 25,   /* steps */
    BUDGET_BYTE = 500,      /* steps for each byte of the text */
    HEAP_KIB = 1 << 20,
    STACK_MIN = 1 << 15, STACK_MAX = 1 << 23 /* bytes, taken as they are used */
};

struct regex {
    pcre2_code *code;
    bool jit;
};

struct regex_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL: PCRE2's own, of 32 KiB */
    uint64_t budget; /* steps that are left for the text */
};

struct translation {
    const char *text;
    size_t size, at;
    int depth;     /* groups that are open */
    int fold_from; /* the outermost of these that has the option i, 0: none */
    bool fold;     /* the whole has the option i */
    int classes;   /* that are open */
    struct text_buffer to;
};

/* Oniguruma's \w, which outside of a class has some superscripts and fractions too. */
#define WORD "[" REGEX_LETTERS "\\xb2\\xb3\\xb9\\xbc-\\xbe]"
#define NO_WORD "[^" REGEX_LETTERS "\\xb2\\xb3\\xb9\\xbc-\\xbe]"

/* An escape, and what is written for it outside of a class and inside. NULL: refused. */
static const struct escape {
    char letter;
    const char *outside, *inside;
} escapes[] = {
    { 's', "[" UTF8_SPACES "]", UTF8_SPACES },
    { 'S', "[^" UTF8_SPACES "]", NULL }, /* inside: see 'others' of struct operand */
    { 'w', WORD, REGEX_LETTERS },
    { 'W', NO_WORD, NULL },
    { 'b', "(?:(?<=" WORD ")(?!" WORD ")|(?<!" WORD ")(?=" WORD "))", "\\x08" },
    { 'B', "(?:(?<=" WORD ")(?=" WORD ")|(?<!" WORD ")(?!" WORD "))", NULL },
    { 'v', "\\x0b", "\\x0b" },
    { 'd', "\\p{Nd}", "\\p{Nd}" },
    { 'D', "\\P{Nd}", "\\P{Nd}" },
    { 'h', "[0-9A-Fa-f]", "0-9A-Fa-f" },
    { 'H', "[^0-9A-Fa-f]", NULL },
    { 'G', NULL, NULL },
    { 'Q', NULL, NULL },
    { 'E', NULL, NULL },
    { 'C', NULL, NULL },
    { 'N', NULL, NULL },
    { 'y', NULL, NULL },
    { 'Y', NULL, NULL },
    { '\0', NULL, NULL },
};

/* Names of general categories, and Emoji, which means the same in both libraries.  Other names
 * of properties are scripts. */
static const char *const categories[] = {
    "Any", "Emoji", "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "Ll", "Lm", "Lo", "Lt",
    "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs", NULL,
};

/* Names in a class "[...]" that mean the same in both libraries, and what is written. */
static const struct {
    const char *name, *text;
} posix_names[] = {
    { "[:digit:]", "\\p{Nd}" },
    { "[:^digit:]", "\\P{Nd}" },
    { "[:xdigit:]", "0-9A-Fa-f" },
    { "[:cntrl:]", "\\p{Cc}" },
    { "[:^cntrl:]", "\\P{Cc}" },
    { "[:ascii:]", "\\x00-\\x7f" },
};

static int fail (struct mg_error *err, int code)
{
    PCRE2_UCHAR text[120] = "";

    if (code == PCRE2_ERROR_NOMEMORY)
        return mg_error_set (err, ENOMEM, "pcre2: out of memory");
    if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_HEAPLIMIT
        || code == PCRE2_ERROR_DEPTHLIMIT)
        return mg_error_set (err, EIO, "a regular expression of the tokenizer takes too "
                             "many steps on this text");
    pcre2_get_error_message (code, text, sizeof (text));
    return mg_error_set (err, EIO, "pcre2: error %d, %s", code, (const char *)text);
}

/* ---- translation ---- */

static int refuse (const struct translation *t, size_t at, const char *what,
                   struct mg_error *err)
{
    size_t n = t->size - at < 8 ? t->size - at : 8;
    char part[9];

    memcpy (part, t->text + at, n);
    part[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)part[i] < ' ' || (unsigned char)part[i] >= 0x7f)
            part[i] = '?';
    }
    return mg_error_set (err, EINVAL, "the regular expression has %s at byte %zu, \"%s\", "
                         "which is not supported", what, at, part);
}

static int put (struct translation *t, const char *text, struct mg_error *err)
{
    return text_buffer_append (&t->to, text, strlen (text), err);
}

static int copy (struct translation *t, size_t n, struct mg_error *err)
{
    if (n > t->size - t->at)
        n = t->size - t->at;
    t->at += n;
    return text_buffer_append (&t->to, t->text + t->at - n, n, err);
}

static bool is_category (const char *name, size_t size)
{
    for (int i = 0; categories[i]; i++) {
        if (strlen (categories[i]) == size && strncasecmp (categories[i], name, size) == 0)
            return true;
    }
    return false;
}

/* \p{NAME}: a script is in PCRE2 from 10.40 on also what else the script is used with, but
 * "sc:" asks for the script alone, as the name does in Oniguruma. */
static int copy_property (struct translation *t, const char *end, struct mg_error *err)
{
    const char *begin = t->text + t->at, *name = begin + 3 + (begin[3] == '^');

    if (is_category (name, (size_t)(end - name)))
        return copy (t, (size_t)(end + 1 - begin), err);
    if (copy (t, (size_t)(name - begin), err) < 0)
        return -1;
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
    if (put (t, "sc:", err) < 0)
        return -1;
#endif
    return copy (t, (size_t)(end + 1 - name), err);
}

/* The option i does not change a property outside of a class, in PCRE2 only before 10.45. */
static int put_property (struct translation *t, bool inside, struct mg_error *err)
{
    bool fold = t->fold || t->fold_from > 0;
    const char *begin = t->text + t->at, *end;

    if (t->size - t->at < 3 || begin[2] != '{')
        return refuse (t, t->at, "a property without braces", err);
    if (!(end = memchr (begin, '}', t->size - t->at)))
        return refuse (t, t->at, "a property without end", err);
    if (inside && fold)
        return refuse (t, t->at, "a property in a class under the option i", err);
    if (fold && put (t, "(?-i:", err) < 0)
        return -1;
    if (copy_property (t, end, err) < 0)
        return -1;
    return fold ? put (t, ")", err) : 0;
}

static int put_escape (struct translation *t, bool inside, struct mg_error *err)
{
    const struct escape *e = escapes;
    const char *text;
    char letter;

    if (t->at + 1 == t->size)
        return refuse (t, t->at, "a backslash at its end", err);
    letter = t->text[t->at + 1];
    if (letter == 'p' || letter == 'P')
        return put_property (t, inside, err);
    while (e->letter && e->letter != letter)
        e++;
    if (!e->letter)
        return copy (t, 2, err);
    text = inside ? e->inside : e->outside;
    if (!text)
        return refuse (t, t->at, inside ? "an escape inside a class" : "an escape", err);
    t->at += 2;
    return put (t, text, err);
}

/* "[:NAME:]" of a class. */
static int put_posix (struct translation *t, struct mg_error *err)
{
    for (size_t i = 0; i < sizeof (posix_names) / sizeof (posix_names[0]); i++) {
        size_t n = strlen (posix_names[i].name);

        if (t->size - t->at >= n && memcmp (t->text + t->at, posix_names[i].name, n) == 0) {
            t->at += n;
            return put (t, posix_names[i].text, err);
        }
    }
    return refuse (t, t->at, "a class by name other than digit, xdigit, cntrl and ascii", err);
}

/* One side of "&&" in a class, or the whole class.  It matches a character of 'plain', the inside
 * of a class of PCRE2, or of 'others', expressions of one character with "|" between them.
 */
struct operand {
    struct text_buffer plain, others;
};

static void operand_clear (struct operand *o)
{
    text_buffer_clear (&o->plain);
    text_buffer_clear (&o->others);
}

static int write (struct text_buffer *to, const char *text, struct mg_error *err)
{
    return text_buffer_append (to, text, strlen (text), err);
}

static int put_class (struct translation *t, struct text_buffer *to, struct mg_error *err);

/* Let put_escape() and put_posix() write to 'to' in place of t->to. */
static int put_inside (struct translation *t, struct text_buffer *to,
                       int (*put_it) (struct translation *t, struct mg_error *err),
                       struct mg_error *err)
{
    const struct text_buffer before = t->to;
    int rc;

    t->to = *to;
    rc = put_it (t, err);
    *to = t->to;
    t->to = before;
    return rc;
}

static int put_inner_escape (struct translation *t, struct mg_error *err)
{
    return put_escape (t, true, err);
}

static int put_outer_escape (struct translation *t, struct mg_error *err)
{
    return put_escape (t, false, err);
}

/* A further expression in 'others'. */
static int begin_other (struct operand *o, struct mg_error *err)
{
    return o->others.size > 0 ? write (&o->others, "|", err) : 0;
}

/* Translate a part of a class.  'next' is the second character of the part. */
static int put_part (struct translation *t, struct operand *o, char next, struct mg_error *err)
{
    const char c = t->text[t->at];

    if (c == '\\' && (next == 'S' || next == 'H'))
        return begin_other (o, err) < 0 ? -1 : put_inside (t, &o->others, put_outer_escape, err);
    if (c == '\\')
        return put_inside (t, &o->plain, put_inner_escape, err);
    if (c == '[' && next == ':')
        return put_inside (t, &o->plain, put_posix, err);
    if (c == '[')
        return begin_other (o, err) < 0 ? -1 : put_class (t, &o->others, err);
    if (c == '-' && (next == '[' || next == '&'))
        return refuse (t, t->at, "a range without end", err);
    t->at++;
    return text_buffer_append (&o->plain, &c, 1, err);
}

/* Write the expression of an operand, or of its complement. */
static int put_operand (struct text_buffer *to, const struct operand *o, bool negated,
                        struct mg_error *err)
{
    const bool alone = o->others.size == 0;

    if (alone)
        return write (to, negated ? "[^" : "[", err) < 0
               || text_buffer_append (to, o->plain.data, o->plain.size, err) < 0
               || write (to, "]", err) < 0 ? -1 : 0;
    if (write (to, negated ? "(?:(?!" : "(?:", err) < 0
        || text_buffer_append (to, o->others.data, o->others.size, err) < 0)
        return -1;
    if (o->plain.size > 0 && (write (to, "|[", err) < 0
                              || text_buffer_append (to, o->plain.data, o->plain.size, err) < 0
                              || write (to, "]", err) < 0))
        return -1;
    return write (to, negated ? ")(?s:.))" : ")", err);
}

/* Read one operand, up to "&&" or the end of the class; 'first': "]" may begin it. */
static int read_operand (struct translation *t, struct operand *o, bool first,
                         struct mg_error *err)
{
    for (; t->at < t->size; first = false) {
        char c = t->text[t->at], next = t->at + 1 < t->size ? t->text[t->at + 1] : '\0';

        if ((c == ']' && !first) || (c == '&' && next == '&'))
            return 0;
        if (put_part (t, o, next, err) < 0)
            return -1;
    }
    return 0;
}

/* The operands of a class whose "[" or "[^" is read.  All but the last one become looks ahead in
 * 'ahead'. */
static int read_operands (struct translation *t, struct operand *last, struct text_buffer *ahead,
                          struct mg_error *err)
{
    const bool fold = t->fold || t->fold_from > 0;

    for (bool first = true;; first = false) {
        if (read_operand (t, last, first, err) < 0)
            return -1;
        if (t->at == t->size || t->text[t->at] == ']')
            break;
        if (fold)
            return refuse (t, t->at, "an intersection of classes under the option i", err);
        if (last->plain.size + last->others.size == 0)
            return refuse (t, t->at, "an intersection with nothing", err);
        if (write (ahead, "(?=", err) < 0 || put_operand (ahead, last, false, err) < 0
            || write (ahead, ")", err) < 0)
            return -1;
        last->plain.size = last->others.size = 0;
        t->at += 2;
    }
    if (t->at < t->size && last->plain.size + last->others.size == 0)
        return refuse (t, t->at, "an empty class or intersection", err);
    return 0;
}

/* Write a class with "&&": the intersection of all operands, or its complement. */
static int put_intersection (struct text_buffer *to, const struct operand *last,
                             const struct text_buffer *ahead, bool negated, struct mg_error *err)
{
    if (write (to, negated ? "(?:(?!" : "(?:", err) < 0
        || text_buffer_append (to, ahead->data, ahead->size, err) < 0
        || put_operand (to, last, false, err) < 0)
        return -1;
    return write (to, negated ? ")(?s:.))" : ")", err);
}

/* Translate a class.  It may have classes inside, negated escapes and intersections: "&&" binds
 * less than a union and more than "^".
 */
static int put_class (struct translation *t, struct text_buffer *to, struct mg_error *err)
{
    struct text_buffer ahead = { NULL, 0, 0 };
    struct operand last = { 0 };
    const size_t begin = t->at;
    const bool negated = t->at + 1 < t->size && t->text[t->at + 1] == '^';
    int rc;

    if (t->classes == CLASS_DEPTH)
        return refuse (t, begin, "too many classes inside one another", err);
    if (negated && t->classes > 0 && (t->fold || t->fold_from > 0))
        return refuse (t, begin, "a negated class inside a class under the option i", err);
    t->classes++;
    t->at += negated ? 2 : 1;
    rc = read_operands (t, &last, &ahead, err);
    t->classes--;
    if (rc == 0 && t->at == t->size)
        rc = refuse (t, begin, "a class without end", err);
    t->at++;
    if (rc == 0)
        rc = ahead.size > 0 ? put_intersection (to, &last, &ahead, negated, err)
                            : put_operand (to, &last, negated, err);
    operand_clear (&last);
    text_buffer_clear (&ahead);
    return rc;
}

/* "{n,m}": Oniguruma takes "{,m}" for "{0,m}", "{n,m}+" for a repeat of repeats, and what is
 * no count for a character. */
static int put_count (struct translation *t, struct mg_error *err)
{
    size_t end = t->at + 1;
    int commas = 0, digits = 0;

    while (end < t->size && (memchr ("0123456789,", t->text[end], 11))) {
        commas += t->text[end] == ',';
        digits += t->text[end++] != ',';
    }
    if (end == t->size || t->text[end] != '}' || end == t->at + 1) {
        t->at++;
        return put (t, "\\{", err);
    }
    if (commas > 1 || digits == 0)
        return refuse (t, t->at, "a malformed count", err);
    if (end + 1 < t->size && memchr ("+?*", t->text[end + 1], 3))
        return refuse (t, t->at, "a repeat of a count", err);
    if (t->text[t->at + 1] == ',') {
        t->at++;
        if (put (t, "{0", err) < 0)
            return -1;
    }
    return copy (t, end + 1 - t->at, err);
}

/* "(?i:", "(?-i:", "(?i)": of the options, i alone means the same.  Without ':' the option is
 * for the rest of the group, with what "|" parts from it in Oniguruma alone. */
static int put_options (struct translation *t, struct mg_error *err)
{
    size_t at = t->at + 2;
    bool on = false, off = false;

    for (; at < t->size && memchr ("imxsUJna-^", t->text[at], 10); at++) {
        if (t->text[at] != 'i' && t->text[at] != '-')
            return refuse (t, t->at, "an option", err);
        off = off || t->text[at] == '-';
        on = on || (t->text[at] == 'i' && !off);
    }
    if (at > t->at + 2 && (at == t->size || (t->text[at] != ':' && t->text[at] != ')')))
        return refuse (t, t->at, "an option", err);
    if (at > t->at + 2 && t->text[at] == ')') {
        if (t->at > 0)
            return refuse (t, t->at, "an option for the rest of a group", err);
        t->fold = on;
    } else if (on && t->fold_from == 0) {
        t->fold_from = t->depth;
    }
    return copy (t, 1, err);
}

static int put_group (struct translation *t, struct mg_error *err)
{
    if (t->at + 1 < t->size && t->text[t->at + 1] == '*')
        return refuse (t, t->at, "a verb", err);
    t->depth++;
    if (t->at + 2 >= t->size || t->text[t->at + 1] != '?')
        return copy (t, 1, err);
    if (memchr ("CR&P0123456789+|(", t->text[t->at + 2], 17))
        return refuse (t, t->at, "a group", err);
    return put_options (t, err);
}

static int put_group_end (struct translation *t, struct mg_error *err)
{
    if (t->fold_from == t->depth)
        t->fold_from = 0;
    t->depth--;
    return copy (t, 1, err);
}

static int translate (struct translation *t, struct mg_error *err)
{
    int rc = 0;

    while (rc == 0 && t->at < t->size) {
        switch (t->text[t->at]) {
        case '\\':
            rc = put_escape (t, false, err);
            break;
        case '[':
            rc = put_class (t, &t->to, err);
            break;
        case '{':
            rc = put_count (t, err);
            break;
        case '(':
            rc = put_group (t, err);
            break;
        case ')':
            rc = put_group_end (t, err);
            break;
        default:
            rc = copy (t, 1, err);
        }
    }
    return rc;
}

/* ---- compiling ---- */

static pcre2_code *compile (const struct text_buffer *pattern, uint32_t options,
                            struct mg_error *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create (NULL);
    PCRE2_UCHAR text[120] = "";
    uint32_t unicode = 0;
    pcre2_code *regex;
    PCRE2_SIZE offset;
    int code;

    pcre2_config (PCRE2_CONFIG_UNICODE, &unicode);
    if (!context || !unicode) {
        pcre2_compile_context_free (context);
        if (!context)
            mg_error_set (err, ENOMEM, "pcre2: out of memory");
        else
            mg_error_set (err, ENOTSUP, "the PCRE2 library here was built without Unicode");
        return NULL;
    }
    pcre2_set_newline (context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length (context, PATTERN_MAX);
    regex = pcre2_compile ((PCRE2_SPTR)pattern->data, pattern->size,
                           PCRE2_UTF | options, &code, &offset, context);
    pcre2_compile_context_free (context);
    if (!regex && code == PCRE2_ERROR_HEAP_FAILED) {
        mg_error_set (err, ENOMEM, "pcre2: out of memory");
    } else if (!regex) {
        pcre2_get_error_message (code, text, sizeof (text));
        mg_error_set (err, EINVAL, "the regular expression is not supported: %s",
                      (const char *)text);
    }
    return regex;
}

static struct regex *create (const struct text_buffer *pattern, uint32_t options,
                             struct mg_error *err)
{
    struct regex *regex;

    if (!(regex = calloc (1, sizeof (*regex)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    if (!(regex->code = compile (pattern, options, err))) {
        free (regex);
        return NULL;
    }
    /* without executable memory there is no compiler, and the interpreter is used */
    regex->jit = pcre2_jit_compile (regex->code, PCRE2_JIT_COMPLETE
                                                     | PCRE2_JIT_PARTIAL_HARD) == 0;
    return regex;
}

struct regex *regex_create (const char *pattern, size_t size, struct mg_error *err)
{
    struct translation t = { .text = pattern, .size = size };
    struct regex *regex = NULL;

    if (size > PATTERN_MAX)
        mg_error_set (err, EINVAL, "the regular expression has %zu bytes, want at most %d",
                      size, PATTERN_MAX);
    else if (text_buffer_reserve (&t.to, 1, err) == 0 && translate (&t, err) == 0)
        regex = create (&t.to, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, err);
    text_buffer_clear (&t.to);
    return regex;
}

struct regex *regex_create_literal (const char *text, size_t size, struct mg_error *err)
{
    struct text_buffer pattern = { (char *)text, size, size };

    return create (&pattern, PCRE2_LITERAL, err);
}

struct regex *regex_create_json (const char *string, bool literal, struct mg_error *err)
{
    struct text_buffer bytes = { NULL, 0, 0 };
    struct regex *regex = NULL;

    if (text_buffer_reserve (&bytes, 1, err) == 0 && json_text_append (&bytes, string, err) == 0)
        regex = literal ? regex_create_literal (bytes.data, bytes.size, err)
                        : regex_create (bytes.data, bytes.size, err);
    text_buffer_clear (&bytes);
    return regex;
}

void regex_destroy (struct regex *regex)
{
    if (regex) {
        int saved_errno = errno;

        pcre2_code_free (regex->code);
        free (regex);
        errno = saved_errno;
    }
}

struct regex_scratch *regex_scratch_create (struct mg_error *err)
{
    struct regex_scratch *scratch = calloc (1, sizeof (*scratch));

    if (scratch) {
        scratch->match = pcre2_match_data_create (1, NULL);
        scratch->context = pcre2_match_context_create (NULL);
    }
    if (scratch && scratch->match && scratch->context) {
        pcre2_set_heap_limit (scratch->context, HEAP_KIB);
        scratch->stack = pcre2_jit_stack_create (STACK_MIN, STACK_MAX, NULL);
        pcre2_jit_stack_assign (scratch->context, NULL, scratch->stack);
        regex_scratch_start (scratch, 0);
        return scratch;
    }
    regex_scratch_destroy (scratch);
    mg_error_set (err, ENOMEM, "out of memory");
    return NULL;
}

void regex_scratch_destroy (struct regex_scratch *scratch)
{
    if (scratch) {
        int saved_errno = errno;

        pcre2_match_data_free (scratch->match);
        pcre2_match_context_free (scratch->context);
        pcre2_jit_stack_free (scratch->stack);
        free (scratch);
        errno = saved_errno;
    }
}

/* ---- matching ---- */

void regex_scratch_start (struct regex_scratch *scratch, size_t size)
{
    scratch->budget = BUDGET_MIN + BUDGET_BYTE * (uint64_t)size;
}

static int match (const struct regex *regex, struct regex_scratch *scratch,
                  const char *text, size_t size, size_t at, uint32_t options)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;

    options |= PCRE2_NO_UTF_CHECK;
    if (regex->jit)
        rc = pcre2_jit_match (regex->code, (PCRE2_SPTR)text, size, at, options, scratch->match,
                              scratch->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match (regex->code, (PCRE2_SPTR)text, size, at, options | PCRE2_NO_JIT,
                          scratch->match, scratch->context);
    return rc;
}

/* Find the first match from 'at' on.  A search sees WINDOW bytes, and a match that depends on
 * bytes behind the window is searched for again in a larger window.  So the bytes and the steps of
 * all searches can be counted.  An expression that looks through the whole text at each place
 * reaches the limit of steps, at the same place on every machine.
 */
static int search (const struct regex *regex, struct regex_scratch *scratch, const char *text,
                   size_t size, size_t at)
{
    size_t window = WINDOW;
    uint32_t steps = STEPS;
    uint64_t cost = 0; /* of the search before */
    int rc;

    do {
        const bool part = window < size - at;
        size_t end = part ? at + window : size;

        if (cost > scratch->budget)
            return PCRE2_ERROR_MATCHLIMIT;
        scratch->budget -= cost;
        while (part && ((unsigned char)text[end] & 0xc0) == 0x80)
            end--;
        pcre2_set_match_limit (scratch->context, steps);
        rc = match (regex, scratch, text, end, at, part ? PCRE2_PARTIAL_HARD : 0);
        if (part && rc == PCRE2_ERROR_NOMATCH)
            rc = PCRE2_ERROR_PARTIAL;
        cost = rc == PCRE2_ERROR_MATCHLIMIT ? steps : window / WINDOW_COST;
        if (rc == PCRE2_ERROR_MATCHLIMIT)
            steps = steps < UINT32_MAX / WIDEN ? steps * WIDEN : UINT32_MAX;
        else if (rc == PCRE2_ERROR_PARTIAL)
            window = window < SIZE_MAX / WIDEN ? window * WIDEN : SIZE_MAX;
    } while (rc == PCRE2_ERROR_PARTIAL || rc == PCRE2_ERROR_MATCHLIMIT);
    if (window > WINDOW)
        scratch->budget -= cost < scratch->budget ? cost : scratch->budget;
    return rc;
}

int regex_next (const struct regex *regex, struct regex_scratch *scratch,
                const char *text, size_t size, struct regex_walk *walk,
                struct mg_error *err)
{
    while (walk->at <= size) {
        const PCRE2_SIZE *found;
        int rc = search (regex, scratch, text, size, walk->at);
        size_t n = 1;

        if (rc == PCRE2_ERROR_NOMATCH)
            return 0;
        if (rc < 0)
            return fail (err, rc);
        found = pcre2_get_ovector_pointer (scratch->match);
        if (found[0] > found[1] || found[0] < walk->at || found[1] > size)
            return mg_error_set (err, EIO, "a regular expression of the tokenizer matches "
                                 "backwards");
        if (found[0] < found[1] || !walk->matched || found[1] != walk->to) {
            walk->from = found[0];
            walk->to = found[1];
            walk->at = walk->to;
            walk->matched = true;
            return 1;
        }
        if (walk->at < size)
            utf8_decode (text + walk->at, &n);
        walk->at += n;
    }
    return 0;
}
