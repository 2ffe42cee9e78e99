/*
 * rounds - the rounds (core/rounds.h) of one shard of a simulated node: their driver on virtual time, as node/round_driver.c is
 * with threads.
 */
#ifndef SIM_ROUNDS_H
#define SIM_ROUNDS_H

#include "core/rounds.h"
#include "sim/callee.h"
#include "sim/caller.h"
#include "sim/sim_node.h"

struct sim_rounds {
    struct rounds rounds;
    struct sim_node *sim_node;
    struct callee *callee;
    uint32_t shard;
    struct caller caller;
    uint64_t tag;    /* of the timer between rounds, */
    uint64_t due_ns; /* which comes then */
};

/* The caller is initialised. */
void sim_rounds_init(struct sim_rounds *rounds);
void sim_rounds_fini(struct sim_rounds *rounds);

/* Goes on as far as it can now, once there is a table that needs rounds. True if a round has begun. */
bool sim_rounds_run(struct sim_rounds *rounds, bool works);

#endif
