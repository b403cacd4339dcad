/* answer.c - values of JSON as bytes */

#include <errno.h>
#include <string.h>

#include "libcore/serve/answer.h"
#include "libcore/text/utf8.h"

/* A json_dump_callback_t. */
static int append (const char *bytes, size_t size, void *to)
{
    return text_buffer_append (to, bytes, size, NULL);
}

int answer_json (struct text_buffer *to, json_t *value, struct mg_error *err)
{
    int rc = value ? json_dump_callback (value, append, to, JSON_COMPACT) : -1;

    json_decref (value);
    return rc < 0 ? mg_error_set (err, ENOMEM, "out of memory for an answer") : 0;
}

/* The type of an error, and its code or NULL. */
static const char *type_of (int status, const char **code)
{
    static const struct {
        int status;
        const char *type, *code;
    } rows[] = {
        { 401, "authentication_error", "invalid_api_key" },
        { 404, "not_found_error", NULL },
        { 408, "timeout_error", NULL },
    };

    *code = NULL;
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (rows[i].status == status) {
            *code = rows[i].code;
            return rows[i].type;
        }
    }
    return status >= 500 ? "server_error" : "invalid_request_error";
}

int answer_error (struct text_buffer *to, int status, const char *text, struct mg_error *err)
{
    struct text_buffer valid = { NULL, 0, 0 };
    const char *code, *type = type_of (status, &code);
    json_t *value = NULL;

    if (utf8_append_valid (&valid, text, strlen (text), err) == 0)
        value = json_pack ("{s:{s:o, s:s, s:n, s:s?}}", "error", "message",
                           json_stringn (valid.size > 0 ? valid.data : "", valid.size), "type",
                           type, "param", "code", code);
    text_buffer_clear (&valid);
    return answer_json (to, value, err);
}
