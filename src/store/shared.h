/*
 * shared - a table in memory that several processes of one host map (base/segment.h).
 *
 * Index, rows and updater state are laid out in one piece of memory, and what is at home in one process is in all. Rows are
 * read and written as by threads of one process: latches and sequences are in the entries. The rows of a dense table lie
 * in the order of its keys, so that no process need ask for a slot. Those of a sparse table lie in the order in which they
 * were made; index and rows have room for as many as the machine has memory for, which costs addresses and nothing else.
 *
 * Where copies of rows are at other hosts (delta.c, move.c), what is kept of rows for that is in the memory as well: bases,
 * facts and marks. One process, the leader, exchanges rows with others for all (core/follower.h).
 *
 * Rows of a sparse table can be removed (evict.h), and rows that move come and go: how often such a row is pinned is shared.
 * Each process keeps for itself how often it has pinned a row of a dense table that stays where it is.
 *
 * Processes that share a table trust each other: one that writes nonsense to the memory breaks the others. They belong to
 * one user, and could do so in other ways.
 *
 * A process that dies, or is stopped, while it holds a latch leaves a row half written or an index half grown behind that
 * latch. The latch is never freed, so nobody sees what is behind it. When the process is known to be lost (struct watch),
 * those that wait for its latches give up, and all calls on the table fail. Nothing is searched for and nothing mended.
 *
 * Not so in a table with backups: its latches are behind gates, and survivors take back what a dead process was doing
 * (undo.h).
 */
#ifndef STORE_SHARED_H
#define STORE_SHARED_H

#include "store/store.h"

/* How far the leader's rounds of a shard are, and how far those of the other processes want them to be (core/follower.h). */
struct shared_rounds {
    _Alignas(64) _Atomic uint64_t n_clean;
    _Atomic uint64_t n_begun, n_swept;
    _Atomic uint64_t clean_wanted, sweep_wanted;
};

/* What the memory begins with. */
struct shared_table {
    struct watch watch;
    _Atomic uint32_t n_processes; /* that have ever mapped it */
    uint64_t n_slots;             /* rows there can be */
    unsigned index_bits;          /* of a sparse table: of its index (sparse.h) */
    struct store_counts counts;
    struct shared_rounds rounds[STORE_MAX_SHARDS];
    struct sparse sparse; /* of a dense table, the latch stripes alone */
};

/* The memory that a table takes; 0: it cannot be shared. Of its home counts what rows are there, the shards and the seed. */
uint64_t shared_bytes(const struct tern_table_options *options, const struct store_home *home);

/* Makes an empty table in new memory of that size. A latch is waited for at most patience_ns. */
void shared_format(struct shared_table *shared, const struct tern_table_options *options,
                   const struct store_home *home, uint64_t patience_ns);

/* Finds index, slabs and counts of a store in its shared memory; false if they are not as they should be. */
bool shared_lay_out(struct store *store);

/* A slot that was never used, of a table whose rows are not in the order of its keys; false if there is none left. */
bool shared_new_slot(struct store *store, uint32_t *slot);

#endif
