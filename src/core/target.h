/*
 * target - what keys are drawn from: a range, weights, or a function of the program.
 *
 * A draw needs one random number. For uniform targets it is scaled to a position. For weights the
 * alias method cuts the probability into n cells of equal size, each shared by at most two keys: the
 * upper half of the scaled number chooses a cell, the lower half one of its keys. A cell takes 8 bytes,
 * and making the cells needs no other memory.
 *
 * Random numbers come from a stream that its owner alone advances; the i-th number is a function of the
 * stream's name and i. A target does not change, so any number of threads draw from it.
 */
#ifndef CORE_TARGET_H
#define CORE_TARGET_H

#include "base/rand.h"
#include "base/status.h"

struct stream {
    uint64_t name; /* a result of hash_u64 or rand_at */
    uint64_t at;
};

static inline uint64_t stream_next(struct stream *stream)
{
    return rand_at(stream->name, stream->at++);
}

/* One of n equal parts of the probability: a share of `threshold` / 2^32 for the key at its own
 * position, the rest for the key at position `other`. */
struct alias {
    uint32_t threshold;
    uint32_t other;
};

struct target {
    uint64_t begin, n;            /* the i-th of n keys is begin + i */
    uint64_t *keys;               /* or, unless it is NULL, keys[i] */
    struct alias *cells;          /* NULL: all keys alike */
    tern_draw_function *function; /* not NULL: draws instead of all that, and n is 0 */
    void *context;
    uint64_t last_key; /* the largest the table can have */
    const char *table; /* its name, for sentences */
};

/* Checks a description and makes a target of it. `table` must outlive it. */
enum tern_status target_init(struct target *target, const struct tern_target *description,
                             const char *table, uint64_t last_key);
void target_fini(struct target *target);

/* Draws n keys. Fails only if the program's function makes a key that the table cannot have. */
enum tern_status target_draw(const struct target *target, struct stream *stream, uint64_t *keys,
                             size_t n);

static inline uint64_t target_key(const struct target *target, uint64_t i)
{
    return target->keys ? target->keys[i] : target->begin + i;
}

/* Whether the i-th key can be drawn. A key that has nothing but shares of other keys' cells may pass
 * for one that cannot. */
static inline bool target_has(const struct target *target, uint64_t i)
{
    return !target->cells || target->cells[i].threshold || target->cells[i].other == i;
}

#endif
