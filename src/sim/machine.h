/*
 * machine - one simulated node: its tables, its service, its calls to the coordinator and its workers.
 *
 * It does what a program does: joins, opens its tables, lets its workers work in phases with a
 * barrier, a reduction or a broadcast after each, and leaves. A pulse tells the coordinator that it
 * lives, as node/engine.c's does.
 *
 * Before it meets the others after a phase, it waits for two rounds that leave nothing over: what was
 * done here is then with the owners, and what they had is here. In the phases after the last with
 * operations all replicas become equal; then the workers are closed, and replicas go away; then every
 * home learns where its keys are.
 */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include "sim/rounds.h"
#include "sim/service.h"
#include "sim/worker.h"

enum {
    WORKERS = 2,
    WORK_PHASES = 3,
    QUIET_PHASE,  /* replicas become equal */
    CLOSED_PHASE, /* and go away */
    PHASES        /* the last: all is known */
};

#define SIM_DEADLINE_NS UINT64_C(1000000000)

struct machine;

/* What all machines of a run share. */
struct run {
    struct machine *const *machines; /* by node */
    struct sim *sim;
    struct check check;
    struct dists dists;
    uint32_t n_nodes, n_shards, n_steps;
    uint32_t epoch;
    uint64_t seed;
    struct figures figures;
    /* By node, as it has said so itself. */
    bool *joining;
    uint32_t *phase; /* the latest it has come to */
};

enum state { JOINING, OPENING, WORKING, MEETING, LEAVING, ENDED };

struct machine {
    struct run *run;
    struct core core;
    struct service services[SIM_MAX_SHARDS];
    struct core_table tables[N_SIM_TABLES];
    bool opened[N_SIM_TABLES];
    struct site site;
    struct worker workers[WORKERS];
    struct caller control, pulse;
    struct rounds rounds[SIM_MAX_SHARDS];
    bool waits;                             /* the work of this phase is done: */
    uint64_t enough_rounds[SIM_MAX_SHARDS]; /* clean ones, for all that was done, */
    struct awaited enough_sweeps;           /* and sweeps */
    uint64_t since_ns;                      /* when that was decided */
    bool flushed;           /* those rounds have been */
    struct op call, ping;
    bool calling, pinging;
    int64_t given[2]; /* of a call */
    uint8_t shape[64];
    uint32_t dead; /* 1 + a node known to be dead; 0: none */
    enum state state;
    uint32_t n_opened;
    uint32_t phase;
    uint32_t numbers[3]; /* of barriers, reductions and broadcasts so far */
    bool again;          /* an earlier process of this node had joined */
};

/* NULL when memory is used up. */
struct machine *machine_new(struct run *run, uint32_t node, uint64_t incarnation, bool again);
void machine_free(struct machine *machine);

/* Handles an event of this node. */
void machine_event(struct machine *machine, const struct sim_event *event);

/* What it is doing, for sentences. */
const char *machine_doing(const struct machine *machine);

#endif
