/*
 * callee - a shard's service (core/service.h) over the simulated network: its driver on virtual time, as node/shard.c is
 * on sockets. New connections come to the first shard, which gives them to the one that they ask for.
 */
#ifndef SIM_CALLEE_H
#define SIM_CALLEE_H

#include "core/service.h"
#include "net/sim.h"
#include "sim/caller.h"
#include "sim/check.h"

struct incoming {
    struct session session; /* first */
    struct holder holder;
    struct callee *callee; /* whose it is */
    struct sim_end *end;
    struct cutter cutter;
};

struct callee {
    struct callee *all; /* by shard */
    struct sim *sim;
    struct core *core;
    struct service service;
    uint32_t *round_soon; /* the node's: a bit for each shard */
    struct check *check;
    struct buffer out; /* answers being made */
};

/* Makes the callee of a shard, which is at its place among those of all. Frees the group if it fails. */
enum tern_status callee_init(struct callee *all, uint32_t shard, struct sim *sim, struct core *core,
                             struct peers *peers, struct group *group, uint32_t *round_soon,
                             struct check *check);
void callee_fini(struct callee *callee);

/* To the first shard. */
void callee_accepted(struct callee *callee, struct sim_end *end);
void callee_bytes(struct holder *holder, const uint8_t *bytes, size_t n);
void callee_closed(struct holder *holder);

/* Now and then. */
void callee_tick(struct callee *callee);

#endif
