/* json_place - the place of a value in a JSON file, which messages name
 *
 * A place is on the stack of the function that reads the value, and points to the place
 * of the value's parent.
 */
#ifndef LIBCORE_TEXT_JSON_PLACE_H
#define LIBCORE_TEXT_JSON_PLACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "libcore/text/json_text.h"
#include "megatron/error.h"

struct json_place {
    const char *file;
    const struct json_place *up; /* NULL: the whole file */
    const char *key;             /* NULL: an element of an array, number 'index' */
    size_t index;
};

enum { JSON_PLACE_QUOTE = 64 };

struct json_place json_place_key (const struct json_place *up, const char *key);
struct json_place json_place_index (const struct json_place *up, size_t index);

/* Set "FILE: PATH: TEXT", with a path such as model.merges[3], and errno EINVAL.
 * Returns -1. */
int json_place_error (const struct json_place *place, struct mg_error *err,
                      const char *fmt, ...) __attribute__ ((format (printf, 3, 4)));

/* Convert text of a file for a message: one line, of limited length, cut only between
 * characters. */
const char *json_place_quote (char to[JSON_PLACE_QUOTE], const char *text, size_t size);

/* Parse 'size' bytes as JSON whose outermost value is an object, with the flags of json_text.h.
 * NULL with errno EINVAL and a text that names file and line, or ENOMEM.  The caller owns the
 * result. */
json_t *json_place_parse (const char *file, const char *text, size_t size, unsigned flags,
                          struct mg_error *err);

/* Read a member of the object at 'place'.  0, or -1 if it has another type.  If the
 * member is missing or null, '*value' stays. */
int json_place_bool (const struct json_place *place, const json_t *object,
                     const char *key, bool *value, struct mg_error *err);
int json_place_string (const struct json_place *place, const json_t *object,
                       const char *key, const char **value, struct mg_error *err);

/* Read the member "type" of a value.  The value must be an object, and the member must
 * exist. */
int json_place_type (const struct json_place *place, const json_t *object,
                     const char **type, struct mg_error *err);

/* A function that reads a value.  'depth' is the number of sequences around the value. */
typedef int json_place_fn (void *arg, const struct json_place *place, const json_t *value,
                           int depth, struct mg_error *err);

enum { JSON_PLACE_DEPTH = 8 }; /* the most sequences in one another */

/* Read a sequence: call 'read' for each element of the array that is member 'key' of the object at
 * 'place', until a call fails.  'depth' is that of the object; the elements have one more.  -1 and
 * a text also if the member is not an array, or if the depth is JSON_PLACE_DEPTH.
 */
int json_place_sequence (const struct json_place *place, const json_t *object, const char *key,
                         int depth, json_place_fn *read, void *arg, struct mg_error *err);

#endif /* LIBCORE_TEXT_JSON_PLACE_H */
