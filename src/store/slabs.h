/*
 * slabs - memory for equally long rows that never move, addressed by slot number.
 *
 * Slots are grouped into slabs of about 1 MiB, and a directory leads to each. Memory is mapped in
 * runs of slabs, each twice as long as the one before, so that a small table takes little and a large one lies in few large
 * mappings that can use huge pages. A slab is made when its first slot is taken; its pages cost
 * memory when they are touched.
 *
 * slabs_add is called under the owner's lock; slabs_at from any thread that learned of the slot
 * through an acquire of something released after slabs_add.
 */
#ifndef STORE_SLABS_H
#define STORE_SLABS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLAB_BYTES = 1 << 20, SLABS_RUNS = 48 };

struct slabs {
    _Atomic(char *) *directory; /* the slabs; NULL past the last one */
    size_t stride;              /* bytes from one row to the next; 0: rows of no bytes */
    unsigned shift;             /* log2 of the rows of a slab */
    uint32_t mask;              /* rows of a slab - 1 */
    size_t n_slabs, max_slabs;
    size_t n_runs;
    struct {
        void *pages;
        size_t bytes;
    } runs[SLABS_RUNS];
};

/* The distance between rows of `bytes`: aligned as far as 5% of padding allows, so that a row
 * straddles as few cache lines as it can. */
size_t slabs_stride(size_t bytes, size_t element_bytes);

/* log2 of the rows of a slab: a constant where the stride, which is not 0, is one. */
static inline unsigned slabs_shift(size_t stride)
{
    uint64_t most = (SLAB_BYTES - 1) / stride;
    return most ? 64 - (unsigned)__builtin_clzll(most) : 0;
}

/* False when memory runs out. */
bool slabs_init(struct slabs *slabs, size_t stride);
void slabs_fini(struct slabs *slabs);

/* Maps memory for the slots 0 .. n_slots-1 in one run, before any other; false when there is none. */
bool slabs_reserve(struct slabs *slabs, uint64_t n_slots);

/* Takes memory of the caller's for them instead: the bytes that this needs, which are 0 for rows of no bytes. */
uint64_t slabs_bytes(size_t stride, uint64_t n_slots);
bool slabs_adopt(struct slabs *slabs, uint64_t n_slots, void *memory);

/* Makes the slab of `slot`, and those before it, if it does not exist; false when memory runs out. */
bool slabs_add(struct slabs *slabs, uint64_t slot);

static inline void *slabs_at(const struct slabs *slabs, uint32_t slot)
{
    char *slab =
        atomic_load_explicit(&slabs->directory[slot >> slabs->shift], memory_order_relaxed);
    return slab + (size_t)(slot & slabs->mask) * slabs->stride;
}

/* Whether the slab of `slot` exists, for slots that were not learned of in that way. */
static inline bool slabs_has(const struct slabs *slabs, uint32_t slot)
{
    return atomic_load_explicit(&slabs->directory[slot >> slabs->shift], memory_order_acquire);
}

#endif
