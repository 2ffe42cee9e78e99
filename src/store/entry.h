/*
 * entry - what the index knows of one key, in one 8-byte word.
 *
 *   bits  0..31  slot       where the row is (slabs.h), or a value of 4 bytes itself, or the node it is at
 *   bits 32..34  state      whether there is a row here, and whose
 *   bit  35      latched    somebody is writing the row or this word
 *   bits 36..63  sequence   incremented when a latch is released
 *
 * Readers take no latch: they read the word, copy the row and read the word again; if it is the same
 * and was not latched, no writer came between, and the copy is whole. Readers thus write to no shared
 * memory, so hot keys are read by all cores from their own caches, and successive reads overlap.
 * (The sequence wraps after 2^28 writes; to be fooled, a reader must be suspended while an exact
 * multiple of that many writes hit its key.)
 *
 * Writers latch the word with a compare-and-swap, change the row, and release it. A value of 4 bytes
 * that is in the word itself, an *inline value*, is read by one load; for how it is changed see latch_stripes.h.
 *
 * An all-zero word means: no key has ever been here.
 */
#ifndef STORE_ENTRY_H
#define STORE_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/invariant.h"
#include "base/spin.h"

#if defined(__SANITIZE_THREAD__)
#define ENTRY_NO_FENCES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ENTRY_NO_FENCES 1
#endif
#endif
#ifndef ENTRY_NO_FENCES
#define ENTRY_NO_FENCES 0
#endif

struct entry {
    _Atomic uint64_t word;
};

/* The middle bit says that a row is in the slabs here; the lowest, beside it, that its changes are
 * tracked (delta.c), because other nodes must learn of them. */
enum entry_state {
    ENTRY_NONE = 0,      /* no row here */
    ENTRY_MOVED = 1,     /* the entry itself is elsewhere by now: look the key up again */
    ENTRY_OWNED = 2,     /* the main copy is here */
    ENTRY_SHARED = 3,    /* the main copy is here, and replicas are at other nodes */
    ENTRY_INLINE = 4,    /* the main copy is this word's slot field */
    ENTRY_ELSEWHERE = 5, /* the main copy is, or was, at the node in the slot field (location.h) */
    ENTRY_REPLICA = 7,   /* a replica is here */
};

#define ENTRY_SLOT_MASK UINT64_C(0xffffffff)
#define ENTRY_STATE_SHIFT 32
#define ENTRY_STATE_MASK (UINT64_C(7) << ENTRY_STATE_SHIFT)
#define ENTRY_TRACKED (UINT64_C(1) << ENTRY_STATE_SHIFT)
#define ENTRY_ROW (UINT64_C(2) << ENTRY_STATE_SHIFT)
#define ENTRY_LATCHED (UINT64_C(1) << 35)
#define ENTRY_SEQUENCE (UINT64_C(1) << 36)
#define ENTRY_SEQUENCE_MASK (~(ENTRY_SEQUENCE - 1))

static inline uint32_t entry_slot(uint64_t word)
{
    return (uint32_t)word;
}

static inline enum entry_state entry_state(uint64_t word)
{
    return (enum entry_state)((word & ENTRY_STATE_MASK) >> ENTRY_STATE_SHIFT);
}

static inline uint64_t entry_pack(enum entry_state state, uint32_t slot)
{
    return (uint64_t)state << ENTRY_STATE_SHIFT | slot;
}

/* Whether a reader may copy the row that `word` names: it is here and nobody is writing it. */
static inline bool entry_readable(uint64_t word)
{
    return (word & (ENTRY_ROW | ENTRY_LATCHED)) == ENTRY_ROW;
}

static inline bool entry_is_inline(uint64_t word)
{
    return (word & (ENTRY_STATE_MASK | ENTRY_LATCHED)) == entry_pack(ENTRY_INLINE, 0);
}

/* Whether a row of the key is in the slabs, perhaps one that is being written. */
static inline bool entry_in_slabs(uint64_t word)
{
    return word & ENTRY_ROW;
}

/* Whether the key has a row here, perhaps one that is being written. */
static inline bool entry_has_row(uint64_t word)
{
    return entry_in_slabs(word) || entry_state(word) == ENTRY_INLINE;
}

/* Whether the main copy is here. */
static inline bool entry_is_main(uint64_t word)
{
    return entry_has_row(word) && entry_state(word) != ENTRY_REPLICA;
}

/* Whether it is certain that the key has no row here. */
static inline bool entry_is_absent(uint64_t word)
{
    return !entry_has_row(word) && entry_state(word) != ENTRY_MOVED && !(word & ENTRY_LATCHED);
}

/* Acquire: what the releasing writer did to the row is visible to the copy that follows. */
static inline uint64_t entry_read(const struct entry *entry)
{
    return atomic_load_explicit(&entry->word, memory_order_acquire);
}

/* After the copy: was it whole? The fence keeps the copy's loads before this one; its partner is the
 * release fence in entry_try_latch. (ThreadSanitizer knows no fences; the copy is hidden from it.) */
static inline bool entry_unchanged(const struct entry *entry, uint64_t word)
{
    fault_point();
#if ENTRY_NO_FENCES
    return atomic_load_explicit(&entry->word, memory_order_acquire) == word;
#else
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->word, memory_order_relaxed) == word;
#endif
}

/* Tries once to latch the entry as it was seen: `word` without the latch bit. */
static inline bool entry_try_latch(struct entry *entry, uint64_t word)
{
    if (!atomic_compare_exchange_strong_explicit(&entry->word, &word, word | ENTRY_LATCHED,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
#if !ENTRY_NO_FENCES
    /* Readers must see the latch before they can see any write to the row. */
    atomic_thread_fence(memory_order_release);
#endif
    fault_point();
    return true;
}

/* Latches the entry, which had *word; false if the wait was given up (base/spin.h). */
static inline bool entry_latch(struct entry *entry, struct watch *watch, uint64_t *word)
{
    rank_waits(RANK_ENTRY, 0);
    for (struct spin spin = {0};;) {
        *word = atomic_load_explicit(&entry->word, memory_order_relaxed);
        if (!(*word & ENTRY_LATCHED) && entry_try_latch(entry, *word))
            return true;
        if (!spin_again(&spin, watch))
            return false;
    }
}

/* Whether an entry may go from one state to another. A main copy that leaves is ELSEWHERE at once and becomes no replica, or is
 * removed, unless it has replicas; a replica, or a key elsewhere, becomes a main copy; an inline value stays one, unless it is
 * removed, or pinned, which makes it a row; and an entry that has MOVED stays so. */
static inline bool entry_may_become(enum entry_state from, enum entry_state to)
{
    switch (from) {
    case ENTRY_NONE:
        return true;
    case ENTRY_OWNED:
        return to != ENTRY_INLINE && to != ENTRY_REPLICA;
    case ENTRY_SHARED:
        return to != ENTRY_NONE && to != ENTRY_INLINE && to != ENTRY_REPLICA;
    case ENTRY_INLINE:
        return to != ENTRY_SHARED && to != ENTRY_ELSEWHERE && to != ENTRY_REPLICA;
    case ENTRY_ELSEWHERE:
    case ENTRY_REPLICA:
        return to != ENTRY_NONE && to != ENTRY_INLINE;
    case ENTRY_MOVED:
        break;
    }
    return false;
}

/* Gives an unlatched entry, as it was seen, another state and slot; false if it is no longer the same. */
static inline bool entry_replace(struct entry *entry, uint64_t word, enum entry_state state,
                                 uint32_t slot)
{
    uint64_t sequence = (word & ENTRY_SEQUENCE_MASK) + ENTRY_SEQUENCE;
    invariant(entry_may_become(entry_state(word), state));
    return atomic_compare_exchange_strong_explicit(&entry->word, &word,
                                                   sequence | entry_pack(state, slot),
                                                   memory_order_release, memory_order_relaxed);
}

/* Releases the latch of an entry that had `word`, leaving it in `state` with `slot`. */
static inline void entry_release(struct entry *entry, uint64_t word, enum entry_state state,
                                 uint32_t slot)
{
    uint64_t sequence = (word & ENTRY_SEQUENCE_MASK) + ENTRY_SEQUENCE;
    invariant(!(word & ENTRY_LATCHED));
    invariant(entry_may_become(entry_state(word), state));
    atomic_store_explicit(&entry->word, sequence | entry_pack(state, slot), memory_order_release);
}

/* Releases the latch of an entry whose state and slot stay as they were. */
static inline void entry_release_same(struct entry *entry, uint64_t word)
{
    invariant(!(word & ENTRY_LATCHED));
    fault_point();
    atomic_store_explicit(&entry->word, word + ENTRY_SEQUENCE, memory_order_release);
}

#endif
