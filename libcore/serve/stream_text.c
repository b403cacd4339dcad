/* stream_text.c - stop strings, and characters that are not complete */

#include <string.h>

#include "libcore/infer/stop_text.h"
#include "libcore/serve/stream_text.h"
#include "libcore/text/utf8.h"

int stream_text_append (struct stream_text *t, const char *bytes, size_t size,
                        const struct text_buffer *stops, int num_stops, struct mg_error *err)
{
    if (size > 0 && text_buffer_append (&t->text, bytes, size, err) < 0)
        return -1;
    if (t->searched < t->from)
        t->searched = t->from;
    t->stopped = stop_text_cut (&t->text, &t->searched, stops, num_stops);
    return t->stopped;
}

/* true if the bytes at the end could become a character */
static bool is_beginning (const char *p, size_t left)
{
    unsigned char first = (unsigned char)p[0];
    size_t want = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;

    if (first >= 0xf5 || left >= want)
        return false;
    for (size_t i = 1; i < left; i++) {
        if (((unsigned char)p[i] & 0xc0) != 0x80)
            return false;
    }
    return true;
}

/* Bytes of the text up to a character that is not complete. */
static size_t whole_characters (const struct text_buffer *text)
{
    for (size_t n = 1; n < UTF8_MAX && n <= text->size; n++) {
        if (is_beginning (text->data + text->size - n, n))
            return text->size - n;
    }
    return text->size;
}

size_t stream_text_ready (const struct stream_text *t, const struct text_buffer *stops,
                          int num_stops, bool ended)
{
    size_t ready;

    if (ended || t->stopped)
        return t->text.size;
    ready = whole_characters (&t->text);
    for (int i = 0; i < num_stops; i++) {
        size_t n = stops[i].size - 1;

        for (n = n < t->text.size - t->from ? n : t->text.size - t->from; n > 0; n--) {
            if (memcmp (t->text.data + t->text.size - n, stops[i].data, n) == 0)
                break;
        }
        if (t->text.size - n < ready)
            ready = t->text.size - n;
    }
    return ready;
}
