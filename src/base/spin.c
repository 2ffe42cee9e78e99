/* spin - see spin.h. */
#include "base/spin.h"

#include <time.h>

#include "base/clock.h"
#include "base/fault.h"

enum { AWAKE_TRIES = 64 * 1024, SLEEP_NS = 50000 };

bool watch_waits(struct watch *watch, struct spin *spin)
{
    fault_point();
    if (watch_lost(watch) && !fault(FAULT_LOSS_UNSEEN))
        return false;
#ifdef TERN_DEFECTS
    const uint64_t now_ns = fault_now_ns;
#else
    const uint64_t now_ns = clock_now_ns();
#endif
    if (!spin->until_ns)
        spin->until_ns = now_ns + watch->patience_ns;
    bool is_late = now_ns >= spin->until_ns && !fault(FAULT_PATIENCE_ENDLESS);
    if (is_late && !fault(FAULT_LOSS_UNSEEN)) {
        watch_lose(watch, WATCH_STUCK);
        return false;
    }
    if (spin->tries > AWAKE_TRIES && !fault_is_simulated)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    return true;
}
