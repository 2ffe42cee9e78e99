/*
 * worker - one worker of a simulated node: random pulls, pushes and sets, some waited for at once and
 * some left under way, on one key or many. node/access.c and node/remote.c do the same for a program.
 */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include "sim/caller.h"
#include "sim/check.h"

enum { MAX_KEYS = 24, SLOTS = 4 };

/* What a worker sees of its node, and of the run. */
struct site {
    struct sim *sim;
    struct check *check;
    struct core *core;
    struct core_table *tables; /* by enum sim_table */
    uint16_t numbers[N_SIM_TABLES];
    uint64_t *n_operations, *n_failed; /* of the run */
};

/* An operation under way. */
struct slot {
    bool used;
    enum frame_kind kind;
    struct op op;
    struct deed deed;
    uint32_t indexes[MAX_KEYS];
    uint64_t keys[MAX_KEYS];
    uint64_t resumed[MAX_KEYS]; /* line.n_resumed of the key's lane at the start */
};

struct worker {
    const struct site *site;
    struct caller caller;
    uint32_t index; /* among those of all nodes */
    uint64_t tag;   /* of the timer between operations */
    uint32_t n_left, n_started;
    bool resting;           /* that timer is set */
    struct slot *waits_for; /* NULL: goes on */
    struct slot slots[SLOTS];
};

/* Lets it do n more operations. */
void worker_begin(struct worker *worker, uint32_t n);

/* Goes on as far as it can now. True if all operations have ended. */
bool worker_run(struct worker *worker);

/* Its process is gone: what was under way stays unconfirmed. Frees everything. */
void worker_fini(struct worker *worker);

/* The outcome of an operation: failures are violations unless they are to be expected. */
void site_ended(const struct site *site, enum tern_status status, const char *what);

#endif
