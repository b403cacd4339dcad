/* stop_text.c - a search that goes over each byte once, but for an end that may go on */

#include <string.h>

#include "libcore/infer/stop_text.h"

bool stop_text_cut (struct text_buffer *text, size_t *searched, const struct text_buffer *stops,
                    int num_stops)
{
    size_t longest = 1, best = text->size;

    for (int i = 0; i < num_stops; i++) {
        const char *found = NULL;

        if (text->size > *searched)
            found = memmem (text->data + *searched, text->size - *searched, stops[i].data,
                            stops[i].size);
        if (stops[i].size > longest)
            longest = stops[i].size;
        if (found && (size_t)(found - text->data) < best)
            best = (size_t)(found - text->data);
    }
    if (best < text->size) {
        text->size = best;
        return true;
    }
    if (text->size >= longest && text->size - longest + 1 > *searched)
        *searched = text->size - longest + 1;
    return false;
}
