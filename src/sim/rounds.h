/*
 * rounds - when a shard of a simulated node runs its rounds (core/round.h), as node/sync.c does for a real one.
 *
 * Pauses between them grow while nothing changes. Requests that were held until the end of one are then tried again.
 */
#ifndef SIM_ROUNDS_H
#define SIM_ROUNDS_H

#include "core/round.h"
#include "sim/caller.h"
#include "sim/service.h"
#include "sim/site.h"

struct rounds {
    struct site *site;
    struct service *service;
    uint32_t shard;
    struct caller caller;
    uint64_t tag; /* of the timer between rounds */
    struct round round;
    uint64_t pause_ns, next_ns;
};

void rounds_init(struct rounds *rounds);
void rounds_fini(struct rounds *rounds);

/* Goes on as far as it can now, once there is a table that needs rounds. True if a round has begun. */
bool rounds_run(struct rounds *rounds);

#endif
