/* template_expression.c - expressions, a function for each level of Jinja's grammar */

#include <errno.h>
#include <stdio.h>

#include "libcore/serve/template_parser.h"

static const char *const reserved[] = { "and", "or", "not", "in", "is", "if", "else", "elif",
                                        "for" };
static const char *const refused_names[] = { "cycler", "joiner", "lipsum", "self", "super",
                                             "varargs", "kwargs", "caller" };

static bool is_one_of (struct tpl_text name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tpl_same (name, (struct tpl_text){ names[i], strlen (names[i]) }))
            return true;
    return false;
}

#define IS_ONE_OF(name, names) is_one_of (name, names, sizeof (names) / sizeof (names[0]))

/* A node of two sides. */
static struct tpl_node *two (struct tpl_parser *p, enum tpl_node_kind kind,
                             const struct tpl_token *op, struct tpl_node *left,
                             struct tpl_node *right)
{
    struct tpl_node *n = tpl_node_new (p, kind, op);

    if (!n || tpl_node_arg (p, n, 0, left) < 0 || tpl_node_arg (p, n, 1, right) < 0)
        return NULL;
    return n;
}

static struct tpl_node *one (struct tpl_parser *p, enum tpl_node_kind kind,
                             const struct tpl_token *op, struct tpl_node *below)
{
    struct tpl_node *n = tpl_node_new (p, kind, op);

    return n && tpl_node_arg (p, n, 0, below) == 0 ? n : NULL;
}

/* --- literals --- */

static struct tpl_node *constant (struct tpl_parser *p, const struct tpl_token *at,
                                  const struct tpl_value *v)
{
    struct tpl_node *n = v ? tpl_node_new (p, TPL_NODE_CONSTANT, at) : NULL;

    if (n)
        n->constant = v;
    return n;
}

static struct tpl_node *parse_name (struct tpl_parser *p)
{
    const struct tpl_token *t = tpl_pass (p);
    static const struct {
        const char *name;
        const struct tpl_value *value;
    } words[] = { { "true", &tpl_true },   { "True", &tpl_true }, { "false", &tpl_false },
                  { "False", &tpl_false }, { "none", &tpl_none }, { "None", &tpl_none } };

    for (size_t i = 0; i < sizeof (words) / sizeof (words[0]); i++)
        if (tpl_same (t->text, (struct tpl_text){ words[i].name, strlen (words[i].name) }))
            return constant (p, t, words[i].value);
    p->at--;
    if (IS_ONE_OF (t->text, reserved))
        return tpl_parse_error (p, EINVAL, "\"%.*s\" is no value", (int)t->text.size,
                                t->text.data);
    if (IS_ONE_OF (t->text, refused_names))
        return tpl_parse_error (p, ENOTSUP, "%.*s is not supported", (int)t->text.size,
                                t->text.data);
    tpl_pass (p);
    return tpl_node_new (p, TPL_NODE_NAME, t);
}

static struct tpl_node *parse_string (struct tpl_parser *p)
{
    const struct tpl_token *first = tpl_pass (p);
    struct text_buffer b = { .data = NULL };

    if (p->at->kind != TPL_TOKEN_STRING)
        return constant (p, first, tpl_string (p->s, first->text.data, first->text.size));
    for (const struct tpl_token *t = first; t->kind == TPL_TOKEN_STRING; t++)
        if (text_buffer_append (&b, t->text.data, t->text.size, p->s->err) < 0) {
            text_buffer_clear (&b);
            return NULL;
        }
    while (p->at->kind == TPL_TOKEN_STRING)
        tpl_pass (p);
    return constant (p, first, tpl_string_take (p->s, &b));
}

static struct tpl_node *parse_list (struct tpl_parser *p)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_LIST, tpl_pass (p)), **end;

    if (!n)
        return NULL;
    end = &n->list;
    while (!tpl_at_operator (p, "]")) {
        if (n->list && tpl_want_operator (p, ",") < 0)
            return NULL;
        if (tpl_at_operator (p, "]"))
            break;
        if (tpl_node_append (p, n, &end, tpl_parse_expression (p)) < 0)
            return NULL;
    }
    tpl_pass (p);
    return n;
}

static struct tpl_node *parse_pair (struct tpl_parser *p)
{
    const struct tpl_token *at = p->at;
    struct tpl_node *key = tpl_parse_expression (p);

    if (!key || tpl_want_operator (p, ":") < 0)
        return NULL;
    return two (p, TPL_NODE_PAIR, at, key, tpl_parse_expression (p));
}

static struct tpl_node *parse_dict (struct tpl_parser *p)
{
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_DICT, tpl_pass (p)), **end;

    if (!n)
        return NULL;
    end = &n->list;
    while (!tpl_at_operator (p, "}")) {
        if (n->list && tpl_want_operator (p, ",") < 0)
            return NULL;
        if (tpl_at_operator (p, "}"))
            break;
        if (tpl_node_append (p, n, &end, parse_pair (p)) < 0)
            return NULL;
    }
    tpl_pass (p);
    return n;
}

static struct tpl_node *parse_brackets (struct tpl_parser *p)
{
    const struct tpl_token *at = tpl_pass (p);
    struct tpl_node *n;

    if (tpl_pass_operator (p, ")"))
        return tpl_node_new (p, TPL_NODE_TUPLE, at);
    n = tpl_parse_tuple (p, true);
    return n && tpl_want_operator (p, ")") == 0 ? n : NULL;
}

static struct tpl_node *parse_primary (struct tpl_parser *p)
{
    switch (p->at->kind) {
    case TPL_TOKEN_NAME:
        return parse_name (p);
    case TPL_TOKEN_STRING:
        return parse_string (p);
    case TPL_TOKEN_INT:
        return constant (p, p->at, tpl_int (p->s, tpl_pass (p)->integer));
    case TPL_TOKEN_FLOAT:
        return constant (p, p->at, tpl_float (p->s, tpl_pass (p)->number));
    default:
        break;
    }
    if (tpl_at_operator (p, "("))
        return parse_brackets (p);
    if (tpl_at_operator (p, "["))
        return parse_list (p);
    if (tpl_at_operator (p, "{"))
        return parse_dict (p);
    return tpl_parse_error (p, EINVAL, "a value is missing");
}

/* --- arguments --- */

static struct tpl_node *parse_argument (struct tpl_parser *p)
{
    const struct tpl_token *at = p->at;
    struct tpl_node *n = tpl_node_new (p, TPL_NODE_ARGUMENT, at);

    if (!n)
        return NULL;
    if (tpl_at_operator (p, "*") || tpl_at_operator (p, "**"))
        return tpl_parse_error (p, ENOTSUP, "arguments with * are not supported");
    n->name.size = 0;
    if (at->kind == TPL_TOKEN_NAME && at[1].kind == TPL_TOKEN_OPERATOR && at[1].text.size == 1
        && at[1].text.data[0] == '=') {
        n->name = at->text;
        tpl_pass (p);
        tpl_pass (p);
    }
    return tpl_node_arg (p, n, 0, tpl_parse_expression (p)) == 0 ? n : NULL;
}

/* The arguments in brackets as the list of 'n'. */
static int parse_arguments (struct tpl_parser *p, struct tpl_node *n)
{
    struct tpl_node **end = &n->list;
    bool named = false;

    tpl_pass (p);
    while (!tpl_at_operator (p, ")")) {
        struct tpl_node *argument;

        if (n->list && tpl_want_operator (p, ",") < 0)
            return -1;
        if (tpl_at_operator (p, ")"))
            break;
        argument = parse_argument (p);
        if (tpl_node_append (p, n, &end, argument) < 0)
            return -1;
        if (named && argument->name.size == 0) {
            tpl_parse_error (p, EINVAL, "an argument without a name after one with a name");
            return -1;
        }
        named |= argument->name.size > 0;
    }
    tpl_pass (p);
    return 0;
}

static int find_param (const struct tpl_function *f, struct tpl_text name)
{
    for (int i = 0; i < TPL_PARAMS_MAX && f->param[i]; i++)
        if (tpl_same (name, (struct tpl_text){ f->param[i], strlen (f->param[i]) }))
            return i;
    return -1;
}

/* Put the arguments of a filter, test or method in the places of its parameters. */
static struct tpl_node *bind (struct tpl_parser *p, struct tpl_node *n)
{
    const struct tpl_function *f = n->function;
    int position = 0;

    if (strcmp (f->name, "map") == 0 && n->list && n->list->name.size == 0)
        return tpl_parse_error (p, ENOTSUP, "map with a filter is not supported");
    for (struct tpl_node *a = n->list; a; a = a->next) {
        int which = a->name.size ? find_param (f, a->name) : position++;

        if (which < 0)
            return tpl_parse_error (p, ENOTSUP, "%s: argument %.*s is not supported", f->name,
                                    (int)a->name.size, a->name.data);
        if (which >= TPL_PARAMS_MAX || !f->param[which])
            return tpl_parse_error (p, ENOTSUP, "%s: %d arguments are not supported", f->name,
                                    which + 1);
        if (n->arg[1 + which])
            return tpl_parse_error (p, EINVAL, "%s: argument %s is given twice", f->name,
                                    f->param[which]);
        n->arg[1 + which] = a->arg[0];
    }
    n->list = NULL;
    for (int i = 0; i < f->required; i++)
        if (!n->arg[1 + i])
            return tpl_parse_error (p, EINVAL, "%s: argument %s is missing", f->name,
                                    f->param[i]);
    return n;
}

/* A filter, test or method of a value; its name is the token. */
static struct tpl_node *function (struct tpl_parser *p, const struct tpl_token *name,
                                  const struct tpl_function *f, const char *what,
                                  struct tpl_node *value)
{
    struct tpl_node *n;

    if (!f || (what[4] != 'm' && name[1].kind == TPL_TOKEN_OPERATOR && name[1].text.size == 1
               && name[1].text.data[0] == '.'))
        return tpl_parse_error (p, ENOTSUP, "%s \"%.*s%s\" is not supported", what,
                                (int)name->text.size, name->text.data, f ? "." : "");
    n = one (p, TPL_NODE_FUNCTION, name, value);
    if (n)
        n->function = f;
    return n;
}

/* --- what follows a value --- */

/* x.name, x.name (...), x.0 */
static struct tpl_node *parse_attribute (struct tpl_parser *p, struct tpl_node *value)
{
    const struct tpl_token *dot = tpl_pass (p), *name = p->at;
    struct tpl_node *n;

    if (name->kind == TPL_TOKEN_INT)
        return two (p, TPL_NODE_ITEM, dot, value, parse_primary (p));
    if (name->kind != TPL_TOKEN_NAME)
        return tpl_parse_error (p, EINVAL, "a name is missing behind \".\"");
    if (name->text.size >= 2 && memcmp (name->text.data, "__", 2) == 0)
        return tpl_parse_error (p, ENOTSUP, "attribute %.*s is not supported",
                                (int)name->text.size, name->text.data);
    tpl_pass (p);
    if (!tpl_at_operator (p, "("))
        return one (p, TPL_NODE_ATTRIBUTE, name, value);
    p->at--;
    n = function (p, name, tpl_find_method (name->text), "the method", value);
    tpl_pass (p);
    return n && parse_arguments (p, n) == 0 ? bind (p, n) : NULL;
}

/* A bound of a slice, if there is one. */
static int parse_bound (struct tpl_parser *p, struct tpl_node *n, int which)
{
    if (tpl_at_operator (p, ":") || tpl_at_operator (p, "]"))
        return 0;
    return tpl_node_arg (p, n, which, tpl_parse_expression (p));
}

static struct tpl_node *parse_subscript (struct tpl_parser *p, struct tpl_node *value)
{
    struct tpl_node *n = one (p, TPL_NODE_SLICE, tpl_pass (p), value);

    if (!n || parse_bound (p, n, 1) < 0)
        return NULL;
    if (!tpl_at_operator (p, ":")) {
        n->kind = TPL_NODE_ITEM;
        if (!n->arg[1])
            return tpl_parse_error (p, EINVAL, "nothing in [ ]");
    }
    for (int i = 2; i <= 3 && tpl_pass_operator (p, ":"); i++)
        if (parse_bound (p, n, i) < 0)
            return NULL;
    if (tpl_at_operator (p, ","))
        return tpl_parse_error (p, ENOTSUP, "a tuple in [ ] is not supported");
    return tpl_want_operator (p, "]") == 0 ? n : NULL;
}

static struct tpl_node *parse_call (struct tpl_parser *p, struct tpl_node *callee)
{
    if (callee->kind != TPL_NODE_NAME)
        return tpl_parse_error (p, ENOTSUP, "a call of what is no name is not supported");
    callee->kind = TPL_NODE_CALL;
    callee->other = p->calls;
    p->calls = callee;
    return parse_arguments (p, callee) == 0 ? callee : NULL;
}

static struct tpl_node *parse_postfix (struct tpl_parser *p, struct tpl_node *n)
{
    while (n) {
        if (tpl_at_operator (p, "."))
            n = parse_attribute (p, n);
        else if (tpl_at_operator (p, "["))
            n = parse_subscript (p, n);
        else if (tpl_at_operator (p, "("))
            n = parse_call (p, n);
        else
            break;
    }
    return n;
}

static struct tpl_node *parse_filter (struct tpl_parser *p, struct tpl_node *value)
{
    const struct tpl_token *name;
    struct tpl_node *n;

    tpl_pass (p);
    name = p->at;
    if (name->kind != TPL_TOKEN_NAME)
        return tpl_parse_error (p, EINVAL, "the name of a filter is missing");
    n = function (p, name, tpl_find_filter (name->text), "the filter", value);
    tpl_pass (p);
    if (!n || (tpl_at_operator (p, "(") && parse_arguments (p, n) < 0))
        return NULL;
    if (strcmp (n->function->name, "safe") == 0)
        p->safe = n;
    return bind (p, n);
}

/* The argument of a test without brackets. */
static int parse_test_argument (struct tpl_parser *p, struct tpl_node *n)
{
    static const char *const ends[] = { "else", "or", "and" };
    bool begins = p->at->kind == TPL_TOKEN_STRING || p->at->kind == TPL_TOKEN_INT
                  || p->at->kind == TPL_TOKEN_FLOAT || tpl_at_operator (p, "[")
                  || tpl_at_operator (p, "{")
                  || (p->at->kind == TPL_TOKEN_NAME && !IS_ONE_OF (p->at->text, ends));

    if (!begins)
        return 0;
    n->list = tpl_node_new (p, TPL_NODE_ARGUMENT, p->at);
    if (!n->list)
        return -1;
    n->list->name.size = 0;
    return tpl_node_arg (p, n->list, 0, parse_postfix (p, parse_primary (p)));
}

static struct tpl_node *parse_test (struct tpl_parser *p, struct tpl_node *value)
{
    const struct tpl_token *is = tpl_pass (p), *name;
    bool negated = tpl_pass_name (p, "not");
    struct tpl_node *n;

    name = p->at;
    if (name->kind != TPL_TOKEN_NAME)
        return tpl_parse_error (p, EINVAL, "the name of a test is missing");
    n = function (p, name, tpl_find_test (name->text), "the test", value);
    tpl_pass (p);
    if (!n)
        return NULL;
    if ((tpl_at_operator (p, "(") ? parse_arguments (p, n) : parse_test_argument (p, n)) < 0)
        return NULL;
    n = bind (p, n);
    return n && negated ? one (p, TPL_NODE_NOT, is, n) : n;
}

static struct tpl_node *parse_filters (struct tpl_parser *p, struct tpl_node *n)
{
    while (n) {
        if (tpl_at_operator (p, "|"))
            n = parse_filter (p, n);
        else if (tpl_at_name (p, "is"))
            n = parse_test (p, n);
        else if (tpl_at_operator (p, "("))
            n = parse_call (p, n);
        else
            break;
    }
    return n;
}

/* --- operators, from the one that binds most --- */

static struct tpl_node *parse_unary (struct tpl_parser *p, bool filters)
{
    const struct tpl_token *at = p->at;
    struct tpl_node *n;

    if (tpl_parse_enter (p) < 0)
        return NULL;
    if (tpl_pass_operator (p, "-") || tpl_pass_operator (p, "+"))
        n = one (p, TPL_NODE_SIGN, at, parse_unary (p, false));
    else
        n = parse_primary (p);
    n = parse_postfix (p, n);
    p->nested--;
    return filters ? parse_filters (p, n) : n;
}

typedef struct tpl_node *(*level_f) (struct tpl_parser *p);

/* Operands that one of these operators separates, from left to right. */
static struct tpl_node *parse_binary (struct tpl_parser *p, const char *const *operators,
                                      size_t count, level_f operand)
{
    struct tpl_node *n = operand (p);

    while (n && p->at->kind == TPL_TOKEN_OPERATOR && is_one_of (p->at->text, operators, count)) {
        const struct tpl_token *op = tpl_pass (p);

        n = two (p, TPL_NODE_BINARY, op, n, operand (p));
    }
    return n;
}

static struct tpl_node *parse_operand (struct tpl_parser *p)
{
    return parse_unary (p, true);
}

static struct tpl_node *parse_power (struct tpl_parser *p)
{
    return parse_binary (p, (const char *const[]){ "**" }, 1, parse_operand);
}

static struct tpl_node *parse_product (struct tpl_parser *p)
{
    return parse_binary (p, (const char *const[]){ "*", "/", "//", "%" }, 4, parse_power);
}

static struct tpl_node *parse_concat (struct tpl_parser *p)
{
    return parse_binary (p, (const char *const[]){ "~" }, 1, parse_product);
}

static struct tpl_node *parse_sum (struct tpl_parser *p)
{
    return parse_binary (p, (const char *const[]){ "+", "-" }, 2, parse_concat);
}

/* Pass an operator that compares: its token, or NULL. */
static const struct tpl_token *pass_comparison (struct tpl_parser *p)
{
    static const char *const operators[] = { "==", "!=", ">", ">=", "<", "<=" };

    if (p->at->kind == TPL_TOKEN_OPERATOR && IS_ONE_OF (p->at->text, operators))
        return tpl_pass (p);
    if (tpl_at_name (p, "in"))
        return tpl_pass (p);
    if (tpl_at_name (p, "not") && p->at[1].kind == TPL_TOKEN_NAME && p->at[1].text.size == 2
        && memcmp (p->at[1].text.data, "in", 2) == 0) {
        tpl_pass (p);
        tpl_pass (p);
        return p->at - 2;
    }
    return NULL;
}

static struct tpl_node *parse_comparison (struct tpl_parser *p)
{
    struct tpl_node *first = parse_sum (p), *n = NULL, **end = NULL;
    const struct tpl_token *op;

    while (first && (op = pass_comparison (p))) {
        if (!n) {
            n = one (p, TPL_NODE_COMPARE, op, first);
            if (!n)
                return NULL;
            end = &n->list;
        }
        if (tpl_node_append (p, n, &end, one (p, TPL_NODE_COMPARISON, op, parse_sum (p))) < 0)
            return NULL;
    }
    return n ? n : first;
}

static struct tpl_node *parse_not (struct tpl_parser *p)
{
    const struct tpl_token *at = p->at;
    struct tpl_node *n;

    if (!tpl_pass_name (p, "not"))
        return parse_comparison (p);
    if (tpl_parse_enter (p) < 0)
        return NULL;
    n = one (p, TPL_NODE_NOT, at, parse_not (p));
    p->nested--;
    return n;
}

static struct tpl_node *parse_and (struct tpl_parser *p)
{
    struct tpl_node *n = parse_not (p);

    while (n && tpl_at_name (p, "and")) {
        const struct tpl_token *op = tpl_pass (p);

        n = two (p, TPL_NODE_AND, op, n, parse_not (p));
    }
    return n;
}

static struct tpl_node *parse_or (struct tpl_parser *p)
{
    struct tpl_node *n = parse_and (p);

    while (n && tpl_at_name (p, "or")) {
        const struct tpl_token *op = tpl_pass (p);

        n = two (p, TPL_NODE_OR, op, n, parse_and (p));
    }
    return n;
}

struct tpl_node *tpl_parse_expression (struct tpl_parser *p)
{
    struct tpl_node *n;

    if (tpl_parse_enter (p) < 0)
        return NULL;
    n = parse_or (p);
    while (n && tpl_at_name (p, "if")) {
        n = one (p, TPL_NODE_CHOICE, tpl_pass (p), n);
        if (!n || tpl_node_arg (p, n, 1, parse_or (p)) < 0)
            return NULL;
        if (tpl_pass_name (p, "else") && tpl_node_arg (p, n, 2, tpl_parse_expression (p)) < 0)
            return NULL;
    }
    p->nested--;
    return n;
}

/* True if a tuple without brackets ends here. */
static bool ends_tuple (const struct tpl_parser *p)
{
    return p->at->kind == TPL_TOKEN_OUTPUT_END || p->at->kind == TPL_TOKEN_TAG_END
           || tpl_at_operator (p, ")") || p->at->kind == TPL_TOKEN_END;
}

struct tpl_node *tpl_parse_tuple (struct tpl_parser *p, bool choice)
{
    const struct tpl_token *at = p->at;
    struct tpl_node *n = choice ? tpl_parse_expression (p) : parse_or (p), *tuple, **end;

    if (!n || !tpl_at_operator (p, ","))
        return n;
    tuple = tpl_node_new (p, TPL_NODE_TUPLE, at);
    if (!tuple)
        return NULL;
    end = &tuple->list;
    while (tpl_node_append (p, tuple, &end, n) == 0) {
        if (!tpl_pass_operator (p, ",") || ends_tuple (p))
            return tuple;
        n = choice ? tpl_parse_expression (p) : parse_or (p);
    }
    return NULL;
}
