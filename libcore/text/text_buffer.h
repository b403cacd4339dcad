/* text_buffer - a growing string of bytes */
#ifndef LIBCORE_TEXT_TEXT_BUFFER_H
#define LIBCORE_TEXT_TEXT_BUFFER_H

#include <stddef.h>

#include "megatron/error.h"

/* A buffer of zeros is empty. */
struct text_buffer {
    char *data;
    size_t size;
    size_t capacity;
};

/* Make room for 'more' further bytes. -1 with errno ENOMEM, the buffer as before. */
int text_buffer_reserve (struct text_buffer *buffer, size_t more, struct mg_error *err);

/* Append 'size' bytes, which must not lie in the buffer. -1 with errno ENOMEM. */
int text_buffer_append (struct text_buffer *buffer, const char *text, size_t size,
                        struct mg_error *err);

/* Free the text.  The buffer is then empty. */
void text_buffer_clear (struct text_buffer *buffer);

#endif /* LIBCORE_TEXT_TEXT_BUFFER_H */
