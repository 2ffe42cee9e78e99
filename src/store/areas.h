/*
 * areas - latches for many values at once that are in their entries (ENTRY_INLINE).
 *
 * A locked instruction takes longer than all the rest of a push of a single number. So the keys of a table whose values
 * are in their entries are cut into areas, and a call on many keys latches a whole area and changes the values of all
 * its keys there by plain stores (words.c). Other calls latch entries, one at a time. The two see each other:
 *
 *  1. Who holds an area changes no value whose entry is latched, and looks at the entry after it has latched the area.
 *  2. Who latches the entry of a value looks at the area before and after. If it was latched, or has been in the
 *     meantime, the entry's latch does not count, and may have been overwritten: it is taken back if it is still there,
 *     and tried again when the area is free.
 *  3. Each change raises the entry's sequence, so that nobody takes another's latch for the own.
 *
 * All four accesses are sequentially consistent: one of two that come at the same time sees the other. Readers know
 * nothing of this; they load the entry's word. A value's state changes from ENTRY_INLINE to another under the area's
 * latch only; to ENTRY_INLINE, from none, also without it.
 */
#ifndef STORE_AREAS_H
#define STORE_AREAS_H

#include "store/entry.h"

enum {
    AREA_BITS = 3,
    AREAS = 1 << AREA_BITS,
    AREA_LINE = 64, /* an area's latch has a line of memory for itself */
};

struct area {
    _Atomic uint64_t turn; /* odd: latched */
} __attribute__((aligned(AREA_LINE)));

static inline bool area_try_latch(struct area *area)
{
    uint64_t turn = atomic_load_explicit(&area->turn, memory_order_relaxed);
    return turn % 2 == 0 && atomic_compare_exchange_strong(&area->turn, &turn, turn + 1);
}

static inline void area_latch(struct area *area)
{
    for (unsigned tries = 0; !area_try_latch(area);)
        spin_wait(&tries);
}

static inline void area_release(struct area *area)
{
    uint64_t turn = atomic_load_explicit(&area->turn, memory_order_relaxed);
    atomic_store_explicit(&area->turn, turn + 1, memory_order_release);
}

/* Of a value whose area is latched: the word of its entry. */
static inline uint64_t area_read(const struct entry *entry)
{
    return atomic_load(&entry->word);
}

/* Latches the entry of a value, seen with `word`, whose area is not latched; false if anything has changed. */
static inline bool area_latch_entry(struct area *area, struct entry *entry, uint64_t word)
{
    uint64_t turn = atomic_load_explicit(&area->turn, memory_order_acquire);
    uint64_t latched = word | ENTRY_LATCHED;
    if (turn % 2 || !atomic_compare_exchange_strong(&entry->word, &word, latched))
        return false;
    if (__builtin_expect(atomic_load(&area->turn) == turn, 1))
        return true;
    atomic_compare_exchange_strong_explicit(&entry->word, &latched, latched & ~ENTRY_LATCHED,
                                            memory_order_release, memory_order_relaxed);
    return false;
}

#endif
