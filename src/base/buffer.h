/*
 * buffer - bytes that are appended at one end and consumed at the other.
 *
 * A failed append leaves the buffer as it was. One owner at a time.
 */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    uint8_t *bytes;
    size_t begin, end; /* what is in it */
    size_t capacity;
};

/* Bytes that belong to somebody else. */
struct slice {
    const uint8_t *bytes;
    size_t n;
};

static inline size_t buffer_size(const struct buffer *buffer)
{
    return buffer->end - buffer->begin;
}

/* NULL if the buffer never had anything in it. */
static inline uint8_t *buffer_head(const struct buffer *buffer)
{
    return buffer->bytes ? buffer->bytes + buffer->begin : NULL;
}

/* Room for n bytes at the end, to be filled and then added to `end`; NULL when memory runs out.
 * Moves or reallocates what is in the buffer. */
uint8_t *buffer_reserve(struct buffer *buffer, size_t n);

bool buffer_append(struct buffer *buffer, const void *bytes, size_t n);

/* Removes n bytes at the head. */
static inline void buffer_consume(struct buffer *buffer, size_t n)
{
    buffer->begin += n;
    if (buffer->begin == buffer->end)
        buffer->begin = buffer->end = 0;
}

void buffer_free(struct buffer *buffer);

#endif
