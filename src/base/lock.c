/* lock - see lock.h. */
#include "base/lock.h"

#include <errno.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* A thread that wakes waits for the lock again. */
static void wakes(struct lock *lock)
{
    rank_waits(LOCK_RANK(lock));
    rank_took(LOCK_RANK(lock));
}

void lock_wait(struct lock *lock, pthread_cond_t *condition)
{
    rank_released(LOCK_RANK(lock));
    pthread_cond_wait(condition, &lock->mutex);
    wakes(lock);
}

bool lock_wait_until(struct lock *lock, pthread_cond_t *condition, uint64_t end_ns)
{
    const struct timespec end = {.tv_sec = (time_t)(end_ns / SECOND_NS),
                                 .tv_nsec = (long)(end_ns % SECOND_NS)};
    rank_released(LOCK_RANK(lock));
    const int outcome = pthread_cond_timedwait(condition, &lock->mutex, &end);
    wakes(lock);
    return outcome != ETIMEDOUT;
}
