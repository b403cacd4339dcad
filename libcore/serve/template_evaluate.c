/* template_evaluate.c - the values of expressions */

#include <errno.h>

#include "libcore/serve/template_render.h"

typedef const struct tpl_value *(*evaluate_f) (struct tpl_state *s, struct tpl_frame *frame,
                                               const struct tpl_node *n);

/* --- variables --- */

struct tpl_frame *tpl_frame_new (struct tpl_state *s, struct tpl_frame *parent)
{
    struct tpl_frame *f = tpl_arena_take (&s->arena, sizeof (*f), s->err);

    if (f)
        f->parent = parent;
    return f;
}

static struct tpl_binding *find_binding (const struct tpl_frame *f, struct tpl_text name)
{
    for (struct tpl_binding *b = f->first; b; b = b->next)
        if (tpl_same (b->name, name))
            return b;
    return NULL;
}

int tpl_frame_set (struct tpl_state *s, struct tpl_frame *frame, struct tpl_text name,
                   const struct tpl_value *v)
{
    struct tpl_binding *b = find_binding (frame, name);

    if (!b) {
        b = tpl_arena_take (&s->arena, sizeof (*b), s->err);
        if (!b)
            return -1;
        b->name = name;
        b->next = frame->first;
        frame->first = b;
    }
    b->value = v;
    return 0;
}

/* A variable, or NULL. */
static const struct tpl_value *find_variable (const struct tpl_frame *f, struct tpl_text name)
{
    for (; f; f = f->parent) {
        struct tpl_binding *b = find_binding (f, name);

        if (b)
            return b->value;
    }
    return NULL;
}

static const struct tpl_value *evaluate_name (struct tpl_state *s, struct tpl_frame *frame,
                                              const struct tpl_node *n)
{
    const struct tpl_value *v = find_variable (frame, n->name);

    if (!v && tpl_is_global (n->name))
        return tpl_new (s, TPL_FUNCTION);
    return v ? v : &tpl_undefined;
}

static const struct tpl_value *evaluate_constant (struct tpl_state *s, struct tpl_frame *frame,
                                                  const struct tpl_node *n)
{
    (void)s;
    (void)frame;
    return n->constant;
}

/* --- lists and dicts --- */

static const struct tpl_value *evaluate_list (struct tpl_state *s, struct tpl_frame *frame,
                                              const struct tpl_node *n)
{
    struct tpl_value *v;
    size_t count = 0, i = 0;

    for (const struct tpl_node *item = n->list; item; item = item->next)
        count++;
    v = tpl_seq (s, n->kind == TPL_NODE_LIST ? TPL_LIST : TPL_TUPLE, count);
    for (const struct tpl_node *item = n->list; v && item; item = item->next)
        if (!(v->seq.item[i++] = tpl_evaluate (s, frame, item)))
            return NULL;
    return v;
}

static const struct tpl_value *evaluate_dict (struct tpl_state *s, struct tpl_frame *frame,
                                              const struct tpl_node *n)
{
    struct tpl_value *v = tpl_dict_new (s, TPL_DICT, 4);

    for (const struct tpl_node *pair = n->list; v && pair; pair = pair->next) {
        const struct tpl_value *key = tpl_evaluate (s, frame, pair->arg[0]);
        const struct tpl_value *value = key ? tpl_evaluate (s, frame, pair->arg[1]) : NULL;

        if (!value || tpl_dict_set (s, v->dict, key, value) < 0)
            return NULL;
    }
    return v;
}

/* --- operators --- */

static const struct tpl_value *evaluate_not (struct tpl_state *s, struct tpl_frame *frame,
                                             const struct tpl_node *n)
{
    const struct tpl_value *v = tpl_evaluate (s, frame, n->arg[0]);

    return v ? tpl_bool (!tpl_truth (v)) : NULL;
}

static const struct tpl_value *evaluate_sign (struct tpl_state *s, struct tpl_frame *frame,
                                              const struct tpl_node *n)
{
    const struct tpl_value *v = tpl_evaluate (s, frame, n->arg[0]);

    return v ? tpl_negative (s, v, n->name.data[0] == '-') : NULL;
}

static const struct tpl_value *evaluate_logic (struct tpl_state *s, struct tpl_frame *frame,
                                               const struct tpl_node *n)
{
    const struct tpl_value *v = tpl_evaluate (s, frame, n->arg[0]);

    if (!v || tpl_truth (v) == (n->kind == TPL_NODE_OR))
        return v;
    return tpl_evaluate (s, frame, n->arg[1]);
}

static const struct tpl_value *evaluate_binary (struct tpl_state *s, struct tpl_frame *frame,
                                                const struct tpl_node *n)
{
    const struct tpl_value *a = tpl_evaluate (s, frame, n->arg[0]);
    const struct tpl_value *b = a ? tpl_evaluate (s, frame, n->arg[1]) : NULL;

    return b ? tpl_binary (s, n->name, a, b) : NULL;
}

/* 1, 0 or -1 on failure. */
static int compare (struct tpl_state *s, struct tpl_text op, const struct tpl_value *a,
                    const struct tpl_value *b)
{
    int order = 0, found;

    switch (op.data[0]) {
    case 'i':
        return tpl_contains (s, b, a);
    case 'n':
        found = tpl_contains (s, b, a);
        return found < 0 ? -1 : !found;
    case '=':
        return tpl_equal (s, a, b);
    case '!':
        found = tpl_equal (s, a, b);
        return found < 0 ? -1 : !found;
    default:
        if (tpl_compare (s, a, b, &order) < 0)
            return -1;
    }
    if (order == 0)
        return op.size == 2;
    return op.data[0] == '<' ? order < 0 : order > 0;
}

static const struct tpl_value *evaluate_compare (struct tpl_state *s, struct tpl_frame *frame,
                                                 const struct tpl_node *n)
{
    const struct tpl_value *left = tpl_evaluate (s, frame, n->arg[0]), *right;

    for (const struct tpl_node *c = n->list; left && c; c = c->next) {
        int holds;

        right = tpl_evaluate (s, frame, c->arg[0]);
        holds = right ? compare (s, c->name, left, right) : -1;
        if (holds <= 0)
            return holds < 0 ? NULL : &tpl_false;
        left = right;
    }
    return left ? &tpl_true : NULL;
}

static const struct tpl_value *evaluate_choice (struct tpl_state *s, struct tpl_frame *frame,
                                                const struct tpl_node *n)
{
    const struct tpl_value *condition = tpl_evaluate (s, frame, n->arg[1]);

    if (!condition)
        return NULL;
    if (tpl_truth (condition))
        return tpl_evaluate (s, frame, n->arg[0]);
    return n->arg[2] ? tpl_evaluate (s, frame, n->arg[2]) : &tpl_undefined;
}

/* --- what follows a value --- */

static const struct tpl_value *evaluate_attribute (struct tpl_state *s, struct tpl_frame *frame,
                                                   const struct tpl_node *n)
{
    const struct tpl_value *v = tpl_evaluate (s, frame, n->arg[0]);

    return v ? tpl_attribute (s, v, n->name) : NULL;
}

static const struct tpl_value *evaluate_item (struct tpl_state *s, struct tpl_frame *frame,
                                              const struct tpl_node *n)
{
    const struct tpl_value *v = tpl_evaluate (s, frame, n->arg[0]);
    const struct tpl_value *key = v ? tpl_evaluate (s, frame, n->arg[1]) : NULL;

    return key ? tpl_item (s, v, key) : NULL;
}

/* The values of the arguments; NULL for those that are not given. */
static int evaluate_args (struct tpl_state *s, struct tpl_frame *frame, const struct tpl_node *n,
                          struct tpl_args *to)
{
    for (int i = 0; i < 1 + TPL_PARAMS_MAX; i++) {
        to->of[i] = n->arg[i] ? tpl_evaluate (s, frame, n->arg[i]) : NULL;
        if (n->arg[i] && !to->of[i])
            return -1;
    }
    return 0;
}

static const struct tpl_value *evaluate_slice (struct tpl_state *s, struct tpl_frame *frame,
                                               const struct tpl_node *n)
{
    struct tpl_args v;

    return evaluate_args (s, frame, n, &v) < 0 ? NULL : tpl_slice (s, v.of[0], v.of + 1);
}

static const struct tpl_value *evaluate_function (struct tpl_state *s, struct tpl_frame *frame,
                                                  const struct tpl_node *n)
{
    struct tpl_args v;

    return evaluate_args (s, frame, n, &v) < 0 ? NULL : n->function->call (s, &v);
}

static const struct tpl_value *evaluate_call (struct tpl_state *s, struct tpl_frame *frame,
                                              const struct tpl_node *n)
{
    const struct tpl_value *callee = find_variable (frame, n->name), *v;
    bool known = false;

    if (callee && callee->kind == TPL_MACRO)
        return tpl_call_macro (s, frame, callee->macro, n);
    v = callee ? NULL : tpl_call_global (s, frame, n, &known);
    if (known)
        return v;
    return tpl_fail (s, "%.*s is %s, which cannot be called", (int)n->name.size, n->name.data,
                     tpl_kind_name (callee ? callee : &tpl_undefined));
}

static const evaluate_f functions[] = {
    [TPL_NODE_CONSTANT] = evaluate_constant,   [TPL_NODE_NAME] = evaluate_name,
    [TPL_NODE_LIST] = evaluate_list,           [TPL_NODE_TUPLE] = evaluate_list,
    [TPL_NODE_DICT] = evaluate_dict,           [TPL_NODE_NOT] = evaluate_not,
    [TPL_NODE_SIGN] = evaluate_sign,           [TPL_NODE_AND] = evaluate_logic,
    [TPL_NODE_OR] = evaluate_logic,            [TPL_NODE_BINARY] = evaluate_binary,
    [TPL_NODE_COMPARE] = evaluate_compare,     [TPL_NODE_CHOICE] = evaluate_choice,
    [TPL_NODE_ATTRIBUTE] = evaluate_attribute, [TPL_NODE_ITEM] = evaluate_item,
    [TPL_NODE_SLICE] = evaluate_slice,         [TPL_NODE_FUNCTION] = evaluate_function,
    [TPL_NODE_CALL] = evaluate_call,
};

const struct tpl_value *tpl_evaluate (struct tpl_state *s, struct tpl_frame *frame,
                                      const struct tpl_node *n)
{
    const struct tpl_value *v;

    if (tpl_enter (s) < 0)
        return NULL;
    v = functions[n->kind](s, frame, n);
    tpl_leave (s);
    return v;
}
