/* stop_text - strings before which a text that grows ends. */
#ifndef LIBCORE_INFER_STOP_TEXT_H
#define LIBCORE_INFER_STOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/text/text_buffer.h"

/* Look for stop strings of one byte or more in a text to which bytes have been appended.  If one is
 * there, cut the text before the first of them and return true.  No stop string begins before
 * *searched, which moves on; it is the offset where the search begins at first.
 */
bool stop_text_cut (struct text_buffer *text, size_t *searched, const struct text_buffer *stops,
                    int num_stops);

#endif /* LIBCORE_INFER_STOP_TEXT_H */
