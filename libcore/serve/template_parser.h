/* template_parser - a template as a tree */
#ifndef LIBCORE_SERVE_TEMPLATE_PARSER_H
#define LIBCORE_SERVE_TEMPLATE_PARSER_H

#include "libcore/serve/template_functions.h"
#include "libcore/serve/template_lexer.h"

enum tpl_node_kind {
    /* statements */
    TPL_NODE_TEXT,      /* constant */
    TPL_NODE_OUTPUT,    /* arg[0] */
    TPL_NODE_IF,        /* list: branches */
    TPL_NODE_BRANCH,    /* arg[0] condition, NULL: else; list */
    TPL_NODE_FOR,       /* arg[0] target, arg[1] of what, arg[2] filter or NULL, list, other */
    TPL_NODE_SET,       /* arg[0] target, arg[1] value */
    TPL_NODE_SET_BLOCK, /* arg[0] target, list */
    TPL_NODE_MACRO,     /* name, other: parameters, list */
    TPL_NODE_PARAMETER, /* name, arg[0] default or NULL */
    TPL_NODE_BREAK,
    TPL_NODE_CONTINUE,
    TPL_NODE_BLOCK, /* list */
    /* expressions */
    TPL_NODE_CONSTANT,
    TPL_NODE_NAME,
    TPL_NODE_LIST,  /* list */
    TPL_NODE_TUPLE, /* list; as a target, too */
    TPL_NODE_DICT,  /* list: pairs */
    TPL_NODE_PAIR,  /* arg[0] key, arg[1] value */
    TPL_NODE_NOT,
    TPL_NODE_SIGN, /* name: + or -; arg[0] */
    TPL_NODE_AND,
    TPL_NODE_OR,
    TPL_NODE_BINARY,     /* name: the operator */
    TPL_NODE_COMPARE,    /* arg[0], list: comparisons */
    TPL_NODE_COMPARISON, /* name: the operator, "in" or "not"; arg[0] the right side */
    TPL_NODE_CHOICE,     /* arg[0] if arg[1] else arg[2] or NULL */
    TPL_NODE_ATTRIBUTE,  /* arg[0], name; as a target, of a namespace */
    TPL_NODE_ITEM,       /* arg[0] [arg[1]] */
    TPL_NODE_SLICE,      /* arg[0] [arg[1] : arg[2] : arg[3]] */
    TPL_NODE_FUNCTION,   /* filter, test or method: arg[0], arguments arg[1] on */
    TPL_NODE_CALL,       /* name, list of arguments; */
    TPL_NODE_ARGUMENT    /* name, empty: by position; arg[0] */
};

struct tpl_node {
    enum tpl_node_kind kind;
    int line;
    int depth; /* of the tree below, 1: nothing is below */
    struct tpl_text name;
    const struct tpl_value *constant;
    const struct tpl_function *function;
    struct tpl_node *arg[1 + TPL_PARAMS_MAX];
    struct tpl_node *list, *other; /* the first; 'next' is the following one */
    struct tpl_node *next;
};

/* Read the statements of a template.  Nodes are in the state's arena, and borrow the tokens' texts.
 * *to is NULL for an empty template.  -1 and a text with the line on failure.
 */
int tpl_parse (struct tpl_node **to, const struct tpl_tokens *tokens, struct tpl_state *s);

/* Expressions, of template_expression.c. */
struct tpl_parser {
    const struct tpl_token *at; /* never behind the last one, TPL_TOKEN_END */
    struct tpl_state *s;
    int nested;                  /* constructs that are being read */
    int loops;                   /* open ones */
    const struct tpl_node *safe; /* the last filter "safe" */
    struct tpl_node *calls;      /* of macros, in a list by 'other' */
};

struct tpl_node *tpl_parse_expression (struct tpl_parser *p);
/* One, or a tuple of several, without brackets. 'choice': x if y is allowed. */
struct tpl_node *tpl_parse_tuple (struct tpl_parser *p, bool choice);

/* NULL with EINVAL, or ENOTSUP, and "line N: text". */
struct tpl_node *tpl_parse_error (struct tpl_parser *p, int errnum, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));
struct tpl_node *tpl_node_new (struct tpl_parser *p, enum tpl_node_kind kind,
                               const struct tpl_token *at);
/* Put a node below another one; -1 if the tree is too deep, or 'child' NULL. */
int tpl_node_arg (struct tpl_parser *p, struct tpl_node *n, int which, struct tpl_node *child);
int tpl_node_append (struct tpl_parser *p, struct tpl_node *n, struct tpl_node ***end,
                     struct tpl_node *child);
/* Enter a construct: -1 if too many are open. */
int tpl_parse_enter (struct tpl_parser *p);

bool tpl_at_operator (const struct tpl_parser *p, const char *op);
bool tpl_at_name (const struct tpl_parser *p, const char *name);
/* Pass it, if it is there. */
bool tpl_pass_operator (struct tpl_parser *p, const char *op);
bool tpl_pass_name (struct tpl_parser *p, const char *name);
/* -1 and a text if it is not there. */
int tpl_want_operator (struct tpl_parser *p, const char *op);
/* Pass a token. */
const struct tpl_token *tpl_pass (struct tpl_parser *p);

#endif /* LIBCORE_SERVE_TEMPLATE_PARSER_H */
