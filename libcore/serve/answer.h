/* answer - answers of an endpoint that need no text of the model, as JSON. */
#ifndef LIBCORE_SERVE_ANSWER_H
#define LIBCORE_SERVE_ANSWER_H

#include <stdint.h>

#include <jansson.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

/* Append an error in OpenAI's form.  'status' is that of HTTP.  -1 and ENOMEM. */
int answer_error (struct text_buffer *to, int status, const char *text, struct mg_error *err);

/* Append a value, which is freed; NULL: out of memory.  -1 and ENOMEM. */
int answer_json (struct text_buffer *to, json_t *value, struct mg_error *err);

#endif /* LIBCORE_SERVE_ANSWER_H */
