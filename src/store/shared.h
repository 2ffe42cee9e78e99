/*
 * shared - a table in memory that several processes of one host map (base/segment.h).
 *
 * Index, rows and updater state are laid out in one piece of memory, and all keys are at home in every process. Rows are
 * read and written as by threads of one process: latches and sequences are in the entries. The rows of a dense table lie
 * in the order of its keys, so that no process need ask for a slot. Those of a sparse table lie in the order in which they
 * were made; index and rows have room for as many as the machine has memory for, which costs addresses and nothing else.
 *
 * Each process keeps for itself how often it has pinned a row of a dense table, which stays where it is. Of a sparse table, from
 * which rows can be removed (evict.h), how often a row is pinned is shared, too.
 *
 * Processes that share a table trust each other: one that writes nonsense to the memory breaks the others. They belong to
 * one user, and could do so in other ways.
 *
 * A process that dies, or is stopped, while it holds a latch leaves a row half written or an index half grown behind that
 * latch. The latch is never freed, so nobody sees what is behind it. When the process is known to be lost (struct watch),
 * those that wait for its latches give up, and all calls on the table fail. Nothing is searched for and nothing mended.
 */
#ifndef STORE_SHARED_H
#define STORE_SHARED_H

#include "store/store.h"

/* What the memory begins with. */
struct shared_table {
    struct watch watch;
    _Atomic uint32_t n_processes; /* that have ever mapped it */
    uint64_t n_slots;             /* rows there can be */
    unsigned index_bits;          /* of a sparse table: of its index (sparse.h) */
    struct store_counts counts;
    struct sparse sparse; /* of a dense table, the latch stripes alone */
};

/* The memory that a table takes; 0: it cannot be shared. */
uint64_t shared_bytes(const struct tern_table_options *options);

/* Makes an empty table in new memory of that size. A latch is waited for at most patience_ns; see sparse.h for the seed. */
void shared_format(struct shared_table *shared, const struct tern_table_options *options,
                   uint64_t patience_ns, uint64_t hash_seed);

/* Finds index, slabs and counts of a store in its shared memory; false if they are not as they should be. */
bool shared_lay_out(struct store *store);

/* A slot for the row of a key; false if there is none left. */
bool shared_take_slot(struct store *store, uint64_t key, uint32_t *slot);

#endif
