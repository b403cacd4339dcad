/* json_place - messages with the path of a value */

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libcore/text/json_place.h"

struct json_place json_place_key (const struct json_place *up, const char *key)
{
    return (struct json_place){ up->file, up, key, 0 };
}

struct json_place json_place_index (const struct json_place *up, size_t index)
{
    return (struct json_place){ up->file, up, NULL, index };
}

const char *json_place_quote (char to[JSON_PLACE_QUOTE], const char *text, size_t size)
{
    size_t n = size < JSON_PLACE_QUOTE - 4 ? size : JSON_PLACE_QUOTE - 4;

    while (n < size && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++) {
        bool nul = i + 1 < n && memcmp (text + i, JSON_TEXT_NUL, 2) == 0;

        to[i] = nul || iscntrl ((unsigned char)text[i]) ? '?' : text[i];
        if (nul)
            to[++i] = '?';
    }
    strcpy (to + n, n < size ? "..." : "");
    return to;
}

/* Append the path to 'text', of which 'used' are taken; returns how many then are. */
static size_t write_path (const struct json_place *p, char *text, size_t room, size_t used)
{
    char part[JSON_PLACE_QUOTE + 8], key[JSON_PLACE_QUOTE];
    size_t n;

    if (!p->up)
        return used;
    used = write_path (p->up, text, room, used);
    if (p->key)
        n = (size_t)snprintf (part, sizeof (part), "%s%s", p->up->up ? "." : "",
                              json_place_quote (key, p->key, strlen (p->key)));
    else
        n = (size_t)snprintf (part, sizeof (part), "[%zu]", p->index);
    if (n >= room - used)
        return used;
    memcpy (text + used, part, n + 1);
    return used + n;
}

int json_place_error (const struct json_place *place, struct mg_error *err,
                      const char *fmt, ...)
{
    char path[120] = "", text[240];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    write_path (place, path, sizeof (path), 0);
    return mg_error_set (err, EINVAL, "%s: %s%s%s", place->file, path,
                         path[0] ? ": " : "", text);
}

json_t *json_place_parse (const char *file, const char *text, size_t size, unsigned flags,
                          struct mg_error *err)
{
    struct json_text_fault fault;
    json_t *object = json_text_parse (text, size, flags, &fault);

    if (!object) {
        mg_error_set (err, errno, "%s:%zu: %s", file, fault.line, fault.what);
        return NULL;
    }
    if (json_is_object (object))
        return object;
    json_decref (object);
    mg_error_set (err, EINVAL, "%s: want a JSON object", file);
    return NULL;
}

int json_place_bool (const struct json_place *place, const json_t *object,
                     const char *key, bool *value, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, key);
    const json_t *member = json_object_get (object, key);

    if (!member || json_is_null (member))
        return 0;
    if (!json_is_boolean (member))
        return json_place_error (&at, err, "want true or false");
    *value = json_is_true (member);
    return 0;
}

int json_place_string (const struct json_place *place, const json_t *object,
                       const char *key, const char **value, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, key);
    const json_t *member = json_object_get (object, key);

    if (!member || json_is_null (member))
        return 0;
    if (!json_is_string (member))
        return json_place_error (&at, err, "want a string");
    *value = json_string_value (member);
    return 0;
}

int json_place_type (const struct json_place *place, const json_t *object,
                     const char **type, struct mg_error *err)
{
    if (!json_is_object (object))
        return json_place_error (place, err, "want an object");
    *type = NULL;
    if (json_place_string (place, object, "type", type, err) < 0)
        return -1;
    return *type ? 0 : json_place_error (place, err, "no \"type\"");
}

int json_place_sequence (const struct json_place *place, const json_t *object, const char *key,
                         int depth, json_place_fn *read, void *arg, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, key);
    const json_t *list = json_object_get (object, key), *element;
    size_t i;

    if (!json_is_array (list))
        return json_place_error (&at, err, "want an array");
    if (depth == JSON_PLACE_DEPTH)
        return json_place_error (&at, err, "more than %d sequences in one another",
                                 JSON_PLACE_DEPTH);
    json_array_foreach (list, i, element) {
        const struct json_place one = json_place_index (&at, i);

        if (read (arg, &one, element, depth + 1, err) < 0)
            return -1;
    }
    return 0;
}
