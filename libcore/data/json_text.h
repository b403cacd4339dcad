/* json_text - JSON as Python's json module reads it, as values of jansson
 *
 * Python's grammar is RFC 8259's and the words NaN, Infinity and -Infinity in place of a number.
 * jansson's values cannot hold all that this grammar has:
 *
 *     NaN, Infinity, -Infinity   become strings of these letters
 *     a number beyond a double   becomes the largest double of its sign
 *     a surrogate without its other half in a string   becomes U+FFFD
 *     U+0000 in a key            becomes U+FFFD, or JSON_TEXT_NUL with JSON_TEXT_NULS
 *
 * Of members of the same name, the last one counts.  Values may be nested JSON_TEXT_DEPTH deep.
 */
#ifndef LIBCORE_DATA_JSON_TEXT_H
#define LIBCORE_DATA_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "libcore/data/text_buffer.h"

enum { JSON_TEXT_DEPTH = 2048 };

/* What stands for U+0000: two bytes that no valid UTF-8 has. */
#define JSON_TEXT_NUL "\xc0\x80"

enum json_text_flags {
    JSON_TEXT_UNIQUE = 1, /* two members of the same name are a fault */
    JSON_TEXT_NULS = 2,   /* JSON_TEXT_NUL stands for U+0000 in keys and strings: no value of
                           * jansson then has a NUL inside */
    JSON_TEXT_STRICT = 4, /* Rust's serde_json: NaN, Infinity, numbers beyond a double and
                           * surrogates without their other half are faults */
};

/* What is wrong with a text. */
struct json_text_fault {
    const char *what; /* a constant */
    size_t line;      /* from 1 on */
    size_t at;        /* offset of the byte, from 0 on */
};

/* Read a text of one value.  NULL with errno EINVAL and '*fault', or ENOMEM, which is in 'what'
 * too.  The caller owns the result. */
json_t *json_text_parse (const char *text, size_t size, unsigned flags,
                         struct json_text_fault *fault);

/* Read a text whose value is an object, and of its members only those named by 'keys': the others
 * are checked and not kept.  'values' gets a value for each key, NULL if there is no such member;
 * the caller owns them.  NaN, Infinity, and a surrogate without its other half, are faults in these
 * values.  If the value is no object, '*other' is set to it, which the caller owns, and 'values'
 * has none.  0, or -1 with errno EINVAL, ENOMEM and '*fault'. */
int json_text_members (const char *text, size_t size, char *const *keys, size_t num_keys,
                       json_t **values, json_t **other, struct json_text_fault *fault);

/* Append the bytes of a string that JSON_TEXT_NULS was given for.  -1 with errno ENOMEM. */
int json_text_append (struct text_buffer *to, const char *string, struct mg_error *err);

#endif /* LIBCORE_DATA_JSON_TEXT_H */
