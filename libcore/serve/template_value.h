/* template_value - values of a template, as Python has them
 *
 * Values live in the arena of their template or rendering, and do not change, but for namespaces
 * and for generators, which are empty after they have been iterated.
 */
#ifndef LIBCORE_SERVE_TEMPLATE_VALUE_H
#define LIBCORE_SERVE_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "libcore/serve/template_arena.h"
#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

enum tpl_kind {
    TPL_UNDEFINED,
    TPL_NONE,
    TPL_BOOL,
    TPL_INT,
    TPL_FLOAT,
    TPL_STRING,
    TPL_LIST,
    TPL_TUPLE,
    TPL_RANGE,
    TPL_VIEW,      /* of a dict: items, keys, values */
    TPL_GENERATOR, /* of filters */
    TPL_DICT,
    TPL_NAMESPACE,
    TPL_MACRO,
    TPL_FUNCTION, /* a global one, not called */
    TPL_LOOP
};

struct tpl_text {
    const char *data;
    size_t size;
};

struct tpl_value;

struct tpl_pair {
    const struct tpl_value *key, *value;
};

struct tpl_dict {
    struct tpl_pair *pair;
    size_t count, capacity;
};

struct tpl_value {
    enum tpl_kind kind;
    union {
        bool flag;
        int64_t integer;
        double number;
        struct tpl_text text;
        struct {
            const struct tpl_value **item;
            size_t count;
        } seq; /* LIST to GENERATOR */
        struct tpl_dict *dict;         /* DICT, NAMESPACE */
        struct tpl_macro_value *macro; /* of template_render.c */
        struct tpl_loop *loop;         /* the same */
    };
};

extern const struct tpl_value tpl_undefined, tpl_none, tpl_true, tpl_false;

/* What evaluates values: memory, what is left of the limits, the place of errors. */
struct tpl_state {
    struct tpl_arena arena;
    long steps;       /* left */
    size_t text_left; /* bytes that may still be appended to texts */
    int depth;        /* of calls */
    bool located;     /* the error names its line */
    struct mg_error *err;
};

/* All functions below that return NULL or -1 have set a text, unless they say otherwise. */

/* Fail with EINVAL, or ENOTSUP: what Jinja can and this cannot. */
const struct tpl_value *tpl_fail (struct tpl_state *s, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));
const struct tpl_value *tpl_refuse (struct tpl_state *s, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* Count the steps of work on 'bytes' bytes of text. -1 if the template has used up its steps. */
int tpl_work (struct tpl_state *s, size_t bytes);
/* Go a call deeper; tpl_leave() goes back. */
int tpl_enter (struct tpl_state *s);
void tpl_leave (struct tpl_state *s);

struct tpl_value *tpl_new (struct tpl_state *s, enum tpl_kind kind);
const struct tpl_value *tpl_bool (bool flag);
const struct tpl_value *tpl_int (struct tpl_state *s, int64_t i);
const struct tpl_value *tpl_float (struct tpl_state *s, double f);
/* A string that borrows its bytes, and one that copies them. */
const struct tpl_value *tpl_string (struct tpl_state *s, const char *data, size_t size);
const struct tpl_value *tpl_string_copy (struct tpl_state *s, const char *data, size_t size);
/* A string of a buffer, which is cleared, also on failure. */
const struct tpl_value *tpl_string_take (struct tpl_state *s, struct text_buffer *b);
/* A sequence with room for 'count' items. */
struct tpl_value *tpl_seq (struct tpl_state *s, enum tpl_kind kind, size_t count);
struct tpl_value *tpl_dict_new (struct tpl_state *s, enum tpl_kind kind, size_t room);

/* A value of JSON.  It borrows the strings. */
const struct tpl_value *tpl_from_json (struct tpl_state *s, const json_t *json);

const char *tpl_kind_name (const struct tpl_value *v);
bool tpl_is_text (const struct tpl_value *v, const char *text);
bool tpl_same (struct tpl_text a, struct tpl_text b);
bool tpl_truth (const struct tpl_value *v);
/* An int or a bool. */
bool tpl_is_integer (const struct tpl_value *v, int64_t *to);
bool tpl_is_number (const struct tpl_value *v);
double tpl_number (const struct tpl_value *v);

/* 1, 0 or -1 on failure. */
int tpl_equal (struct tpl_state *s, const struct tpl_value *a, const struct tpl_value *b);
int tpl_contains (struct tpl_state *s, const struct tpl_value *in, const struct tpl_value *v);
/* '*order' is below, at or above 0. */
int tpl_compare (struct tpl_state *s, const struct tpl_value *a, const struct tpl_value *b,
                 int *order);

/* Returns the value of a key.  NULL if there is none, or on failure; *failed is true on failure. */
const struct tpl_value *tpl_dict_get (struct tpl_state *s, const struct tpl_dict *d,
                                      const struct tpl_value *key, bool *failed);
int tpl_dict_set (struct tpl_state *s, struct tpl_dict *d, const struct tpl_value *key,
                  const struct tpl_value *value);

/* The items of what can be iterated, as a sequence; a generator is empty afterwards. */
const struct tpl_value *tpl_iterate (struct tpl_state *s, const struct tpl_value *v);
/* The number of items or characters. */
int tpl_length (struct tpl_state *s, const struct tpl_value *v, int64_t *to);

/* Append str (v). */
int tpl_print (struct tpl_state *s, struct text_buffer *to, const struct tpl_value *v);
/* str (v) as a text, which a string lends. */
int tpl_text_of (struct tpl_state *s, const struct tpl_value *v, struct tpl_text *to);
/* Append bytes, within the memory of the values. */
int tpl_append (struct tpl_state *s, struct text_buffer *to, const char *data, size_t size);
/* Append a float as Python's repr(). */
int tpl_print_float (struct tpl_state *s, struct text_buffer *to, double f);

/* Characters of a text. */
size_t tpl_characters (struct tpl_text t);
/* Offset of character 'n', or the size. */
size_t tpl_offset (struct tpl_text t, size_t n);
/* Python's str.isspace() of a character. */
bool tpl_is_space (uint32_t c);

/* Characters from 'from' to 'to', both of them included. */
struct tpl_range {
    uint32_t from, to;
};

/* True if a character is in one of 'count' ranges, which may be in any order. */
bool tpl_in_ranges (uint32_t c, const struct tpl_range *range, size_t count);

#endif /* LIBCORE_SERVE_TEMPLATE_VALUE_H */
