/* template_functions - the filters, tests and methods of templates */
#ifndef LIBCORE_SERVE_TEMPLATE_FUNCTIONS_H
#define LIBCORE_SERVE_TEMPLATE_FUNCTIONS_H

#include "libcore/serve/template_value.h"

enum { TPL_PARAMS_MAX = 4 };

/* of[0] is what a filter, test or method applies to; of[1] is the first argument.  An argument that
 * was not given is NULL.
 */
struct tpl_args {
    const struct tpl_value *of[1 + TPL_PARAMS_MAX];
};

/* NULL and a text on failure.  The value of a test is true or false. */
typedef const struct tpl_value *(*tpl_function_f) (struct tpl_state *s,
                                                   const struct tpl_args *v);

struct tpl_function {
    const char *name;
    tpl_function_f call;
    int required;                      /* arguments */
    const char *param[TPL_PARAMS_MAX]; /* names; NULL ends them */
};

/* NULL if there is none of the name. */
const struct tpl_function *tpl_find_filter (struct tpl_text name);
const struct tpl_function *tpl_find_test (struct tpl_text name);
const struct tpl_function *tpl_find_method (struct tpl_text name);

/* An attribute of a value (x.name), or an item (x[key]); undefined if there is none. */
const struct tpl_value *tpl_attribute (struct tpl_state *s, const struct tpl_value *v,
                                       struct tpl_text name);
const struct tpl_value *tpl_item (struct tpl_state *s, const struct tpl_value *v,
                                  const struct tpl_value *key);
/* v[from:to:step]; NULL: not given. */
const struct tpl_value *tpl_slice (struct tpl_state *s, const struct tpl_value *v,
                                   const struct tpl_value *const bound[3]);
/* The result of an operator of two characters at most, as "+" or "//". */
const struct tpl_value *tpl_binary (struct tpl_state *s, struct tpl_text op,
                                    const struct tpl_value *a, const struct tpl_value *b);
const struct tpl_value *tpl_negative (struct tpl_state *s, const struct tpl_value *v, bool minus);

/* loop.name; of template_render.c. */
const struct tpl_value *tpl_loop_attribute (struct tpl_state *s, struct tpl_loop *loop,
                                            struct tpl_text name);

/* Append a value as JSON.  'indent' below 0: on one line. */
struct tpl_json_form {
    int64_t indent;
    bool ascii, sorted;
};
int tpl_print_json (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v,
                    const struct tpl_json_form *form);

/* Texts, of template_text.c. */
const struct tpl_value *tpl_text_trim (struct tpl_state *s, struct tpl_text t,
                                       const struct tpl_value *chars, bool left, bool right);
enum tpl_case { TPL_UPPER, TPL_LOWER, TPL_CAPITALIZE, TPL_TITLE_METHOD, TPL_TITLE_FILTER };
const struct tpl_value *tpl_text_case (struct tpl_state *s, struct tpl_text t, enum tpl_case how);
const struct tpl_value *tpl_text_replace (struct tpl_state *s, struct tpl_text t,
                                          struct tpl_text from, struct tpl_text by, int64_t count);
/* NULL as 'separator': at blanks. 'count' below 0: everywhere. */
const struct tpl_value *tpl_text_split (struct tpl_state *s, struct tpl_text t,
                                        const struct tpl_text *separator, int64_t count);
const struct tpl_value *tpl_text_reverse (struct tpl_state *s, struct tpl_text t);

#endif /* LIBCORE_SERVE_TEMPLATE_FUNCTIONS_H */
