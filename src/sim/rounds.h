/*
 * rounds - the rounds of a simulated node: what node/sync.c does for tables with replicas of every key
 * (core/replica.h) and for those whose keys come and go (core/manager.h).
 *
 * A round looks at what workers intend and at what was changed; then it asks all nodes concerned about all
 * tables at once, again while there is more to say or hear, and ends when all have answered. Requests that were held until then are tried again. Pauses grow while nothing changes.
 */
#ifndef SIM_ROUNDS_H
#define SIM_ROUNDS_H

#include "core/exchange.h"
#include "sim/caller.h"
#include "sim/service.h"
#include "sim/site.h"

struct rounds {
    struct site *site;
    struct service *service;
    struct caller caller;
    uint64_t tag; /* of the timer between rounds */
    struct exchange exchanges[N_SIM_TABLES];
    bool running;            /* a round is under way */
    enum tern_status status; /* of this round */
    char sentence[160];      /* when it is not TERN_OK */
    bool busy;               /* something was exchanged in this round */
    bool left_over;          /* something must go into another one */
    bool sweeps;             /* a sweep is under way (core/sweep.h); it may take several rounds */
    bool intends;            /* workers have open intents, or replicas are kept */
    uint64_t pause_ns, next_ns;
    uint64_t n_clean; /* rounds that ended with nothing left over */
};

enum tern_status rounds_init(struct rounds *rounds);
void rounds_fini(struct rounds *rounds);

/* Goes on as far as it can now, once there is a table that needs rounds. True if a round has begun. */
bool rounds_run(struct rounds *rounds);

#endif
