/*
 * site - what the parts of one simulated node share: its place in the run, its tables, and how far its
 * rounds have come.
 */
#ifndef SIM_SITE_H
#define SIM_SITE_H

#include "core/intents.h"
#include "core/pace.h"
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

/* How far the rounds of a shard have come. */
struct progress {
    /* Rounds are numbered from 1: those begun and those ended. */
    uint64_t n_begun, n_ended;
    /* Sweeps through what owners have to tell (core/sweep.h): begun, and the last one that is over. */
    uint64_t n_sweeps_begun, n_sweeps;
    uint64_t last_clean; /* the latest round that ended well and left nothing over; 0: none */
    uint64_t n_clean;    /* such rounds */
};

/* A number for each shard, of sweeps that are to be over; 0: none. */
struct awaited {
    uint64_t sweeps[SIM_MAX_SHARDS];
};

struct site {
    struct sim *sim;
    struct check *check;
    const struct dists *dists;
    struct figures *figures;
    struct core *core;
    struct core_table *tables; /* by enum sim_table */
    /* Of its workers, by shard: lists; those of closed ones are the rounds' to free. */
    struct intents *intents[SIM_MAX_SHARDS];
    struct pace pace; /* of its workers */
    struct progress progress[SIM_MAX_SHARDS];
    uint32_t round_wanted; /* bits of shards: the next round is to begin now, */
    uint32_t round_soon;   /* or within BUSY_MS */
    bool rounds_over;    /* one has failed: there will be no further one */
};

/* The outcome of an operation: failures are violations unless they are to be expected. */
void site_ended(const struct site *site, enum tern_status status, const char *what);

#define ALL_SHARDS (~UINT32_C(0))

/* The next sweep of each shard that begins from now on; and whether those are over. */
struct awaited site_next_sweeps(const struct site *site);
bool site_is_swept(const struct site *site, const struct awaited *awaited);

/* Wants rounds of the shards in which they are not. */
void site_want_sweeps(struct site *site, const struct awaited *awaited);

/* Whether a key is here: it has a row, which may be a replica, or gets one when it is first used. */
bool site_has(const struct site *site, enum sim_table table, uint32_t index, bool *is_replica);

#endif
