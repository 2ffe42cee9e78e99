/*
 * section - the parts of a round's message (docs/PROTOCOL.md): lists of equally long items, each of
 * which begins with a key.
 *
 *   u32 kind   u32 count   u64 item bytes   count items: u64 key, then what the kind says
 *
 * Items are multiples of 8 bytes long and sections follow each other without gaps, so that in an
 * aligned body everything is aligned. Pure functions on bytes.
 */
#ifndef WIRE_SECTION_H
#define WIRE_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"

enum section_kind {
    /* From a node to the owner of the keys. */
    SECTION_DELTAS = 1, /* what was changed in replicas: delta */
    SECTION_ASKS,       /* keys that are wanted there from now on */
    SECTION_FETCHES,    /* keys that are to move there */
    SECTION_ENDS,       /* keys that are not wanted there any more */
    SECTION_LOCATED,    /* to the home of the keys: u64 location */
    /* And back. */
    SECTION_MAINS,       /* keys that move: u64 location, value, state */
    SECTION_COPIES,      /* values of replicas: u64 location, value */
    SECTION_AWAY_DELTAS, /* deltas that were not added, because the key is elsewhere: u64 location */
    SECTION_AWAY_ASKS,   /* the same for asks and fetches */
    /* Of tables with bounded reads. */
    SECTION_VALUES, /* present values of keys, in either direction: value */
    SECTION_CLOCKS, /* one item, how far the sender has come: see core/bounded.h */
    /* From a node to the owner of the keys, of tables whose rows leave. */
    SECTION_DROPPED, /* keys of which there is no replica any more, after their end */
    SECTION_KINDS,
};

enum { SECTION_HEADER_BYTES = 16 };

struct section {
    enum section_kind kind;
    uint32_t count;
    size_t item_bytes;
    const uint8_t *items;
};

/* `bytes` as part of an item. */
static inline size_t section_padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/* Writes the header of a section of `count` items, which follow it. */
void section_write(uint8_t *out, enum section_kind kind, uint32_t count, size_t item_bytes);

/* Numbers of 8 bytes, such as the key at the begin of an item. */
static inline void section_put(uint8_t *out, uint64_t number)
{
    put_u64(out, number);
}

static inline uint64_t section_get(const uint8_t *in)
{
    return get_u64(in);
}

/* Reads the section at *at and moves *at behind it. False at the end of the body or, with *wrong set,
 * if what is there is no section. */
bool section_next(const uint8_t *body, size_t bytes, size_t *at, struct section *section,
                  bool *wrong);

#endif
