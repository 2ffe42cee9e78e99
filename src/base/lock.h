/*
 * lock - a mutex with a rank (invariant.h), and waiting on a condition under it. Debug and sanitizer builds check that
 * locks are taken in the order of their ranks; elsewhere a lock is a mutex and nothing more.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/invariant.h"

struct lock {
    pthread_mutex_t mutex;
#ifdef TERN_INVARIANTS
    enum lock_rank rank;
    unsigned number; /* orders locks of one rank */
#endif
};

#ifdef TERN_INVARIANTS
#define LOCK_INITIALIZER(its_rank)                                          \
    {                                                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (its_rank), .number = 0 \
    }
#define LOCK_RANK(lock) (lock)->rank, (lock)->number
#else
#define LOCK_INITIALIZER(its_rank)         \
    {                                      \
        .mutex = PTHREAD_MUTEX_INITIALIZER \
    }
#define LOCK_RANK(lock) RANK_NODE, ((void)(lock), 0U) /* nobody looks at it */
#endif

static inline void lock_init(struct lock *lock, enum lock_rank rank, unsigned number)
{
    pthread_mutex_init(&lock->mutex, NULL);
#ifdef TERN_INVARIANTS
    lock->rank = rank;
    lock->number = number;
#else
    (void)rank, (void)number;
#endif
}

static inline void lock_fini(struct lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline void lock_take(struct lock *lock)
{
    rank_waits(LOCK_RANK(lock));
    pthread_mutex_lock(&lock->mutex);
    rank_took(LOCK_RANK(lock));
}

static inline bool lock_try(struct lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex))
        return false;
    rank_took(LOCK_RANK(lock));
    return true;
}

static inline void lock_release(struct lock *lock)
{
    rank_released(LOCK_RANK(lock));
    pthread_mutex_unlock(&lock->mutex);
}

/* A condition whose waits end by the monotonic clock. */
void condition_init(pthread_cond_t *condition);

/* Waits for a condition under a lock, which is released meanwhile; the second until a time (base/clock.h) at the latest:
 * false when it has come. */
void lock_wait(struct lock *lock, pthread_cond_t *condition);
bool lock_wait_until(struct lock *lock, pthread_cond_t *condition, uint64_t end_ns);

#endif
