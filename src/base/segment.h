/*
 * segment - zeroed memory that several processes of one host map.
 *
 * A segment is a memfd: it has no file and no name that others could find, and ends when the last process that has it
 * closes it or dies, also by kill -9. Another process gets its descriptor over a Unix socket (net/stream.h), from the
 * process that made it, which knows it by a number that fits into a message. The number is a nonce and not a secret:
 * descriptors are sent to processes of the same user only, and one that comes is checked before it is mapped.
 *
 * The system may use huge pages for it, if it was told to: /sys/kernel/mm/transparent_hugepage/shmem_enabled.
 */
#ifndef BASE_SEGMENT_H
#define BASE_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct segment {
    void *memory;
    size_t bytes;
    uint64_t number; /* not 0 */
    int fd;          /* of one that was made here; -1: it came from another process */
    struct segment *next;
};

/* Makes a segment. The upper 16 bits of its number are `maker`. */
enum tern_status segment_new(size_t bytes, uint16_t maker, struct segment **segment);

/* Maps a segment of that size whose descriptor, which is closed here, came from another process. */
enum tern_status segment_map(int fd, size_t bytes, uint64_t number, struct segment **segment);

static inline uint32_t segment_maker(uint64_t number)
{
    return (uint32_t)(number >> 48);
}

/* The descriptor, for the caller to close, of a segment that this process has made and not closed; -1: there is none. */
int segment_descriptor(uint64_t number);

void segment_close(struct segment *segment);

#endif
