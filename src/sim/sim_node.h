/*
 * sim_node - what the parts of one simulated node share: its place in the run, its tables, and how far its
 * rounds have come.
 */
#ifndef SIM_SIM_NODE_H
#define SIM_SIM_NODE_H

#include "core/intents.h"
#include "core/rounds.h"
#include "core/worker_clocks.h"
#include "net/sim.h"
#include "sim/check.h"
#include "sim/dists.h"

/* What is counted over a whole run. */
struct figures {
    uint64_t n_operations, n_failed;
    uint64_t n_moves,
        n_replicas;        /* main copies that came, and replicas that were made, of all nodes */
    uint64_t n_redirected; /* requests that met a node that did not have the key */
    uint64_t n_intended;   /* keys whose intent was signalled early and has begun */
    uint64_t n_late;       /* of these: they were not here then */
    uint64_t n_sampled;    /* keys of samples that were handed out */
    uint64_t n_brought;    /* of these: not here when they were drawn, and here by then */
    uint64_t n_postponed;  /* keys that were put off to the end of their sample */
};

enum { SIM_MAX_SHARDS = 4 };

/* A number for each shard, of sweeps that are to be over; 0: none. */
struct awaited {
    uint64_t sweeps[SIM_MAX_SHARDS];
};

/* Nodes, as bits, that others may name when they fail: a fault struck them, or they have failed themselves. */
struct blame {
    uint64_t nodes;
    uint64_t unopened[N_SIM_TABLES]; /* by table: those that leave and have not opened it */
};

struct sim_node {
    struct sim *sim;
    struct blame *blame; /* of the run */
    struct check *check;
    const struct dists *dists;
    struct figures *figures;
    struct core *core;
    struct core_table *tables; /* by enum sim_table */
    /* Of its workers, by shard: lists; those of closed ones are the rounds' to free. */
    struct intents *intents[SIM_MAX_SHARDS];
    struct worker_clocks clocks;           /* of its workers */
    struct rounds *rounds[SIM_MAX_SHARDS]; /* of its shards */
    uint32_t round_wanted;                 /* bits of shards: the next round is to begin now, */
    uint32_t round_soon;                   /* or as soon as the present one is over */
    bool may_fail;                         /* it was struck so that others may give it up */
    bool rounds_over;                      /* one has failed: there will be no further one */
};

/* The outcome of an operation: failures are violations unless they are to be expected, and name a node to blame. */
void sim_node_ended(const struct sim_node *sim_node, enum tern_status status, const char *what);

/* Whether the key is at no node, because its home leaves and has not opened the table. */
bool sim_node_is_nowhere(const struct sim_node *sim_node, enum sim_table table, uint32_t index);

#define ALL_SHARDS (~UINT32_C(0))

/* The next sweep of each shard that begins from now on; and whether those are over. */
struct awaited sim_node_next_sweeps(const struct sim_node *sim_node);
bool sim_node_is_swept(const struct sim_node *sim_node, const struct awaited *awaited);

/* Wants rounds of the shards in which they are not. */
void sim_node_want_sweeps(struct sim_node *sim_node, const struct awaited *awaited);

/* Whether a key is here: it has a row, which may be a replica, or gets one when it is first used. */
bool sim_node_has(const struct sim_node *sim_node, enum sim_table table, uint32_t index,
                  bool *is_replica);

#endif
