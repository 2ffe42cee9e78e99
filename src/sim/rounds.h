/*
 * rounds - the rounds of a simulated node: what node/sync.c does for tables with replicas of every key
 * (core/replica.h) and for those whose keys come and go (core/manager.h).
 *
 * A round looks at what workers intend and at what was changed; then it asks all nodes concerned about all
 * tables at once, again while there is more to say or hear, and ends when all have answered. Requests that were held until then are tried again. Pauses grow while nothing changes.
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
    struct caller caller;
    uint64_t tag; /* of the timer between rounds */
    struct round round;
    uint64_t pause_ns, next_ns;
    uint64_t n_clean; /* rounds that ended with nothing left over */
};

void rounds_init(struct rounds *rounds);
void rounds_fini(struct rounds *rounds);

/* Goes on as far as it can now, once there is a table that needs rounds. True if a round has begun. */
bool rounds_run(struct rounds *rounds);

#endif
