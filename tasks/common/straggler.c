/* straggler - see straggler.h. */
#include "common/straggler.h"

#include <errno.h>
#include <time.h>

#include "common/progress.h"

static double waited_s(struct tern_worker *worker)
{
    struct tern_worker_stats stats = {.struct_size = sizeof stats};
    return tern_worker_get_stats(worker, &stats) ? 0 : stats.waited_s;
}

void straggler_begin(struct straggler *straggler, struct tern_worker *worker)
{
    *straggler = (struct straggler){.since_s = seconds_now(), .waited_s = waited_s(worker)};
}

void straggler_lag(struct straggler *straggler, struct tern_worker *worker)
{
    const double worked_s =
        seconds_now() - straggler->since_s - (waited_s(worker) - straggler->waited_s);
    const double sleep_s = worked_s > 0 ? (STRAGGLER_SLOWNESS - 1) * worked_s : 0;
    struct timespec left = {.tv_sec = (time_t)sleep_s,
                            .tv_nsec = (long)((sleep_s - (double)(time_t)sleep_s) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
    straggler_begin(straggler, worker);
}
