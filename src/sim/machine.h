/*
 * machine - one simulated node: its tables, its callees, its calls to the coordinator and its workers.
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

#include "core/pulse.h"
#include "sim/rounds.h"
#include "sim/callee.h"
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

/* Sends the batches of a shard, as node/backup_driver.c does. */
struct sim_backup {
    struct caller caller;
    struct op op;
    bool is_sending;
};

/* What all machines of a run share. */
struct run {
    struct machine *const *machines; /* by node */
    struct sim *sim;
    struct check check;
    struct dists dists;
    uint32_t n_machines, n_shards, n_steps;
    uint32_t late_node; /* opens its tables so much later than the others, who wait for it: */
    uint64_t late_ns;
    uint32_t epoch;
    uint64_t seed;
    uint32_t n_victims;      /* given up since all backups were complete */
    uint32_t per_host;       /* nodes of a host; 1: nothing is shared */
    uint32_t *leaders;       /* by node; NULL: each is a member of its own */
    struct memory *memories; /* by leader and table, of hosts with several nodes */
    struct figures figures;
    struct blame blame;
    /* By node, as it has said so itself. */
    bool *joining;
    uint32_t *phase; /* the latest it has come to */
};

/* A table that the nodes of a host share. */
struct memory {
    struct shared_table *shared; /* NULL: none has opened it yet */
    uint64_t bytes;
};

/* PARTING: it leaves before the others, which go on without it. */
enum state { JOINING, OPENING, WORKING, MEETING, LEAVING, PARTING, ENDED };

struct machine {
    struct run *run;
    struct view *view, *leaders;
    struct core core;
    struct core member; /* as whom it has tables that nodes of a host share */
    struct peers peers; /* what it knows of the other nodes */
    struct callee callees[SIM_MAX_SHARDS];
    struct core_table tables[N_SIM_TABLES];
    bool opened[N_SIM_TABLES];
    struct placed *placed[N_SIM_TABLES]; /* the homes that were chosen; NULL: none */
    struct sim_node sim_node;
    struct worker workers[WORKERS];
    struct caller control, pulse_caller;
    struct pulse pulse;
    struct sim_rounds rounds[SIM_MAX_SHARDS];
    struct sim_backup backups[SIM_MAX_SHARDS];
    bool waits;                             /* the work of this phase is done: */
    uint64_t enough_rounds[SIM_MAX_SHARDS]; /* clean ones, for all that was done, */
    struct awaited enough_sweeps;           /* and sweeps */
    uint64_t enough_batches[SIM_MAX_SHARDS];
    bool flushed; /* those rounds have been */
    struct op call;
    bool calling;
    int64_t given[2]; /* of a call */
    uint8_t shape[64];
    enum state state;
    uint32_t n_opened;
    uint64_t opens_ns; /* not to open a table before */
    uint32_t phase;
    uint32_t numbers[3]; /* of barriers, reductions and broadcasts so far */
    bool again;          /* an earlier process of this node had joined */
    bool is_to_part;     /* it leaves at the end of its phase, when */
    bool has_closed;     /* its workers are closed and all is flushed, */
    bool has_parted;     /* and has left */
};

/* NULL when memory runs out. */
struct machine *machine_new(struct run *run, uint32_t node, uint64_t incarnation, bool again);
void machine_free(struct machine *machine);

/* Whether the others go on without it, or may do so at any moment. */
bool machine_is_gone(const struct machine *machine);

/* What is left of a machine that has crashed, or left; NULL when memory runs out. */
struct machine *machine_wreck(struct run *run, uint32_t node);

/* Whether the nodes with the backups have copies of all of this one's rows, which may lack the latest changes. */
bool machine_is_backed(struct machine *machine);

/* Handles an event of this node. */
void machine_event(struct machine *machine, const struct sim_event *event);

/* What it is doing, for sentences. */
const char *machine_doing(const struct machine *machine);

#endif
