/* template_render - frames of variables, and what evaluates expressions in them */
#ifndef LIBCORE_SERVE_TEMPLATE_RENDER_H
#define LIBCORE_SERVE_TEMPLATE_RENDER_H

#include "libcore/serve/template_parser.h"

struct tpl_binding {
    struct tpl_text name;
    const struct tpl_value *value;
    struct tpl_binding *next;
};

/* Variables of a template, of a pass of a loop or of a call.  They live in the arena, as a macro
 * may refer to them later. */
struct tpl_frame {
    struct tpl_frame *parent;
    struct tpl_binding *first;
};

struct tpl_macro_value {
    const struct tpl_node *node;
    struct tpl_frame *frame; /* where it was defined */
};

/* A loop.  Its items are filtered as they are asked for. */
struct tpl_loop {
    const struct tpl_node *node;
    struct tpl_frame *frame; /* around it */
    const struct tpl_value *source;
    size_t tried;                 /* items of the source */
    const struct tpl_value **item; /* those that pass the filter */
    size_t count;
    size_t at; /* the present one */
};

/* NULL and a text that names the line on failure. */
const struct tpl_value *tpl_evaluate (struct tpl_state *s, struct tpl_frame *frame,
                                      const struct tpl_node *n);

struct tpl_frame *tpl_frame_new (struct tpl_state *s, struct tpl_frame *parent);
/* Set a variable of this frame. */
int tpl_frame_set (struct tpl_state *s, struct tpl_frame *frame, struct tpl_text name,
                   const struct tpl_value *v);

/* Call a macro with the arguments of a call. */
const struct tpl_value *tpl_call_macro (struct tpl_state *s, struct tpl_frame *frame,
                                        const struct tpl_macro_value *macro,
                                        const struct tpl_node *call);

/* A call of a global function.  NULL with *known false: there is no such function. */
const struct tpl_value *tpl_call_global (struct tpl_state *s, struct tpl_frame *frame,
                                         const struct tpl_node *call, bool *known);
bool tpl_is_global (struct tpl_text name);

#endif /* LIBCORE_SERVE_TEMPLATE_RENDER_H */
