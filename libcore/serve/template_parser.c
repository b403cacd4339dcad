/* template_parser.c - statements */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_parser.h"

/* --- tools --- */

struct tpl_node *tpl_parse_error (struct tpl_parser *p, int errnum, const char *fmt, ...)
{
    char text[MG_ERROR_MAX];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    mg_error_set (p->s->err, errnum, "line %d: %s", p->at->line, text);
    return NULL;
}

struct tpl_node *tpl_node_new (struct tpl_parser *p, enum tpl_node_kind kind,
                               const struct tpl_token *at)
{
    struct tpl_node *n = tpl_arena_take (&p->s->arena, sizeof (*n), p->s->err);

    if (n) {
        n->kind = kind;
        n->line = at->line;
        n->name = at->text;
        n->depth = 1;
    }
    return n;
}

static int grow_depth (struct tpl_parser *p, struct tpl_node *n, const struct tpl_node *child)
{
    if (!child)
        return -1;
    if (n->depth <= child->depth)
        n->depth = child->depth + 1;
    if (n->depth > TEMPLATE_DEPTH_MAX) {
        tpl_parse_error (p, E2BIG, "nested more than %d deep", TEMPLATE_DEPTH_MAX);
        return -1;
    }
    return 0;
}

int tpl_node_arg (struct tpl_parser *p, struct tpl_node *n, int which, struct tpl_node *child)
{
    n->arg[which] = child;
    return grow_depth (p, n, child);
}

int tpl_node_append (struct tpl_parser *p, struct tpl_node *n, struct tpl_node ***end,
                     struct tpl_node *child)
{
    if (grow_depth (p, n, child) < 0)
        return -1;
    **end = child;
    *end = &child->next;
    return 0;
}

int tpl_parse_enter (struct tpl_parser *p)
{
    if (p->nested >= TEMPLATE_DEPTH_MAX) {
        tpl_parse_error (p, E2BIG, "nested more than %d deep", TEMPLATE_DEPTH_MAX);
        return -1;
    }
    p->nested++;
    return 0;
}

static bool is_at (const struct tpl_parser *p, enum tpl_token_kind kind, const char *text)
{
    return p->at->kind == kind && p->at->text.size == strlen (text)
           && memcmp (p->at->text.data, text, p->at->text.size) == 0;
}

bool tpl_at_operator (const struct tpl_parser *p, const char *op)
{
    return is_at (p, TPL_TOKEN_OPERATOR, op);
}

bool tpl_at_name (const struct tpl_parser *p, const char *name)
{
    return is_at (p, TPL_TOKEN_NAME, name);
}

const struct tpl_token *tpl_pass (struct tpl_parser *p)
{
    const struct tpl_token *t = p->at;

    if (t->kind != TPL_TOKEN_END)
        p->at++;
    return t;
}

bool tpl_pass_operator (struct tpl_parser *p, const char *op)
{
    return tpl_at_operator (p, op) && tpl_pass (p);
}

bool tpl_pass_name (struct tpl_parser *p, const char *name)
{
    return tpl_at_name (p, name) && tpl_pass (p);
}

int tpl_want_operator (struct tpl_parser *p, const char *op)
{
    if (tpl_pass_operator (p, op))
        return 0;
    tpl_parse_error (p, EINVAL, "\"%s\" is missing", op);
    return -1;
}

/* --- ends of tags --- */

static int end_tag (struct tpl_parser *p)
{
    if (p->at->kind != TPL_TOKEN_TAG_END) {
        tpl_parse_error (p, EINVAL, "\"%%}\" is missing");
        return -1;
    }
    if (p->safe) {
        tpl_parse_error (p, ENOTSUP, "the filter \"safe\" is supported at the end of {{ }} only");
        return -1;
    }
    tpl_pass (p);
    return 0;
}

/* Pass "{% name %}", which ends a block. */
static int pass_end (struct tpl_parser *p, const char *name)
{
    if (p->at->kind != TPL_TOKEN_TAG) {
        tpl_parse_error (p, EINVAL, "\"%s\" is missing", name);
        return -1;
    }
    tpl_pass (p);
    if (!tpl_pass_name (p, name)) {
        tpl_parse_error (p, EINVAL, "\"%s\" is missing", name);
        return -1;
    }
    return end_tag (p);
}

static struct tpl_node *parse_statement (struct tpl_parser *p);

/* True if a tag here ends the statements. */
static bool at_end (const struct tpl_parser *p)
{
    struct tpl_parser q = *p;

    if (p->at->kind == TPL_TOKEN_END)
        return true;
    if (p->at->kind != TPL_TOKEN_TAG)
        return false;
    tpl_pass (&q);
    return tpl_at_name (&q, "elif") || tpl_at_name (&q, "else")
           || (q.at->kind == TPL_TOKEN_NAME && q.at->text.size > 3
               && memcmp (q.at->text.data, "end", 3) == 0);
}

/* Statements up to a tag that ends them, as a list of 'n'. */
static int parse_statements (struct tpl_parser *p, struct tpl_node *n, struct tpl_node **end)
{
    int rc = 0;

    if (tpl_parse_enter (p) < 0)
        return -1;
    while (rc == 0 && !at_end (p))
        rc = tpl_node_append (p, n, &end, parse_statement (p));
    p->nested--;
    return rc;
}

/* --- tags --- */

/* A branch: its condition, unless it is an else, and what it renders. */
static struct tpl_node *parse_branch (struct tpl_parser *p, bool has_condition)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_BRANCH, p->at);

    if (!n || (has_condition && tpl_node_arg (p, n, 0, tpl_parse_tuple (p, false)) < 0)
        || end_tag (p) < 0 || parse_statements (p, n, &n->list) < 0)
        return NULL;
    return n;
}

static struct tpl_node *parse_if (struct tpl_parser *p, const struct tpl_token *tag)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_IF, tag), **end;
    bool more = true;

    if (!n)
        return NULL;
    end = &n->list;
    if (tpl_node_append (p, n, &end, parse_branch (p, true)) < 0)
        return NULL;
    while (more && p->at->kind == TPL_TOKEN_TAG) {
        const struct tpl_token *begins = tpl_pass (p);

        if (tpl_pass_name (p, "elif")) {
            if (tpl_node_append (p, n, &end, parse_branch (p, true)) < 0)
                return NULL;
            continue;
        }
        more = false;
        if (tpl_pass_name (p, "else")) {
            if (tpl_node_append (p, n, &end, parse_branch (p, false)) < 0)
                return NULL;
        } else
            p->at = begins;
    }
    return pass_end (p, "endif") == 0 ? n : NULL;
}

static bool is_word (struct tpl_text name, const char *word)
{
    return tpl_same (name, (struct tpl_text){ word, strlen (word) });
}

static struct tpl_node *parse_target_name (struct tpl_parser *p)
{
    static const char *const words[] = { "true", "True", "false", "False", "none", "None", "in",
                                         "and", "or", "not", "is", "if", "else", "loop" };
    const struct tpl_token *t = p->at;

    if (t->kind != TPL_TOKEN_NAME)
        return tpl_parse_error (p, EINVAL, "the name of a variable is missing");
    for (size_t i = 0; i < sizeof (words) / sizeof (words[0]); i++)
        if (is_word (t->text, words[i]))
            return tpl_parse_error (p, EINVAL, "%s cannot be set", words[i]);
    return tpl_node_new (p, TPL_NODE_NAME, tpl_pass (p));
}

/* A name, or several: (a, b) or a, b. */
static struct tpl_node *parse_target (struct tpl_parser *p)
{
    const struct tpl_token *at = p->at;
    bool brackets = tpl_pass_operator (p, "(");
    struct tpl_node *n = parse_target_name (p), *tuple, **end;

    if (!n || !tpl_at_operator (p, ","))
        return n && brackets && tpl_want_operator (p, ")") < 0 ? NULL : n;
    tuple = tpl_node_new (p, TPL_NODE_TUPLE, at);
    if (!tuple)
        return NULL;
    end = &tuple->list;
    if (tpl_node_append (p, tuple, &end, n) < 0)
        return NULL;
    while (tpl_pass_operator (p, ","))
        if (tpl_node_append (p, tuple, &end, parse_target_name (p)) < 0)
            return NULL;
    return brackets && tpl_want_operator (p, ")") < 0 ? NULL : tuple;
}

/* "x in y if z": the head of a loop */
static int parse_for_head (struct tpl_parser *p, struct tpl_node *n)
{
    if (tpl_node_arg (p, n, 0, parse_target (p)) < 0)
        return -1;
    if (!tpl_pass_name (p, "in")) {
        tpl_parse_error (p, EINVAL, "\"in\" is missing");
        return -1;
    }
    if (tpl_node_arg (p, n, 1, tpl_parse_tuple (p, false)) < 0)
        return -1;
    if (tpl_pass_name (p, "if") && tpl_node_arg (p, n, 2, tpl_parse_expression (p)) < 0)
        return -1;
    if (tpl_at_name (p, "recursive")) {
        tpl_parse_error (p, ENOTSUP, "recursive loops are not supported");
        return -1;
    }
    return end_tag (p);
}

static struct tpl_node *parse_for (struct tpl_parser *p, const struct tpl_token *tag)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_FOR, tag);
    const struct tpl_token *begins;

    if (!n || parse_for_head (p, n) < 0)
        return NULL;
    p->loops++;
    if (parse_statements (p, n, &n->list) < 0)
        return NULL;
    p->loops--;
    begins = p->at;
    if (p->at->kind == TPL_TOKEN_TAG)
        tpl_pass (p);
    if (begins->kind == TPL_TOKEN_TAG && tpl_pass_name (p, "else")) {
        if (end_tag (p) < 0 || parse_statements (p, n, &n->other) < 0)
            return NULL;
    } else
        p->at = begins;
    return pass_end (p, "endfor") == 0 ? n : NULL;
}

static struct tpl_node *parse_set_target (struct tpl_parser *p)
{
    struct tpl_node *n = parse_target (p), *attribute;

    if (!n || n->kind != TPL_NODE_NAME || !tpl_pass_operator (p, "."))
        return n;
    if (p->at->kind != TPL_TOKEN_NAME)
        return tpl_parse_error (p, EINVAL, "a name is missing behind \".\"");
    attribute = tpl_node_new (p, TPL_NODE_ATTRIBUTE, tpl_pass (p));
    return attribute && tpl_node_arg (p, attribute, 0, n) == 0 ? attribute : NULL;
}

static struct tpl_node *parse_set (struct tpl_parser *p, const struct tpl_token *tag)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_SET, tag);

    if (!n || tpl_node_arg (p, n, 0, parse_set_target (p)) < 0)
        return NULL;
    if (tpl_pass_operator (p, "="))
        return tpl_node_arg (p, n, 1, tpl_parse_tuple (p, true)) < 0 || end_tag (p) < 0 ? NULL : n;
    if (tpl_at_operator (p, "|"))
        return tpl_parse_error (p, ENOTSUP, "a filter of a set block is not supported");
    n->kind = TPL_NODE_SET_BLOCK;
    if (end_tag (p) < 0 || parse_statements (p, n, &n->list) < 0)
        return NULL;
    return pass_end (p, "endset") == 0 ? n : NULL;
}

static struct tpl_node *parse_parameter (struct tpl_parser *p)
{
    struct tpl_node *n = parse_target_name (p);

    if (!n)
        return NULL;
    n->kind = TPL_NODE_PARAMETER;
    if (tpl_pass_operator (p, "=") && tpl_node_arg (p, n, 0, tpl_parse_expression (p)) < 0)
        return NULL;
    return n;
}

static int parse_parameters (struct tpl_parser *p, struct tpl_node *n)
{
    struct tpl_node **end = &n->other, *last = NULL;

    if (tpl_want_operator (p, "(") < 0)
        return -1;
    while (!tpl_at_operator (p, ")")) {
        struct tpl_node *param;

        if (n->other && tpl_want_operator (p, ",") < 0)
            return -1;
        if (tpl_at_operator (p, ")"))
            break;
        param = parse_parameter (p);
        if (tpl_node_append (p, n, &end, param) < 0)
            return -1;
        if (last && last->arg[0] && !param->arg[0]) {
            tpl_parse_error (p, EINVAL, "a parameter without a default after one with a default");
            return -1;
        }
        last = param;
    }
    tpl_pass (p);
    return 0;
}

static struct tpl_node *parse_macro (struct tpl_parser *p, const struct tpl_token *tag)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_MACRO, tag);
    int loops = p->loops;

    if (!n)
        return NULL;
    if (p->at->kind != TPL_TOKEN_NAME)
        return tpl_parse_error (p, EINVAL, "the name of the macro is missing");
    n->name = tpl_pass (p)->text;
    p->loops = 0;
    if (parse_parameters (p, n) < 0 || end_tag (p) < 0 || parse_statements (p, n, &n->list) < 0)
        return NULL;
    p->loops = loops;
    return pass_end (p, "endmacro") == 0 ? n : NULL;
}

static struct tpl_node *parse_leave (struct tpl_parser *p, const struct tpl_token *tag)
{
    bool breaks = is_word (tag->text, "break");

    if (p->loops == 0)
        return tpl_parse_error (p, EINVAL, "%s outside of a loop", breaks ? "break" : "continue");
    if (end_tag (p) < 0)
        return NULL;
    return tpl_node_new (p, breaks ? TPL_NODE_BREAK : TPL_NODE_CONTINUE, tag);
}

static struct tpl_node *parse_generation (struct tpl_parser *p, const struct tpl_token *tag)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_BLOCK, tag);

    if (!n || end_tag (p) < 0 || parse_statements (p, n, &n->list) < 0)
        return NULL;
    return pass_end (p, "endgeneration") == 0 ? n : NULL;
}

static const struct {
    const char *name;
    struct tpl_node *(*parse) (struct tpl_parser *p, const struct tpl_token *tag);
} tags[] = {
    { "if", parse_if },       { "for", parse_for },         { "set", parse_set },
    { "macro", parse_macro }, { "break", parse_leave },     { "continue", parse_leave },
    { "generation", parse_generation },
};

static struct tpl_node *parse_tag (struct tpl_parser *p)
{
    const struct tpl_token *tag;

    tpl_pass (p);
    tag = p->at;
    if (tag->kind != TPL_TOKEN_NAME)
        return tpl_parse_error (p, EINVAL, "the name of a tag is missing");
    for (size_t i = 0; i < sizeof (tags) / sizeof (tags[0]); i++)
        if (is_word (tag->text, tags[i].name)) {
            tpl_pass (p);
            return tags[i].parse (p, tag);
        }
    return tpl_parse_error (p, ENOTSUP, "the tag \"%.*s\" is not supported",
                            (int)tag->text.size, tag->text.data);
}

static struct tpl_node *parse_output (struct tpl_parser *p)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_OUTPUT, tpl_pass (p));

    if (!n || tpl_node_arg (p, n, 0, tpl_parse_tuple (p, true)) < 0)
        return NULL;
    if (p->at->kind != TPL_TOKEN_OUTPUT_END)
        return tpl_parse_error (p, EINVAL, "\"}}\" is missing");
    if (p->safe && p->safe != n->arg[0])
        return tpl_parse_error (p, ENOTSUP,
                                "the filter \"safe\" is supported at the end of {{ }} only");
    p->safe = NULL;
    tpl_pass (p);
    return n;
}

static struct tpl_node *parse_statement (struct tpl_parser *p)
{
    struct tpl_node *n;

    if (p->at->kind == TPL_TOKEN_TAG)
        return parse_tag (p);
    if (p->at->kind == TPL_TOKEN_OUTPUT)
        return parse_output (p);
    n = tpl_node_new (p, TPL_NODE_TEXT, p->at);
    if (n)
        n->constant = tpl_string (p->s, p->at->text.data, p->at->text.size);
    tpl_pass (p);
    return n && n->constant ? n : NULL;
}

/* --- calls: of functions, and of macros that the template has --- */

static bool has_macro (const struct tpl_tokens *tokens, struct tpl_text name)
{
    for (size_t i = 2; i < tokens->count; i++)
        if (tokens->token[i - 2].kind == TPL_TOKEN_TAG
            && is_word (tokens->token[i - 1].text, "macro")
            && tokens->token[i].kind == TPL_TOKEN_NAME && tpl_same (tokens->token[i].text, name))
            return true;
    return false;
}

static int check_calls (struct tpl_parser *p, const struct tpl_tokens *tokens)
{
    static const char *const functions[] = { "range", "namespace", "dict", "raise_exception",
                                             "strftime_now" };
    long budget = 100 * 1000 * 1000;

    for (const struct tpl_node *call = p->calls; call; call = call->other) {
        bool known = false;

        for (size_t i = 0; i < sizeof (functions) / sizeof (functions[0]); i++)
            known |= is_word (call->name, functions[i]);
        budget -= known ? 0 : (long)tokens->count;
        if (budget < 0)
            return mg_error_set (p->s->err, E2BIG, "line %d: too many calls", call->line);
        if (!known && !has_macro (tokens, call->name))
            return mg_error_set (p->s->err, ENOTSUP, "line %d: the function \"%.*s\" is not "
                                 "supported", call->line, (int)call->name.size, call->name.data);
    }
    return 0;
}

int tpl_parse (struct tpl_node **to, const struct tpl_tokens *tokens, struct tpl_state *s)
{
    struct tpl_parser p = { .at = tokens->token, .s = s };
    struct tpl_node *root = tpl_node_new (&p, TPL_NODE_BLOCK, p.at);

    if (!root || parse_statements (&p, root, &root->list) < 0)
        return -1;
    if (p.at->kind != TPL_TOKEN_END) {
        tpl_pass (&p);
        tpl_parse_error (&p, EINVAL, "\"%.*s\" without the tag that it ends",
                         (int)p.at->text.size, p.at->text.data);
        return -1;
    }
    if (check_calls (&p, tokens) < 0)
        return -1;
    *to = root->list;
    return 0;
}
