/* json_text - JSON as Python's json module reads it, as values of jansson
 *
 * Python's grammar is that of RFC 8259, with the words NaN, Infinity and -Infinity as
 * further numbers.  Some values of this grammar do not exist in jansson, and are
 * converted:
 *
 *     NaN, Infinity, -Infinity   become strings of these letters
 *     a number beyond a double   becomes the largest double of its sign
 *     a surrogate without its other half in a string   becomes U+FFFD
 *     U+0000 in a key            becomes U+FFFD, or JSON_TEXT_NUL with JSON_TEXT_NULS
 *
 * Of members of the same name, the last one counts.  Values may be nested JSON_TEXT_DEPTH deep.
 */
#ifndef LIBCORE_TEXT_JSON_TEXT_H
#define LIBCORE_TEXT_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "libcore/text/text_buffer.h"

enum { JSON_TEXT_DEPTH = 2048 };

/* The replacement of U+0000: two bytes that never occur in valid UTF-8. */
#define JSON_TEXT_NUL "\xc0\x80"

enum json_text_flags {
    JSON_TEXT_UNIQUE = 1, /* two members of the same name are a fault */
    JSON_TEXT_NULS = 2,   /* JSON_TEXT_NUL replaces U+0000 in keys and strings, so that no
                           * value of jansson has a NUL inside */
    JSON_TEXT_STRICT = 4, /* Rust's serde_json: NaN, Infinity, numbers beyond a double and
                           * surrogates without their other half are faults */
};

/* A fault of a text. */
struct json_text_fault {
    const char *what; /* a constant */
    size_t line;      /* from 1 on */
    size_t at;        /* offset of the byte, from 0 on */
};

/* Read a text of one value.  NULL with errno EINVAL and '*fault', or ENOMEM, which
 * fault->what names, too.  The caller owns the result. */
json_t *json_text_parse (const char *text, size_t size, unsigned flags,
                         struct json_text_fault *fault);

/* Read a text whose value is an object, and keep only the members that 'keys' names;
 * other members are checked and dropped.  'values' gets a value for each key, NULL if
 * there is no such member.  The caller owns the values.  NaN, Infinity, and a surrogate
 * without its other half, are faults in these values.  If the text's value is no object,
 * '*other' is set to the value, which the caller owns, and all of 'values' is NULL.  0,
 * or -1 with errno EINVAL, ENOMEM and '*fault'. */
int json_text_members (const char *text, size_t size, char *const *keys, size_t num_keys,
                       json_t **values, json_t **other, struct json_text_fault *fault);

/* Append the bytes of a string that was read with JSON_TEXT_NULS.  -1 with errno ENOMEM. */
int json_text_append (struct text_buffer *to, const char *string, struct mg_error *err);

#endif /* LIBCORE_TEXT_JSON_TEXT_H */
