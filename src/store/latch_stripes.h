/*
 * latch_stripes - latches for many inline values at once (ENTRY_INLINE).
 *
 * A locked instruction takes longer than all the rest of a push of a single number. So the keys of a table with inline
 * values are cut into stripes. A call on many keys latches a whole stripe and changes the values of all its keys by
 * plain stores (inline.c). Other calls latch entries, one at a time. The two see each other:
 *
 *  1. The holder of a stripe changes no value whose entry is latched. It reads the entry after it has latched the stripe.
 *  2. A thread that latches the entry of a value reads the stripe before and after. If the stripe was latched, or has been
 *     in between, the entry's latch does not count and may have been overwritten: the thread takes it back if it is still
 *     there, and tries again when the stripe is free.
 *  3. Each change raises the entry's sequence, so that no thread takes another's latch for its own.
 *
 * All four accesses are sequentially consistent: of two that come at the same time one sees the other. Readers know
 * nothing of this; they load the entry's word. A value's state changes from ENTRY_INLINE to another under the stripe's
 * latch only; from none to ENTRY_INLINE also without it.
 */
#ifndef STORE_LATCH_STRIPES_H
#define STORE_LATCH_STRIPES_H

#include "store/entry.h"

enum {
    LATCH_STRIPE_BITS = 3,
    LATCH_STRIPES = 1 << LATCH_STRIPE_BITS,
    LATCH_STRIPE_BYTES = 64, /* each latch has a cache line to itself */
};

struct latch_stripe {
    _Atomic uint64_t turn; /* odd: latched */
} __attribute__((aligned(LATCH_STRIPE_BYTES)));

static inline bool stripe_try_latch(struct latch_stripe *stripe)
{
    uint64_t turn = atomic_load_explicit(&stripe->turn, memory_order_relaxed);
    return turn % 2 == 0 && atomic_compare_exchange_strong(&stripe->turn, &turn, turn + 1);
}

/* False if the wait was given up (base/spin.h). */
static inline bool stripe_latch(struct latch_stripe *stripe, struct watch *watch)
{
    rank_waits(RANK_VALUES, 0);
    for (struct spin spin = {0}; !stripe_try_latch(stripe);)
        if (!spin_again(&spin, watch))
            return false;
    return true;
}

static inline void stripe_release(struct latch_stripe *stripe)
{
    uint64_t turn = atomic_load_explicit(&stripe->turn, memory_order_relaxed);
    invariant(turn % 2);
    atomic_store_explicit(&stripe->turn, turn + 1, memory_order_release);
}

/* The word of the entry of a value whose stripe is latched. */
static inline uint64_t stripe_read(const struct entry *entry)
{
    return atomic_load(&entry->word);
}

/* Latches the entry of a value, seen with `word`, whose stripe is not latched; false if anything has changed. */
static inline bool stripe_latch_entry(struct latch_stripe *stripe, struct entry *entry,
                                      uint64_t word)
{
    uint64_t turn = atomic_load_explicit(&stripe->turn, memory_order_acquire);
    uint64_t latched = word | ENTRY_LATCHED;
    if (turn % 2 || !atomic_compare_exchange_strong(&entry->word, &word, latched))
        return false;
    if (__builtin_expect(atomic_load(&stripe->turn) == turn, 1))
        return true;
    atomic_compare_exchange_strong_explicit(&entry->word, &latched, latched & ~ENTRY_LATCHED,
                                            memory_order_release, memory_order_relaxed);
    return false;
}

#endif
