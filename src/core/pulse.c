/* pulse - see pulse.h. */
#include "core/pulse.h"

#include "core/defect.h"

enum { COORDINATOR = 0, PULSES_PER_DEADLINE = 4 };

void pulse_init(struct pulse *pulse, struct lanes *lanes)
{
    *pulse = (struct pulse){.lanes = lanes};
    lanes->is_pulse = true;
}

bool pulse_ask(struct pulse *pulse, uint32_t formed)
{
    if (pulse->is_asking || defect(DEFECT_PULSE_SKIPPED))
        return false;
    pulse->op = (struct op){.fields.ping = {atomic_exchange_explicit(&pulse->lanes->peers->unserved,
                                                                     0, memory_order_relaxed),
                                            formed}};
    pulse->is_asking = !client_call(pulse->lanes->client, COORDINATOR, &pulse->op, FRAME_PING);
    return pulse->is_asking;
}

enum tern_status pulse_hear(struct pulse *pulse, uint32_t *dead, struct buffer *view)
{
    pulse->is_asking = false;
    const enum tern_status status = op_end(&pulse->op);
    *dead = status ? COORDINATOR + 1 : (uint32_t)pulse->op.answer.fields.ping_done.dead;
    if (*dead)
        peers_give_up(pulse->lanes->peers, *dead - 1);
    else if (!status)
        (void)buffer_append(view, buffer_head(&pulse->op.answer_body),
                            buffer_size(&pulse->op.answer_body));
    buffer_free(&pulse->op.answer_body);
    return status;
}

uint64_t pulse_pause_ns(const struct peers *peers)
{
    return peers->deadline_ns / PULSES_PER_DEADLINE;
}
