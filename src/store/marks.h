/*
 * marks - a set of slots: many threads put some in, one at a time takes them out.
 *
 * There is a bit for each slot, and one for each word of those bits, so that few marks among millions of slots are
 * found without looking at all of them.
 *
 *  1. Who marks sets the slot's bit and then, unless it is set, the word's. Who takes clears the word's bit first and
 *     then takes the slots' bits. So a mark that was not taken has the bit of its word set: either it was set when the
 *     taker came to the slots' bits, or the marker sees that the word's bit was cleared.
 */
#ifndef STORE_MARKS_H
#define STORE_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct marks {
    _Atomic uint64_t *slots; /* NULL: there are none */
    _Atomic uint64_t *words;
    size_t n_words; /* of `slots` */
};

/* Room for n slots; false when memory runs out. What was made of it is freed by marks_fini. */
bool marks_init(struct marks *marks, uint64_t n);
void marks_fini(struct marks *marks);

/* The same in zeroed memory of the caller's, and the bytes that it needs. */
size_t marks_bytes(uint64_t n);
void marks_adopt(struct marks *marks, uint64_t n, void *memory);

/* Puts bits of a word in. */
static inline void marks_put(struct marks *marks, size_t word, uint64_t bits)
{
    _Atomic uint64_t *of_word = &marks->words[word / 64];
    uint64_t bit = UINT64_C(1) << word % 64;
    /* Acquire: partner of the release in marks_take. */
    atomic_fetch_or_explicit(&marks->slots[word], bits, memory_order_acq_rel);
    if (!(atomic_load_explicit(of_word, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(of_word, bit, memory_order_release);
}

static inline void marks_add(struct marks *marks, uint32_t slot)
{
    marks_put(marks, slot / 64, UINT64_C(1) << slot % 64);
}

/* Takes the mark of a slot; false if there was none. */
static inline bool marks_drop(struct marks *marks, uint32_t slot)
{
    const uint64_t bit = UINT64_C(1) << slot % 64;
    /* Acquire: partner of the release in marks_put. */
    return atomic_fetch_and_explicit(&marks->slots[slot / 64], ~bit, memory_order_acq_rel) & bit;
}

static inline bool marks_has(const struct marks *marks, uint32_t slot)
{
    return atomic_load_explicit(&marks->slots[slot / 64], memory_order_relaxed) >> slot % 64 & 1;
}

/* Takes all bits of the first word that has any, from *word on and below `end`, and sets *word to its number; 0 if
 * there is none. */
uint64_t marks_take(struct marks *marks, size_t *word, size_t end);

/* Takes all below `end`, and puts them into two others. */
void marks_pour(struct marks *from, size_t end, struct marks *to, struct marks *also);

/* A place among marks from which some are taken at a time, round and round, so that all get their turn. */
struct marks_turn {
    size_t next;     /* the slot where to go on */
    uint64_t n_laps; /* times it came to the end */
};

/* Takes up to `most` slots of words below `end`: from the turn's place to the end, and once more from the beginning, for
 * what is before it. Their number; *is_left: there are others. One that is marked again meanwhile may be taken twice. */
size_t marks_take_turn(struct marks *marks, struct marks_turn *turn, size_t end, size_t most,
                       uint32_t *slots, bool *is_left);

#endif
