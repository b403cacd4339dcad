/* template_render.c - the text of statements; loops and macros */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_render.h"
#include "libcore/text/utf8.h"

struct chat_template {
    struct tpl_arena arena;
    char *source; /* which tokens borrow */
    struct tpl_node *first;
};

/* How statements ended. */
enum flow { FLOW_FAILED = -1, FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

static enum flow render_list (struct tpl_state *s, struct tpl_frame *frame,
                              struct text_buffer *out, const struct tpl_node *first);

/* --- loops --- */

/* Set the names of a target. */
static int assign (struct tpl_state *s, struct tpl_frame *frame, const struct tpl_node *target,
                   const struct tpl_value *v)
{
    const struct tpl_value *items;
    size_t i = 0;

    if (target->kind == TPL_NODE_NAME)
        return tpl_frame_set (s, frame, target->name, v);
    items = tpl_iterate (s, v);
    if (!items)
        return -1;
    for (const struct tpl_node *name = target->list; name; name = name->next, i++)
        if (i < items->seq.count && tpl_frame_set (s, frame, name->name, items->seq.item[i]) < 0)
            return -1;
    if (i != items->seq.count) {
        tpl_fail (s, "%zu values for %zu names", items->seq.count, i);
        return -1;
    }
    return 0;
}

/* Find out whether an item passes the filter of its loop. -1 on failure. */
static int passes (struct tpl_state *s, const struct tpl_loop *l, const struct tpl_value *item)
{
    struct tpl_frame *frame;
    const struct tpl_value *v;

    if (!l->node->arg[2])
        return 1;
    frame = tpl_frame_new (s, l->frame);
    if (!frame || assign (s, frame, l->node->arg[0], item) < 0)
        return -1;
    v = tpl_evaluate (s, frame, l->node->arg[2]);
    return v ? tpl_truth (v) : -1;
}

/* Find items until there are 'count', or no more. */
static int find_items (struct tpl_state *s, struct tpl_loop *l, size_t count)
{
    while (l->count < count && l->tried < l->source->seq.count) {
        const struct tpl_value *item = l->source->seq.item[l->tried++];
        int pass = passes (s, l, item);

        if (pass < 0)
            return -1;
        if (pass)
            l->item[l->count++] = item;
    }
    return 0;
}

static const struct tpl_value *item_or_undefined (const struct tpl_loop *l, size_t at)
{
    return at < l->count ? l->item[at] : &tpl_undefined;
}

const struct tpl_value *tpl_loop_attribute (struct tpl_state *s, struct tpl_loop *l,
                                            struct tpl_text name)
{
    const struct tpl_value v = { .kind = TPL_STRING, .text = name };
    bool all = tpl_is_text (&v, "length") || tpl_is_text (&v, "revindex")
               || tpl_is_text (&v, "revindex0");

    if (tpl_is_text (&v, "index"))
        return tpl_int (s, (int64_t)l->at + 1);
    if (tpl_is_text (&v, "index0"))
        return tpl_int (s, (int64_t)l->at);
    if (tpl_is_text (&v, "first"))
        return tpl_bool (l->at == 0);
    if (tpl_is_text (&v, "previtem"))
        return l->at ? l->item[l->at - 1] : &tpl_undefined;
    if (find_items (s, l, all ? SIZE_MAX : l->at + 2) < 0)
        return NULL;
    if (tpl_is_text (&v, "length"))
        return tpl_int (s, (int64_t)l->count);
    if (tpl_is_text (&v, "revindex"))
        return tpl_int (s, (int64_t)(l->count - l->at));
    if (tpl_is_text (&v, "revindex0"))
        return tpl_int (s, (int64_t)(l->count - l->at - 1));
    if (tpl_is_text (&v, "last"))
        return tpl_bool (l->at + 1 >= l->count);
    if (tpl_is_text (&v, "nextitem"))
        return item_or_undefined (l, l->at + 1);
    return tpl_refuse (s, "loop.%.*s is not supported", (int)name.size, name.data);
}

static enum flow render_pass (struct tpl_state *s, struct tpl_loop *l, const struct tpl_value *loop,
                              struct text_buffer *out)
{
    struct tpl_frame *frame = tpl_frame_new (s, l->frame);

    if (!frame || tpl_frame_set (s, frame, (struct tpl_text){ "loop", 4 }, loop) < 0
        || assign (s, frame, l->node->arg[0], l->item[l->at]) < 0)
        return FLOW_FAILED;
    return render_list (s, frame, out, l->node->list);
}

static struct tpl_value *loop_new (struct tpl_state *s, struct tpl_frame *frame,
                                   const struct tpl_node *n)
{
    struct tpl_value *v = tpl_new (s, TPL_LOOP);
    const struct tpl_value *source = tpl_evaluate (s, frame, n->arg[1]);
    struct tpl_loop *l = tpl_arena_take (&s->arena, sizeof (*l), s->err);

    source = source ? tpl_iterate (s, source) : NULL;
    if (!v || !source || !l)
        return NULL;
    l->node = n;
    l->frame = frame;
    l->source = source;
    l->item = tpl_arena_take (&s->arena, source->seq.count * sizeof (l->item[0]), s->err);
    v->loop = l;
    return l->item ? v : NULL;
}

static enum flow render_for (struct tpl_state *s, struct tpl_frame *frame, struct text_buffer *out,
                             const struct tpl_node *n)
{
    struct tpl_value *v = loop_new (s, frame, n);
    struct tpl_loop *l = v ? v->loop : NULL;
    bool completed = false; /* a pass, without break and continue: Jinja's else asks for that */

    if (!l)
        return FLOW_FAILED;
    for (l->at = 0;; l->at++) {
        enum flow flow;

        if (find_items (s, l, l->at + 1) < 0)
            return FLOW_FAILED;
        if (l->at >= l->count)
            break;
        flow = render_pass (s, l, v, out);
        if (flow == FLOW_FAILED)
            return flow;
        if (flow == FLOW_BREAK)
            break;
        completed |= flow == FLOW_NEXT;
    }
    if (completed || !n->other)
        return FLOW_NEXT;
    frame = tpl_frame_new (s, frame);
    return frame ? render_list (s, frame, out, n->other) : FLOW_FAILED;
}

/* --- macros --- */

static const struct tpl_node *find_parameter (const struct tpl_node *macro, struct tpl_text name)
{
    for (const struct tpl_node *p = macro->other; p; p = p->next)
        if (tpl_same (p->name, name))
            return p;
    return NULL;
}

static bool has_variable (const struct tpl_frame *f, struct tpl_text name)
{
    for (const struct tpl_binding *b = f->first; b; b = b->next)
        if (tpl_same (b->name, name))
            return true;
    return false;
}

/* Set the parameters that a call gives. */
static int give_arguments (struct tpl_state *s, struct tpl_frame *to, struct tpl_frame *frame,
                           const struct tpl_node *macro, const struct tpl_node *call)
{
    const struct tpl_node *next = macro->other;

    for (const struct tpl_node *a = call->list; a; a = a->next) {
        const struct tpl_node *p = a->name.size ? find_parameter (macro, a->name) : next;
        const struct tpl_value *v = tpl_evaluate (s, frame, a->arg[0]);

        if (!v)
            return -1;
        if (!p || has_variable (to, p->name)) {
            tpl_fail (s, "%.*s: too many arguments, or one that it does not have",
                      (int)macro->name.size, macro->name.data);
            return -1;
        }
        if (tpl_frame_set (s, to, p->name, v) < 0)
            return -1;
        next = a->name.size ? next : next->next;
    }
    return 0;
}

static int give_defaults (struct tpl_state *s, struct tpl_frame *to, const struct tpl_node *macro)
{
    for (const struct tpl_node *p = macro->other; p; p = p->next) {
        const struct tpl_value *v = &tpl_undefined;

        if (has_variable (to, p->name))
            continue;
        if (p->arg[0] && !(v = tpl_evaluate (s, to, p->arg[0])))
            return -1;
        if (tpl_frame_set (s, to, p->name, v) < 0)
            return -1;
    }
    return 0;
}

/* The text of statements, as a string.  NULL on failure, or if they leave a loop, which '*flow'
 * says.
 */
static const struct tpl_value *capture (struct tpl_state *s, struct tpl_frame *frame,
                                        const struct tpl_node *first, enum flow *flow)
{
    struct text_buffer b = { .data = NULL };
    const struct tpl_value *v;

    *flow = render_list (s, frame, &b, first);
    if (*flow != FLOW_NEXT) {
        text_buffer_clear (&b);
        return NULL;
    }
    v = tpl_string_take (s, &b);
    *flow = v ? FLOW_NEXT : FLOW_FAILED;
    return v;
}

const struct tpl_value *tpl_call_macro (struct tpl_state *s, struct tpl_frame *frame,
                                        const struct tpl_macro_value *macro,
                                        const struct tpl_node *call)
{
    struct tpl_frame *to = tpl_frame_new (s, macro->frame);
    enum flow flow;

    if (!to || give_arguments (s, to, frame, macro->node, call) < 0
        || give_defaults (s, to, macro->node) < 0)
        return NULL;
    return capture (s, to, macro->node->list, &flow);
}

static enum flow render_macro (struct tpl_state *s, struct tpl_frame *frame,
                               const struct tpl_node *n)
{
    struct tpl_value *v = tpl_new (s, TPL_MACRO);
    struct tpl_macro_value *m = tpl_arena_take (&s->arena, sizeof (*m), s->err);

    if (!v || !m)
        return FLOW_FAILED;
    m->node = n;
    m->frame = frame;
    v->macro = m;
    return tpl_frame_set (s, frame, n->name, v) < 0 ? FLOW_FAILED : FLOW_NEXT;
}

/* --- other statements --- */

static enum flow set_member (struct tpl_state *s, struct tpl_frame *frame,
                             const struct tpl_node *target, const struct tpl_value *v)
{
    const struct tpl_value *ns = tpl_evaluate (s, frame, target->arg[0]);
    const struct tpl_value *key = tpl_string (s, target->name.data, target->name.size);

    if (!ns || !key)
        return FLOW_FAILED;
    if (ns->kind != TPL_NAMESPACE) {
        tpl_fail (s, "an attribute of %s cannot be set", tpl_kind_name (ns));
        return FLOW_FAILED;
    }
    return tpl_dict_set (s, ns->dict, key, v) < 0 ? FLOW_FAILED : FLOW_NEXT;
}

static enum flow render_set (struct tpl_state *s, struct tpl_frame *frame,
                             const struct tpl_node *n)
{
    enum flow flow = FLOW_FAILED;
    const struct tpl_value *v;

    if (n->kind == TPL_NODE_SET)
        v = tpl_evaluate (s, frame, n->arg[1]);
    else {
        struct tpl_frame *inner = tpl_frame_new (s, frame);

        v = inner ? capture (s, inner, n->list, &flow) : NULL;
    }
    if (!v)
        return flow;
    if (n->arg[0]->kind == TPL_NODE_ATTRIBUTE)
        return set_member (s, frame, n->arg[0], v);
    return assign (s, frame, n->arg[0], v) < 0 ? FLOW_FAILED : FLOW_NEXT;
}

static enum flow render_if (struct tpl_state *s, struct tpl_frame *frame, struct text_buffer *out,
                            const struct tpl_node *n)
{
    for (const struct tpl_node *b = n->list; b; b = b->next) {
        const struct tpl_value *v = b->arg[0] ? tpl_evaluate (s, frame, b->arg[0]) : &tpl_true;

        if (!v)
            return FLOW_FAILED;
        if (tpl_truth (v))
            return render_list (s, frame, out, b->list);
    }
    return FLOW_NEXT;
}

static enum flow render_output (struct tpl_state *s, struct tpl_frame *frame,
                                struct text_buffer *out, const struct tpl_node *n)
{
    const struct tpl_value *v = tpl_evaluate (s, frame, n->arg[0]);

    return !v || tpl_print (s, out, v) < 0 ? FLOW_FAILED : FLOW_NEXT;
}

static enum flow render_one (struct tpl_state *s, struct tpl_frame *frame,
                             struct text_buffer *out, const struct tpl_node *n)
{
    switch (n->kind) {
    case TPL_NODE_TEXT:
        return tpl_print (s, out, n->constant) < 0 ? FLOW_FAILED : FLOW_NEXT;
    case TPL_NODE_OUTPUT:
        return render_output (s, frame, out, n);
    case TPL_NODE_IF:
        return render_if (s, frame, out, n);
    case TPL_NODE_FOR:
        return render_for (s, frame, out, n);
    case TPL_NODE_MACRO:
        return render_macro (s, frame, n);
    case TPL_NODE_BLOCK:
        return render_list (s, frame, out, n->list);
    case TPL_NODE_BREAK:
        return FLOW_BREAK;
    case TPL_NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        return render_set (s, frame, n);
    }
}

/* Put the line in front of an error, once. */
static void add_line (struct tpl_state *s, int line)
{
    if (!s->located)
        mg_error_prefix (s->err, "line %d", line);
    s->located = true;
}

static enum flow render_list (struct tpl_state *s, struct tpl_frame *frame,
                              struct text_buffer *out, const struct tpl_node *first)
{
    for (const struct tpl_node *n = first; n; n = n->next) {
        enum flow flow = FLOW_FAILED;

        if (tpl_enter (s) == 0) {
            flow = render_one (s, frame, out, n);
            tpl_leave (s);
        }
        if (flow == FLOW_FAILED)
            add_line (s, n->line);
        if (flow != FLOW_NEXT)
            return flow;
    }
    return FLOW_NEXT;
}

/* --- the whole --- */

/* The source with "\n" at the ends of lines, without the last of them. */
static struct tpl_text normalize (char *to, const char *text, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r') {
            to[n++] = '\n';
            i += i + 1 < size && text[i + 1] == '\n';
        } else
            to[n++] = text[i];
    }
    n -= n > 0 && to[n - 1] == '\n';
    return (struct tpl_text){ to, n };
}

static int read_template (struct chat_template *t, const char *text, size_t size,
                          struct mg_error *err)
{
    struct tpl_tokens tokens = { .token = NULL };
    struct tpl_state s = { .arena.limit = (size_t)1 << 30, .steps = LONG_MAX, .err = err };
    int rc = tpl_lex (&tokens, normalize (t->source, text, size), &s.arena, err);
    int errnum;

    if (rc == 0)
        rc = tpl_parse (&t->first, &tokens, &s);
    errnum = errno;
    tpl_tokens_clear (&tokens);
    t->arena = s.arena;
    errno = errnum;
    return rc;
}

struct chat_template *chat_template_create (const char *text, size_t size, struct mg_error *err)
{
    struct chat_template *t;

    if (size > TEMPLATE_BYTES_MAX) {
        mg_error_set (err, EINVAL, "a template of %zu bytes: at most %d are allowed", size,
                      TEMPLATE_BYTES_MAX);
        return NULL;
    }
    if (utf8_find_stray (text, size, 0) != size) {
        mg_error_set (err, EINVAL, "the template is not valid UTF-8");
        return NULL;
    }
    t = calloc (1, sizeof (*t));
    if (t)
        t->source = malloc (size + 1);
    if (!t || !t->source) {
        mg_error_set (err, ENOMEM, "no memory for a template");
        chat_template_destroy (t);
        return NULL;
    }
    if (read_template (t, text, size, err) < 0) {
        chat_template_destroy (t);
        return NULL;
    }
    return t;
}

void chat_template_destroy (struct chat_template *t)
{
    int errnum = errno;

    if (!t)
        return;
    tpl_arena_clear (&t->arena);
    free (t->source);
    free (t);
    errno = errnum;
}

/* The variables of a rendering, in a frame. */
static struct tpl_frame *make_globals (struct tpl_state *s, const json_t *variables)
{
    struct tpl_frame *frame = tpl_frame_new (s, NULL);
    const char *key;
    json_t *value;

    if (!frame)
        return NULL;
    json_object_foreach ((json_t *)variables, key, value) {
        const struct tpl_value *v = tpl_from_json (s, value);

        if (!v || tpl_frame_set (s, frame, (struct tpl_text){ key, strlen (key) }, v) < 0)
            return NULL;
    }
    return tpl_frame_new (s, frame);
}

int chat_template_render (const struct chat_template *t, const json_t *variables,
                          struct text_buffer *out, struct mg_error *err)
{
    struct tpl_state s = { .arena.limit = TEMPLATE_MEMORY_MAX, .steps = TEMPLATE_STEPS_MAX,
                           .text_left = 4 * (size_t)TEMPLATE_OUTPUT_MAX, .err = err };
    struct tpl_frame *frame = make_globals (&s, variables);
    struct text_buffer b = { .data = NULL };
    int rc = frame && render_list (&s, frame, &b, t->first) != FLOW_FAILED ? 0 : -1, errnum;

    if (rc == 0)
        rc = text_buffer_append (out, b.data, b.size, err);
    errnum = errno;
    text_buffer_clear (&b);
    tpl_arena_clear (&s.arena);
    errno = errnum;
    return rc;
}
