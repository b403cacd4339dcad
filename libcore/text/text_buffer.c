/* text_buffer - a growing string of bytes */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/text_buffer.h"

int text_buffer_reserve (struct text_buffer *buffer, size_t more, struct mg_error *err)
{
    size_t wanted = buffer->capacity ? buffer->capacity : 256;
    char *data = NULL;

    if (more <= buffer->capacity - buffer->size)
        return 0;
    while (wanted <= SIZE_MAX / 4 && wanted - buffer->size < more)
        wanted *= 2;
    if (wanted <= SIZE_MAX / 4)
        data = realloc (buffer->data, wanted);
    if (!data)
        return mg_error_set (err, ENOMEM, "no memory for a text of %zu bytes and %zu more",
                             buffer->size, more);
    buffer->data = data;
    buffer->capacity = wanted;
    return 0;
}

int text_buffer_append (struct text_buffer *buffer, const char *text, size_t size,
                        struct mg_error *err)
{
    if (text_buffer_reserve (buffer, size, err) < 0)
        return -1;
    if (size > 0)
        memcpy (buffer->data + buffer->size, text, size);
    buffer->size += size;
    return 0;
}

void text_buffer_clear (struct text_buffer *buffer)
{
    free (buffer->data);
    *buffer = (struct text_buffer){ NULL, 0, 0 };
}
