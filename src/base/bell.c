/* bell - see bell.h. */
#include "base/bell.h"

#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A waiter counts itself before the system compares `seen`. So whoever rings after that sees it here, and whoever rang
 * before has changed what is compared. A process that dies while it waits leaves a call per ring behind, nothing worse. */
void bell_ring(struct bell *bell)
{
    atomic_fetch_add(&bell->n_rings, 1);
    if (atomic_load(&bell->n_waiting))
        (void)syscall(SYS_futex, &bell->n_rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void bell_wait(struct bell *bell, uint32_t seen, uint64_t most_ns)
{
    const struct timespec most = {.tv_sec = (time_t)(most_ns / UINT64_C(1000000000)),
                                  .tv_nsec = (long)(most_ns % UINT64_C(1000000000))};
    atomic_fetch_add(&bell->n_waiting, 1);
    (void)syscall(SYS_futex, &bell->n_rings, FUTEX_WAIT, seen, &most, NULL, 0);
    atomic_fetch_sub(&bell->n_waiting, 1);
}
