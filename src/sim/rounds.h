/*
 * rounds - the rounds of replicas of a simulated node: what node/sync.c does in a thread.
 *
 * A round takes what this node has changed, asks all owners at once, again while one has more, and ends
 * when all have answered. Pauses between rounds grow while nothing changes.
 */
#ifndef SIM_ROUNDS_H
#define SIM_ROUNDS_H

#include "core/replica.h"
#include "sim/worker.h"

struct question {
    struct op op;
    struct buffer body;
    bool asked, more;
};

struct rounds {
    const struct site *site;
    struct caller caller;
    uint64_t tag; /* of the timer between rounds */
    struct question *questions;
    bool running; /* a round is under way */
    bool resting; /* that timer is set */
    bool busy;    /* something was exchanged in this round */
    uint64_t pause_ns;
    uint64_t n_rounds; /* that have ended */
    bool over;         /* a round has failed: there will be no further one */
};

enum tern_status rounds_init(struct rounds *rounds);
void rounds_fini(struct rounds *rounds);

/* Goes on as far as it can now, once the table is open. */
void rounds_run(struct rounds *rounds);

#endif
