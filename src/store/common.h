/*
 * common - a table in memory that all nodes of a host have in common (base/segment.h).
 *
 * Index, rows and updater state are laid out in one piece, and all keys are at home at every node. Rows are read and
 * written as by threads of one process: latches and sequences are in the entries. The rows of a dense table are in their
 * natural places, so that nobody need ask for one; those of a sparse table are in the order of their making, and index and
 * rows have room for as many as the machine has memory for, which costs addresses and nothing else.
 *
 * What a process keeps for itself: how often it has pinned a row. Rows stay where they are, so nobody else need know.
 *
 * Processes that share a table trust each other: one that writes nonsense to the memory breaks the others. They are of one
 * user, and could do so in other ways.
 *
 * A process that dies while it holds a latch leaves it behind. When the others know that it is dead, they look for latches
 * that do not change hands (common_find_stuck), and free those that are the same some time later (common_free_stuck).
 * What the dead one was writing may then be half written. An index that it was to change is mended (sparse_mend).
 */
#ifndef STORE_COMMON_H
#define STORE_COMMON_H

#include "store/store.h"

/* What the memory begins with. */
struct common {
    _Atomic uint32_t n_nodes; /* that have ever had it */
    uint64_t n_slots;         /* rows there can be */
    unsigned index_bits;      /* of a sparse table: of its index (sparse.h) */
    struct store_counts counts;
    struct sparse sparse; /* of a dense table, the areas alone */
};

/* The memory that a table takes; 0: it cannot be had in common. */
uint64_t common_bytes(const struct tern_table_options *options);

/* Makes an empty table in new memory of that size. */
void common_format(struct common *common, const struct tern_table_options *options);

/* Finds index, slabs and counts of a store in its common memory; false if they are not as they should be. */
bool common_lay_out(struct store *store);

/* A slot for the row of a key; false if there is none left. */
bool common_take_slot(struct store *store, uint64_t key, uint32_t *slot);

/* A latch that was found taken: the word with it, what that was, and what it is without. */
struct stuck {
    _Atomic uint64_t *word;
    uint64_t seen, freed;
};

/* Notes the first latches that are held, at most `most`, and returns how many. */
size_t common_find_stuck(const struct store *store, struct stuck *stuck, size_t most);

/* Frees those that are held as they were when they were found. */
void common_free_stuck(const struct stuck *stuck, size_t n);

#endif
