/*
 * invariant - conditions that always hold, checked in debug and sanitizer builds (`make DEBUG=1`, `make SAN=address`).
 * A broken one ends the process with a line that names it. Release builds do not evaluate the condition.
 *
 * The order of locks is checked in the same builds. Every mutex (lock.h) and every latch (latch.h) has a rank. A thread
 * that waits for one holds only locks of lower ranks, or of the same rank with lower numbers. A try-lock cannot
 * deadlock, so it is recorded without being checked.
 */
#ifndef BASE_INVARIANT_H
#define BASE_INVARIANT_H

/* The ranks of all locks of the library, in the order in which they may be taken. docs/ARCHITECTURE.md has the same list. */
enum lock_rank {
    RANK_NODE = 1, /* a node's lists of tables, workers and distributions */
    RANK_CONTROL,  /* a node's calls to the coordinator */
    RANK_INTENTS,  /* the intents of a worker */
    RANK_SEGMENTS, /* the segments of shared-memory tables */
    RANK_ROUNDS,   /* the rounds of a shard; numbered by shard */
    RANK_SHARD,    /* a shard; numbered by shard */
    RANK_TASKS,    /* the tasks of a node */
    RANK_CLOCKS,   /* the clocks of a node's workers */
    RANK_THREADS,  /* what wakes the threads of rounds, backups and pulse; lane numbers */
    RANK_EVICTION, /* latch: eviction at a table's limit */
    RANK_COUNTING, /* latch: stripes of counted main copies and of their replicas (core/graph.c) */
    RANK_GATE,     /* latch: a gate of a shared-memory table with backups (store/undo.h) */
    RANK_INDEX_STRIPE, /* latch: a stripe of a sparse index */
    RANK_INDEX,        /* latch: the arrays of a sparse index */
    RANK_VALUES,       /* latch stripe of inline values; only its waits are checked */
    RANK_ENTRY,        /* latch of an entry; only its waits are checked */
    RANK_SLOTS, /* a store's slots; latch: its free slots, kept keys, admission counters, sketch cells */
    RANK_PROCESS, /* handles, segments and in-process addresses of a process */
};

#ifdef TERN_INVARIANTS
#define invariant(condition) \
    ((condition) ? (void)0 : invariant_broken(#condition, __FILE__, __LINE__))
_Noreturn void invariant_broken(const char *condition, const char *file, int line);
#else
#define invariant(condition) ((void)sizeof(!(condition)))
#endif

/* The calling thread waits for a lock, has taken it, or has released it. Simulated processes (fault.h) share a thread, so
 * theirs are not recorded. */
#if defined TERN_INVARIANTS && !defined TERN_DEFECTS
void rank_waits(enum lock_rank rank, unsigned number);
void rank_took(enum lock_rank rank, unsigned number);
void rank_released(enum lock_rank rank, unsigned number);
#else
static inline void rank_waits(enum lock_rank rank, unsigned number)
{
    (void)rank, (void)number;
}
static inline void rank_took(enum lock_rank rank, unsigned number)
{
    (void)rank, (void)number;
}
static inline void rank_released(enum lock_rank rank, unsigned number)
{
    (void)rank, (void)number;
}
#endif

#endif
