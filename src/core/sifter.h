/*
 * sifter - what the filters of a table (wire/filter.h) leave out of its rounds, or round, where both sides have a copy.
 *
 *  1. The change of a replica is first looked at, and then what is sent of it is taken: `base` is moved by what is sent and by
 *     nothing else. So what is left out or rounded off stays between value and base, and is part of the next change.
 *  2. Rows of which something stays *wait*: they are looked at again when they are changed again, and in an exact round.
 *  3. While somebody waits until everything is told or heard, rounds are exact: what waits is sent as it is, and owners send
 *     again, exactly, the values that they had rounded for this node (FRAME_EXACT).
 *
 * Main copies that move, and the last changes of a replica that ends, never come here. Under the lock of the shard.
 */
#ifndef CORE_SIFTER_H
#define CORE_SIFTER_H

#include "base/buffer.h"
#include "core/core.h"

struct sifter {
    struct core_table *table; /* NULL: nothing is left out, and nothing rounded */
    uint64_t stream, n_drawn; /* of random numbers, by message */
    uint64_t n_rounds;        /* in which changes were exchanged */
    bool is_exact;            /* so is the present round */
    struct marks waiting;     /* slots of rows of which something waits */
    struct buffer keys, rows; /* of the message being made */
    struct buffer shown;      /* a value and what was sent of it last, for the program */
    size_t n;
};

/* For shard `shard` of a table whose filters are set; false when memory runs out. */
bool sifter_init(struct sifter *sifter, struct core_table *table, const struct core *core,
                 uint32_t shard);
void sifter_fini(struct sifter *sifter);

/* Whether changes are sifted in the present round. */
static inline bool sifter_is_on(const struct sifter *sifter)
{
    return sifter->table && !sifter->is_exact;
}

/* A round begins. If it `exchanges` changes, what waits and is to be looked at again counts as changed. */
void sifter_begin_round(struct sifter *sifter, bool exchanges, bool is_exact);

/* Begins with the changes of a message, at most n; false when memory runs out. */
bool sifter_clear(struct sifter *sifter, size_t n);

/* Where the next change goes, and that it is one of a key. */
void *sifter_room(const struct sifter *sifter);
void sifter_add(struct sifter *sifter, uint64_t key);

/* Takes what is to be sent of these changes: they are as they are sent, and so many. */
size_t sifter_take(struct sifter *sifter);

static inline uint64_t sifter_key(const struct sifter *sifter, size_t i)
{
    return ((const uint64_t *)(const void *)sifter->keys.bytes)[i];
}

void *sifter_row(const struct sifter *sifter, size_t i);

/* Whether values of main copies are rounded for replicas. */
static inline bool sifter_rounds(const struct sifter *sifter)
{
    return sifter->table && sifter->table->filters.fixed_bits;
}

/* Rounds n values, `stride` bytes apart. False, and they stay as they are, if that is not possible. */
bool sifter_round(struct sifter *sifter, uint8_t *values, size_t n, size_t stride);

#endif
