/* buffer - see buffer.h. */
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

/* Several buffers are kept for each other node, most of which have little in them. */
enum { FIRST_CAPACITY = 64 };

uint8_t *buffer_reserve(struct buffer *buffer, size_t n)
{
    size_t size = buffer_size(buffer);
    if (n <= buffer->capacity - buffer->end)
        return buffer->bytes + buffer->end;
    if (n > SIZE_MAX / 4 || size > SIZE_MAX / 4)
        return NULL;
    if (size + n <= buffer->capacity) {
        memmove(buffer->bytes, buffer_head(buffer), size);
    } else {
        size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
        while (capacity < size + n)
            capacity *= 2;
        uint8_t *bytes = malloc(capacity);
        if (!bytes)
            return NULL;
        if (size)
            memcpy(bytes, buffer_head(buffer), size);
        free(buffer->bytes);
        buffer->bytes = bytes;
        buffer->capacity = capacity;
    }
    buffer->begin = 0;
    buffer->end = size;
    return buffer->bytes + size;
}

bool buffer_append(struct buffer *buffer, const void *bytes, size_t n)
{
    if (!n)
        return true;
    uint8_t *room = buffer_reserve(buffer, n);
    if (!room)
        return false;
    memcpy(room, bytes, n);
    buffer->end += n;
    return true;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}
