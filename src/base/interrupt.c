/* interrupt - see interrupt.h. */
#include "base/interrupt.h"

#include "base/clock.h"

static _Thread_local struct {
    tern_interrupt_function *check;
    void *context;
    uint64_t next_ns; /* not to be called before */
} interrupt;

void tern_set_interrupt(tern_interrupt_function *check, void *context)
{
    interrupt.check = check;
    interrupt.context = context;
    interrupt.next_ns = 0;
}

bool interrupt_is_set(void)
{
    return interrupt.check;
}

enum tern_status interrupt_check(void)
{
    if (!interrupt.check)
        return TERN_OK;
    uint64_t now = clock_now_ns();
    if (now < interrupt.next_ns)
        return TERN_OK;
    interrupt.next_ns = now + INTERRUPT_MS * UINT64_C(1000000);
    if (!interrupt.check(interrupt.context))
        return TERN_OK;
    interrupt.next_ns = 0;
    return fail(TERN_INTERRUPTED, "the program interrupted a call that waited");
}
