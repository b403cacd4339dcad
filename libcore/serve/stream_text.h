/* stream_text - a text that grows token by token: which part of it may be sent, and where it stops.
 *
 * A part may be sent if no character is cut at its end, and if no stop string can begin in it.  The
 * text ends before the first stop string.
 */
#ifndef LIBCORE_SERVE_STREAM_TEXT_H
#define LIBCORE_SERVE_STREAM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

struct stream_text {
    struct text_buffer text;
    size_t from;     /* where the generated text begins: an echoed prompt has no stop strings */
    size_t searched; /* no stop string begins before */
    bool stopped;    /* the text is cut before a stop string */
};

/* Append the bytes of a generated token, and look for the stop strings, of one byte or more each.
 * 1 if the text has stopped, else 0; -1 and ENOMEM.
 */
int stream_text_append (struct stream_text *t, const char *bytes, size_t size,
                        const struct text_buffer *stops, int num_stops, struct mg_error *err);

/* Bytes from the start that may be sent.  'ended': no token follows, so all may be. */
size_t stream_text_ready (const struct stream_text *t, const struct text_buffer *stops,
                          int num_stops, bool ended);

#endif /* LIBCORE_SERVE_STREAM_TEXT_H */
