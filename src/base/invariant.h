/*
 * invariant - conditions that always hold, checked in debug and sanitizer builds (`make DEBUG=1`, `make SAN=address`).
 * A broken one ends the process with a line that names it. Release builds do not evaluate the condition.
 *
 * The order of locks is checked in the same builds: a thread that waits for a lock holds only locks of lower ranks, or
 * of the same rank with lower numbers. A try-lock cannot deadlock, so it is recorded without being checked.
 */
#ifndef BASE_INVARIANT_H
#define BASE_INVARIANT_H

#include <pthread.h>
#include <stdbool.h>

/* In the order in which they may be taken (docs/ARCHITECTURE.md). */
enum lock_rank {
    RANK_NODE = 1, /* a node's own lock */
    RANK_ROUNDS,   /* the rounds of a shard; numbered by shard */
    RANK_SHARD,    /* a shard; numbered by shard */
    RANK_LEAF, /* tasks, worker clocks, lane numbers: no further lock of node/ is taken under one of them */
};

#ifdef TERN_INVARIANTS
#define invariant(condition) \
    ((condition) ? (void)0 : invariant_broken(#condition, __FILE__, __LINE__))
_Noreturn void invariant_broken(const char *condition, const char *file, int line);

/* The calling thread waits for a lock, has taken it, or has released it. */
void rank_waits(enum lock_rank rank, unsigned number);
void rank_took(enum lock_rank rank, unsigned number);
void rank_released(enum lock_rank rank, unsigned number);
#else
#define invariant(condition) ((void)sizeof(!(condition)))
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

static inline void lock_take(pthread_mutex_t *mutex, enum lock_rank rank, unsigned number)
{
    rank_waits(rank, number);
    pthread_mutex_lock(mutex);
    rank_took(rank, number);
}

static inline bool lock_try(pthread_mutex_t *mutex, enum lock_rank rank, unsigned number)
{
    if (pthread_mutex_trylock(mutex))
        return false;
    rank_took(rank, number);
    return true;
}

static inline void lock_release(pthread_mutex_t *mutex, enum lock_rank rank, unsigned number)
{
    rank_released(rank, number);
    pthread_mutex_unlock(mutex);
}

#endif
